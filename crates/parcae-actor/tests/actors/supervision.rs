//! Restarts: kinds of children, strategies, limits, order.

use super::*;
use parcae_actor::{Backoff, CallError, Child, Children, Directive, Supervise};

/// Waits until the log has so many lines.
fn lines(cx: &Cx<Cluster>, log: &Log, count: usize) -> Result<Vec<String>> {
    while log.0.lock().unwrap().len() < count {
        cx.sleep(Duration::from_millis(1))?;
    }
    Ok(log.take())
}

// rule: S0-PROFILE-5, S1-PROFILE-3
#[test]
fn a_failed_actor_is_started_again_and_keeps_its_mailbox() {
    everywhere(|cx, system, log| {
        let actor = start(system, "a", log)?;
        actor.tell(Msg::Add(1))?;
        actor.tell(Msg::Fail("broken"))?;
        actor.tell(Msg::Add(2))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 2002);
        assert_eq!(lines(cx, log, 2)?, ["a failed: broken", "a again"]);
        actor.tell(Msg::Panic("ouch"))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 3000);
        assert_eq!(system.restarts_left(), 998);
        Ok(())
    });
}

#[test]
fn an_address_of_one_life_does_not_reach_the_next() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        let this = actor.this_life();
        this.tell(Msg::Add(1))?;
        actor.tell(Msg::Fail("broken"))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 2000);
        assert!(matches!(this.tell(Msg::Add(1)).unwrap_err().error(), CallError::Gone(Some(_))));
        Ok(())
    });
}

#[test]
fn the_kind_of_a_child_decides_about_its_restart() {
    type MakeChild = fn() -> Child;
    type End = fn() -> Msg;
    let (fail, finish): (End, End) = (|| Msg::Fail("broken"), || Msg::Finish);
    let cases: [(MakeChild, End, bool); 6] = [
        (Child::permanent, fail, true),
        (Child::permanent, finish, true),
        (Child::transient, fail, true),
        (Child::transient, finish, false),
        (Child::temporary, fail, false),
        (Child::temporary, finish, false),
    ];
    for (child, end, again) in cases {
        everywhere(move |_, system, log| {
            let opts = ActorOpts::new("a").child(child());
            let actor = system.start(opts, subject("a", log))?;
            let watch = actor.watch();
            actor.tell(end())?;
            watch.wait()?;
            match actor.call(LONG, Msg::Sum) {
                Ok(sum) => assert!(again && sum == 2000, "{sum}"),
                Err(error) => assert!(!again && matches!(error, CallError::Gone(_)), "{error}"),
            }
            Ok(())
        });
    }
}

fn three<'env>(log: &'env Log) -> impl FnMut(&mut Children<'env>) -> Result<()> + Send + 'env {
    move |children| {
        for name in ["a", "b", "c"] {
            let opts = ActorOpts::new(name).child(Child::permanent());
            children.actor(opts, subject(name, log))?;
        }
        Ok(())
    }
}

#[test]
fn the_strategy_decides_which_others_are_restarted() {
    type Spec = fn() -> Supervise;
    let cases: [(Spec, &[&str]); 3] = [
        (Supervise::one_for_one, &["b failed: broken", "b again"]),
        (Supervise::rest_for_one, &["b failed: broken", "c stopped", "b again", "c again"]),
        (
            Supervise::one_for_all,
            &["b failed: broken", "c stopped", "a stopped", "a again", "b again", "c again"],
        ),
    ];
    for (spec, expected) in cases {
        everywhere(move |cx, system, log| {
            system.supervise("top", spec(), three(log))?;
            let b = system.find::<Msg>("b").expect("it has started");
            b.tell(Msg::Fail("broken"))?;
            assert_eq!(lines(cx, log, expected.len())?, expected);
            assert_eq!(b.call(LONG, Msg::Incarnation)?, 2);
            Ok(())
        });
    }
}

#[test]
fn all_are_stopped_in_the_reverse_order_of_their_start() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let ended = rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                start(system, "first", &log)?;
                system.supervise("top", Supervise::one_for_one(), three(&log))
            })
        });
        support::succeed(ended);
        assert_eq!(log.take(), ["c stopped", "b stopped", "a stopped", "first stopped"]);
    });
}

#[test]
fn a_supervisor_gives_up_after_too_many_restarts() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let root = Supervise::one_for_one().restarts(2, LONG);
        let ended = rt.run(|cx| {
            cx.actors(ActorsOpts::new().supervise(root), |system| {
                let actor = start(system, "a", &log)?;
                for _ in 0..3 {
                    actor.tell(Msg::Fail("broken"))?;
                }
                cx.sleep(LONG)
            })
        });
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with("`a` has failed after 2 restarts within 600s"), "{error}");
        assert!(error.contains("broken"), "{error}");
    });
}

#[test]
fn the_tree_restarts_no_more_than_its_root_was_granted() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let many = Supervise::one_for_one().restarts(1000, LONG);
        let opts = ActorsOpts::new().supervise(many.clone()).restarts(5);
        let ended = rt.run(|cx| {
            cx.actors(opts.clone(), |system| {
                system.supervise("inner", many.clone(), |children| {
                    let opts = ActorOpts::new("a").child(Child::permanent());
                    children.actor(opts, subject("a", &log)).map(drop)
                })?;
                loop {
                    if let Some(actor) = system.find::<Msg>("a") {
                        let _ = actor.try_tell(Msg::Fail("broken"));
                    }
                    cx.sleep(Duration::from_millis(1))?;
                }
            })
        });
        let error = Result::<()>::unwrap_err(ended).to_string();
        assert!(error.contains("all restarts that the system was granted are used up"), "{error}");
        let again = log.take().iter().filter(|line| *line == "a again").count();
        assert!(again <= 5, "{again}");
    });
}

#[test]
fn a_failed_start_undoes_the_earlier_ones() {
    everywhere(|_, system, log| {
        let failed =
            system.supervise("top", Supervise::one_for_one().restarts(0, LONG), |children| {
                children.actor(ActorOpts::new("a"), subject("a", log))?;
                children.actor(ActorOpts::new("b"), |_| -> Result<Subject<'_>> {
                    Err(Error::msg("no database"))
                })?;
                Ok(())
            });
        let error = failed.unwrap_err().to_string();
        assert!(
            error.contains("a child did not start") && error.contains("no database"),
            "{error}"
        );
        assert_eq!(log.take(), ["a stopped"]);
        assert!(system.find::<Msg>("a").is_none());
        start(system, "a", log)?; // the name is free
        Ok(())
    });
}

#[test]
fn the_directive_decides_by_the_failure() {
    everywhere(|cx, system, log| {
        let child = Child::transient().on_failure(|exit| match exit.error() {
            Some(error) if error.to_string().contains("harmless") => Directive::Resume,
            Some(error) if error.to_string().contains("final") => Directive::Stop,
            _ => Directive::Restart,
        });
        let actor = system.start(ActorOpts::new("a").child(child), subject("a", log))?;
        actor.tell(Msg::Add(1))?;
        actor.tell(Msg::Fail("harmless"))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 1001);
        actor.tell(Msg::Fail("bad"))?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 2000);
        actor.tell(Msg::Fail("final"))?;
        assert!(matches!(actor.call(LONG, Msg::Sum), Err(CallError::Gone(_))));
        assert_eq!(lines(cx, log, 3)?, ["a failed: bad", "a again", "a failed: final"]);
        Ok(())
    });
}

#[test]
fn a_delay_grows_with_each_failure() {
    support::schedules(&[1], 20, 0, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let delays = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(4));
        let root = Supervise::one_for_one().restarts(10, LONG).backoff(delays);
        let ended = rt.run(|cx| {
            cx.actors(ActorsOpts::new().supervise(root.clone()), |system| {
                let actor = start(system, "a", &log)?;
                for least in [1, 2, 4, 4] {
                    let before = parcae::time::now();
                    actor.tell(Msg::Fail("broken"))?;
                    actor.call(LONG, Msg::Sum)?;
                    let taken = (parcae::time::now() - before).as_secs_f64();
                    let least = f64::from(least);
                    assert!((least..=least * 1.25 + 0.001).contains(&taken), "{taken}");
                }
                Ok(())
            })
        });
        support::succeed(ended);
    });
}

#[test]
fn a_value_is_handed_over_to_the_next_incarnation() {
    struct Keeper(u64);
    enum Keep {
        Add(u64),
        Get(Reply<u64>),
        Fail,
    }
    impl Actor for Keeper {
        type Msg = Keep;
        fn handle(&mut self, _: &mut ActorCx<'_, Keep>, msg: Keep) -> Result<Next> {
            match msg {
                Keep::Add(n) => self.0 += n,
                Keep::Get(reply) => reply.send(self.0),
                Keep::Fail => return Err(Error::msg("broken")),
            }
            Ok(Next::Continue)
        }
        fn stopping(&mut self, cx: &mut ActorCx<'_, Keep>, _: &Exit) {
            cx.hand_over(self.0);
        }
    }
    everywhere(|_, system, _| {
        let keeper = system
            .start(ActorOpts::new("keeper"), |birth| Ok(Keeper(birth.take_state().unwrap_or(0))))?;
        keeper.tell(Keep::Add(3))?;
        keeper.tell(Keep::Fail)?;
        keeper.tell(Keep::Add(4))?;
        assert_eq!(keeper.call(LONG, Keep::Get)?, 7);
        Ok(())
    });
}

#[test]
fn a_supervisor_ends_with_its_significant_children() {
    everywhere(|cx, system, log| {
        system.supervise("top", Supervise::one_for_one().end_with_all(), |children| {
            for name in ["a", "b"] {
                let opts = ActorOpts::new(name).child(Child::temporary().significant());
                children.actor(opts, subject(name, log))?;
            }
            children.actor(ActorOpts::new("c"), subject("c", log)).map(drop)
        })?;
        let [a, b] = ["a", "b"].map(|name| system.find::<Msg>(name).expect("started"));
        a.tell(Msg::Finish)?;
        assert_eq!(lines(cx, log, 1)?, ["a finished"]);
        b.tell(Msg::Finish)?;
        assert_eq!(lines(cx, log, 2)?, ["b finished", "c stopped"]);
        Ok(())
    });
}
