//! Models of the system lane: monitors against ends, and requests against an actor that is about to
//! sleep. Waiting has the same last look as sleeping.

use super::{Core, News, Sink, Slot, Wait};
use crate::actor::Event;
use crate::address::Address;
use crate::desk::Desk;
use crate::exit::{Exit, ExitKind};
use crate::mailbox::{Mailbox, Order, UserLane};
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

/// An actor that joins a group while it ends is not in it afterwards.
#[test]
fn join_against_exit() {
    loom::model(|| {
        let shared = Arc::new(Shared::new(0, 0));
        let mailbox = Mailbox::default().drop_oldest(); // the plainest one
        let order = Order { key: |()| 0, level: |()| 0 };
        let lane = UserLane::new(&mailbox, order).unwrap();
        let slot = Arc::new(Slot { core: running(&shared, "member"), lane });
        let (group, member) = (shared.groups.group::<()>("all".into()), Address::new(slot));
        let ending = Arc::clone(member.core());
        let exit = thread::spawn(move || end(&ending));
        group.join(&member);
        exit.join().unwrap();
        assert!(group.members().is_empty());
    });
}

/// Of two actors that call each other at the same time, at least one finds the cycle.
#[test]
fn two_callers_of_each_other() {
    loom::model(|| {
        let (one, two) = pair();
        let (caller, target) = (Arc::clone(&two), Arc::clone(&one));
        let other = thread::spawn(move || {
            let call = caller.begin_call(&target, Wait::Idle);
            let found = call.is_err();
            std::mem::forget(call); // it waits
            found
        });
        let call = one.begin_call(&two, Wait::Idle);
        let found = call.is_err();
        std::mem::forget(call);
        assert!(other.join().unwrap() | found);
        (one.end_call(None), two.end_call(None));
    });
}
