//! Bugs of other actor libraries, by the numbers of `docs/traps.md`, as far as no other test has
//! them.

use super::scripts::{Do, Player, asked, player, told};
use super::*;
use parcae::Budget;
use parcae::sync::Notify;
use parcae_actor::{CallError, Child, ExitKind, LetterReason, Mailbox, Supervise};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SECOND: Duration = Duration::from_secs(1);

/// Trap 1: requests to stop and news of other actors pass a mailbox that is full; callers in the
/// mailbox hear of the end, not of their deadline.
#[test]
fn the_system_lane_passes_a_full_mailbox() {
    everywhere(|cx, system, _| {
        for stops in [false, true] {
            let opts = ActorOpts::new("full").mailbox(Mailbox::bounded(2));
            let full = system.start(opts.child(Child::temporary()), |_| Ok(Player))?;
            let other = player(system, "other")?;
            let gate = Arc::new(Notify::new());
            let (opens, ends) = (Arc::clone(&gate), other.clone());
            full.tell(told(move |_, cx| {
                cx.monitor(&ends);
                opens.wait()?;
                Ok(Next::Continue)
            }))?;
            while full.queued() > 0 {
                cx.yield_now()?;
            }
            cx.nursery(|n| {
                let answers = (0..2).map(|_| {
                    n.spawn(|_| {
                        Ok(full.call(LONG, asked(|_, _| Ok(()))).map_err(|e| e.to_string()))
                    })
                });
                let answers = answers.collect::<Result<Vec<_>>>()?;
                while full.queued() < 2 {
                    cx.yield_now()?;
                }
                assert!(matches!(
                    full.try_tell(told(|_, _| Ok(Next::Continue))).unwrap_err().error(),
                    CallError::Full
                ));
                let watch = full.watch();
                if stops {
                    full.stop()?;
                } else {
                    other.stop()?;
                }
                gate.notify_one();
                if stops {
                    assert_eq!(watch.wait()?.to_string(), "stopped");
                }
                for answer in answers {
                    let expected =
                        if stops { Err("the actor has ended: stopped".to_owned()) } else { Ok(()) };
                    assert_eq!(answer.join()?, expected);
                }
                Ok(())
            })?;
            if !stops {
                full.stop()?;
                full.watch().wait()?;
            } else {
                other.stop()?;
            }
            while !(full.is_gone() && other.is_gone()) {
                cx.yield_now()?;
            }
        }
        Ok(())
    });
}

/// Trap 1, the order: an event that comes while the mailbox is full is handled before its messages.
#[test]
fn news_of_the_system_are_handled_before_messages() {
    struct Witness<'a>(&'a Log, Arc<Notify>);
    enum ToWitness {
        Begin(Address<Do>),
        Note(u64),
    }
    impl Actor for Witness<'_> {
        type Msg = ToWitness;

        fn handle(&mut self, cx: &mut ActorCx<'_, ToWitness>, msg: ToWitness) -> Result<Next> {
            match msg {
                ToWitness::Begin(other) => {
                    cx.monitor(&other);
                    self.1.wait()?;
                }
                ToWitness::Note(number) => self.0.add(number.to_string()),
            }
            Ok(Next::Continue)
        }

        fn event(&mut self, _: &mut ActorCx<'_, ToWitness>, event: Event) -> Result<Next> {
            self.0.add(match event {
                Event::Down(down) => format!("{} {}", down.name, down.exit),
                other => format!("{other:?}"),
            });
            Ok(Next::Continue)
        }
    }
    everywhere(|cx, system, log| {
        let gate = Arc::new(Notify::new());
        let opens = Arc::clone(&gate);
        let opts = ActorOpts::new("witness").mailbox(Mailbox::bounded(2));
        let witness = system.start(opts, move |_| Ok(Witness(log, Arc::clone(&opens))))?;
        let other =
            system.start(ActorOpts::new("other").child(Child::temporary()), |_| Ok(Player))?;
        witness.tell(ToWitness::Begin(other.clone()))?;
        witness.tell(ToWitness::Note(1))?;
        witness.tell(ToWitness::Note(2))?;
        while witness.queued() > 2 {
            cx.yield_now()?;
        }
        while witness.try_tell(ToWitness::Note(3)).is_ok() {
            assert!(witness.queued() <= 2);
        }
        let end = other.watch();
        other.stop()?;
        end.wait()?;
        gate.notify_one();
        while log.0.lock().unwrap().len() < 3 {
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take()[..3], ["other stopped", "1", "2"]);
        Ok(())
    });
}

/// Traps 4 and 6: whatever the end is, the state was destroyed, once, before the next life begins
/// or a monitor hears of the end; `stopping` was called if the actor had started.
#[test]
fn each_end_destroys_the_state_before_anyone_hears_of_it() {
    /// Holds a place that only one may hold.
    struct Holder<'a>(&'a AtomicBool, &'a AtomicU64);

    impl Actor for Holder<'_> {
        type Msg = &'static str;

        fn handle(&mut self, cx: &mut ActorCx<'_, Self::Msg>, msg: Self::Msg) -> Result<Next> {
            match msg {
                "finish" => return Ok(Next::Stop),
                "fail" => return Err(Error::msg("broken")),
                "panic" => std::panic::resume_unwind(Box::new("ouch")),
                "exhaust" => cx.charge(Budget { ops: u64::MAX / 2, ..Budget::ZERO })?,
                _ => {}
            }
            Ok(Next::Hibernate)
        }

        fn stopping(&mut self, _: &mut ActorCx<'_, Self::Msg>, _: &Exit) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Drop for Holder<'_> {
        fn drop(&mut self) {
            assert!(self.0.swap(false, Ordering::Relaxed), "it was destroyed twice");
        }
    }

    let ends =
        ["finish", "fail", "panic", "exhaust", "stop", "kill", "sleep and stop", "sleep and kill"];
    for end in ends {
        let (held, stopped) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let run = |rt: &Runtime<Cluster>| {
            held.store(false, Ordering::Relaxed);
            stopped.store(0, Ordering::Relaxed);
            rt.run(|cx| {
                let spec = Supervise::one_for_one().restarts(100, LONG);
                cx.actors(ActorsOpts::new().supervise(spec), |system| {
                    let budget = Budget { ops: 1_000_000, ..Budget::UNLIMITED };
                    // A budget of its own keeps an actor from sleeping.
                    let opts = ActorOpts::new("holder").child(Child::permanent());
                    let opts = if end == "exhaust" { opts.budget(budget) } else { opts };
                    let holder = system.start(opts, move |_| {
                        assert!(!held.swap(true, Ordering::Relaxed), "another one holds it");
                        Ok(Holder(held, stopped))
                    })?;
                    for life in 1..=3 {
                        let watch = holder.watch();
                        if end.starts_with("sleep") {
                            holder.tell("rest")?;
                            cx.yield_now()?;
                        }
                        match end {
                            "stop" | "sleep and stop" => holder.stop()?,
                            "kill" | "sleep and kill" => holder.kill()?,
                            _ => holder.tell(end)?,
                        }
                        let exit = watch.wait()?;
                        assert_eq!(
                            (exit.incarnation(), stopped.load(Ordering::Relaxed)),
                            (life, life)
                        );
                        while holder.watch().exit().is_some() {
                            cx.yield_now()?; // until the next life runs
                        }
                    }
                    Ok(())
                })?;
                assert!(!held.load(Ordering::Relaxed), "it is left");
                assert_eq!(stopped.load(Ordering::Relaxed), 4, "that of the system's end included");
                Ok(())
            })
        };
        support::hunt_on(Runtime::builder().profile::<Cluster>(), run);
        support::schedules(&[1, 2], 4, 1, |schedule| {
            support::succeed(run(&schedule.builder().profile::<Cluster>().build().unwrap()));
        });
    }
}

/// Trap 7: monitors hear of a life that did not begin, because its factory panicked.
#[test]
fn a_restart_whose_factory_panics_is_an_end_of_its_own() {
    everywhere(|cx, system, _| {
        let spec = Supervise::one_for_one().restarts(2, LONG);
        let sub = system.dynamic("sub", spec)?;
        let opts = ActorOpts::new("a").child(Child::permanent());
        let a = sub.start(opts, |birth| {
            if birth.incarnation() > 1 {
                std::panic::resume_unwind(Box::new("no second life"));
            }
            Ok(Player)
        })?;
        let first = a.watch();
        a.tell(told(|_, _| Err(Error::msg("broken"))))?;
        assert_eq!(first.wait()?.kind(), ExitKind::Failed);
        while !a.is_gone() {
            cx.sleep(Duration::from_millis(1))?; // its supervisor gives up
        }
        let last = a.watch().wait()?;
        assert_eq!((last.kind(), last.incarnation()), (ExitKind::NotStarted, 3));
        assert!(last.to_string().contains("no second life"), "{last}");
        assert!(system.find::<Do>("a").is_none());
        Ok(())
    });
}

/// Trap 8, Pekko `TimerSpec`: a timer that was due when it was cancelled, or set again, does not
/// fire for its earlier time.
#[test]
fn a_timer_that_is_due_can_still_be_cancelled() {
    struct Late<'a>(&'a Log);
    impl Actor for Late<'_> {
        type Msg = ();

        fn handle(&mut self, cx: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
            cx.timer("cancelled", SECOND);
            cx.timer("replaced", SECOND);
            cx.timer_every("kept", SECOND);
            cx.sleep(3 * SECOND)?;
            assert!(cx.cancel_timer("cancelled") && !cx.cancel_timer("cancelled"));
            cx.timer("replaced", 10 * SECOND);
            Ok(Next::Continue)
        }

        fn event(&mut self, cx: &mut ActorCx<'_, ()>, event: Event) -> Result<Next> {
            if let Event::Timer { key, missed } = event {
                self.0.add(format!("{key}, {missed} missed"));
                cx.cancel_timer("kept");
            }
            Ok(Next::Continue)
        }
    }
    deterministic(|cx, system, log| {
        let late = system.start(ActorOpts::new("late"), move |_| Ok(Late(log)))?;
        late.tell(())?;
        cx.sleep(4 * SECOND)?;
        assert_eq!(log.take(), ["kept, 2 missed"]);
        cx.sleep(20 * SECOND)?;
        assert_eq!(log.take(), ["replaced, 0 missed"]);
        Ok(())
    });
}

/// Trap 3: children that fail once each are no loop of one child, and the other way round.
#[test]
fn restarts_are_counted_by_child_and_by_group() {
    deterministic(|cx, system, _| {
        let group = Supervise::one_for_one().restarts(u32::MAX, LONG);
        let sub = system.dynamic("sub", group)?;
        let start = |_| {
            let child = Child::permanent().restarts(2, LONG);
            sub.start(ActorOpts::new("").child(child), |_| Ok(Player))
        };
        let all = (0..5).map(start).collect::<Result<Vec<_>>>()?;
        let fail = |actor: &Address<Do>| actor.tell(told(|_, _| Err(Error::msg("broken"))));
        for _ in 0..2 {
            all.iter().try_for_each(fail)?; // ten restarts
            cx.sleep(SECOND)?;
        }
        for actor in &all {
            assert_eq!(actor.call(LONG, asked(|_, _| Ok(1)))?, 1);
        }
        fail(&all[3])?;
        cx.sleep(SECOND)?;
        let gone = all.iter().map(Address::is_gone).collect::<Vec<_>>();
        assert_eq!(gone, [true; 5], "one has failed too often, and its supervisor with it");
        let lost = system.dead_letters().count(LetterReason::Failed);
        assert_eq!(lost, 11);
        Ok(())
    });
}
