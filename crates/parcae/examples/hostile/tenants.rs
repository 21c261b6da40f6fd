//! The tenants: what each of them tries, and how it must end. Shared with a test.

use parcae::budget::Resource;
use parcae::channel::{ChannelOpts, Overflow};
use parcae::prelude::*;
use std::hint::black_box;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A hostile task.
#[derive(Clone, Copy)]
pub(crate) struct Tenant {
    pub(crate) name: &'static str,
    pub(crate) tries: &'static str,
    /// Whether it ended with the right error.
    pub(crate) expected: fn(&ErrorKind) -> bool,
    attack: fn(&Cx) -> parcae::Result<()>,
    /// The owner's action, besides waiting.
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Waits,
    /// Restarts it after each failure, this many times.
    Restarts(usize),
    /// Cancels it once it has started.
    Cancels,
}

/// How a tenant ended, and what it had spent by then.
pub(crate) struct End {
    pub(crate) tenant: Tenant,
    pub(crate) error: Option<parcae::Error>,
    pub(crate) spent: Budget,
}

impl End {
    pub(crate) fn is_contained(&self) -> bool {
        self.error.as_ref().is_some_and(|error| (self.tenant.expected)(error.kind()))
    }
}

pub(crate) const TENANTS: [Tenant; 9] = [
    Tenant {
        name: "spinner",
        tries: "loops forever, with checkpoints",
        expected: |kind| matches!(kind, ErrorKind::BudgetExceeded(_)),
        attack: |cx| match cx.forever(|| Ok(()))? {},
        owner: Owner::Waits,
    },
    Tenant {
        name: "innocent",
        tries: "loops forever, #[budgeted]",
        expected: |kind| matches!(kind, ErrorKind::BudgetExceeded(_)),
        attack: spin,
        owner: Owner::Waits,
    },
    Tenant {
        name: "rabbit",
        tries: "spawns tasks that never end",
        expected: |kind| matches!(kind, ErrorKind::SpawnBudgetExhausted(_)),
        attack: breed,
        owner: Owner::Waits,
    },
    Tenant {
        name: "forkbomb",
        tries: "tasks that spawn tasks that spawn",
        expected: |kind| matches!(kind, ErrorKind::SpawnBudgetExhausted(_)),
        attack: fork,
        owner: Owner::Waits,
    },
    Tenant {
        name: "flooder",
        tries: "sends forever, without a receiver",
        // Its channel drops old values, so only the cost of the sends stops it.
        expected: |kind| matches!(kind, ErrorKind::BudgetExceeded(short) if short.resource == Resource::ChannelOps),
        attack: flood,
        owner: Owner::Waits,
    },
    Tenant {
        name: "hoarder",
        tries: "allocates and keeps all",
        expected: |kind| matches!(kind, ErrorKind::MemoryBudgetExhausted(_)),
        attack: hoard,
        owner: Owner::Waits,
    },
    Tenant {
        name: "digger",
        tries: "recurses forever, #[budgeted]",
        expected: |kind| matches!(kind, ErrorKind::StackOverflow { .. }),
        attack: |_| {
            dig(0);
            Ok(())
        },
        owner: Owner::Waits,
    },
    Tenant {
        name: "bomber",
        tries: "panics, is restarted, panics",
        expected: |kind| matches!(kind, ErrorKind::Panicked(_)),
        attack: |_| panic!("{BOOM}"),
        owner: Owner::Restarts(100),
    },
    Tenant {
        name: "deaf",
        tries: "never reaches a cancel point",
        expected: |kind| matches!(kind, ErrorKind::Cancelled(_)),
        attack: ignore,
        owner: Owner::Cancels,
    },
];

/// Runs a tenant in its own nursery, with at most `budget`.
pub(crate) fn contain(cx: &Cx, tenant: Tenant, budget: Budget) -> End {
    // Drawn from the nursery's budget when one is used up.
    let portion = Budget::ZERO.with_ops(10_000).with_memory(1 << 20).with_spawn_count(4);
    let portion = portion.with_channel_ops(100);
    let opts = NurseryOpts::new()
        .name(tenant.name)
        .budget(budget)
        .slice(portion)
        .on_exhausted(OnExhausted::Refill)
        .on_failure(OnFailure::Isolate);
    let mut spent = Budget::ZERO;
    let result = cx.nursery_with(opts, |n| {
        let mut task = n.spawn(tenant.attack)?;
        match tenant.owner {
            Owner::Waits => {}
            Owner::Restarts(times) => {
                for _ in 1..times {
                    task.join().expect_err("it panics");
                    task = n.spawn(tenant.attack)?;
                }
            }
            Owner::Cancels => {
                while !DEAF_HAS_BEGUN.swap(false, Ordering::Relaxed) {
                    cx.yield_now()?;
                }
                n.cancel();
            }
        }
        let result = task.join();
        spent = n.budget().spent;
        result
    });
    HOARD.lock().unwrap_or_else(PoisonError::into_inner).clear();
    End { tenant, error: result.err(), spent }
}

#[budgeted]
fn spin(_: &Cx) -> parcae::Result<()> {
    let mut n = 0_u64;
    loop {
        n = black_box(n.wrapping_add(1));
    }
}

fn breed(cx: &Cx) -> parcae::Result<()> {
    let litter = NurseryOpts::new().slice(Budget { ops: 10, ..Budget::allocation(1 << 10) });
    cx.nursery_with(litter, |n| {
        loop {
            n.spawn(|cx| cx.park())?;
        }
    })
}

/// Two children, each of which does the same: only the budget, which all of them share, ends it.
fn fork(cx: &Cx) -> parcae::Result<()> {
    let little = Budget::ZERO.with_ops(20).with_memory(1 << 10).with_spawn_count(2);
    cx.nursery_with(NurseryOpts::new().slice(little), |n| {
        n.spawn(fork)?;
        n.spawn(fork)?;
        Ok(())
    })
}

/// A channel of capacity 8 that drops its oldest value: it never grows, and a send never waits.
fn flood(cx: &Cx) -> parcae::Result<()> {
    let (sender, _nobody_listens) = ChannelOpts::bounded(8).overflow(Overflow::DropOld).build();
    match cx.forever(|| Ok(sender.send([0_u8; 64])?))? {}
}

/// Outlives the task, so that its end frees nothing.
static HOARD: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn hoard(cx: &Cx) -> parcae::Result<()> {
    match cx.forever(|| {
        let loot = vec![1; 16 << 10];
        HOARD.lock().unwrap_or_else(PoisonError::into_inner).push(loot);
        Ok(())
    })? {}
}

#[budgeted]
#[allow(unconditional_recursion)]
fn dig(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    dig(depth + 1) + frame[3]
}

const BOOM: &str = "boom";

/// Keeps the panics of tenants off the terminal: the table reports them.
pub(crate) fn hush() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        if payload.downcast_ref::<String>().is_none_or(|text| text != BOOM)
            && payload.downcast_ref::<&str>().is_none_or(|text| *text != BOOM)
        {
            usual(info);
        }
    }));
}

static DEAF_HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Not forever: nothing can end a task that has no cancel point.
fn ignore(_: &Cx) -> parcae::Result<()> {
    DEAF_HAS_BEGUN.store(true, Ordering::Relaxed);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    Ok(())
}
