//! The tree of a system, as dumps, snapshots and metrics show it.

use super::*;
use parcae::Runtime;
use parcae::inspect::{DescribedItem, Description};
use parcae_actor::{Child, Supervise};
use std::time::Instant;

fn figure(figures: &[(&'static str, u64)], name: &str) -> Option<u64> {
    figures.iter().find(|(other, _)| *other == name).map(|&(_, value)| value)
}

fn item<'d>(tree: &'d Description, title: &str) -> &'d DescribedItem {
    tree.items.iter().find(|item| item.title == title).unwrap_or_else(|| panic!("{tree:?}"))
}

/// The tree of the only system of a runtime.
fn tree(rt: &Runtime<Cluster>) -> Description {
    let mut parts = rt.dump().parts;
    assert_eq!(parts.len(), 1, "{parts:?}");
    parts.remove(0)
}

/// Looks until the tree is as it should be: states change while it is looked at.
fn until(rt: &Runtime<Cluster>, holds: impl Fn(&Description) -> bool) -> Description {
    let began = Instant::now();
    loop {
        let tree = tree(rt);
        if holds(&tree) {
            return tree;
        }
        assert!(began.elapsed() < LONG, "{tree:?}");
        parcae::time::sleep(Duration::from_millis(1)).unwrap(); // the actor may be on this worker
    }
}

fn with_system(
    test: impl for<'env> Fn(&Runtime<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    let rt = Runtime::builder().workers(2).profile::<Cluster>().build().unwrap();
    let log = Log::default();
    let opts = ActorsOpts::new().name("shop").restarts(9);
    support::succeed(rt.run(|cx| cx.actors(opts, |system| test(&rt, system, &log))));
    assert!(rt.dump().parts.is_empty(), "a system that has ended");
}

#[test]
fn the_tree_has_incarnations_exits_and_restarts_left() {
    with_system(|rt, system, log| {
        let spec = Supervise::rest_for_one().restarts(5, LONG);
        system.supervise("tills", spec, |tills| {
            tills.actor(ActorOpts::new("till"), subject("till", log))?;
            tills.actor(
                ActorOpts::new("printer").child(Child::temporary()),
                subject("printer", log),
            )?;
            Ok(())
        })?;
        let till = system.find::<Msg>("till").unwrap();
        till.tell(Msg::Fail("no paper"))?;
        assert_eq!(till.call(LONG, Msg::Incarnation)?, 2);
        let tree = until(rt, |tree| item(tree, "actor `till`").state == "waiting");
        assert_eq!(tree.title, "actors `shop`");
        assert_eq!(figure(&tree.figures, "restarts left"), Some(8));
        assert_eq!(figure(&tree.figures, "supervisors"), Some(2));
        assert_eq!(figure(&tree.figures, "letters: handler failed"), Some(1));
        let (root, tills) = (&tree.items[0], item(&tree, "supervisor `tills`"));
        assert_eq!((root.depth, tills.depth, item(&tree, "actor `till`").depth), (0, 1, 2));
        assert_eq!(figure(&tills.figures, "restarts left"), Some(4));
        assert!(
            tills.notes.iter().any(|note| note.contains("`till` failed: no paper")),
            "{tills:?}"
        );
        let till = item(&tree, "actor `till`");
        assert_eq!(figure(&till.figures, "incarnation"), Some(2));
        assert_eq!(figure(&till.figures, "taken"), Some(2));
        assert!(till.notes.iter().any(|note| note.contains("no paper")), "{till:?}");
        // The temporary printer was stopped for the restart, and is gone.
        assert!(!tree.items.iter().any(|item| item.title.contains("printer")), "{tree:?}");
        let text = rt.dump().to_string();
        assert!(text.contains("    actor `till`: waiting, incarnation 2, queued 0"), "{text}");
        let json = rt.dump().to_json();
        assert!(json.contains(r#""parts":[{"title":"actors `shop`""#), "{json}");
        let metrics = rt.stats().to_prometheus();
        let line = "parcae_part{part=\"actors `shop`\",figure=\"restarts left\"} 8";
        assert!(metrics.contains(line), "{metrics}");
        Ok(())
    });
}

#[test]
fn the_tree_has_queues_and_their_age_and_actors_without_a_task() {
    with_system(|rt, system, log| {
        let busy = start(system, "busy", log)?;
        busy.call(LONG, Msg::Wait)?; // replies, then sleeps
        (0..3).try_for_each(|n| busy.tell(Msg::Add(n)))?;
        let tree = tree(rt);
        assert_eq!(figure(&item(&tree, "actor `busy`").figures, "queued"), Some(3));
        assert_eq!(figure(&tree.figures, "queued"), Some(3));
        let age = |tree: &Description| figure(&item(tree, "actor `busy`").figures, "unmoved ms");
        until(rt, |tree| age(tree).is_some_and(|ms| ms >= 2));
        let task = item(&tree, "actor `busy`").task.expect("it has a task");
        assert!(rt.dump().tasks.iter().any(|seen| seen.id.as_u64() == task));
        busy.kill()?;

        struct Sleeper;
        impl Actor for Sleeper {
            type Msg = Reply<()>;
            fn handle(&mut self, _: &mut ActorCx<'_, Reply<()>>, done: Reply<()>) -> Result<Next> {
                done.send(());
                Ok(Next::Hibernate)
            }
        }
        let sleeper = system.start(ActorOpts::new("sleeper"), |_| Ok(Sleeper))?;
        sleeper.call(LONG, |done| done)?;
        let asleep = |tree: &Description| {
            let sleeper = item(tree, "actor `sleeper`");
            sleeper.state == "asleep" && sleeper.task.is_none()
        };
        let tree = until(rt, asleep);
        assert_eq!(figure(&tree.figures, "asleep"), Some(1));
        Ok(())
    });
}

#[test]
fn a_large_tree_is_cut() {
    with_system(|rt, system, log| {
        let spec = Supervise::one_for_one();
        let many = system.dynamic("many", spec)?;
        for _ in 0..700 {
            many.start(ActorOpts::new(""), subject("", log))?;
        }
        let tree = tree(rt);
        assert_eq!(figure(&tree.figures, "actors"), Some(700));
        assert_eq!((tree.items.len(), tree.left_out), (702, 0), "in a dump");
        assert_eq!(figure(&item(&tree, "supervisor `many`").figures, "children"), Some(700));
        let stats = rt.stats();
        assert_eq!((stats.parts[0].items.len(), stats.parts[0].left_out), (0, 702));
        Ok(())
    });
}
