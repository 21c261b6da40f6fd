//! Looking into a running program: what `dump` and `top --once` print, and what they say when there
//! is none, or something else.

mod attached;

use attached::{Folder, Program, unnumbered};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn good(mut command: Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    output
}

/// The names of an object's fields, sorted.
fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Lines with what differs from run to run cut off.
fn cut<'t>(lines: impl Iterator<Item = &'t str>, at: &str) -> Vec<String> {
    lines.map(|line| unnumbered(line.split(at).next().unwrap_or_default())).collect()
}

#[test]
fn dump_shows_the_tree_of_tasks_with_their_stacks() {
    let test = "dump_shows_the_tree_of_tasks_with_their_stacks";
    if attached::played() {
        return;
    }
    let program = Program::start(test);
    for target in [None, Some(program.pid().to_string().into()), Some(program.socket())] {
        let all_wait = "9 tasks: 0 running, 0 ready, 8 waiting, 1 out of budget; 2 workers";
        let dump = || {
            let mut command = program.folder.parcae();
            command.arg("dump").args(target.clone());
            good(command)
        };
        // One of them goes on now and then.
        let output = (0..50).map(|_| dump()).find(|it| text(&it.stdout).contains(all_wait));
        let output = output.expect("all wait at some time");
        let mut lines = text(&output.stdout).lines();
        let head = lines.next().unwrap();
        assert!(head.ends_with(&format!(" (pid {})", program.pid())), "{head}");
        assert_eq!(lines.next(), Some(all_wait));
        let told = |line: &&str| line.contains(", spawned at") || line.contains("nursery 0x");
        let tree = cut(lines.clone().filter(told), ", spawned at");
        assert_eq!(
            tree,
            [
                "task #",
                "  nursery # `shop`: Open, 4 live",
                "    task # `cashier`",
                "    task # `clock`",
                "    task # `hotel`",
                "      nursery # `guests`: Closing, 3 live",
                "        task # `guest-1`",
                "        task # `guest-2`",
                "        task # `guest-3`",
                "    task # `landlord`",
                "      nursery # `tenant-7`: Closing, 1 live",
                "        task # `miner`",
            ]
            .map(String::from)
        );
        let stack = lines.filter(|line| line.contains("example::sleep_late at ")).count();
        assert_eq!(stack, 3, "{}", text(&output.stdout));
        assert!(!text(&output.stdout).contains(" parcae::"), "{}", text(&output.stdout));
    }
    let mut full = program.folder.parcae();
    full.args(["dump", "--full"]);
    let full = good(full);
    let shown = text(&full.stdout);
    assert!(shown.contains(" parcae::") && shown.contains("example::sleep_late at "), "{shown}");
}

#[test]
fn documents_have_the_fields_that_they_promise() {
    if attached::played() {
        return;
    }
    let program = Program::start("documents_have_the_fields_that_they_promise");
    let document = |args: &[&str]| -> Value {
        let mut command = program.folder.parcae();
        command.args(args);
        serde_json::from_slice(&good(command).stdout).expect("one JSON document")
    };
    let dump = document(&["dump", "--json"]);
    assert_eq!(fields(&dump), ["parts", "root", "tasks", "tenants", "workers"]);
    assert_eq!(fields(&dump["root"]), ["left", "live", "nursery", "state", "suspended"]);
    let tasks = dump["tasks"].as_array().unwrap();
    let miner = tasks.iter().find(|task| task["name"] == "miner").unwrap();
    assert_eq!(
        fields(miner),
        [
            "age_ms",
            "budget",
            "frames",
            "id",
            "label",
            "name",
            "nurseries",
            "nursery",
            "nursery_name",
            "owner",
            "spawned_at",
            "state",
            "wait",
            "worker"
        ]
    );
    assert_eq!(fields(&miner["wait"]), ["external", "ms", "note", "timed", "what"]);
    assert_eq!(fields(&miner["frames"][0]), ["file", "line", "name"]);
    let landlord = tasks.iter().find(|task| task["name"] == "landlord").unwrap();
    let nursery = &landlord["nurseries"][0];
    assert_eq!(fields(nursery), ["left", "live", "name", "nursery", "state", "suspended"]);
    assert_eq!((&nursery["left"]["ops"], &nursery["suspended"]), (&0.into(), &1.into()));

    let top = document(&["top", "--json"]);
    assert_eq!(fields(&top), ["parts", "program", "tasks", "tenants", "workers"]);
    assert_eq!(top["program"]["pid"], program.pid());
    assert_eq!(fields(&top["program"]), ["may", "parcae", "pid", "program", "workers"]);
    assert_eq!(top["tasks"].as_array().unwrap().len(), tasks.len());
    assert_eq!(top["tasks"][0]["frames"].as_array().unwrap().len(), 0, "no stacks");
}

#[test]
fn one_screen_goes_into_a_pipe() {
    if attached::played() {
        return;
    }
    let program = Program::start("one_screen_goes_into_a_pipe");
    let once = || {
        let mut command = program.folder.parcae();
        command.args(["top", "--once"]).env("CLICOLOR_FORCE", "1");
        good(command)
    };
    // The clock goes on now and then.
    let all_wait = |output: &Output| {
        let screen = text(&output.stdout);
        !screen.contains(" ready ") && !screen.contains(" running ")
    };
    let output = (0..100).map(|_| once()).find(all_wait).expect("all wait at some time");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let head = format!(" (pid {})  2 workers  9 tasks  executed ", program.pid());
    assert!(lines[0].contains(&head), "{}", lines[0]);
    assert_eq!(
        lines[2],
        "worker   executed/s  spawned/s  yielded/s   parked/s   stolen/s   executed      ended"
    );
    assert!(lines[3].starts_with("0 ") && lines[4].starts_with("1 "), "{lines:#?}");
    // The first two columns and the last two; ages and times are in between.
    let row = |line: &&str| -> Vec<String> {
        let cells = line.trim().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let time = |cell: &&str| cell.ends_with(" s") || cell.ends_with(" ms");
        cells.filter(|cell| !time(cell) && cell.parse::<u32>().is_err()).map(unnumbered).collect()
    };
    let rows: Vec<String> = lines[6..].iter().map(|line| row(line).join("|")).collect();
    assert_eq!(
        rows,
        [
            "TASK|STATE|WORKER|AGE|WAITED|WAIT|LEFT",
            "#|waiting|sleeping",
            "nursery shop #|open|4 live",
            "# cashier|waiting|receiving from channel (empty, capacity 1; 1 sender, 1 receiver)",
            "# clock|waiting|sleeping",
            "# hotel|waiting|for its children",
            "nursery guests #|closing|3 live",
            "# guest-1|waiting|sleeping",
            "# guest-2|waiting|sleeping",
            "# guest-3|waiting|sleeping",
            "# landlord|waiting|for its children",
            "nursery tenant-7 #|closing|1 live, 1 out of budget|ops 0",
            "# miner|exhausted|for a recharge (out of ops)|ops 0",
        ]
        .map(String::from)
    );
}

/// A server that answers one connection: a line for each request, then closes.
fn answers(path: &Path, lines: &'static [&'static str]) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut requests = BufReader::new(&stream);
        for line in lines {
            let mut request = String::new();
            requests.read_line(&mut request).unwrap();
            writeln!(&mut &stream, "{line}").unwrap();
        }
        // Read, so that closing is an end and no reset.
        let _ = requests.read_line(&mut String::new());
    })
}

const HELLO: &str = r#"{"parcae":"0.1.0","pid":7,"program":"bin/fake","workers":2,"may":[]}"#;

/// The exit code and what is on standard error; nothing may be on standard output.
fn bad(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (output.status.code(), text(&output.stderr).to_owned())
}

#[test]
fn who_does_not_answer_as_it_should_is_named() {
    let folder = Folder::new("answers");
    let path = folder.socket("x.sock");
    let cases: [(&[&str], &str); 6] = [
        (
            &["HTTP/1.1 400 Bad Request"],
            ": not the socket of a parcae program: unexpected answer \"HTTP/1.1 400 Bad Request\"\n",
        ),
        (&["{}"], ": not the socket of a parcae program: it does not identify itself\n"),
        (&[], " has ended, or has closed its socket\n"),
        (
            &[r#"{"error":"8 connections are open; try again"}"#],
            "the program refused: 8 connections are open; try again\n",
        ),
        (&[HELLO], "error: fake (pid 7) has ended, or has closed its socket\n"),
        (
            &[HELLO, r#"{"error":"the runtime has ended"}"#],
            "the program refused: the runtime has ended\n",
        ),
    ];
    for (lines, end) in cases {
        for subcommand in [
            &["dump"][..],
            &["top", "--once"],
            &["top", "--json"],
            &["trace", "record", "-o", "/dev/null"],
        ] {
            let server = answers(&path, lines);
            let mut command = folder.parcae();
            command.args(subcommand).arg(&path);
            let (code, err) = bad(command);
            assert_eq!(code, Some(4), "{subcommand:?}: {err}");
            assert!(
                err.starts_with("error: ") && err.ends_with(end),
                "{subcommand:?} {lines:?}: {err}"
            );
            server.join().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }
    // Something that is an answer, but not to this.
    let server = answers(&path, &[HELLO, r#"{"tasks":7}"#]);
    let mut command = folder.parcae();
    command.args(["top", "--once"]).arg(&path);
    let (code, err) = bad(command);
    assert_eq!(
        (code, err.as_str()),
        (Some(4), "error: the program refused: an unexpected answer to `tasks`\n")
    );
    server.join().unwrap();
}

#[test]
fn where_nobody_is_the_message_says_how_to_get_there() {
    let folder = Folder::new("nobody");
    let run = |args: &[&str]| {
        let mut command = folder.parcae();
        command.args(args);
        bad(command)
    };
    let (code, err) = run(&["dump"]);
    let dir = folder.socket("");
    let dir = dir.to_str().unwrap().trim_end_matches('/');
    assert_eq!(code, Some(3));
    assert_eq!(
        err,
        format!(
            "error: no program can be inspected: there is no socket in {dir}.\n  \
             A program opens one with `let _attached = rt.attach(AttachOpts::new())?;`.\n  \
             If its socket is in another folder, give its path. To try it:\n  \
             cargo run --release -p parcae --example attached\n"
        )
    );
    let (code, err) = run(&["top", "4711"]);
    assert_eq!(code, Some(3));
    assert!(err.starts_with("error: process 4711 cannot be inspected"), "{err}");

    let nothing = format!("{dir}/nothing.sock");
    assert_eq!(
        run(&["dump", &nothing]),
        (Some(3), format!("error: {nothing}: there is no such socket\n"))
    );
    let file = format!("{dir}/file");
    std::fs::write(&file, "text").unwrap();
    assert_eq!(run(&["dump", &file]), (Some(3), format!("error: {file}: this is not a socket\n")));
    let stale = format!("{dir}/9-0.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let message = format!("error: {stale}: no program listens there; it has ended\n");
    assert_eq!(run(&["dump", &stale]), (Some(3), message));
    // One that was left behind is not in the way of others.
    let server = answers(&folder.socket("7-0.sock"), &[HELLO, r#"{"text":"all is quiet"}"#]);
    let mut command = folder.parcae();
    command.arg("dump");
    assert_eq!(text(&good(command).stdout), "fake (pid 7)\nall is quiet\n");
    server.join().unwrap();
}

#[test]
fn of_several_one_has_to_be_named() {
    let folder = Folder::new("several");
    let paths = ["7-0.sock", "8-0.sock"].map(|name| folder.socket(name));
    let servers = paths.each_ref().map(|path| answers(path, &[HELLO]));
    let mut command = folder.parcae();
    command.arg("top");
    let (code, err) = bad(command);
    assert_eq!(code, Some(2));
    let lines = paths.each_ref().map(|path| format!("  7  fake  {}\n", path.display())).concat();
    let message = "error: several programs can be inspected; choose one by PID or SOCKET:\n";
    assert_eq!(err, format!("{message}{lines}"));
    servers.into_iter().for_each(|server| server.join().unwrap());
}

#[test]
fn a_screen_needs_a_terminal() {
    let folder = Folder::new("terminal");
    let server = answers(&folder.socket("7-0.sock"), &[HELLO]);
    let mut command = folder.parcae();
    command.arg("top");
    let message = "error: not a terminal: `--once` prints one screen, `--json` prints JSON\n";
    assert_eq!(bad(command), (Some(2), message.to_owned()));
    server.join().unwrap();
}

#[test]
fn without_permission_it_says_whose_it_is() {
    let folder = Folder::new("permission");
    let path = folder.socket("7-0.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
    std::fs::set_permissions(&path, mode).unwrap();
    let mut command = folder.parcae();
    command.arg("dump").arg(&path);
    if UnixStream::connect(&path).is_ok() {
        // Root may do everything. Another user may not, but has to be able to run the program.
        command.uid(65534).gid(65534);
        if command.output().is_err() {
            eprintln!(
                "skipped: without_permission_it_says_whose_it_is: others may not run this program"
            );
            return;
        }
    }
    let message = format!(
        "error: {}: permission denied. Only the user who runs the program can connect\n",
        path.display()
    );
    assert_eq!(bad(command), (Some(4), message));
}

#[test]
fn times_out_of_reason_are_refused() {
    for args in
        [["top", "--interval", "0"], ["top", "-i", "soon"], ["trace", "record", "--seconds=9999"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_parcae")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("seconds"), "{}", text(&output.stderr));
    }
}
