//! Pipes and child processes: real ones on threads, scripted ones under the deterministic executor.

use crate::support::{child, deterministic_seeded, everywhere_seeded, runtime, threads};
use crate::{pattern, under};
use parcae::prelude::*;
use parcae_io::pipe::pipe;
use parcae_io::process::{Command, OnDrop, Stdio};
use parcae_io::sim::{self, ProgramEnd};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

#[test]
fn a_pipe_carries_every_byte() {
    everywhere_seeded(|cx, number| {
        let (mut reader, mut writer) = pipe()?;
        let sent = pattern([0, 1, 4096, 200_000][(number % 4) as usize], number as usize);
        cx.nursery(|n| {
            let bytes = sent.clone();
            n.spawn(move |_| Ok(writer.write_all(&bytes)?))?; // closes
            let mut got = Vec::new();
            reader.read_to_end(&mut got)?;
            assert!(got == sent);
            Ok(())
        })
    });
}

/// More output on both pipes than they hold, in an order that the parent does not know.
#[test]
fn both_outputs_are_read_at_the_same_time() {
    threads(|_| {
        let script = "i=0; while [ $i -lt 200 ]; do printf '%01000d' 1; printf '%01000d' 2 >&2; \
                      i=$((i+1)); done; exit 7";
        let output = Command::new("sh").args(["-c", script]).output()?;
        assert_eq!(output.status.code(), Some(7));
        assert_eq!((output.stdout.len(), output.stderr.len()), (200_000, 200_000));
        assert!(output.stdout.ends_with(b"1") && output.stderr.ends_with(b"2"));
        Ok(())
    });
}

#[test]
fn many_children_are_reaped_with_their_codes() {
    let rt = runtime(2);
    rt.run(|cx| {
        cx.nursery(|n| {
            let tasks: Vec<_> = (0..60)
                .map(|code| {
                    n.spawn(move |_| {
                        let script = format!("exit {code}");
                        Ok(Command::new("sh").args(["-c", &script]).status()?.code())
                    })
                })
                .collect::<parcae::Result<_>>()?;
            for (code, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.join()?, Some(code as i32));
            }
            Ok(())
        })
    })
    .unwrap();
}

/// Whether a process exists and is no zombie.
fn runs(id: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_cancelled_task_kills_its_child_if_it_was_asked_to() {
    threads(|cx| {
        for fate in [OnDrop::Kill, OnDrop::Leave] {
            let (stop, mut id) = (CancelToken::new(), 0);
            let outcome = cx.nursery_with(under(&stop), |_| {
                let mut child = Command::new("sleep").arg("600").on_drop(fate).spawn()?;
                id = child.id();
                stop.cancel();
                Ok(child.wait().map(drop)?)
            });
            assert!(outcome.unwrap_err().is_cancelled());
            assert_eq!(runs(id), fate == OnDrop::Leave);
            if fate == OnDrop::Leave {
                // SAFETY: takes no pointers. The child is ours, and not reaped before it ends.
                assert_eq!(unsafe { libc::kill(id as i32, libc::SIGKILL) }, 0);
                while std::path::Path::new(&format!("/proc/{id}")).exists() {
                    cx.sleep(Duration::from_millis(1))?; // until it is reaped
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_killed_child_says_so() {
    threads(|_| {
        let mut child = Command::new("sleep").arg("600").spawn()?;
        assert_eq!(child.try_wait()?, None);
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(libc::SIGKILL));
        assert_eq!(child.wait()?.signal(), Some(libc::SIGKILL), "again");
        child.kill()?; // it has ended: no error
        assert!(Command::new("/no/such/program").spawn().is_err());
        Ok(())
    });
}

/// The child's mask is empty and SIGPIPE has its default action, whatever this process has.
#[test]
fn a_child_has_the_default_signals() {
    threads(|_| {
        let output =
            Command::new("grep").args(["-E", "SigBlk|SigIgn", "/proc/self/status"]).output()?;
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            let mask = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
            let pipe = 1 << (libc::SIGPIPE - 1);
            assert_eq!(mask & pipe, 0, "{line}");
            assert!(!line.starts_with("SigBlk") || mask == 0, "{line}");
        }
        assert_eq!(text.lines().count(), 2);
        Ok(())
    });
}

/// The victim reads its input in a task and prints the length; its parent looks at the flags of the
/// description that both share.
#[test]
fn the_standard_input_keeps_its_flags() {
    if child::is_victim() {
        let rt = runtime(1);
        let read = rt.run(|_| {
            let mut input = String::new();
            parcae_io::stdio::stdin()?.read_to_string(&mut input)?;
            let mut errors = parcae_io::stdio::stderr()?;
            Ok(errors.write_all(format!("victim read {input}").as_bytes())?)
        });
        read.unwrap();
        return;
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    let shared = reader.as_fd().try_clone_to_owned().unwrap();
    let mut victim = child::victim(module_path!(), "the_standard_input_keeps_its_flags");
    let victim = victim.stdin(reader).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(20)); // it waits for input
    writer.write_all(b"42 apples").unwrap();
    drop(writer);
    let output = victim.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("victim read 42 apples"));
    // SAFETY: takes no pointers.
    let flags = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&shared), libc::F_GETFL) };
    assert_eq!(flags & libc::O_NONBLOCK, 0);
    for input in
        [std::process::Stdio::null(), std::fs::File::open("/proc/self/stat").unwrap().into()]
    {
        let mut victim = child::victim(module_path!(), "the_standard_input_keeps_its_flags");
        let output = victim.stdin(input).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn scripted_children_do_as_they_are_told() {
    deterministic_seeded(50, |cx, _| {
        sim::set_program("rev", |call| ProgramEnd {
            stdout: call.input.iter().rev().copied().collect(),
            stderr: b"done".to_vec(),
            code: call.args.len() as u8,
            after: Duration::from_secs(60),
        })?;
        let began = parcae::time::now();
        let mut rev = Command::new("rev");
        let mut child = rev.args(["a", "b"]).stdin(Stdio::Piped).stdout(Stdio::Piped).spawn()?;
        child.stdin.take().unwrap().write_all(b"abc")?;
        let output = child.wait_with_output()?;
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b"cba"[..]));
        assert!(parcae::time::now() - began >= Duration::from_secs(60));
        let missing = Command::new("none").spawn().unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let mut child = Command::new("rev").spawn()?;
        cx.nursery(|n| {
            n.spawn(|cx| cx.sleep(Duration::from_secs(1)))?;
            Ok(())
        })?;
        child.kill()?;
        assert_eq!(child.wait()?.signal(), Some(9));
        Ok(())
    });
}
