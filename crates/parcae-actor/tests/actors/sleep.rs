//! Actors that sleep: no task, no stack, and no message lost.

use super::*;
use parcae::Runtime;
use parcae_actor::{Child, ExitKind, LetterReason, Mailbox};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sleeps after each message.
struct Sleeper<'a> {
    name: &'static str,
    log: &'a Log,
    sum: u64,
}

#[derive(Clone)]
enum Nudge {
    Add(u64),
    Sum(Arc<parcae::sync::Event>, Arc<AtomicU64>),
    Keep(u64),
    Release,
    Timer,
    Fail,
    Monitor(Address<Nudge>),
    Link(Address<Nudge>),
    Helper(Arc<parcae::sync::Event>),
}

impl Actor for Sleeper<'_> {
    type Msg = Nudge;

    fn handle(&mut self, cx: &mut ActorCx<'_, Nudge>, msg: Nudge) -> Result<Next> {
        match msg {
            Nudge::Add(n) => self.sum += n,
            Nudge::Sum(done, sum) => {
                sum.store(self.sum, Ordering::Relaxed);
                done.set();
            }
            Nudge::Keep(n) => cx.stash(Nudge::Add(n)).map_err(|_| Error::msg("full"))?,
            Nudge::Release => cx.unstash_all(),
            Nudge::Timer => cx.timer("alarm", Duration::from_millis(1)),
            Nudge::Fail => return Err(Error::msg("broken")),
            Nudge::Monitor(other) => {
                cx.monitor(&other);
            }
            Nudge::Link(other) => cx.link(&other),
            Nudge::Helper(release) => cx.spawn(move |_| release.wait())?,
        }
        Ok(Next::Hibernate)
    }

    fn event(&mut self, _: &mut ActorCx<'_, Nudge>, event: Event) -> Result<Next> {
        match event {
            Event::Down(down) => self.log.add(format!("{} hears: {}", self.name, down.exit)),
            Event::Timer { key, .. } => self.log.add(format!("{} hears: {key}", self.name)),
            _ => {}
        }
        Ok(Next::Hibernate)
    }

    fn stopping(&mut self, _: &mut ActorCx<'_, Nudge>, exit: &Exit) {
        self.log.add(format!("{} {exit} with {}", self.name, self.sum));
    }
}

fn sleeper<'env>(
    system: &System<'env>,
    name: &'static str,
    log: &'env Log,
) -> Result<Address<Nudge>> {
    let make = move |_: &mut Birth| Ok(Sleeper { name, log, sum: 0 });
    system.start(ActorOpts::new(name), make)
}

fn sum(actor: &Address<Nudge>) -> Result<u64> {
    let (done, sum) = <(Arc<parcae::sync::Event>, Arc<AtomicU64>)>::default();
    actor.tell(Nudge::Sum(Arc::clone(&done), Arc::clone(&sum)))?;
    done.wait()?;
    Ok(sum.load(Ordering::Relaxed))
}

/// Runs a test in a system, everywhere, with its runtime.
fn observed(
    test: impl for<'env> Fn(&Runtime<Cluster>, &Cx<Cluster>, &System<'env>, &'env Log) -> Result<()>
    + Sync,
) {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let ended = rt.run(|cx| cx.actors(ActorsOpts::new(), |system| test(&rt, cx, system, &log)));
        support::succeed(ended);
    });
}

/// Waits until so many tasks are left, the root task and the supervisor included.
fn until_left(rt: &Runtime<Cluster>, cx: &Cx<Cluster>, tasks: u64) -> Result<()> {
    while rt.stats().live > tasks {
        cx.sleep(Duration::from_millis(1))?;
    }
    Ok(())
}

#[test]
fn an_actor_that_sleeps_loses_no_message() {
    everywhere(|cx, system, log| {
        let actor = sleeper(system, "a", log)?;
        cx.nursery(|n| {
            for _ in 0..3 {
                let actor = actor.clone();
                n.spawn(move |cx| {
                    for _ in 0..10 {
                        actor.tell(Nudge::Add(1))?;
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(sum(&actor)?, 30);
        let watch = actor.watch();
        actor.drain()?;
        assert_eq!(watch.wait()?.handled(), 31);
        assert_eq!(log.take(), ["a stopped with 30"]);
        Ok(())
    });
}

#[test]
fn an_actor_that_sleeps_has_no_task() {
    observed(|rt, cx, system, log| {
        let actors = ["a", "b", "c"].map(|name| sleeper(system, name, log));
        let actors = actors.into_iter().collect::<Result<Vec<_>>>()?;
        for round in 1..=3 {
            for actor in &actors {
                actor.tell(Nudge::Add(1))?;
            }
            until_left(rt, cx, 2)?;
            assert_eq!(sum(&actors[0])?, round);
        }
        Ok(())
    });
}

#[test]
fn events_reach_an_actor_that_sleeps() {
    observed(|rt, cx, system, log| {
        let (a, b) = (sleeper(system, "a", log)?, sleeper(system, "b", log)?);
        a.tell(Nudge::Monitor(b.clone()))?;
        until_left(rt, cx, 3)?; // `b` has got no message yet, and waits
        b.tell(Nudge::Add(2))?;
        until_left(rt, cx, 2)?;
        let watch = b.watch();
        b.stop()?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Stopped);
        while log.0.lock().unwrap().len() < 2 {
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), ["b stopped with 2", "a hears: stopped"]);
        until_left(rt, cx, 2)?;
        let watch = a.watch();
        a.kill()?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Cancelled);
        let lines = log.take();
        assert!(lines[0].starts_with("a cancelled"), "{lines:?}");
        assert_eq!(system.dead_letters().count(LetterReason::Gone), 0);
        Ok(())
    });
}

#[test]
fn a_link_reaches_an_actor_that_sleeps() {
    observed(|rt, cx, system, log| {
        let once = |name: &'static str| {
            let opts = ActorOpts::new(name).child(Child::temporary());
            system.start(opts, move |_| Ok(Sleeper { name, log, sum: 0 }))
        };
        let (a, b) = (once("a")?, once("b")?);
        a.tell(Nudge::Link(b.clone()))?;
        b.tell(Nudge::Add(1))?;
        until_left(rt, cx, 2)?;
        let watch = b.watch();
        a.tell(Nudge::Fail)?;
        let exit = watch.wait()?;
        assert!(exit.to_string().contains("the linked actor `a` has failed"), "{exit}");
        Ok(())
    });
}

#[test]
fn an_actor_that_sleeps_keeps_its_stash_and_is_restarted_after_a_failure() {
    observed(|rt, cx, system, log| {
        let actor = sleeper(system, "a", log)?;
        actor.tell(Nudge::Keep(5))?;
        until_left(rt, cx, 2)?;
        actor.tell(Nudge::Release)?;
        assert_eq!(sum(&actor)?, 5);
        until_left(rt, cx, 2)?;
        let watch = actor.watch();
        actor.tell(Nudge::Fail)?;
        assert_eq!(watch.wait()?.handled(), 4);
        assert_eq!(sum(&actor)?, 0); // a new incarnation
        assert_eq!(log.take(), ["a failed: broken with 5"]);
        Ok(())
    });
}

#[test]
fn an_actor_with_a_timer_or_a_helper_waits() {
    observed(|rt, cx, system, log| {
        let actor = sleeper(system, "a", log)?;
        actor.tell(Nudge::Timer)?;
        until_left(rt, cx, 2)?; // after the timer
        assert_eq!(log.take(), ["a hears: alarm"]);
        let release = Arc::<parcae::sync::Event>::default();
        actor.tell(Nudge::Helper(Arc::clone(&release)))?;
        assert_eq!(sum(&actor)?, 0);
        assert_eq!(rt.stats().live, 4); // the actor and its helper
        release.set();
        until_left(rt, cx, 3)?;
        actor.tell(Nudge::Add(1))?;
        until_left(rt, cx, 2)
    });
}

#[test]
fn a_child_that_starts_can_call_one_that_sleeps() {
    struct Caller(Address<Nudge>);
    impl Actor for Caller {
        type Msg = ();
        fn started(&mut self, _: &mut ActorCx<'_, ()>) -> Result<()> {
            assert_eq!(sum(&self.0)?, 1);
            Ok(())
        }
        fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
            Ok(Next::Stop)
        }
    }
    observed(|_, _, system, log| {
        let a = sleeper(system, "a", log)?;
        a.tell(Nudge::Add(1))?; // it may be falling asleep while the other starts
        system.start(ActorOpts::new("b"), move |_| Ok(Caller(a.clone())))?;
        Ok(())
    });
}

#[test]
fn senders_of_each_kind_of_mailbox_wake_an_actor() {
    let kinds: [fn() -> Mailbox; 4] = [
        Mailbox::default,
        Mailbox::rendezvous,
        || Mailbox::bounded(4).drop_oldest(),
        || Mailbox::bounded(4).priority(2),
    ];
    for kind in kinds {
        observed(move |rt, cx, system, log| {
            let opts = ActorOpts::new("a").mailbox(kind());
            let actor = system.start(opts, |_| Ok(Sleeper { name: "a", log, sum: 0 }))?;
            for _ in 0..4 {
                actor.tell(Nudge::Add(1))?;
                until_left(rt, cx, 2)?;
            }
            assert_eq!(sum(&actor)?, 4);
            Ok(())
        });
    }
}

#[test]
fn actors_that_sleep_are_dropped_with_a_system_that_fails() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let mut kept = None;
        let ended = rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                let actor = sleeper(system, "a", &log)?;
                actor.tell(Nudge::Add(1))?;
                until_left(&rt, cx, 2)?;
                kept = Some((actor.watch(), actor));
                Err::<(), _>(Error::msg("given up"))
            })
        });
        assert!(ended.unwrap_err().to_string().contains("given up"));
        let (watch, actor) = kept.unwrap();
        assert!(watch.exit().is_some() && actor.is_gone());
        assert!(actor.try_tell(Nudge::Add(1)).is_err());
    });
}

/// A helper fails while its actor is going to sleep, or is killed then: neither is lost.
#[test]
fn a_failure_or_a_kill_that_meets_the_sleep_ends_the_actor() {
    struct Tired;
    impl Actor for Tired {
        type Msg = bool;

        fn handle(&mut self, cx: &mut ActorCx<'_, bool>, helper_fails: bool) -> Result<Next> {
            if helper_fails {
                cx.spawn(|_| Err(Error::msg("the helper failed")))?;
                cx.yield_now()?;
            }
            Ok(Next::Hibernate)
        }
    }
    everywhere(|cx, system, _| {
        for (pause, helper_fails) in (0..8).map(|round| (round / 2, round % 2 == 0)) {
            let opts = ActorOpts::new("").child(Child::temporary());
            let actor = system.start(opts, |_| Ok(Tired))?;
            let end = actor.watch();
            actor.tell(helper_fails)?;
            for _ in 0..pause {
                cx.yield_now()?;
            }
            if !helper_fails {
                actor.kill()?;
            }
            let exit = end.wait_timeout(LONG)?;
            let expected = if helper_fails { "failed: the helper failed" } else { "cancelled" };
            assert!(exit.to_string().starts_with(expected), "{exit}");
        }
        Ok(())
    });
}
