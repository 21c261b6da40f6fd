//! Random programs: nurseries, budgets, policies, cancellations, panics, forgotten handles.
//!
//! A program is made from a number. It must end, conserve its budget at every look, cause no panic
//! in the runtime, and under the deterministic executor run the same way every time.

use crate::support::*;
use parcae::budget::{Resource, Standing};
use parcae::prelude::*;
use parcae::profile::Service;
use parcae::{Error, Result};

/// Numbers by which a program decides.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn nursery(&mut self) -> NurseryOpts {
        let budget = Budget {
            ops: 500 + self.below(5_000),
            memory: 1_000 + self.below(10_000),
            spawn_count: self.below(20),
            ..Budget::UNLIMITED
        };
        let grant = Budget {
            ops: 1 + self.below(300),
            memory: self.below(500),
            spawn_count: self.below(4),
            channel_ops: 1,
            syscalls: 1,
        };
        let opts = NurseryOpts::new()
            .slice(grant)
            .on_exhausted(self.one_of(&[
                OnExhausted::Refill,
                OnExhausted::Fail,
                OnExhausted::Suspend,
            ]))
            .on_failure(self.one_of(&[
                OnFailure::FailFast,
                OnFailure::Isolate,
                OnFailure::Collect,
            ]));
        if self.below(4) == 0 { opts } else { opts.budget(budget) }
    }

    fn child(&mut self) -> Child {
        let (kind, much) = (self.below(9), self.below(400));
        let inner = (self.below(2) != 0).then(|| Budget {
            ops: 20 + self.below(100),
            memory: self.below(300),
            spawn_count: 2,
            ..Budget::ZERO
        });
        Child { kind, much, inner }
    }

    fn spawn(&mut self) -> SpawnOpts {
        match self.below(4) {
            0 => SpawnOpts::new().budget(Budget {
                ops: 10 + self.below(200),
                memory: self.below(100),
                spawn_count: self.below(3),
                channel_ops: 0,
                syscalls: 0,
            }),
            1 => SpawnOpts::new().budget(Budget { ops: 10 + self.below(200), ..Budget::UNLIMITED }),
            _ => SpawnOpts::new(),
        }
    }
}

fn work(cx: &Cx, ops: u64) -> Result<()> {
    (0..ops).try_for_each(|_| cx.checkpoint())
}

/// The script of a child.
struct Child {
    kind: u64,
    much: u64,
    /// The budget of the nursery that it may open.
    inner: Option<Budget>,
}

impl Child {
    fn run(self, cx: &Cx) -> Result<u64> {
        let much = self.much;
        match self.kind {
            0 => panic!("x"),
            1 => return Err(Error::msg("y")),
            2 => cx.charge(Budget { memory: much, ..Budget::ZERO })?,
            3 | 4 => {
                let opts = NurseryOpts::new();
                let opts = match self.inner {
                    Some(budget) => opts.budget(budget),
                    None => opts,
                };
                cx.nursery_with(opts, |n| {
                    let child = n.spawn(move |cx| work(cx, much));
                    work(cx, much)?;
                    child?.join()
                })?;
            }
            5 => cx.park()?,
            _ => work(cx, much * 3)?,
        }
        Ok(much)
    }
}

/// The body of one nursery. Says how its budget stood while its children ran.
fn body<'s>(
    cx: &Cx,
    n: &'s Nursery<'s, '_, Service>,
    random: &mut Random,
    seen: &mut Option<Standing>,
) -> Result<()> {
    let mut handles = Vec::new();
    for _ in 0..random.below(12) {
        let child = random.child();
        match n.spawn_with(random.spawn(), move |cx| child.run(cx)) {
            Ok(handle) => handles.push(handle),
            Err(_) => break,
        }
    }
    for _ in 0..random.below(30) {
        cx.yield_now()?;
    }
    if random.below(3) == 0 {
        n.recharge(Budget { ops: 100, ..Budget::ZERO })?;
    }
    let standing = n.budget();
    for resource in Resource::ALL {
        let [granted, left, held, spent] =
            [standing.granted, standing.left, standing.held, standing.spent]
                .map(|budget| budget.get(resource));
        if granted != u64::MAX {
            assert_eq!(granted, left + held + spent, "{resource}: {standing:?}");
        }
    }
    *seen = Some(standing);
    let first = random.below(4);
    for (turn, handle) in (first..).zip(handles) {
        match turn % 4 {
            0 => drop(handle),
            1 => handle.cancel(),
            2 => {
                handle.cancel();
                let _ = handle.join();
            }
            _ => std::mem::forget(handle),
        }
    }
    for _ in 0..50 {
        cx.yield_now()?;
    }
    n.cancel();
    Ok(())
}

/// Runs the program of this seed. Tells all that is to be seen of it.
fn program(rt: &Runtime, seed: u64) -> String {
    let outcome = rt.run(|cx| {
        let mut random = Random::new(seed);
        let mut told = String::new();
        for _ in 0..20 {
            let mut standing = None;
            let outcome =
                cx.nursery_with(random.nursery(), |n| body(cx, n, &mut random, &mut standing));
            told += &format!("{standing:?} {}\n", outcome.is_ok());
        }
        Ok(told)
    });
    let told = format!("{outcome:?} {:?}", rt.budget());
    // The panics of a program say something else.
    assert!(!told.contains("anicked: as"), "seed {seed}: an assertion failed: {told}");
    told
}

#[test]
fn random_programs_end_conserve_their_budget_and_can_be_repeated() {
    must_end(|| {
        for seed in 0..150_u64 {
            let counted = seed % 2 == 1;
            let limits = if counted {
                Budget {
                    ops: 10_000_000,
                    memory: 1 << 30,
                    spawn_count: 100_000,
                    ..Budget::UNLIMITED
                }
            } else {
                Budget::UNLIMITED
            };
            let builder = || {
                Runtime::builder()
                    .workers(1 + seed as usize % 3)
                    .budget(limits)
                    .yield_interval([1, 7, 1024][seed as usize % 3])
            };
            let repeatable = || {
                let rt = builder().deterministic(seed).build().unwrap();
                let told = program(&rt, seed);
                (told, rt.event_log())
            };
            let (first, second) = (repeatable(), repeatable());
            assert_eq!(first.0, second.0, "seed {seed}");
            assert!(first.1 == second.1, "seed {seed}: different runs");

            let rt = builder().build().unwrap();
            program(&rt, seed);
            if counted {
                let standing = rt.budget();
                assert_eq!(standing.held, Budget::ZERO, "seed {seed}: {standing:?}");
                assert_eq!(standing.granted.ops, standing.left.ops + standing.spent.ops);
                assert_eq!(standing.granted.memory, standing.left.memory + standing.spent.memory);
            }
        }
    });
}
