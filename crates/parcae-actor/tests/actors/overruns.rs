//! Handlers that use more ops than a message may cost.

use super::*;
use parcae::cap::{BudgetLimits, CapBudget, Delegation};
use parcae::{Budget, Runtime};
use parcae_actor::{Answer, ExitKind, Overrun, Recharge, Supervise};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Uses as many ops as a message says, the last one for the reply.
struct Spender;

struct Spend(u64, Reply<()>);

impl Actor for Spender {
    type Msg = Spend;

    fn handle(&mut self, cx: &mut ActorCx<'_, Spend>, Spend(ops, done): Spend) -> Result<Next> {
        (1..ops).try_for_each(|_| cx.checkpoint())?;
        done.send(());
        Ok(Next::Continue)
    }

    fn event(&mut self, cx: &mut ActorCx<'_, Spend>, _: Event) -> Result<Next> {
        cx.forever(|| Ok(())).map(|never| match never {})
    }

    fn started(&mut self, cx: &mut ActorCx<'_, Spend>) -> Result<()> {
        (0..500).try_for_each(|_| cx.checkpoint()) // not bounded
    }
}

const fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

fn spender(overrun: Overrun) -> ActorOpts {
    ActorOpts::new("spender").message_ops(100, overrun)
}

/// Runs a test in systems whose root supervisor has this policy, with this much to give.
fn with_policy(
    total: u64,
    policy: impl Fn(CapBudget) -> Recharge + Sync,
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>) -> Result<()> + Sync,
) {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt: Runtime<Cluster> = schedule.builder().profile::<Cluster>().build().unwrap();
        let cap = rt.cap_budget(BudgetLimits::total(ops(total)), Delegation::Forbidden);
        let opts = ActorsOpts::new().supervise(Supervise::one_for_one().recharge(policy(cap)));
        support::succeed(rt.run(|cx| cx.actors(opts, |system| test(cx, system))));
    });
}

#[test]
fn a_handler_that_overruns_fails_and_the_next_message_has_its_ops_again() {
    everywhere(|_, system, _| {
        let spender = system.start(spender(Overrun::Fail), |_| Ok(Spender))?;
        let watch = spender.watch();
        for _ in 0..3 {
            spender.call(LONG, |done| Spend(100, done))?; // no more than it may
        }
        spender.call(LONG, |done| Spend(101, done)).unwrap_err();
        let exit = watch.wait()?;
        assert_eq!((exit.kind(), exit.handled()), (ExitKind::Exhausted, 3), "{exit}");
        let text = exit.to_string();
        assert!(text.contains("`spender`") && text.contains("100 ops"), "{text}");
        spender.call(LONG, |done| Spend(100, done))?; // it was started again
        Ok(())
    });
}

struct Slow;

impl Actor for Slow {
    type Msg = Reply<()>;

    fn handle(&mut self, cx: &mut ActorCx<'_, Reply<()>>, done: Reply<()>) -> Result<Next> {
        cx.timer("late", Duration::ZERO);
        done.send(());
        Ok(Next::Continue)
    }

    fn event(&mut self, cx: &mut ActorCx<'_, Reply<()>>, _: Event) -> Result<Next> {
        cx.forever(|| Ok(())).map(|never| match never {})
    }
}

/// A handler that ignores its errors has failed nevertheless.
#[test]
fn an_overrun_cannot_be_ignored() {
    struct Stubborn;

    impl Actor for Stubborn {
        type Msg = ();

        fn handle(&mut self, cx: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
            assert_eq!((0..500).filter(|_| cx.checkpoint().is_ok()).count(), 100);
            Ok(Next::Continue)
        }
    }

    everywhere(|_, system, _| {
        let opts = ActorOpts::new("stubborn").message_ops(100, Overrun::Fail);
        let stubborn = system.start(opts, |_| Ok(Stubborn))?;
        let watch = stubborn.watch();
        stubborn.tell(())?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Exhausted);
        Ok(())
    });
}

#[test]
fn events_are_bounded_too() {
    everywhere(|_, system, _| {
        let opts = ActorOpts::new("slow").message_ops(1_000, Overrun::Fail);
        let slow = system.start(opts, |_| Ok(Slow))?;
        let watch = slow.watch();
        slow.call(LONG, |done| done)?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Exhausted);
        Ok(())
    });
}

#[test]
fn a_suspended_handler_goes_on_with_the_ops_that_the_policy_adds() {
    let asked = Arc::new(AtomicU64::new(0));
    let policy = |cap| {
        let asked = Arc::clone(&asked);
        Recharge::by(cap, move |child| {
            assert!(child.message_ops.is_some());
            // Relaxed: a count, which is read when the system has ended.
            asked.fetch_add(1, Ordering::Relaxed);
            Answer::Add(ops(50))
        })
    };
    with_policy(0, policy, |_, system| {
        asked.store(0, Ordering::Relaxed);
        let spender = system.start(spender(Overrun::Suspend), |_| Ok(Spender))?;
        spender.call(LONG, |done| Spend(240, done))?;
        spender.call(LONG, |done| Spend(100, done))?;
        assert_eq!(asked.load(Ordering::Relaxed), 3, "150, 200, 250 ops");
        Ok(())
    });
}

/// The ops of a message are no budget: an account that counts ops pays for them as always, and what
/// the policy adds comes from its capability.
#[test]
fn more_ops_for_a_message_are_paid_by_the_capability() {
    let policy = |cap| Recharge::slice(cap, ops(60));
    with_policy(100, policy, |_, system| {
        let own = Budget { ops: 10_000, ..Budget::UNLIMITED };
        let opts = spender(Overrun::Suspend).budget(own);
        let spender = system.start(opts, |_| Ok(Spender))?;
        let watch = spender.watch();
        spender.call(LONG, |done| Spend(200, done))?; // 60 and 40 were added
        spender.call(LONG, |done| Spend(101, done)).unwrap_err();
        let exit = watch.wait()?;
        assert_eq!(exit.kind(), ExitKind::Exhausted, "{exit}");
        Ok(())
    });
}

#[test]
fn without_a_policy_a_handler_that_would_be_suspended_fails() {
    everywhere(|_, system, _| {
        let spender = system.start(spender(Overrun::Suspend), |_| Ok(Spender))?;
        let watch = spender.watch();
        spender.call(LONG, |done| Spend(101, done)).unwrap_err();
        let text = watch.wait()?.to_string();
        assert!(text.contains("Supervise::recharge"), "{text}");
        Ok(())
    });
}

/// A handler that is left suspended, or put off, is reached by a stop and by a kill.
#[test]
fn a_suspended_handler_can_be_stopped_and_killed() {
    let policies: [fn(CapBudget) -> Recharge; 2] =
        [Recharge::never, |cap| Recharge::by(cap, |_| Answer::Later(parcae::time::now() + LONG))];
    for policy in policies {
        with_policy(1_000, policy, |cx, system| {
            let suspended = || -> Result<_> {
                let opts = spender(Overrun::Suspend)
                    .child(parcae_actor::Child::temporary().stop_within(Duration::ZERO));
                let spender = system.start(opts, |_| Ok(Spender))?;
                let watch = spender.watch();
                let within = Duration::from_millis(1);
                spender.call(within, |done| Spend(101, done)).unwrap_err();
                Ok((spender, watch))
            };
            let (killed, watch) = suspended()?;
            killed.kill()?;
            assert_eq!(watch.wait()?.kind(), ExitKind::Cancelled);
            let (_stopped, _) = suspended()?; // by the end of the system
            cx.checkpoint()
        });
    }
}
