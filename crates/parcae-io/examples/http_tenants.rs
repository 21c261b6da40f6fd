//! An HTTP server whose tenants run on budgets: a hostile one gets 429, the others stay fast.
//!
//! Each tenant has a rate of requests and each request a budget of ops. The hostile tenant sends as
//! fast as it can and asks for endless work; the polite ones wait between requests.
//!
//! ```text
//! cargo run --release -p parcae-io --example http_tenants             # a server, clients, a table
//! cargo run --release -p parcae-io --example http_tenants -- serve    # a server, until Ctrl-C
//! curl -i -H 'X-Tenant: anna' http://127.0.0.1:8080/work?500
//! ```

use parcae::prelude::*;
use parcae_io::http::{Client, Outgoing, Request, Response, Server};
use parcae_io::net::TcpListener;
use parcae_io::rate::Limiter;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests of a tenant in a second.
const RATE: u32 = 200;
/// Ops of one request.
const OPS: u64 = 20_000;

/// All tenants that have asked.
#[derive(Default)]
struct Tenants {
    limits: Mutex<BTreeMap<String, std::sync::Arc<Limiter>>>,
}

impl Tenants {
    fn limiter(&self, name: &str) -> std::sync::Arc<Limiter> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || std::sync::Arc::new(Limiter::new(RATE, Duration::from_secs(1)));
        limits.entry(name.into()).or_insert_with(new).clone()
    }

    /// A request: within the rate of its tenant, and on a budget.
    fn handle(&self, cx: &Cx, request: &mut Request<'_, '_>) -> parcae::Result<Response> {
        let tenant = request.header("x-tenant").unwrap_or("nobody").to_owned();
        if let Err(wait) = self.limiter(&tenant).try_take(1) {
            let seconds = wait.as_secs() + 1;
            return Ok(Response::new(429).header("Retry-After", seconds.to_string()));
        }
        let steps: u64 =
            request.target().rsplit('?').next().and_then(|n| n.parse().ok()).unwrap_or(1);
        let budget = Budget::UNLIMITED.with_ops(OPS);
        let opts = NurseryOpts::new().budget(budget).on_exhausted(OnExhausted::Fail).name(tenant);
        let worked = cx.nursery_with(opts, |n| n.spawn(move |cx| work(cx, steps))?.join());
        match worked {
            Ok(sum) => Ok(Response::text(format!("{sum}\n"))),
            Err(error) if matches!(error.kind(), ErrorKind::BudgetExceeded(_)) => {
                Ok(Response::new(429).body("the request is too expensive\n"))
            }
            Err(error) => Err(error),
        }
    }
}

/// The work of a tenant: the loop is charged, so that it ends with its budget.
fn work(cx: &Cx, steps: u64) -> parcae::Result<u64> {
    let mut sum = 0_u64;
    for step in 0..steps {
        cx.checkpoint()?;
        sum = sum.wrapping_mul(31).wrapping_add(step);
    }
    Ok(sum)
}

/// The answers that a client got, and the time of the slowest of a hundred.
#[derive(Default)]
struct Seen {
    good: usize,
    refused: usize,
    times: Vec<Duration>,
}

fn client(cx: &Cx, address: SocketAddr, name: &str, hostile: bool) -> parcae::Result<Seen> {
    let (client, mut seen) = (Client::new(), Seen::default());
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let steps = if hostile { u64::MAX } else { 500 };
        let address = format!("http://{address}/work?{steps}");
        let began = Instant::now();
        let answer = client.send(&Outgoing::new("GET", &address).header("X-Tenant", name))?;
        seen.times.push(began.elapsed());
        match answer.status() {
            200 => seen.good += 1,
            _ => seen.refused += 1,
        }
        if !hostile {
            cx.sleep(Duration::from_millis(10))?;
        }
    }
    seen.times.sort();
    Ok(seen)
}

fn main() -> parcae::Result<()> {
    let serves = std::env::args().nth(1).is_some_and(|word| word == "serve");
    let tenants = Tenants::default();
    let rt = Runtime::builder().workers(2).build()?;
    rt.run(|cx| {
        let listener = TcpListener::bind(if serves { "127.0.0.1:8080" } else { "127.0.0.1:0" })?;
        let (address, stop) = (listener.local_addr()?, CancelToken::new());
        cx.nursery(|n| {
            n.spawn(|cx| {
                let handler = |cx: &Cx, request: &mut Request<'_, '_>| tenants.handle(cx, request);
                Server::new().serve(cx, &listener, &stop, handler)
            })?;
            if serves {
                println!("http://{address}, until Ctrl-C");
                parcae_io::signal::ctrl_c()?.recv()?;
                stop.cancel();
                return Ok(());
            }
            let names = [("anna", false), ("ben", false), ("cora", false), ("mallory", true)];
            let tasks =
                names.map(|(name, hostile)| n.spawn(move |cx| client(cx, address, name, hostile)));
            println!("{:10} {:>6} {:>6} {:>12}", "tenant", "200", "429", "99 of 100");
            for ((name, _), task) in names.into_iter().zip(tasks) {
                let seen = task?.join()?;
                let slow = seen.times.get(seen.times.len() * 99 / 100).copied().unwrap_or_default();
                println!("{name:10} {:>6} {:>6} {slow:>12.1?}", seen.good, seen.refused);
            }
            stop.cancel();
            Ok(())
        })
    })
}
