//! Cases of the test suites of other actor systems, restated: OTP's `supervisor`, `gen_server`,
//! monitors, links and `pg`; Pekko's supervision, watch, ask, stash and timers. Cases that another
//! module of this program has are not repeated.

use super::*;
use parcae::time;
use parcae_actor::{
    Backoff, CallError, Child, Children, ExitKind, LetterReason, Strategy, Supervise,
};

fn supervise(strategy: Strategy) -> Supervise {
    match strategy {
        Strategy::OneForOne => Supervise::one_for_one(),
        Strategy::OneForAll => Supervise::one_for_all(),
        _ => Supervise::rest_for_one(),
    }
}

fn trio<'env>(
    log: &'env Log,
    kind: fn() -> Child,
) -> impl FnMut(&mut Children<'env>) -> Result<()> + Send + 'env {
    move |children| {
        for name in ["a", "b", "c"] {
            children.actor(ActorOpts::new(name).child(kind()), subject(name, log))?;
        }
        Ok(())
    }
}

/// The incarnations of the three, and 0 for one that has ended.
fn lives(system: &System<'_>) -> Result<Vec<u64>> {
    let life = |name| match system.find::<Msg>(name) {
        Some(actor) => Ok(actor.call(LONG, Msg::Incarnation)?),
        None => Ok(0),
    };
    ["a", "b", "c"].into_iter().map(life).collect()
}

/// OTP `supervisor_SUITE`: `permanent_normal`, `transient_abnormal`, `temporary_shutdown`, … for
/// each strategy.
#[test]
fn kinds_strategies_and_ends() {
    type Kind = fn() -> Child;
    type End = fn(&Address<Msg>) -> Result<()>;
    let fail: End = |actor| Ok(actor.tell(Msg::Fail("broken"))?);
    let panic: End = |actor| Ok(actor.tell(Msg::Panic("ouch"))?);
    let finish: End = |actor| Ok(actor.tell(Msg::Finish)?);
    let shutdown: End = |actor| Ok(actor.stop()?);
    let kinds: [Kind; 3] = [Child::permanent, Child::transient, Child::temporary];
    let strategies = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne];
    let cases = kinds.into_iter().enumerate().flat_map(|(kind, make)| {
        let ends = [(fail, true), (panic, true), (finish, false), (shutdown, false)];
        strategies.into_iter().flat_map(move |strategy| {
            ends.map(move |(end, is_abnormal)| {
                let again = kind == 0 || kind == 1 && is_abnormal;
                (make, strategy, end, again)
            })
        })
    });
    for (make, strategy, end, again) in cases {
        deterministic_once(move |_, system, log| {
            system.supervise("top", supervise(strategy), trio(log, make))?;
            let b = system.find::<Msg>("b").expect("it was started");
            let watch = b.watch();
            end(&b)?;
            watch.wait()?;
            time::sleep(Duration::from_secs(1))?;
            let expected = match (again, strategy) {
                (false, _) => [1, 0, 1],
                (true, Strategy::OneForOne) => [1, 2, 1],
                (true, Strategy::OneForAll) => [2, 2, 2],
                (true, _) => [1, 2, 2],
            };
            assert_eq!(lives(system)?, expected, "{strategy:?}");
            Ok(())
        });
    }
}

/// OTP `supervisor_SUITE`: `one_for_all_other_child_fails_restart`: a child that cannot be started
/// again does not leave the others without it.
#[test]
fn a_restart_that_fails_is_tried_again_for_the_group() {
    struct Picky<'a>(&'a Log);
    impl Actor for Picky<'_> {
        type Msg = Msg;

        fn handle(&mut self, _: &mut ActorCx<'_, Msg>, msg: Msg) -> Result<Next> {
            if let Msg::Sum(reply) = msg {
                reply.send(7);
            }
            Ok(Next::Continue)
        }

        fn stopping(&mut self, _: &mut ActorCx<'_, Msg>, exit: &Exit) {
            self.0.add(format!("picky {}", exit.kind()));
        }
    }
    deterministic(|_, system, log| {
        system.supervise("top", Supervise::one_for_all(), move |children| {
            children.actor(ActorOpts::new("a"), subject("a", log))?;
            children.actor(ActorOpts::new("picky"), move |birth: &mut Birth| {
                match birth.incarnation() {
                    2 => Err(Error::msg("not today")),
                    _ => Ok(Picky(log)),
                }
            })?;
            Ok(())
        })?;
        let picky = system.find::<Msg>("picky").expect("it was started");
        system.find::<Msg>("a").expect("it was started").tell(Msg::Fail("broken"))?;
        assert_eq!(picky.call(LONG, Msg::Sum)?, 7);
        assert!(picky.call(LONG, Msg::Sum).is_ok());
        assert!(system.restarts_left() >= 990);
        Ok(())
    });
}

/// OTP `supervisor_SUITE`: `temporary_bystander`: a temporary child that is stopped with the group
/// is not started again.
#[test]
fn a_temporary_bystander_ends_with_the_group() {
    deterministic(|_, system, log| {
        system.supervise("top", Supervise::one_for_all(), move |children| {
            children.actor(ActorOpts::new("a"), subject("a", log))?;
            let temporary = ActorOpts::new("b").child(Child::temporary());
            children.actor(temporary, subject("b", log))?;
            children.actor(ActorOpts::new("c"), subject("c", log)).map(drop)
        })?;
        system.find::<Msg>("a").expect("it was started").tell(Msg::Fail("broken"))?;
        time::sleep(Duration::from_secs(1))?;
        assert_eq!(lives(system)?, [2, 0, 2]);
        Ok(())
    });
}

/// OTP `supervisor_SUITE`: `hanging_restart_loop`: a child that fails at each start does not keep
/// the supervisor from being stopped.
#[test]
fn a_child_that_never_starts_again_does_not_hold_its_supervisor() {
    deterministic(|_, system, _| {
        // Without a delay, time would not pass before all restarts were used up.
        let delay = Duration::from_micros(10);
        let spec = Supervise::one_for_one().restarts(u32::MAX, LONG);
        let spec = spec.backoff(Backoff::exponential(delay, delay));
        system.supervise("top", spec, |children| {
            children
                .actor(ActorOpts::new("a"), |birth: &mut Birth| match birth.incarnation() {
                    1 => Ok(Short),
                    _ => Err(Error::msg("never again")),
                })
                .map(drop)
        })?;
        system.find::<()>("a").expect("it was started").tell(())?;
        time::sleep(Duration::from_millis(1))
    });
}

/// Ends with its first message.
struct Short;

impl Actor for Short {
    type Msg = ();

    fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
        Err(Error::msg("short"))
    }
}

/// OTP `gen_server_SUITE`: `call_to_terminated`, and the queue of a server that ends: callers that
/// wait hear of the end, not of their deadline.
#[test]
fn callers_of_an_actor_that_ends_hear_of_its_end() {
    everywhere(|cx, system, log| {
        let opts = ActorOpts::new("a").child(Child::temporary());
        let actor = system.start(opts, subject("a", log))?;
        actor.call(LONG, Msg::Wait)?; // now it is busy
        cx.nursery(|n| {
            let calls = [0, 1, 2].map(|_| {
                let actor = actor.clone();
                n.spawn(move |_| Ok(actor.call(LONG, Msg::Sum)))
            });
            while actor.queued() < 3 {
                time::sleep(Duration::from_millis(1))?;
            }
            actor.kill()?;
            for call in calls {
                let answer = call?.join()?;
                assert!(matches!(answer, Err(CallError::Gone(_))), "{answer:?}");
            }
            Ok(())
        })
    });
}

/// OTP `gen_server_SUITE`: a late reply is not taken for that of a later call.
#[test]
fn a_late_reply_reaches_no_later_call() {
    struct Slow;
    impl Actor for Slow {
        type Msg = (u64, Reply<u64>);

        fn handle(
            &mut self,
            cx: &mut ActorCx<'_, Self::Msg>,
            (value, reply): Self::Msg,
        ) -> Result<Next> {
            if value == 1 {
                cx.sleep(Duration::from_secs(2))?;
                assert!(reply.is_closed());
            }
            reply.send(value);
            Ok(Next::Continue)
        }
    }
    deterministic(|_, system, _| {
        let slow = system.start(ActorOpts::new("slow"), |_| Ok(Slow))?;
        let first = slow.call(Duration::from_secs(1), |reply| (1, reply));
        assert!(matches!(first, Err(CallError::Expired)));
        assert_eq!(slow.call(LONG, |reply| (2, reply))?, 2);
        Ok(())
    });
}

/// OTP `erl_monitor_SUITE`: many monitors of one actor, by one actor, fire once each.
#[test]
fn many_monitors_of_one_actor_fire_once_each() {
    everywhere(|_, system, log| {
        let watcher = start(system, "watcher", log)?;
        let opts = ActorOpts::new("other").child(Child::temporary());
        let other = system.start(opts, subject("other", log))?;
        for _ in 0..20 {
            watcher.tell(Msg::Monitor(other.clone()))?;
        }
        watcher.call(LONG, Msg::Sum)?;
        other.tell(Msg::Finish)?;
        other.watch().wait()?;
        watcher.call(LONG, Msg::Sum)?; // events go before messages
        let heard = log.take().into_iter().filter(|line| line.starts_with("watcher hears")).count();
        assert_eq!(heard, 20);
        watcher.tell(Msg::Monitor(other))?; // it has ended before
        watcher.call(LONG, Msg::Sum)?;
        watcher.call(LONG, Msg::Sum)?;
        assert_eq!(log.take(), ["watcher hears: other finished"]);
        Ok(())
    });
}

/// OTP `erl_link_SUITE`: an end that is normal does not reach a linked actor.
#[test]
fn a_normal_end_does_not_reach_a_linked_actor() {
    everywhere(|_, system, log| {
        let (a, b) = (start(system, "a", log)?, start(system, "b", log)?);
        a.tell(Msg::Link(b.clone()))?;
        a.call(LONG, Msg::Sum)?;
        a.tell(Msg::Finish)?;
        a.watch().wait()?;
        assert_eq!(b.call(LONG, Msg::Sum)?, 1000);
        Ok(())
    });
}

/// OTP `pg_SUITE`: join and leave against the end of the member.
#[test]
fn a_group_has_no_member_that_has_ended() {
    everywhere(|cx, system, log| {
        let group = system.group::<Msg>("g");
        for round in 0..5 {
            let opts = ActorOpts::new("").child(Child::temporary());
            let actor = system.start(opts, subject("a", log))?;
            cx.nursery(|n| {
                let member = &actor;
                n.spawn(|_| {
                    group.join(member);
                    Ok(())
                })?;
                n.spawn(|_| Ok(member.tell(Msg::Finish)?))?;
                Ok(())
            })?;
            actor.watch().wait()?;
            while !actor.is_gone() {
                time::sleep(Duration::from_millis(1))?;
            }
            assert_eq!(group.members().len(), 0, "round {round}");
        }
        Ok(())
    });
}

/// Pekko `SupervisionSpec`: a failure in `started` of the first incarnation is the caller's error,
/// and the name is free after it.
#[test]
fn a_failed_start_frees_the_name() {
    everywhere(|_, system, log| {
        for _ in 0..3 {
            let failed = system.start(ActorOpts::new("a"), |_| -> Result<Subject<'_>> {
                Err(Error::msg("no state"))
            });
            let text = failed.unwrap_err().to_string();
            assert!(text.contains("did not start"), "{text}");
            let panicked = system.start(ActorOpts::new("a"), |_| -> Result<Subject<'_>> {
                std::panic::resume_unwind(Box::new("no state"))
            });
            assert!(panicked.is_err());
        }
        start(system, "a", log).map(drop)
    });
}

/// Pekko `SupervisionSpec`: an actor starts others of the same supervisor while it starts.
#[test]
fn an_actor_starts_a_sibling_while_it_starts() {
    use parcae_actor::Dynamic;
    struct Parent<'a>(Dynamic<'a>, &'a Log);
    impl Actor for Parent<'_> {
        type Msg = ();

        fn started(&mut self, _: &mut ActorCx<'_, ()>) -> Result<()> {
            let log = self.1;
            self.0.start(ActorOpts::new("sibling"), subject("sibling", log)).map(drop)
        }

        fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
            Ok(Next::Continue)
        }
    }
    everywhere(|_, system, log| {
        let dynamic = system.dynamic("all", Supervise::one_for_one())?;
        let own = dynamic.clone();
        dynamic.start(ActorOpts::new("parent"), move |_| Ok(Parent(own.clone(), log)))?;
        let sibling = system.find::<Msg>("sibling").expect("it was started");
        assert_eq!(sibling.call(LONG, Msg::Sum)?, 1000);
        Ok(())
    });
}

/// Pekko `ActorLifeCycle`: a destructor that panics is the failure of one child.
#[test]
fn a_destructor_that_panics_is_the_failure_of_one_actor() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("in a destructor"));
            }
        }
    }
    impl Actor for Bomb {
        type Msg = ();

        fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
            Ok(Next::Stop)
        }
    }
    everywhere(|_, system, log| {
        let other = start(system, "other", log)?;
        let opts = ActorOpts::new("bomb").child(Child::temporary());
        let bomb = system.start(opts, |_| Ok(Bomb(true)))?;
        let watch = bomb.watch();
        bomb.tell(())?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Panicked);
        assert_eq!(other.call(LONG, Msg::Sum)?, 1000);
        Ok(())
    });
}

/// Pekko `TimerSpec`: a timer of an incarnation that has failed does not reach the next one.
#[test]
fn a_timer_ends_with_its_incarnation() {
    deterministic(|_, system, log| {
        let actor = start(system, "a", log)?;
        actor.tell(Msg::Timer(Duration::from_secs(1)))?;
        actor.tell(Msg::Fail("broken"))?;
        time::sleep(Duration::from_secs(5))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 2000);
        assert!(!log.take().iter().any(|line| line.contains("alarm")));
        Ok(())
    });
}

/// ractor and kameo: a supervisor with a thousand children that fail at once.
#[test]
fn many_children_that_fail_at_once_are_all_restarted() {
    deterministic_once(|_, system, log| {
        let spec = Supervise::one_for_one().restarts(1000, LONG);
        let dynamic = system.dynamic("many", spec)?;
        let actors: Vec<_> = (0..200)
            .map(|_| dynamic.start(ActorOpts::new(""), subject("a", log)))
            .collect::<Result<_>>()?;
        for actor in &actors {
            actor.tell(Msg::Fail("broken"))?;
        }
        for actor in &actors {
            assert_eq!(actor.call(LONG, Msg::Sum)?, 2000);
        }
        assert_eq!(system.restarts_left(), 800);
        assert_eq!(system.dead_letters().count(LetterReason::Failed), 200);
        Ok(())
    });
}
