//! A policy service in another process, through the socket: it lives, is stopped, is killed, or
//! sends garbage.

use crate::support::*;
use child::{is_victim, victim};
use parcae::attach::{AttachOpts, Attached};
use parcae::policy::{
    DecidedBy, PolicyChange, PolicyDecision, PolicyDesk, PolicyOpts, PolicyService, PolicySource,
    PolicyView, RemoteSeat,
};
use parcae::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[allow(dead_code, unreachable_pub, reason = "other test programs use the rest")]
#[path = "../support/child.rs"]
mod child;

const SOCKET: &str = "PARCAE_TEST_POLICY_SOCKET";
/// Longer than any test takes, on any machine.
const LONG: Duration = Duration::from_secs(600);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(90), "{what}");
        std::thread::sleep(MS(2));
    }
}

/// A runtime with a policy of this patience and a socket; a tenant `web` is open.
fn served(name: &str, patience: Duration, test: impl FnOnce(&PolicyDesk, &Attached) + Send) {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let policy = rt.policy(PolicyOpts::new().patience(patience).grace(patience)).unwrap();
    let path = std::env::temp_dir().join(format!("parcae-policy-{}-{name}", std::process::id()));
    let attached = rt.attach(AttachOpts::new().path(path).allow_policy(&policy)).unwrap();
    let over = AtomicBool::new(false);
    let (over, policy, attached) = (&over, &policy, &attached);
    rt.run(|cx| {
        cx.nursery(|all| {
            all.spawn(move |cx| {
                cx.nursery_with(NurseryOpts::new().name("web").share(weight(1_024)), |n| {
                    n.spawn(move |cx| {
                        while !over.load(Ordering::Relaxed) {
                            cx.sleep(MS(1))?;
                        }
                        Ok(())
                    })?
                    .join()
                })
            })?;
            parcae::blocking(move || {
                until("web", || policy.explain("web").is_some());
                let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    test(policy, attached);
                }));
                over.store(true, Ordering::Relaxed);
                tested.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            })
        })
    })
    .unwrap();
}

/// Twice the weight for `web`.
struct Twice;

impl PolicyService for Twice {
    fn look(&mut self, view: &PolicyView) -> Option<PolicyDecision> {
        Some(PolicyDecision::on(view).weight("web", weight(2_048)))
    }
}

/// The service process.
fn start(test: &str, attached: &Attached) -> Child {
    victim(module_path!(), test).env(SOCKET, attached.path()).spawn().expect("it starts")
}

/// In the service process: serves until the connection ends.
fn serve() {
    let path = PathBuf::from(std::env::var_os(SOCKET).expect("told by its parent"));
    let seat = RemoteSeat::take(path, "twice", None).unwrap();
    let ended = seat.serve(Twice, MS(5));
    assert!(ended.is_err());
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: our child, which was not waited for.
    let sent = unsafe { libc::kill(child.id() as i32, signal) };
    assert_eq!(sent, 0);
}

fn is_in_force(policy: &PolicyDesk) -> bool {
    policy.explain("web").unwrap().weight == 2_048
}

// rule: S3-POLICY-7
#[test]
fn a_service_process_that_is_killed_gives_way() {
    if is_victim() {
        return serve();
    }
    served("killed", MS(150), |policy, attached| {
        let test = "a_service_process_that_is_killed_gives_way";
        let mut child = start(test, attached);
        until("its decision", || is_in_force(policy));
        assert_eq!(policy.status().service.as_deref(), Some("twice"));
        child.kill().unwrap();
        child.wait().unwrap();
        until("the seat", || policy.status().service.is_none());
        until("the built-in policy", || policy.status().source == PolicySource::BuiltIn);
        until("the table", || policy.explain("web").unwrap().by == DecidedBy::Program);
        // The next one is heard.
        let mut child = start(test, attached);
        until("the next decision", || is_in_force(policy));
        child.kill().unwrap();
        child.wait().unwrap();
        let changes: Vec<_> = policy.history().into_iter().map(|event| event.change).collect();
        assert!(changes.contains(&PolicyChange::Fallback), "{changes:?}");
    });
}

// rule: S3-POLICY-7
#[test]
fn a_service_process_that_is_stopped_gives_way_and_comes_back() {
    if is_victim() {
        return serve();
    }
    served("stopped", MS(150), |policy, attached| {
        let test = "a_service_process_that_is_stopped_gives_way_and_comes_back";
        let mut child = start(test, attached);
        until("its decision", || is_in_force(policy));
        signal(&child, libc::SIGSTOP);
        until("the built-in policy", || policy.status().source == PolicySource::BuiltIn);
        until("the table", || policy.explain("web").unwrap().weight == 1_024);
        assert_eq!(policy.status().service.as_deref(), Some("twice"), "it has the seat");
        signal(&child, libc::SIGCONT);
        until("its decision again", || is_in_force(policy));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// Sends a request with bytes after it, and returns the answer; empty if the connection has ended.
fn ask(stream: &UnixStream, request: &str, record: &[u8]) -> String {
    let mut text = format!("{request}\n").into_bytes();
    text.extend(record);
    let _ = (&mut &*stream).write_all(&text); // it may have been closed
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

/// Garbage of all kinds, and a flood of it: refused, counted, and the operator is served.
// rule: S3-POLICY-7, S3-POLICY-9
#[test]
fn garbage_on_the_socket_changes_nothing() {
    served("garbage", LONG, |policy, attached| {
        let connect = || UnixStream::connect(attached.path()).unwrap();
        let stream = connect();
        assert!(ask(&stream, "policy decide 3", b"abc").contains("another policy service"));
        assert_eq!(ask(&stream, "policy serve -- garbage", b""), "{\"ok\":true}\n");
        let valid = PolicyDecision::rules().weight("web", weight(2_048)).to_bytes();
        let mut random = 7_u64;
        for round in 0..2_000_usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let mut bytes = valid.clone();
            match round % 4 {
                0 => bytes.truncate(random as usize % bytes.len()),
                1 => bytes.extend(random.to_le_bytes()),
                2 => bytes = random.to_le_bytes().repeat(round % 50),
                _ => {
                    let at = (random >> 20) as usize % bytes.len();
                    bytes[at] = bytes[at].wrapping_add(1 + (random >> 40) as u8 % 255);
                }
            }
            let answer = ask(&stream, &format!("policy decide {}", bytes.len()), &bytes);
            assert!(answer.starts_with("{\"error\":\"this is no record"), "{round}: {answer}");
        }
        // A record that is one, for no run of this runtime.
        let answer = ask(&stream, &format!("policy decide {}", valid.len()), &valid);
        assert!(answer.contains("another runtime"), "{answer}");
        for request in [
            "policy",
            "policy nonsense",
            "policy set",
            "policy set -- web",
            "policy set weight=0 -- web",
            "policy set weight=99999999999 -- web",
            "policy set weight=1 -- web",
            "policy set latency=1 -- web",
            "policy set weight=512 --",
            "policy unset web",
            "policy explain nobody",
            "policy alive",
            "policy alive x",
            "policy serve",
            "policy load x",
            "policy load 3 4",
        ] {
            assert!(ask(&stream, request, b"").starts_with("{\"error\":\""), "{request}");
        }
        assert_eq!(policy.explain("web").unwrap().weight, 1_024);
        assert!(policy.history().len() < 50, "{}", policy.history().len());
        assert_eq!(policy.status().epoch, 0);
        // More than any record ends the connection before it is read.
        assert_eq!(ask(&connect(), "policy decide 99999999999", b"abc"), "");
        // The operator goes on.
        let other = connect();
        assert_eq!(
            ask(&other, "policy set weight=512 latency=batch -- web", b""),
            "{\"ok\":true}\n"
        );
        let explained = ask(&other, "policy explain web", b"");
        assert!(
            explained.contains("\"weight\":512,\"slice\":100000000,\"by\":\"operator\""),
            "{explained}"
        );
        assert!(ask(&other, "policy history", b"").contains("\"times\":"));
        let shown = ask(&other, "policy show", b"");
        assert!(
            shown.contains("\"source\":\"built-in\"") && shown.contains("\"service\":\"garbage\""),
            "{shown}"
        );
        assert_eq!(ask(&other, "policy unset web", b""), "{\"ok\":true}\n");
        let check = format!("policy check {}", valid.len());
        assert_eq!(ask(&other, &check, &valid), "{\"ok\":true}\n");
        assert_eq!(policy.explain("web").unwrap().weight, 1_024, "checked, not loaded");
        let load = format!("policy load {}", valid.len());
        assert_eq!(ask(&other, &load, &valid), "{\"ok\":true}\n");
        assert_eq!(policy.explain("web").unwrap().weight, 2_048);
    });
}

/// The seat belongs to a connection, and a view over the socket is the one in the process.
#[test]
fn a_seat_ends_with_its_connection() {
    served("seat", LONG, |policy, attached| {
        let mut seat = RemoteSeat::take(attached.path(), "first", None).unwrap();
        let second = RemoteSeat::take(attached.path(), "second", None);
        assert!(second.unwrap_err().to_string().contains("a policy service has the seat"));
        let view = seat.view().unwrap();
        assert_eq!(view.tenants[0].path.as_deref(), Some("web"));
        assert_eq!(view.nonce, policy.status().nonce);
        seat.decide(&PolicyDecision::on(&view).weight("web", weight(600))).unwrap();
        seat.alive(1).unwrap();
        assert!(seat.alive(7).unwrap_err().to_string().contains("stale"));
        let mut next = RemoteSeat::take(attached.path(), "next", Some(1)).unwrap();
        assert!(seat.alive(1).unwrap_err().to_string().contains("another policy service"));
        assert!(next.view().unwrap().sequence > view.sequence);
        drop(next);
        until("the seat", || policy.status().service.is_none());
    });
}

/// Without leave of the program the socket shows and changes no policy.
#[test]
fn a_policy_is_shown_where_the_program_allows_it() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let path = std::env::temp_dir().join(format!("parcae-policy-{}-closed", std::process::id()));
    let attached = rt.attach(AttachOpts::new().path(&path)).unwrap();
    let stream = UnixStream::connect(attached.path()).unwrap();
    for request in ["policy show", "policy fallback", "policy serve -- x", "policy view"] {
        assert!(ask(&stream, request, b"").contains("AttachOpts::allow_policy"), "{request}");
    }
    drop((stream, attached));
    let policy = rt.policy(PolicyOpts::new()).unwrap();
    let opts = AttachOpts::new().path(&path).allow_policy(&policy);
    let attached = rt.attach(opts).unwrap();
    let mut stream = UnixStream::connect(attached.path()).unwrap();
    assert!(ask(&stream, "hello", b"").contains("\"may\":[\"policy\"]"));
    drop(policy);
    assert!(ask(&stream, "policy show", b"").contains("no policy any more"));
    drop(attached);
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0);
}
