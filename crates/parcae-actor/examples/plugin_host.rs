//! A host of plugins: tenants that crash, hang, flood and burn their budget, and one that works.
//!
//! Each tenant is an actor under one supervisor, with a budget of its own. The host stays
//! responsive whatever they do: a crash is a restart, a hang ends at the deadline of the call, a
//! flood ends at the limit of the address, and a tenant that computes too much waits for the next
//! slice of its budget.

use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use parcae::profile::Cluster;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, CallError, Child, Next, Recharge,
    Reply, Supervise,
};
use std::time::Duration;

/// The code of a tenant, as the host sees it: it gets a number and answers with one.
type Plugin = fn(&Cx<Cluster>, &Address<String>, u64) -> parcae::Result<u64>;

struct Tenant {
    plugin: Plugin,
    log: Address<String>,
}

struct Request(u64, Reply<u64>);

impl Actor for Tenant {
    type Msg = Request;

    fn handle(
        &mut self,
        cx: &mut ActorCx<'_, Request>,
        Request(n, reply): Request,
    ) -> parcae::Result<Next> {
        reply.send((self.plugin)(cx, &self.log, n)?);
        Ok(Next::Continue)
    }
}

fn works(_: &Cx<Cluster>, log: &Address<String>, n: u64) -> parcae::Result<u64> {
    let _ = log.try_tell(format!("doubling {n}"));
    Ok(2 * n)
}

fn crashes(_: &Cx<Cluster>, _: &Address<String>, n: u64) -> parcae::Result<u64> {
    if n % 2 == 1 {
        return Err(parcae::Error::msg("odd numbers are not implemented"));
    }
    Ok(n / 2)
}

fn hangs(cx: &Cx<Cluster>, _: &Address<String>, n: u64) -> parcae::Result<u64> {
    if n == 0 {
        cx.sleep(Duration::from_secs(3600))?;
    }
    Ok(n)
}

fn floods(_: &Cx<Cluster>, log: &Address<String>, n: u64) -> parcae::Result<u64> {
    let refused = (0..10_000).filter(|line| log.try_tell(format!("line {line}")).is_err()).count();
    Ok(refused as u64 + n)
}

fn burns(cx: &Cx<Cluster>, _: &Address<String>, n: u64) -> parcae::Result<u64> {
    for _ in 0..n {
        cx.checkpoint()?;
    }
    Ok(n)
}

/// The log of the host.
struct Log {
    lines: u64,
}

impl Actor for Log {
    type Msg = String;

    fn handle(&mut self, _: &mut ActorCx<'_, String>, _line: String) -> parcae::Result<Next> {
        self.lines += 1;
        Ok(Next::Continue)
    }

    fn stopping(&mut self, _: &mut ActorCx<'_, String>, _: &parcae_actor::Exit) {
        println!("log: {} lines", self.lines);
        assert!(self.lines <= 11);
    }
}

fn main() -> parcae::Result<()> {
    let rt = Runtime::builder().workers(2).profile::<Cluster>().build()?;
    // All that tenants may get beyond their own budgets, and how much at a time.
    let total = BudgetLimits::total(Budget { ops: 1_000_000, ..Budget::ZERO });
    let cap = rt.cap_budget(total, Delegation::Forbidden);
    let slice = Budget { ops: 10_000, ..Budget::ZERO };
    let recharge = Recharge::every(cap, Duration::from_millis(1), slice);
    let spec = Supervise::one_for_one().restarts(10, Duration::from_secs(1)).recharge(recharge);
    rt.run(|cx| {
        cx.actors(ActorsOpts::new(), |system| {
            let log = system.start(ActorOpts::new("log"), |_| Ok(Log { lines: 0 }))?;
            let tenants = system.dynamic("tenants", spec)?;
            let start = |name: &str, plugin: Plugin| {
                let lines = log.tell_only().at_most(10); // no tenant can stop the log, or fill it
                let budget = Budget { ops: 50_000, ..Budget::UNLIMITED };
                let opts = ActorOpts::new(name).child(Child::permanent()).budget(budget);
                tenants.start(opts, move |_| Ok(Tenant { plugin, log: lines.clone() }))
            };
            let ask = |tenant: &Address<Request>, n| {
                tenant.call(Duration::from_secs(10), |reply| Request(n, reply))
            };
            let working = start("works", works)?;

            let crashing = start("crashes", crashes)?;
            println!("crashes: {}", ask(&crashing, 1).unwrap_err());
            println!("crashes, restarted: {}", ask(&crashing, 8)?);

            let hanging = start("hangs", hangs)?;
            let late = hanging.call(Duration::from_millis(20), |reply| Request(0, reply));
            assert!(matches!(late, Err(CallError::Expired)), "{late:?}");
            println!("hangs: {}", late.unwrap_err());
            hanging.kill()?; // the handler ends where it waits
            println!("hangs, restarted: {}", ask(&hanging, 7)?);

            let flooding = start("floods", floods)?;
            println!("floods: {} lines refused", ask(&flooding, 0)?);

            let burning = start("burns", burns)?;
            println!("burns: {} ops, recharged on the way", ask(&burning, 200_000)?);

            println!("works: {}", ask(&working, 21)?);
            let watch = log.watch();
            log.drain()?;
            watch.wait()?;
            Ok(())
        })
    })
}
