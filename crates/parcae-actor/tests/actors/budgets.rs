//! Children that run out of budget, and supervisors that recharge them.

use super::*;
use parcae::budget::Resource;
use parcae::cap::{BudgetLimits, CapBudget, Delegation};
use parcae::{Budget, Runtime, time};
use parcae_actor::{Answer, Child, ExitKind, Recharge, Supervise};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

/// An actor's own budget: only ops are counted.
const fn own(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

/// Works as many ops as a message says, by itself or by a helper.
struct Worker;

enum Job {
    Work(u64, Reply<()>),
    Help(u64, Reply<()>),
}

fn work(cx: &Cx<Cluster>, amount: u64) -> Result<()> {
    (0..amount / 100).try_for_each(|_| cx.charge(ops(100)))
}

impl Actor for Worker {
    type Msg = Job;

    fn handle(&mut self, cx: &mut ActorCx<'_, Job>, job: Job) -> Result<Next> {
        match job {
            Job::Work(amount, done) => {
                work(cx, amount)?;
                done.send(());
            }
            Job::Help(amount, done) => cx.spawn(move |cx| {
                work(cx, amount)?;
                done.send(());
                Ok(())
            })?,
        }
        Ok(Next::Continue)
    }
}

/// Runs a test in systems whose root supervisor recharges by a policy with this much to give.
fn recharging(
    total: u64,
    policy: impl Fn(CapBudget) -> Recharge + Sync,
    opts: impl Fn() -> ActorsOpts + Sync,
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>) -> Result<()> + Sync,
) {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt: Runtime<Cluster> = schedule.builder().profile::<Cluster>().build().unwrap();
        let cap = rt.cap_budget(BudgetLimits::total(ops(total)), Delegation::Forbidden);
        let root = Supervise::one_for_one().recharge(policy(cap));
        let opts = opts().supervise(root);
        support::succeed(rt.run(|cx| cx.actors(opts, |system| test(cx, system))));
    });
}

fn worker(name: &str, budget: u64) -> ActorOpts {
    ActorOpts::new(name).budget(own(budget)).child(Child::temporary())
}

// rule: S0-EXHAUST-5, S0-PROFILE-5, S0-PROFILE-6, S1-PROFILE-3
#[test]
fn a_child_that_runs_out_is_recharged_and_goes_on() {
    let slice = |cap| Recharge::slice(cap, ops(2_000));
    recharging(100_000, slice, ActorsOpts::new, |_, system| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
        for _ in 0..5 {
            actor.call(LONG, |done| Job::Work(5_000, done))?;
        }
        Ok(())
    });
}

#[test]
fn a_capability_that_is_used_up_ends_the_child() {
    let slice = |cap| Recharge::slice(cap, ops(2_000));
    recharging(6_000, slice, ActorsOpts::new, |_, system| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
        let watch = actor.watch();
        actor.call(LONG, |done| Job::Work(20_000, done)).unwrap_err();
        let exit = watch.wait()?;
        assert_eq!(exit.kind(), ExitKind::Exhausted, "{exit}");
        let text = exit.to_string();
        assert!(text.contains("`a`") && text.contains("was not recharged"), "{text}");
        Ok(())
    });
}

#[test]
fn a_helper_is_recharged_from_the_account_of_its_actor() {
    let slice = |cap| Recharge::slice(cap, ops(2_000));
    recharging(100_000, slice, ActorsOpts::new, |_, system| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
        actor.call(LONG, |done| Job::Help(9_000, done))?;
        Ok(())
    });
}

#[test]
fn children_without_a_budget_share_that_of_the_system() {
    let slice = |cap| Recharge::slice(cap, ops(3_000));
    let system = || ActorsOpts::new().budget(own(20_000));
    recharging(1_000_000, slice, system, |_, system| {
        let opts = |name| ActorOpts::new(name).child(Child::temporary());
        let (a, b) =
            (system.start(opts("a"), |_| Ok(Worker))?, system.start(opts("b"), |_| Ok(Worker))?);
        for _ in 0..4 {
            a.call(LONG, |done| Job::Work(15_000, done))?;
            b.call(LONG, |done| Job::Work(15_000, done))?;
        }
        Ok(())
    });
}

#[test]
fn a_child_that_runs_out_while_it_starts_is_recharged() {
    let slice = |cap| Recharge::slice(cap, ops(2_000));
    recharging(100_000, slice, ActorsOpts::new, |_, system| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Starter))?;
        let watch = actor.watch();
        actor.stop()?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Stopped);
        Ok(())
    });
}

/// Needs more than it has to start.
struct Starter;

impl Actor for Starter {
    type Msg = ();

    fn started(&mut self, cx: &mut ActorCx<'_, ()>) -> Result<()> {
        work(cx, 7_000)
    }

    fn handle(&mut self, _: &mut ActorCx<'_, ()>, (): ()) -> Result<Next> {
        Ok(Next::Continue)
    }
}

#[test]
fn a_period_bounds_the_rate_of_a_child() {
    let period = Duration::from_secs(1);
    let every = |cap| Recharge::every(cap, period, ops(1_000));
    support::schedules(&[1, 2], 20, 0, |schedule| {
        let rt: Runtime<Cluster> = schedule.builder().profile::<Cluster>().build().unwrap();
        let cap = rt.cap_budget(BudgetLimits::total(ops(100_000)), Delegation::Forbidden);
        let opts = ActorsOpts::new().supervise(Supervise::one_for_one().recharge(every(cap)));
        let took = rt.run(|cx| {
            cx.actors(opts, |system| {
                let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
                let began = time::now();
                actor.call(LONG, |done| Job::Work(10_000, done))?;
                Ok(time::now() - began)
            })
        });
        // A thousand at first, then one slice at once, and the others a second apart.
        let took = took.unwrap();
        assert!(took >= period * 8 && took <= period * 10, "{took:?}");
    });
}

#[test]
fn a_function_decides_with_the_standing_of_the_child() {
    let (asked, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let policy = |cap| {
        let (asked, ended) = (Arc::clone(&asked), Arc::clone(&ended));
        Recharge::by(cap, move |child| {
            assert_eq!(child.resource, Resource::Ops);
            assert!(child.standing.granted.ops >= 1_000 + 1_000 * child.recharges);
            asked.fetch_add(1, Ordering::Relaxed);
            if child.recharges < 3 {
                return Answer::Add(ops(1_000));
            }
            ended.fetch_add(1, Ordering::Relaxed);
            Answer::End
        })
    };
    recharging(100_000, policy, ActorsOpts::new, |_, system| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
        let watch = actor.watch();
        actor.call(LONG, |done| Job::Work(50_000, done)).unwrap_err();
        assert_eq!(watch.wait()?.kind(), ExitKind::Exhausted);
        Ok(())
    });
    assert_eq!(asked.load(Ordering::Relaxed), 4 * ended.load(Ordering::Relaxed));
}

#[test]
fn children_that_are_kept_together_all_go_on() {
    let fair = |cap| Recharge::fair(cap, Duration::from_millis(1), ops(1_000));
    recharging(100_000, fair, ActorsOpts::new, |cx, system| {
        let all = ["a", "b", "c"].map(|name| system.start(worker(name, 1_000), |_| Ok(Worker)));
        cx.nursery(|n| {
            for actor in all {
                let actor = actor?;
                n.spawn(move |_| Ok(actor.call(LONG, |done| Job::Work(8_000, done))?))?;
            }
            Ok(())
        })
    });
}

#[test]
fn a_child_that_is_left_suspended_can_be_stopped() {
    let leave = Recharge::never;
    recharging(100_000, leave, ActorsOpts::new, |cx, system| {
        let child = Child::temporary().stop_within(Duration::from_millis(5));
        let actor = system.start(worker("a", 1_000).child(child), |_| Ok(Worker))?;
        let call = actor.call(Duration::from_millis(5), |done| Job::Work(50_000, done));
        assert!(matches!(call, Err(parcae_actor::CallError::Expired)), "{call:?}");
        let watch = actor.watch();
        actor.kill()?;
        assert_eq!(watch.wait()?.kind(), ExitKind::Cancelled);
        cx.checkpoint()
    });
}

#[test]
fn a_supervisor_below_uses_the_same_policy() {
    let slice = |cap| Recharge::slice(cap, ops(2_000));
    recharging(100_000, slice, ActorsOpts::new, |_, system| {
        let (sender, address) = parcae::channel::unbounded();
        system.supervise("below", Supervise::one_for_all(), move |children| {
            let actor = children.actor(worker("a", 1_000), |_| Ok(Worker))?;
            sender.send(actor).map_err(|_| Error::msg("nobody waits"))
        })?;
        address.recv()?.call(LONG, |done| Job::Work(9_000, done))?;
        Ok(())
    });
}

#[test]
fn without_a_policy_a_child_that_runs_out_fails() {
    everywhere(|_, system, _| {
        let actor = system.start(worker("a", 1_000), |_| Ok(Worker))?;
        let watch = actor.watch();
        actor.call(LONG, |done| Job::Work(5_000, done)).unwrap_err();
        assert_eq!(watch.wait()?.kind(), ExitKind::Exhausted);
        Ok(())
    });
}
