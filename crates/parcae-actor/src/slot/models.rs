//! Models of the system lane: monitors against ends, and requests against an actor that is about to
//! sleep. Waiting has the same last look as sleeping.

use super::{Core, News, Sink};
use crate::actor::Event;
use crate::desk::Desk;
use crate::exit::{Exit, ExitKind};
use crate::monitor::MonitorId;
use crate::system::Shared;
use loom::thread;
use parcae::CancelToken;
use std::sync::Arc;

fn running(shared: &Arc<Shared>, name: &str) -> Arc<Core> {
    let core = shared.new_core(name.into()).unwrap();
    core.begin();
    core.has_started();
    core
}

/// An actor, and one that it monitors.
fn pair() -> (Arc<Core>, Arc<Core>) {
    let shared = Arc::new(Shared::new(0, 0));
    (running(&shared, "watcher"), running(&shared, "other"))
}

fn monitor(watcher: &Arc<Core>, other: &Core) -> MonitorId {
    let id = watcher.shared.next_monitor();
    other.add_monitor(id, Sink::Actor(watcher.incarnation()));
    id
}

fn end(core: &Arc<Core>) {
    core.ended_for_good(&Exit::new(ExitKind::Finished, None), || ());
}

/// Takes all notices.
fn notices(core: &Core) -> Vec<MonitorId> {
    let next = || match core.take_news() {
        Some(News::Event(Event::Down(down))) => Some(down.id),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

/// A monitor that meets the end of its actor fires once.
#[test]
fn monitor_against_exit() {
    loom::model(|| {
        let (watcher, other) = pair();
        let ending = Arc::clone(&other);
        let exit = thread::spawn(move || end(&ending));
        let id = monitor(&watcher, &other);
        exit.join().unwrap();
        assert_eq!(notices(&watcher), [id]);
        assert!(watcher.life().expected.is_empty());
    });
}

/// A monitor that is removed while its actor ends does not fire; another one does, once.
#[test]
fn demonitor_against_exit() {
    loom::model(|| {
        let (watcher, other) = pair();
        let (first, second) = (monitor(&watcher, &other), monitor(&watcher, &other));
        let ending = Arc::clone(&other);
        let exit = thread::spawn(move || end(&ending));
        watcher.remove_monitor(&other, first);
        exit.join().unwrap();
        assert_eq!(notices(&watcher), [second]);
        assert!(watcher.life().expected.is_empty());
    });
}

/// An actor that has found nothing after it lay down is woken by a request that comes meanwhile.
fn against_sleep(request: fn(&Core), has_come: fn(&Core) -> bool) {
    loom::model(move || {
        let shared = Arc::new(Shared::new(0, 0));
        let core = running(&shared, "actor");
        let desk = Arc::new(Desk::new());
        core.set_keeper(&desk, 7);
        let other = Arc::clone(&core);
        let sender = thread::spawn(move || request(&other));
        core.lie_down();
        let found = has_come(&core);
        sender.join().unwrap();
        let wakes = desk.take_reports().unwrap_or_default().wakes;
        assert!(found || wakes == [7], "found {found}, wakes {wakes:?}");
        assert!(has_come(&core));
    });
}

#[test]
fn stop_against_sleep() {
    against_sleep(Core::stop, |core| matches!(core.take_news(), Some(News::Stop)));
}

#[test]
fn drain_against_sleep() {
    against_sleep(Core::drain, Core::is_draining);
}

#[test]
fn kill_against_sleep() {
    against_sleep(Core::kill, Core::is_killed);
}

/// A task that begins while its actor is cancelled is cancelled.
#[test]
fn kill_against_attach() {
    loom::model(|| {
        let shared = Arc::new(Shared::new(0, 0));
        let core = running(&shared, "actor");
        let (other, token) = (Arc::clone(&core), CancelToken::new());
        let killer = thread::spawn(move || other.kill());
        core.attach(&token);
        killer.join().unwrap();
        assert!(token.is_cancelled());
    });
}

/// Of two actors that call each other at the same time, at least one finds the cycle.
#[test]
fn two_callers_of_each_other() {
    loom::model(|| {
        let (one, two) = pair();
        let (caller, target) = (Arc::clone(&two), Arc::clone(&one));
        let other = thread::spawn(move || caller.begin_call(&target).is_err());
        let found = one.begin_call(&two).is_err();
        assert!(other.join().unwrap() | found);
        (one.end_call(), two.end_call());
    });
}
