//! The public names: a program like those of the tutorial needs the prelude alone, and the crate
//! root has the names of this list and no others.

use parcae::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Items at the root, each with its reason. Types of results, settings and observers are in the
/// modules of their subjects.
const ROOT: &[(&str, &str)] = &[
    ("Allocator", "`#[global_allocator]` of a program that bounds memory"),
    ("Budget", "an option of nearly every nursery"),
    ("CancelReason", "matched in the errors of cancelled tasks"),
    ("CancelToken", "Ctrl-C, and cancelling from outside"),
    ("Cx", "the argument of every task"),
    ("Error", "in signatures; the prelude leaves it to the standard library"),
    ("ErrorKind", "matched in errors"),
    ("Handle", "starts tasks from other threads"),
    ("Nursery", "in signatures of functions that spawn"),
    ("NurseryOpts", "name, budget, deadline and policy of a nursery"),
    ("OnExhausted", "an option of a budget"),
    ("OnFailure", "an option of a nursery"),
    ("Priority", "an option of a task"),
    ("Result", "in signatures; the prelude leaves it to the standard library"),
    ("RootTask", "the result of `Handle::spawn`"),
    ("Runtime", "where every program begins"),
    ("SpawnOpts", "name, budget and priority of a task"),
    ("TaskHandle", "the result of `Nursery::spawn`"),
    ("block_on", "runs a future on a task"),
    ("blocking", "calls code that blocks its thread"),
    ("blocking_static", "the same, for calls that may outlive a deadline"),
    ("budgeted", "the attribute that inserts checkpoints"),
    ("checkpoint", "a checkpoint without a `Cx`"),
    ("check", "a test under the lab"),
    ("explore", "a test under many seeds"),
    ("test", "the attribute of a test under the lab"),
    ("yield_now", "a yield without a `Cx`"),
];

/// Modules at the root.
const MODULES: &[(&str, &str)] = &[
    ("attach", "observing from another process"),
    ("budget", "accounts and states of budgets"),
    ("cancel", "callbacks on cancel"),
    ("cap", "capabilities"),
    ("channel", "channels"),
    ("fiber", "fibers without a scheduler"),
    ("inspect", "dumps and deadlocks"),
    ("island", "realtime islands"),
    ("lab", "finding schedules in which a test fails"),
    ("nursery", "states and events of nurseries"),
    ("policy", "shares, contexts and leases of the processors"),
    ("prelude", "the names that most programs use"),
    ("profile", "profiles"),
    ("runtime", "settings, build errors, shutdown"),
    ("select", "waiting for the first of several operations"),
    ("stack", "stacks and their sizes"),
    ("stall", "reports about stuck workers"),
    ("stats", "metrics"),
    ("sync", "locks and signals"),
    ("task", "identity of tasks, loops with checkpoints, wakers"),
    ("time", "sleeping, intervals, the clock"),
    ("trace", "recording events"),
];

/// Names at the root that are hidden from the documentation or need a feature.
const HIDDEN: [&str; 4] = ["__private", "engine", "foreign", "io"];

/// Names of the root that the prelude does not have, because programs name them rarely or because
/// they would hide names of the standard library.
const NOT_IN_PRELUDE: [&str; 11] = [
    "Allocator",
    "Error",
    "Result",
    "block_on",
    "blocking",
    "blocking_static",
    "check",
    "checkpoint",
    "explore",
    "test",
    "yield_now",
];

/// A function that spawns names the nursery, one that computes names the context.
fn count<'scope>(
    n: &'scope Nursery<'scope, '_>,
    text: &'scope str,
) -> parcae::Result<TaskHandle<'scope, usize>> {
    let opts = SpawnOpts::new().name("count").priority(Priority::High);
    n.spawn_with(opts, move |cx| words(cx, text))
}

fn words(cx: &Cx, text: &str) -> parcae::Result<usize> {
    cx.each(text.split(' ')).try_fold(0, |sum, word| Ok(sum + usize::from(!word?.is_empty())))
}

#[budgeted]
fn long(rounds: u64) -> parcae::Result<u64> {
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = sum.wrapping_add(round);
    }
    Ok(sum)
}

#[test]
fn a_tutorial_program_needs_the_prelude_alone() -> parcae::Result<()> {
    let text = String::from("spin, measure and cut");
    let rt: Runtime = Runtime::builder().workers(2).build()?;
    let tenant = NurseryOpts::new()
        .name("tenant")
        .budget(Budget::UNLIMITED.with_ops(1_000_000))
        .on_exhausted(OnExhausted::Refill)
        .on_failure(OnFailure::Isolate);
    let counted = rt.nursery(tenant, |n| count(n, &text)?.join())?;
    assert_eq!(counted, 4);

    let bounded = NurseryOpts::new().budget(Budget::UNLIMITED.with_ops(500_000));
    let error = rt.nursery(bounded, |n| n.spawn(|_| long(1_000_000))?.join()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");

    let stop = CancelToken::new();
    let handle: Handle = rt.handle();
    let task: RootTask<()> = handle.spawn(|cx| cx.sleep(Duration::MAX))?;
    task.cancel();
    let error = task.join().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled(CancelReason::Explicit)), "{error}");
    stop.cancel();
    let opts = NurseryOpts::new().token(&stop);
    assert!(rt.nursery(opts, |n| n.spawn(|_| Ok(()))?.join()).unwrap_err().is_cancelled());
    Ok(())
}

/// The names that `pub use` and `pub mod` declare at this depth of indentation.
fn exports(source: &str, indent: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = source;
    while let Some(at) = rest.find(&format!("\n{indent}pub ")) {
        let item = &rest[at + 1 + indent.len() + "pub ".len()..];
        if let Some(name) = item.strip_prefix("mod ") {
            names.insert(name.split([' ', ';']).next().unwrap().to_owned());
        } else if let Some(path) = item.strip_prefix("use ") {
            let path = path.split(';').next().unwrap();
            let list = path.split_once('{').map_or(path, |(_, list)| list.trim_end_matches('}'));
            names.extend(list.split(',').filter_map(|name| {
                let name = name.split(" as ").last().unwrap().rsplit("::").next().unwrap().trim();
                (!name.is_empty()).then(|| name.to_owned())
            }));
        }
        rest = item;
    }
    names
}

fn root() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap()
}

#[test]
fn the_root_has_the_listed_names() {
    let found = exports(&root(), "");
    let listed = ROOT.iter().chain(MODULES).map(|(name, _)| *name).chain(HIDDEN);
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(new.is_empty(), "put these into a module, or list them with a reason: {new:?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "not at the root: {gone:?}");
}

#[test]
fn the_prelude_is_a_part_of_the_root() {
    let source = root();
    let prelude = source.split_once("\npub mod prelude {").unwrap().1;
    let found = exports(prelude.split_once("\n}").unwrap().0, "    ");
    let listed = ROOT.iter().map(|(name, _)| *name);
    let listed = listed.filter(|name| !NOT_IN_PRELUDE.contains(name)).map(str::to_owned);
    assert_eq!(found, listed.collect());
}
