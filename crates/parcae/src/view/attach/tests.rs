//! Looking inside through the socket, and what is not allowed.

use super::*;
use crate::prelude::*;
use crate::scope::cap::{BudgetLimits, Delegation};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("parcae-test-{}-{name}.sock", std::process::id()))
}

fn ask(stream: &UnixStream, request: &str) -> String {
    writeln!(&mut &*stream, "{request}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.ends_with('\n'), "cut off: {answer}");
    answer.trim_end().to_owned()
}

/// Asks until the answer satisfies the condition.
fn ask_until(stream: &UnixStream, request: &str, ready: impl Fn(&str) -> bool) -> String {
    for _ in 0..5_000 {
        let answer = ask(stream, request);
        if ready(&answer) {
            return answer;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("did not come to it: {}", ask(stream, request));
}

/// A field of the first task with this name.
fn field(dump: &str, name: &str, field: &str) -> u64 {
    let task = dump.split("{\"id\":").find(|t| t.contains(&format!(r#""name":"{name}""#))).unwrap();
    let rest = match field {
        "id" => task,
        _ => task.split(&format!(r#""{field}":"#)).nth(1).unwrap(),
    };
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn others_see_tasks_and_stats_but_change_nothing() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("look"))).unwrap();
    let mode = fs::metadata(attached.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (_tx, rx) = crate::sync::channel::channel::<u32>(0);
    let waits = rt.handle().spawn(move |cx| {
        cx.nursery(|n| {
            let rx = &rx;
            n.spawn_with(SpawnOpts::new().name("waits"), move |_| Ok(rx.recv()?))?.join()
        })
    });
    let stream = UnixStream::connect(attached.path()).unwrap();
    let hello = ask(&stream, "hello");
    assert!(hello.contains(r#""workers":2"#) && hello.contains(r#""may":[]"#), "{hello}");
    let dump =
        ask_until(&stream, "dump", |dump| dump.contains(r#""what":"receiving from channel""#));
    let stats = ask(&stream, "stats");
    assert!(stats.contains(r#""live":2"#) && stats.contains(r#""executed":"#), "{stats}");
    assert_eq!(ask(&stream, "deadlock"), r#"{"deadlock":null}"#);
    let tasks = ask(&stream, "tasks");
    assert!(
        tasks.contains(r#""what":"receiving from channel""#) && tasks.contains(r#""frames":[]"#),
        "{tasks}"
    );
    assert!(!tasks.contains(r#""frames":[{"#), "{tasks}");
    let id = field(&dump, "waits", "id");
    let one = ask(&stream, &format!("task {id:#x}"));
    assert!(one.starts_with(&format!(r#"{{"id":{id},"label":""#)), "{one}");
    assert!(one.contains(r#""name":"waits""#), "{one}");
    let label = one.split('"').nth(5).unwrap();
    let again = ask(&stream, &format!("task {label}"));
    assert!(again.starts_with(&format!(r#"{{"id":{id},"#)), "{label}: {again}");
    for wrong in ["0.", ".7", "root.-1", "0.07", "0.1099511627776", "99999999999.1", "x.1"] {
        let answer = ask(&stream, &format!("task {wrong}"));
        assert!(answer.contains("is not the number of a task"), "{wrong}: {answer}");
    }
    assert!(one.contains(r#""frames":[{"name":"#), "{one}");
    assert!(ask(&stream, "task 12345").contains("there is no task 12345"));
    let text = ask(&stream, "text");
    assert!(text.starts_with(r#"{"text":"2 tasks: "#) && text.contains(r"\n"), "{text}");
    let refused = ask(&stream, &format!("cancel {id}"));
    assert!(refused.contains("allow_cancel"), "{refused}");
    assert!(ask(&stream, "recharge 1 ops=1").contains("allow_recharge"));
    for nonsense in ["", "dump everything", "cancel", "\u{1}\"", "stats\tnow"] {
        assert!(ask(&stream, nonsense).starts_with(r#"{"error":""#), "{nonsense}");
    }
    waits.unwrap().cancel();
}

#[test]
fn others_cancel_and_recharge_where_they_may() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let limits = BudgetLimits::total(Budget { ops: 1_000, ..Budget::ZERO });
    let cap = rt.cap_budget(limits, Delegation::Forbidden);
    let opts = AttachOpts::new().path(path("change")).allow_cancel().allow_recharge(cap);
    let attached = rt.attach(opts).unwrap();
    let stream = UnixStream::connect(attached.path()).unwrap();
    assert!(ask(&stream, "hello").contains(r#""may":["cancel","recharge"]"#));
    let task = rt.handle().spawn(|cx| {
        let opts = NurseryOpts::new()
            .budget(Budget { ops: 100, ..Budget::UNLIMITED })
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            let hungry = n.spawn_with(SpawnOpts::new().name("hungry"), |cx| {
                for _ in 0..300 {
                    cx.checkpoint()?;
                }
                Ok(())
            })?;
            hungry.join()
        })
    });
    let other = rt.handle().spawn(|cx| {
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
            let sleepy = SpawnOpts::new().name("sleepy");
            let sleepy =
                n.spawn_with(sleepy, |_| crate::sync::time::sleep(Duration::from_secs(600)))?;
            assert!(sleepy.join().unwrap_err().is_cancelled());
            Ok(())
        })
    });
    let dump = ask_until(&stream, "dump", |dump| dump.contains("out of ops"));
    let nursery = field(&dump, "hungry", "nursery");
    for wrong in ["ops", "ops=many", "gold=1", ""] {
        assert!(ask(&stream, &format!("recharge {nursery} {wrong}")).contains("error"), "{wrong}");
    }
    assert!(ask(&stream, "recharge 999999 ops=1").contains("no nursery"));
    assert_eq!(ask(&stream, &format!("recharge {nursery} ops=500")), r#"{"ok":true}"#);
    let dump =
        ask_until(&stream, "dump", |dump| !dump.contains("hungry") && dump.contains("sleepy"));
    assert!(ask(&stream, "cancel nobody").contains("is not a number"));
    assert!(ask(&stream, "cancel 12345").contains("no task"));
    let sleepy = field(&dump, "sleepy", "id");
    assert_eq!(ask(&stream, &format!("cancel {sleepy:#x}")), r#"{"ok":true}"#);
    task.unwrap().join().unwrap();
    other.unwrap().join().unwrap();
}

/// A socket that a killed program has left is removed when the next program opens one; sockets of
/// running programs, and files that are no sockets of ours, stay.
#[test]
fn what_dead_programs_have_left_is_swept_away() {
    let dir = std::env::temp_dir().join(format!("parcae-sweep-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let dead = std::process::Command::new("true").spawn().map(|mut child| {
        child.wait().unwrap();
        child.id()
    });
    let alive = std::process::id();
    let dead = dead.unwrap();
    let left = format!("{dead}-0.sock");
    drop(UnixListener::bind(dir.join(&left)).unwrap());
    let files = [format!("{alive}-7.sock"), "notes.txt".into(), format!("{dead}-1.sock")];
    for name in &files {
        std::fs::write(dir.join(name), "").unwrap();
    }
    let served = format!("{dead}-2.sock");
    let _listens = UnixListener::bind(dir.join(&served)).unwrap();
    let stays: Vec<_> = files.into_iter().chain([served]).collect();
    super::sweep(&dir);
    assert!(!dir.join(&left).exists());
    assert!(stays.iter().all(|name| dir.join(name).exists()));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_socket_goes_with_its_owner_and_a_stale_one_is_replaced() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let place = path("stale");
    let attached = rt.attach(AttachOpts::new().path(&place)).unwrap();
    let taken = rt.attach(AttachOpts::new().path(&place)).unwrap_err();
    assert!(taken.to_string().contains("in use"), "{taken}");
    let open = UnixStream::connect(&place).unwrap();
    ask(&open, "hello");
    drop(attached);
    assert!(!place.exists() && UnixStream::connect(&place).is_err());
    let mut rest = String::new();
    assert_eq!(BufReader::new(&open).read_line(&mut rest).unwrap(), 0, "cut off");
    drop(UnixListener::bind(&place).unwrap()); // leaves its socket behind
    let attached = rt.attach(AttachOpts::new().path(&place)).unwrap();
    let open = UnixStream::connect(&place).unwrap();
    drop(rt);
    assert!(ask(&open, "dump").contains("has ended"));
    drop(attached);
    let rt = Runtime::builder().workers(1).build().unwrap();
    assert!(rt.attach(AttachOpts::new().path("/nowhere/at/all.sock")).is_err());
}

/// Only a socket that no program serves is replaced: neither a file, nor a folder, nor a link and
/// what it leads to, nor a socket of another kind.
#[test]
fn other_files_at_its_place_stay() {
    let dir = std::env::temp_dir().join(format!("parcae-stays-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (file, folder, link) = (dir.join("file"), dir.join("folder"), dir.join("link"));
    let (dangling, datagrams) = (dir.join("dangling"), dir.join("datagrams"));
    let (left, to_left) = (dir.join("left"), dir.join("to-left"));
    fs::write(&file, "precious").unwrap();
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::os::unix::fs::symlink(dir.join("nowhere"), &dangling).unwrap();
    drop(UnixListener::bind(&left).unwrap());
    std::os::unix::fs::symlink(&left, &to_left).unwrap();
    let _socket = std::os::unix::net::UnixDatagram::bind(&datagrams).unwrap();
    let rt = Runtime::builder().workers(1).build().unwrap();
    for place in [&file, &folder, &link, &dangling, &to_left, &datagrams] {
        let refused = rt.attach(AttachOpts::new().path(place)).unwrap_err().to_string();
        assert!(refused.contains("choose another path"), "{refused}");
        assert!(refused.contains(&*place.to_string_lossy()), "{refused}");
        assert!(fs::symlink_metadata(place).is_ok(), "{} is gone", place.display());
    }
    assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
    assert!(left.exists(), "reached through a link");
    assert!(!dir.join("nowhere").exists());
    fs::remove_dir_all(&dir).unwrap();
}

/// Another program has put its own file there: it is not removed with the socket that was there.
#[test]
fn a_file_that_has_taken_its_place_stays() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    for file in [true, false] {
        let place = path(if file { "file-instead" } else { "socket-instead" });
        let attached = rt.attach(AttachOpts::new().path(&place)).unwrap();
        fs::remove_file(&place).unwrap();
        let other = if file {
            fs::write(&place, "another's").unwrap();
            None
        } else {
            Some(UnixListener::bind(&place).unwrap())
        };
        drop(attached);
        assert!(place.exists(), "removed what was not its own");
        drop(other);
        fs::remove_file(&place).unwrap();
    }
}

#[test]
fn too_many_and_too_long_are_turned_away() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("many"))).unwrap();
    let open: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let stream = UnixStream::connect(attached.path()).unwrap();
            ask(&stream, "hello");
            stream
        })
        .collect();
    let late = UnixStream::connect(attached.path()).unwrap();
    let mut answer = String::new();
    BufReader::new(&late).read_line(&mut answer).unwrap();
    assert!(answer.contains("try again"), "{answer}");
    let long = "x".repeat(2 * LONGEST as usize);
    let _ = (&mut &open[0]).write_all(long.as_bytes());
    let mut answer = String::new();
    let mut answers = BufReader::new(&open[0]);
    answers.read_line(&mut answer).unwrap();
    assert!(answer.contains("error"), "{answer}");
    drop(attached);
}

/// The client of a connection that has ended reads no more.
fn rest(stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = String::new();
    io::Read::read_to_string(&mut &*stream, &mut rest).expect("the end, and not silence");
    rest
}

/// A connection that the server is done with is closed at once, not when the next one comes.
#[test]
fn a_connection_that_has_ended_is_closed() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("closed"))).unwrap();
    let stream = UnixStream::connect(attached.path()).unwrap();
    (&mut &stream).write_all("x".repeat(LONGEST as usize).as_bytes()).unwrap();
    assert!(rest(&stream).contains("error"));
}

#[test]
fn what_is_no_text_is_answered_like_any_nonsense() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("bytes"))).unwrap();
    let stream = UnixStream::connect(attached.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&mut &stream).write_all(b"\xff\xfe\0\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).expect("an answer, and not silence");
    assert!(answer.starts_with(r#"{"error":""#), "{answer}");
    assert!(ask(&stream, "hello").contains("workers"));
}

/// Signals may come to any thread. The listener goes on, and ends when it is told.
#[test]
fn a_signal_does_not_keep_the_listener() {
    extern "C" fn nothing(_: libc::c_int) {}
    let signal = libc::SIGRTMIN() + 5;
    // SAFETY: a handler that does nothing, for a signal that no other test uses.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
    let rt = Runtime::builder().workers(1).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("signal"))).unwrap();
    ask(&UnixStream::connect(attached.path()).unwrap(), "hello");
    thread::sleep(Duration::from_millis(20)); // it waits again, most likely
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap();
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() == "parcae-attach" {
            let tid: i32 = task.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: a signal that has a handler, to threads of this process.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
        }
    }
    thread::sleep(Duration::from_millis(20));
    let (tx, rx) = std::sync::mpsc::channel();
    thread::spawn(move || {
        drop(attached);
        tx.send(()).unwrap();
    });
    rx.recv_timeout(Duration::from_secs(20)).expect("the listener has ended");
}

#[test]
fn others_record_and_a_recording_ends_with_its_connection() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let attached = rt.attach(AttachOpts::new().path(path("trace"))).unwrap();
    let connect = || UnixStream::connect(attached.path()).unwrap();
    let first = connect();
    assert!(ask(&first, "trace stop").contains("no recording is running"));
    for wrong in [
        "trace",
        "trace begin",
        "trace start all",
        "trace start events=x",
        "trace start events=99999999",
    ] {
        assert!(ask(&first, wrong).contains("error"), "{wrong}");
    }
    assert_eq!(ask(&first, "trace start events=4096"), r#"{"ok":true}"#);
    let second = connect();
    assert!(ask(&second, "trace start").contains("another recording"));
    drop(first);
    ask_until(&second, "trace start", |answer| answer == r#"{"ok":true}"#);
    rt.run(|cx| cx.nursery(|n| n.spawn_with(SpawnOpts::new().name("watched"), |_| Ok(()))?.join()))
        .unwrap();
    writeln!(&mut &second, "trace stop").unwrap();
    let mut answers = BufReader::new(&second);
    let mut head = String::new();
    answers.read_line(&mut head).unwrap();
    let length = head.strip_prefix(r#"{"bytes":"#).unwrap().split(',').next().unwrap();
    let mut trace = vec![0; length.parse().unwrap()];
    io::Read::read_exact(&mut answers, &mut trace).unwrap();
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.starts_with(r#"{"traceEvents":["#) && trace.ends_with("}\n"), "{trace}");
    assert!(trace.contains("watched #"), "{trace}");
    drop(answers);
    assert!(ask(&second, "hello").contains("workers"), "it goes on as ever");
}
