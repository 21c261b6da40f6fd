//! Actors, addresses, mailboxes and supervisors, on threads and under the deterministic executor.

#[path = "../../../parcae/tests/support/mod.rs"]
mod support;

mod budgets;
mod calls;
mod dynamic;
mod ends;
mod faults;
mod loans;
mod mailboxes;
mod overruns;
mod restated;
mod serving;
mod sleep;
mod supervision;
mod tree;

use parcae::profile::Cluster;
use parcae::{Cx, Error, Result, Runtime};
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, Birth, Event, Exit, Next, Reply, System,
};
use std::sync::Mutex;
use std::time::Duration;

/// Long enough never to be reached.
const LONG: Duration = Duration::from_secs(600);

/// Runs a test in a system, with many schedules: strategies of the lab, seeds of the deterministic
/// executor, and threads.
fn everywhere(
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    with_schedules(3, test);
}

/// The same without threads, for tests that sleep for long.
fn deterministic(
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    with_schedules(0, test);
}

/// The same with one seed, for tests of many cases.
fn deterministic_once(
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    with_seeds(1, 0, test);
}

fn with_schedules(
    repeats: u64,
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    with_seeds(20, repeats, test);
}

fn with_seeds(
    seeds: u64,
    repeats: u64,
    test: impl for<'env> Fn(&Cx<Cluster>, &System<'env>, &'env Log) -> Result<()> + Sync,
) {
    let run = |rt: &Runtime<Cluster>| {
        let log = Log::default();
        rt.run(|cx| cx.actors(ActorsOpts::new(), |system| test(cx, system, &log)))
    };
    if seeds > 1 {
        support::hunt_on(Runtime::builder().profile::<Cluster>(), run);
    }
    support::schedules(&[1, 2], seeds, repeats, |schedule| {
        support::succeed(run(&schedule.builder().profile::<Cluster>().build().unwrap()));
    });
}

/// Events in the order in which they happened.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An actor that does as it is told, and logs its life.
struct Subject<'a> {
    name: &'static str,
    log: &'a Log,
    sum: u64,
}

enum Msg {
    Add(u64),
    Note(String),
    Sum(Reply<u64>),
    Incarnation(Reply<u64>),
    Fail(&'static str),
    Panic(&'static str),
    Finish,
    Drop(Reply<u64>),
    Wait(Reply<()>),
    Call(Address<Msg>, Reply<Result<u64, parcae_actor::CallError>>),
    Monitor(Address<Msg>),
    Link(Address<Msg>),
    Timer(Duration),
    Helper,
}

impl Actor for Subject<'_> {
    type Msg = Msg;

    fn handle(&mut self, cx: &mut ActorCx<'_, Msg>, msg: Msg) -> Result<Next> {
        match msg {
            Msg::Add(n) => self.sum += n,
            Msg::Note(text) => self.log.add(text),
            Msg::Sum(reply) => reply.send(self.sum),
            Msg::Incarnation(reply) => reply.send(self.sum / 1000),
            Msg::Fail(text) => return Err(Error::msg(text)),
            Msg::Panic(text) => std::panic::resume_unwind(Box::new(text)),
            Msg::Finish => return Ok(Next::Stop),
            Msg::Drop(reply) => drop(reply),
            Msg::Wait(reply) => {
                reply.send(());
                cx.sleep(LONG)?;
            }
            Msg::Call(other, reply) => reply.send(other.call(LONG, Msg::Sum)),
            Msg::Monitor(other) => {
                cx.monitor(&other);
            }
            Msg::Link(other) => cx.link(&other),
            Msg::Timer(after) => cx.timer("alarm", after),
            Msg::Helper => cx.spawn(|_| Err(Error::msg("the helper failed")))?,
        }
        Ok(Next::Continue)
    }

    fn event(&mut self, _: &mut ActorCx<'_, Msg>, event: Event) -> Result<Next> {
        match event {
            Event::Down(down) => {
                self.log.add(format!("{} hears: {} {}", self.name, down.name, down.exit));
            }
            Event::Timer { key, .. } => self.log.add(format!("{} hears: {key}", self.name)),
            _ => {}
        }
        Ok(Next::Continue)
    }

    fn stopping(&mut self, _: &mut ActorCx<'_, Msg>, exit: &Exit) {
        self.log.add(format!("{} {exit}", self.name));
    }
}

/// A factory: the sum begins with a thousand for each incarnation.
fn subject<'a>(
    name: &'static str,
    log: &'a Log,
) -> impl FnMut(&mut Birth) -> Result<Subject<'a>> + Send + 'a {
    move |birth| {
        if birth.incarnation() > 1 {
            log.add(format!("{name} again"));
        }
        Ok(Subject { name, log, sum: 1000 * birth.incarnation() })
    }
}

fn start<'env>(system: &System<'env>, name: &'static str, log: &'env Log) -> Result<Address<Msg>> {
    system.start(ActorOpts::new(name), subject(name, log))
}
