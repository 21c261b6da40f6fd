//! `context`: the cost of charging a scheduling context, of lending it along a call, and of an
//! admission test.
//!
//! A call and its return are measured in five ways, each with two hand-overs of the worker. Two are
//! models without contexts: records of callers behind validated handles, alone (`handoff`) and with
//! the switches of two fibers (`call`). Two do the same and lend a context (`handoff_lend`,
//! `call_lend`). The last (`handoff_own`) does without lending: the client stops and the server
//! starts on its own context.

use super::{STACK_SIZE, nanos_per};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::fiber::{Fiber, Step};
use parcae::stack::StackPool;
use parcae_core::admission::{Capacity, Demand, Test, examine};
use parcae_core::context::{
    ContextSlot, Contexts, Gate, Params, PartyId, PartySlot, Refill, Refused, Stop,
};
use std::hint::black_box;
use std::time::Instant;

macro_rules! variant {
    ($name:literal, $unit:literal, $about:literal, $run:expr) => {
        Variant {
            name: $name,
            about: $about,
            unit: $unit,
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, $run)],
        }
    };
}

pub(super) static CONTEXT: Workload = Workload {
    name: "context",
    rounds: Rounds { full: 15, quick: 3 },
    variants: &[
        variant!("charge", "ns/charge", "charge a running context (hard CBS)", |scale| {
            charge(scale, Refill::HardCbs)
        }),
        variant!("charge_window", "ns/charge", "the same with a sliding window", |scale| {
            charge(scale, Refill::SlidingWindow { refills: 8 })
        }),
        variant!("dispatch", "ns/dispatch", "start and stop, nothing depleted", dispatch),
        variant!("handoff", "ns/call", "call and return between records, no context", |scale| {
            handoff(scale, || Ok(()))
        }),
        variant!("handoff_lend", "ns/call", "the same, and a context is lent", |scale| {
            handoff_lend(scale, || Ok(()))
        }),
        variant!("handoff_own", "ns/call", "the same, each on its own context", handoff_own),
        variant!("call", "ns/call", "handoff and the switches of two fibers", |scale| {
            let mut fibers = Switches::new()?;
            handoff(scale, || fibers.there_and_back())
        }),
        variant!("call_lend", "ns/call", "handoff_lend and the switches", |scale| {
            let mut fibers = Switches::new()?;
            handoff_lend(scale, || fibers.there_and_back())
        }),
        variant!("qpa_10", "ns/set", "demand test over 10 contexts, admitted", |scale| {
            demand_test(scale, 10)
        }),
        variant!("qpa_100", "ns/set", "demand test over 100 contexts, admitted", |scale| {
            demand_test(scale, 100)
        }),
    ],
};

type Table = Contexts<Vec<ContextSlot>, Vec<PartySlot>>;

/// The largest budget: nothing is depleted during a measurement.
const PLENTY: Params = Params::new(1 << 59, 1 << 60);

fn table() -> Table {
    let contexts = (0..64).map(|_| ContextSlot::EMPTY).collect();
    Contexts::new(0, contexts, (0..64).map(|_| PartySlot::EMPTY).collect())
}

fn bound(table: &mut Table, params: Params) -> Result<PartyId, Refused> {
    let party = table.register(None)?;
    let context = table.create(params, 0)?;
    table.bind(context, party)?;
    table.wake(party, 0)?;
    Ok(party)
}

fn charge(scale: &Scale, refill: Refill) -> Result<f64, Failure> {
    let mut table = table();
    let party = bound(&mut table, Params { refill, ..PLENTY })?;
    table.start(party, 0)?;
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for now in 1..=count as u64 {
        black_box(table.charge(now)?.left);
    }
    let nanos = nanos_per(start, count);
    let context = table.held_by(party).ok_or("the party lost its context")?;
    expect(table.usage(context).map(|usage| usage.total), Some(count as u64))?;
    Ok(nanos)
}

fn dispatch(scale: &Scale) -> Result<f64, Failure> {
    let mut table = table();
    let party = bound(&mut table, PLENTY)?;
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for now in 1..=count as u64 {
        table.start(black_box(party), now)?;
        black_box(table.stop(now, Stop::Preempted)?.left);
    }
    Ok(nanos_per(start, count))
}

/// The record of a call in a runtime without contexts: the waiting caller, behind validated
/// handles.
struct Plain {
    parties: Vec<Record>,
    running: u32,
}

#[derive(Clone, Copy)]
struct Record {
    generation: u32,
    waits: bool,
    calls: u64,
}

#[derive(Clone, Copy)]
struct Handle {
    index: u32,
    generation: u32,
}

impl Plain {
    fn get(&mut self, handle: Handle) -> Result<&mut Record, Refused> {
        let record = self.parties.get_mut(handle.index as usize);
        record.filter(|r| r.generation == handle.generation).ok_or(Refused::StaleParty)
    }

    #[inline(never)]
    fn call(&mut self, caller: Handle, callee: Handle) -> Result<u64, Refused> {
        if self.get(callee)?.waits {
            return Err(Refused::Waits);
        }
        if self.running != caller.index {
            return Err(Refused::NotRunning);
        }
        let record = self.get(caller)?;
        record.waits = true;
        record.calls += 1;
        let call = record.calls;
        self.running = callee.index;
        Ok(call)
    }

    #[inline(never)]
    fn reply(&mut self, caller: Handle, call: u64) -> Result<(), Refused> {
        let record = self.get(caller)?;
        if !record.waits || record.calls != call {
            return Err(Refused::StaleCall);
        }
        record.waits = false;
        self.running = caller.index;
        Ok(())
    }
}

fn handoff(scale: &Scale, mut switch: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let parties = vec![Record { generation: 3, waits: false, calls: 0 }; 64];
    let mut plain = Plain { parties, running: 0 };
    let [client, server] = [0, 1].map(|index| Handle { index, generation: 3 });
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for _ in 0..count {
        let call = plain.call(black_box(client), black_box(server))?;
        switch()?;
        plain.reply(client, call)?;
    }
    let nanos = nanos_per(start, count);
    expect(plain.parties[0].calls, count as u64)?;
    Ok(nanos)
}

fn handoff_lend(
    scale: &Scale,
    mut switch: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let mut table = table();
    let client = bound(&mut table, PLENTY)?;
    let server = table.register(None)?;
    table.start(client, 0)?;
    let gate = Gate { min_budget: 1000 };
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for now in 1..=count as u64 {
        let call = table.donate(black_box(client), black_box(server), gate, now)?;
        switch()?;
        black_box(table.give_back(call, now)?.context);
    }
    let nanos = nanos_per(start, count);
    expect(table.stop(count as u64, Stop::Blocked)?.used, count as u64)?;
    Ok(nanos)
}

fn handoff_own(scale: &Scale) -> Result<f64, Failure> {
    let mut table = table();
    let client = bound(&mut table, PLENTY)?;
    let server = bound(&mut table, PLENTY)?;
    table.start(server, 0)?;
    let _ = table.stop(0, Stop::Blocked)?;
    table.start(client, 0)?;
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for now in 1..=count as u64 {
        for next in [server, client] {
            black_box(table.stop(now, Stop::Blocked)?.left);
            table.wake(black_box(next), now)?;
            black_box(table.start(next, now)?.limit);
        }
    }
    Ok(nanos_per(start, count))
}

/// A fiber that is switched to and comes back.
struct Switches(Fiber);

impl Switches {
    fn new() -> Result<Switches, Failure> {
        let mut fiber = Fiber::new(StackPool::new()?.acquire(STACK_SIZE)?, "server")?;
        fiber
            .start(|fiber| {
                loop {
                    fiber.suspend().expect("nobody panics here");
                }
            })?
            .propagate();
        Ok(Switches(fiber))
    }

    fn there_and_back(&mut self) -> Result<(), Failure> {
        match self.0.resume() {
            Ok(Step::Suspended) => Ok(()),
            _ => Err("the server's fiber ended".into()),
        }
    }
}

/// Contexts that only the demand test admits: every other one with a deadline before its
/// period, periods without common divisors, together 90 % of a worker.
fn demand_test(scale: &Scale, n: u64) -> Result<f64, Failure> {
    let set: Vec<Demand> = (0..n)
        .map(|nth| {
            let period = 1_000_003 + nth * 90_001;
            let budget = period * 9 / 10 / n;
            let deadline = if nth % 2 == 0 { period * 4 / 5 } else { period };
            Demand { deadline, check_distance: 50, ..Demand::new(budget, period) }
        })
        .collect();
    let capacity = Capacity { dispatch: 100, ..Capacity::default() };
    expect(examine(set.iter().copied(), &capacity)?.test, Test::Demand)?;
    let count = black_box(scale.of(200_000 / n as usize));
    let start = Instant::now();
    for _ in 0..count {
        black_box(examine(black_box(&set).iter().copied(), &capacity)?);
    }
    Ok(nanos_per(start, count))
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), Failure> {
    if found == wanted { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}").into()) }
}
