//! The local half of the fault matrix: senders, callers and monitors against an actor that fails,
//! panics, runs out of budget (and is recharged), is stopped, is killed, has no room or takes its
//! address back, over many schedules. After each schedule:
//!
//! - each message was handled at most once, those of one sender in their order;
//! - each message that was sent was handled, or is counted as a dead letter;
//! - each call has ended by its deadline;
//! - each monitor has fired once;
//! - the tree has restarted no more than there were faults.
//!
//! Each cell runs with seeds of the deterministic executor and with schedules of the lab's
//! portfolio: a few in debug builds, a thousand in optimised ones, more with two variables.
//!
//! ```sh
//! export PARCAE_FAULT_SEEDS=1000 PARCAE_FAULT_SCHEDULES=10000
//! cargo test --release -p parcae-actor --test actors faults
//! ```

use super::*;
use parcae::cap::{BudgetLimits, Delegation};
use parcae::lab::Explore;
use parcae::{Budget, time};
use parcae_actor::{CallError, Child, Directive, LetterReason, Mailbox, Recharge, Supervise};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Error,
    Panic,
    Exhaust,
    Stop,
    Kill,
    Resume,
    /// It runs out of budget, and its supervisor recharges it.
    Recharge,
    /// The address of its senders is taken back.
    Revoke,
}

enum ToTarget {
    /// Sender and number.
    Note(usize, u64),
    Ask(Reply<u64>),
    Fail(Fault),
}

#[derive(Default)]
struct Record {
    handled: Mutex<Vec<(usize, u64)>>,
    downs: AtomicU64,
    monitors: AtomicU64,
}

struct Target<'a>(&'a Record);

impl Actor for Target<'_> {
    type Msg = ToTarget;

    fn handle(&mut self, cx: &mut ActorCx<'_, ToTarget>, msg: ToTarget) -> Result<Next> {
        match msg {
            ToTarget::Note(sender, number) => {
                self.0.handled.lock().unwrap().push((sender, number));
                cx.yield_now()?;
            }
            ToTarget::Ask(reply) => {
                cx.yield_now()?;
                reply.send(1);
            }
            ToTarget::Fail(Fault::Exhaust | Fault::Recharge) => {
                cx.charge(Budget { ops: 2 * OWN, ..Budget::ZERO })?;
            }
            ToTarget::Fail(Fault::Panic) => std::panic::resume_unwind(Box::new("a fault")),
            ToTarget::Fail(_) => return Err(Error::msg("a fault")),
        }
        Ok(Next::Continue)
    }
}

/// Monitors the target when it is told to.
struct Watcher<'a>(&'a Record, Address<ToTarget>);

impl Actor for Watcher<'_> {
    type Msg = Reply<()>;

    fn handle(&mut self, cx: &mut ActorCx<'_, Reply<()>>, reply: Reply<()>) -> Result<Next> {
        cx.monitor(&self.1);
        self.0.monitors.fetch_add(1, Ordering::Relaxed);
        reply.send(());
        Ok(Next::Continue)
    }

    fn event(&mut self, _: &mut ActorCx<'_, Reply<()>>, event: Event) -> Result<Next> {
        if let Event::Down(_) = event {
            self.0.downs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Next::Continue)
    }
}

/// The budget of each incarnation.
const OWN: u64 = 1_000_000;

const SENDERS: usize = 3;
const MESSAGES: u64 = 12;
const FAULTS: u64 = 3;
const WITHIN: Duration = Duration::from_millis(50);

fn cell(rt: &Runtime<Cluster>, fault: Fault, mailbox: &Mailbox) -> Result<()> {
    let slice = Budget { ops: 2 * OWN, ..Budget::ZERO };
    let limits = BudgetLimits::total(Budget { ops: FAULTS * slice.ops, ..Budget::ZERO });
    let spec = Supervise::one_for_one().restarts(100, LONG);
    let spec = match fault {
        Fault::Recharge => {
            spec.recharge(Recharge::slice(rt.cap_budget(limits, Delegation::Forbidden), slice))
        }
        _ => spec,
    };
    rt.run(|cx| cell_in(cx, fault, mailbox, spec))
}

fn cell_in(cx: &Cx<Cluster>, fault: Fault, mailbox: &Mailbox, spec: Supervise) -> Result<()> {
    let record = &Record::default();
    let opts = ActorsOpts::new().supervise(spec).restarts(100);
    cx.actors(opts, |system| {
        let child = match fault {
            Fault::Resume => Child::permanent().on_failure(|_| Directive::Resume),
            _ => Child::permanent(),
        };
        let own = Budget { ops: OWN, ..Budget::UNLIMITED };
        let target = ActorOpts::new("target").mailbox(mailbox.clone()).child(child).budget(own);
        let target = system.start(target, move |_| Ok(Target(record)))?;
        let watched = target.clone();
        let watcher = system
            .start(ActorOpts::new("watcher"), move |_| Ok(Watcher(record, watched.clone())))?;
        let told = AtomicU64::new(0);
        let (lent, take_back) = target.revocable();
        cx.nursery(|n| {
            for sender in 0..SENDERS {
                let (target, told) = (&lent, &told);
                n.spawn(move |cx| {
                    for number in 0..MESSAGES {
                        if target.tell(ToTarget::Note(sender, number)).is_ok() {
                            told.fetch_add(1, Ordering::Relaxed);
                        }
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            n.spawn(|_| {
                for _ in 0..6 {
                    let start = time::now();
                    let answer = target.call(WITHIN, ToTarget::Ask);
                    let took = time::now() - start;
                    assert!(took < WITHIN * 2, "{took:?}");
                    let is_expected = matches!(
                        answer,
                        Ok(1)
                            | Err(CallError::Failed
                                | CallError::NoReply
                                | CallError::Restarting { .. }
                                | CallError::Expired
                                | CallError::Full)
                    );
                    assert!(is_expected, "{answer:?}");
                }
                Ok(())
            })?;
            n.spawn(|cx| {
                for _ in 0..FAULTS {
                    watcher.call(LONG, |reply| reply)?;
                    cx.yield_now()?;
                    match fault {
                        Fault::None => {}
                        Fault::Revoke => take_back(),
                        Fault::Stop => target.stop()?,
                        Fault::Kill => target.kill()?,
                        // A mailbox that refuses may be full.
                        _ => drop(target.tell(ToTarget::Fail(fault))),
                    }
                }
                Ok(())
            })?;
            Ok(())
        })?;
        // A permanent actor that was asked to stop is there again. The last life ends here, and
        // with it the last monitors fire.
        time::sleep(Duration::from_secs(1))?;
        let restarts = 100 - system.restarts_left();
        let allowed = match fault {
            Fault::None | Fault::Resume | Fault::Recharge | Fault::Revoke => 0,
            _ => FAULTS,
        };
        assert!(restarts <= allowed, "{restarts} restarts");
        while target.queued() > 0 {
            time::sleep(Duration::from_millis(1))?;
        }
        target.stop()?;
        time::sleep(Duration::from_secs(1))?;
        watcher.call(LONG, |reply| reply)?;
        let (monitors, downs) = (&record.monitors, &record.downs);
        // The last one was set up after the end, and waits for the life that has begun since.
        assert_eq!(downs.load(Ordering::Relaxed), monitors.load(Ordering::Relaxed) - 1);

        let handled = record.handled.lock().unwrap().clone();
        for sender in 0..SENDERS {
            let of_sender = handled.iter().filter(|one| one.0 == sender).map(|one| one.1);
            let numbers: Vec<_> = of_sender.collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        }
        // A message that was being handled when its life ended is in both lists.
        let letters = system.dead_letters();
        let reasons = [LetterReason::Overflow, LetterReason::Gone, LetterReason::Failed];
        let lost: u64 = reasons.iter().map(|&reason| letters.count(reason)).sum();
        let (handled, told) = (handled.len() as u64, told.load(Ordering::Relaxed));
        assert!(handled <= told && told <= handled + lost, "{told} sent, {handled}, {lost} lost");
        Ok(())
    })
}

/// Schedules of the lab per cell: all in optimised builds, where they take seconds.
const SCHEDULES: u64 = if cfg!(debug_assertions) { 5 } else { 1_000 };

/// A number per cell: more with the variable, for a long run.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn every_fault_leaves_the_books_balanced() {
    let faults = [
        Fault::None,
        Fault::Error,
        Fault::Panic,
        Fault::Exhaust,
        Fault::Stop,
        Fault::Kill,
        Fault::Resume,
        Fault::Recharge,
        Fault::Revoke,
    ];
    let mailboxes = [
        Mailbox::default(),
        Mailbox::bounded(1),
        Mailbox::bounded(2).refuse(),
        Mailbox::bounded(2).drop_oldest(),
        Mailbox::bounded(2).drop_newest(),
        Mailbox::rendezvous(),
    ];
    for fault in faults {
        for mailbox in &mailboxes {
            let schedules = number("PARCAE_FAULT_SCHEDULES", SCHEDULES);
            let hunt = Explore::new().schedules(schedules).steps(200_000).time(LONG);
            let builder = Runtime::builder().profile::<Cluster>();
            let run = |rt: &Runtime<Cluster>| cell(rt, fault, mailbox);
            if let Err(failure) = hunt.run_on(builder, run) {
                panic!("{fault:?}, {mailbox:?}: {failure}");
            }
            let seeds = number("PARCAE_FAULT_SEEDS", 12);
            support::schedules(&[1, 2], seeds, 0, |schedule| {
                let rt = schedule.builder().profile::<Cluster>().build().unwrap();
                support::succeed(run(&rt));
            });
        }
    }
}

/// Actors that come, fail and go, for a bounded time: nothing is left of them.
#[test]
fn actors_that_fail_over_and_over_leave_nothing_behind() {
    const ACTORS: usize = 200;
    support::schedules(&[2], 2, 1, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let record = &Record::default();
        let opts = ActorsOpts::new().restarts(1_000_000).dead_letters(16);
        support::succeed(rt.run(|cx| {
            cx.actors(opts, |system| {
                let spec = Supervise::one_for_one().restarts(u32::MAX, LONG);
                let dynamic = system.dynamic("all", spec)?;
                let start = || dynamic.start(ActorOpts::new(""), move |_| Ok(Target(record)));
                let mut actors = (0..ACTORS).map(|_| start()).collect::<Result<Vec<_>>>()?;
                for round in 0..5 {
                    for (at, actor) in actors.iter_mut().enumerate() {
                        match (at + round) % 10 {
                            0 => actor.tell(ToTarget::Fail(Fault::Error))?,
                            1 => actor.tell(ToTarget::Fail(Fault::Panic))?,
                            2 => {
                                actor.stop()?;
                                *actor = start()?;
                            }
                            _ => actor.tell(ToTarget::Note(at, round as u64))?,
                        }
                    }
                    for actor in &actors {
                        assert_eq!(actor.call(LONG, ToTarget::Ask)?, 1);
                    }
                }
                Ok(())
            })
        }));
        while rt.stats().live > 0 {
            std::thread::yield_now(); // the last task is still returning
        }
    });
}
