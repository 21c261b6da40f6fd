//! Supervisors whose children are started while they run.

use super::*;
use parcae::time;
use parcae_actor::{Child, ExitKind, Supervise};

#[test]
fn many_tasks_start_children_of_one_supervisor() {
    everywhere(|cx, system, log| {
        let spec = Supervise::one_for_one().restarts(4, LONG);
        let rooms = system.dynamic("rooms", spec)?;
        cx.nursery(|n| {
            for _ in 0..4 {
                let rooms = rooms.clone();
                n.spawn(move |_| {
                    let started: Vec<_> = (0..5)
                        .map(|_| rooms.start(ActorOpts::new(""), subject("room", log)))
                        .collect::<Result<_>>()?;
                    // Failures are restarted alone.
                    started[0].tell(Msg::Fail("broken"))?;
                    let sums = started.iter().map(|room| Ok(room.call(LONG, Msg::Sum)?));
                    assert_eq!(sums.sum::<Result<u64>>()?, 6_000);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let again = log.take().iter().filter(|line| *line == "room again").count();
        assert_eq!(again, 4);
        Ok(())
    });
}

#[test]
fn a_supervisor_refuses_children_beyond_its_limit() {
    everywhere(|_, system, log| {
        let few = system.dynamic("few", Supervise::one_for_one().at_most(2))?;
        let start = |name: &'static str| {
            let opts = ActorOpts::new(name).child(Child::temporary());
            few.start(opts, subject(name, log))
        };
        let (a, _b) = (start("a")?, start("b")?);
        let error = start("c").unwrap_err().to_string();
        assert!(error.contains("has 2 children"), "{error}");
        assert!(system.find::<Msg>("c").is_none());
        let watch = a.watch();
        a.tell(Msg::Finish)?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Finished);
        start("c")?; // there is a place again, before the notice is sent
        start("a").unwrap_err();
        Ok(())
    });
}

#[test]
fn all_children_are_asked_to_stop_at_once() {
    support::schedules(&[1, 2], 20, 0, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let began = rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                let many = system.dynamic("many", Supervise::one_for_one())?;
                for _ in 0..10 {
                    let child = Child::transient().stop_within(Duration::from_secs(1));
                    let opts = ActorOpts::new("").child(child);
                    // It does not end within its grace period.
                    many.start(opts, subject("deaf", &log))?.call(LONG, Msg::Wait)?;
                }
                many.start(ActorOpts::new(""), subject("quick", &log))?;
                cx.checkpoint()?;
                Ok(time::now())
            })
        });
        let began = began.unwrap();
        let took = rt.run(|_| Ok(time::now() - began)).unwrap();
        let second = Duration::from_secs(1);
        assert!(took >= second && took < second * 2, "{took:?}");
        let lines = log.take();
        assert_eq!((lines.len(), lines[0].as_str()), (11, "quick stopped"), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("deaf cancelled")), "{lines:?}");
    });
}

#[test]
fn a_supervisor_that_has_ended_starts_nothing() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let mut kept = None;
        support::succeed(rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                kept = Some(system.dynamic("many", Supervise::one_for_one())?);
                Ok(())
            })
        }));
        let error = kept.unwrap().start(ActorOpts::new("a"), subject("a", &log)).unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    });
}

/// A child has so much time to start; one that has started may take its time.
#[test]
fn a_child_that_takes_too_long_to_start_is_cancelled() {
    deterministic(|cx, system, log| {
        let second = Duration::from_secs(1);
        let opts = |name: &str| ActorOpts::new(name).child(Child::temporary().start_within(second));
        let began = time::now();
        let punctual = system.start(opts("punctual"), subject("punctual", log))?;
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                    let late = system.start(opts(""), move |_| {
                        time::sleep(LONG)?;
                        Ok(Subject { name: "late", log, sum: 0 })
                    });
                    late.unwrap_err();
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let took = time::now() - began;
        assert!(took >= second && took < second * 2, "{took:?}");
        cx.sleep(second * 3)?;
        assert_eq!(punctual.call(LONG, Msg::Sum)?, 1_000);
        assert_eq!(log.take(), Vec::<String>::new());
        Ok(())
    });
}

/// Shards start children in turn; one that gives up takes its own children with it and no others.
#[test]
fn children_are_divided_among_shards() {
    everywhere(|_, system, log| {
        let spec = Supervise::one_for_one().shards(4).at_most(10).restarts(1, LONG);
        let many = system.dynamic("many", spec)?;
        let start = |name: &'static str| many.start(ActorOpts::new(name), subject(name, log));
        let first: Vec<_> = ["a", "b", "c", "d"].into_iter().map(start).collect::<Result<_>>()?;
        let watch = first[0].watch();
        first[0].tell(Msg::Fail("once"))?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Failed);
        assert_eq!(first[0].call(LONG, Msg::Incarnation)?, 2);
        let again = first[0].watch();
        first[0].tell(Msg::Fail("twice"))?;
        again.wait()?;
        for other in &first[1..] {
            assert_eq!(other.call(LONG, Msg::Sum)?, 1_000, "they are children of other shards");
        }
        // Three for each shard, which is a part of ten rounded up; the first shard begins again.
        let more: Vec<_> = (0..9).map(|_| start("")).collect::<Result<_>>()?;
        for one in &more {
            assert_eq!(one.call(LONG, Msg::Incarnation)?, 1);
        }
        assert!((0..4).any(|_| start("").is_err()));
        Ok(())
    });
}
