//! Budget is conserved: random trees of nurseries, whatever their tasks do.
//!
//! A plan is made from a number: nurseries with and without budgets of their own, children
//! with and without, components that are counted and that are not, every policy; tasks that
//! work, charge, recharge, yield, fail, panic, cancel. It is run under the deterministic
//! executor and on threads. Each task notes what it has done in the ledger of its nursery, and
//! of all above. Checked is
//!
//! - at every step of a body: `granted = left + held + spent` in its nursery's pool, for each
//!   resource that is counted;
//! - when a nursery with a budget of its own has no children left: no task holds any of it, and the
//!   amount it reports as spent is that of the ledger;
//! - at the end of the runtime: the same, and `granted = left + spent`.
//!
//! A task that is suspended for ever does not stop a plan: a body that has waited long
//! recharges its nursery if it can, and in the end cancels it.

use super::*;
use crate::base::rng::Rng;
use crate::runtime::Preempt;
use crate::scope::budget::{Resource, Standing, UNLIMITED};
use crate::scope::profile::Service;
use std::sync::Mutex;

/// The operations in a nursery and below it.
struct Ledger<'l> {
    above: Option<&'l Ledger<'l>>,
    done: Mutex<Budget>,
    /// Mismatches. Not reported by a panic, which would be a task's failure among others.
    wrong: Mutex<Vec<String>>,
}

impl Ledger<'_> {
    fn new<'l>(above: Option<&'l Ledger<'l>>) -> Ledger<'l> {
        Ledger { above, done: Mutex::new(Budget::ZERO), wrong: Mutex::default() }
    }

    /// Here and in all above.
    fn note(&self, cost: Budget) {
        self.note_here(cost);
        if let Some(above) = self.above {
            above.note(cost);
        }
    }

    fn note_here(&self, cost: Budget) {
        self.done.lock().unwrap().absorb(cost);
    }

    fn expect(&self, what: &str, left: u64, right: u64, standing: &Standing) {
        match self.above {
            _ if left == right => {}
            Some(above) => above.expect(what, left, right, standing),
            None => {
                let line = format!("{what}: {left} is not {right} in {standing:?}");
                self.wrong.lock().unwrap().push(line);
            }
        }
    }

    /// Nothing is made or lost, in what is counted.
    fn check_sum(&self, standing: &Standing) {
        let Standing { granted, left, held, spent, .. } = standing;
        for resource in Resource::ALL {
            let granted = granted.get(resource);
            if granted != UNLIMITED {
                let parts = left.get(resource) + held.get(resource) + spent.get(resource);
                self.expect(&format!("sum of {resource}"), granted, parts, standing);
            }
        }
    }

    /// No task holds anything, and the amount spent is that of the operations.
    fn check_at_rest(&self, standing: &Standing) {
        self.check_sum(standing);
        let done = *self.done.lock().unwrap();
        for resource in Resource::ALL {
            self.expect(&format!("held {resource}"), standing.held.get(resource), 0, standing);
            if standing.granted.get(resource) != UNLIMITED {
                let (spent, done) = (standing.spent.get(resource), done.get(resource));
                self.expect(&format!("spent {resource}"), spent, done, standing);
            }
        }
    }
}

/// One of the numbers; each is as likely.
fn one_of<T: Copy>(rng: &Rng, all: &[T]) -> T {
    all[rng.below(all.len())]
}

/// A budget for so many ops; some of its components are not counted.
fn some_budget(rng: &Rng, most: u64) -> Budget {
    let some = |most: u64| one_of(rng, &[UNLIMITED, most, most, most / 3]);
    Budget {
        ops: some(most),
        memory: some(5_000),
        spawn_count: some(most / 20),
        channel_ops: some(most / 10),
        syscalls: some(most / 10),
    }
}

fn some_cost(rng: &Rng) -> Budget {
    Budget {
        ops: rng.below(40) as u64,
        memory: one_of(rng, &[0, 0, 10, 100]),
        spawn_count: 0,
        channel_ops: one_of(rng, &[0, 1, 3]),
        syscalls: one_of(rng, &[0, 0, 1]),
    }
}

/// A task, or a part of one: a few steps. Below a certain depth no nurseries are opened.
fn act(cx: &Cx, rng: &Rng, ledger: &Ledger<'_>, depth: usize) -> Result<()> {
    for _ in 0..rng.below(6) {
        match rng.below(if depth == 0 { 10 } else { 16 }) {
            0..=3 => {
                for _ in 0..one_of(rng, &[1, 10, 100, 700]) {
                    cx.checkpoint()?;
                    ledger.note(Budget::OP);
                }
            }
            4..=6 => {
                let cost = some_cost(rng);
                cx.charge(cost)?;
                ledger.note(cost);
            }
            7 => cx.yield_now()?,
            8 => match rng.below(6) {
                // Not by the macro, which would print a message.
                0 => resume_unwind(Box::new("planned")),
                1 => return Err(oops()),
                _ => {}
            },
            9 => {
                if rng.below(8) == 0 {
                    cx.token().cancel();
                }
            }
            _ => match nursery(cx, rng, ledger, depth - 1) {
                // A nursery that failed is now and then the end of who opened it.
                Err(error) if rng.below(3) == 0 => return Err(error),
                _ => {}
            },
        }
    }
    Ok(())
}

fn nursery(cx: &Cx, rng: &Rng, ledger: &Ledger<'_>, depth: usize) -> Result<()> {
    let own = rng.below(2) == 0;
    let mut opts = NurseryOpts::new()
        .on_failure(one_of(rng, &[OnFailure::FailFast, OnFailure::Isolate, OnFailure::Collect]));
    if own {
        opts = opts.budget(some_budget(rng, 2_000));
    }
    if rng.below(2) == 0 {
        opts = opts.slice(some_budget(rng, 200));
    }
    let policies = [OnExhausted::Refill, OnExhausted::Suspend, OnExhausted::Fail];
    if rng.below(4) != 0 {
        opts = opts.on_exhausted(one_of(rng, &policies));
    }
    let inner = Ledger::new(Some(ledger));
    cx.nursery_with(opts, |n| {
        // The body draws on the pool of a nursery that shares its account, and not on another.
        let mine = if own { ledger } else { &inner };
        let body = (0..rng.below(6)).try_for_each(|_| {
            inner.check_sum(&n.budget());
            match rng.below(8) {
                0..=4 => spawn(n, rng, &inner, depth),
                5 => recharge(n, rng, &inner, own),
                _ => act(cx, rng, mine, 0),
            }
        });
        let waited = body.and_then(|()| wait(cx, n, rng, &inner, own));
        inner.check_sum(&n.budget());
        if own && n.live() == 0 {
            inner.check_at_rest(&n.budget());
        }
        waited
    })
}

fn spawn<'scope>(
    n: &'scope Nursery<'scope, '_, Service>,
    rng: &Rng,
    ledger: &'scope Ledger<'_>,
    depth: usize,
) -> Result<()> {
    let seed = rng.next();
    let child = move |cx: &Cx| act(cx, &Rng::new(seed, 1), ledger, depth);
    let spawned = if rng.below(3) == 0 {
        n.spawn_with(SpawnOpts::new().budget(some_budget(rng, 300)), child)
    } else {
        n.spawn(child)
    };
    // One that could not be spawned was not paid for.
    let Ok(handle) = spawned else { return Ok(()) };
    ledger.note(Budget::SPAWN);
    match rng.below(4) {
        0 => handle.cancel(),
        // A child that is suspended for ever may not be waited for.
        1 if n.budget().suspended == 0 => drop(handle.try_join()),
        2 => std::mem::forget(handle),
        _ => {}
    }
    Ok(())
}

/// Moves budget of the owner's into the nursery.
fn recharge(n: &Nursery<'_, '_, Service>, rng: &Rng, ledger: &Ledger<'_>, own: bool) -> Result<()> {
    let mut amount = some_cost(rng);
    amount.ops *= 5;
    n.recharge(amount)?;
    if !own {
        // Out of its own pool and into it again: spent and granted there, and nowhere else.
        ledger.note_here(amount);
    }
    Ok(())
}

/// Until all children have ended.
fn wait(
    cx: &Cx,
    n: &Nursery<'_, '_, Service>,
    rng: &Rng,
    ledger: &Ledger<'_>,
    own: bool,
) -> Result<()> {
    for round in 0.. {
        if n.live() == 0 {
            break;
        }
        ledger.check_sum(&n.budget());
        if n.budget().suspended > 0 && rng.below(4) == 0 {
            recharge(n, rng, ledger, own)?;
        }
        if round == 300 {
            n.cancel();
        }
        cx.yield_now()?;
    }
    Ok(())
}

/// Runs a plan in a runtime with a budget of its own, several times in a row.
fn run(seed: u64, deterministic: bool) {
    let rng = Rng::new(seed, 0);
    let budget = some_budget(&rng, one_of(&rng, &[300, 3_000, 30_000]));
    // A suspended root task would never be woken.
    let policy = one_of(&rng, &[OnExhausted::Refill, OnExhausted::Fail]);
    let workers = one_of(&rng, &[1, 2, 4]);
    let builder = Runtime::builder().workers(workers).budget(budget).on_exhausted(policy);
    let interval = one_of(&rng, &[1, 7, 64, 1_000]);
    let preempt = one_of(&rng, &[Preempt::Never, Preempt::Randomly]);
    let builder = builder.yield_interval(interval).preempt(preempt);
    let builder = if deterministic { builder.deterministic(seed) } else { builder };
    let rt = builder.build().unwrap();
    let ledger = Ledger::new(None);
    for _ in 0..3 {
        let seed = rng.next();
        // However it ends.
        let _ = rt.run(|cx| {
            ledger.note_here(Budget::SPAWN); // the runtime has paid for this task
            act(cx, &Rng::new(seed, 2), &ledger, 3)
        });
        ledger.check_at_rest(&rt.budget());
    }
    let wrong = ledger.wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "plan {seed}, deterministic {deterministic}: {wrong:#?}");
}

// rule: S0-INHERIT-1, S0-INHERIT-2, S0-INHERIT-4, S0-INHERIT-5, S0-INHERIT-6, S0-NURSERY-6
// rule: S0-TASK-3
#[test]
fn budget_is_conserved_whatever_tasks_do() {
    (0..1_500).for_each(|seed| run(seed, true));
}

// rule: S0-INHERIT-1, S0-INHERIT-2, S0-INHERIT-4, S0-INHERIT-5, S0-INHERIT-6, S0-NURSERY-6
#[test]
fn budget_is_conserved_on_threads() {
    (0..300).for_each(|seed| run(seed, false));
}
