//! Monitors, links, groups, names, timers, helpers.

use super::*;
use parcae_actor::{Child, ExitKind, LetterReason};

#[test]
fn a_monitor_fires_once_for_each_kind_of_end() {
    type End = fn(&Address<Msg>) -> Result<()>;
    let ends: [(End, &str); 5] = [
        (|actor| Ok(actor.tell(Msg::Finish)?), "finished"),
        (|actor| Ok(actor.tell(Msg::Fail("broken"))?), "failed: broken"),
        (|actor| Ok(actor.tell(Msg::Panic("ouch"))?), "panicked: ouch"),
        (|actor| Ok(actor.stop()?), "stopped"),
        (|actor| Ok(actor.kill()?), "cancelled explicitly"),
    ];
    for (end, expected) in ends {
        everywhere(move |cx, system, log| {
            let watcher = start(system, "watcher", log)?;
            let opts = ActorOpts::new("a").child(Child::temporary());
            let actor = system.start(opts, subject("a", log))?;
            watcher.tell(Msg::Monitor(actor.clone()))?;
            watcher.call(LONG, Msg::Sum)?;
            let watch = actor.watch();
            end(&actor)?;
            let exit = watch.wait()?;
            assert!(exit.to_string().starts_with(expected), "{exit}");
            // One that comes too late fires at once.
            watcher.tell(Msg::Monitor(actor.clone()))?;
            while log.0.lock().unwrap().len() < 3 {
                cx.sleep(Duration::from_millis(1))?;
            }
            assert!(actor.is_gone() && system.find::<Msg>("a").is_none());
            let lines = log.take();
            assert!(lines[0].starts_with(&format!("a {expected}")), "{lines:?}");
            for line in &lines[1..] {
                assert!(line.starts_with(&format!("watcher hears: a {expected}")), "{lines:?}");
            }
            watcher.call(LONG, Msg::Sum)?;
            assert!(log.take().is_empty());
            Ok(())
        });
    }
}

#[test]
fn a_linked_actor_fails_with_the_other_one() {
    everywhere(|_, system, log| {
        let child = Child::temporary();
        let a = system.start(ActorOpts::new("a").child(child.clone()), subject("a", log))?;
        let b = system.start(ActorOpts::new("b").child(child), subject("b", log))?;
        a.tell(Msg::Link(b.clone()))?;
        a.call(LONG, Msg::Sum)?;
        let watch = b.watch();
        a.tell(Msg::Fail("broken"))?;
        let exit = watch.wait()?;
        assert_eq!(exit.kind(), ExitKind::Failed);
        assert!(exit.to_string().contains("the linked actor `a` has failed"), "{exit}");
        Ok(())
    });
}

#[test]
fn the_failure_of_a_helper_is_that_of_the_actor() {
    everywhere(|_, system, log| {
        let opts = ActorOpts::new("a").child(Child::temporary());
        let actor = system.start(opts, subject("a", log))?;
        let watch = actor.watch();
        actor.tell(Msg::Helper)?;
        let exit = watch.wait()?;
        assert!(exit.to_string().contains("the helper failed"), "{exit}");
        Ok(())
    });
}

#[test]
fn messages_that_are_left_become_dead_letters() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        actor.call(LONG, Msg::Wait)?;
        for n in 0..3 {
            actor.tell(Msg::Add(n))?;
        }
        let watch = actor.watch();
        actor.kill()?;
        watch.wait()?;
        // The message that it handled, and those behind it.
        while system.dead_letters().count(LetterReason::Gone) < 3 {
            parcae::time::sleep(Duration::from_millis(1))?;
        }
        assert_eq!(system.dead_letters().count(LetterReason::Failed), 1);
        let letters = system.dead_letters().take();
        assert_eq!(letters.len(), 4);
        assert!(letters.iter().all(|letter| &*letter.to == "a"));
        Ok(())
    });
}

#[test]
fn names_are_unique_and_free_after_the_end() {
    everywhere(|_, system, log| {
        let first = start(system, "a", log)?;
        assert!(start(system, "a", log).unwrap_err().to_string().contains("`a` is there already"));
        assert!(system.find::<String>("a").is_none());
        system.find::<Msg>("a").expect("found").tell(Msg::Add(1))?;
        assert_eq!(first.call(LONG, Msg::Sum)?, 1001);
        let watch = first.watch();
        first.stop()?;
        watch.wait()?;
        let second = start(system, "a", log)?;
        assert_eq!(second.call(LONG, Msg::Sum)?, 1000);
        Ok(())
    });
}

#[test]
fn a_group_forgets_those_that_have_ended() {
    everywhere(|_, system, log| {
        let (a, b) = (start(system, "a", log)?, start(system, "b", log)?);
        let group = system.group::<Msg>("both");
        group.join(&a);
        group.join(&b);
        group.join(&b);
        let names = |turns: usize| -> Vec<String> {
            (0..turns).filter_map(|_| group.one()).map(|one| one.name().to_owned()).collect()
        };
        assert_eq!(names(3), ["a", "b", "a"]);
        let watch = a.watch();
        a.stop()?;
        watch.wait()?;
        assert_eq!(system.group::<Msg>("both").members().len(), 1);
        group.join(&a);
        assert_eq!(group.members().len(), 1);
        assert_eq!(group.least_busy().expect("one is left").name(), "b");
        Ok(())
    });
}

#[test]
fn a_timer_is_an_event_of_its_incarnation() {
    everywhere(|cx, system, log| {
        let opts = ActorOpts::new("a").child(Child::permanent());
        let actor = system.start(opts, subject("a", log))?;
        actor.tell(Msg::Timer(Duration::from_millis(2)))?;
        while log.0.lock().unwrap().is_empty() {
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), ["a hears: alarm"]);
        actor.tell(Msg::Timer(Duration::from_millis(2)))?;
        actor.tell(Msg::Finish)?;
        cx.sleep(Duration::from_millis(20))?;
        assert_eq!(actor.call(LONG, Msg::Incarnation)?, 2);
        assert_eq!(log.take(), ["a finished", "a again"]);
        Ok(())
    });
}
