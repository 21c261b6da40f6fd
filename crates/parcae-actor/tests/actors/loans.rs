//! Callers that run on scheduling contexts lend them to the actors that they call.

use super::support::must_end;
use parcae::cap::CapContext;
use parcae::policy::{ContextOpts, ContextRefused, Refill, runs_on_context};
use parcae::prelude::*;
use parcae::profile::Cluster;
use parcae::time::now;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, CallError, Mailbox, Next, Reply, System,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Task = Cx<Cluster>;
type Body = Box<dyn FnOnce(&mut ActorCx<'_, Ask>) -> parcae::Result<()> + Send>;

const LONG: Duration = Duration::from_secs(600);

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn work(time: u64) -> parcae::Result<()> {
    (0..time).try_for_each(|_| parcae::checkpoint())
}

fn is_near(time: Duration, expected: Duration) -> bool {
    time >= expected && time <= expected + Duration::from_micros(100)
}

/// A request: what to do, and what to do after the reply.
struct Ask {
    body: Body,
    rest: Body,
    reply: Reply<()>,
}

impl Ask {
    fn to(
        body: impl FnOnce(&mut ActorCx<'_, Ask>) -> parcae::Result<()> + Send + 'static,
    ) -> impl FnOnce(Reply<()>) -> Ask {
        Ask::and(body, |_| Ok(()))
    }

    fn and(
        body: impl FnOnce(&mut ActorCx<'_, Ask>) -> parcae::Result<()> + Send + 'static,
        rest: impl FnOnce(&mut ActorCx<'_, Ask>) -> parcae::Result<()> + Send + 'static,
    ) -> impl FnOnce(Reply<()>) -> Ask {
        |reply| Ask { body: Box::new(body), rest: Box::new(rest), reply }
    }
}

/// An actor that does what it is asked to; it may keep replies for later.
struct Server;

impl Actor for Server {
    type Msg = Ask;

    fn handle(&mut self, cx: &mut ActorCx<'_, Ask>, ask: Ask) -> parcae::Result<Next> {
        (ask.body)(cx)?;
        ask.reply.send(());
        (ask.rest)(cx)?;
        Ok(Next::Continue)
    }
}

fn server(system: &System<'_>, name: &'static str) -> parcae::Result<Address<Ask>> {
    system.start(ActorOpts::new(name), |_| Ok(Server))
}

/// Runs `caller` on a context with these terms, beside best-effort tasks, in a system of actors.
fn on_context(
    rt: &Runtime<Cluster>,
    opts: ContextOpts,
    setup: impl for<'env> Fn(&System<'env>) -> parcae::Result<Vec<Address<Ask>>> + Sync,
    caller: impl Fn(&Task, &CapContext, &[Address<Ask>]) -> parcae::Result<()> + Sync,
) -> CapContext {
    let (cap, done) = (rt.admit(opts).unwrap(), AtomicBool::new(false));
    rt.run(|cx| {
        cx.actors(ActorsOpts::new(), |system| {
            let servers = setup(system)?;
            for server in &servers {
                server.call(LONG, Ask::to(|_| Ok(())))?;
            }
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                for _ in 0..4 {
                    n.spawn(|cx| {
                        while !done.load(Ordering::Relaxed) {
                            cx.checkpoint()?;
                        }
                        Ok(())
                    })?;
                }
                let opts = SpawnOpts::new().context(&cap);
                let ended = n.spawn_with(opts, |cx| caller(cx, &cap, &servers))?.join();
                done.store(true, Ordering::Relaxed);
                ended
            })
        })
    })
    .unwrap();
    cap
}

fn one_worker(seed: u64) -> Runtime<Cluster> {
    let builder = Runtime::builder().deterministic(seed).workers(1).yield_interval(1_000);
    builder.profile::<Cluster>().build().unwrap()
}

fn blocking(budget: u64) -> ContextOpts {
    ContextOpts::new(ms(budget), ms(10)).refill(Refill::HardCbs)
}

/// The time that the context is charged for `call`.
fn cost(cap: &CapContext, call: impl FnOnce() -> parcae::Result<()>) -> parcae::Result<Duration> {
    parcae::yield_now()?; // charges
    let before = cap.stats().used;
    call()?;
    parcae::yield_now()?;
    Ok(cap.stats().used - before)
}

// rule: S3-SC-6, S3-GATE-11
#[test]
fn an_actor_answers_on_the_context_of_its_caller() {
    for mailbox in [Mailbox::bounded(4), Mailbox::rendezvous(), Mailbox::bounded(4).priority(2)] {
        let rt = one_worker(1);
        let setup = |system: &System<'_>| {
            let opts = ActorOpts::new("server").mailbox(mailbox.clone());
            Ok(vec![system.start(opts, |_| Ok(Server))?])
        };
        let cap = on_context(&rt, ContextOpts::new(ms(4), ms(10)), setup, |cx, _, servers| {
            for _ in 0..10 {
                let job = cx.next_period()?;
                work(500)?;
                servers[0].call(
                    LONG,
                    Ask::to(|_| {
                        assert!(runs_on_context());
                        work(2_000)
                    }),
                )?;
                work(500)?;
                assert!(now() - job.release <= ms(4), "{mailbox:?}");
            }
            Ok(())
        });
        let stats = cap.stats();
        assert_eq!((stats.late, stats.lent), (0, 10), "{mailbox:?}");
        assert!(is_near(stats.used / 10, ms(3)), "{stats:?}");
    }
}

#[test]
fn actors_that_call_each_other_run_on_one_context() {
    let rt = one_worker(1);
    let setup = |system: &System<'_>| Ok(vec![server(system, "b")?, server(system, "c")?]);
    let cap = on_context(&rt, blocking(8), setup, |_, cap, servers| {
        let c = servers[1].clone();
        let chain = Ask::and(
            move |_| {
                work(500)?;
                c.call(
                    LONG,
                    Ask::to(|_| {
                        assert!(runs_on_context());
                        work(1_000)
                    }),
                )?;
                assert!(runs_on_context(), "c has given it back");
                work(500)
            },
            |_| {
                assert!(!runs_on_context(), "it has replied");
                work(5_000)
            },
        );
        let cost = cost(cap, || Ok(servers[0].call(LONG, chain)?))?;
        assert!(is_near(cost, ms(2)), "{cost:?}");
        Ok(())
    });
    assert_eq!(cap.stats().lent, 2);
}

#[test]
fn a_call_that_serves_lends_the_context_and_keeps_it() {
    let rt = one_worker(1);
    let setup = |system: &System<'_>| Ok(vec![server(system, "b")?, server(system, "c")?]);
    on_context(&rt, blocking(8), setup, |_, cap, servers| {
        let (b, c) = (servers[0].clone(), servers[1].clone());
        let chain = Ask::to(move |cx| {
            // c calls back: b serves it on the same context.
            let back = Ask::to(move |_| {
                b.call(
                    LONG,
                    Ask::to(|_| {
                        assert!(runs_on_context());
                        work(1_000)
                    }),
                )?;
                work(500)
            });
            cx.call_serving(&mut Server, &c, LONG, back)?;
            assert!(runs_on_context());
            work(500)
        });
        let cost = cost(cap, || Ok(servers[0].call(LONG, chain)?))?;
        assert!(is_near(cost, ms(2)), "{cost:?}");
        Ok(())
    });
}

#[test]
fn the_context_comes_back_however_the_call_ends() {
    let ends: [(&str, fn() -> Body); 4] = [
        ("failure", || Box::new(|_| work(1_000).and(Err(parcae::Error::msg("no"))))),
        ("panic", || {
            Box::new(|_| {
                work(1_000)?;
                std::panic::resume_unwind(Box::new("no"))
            })
        }),
        ("killed", || {
            Box::new(|cx| {
                work(1_000)?;
                cx.address().kill()?;
                parcae::yield_now()
            })
        }),
        ("late", || Box::new(|_| work(1_000).and_then(|()| work(4_000)))),
    ];
    for (why, body) in ends {
        let rt = one_worker(1);
        let setup = |system: &System<'_>| Ok(vec![server(system, "b")?, server(system, "c")?]);
        on_context(&rt, blocking(8), setup, |cx, cap, servers| {
            let outcome = std::sync::Mutex::new(None);
            let used = cost(cap, || {
                let c = servers[1].clone();
                let inner = body();
                // The actor that fails is the last one of a chain.
                let chain = Ask::to(move |_| {
                    let _ = c.call(ms(1), |reply| Ask {
                        body: inner,
                        rest: Box::new(|_| Ok(())),
                        reply,
                    });
                    assert!(runs_on_context());
                    work(1_000)
                });
                *outcome.lock().unwrap() = Some(servers[0].call(LONG, chain));
                cx.sleep(ms(40)) // whatever goes on does so at its own cost
            })?;
            assert!(matches!(*outcome.lock().unwrap(), Some(Ok(()))), "{why}");
            assert!(is_near(used, ms(2)), "{why}: {used:?}");
            Ok(())
        });
    }
}

#[test]
fn a_request_for_more_than_is_left_is_refused() {
    let rt = one_worker(1);
    let setup = |system: &System<'_>| {
        Ok(vec![system.start(ActorOpts::new("b").min_budget(ms(2)), |_| Ok(Server))?])
    };
    let cap = on_context(&rt, blocking(3), setup, |cx, _, servers| {
        cx.sleep(ms(30))?;
        work(1_500)?;
        match servers[0].call(LONG, Ask::to(|_| Ok(()))) {
            Err(CallError::Interrupted(error)) => assert!(matches!(
                error.kind(),
                ErrorKind::ContextRefused(ContextRefused::BelowMinimum { .. })
            )),
            other => panic!("{other:?}"),
        }
        cx.sleep(ms(30))?;
        Ok(servers[0].call(LONG, Ask::to(|_| work(1_500)))?)
    });
    assert_eq!((cap.stats().lent, cap.stats().depletions), (1, 0));
}

#[test]
fn a_reply_that_is_sent_later_is_no_loan() {
    let rt = one_worker(1);
    struct Keeper(Option<Reply<()>>);
    impl Actor for Keeper {
        type Msg = Option<Reply<()>>;
        fn handle(
            &mut self,
            _: &mut ActorCx<'_, Self::Msg>,
            msg: Self::Msg,
        ) -> parcae::Result<Next> {
            match msg {
                Some(reply) => {
                    work(1_000)?;
                    assert!(runs_on_context());
                    self.0 = Some(reply);
                }
                None => {
                    assert!(!runs_on_context());
                    work(3_000)?;
                    self.0.take().expect("a reply").send(());
                }
            }
            Ok(Next::Continue)
        }
    }
    let cap = rt.admit(blocking(8)).unwrap();
    rt.run(|cx| {
        cx.actors(ActorsOpts::new(), |system| {
            let keeper = system.start(ActorOpts::new("keeper"), |_| Ok(Keeper(None)))?;
            cx.sleep(ms(1))?;
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                let caller = n.spawn_with(SpawnOpts::new().context(&cap), |_| {
                    let cost = cost(&cap, || Ok(keeper.call(LONG, Some)?))?;
                    assert!(is_near(cost, ms(1)), "{cost:?}");
                    Ok(())
                })?;
                cx.sleep(ms(2))?;
                keeper.tell(None)?;
                caller.join()
            })
        })
    })
    .unwrap();
}

/// Callers with and without contexts, chains that give up: under seeds and on threads.
fn storm(rt: &Runtime<Cluster>, rounds: u64) {
    let caps: Vec<_> = (0..2).map(|_| rt.admit(blocking(2)).unwrap()).collect();
    rt.run(|cx| {
        cx.actors(ActorsOpts::new().restarts(100_000), |system| {
            let servers = [server(system, "a")?, server(system, "b")?, server(system, "c")?];
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                for number in 0..4_u64 {
                    let servers = servers.clone();
                    let body = move |_: &Task| {
                        for round in 0..rounds {
                            let mix = number * 5 + round * 3;
                            let last = servers[2].clone();
                            let patience = Duration::from_micros(100 + mix % 7 * 300);
                            let chain = move |_: &mut ActorCx<'_, Ask>| {
                                work(mix % 4 * 100)?;
                                let inner = Ask::to(move |_| work(mix % 5 * 100));
                                let _ = last.call(patience / 2, inner);
                                Ok(())
                            };
                            let _ = servers[(mix % 2) as usize].call(patience, Ask::to(chain));
                            parcae::checkpoint()?;
                        }
                        Ok(())
                    };
                    match caps.get(number as usize) {
                        Some(cap) => n.spawn_with(SpawnOpts::new().context(cap), body)?,
                        None => n.spawn(body)?,
                    };
                }
                Ok(())
            })
        })
    })
    .unwrap();
    drop(caps);
    // No actor has kept a context.
    let first = parcae::policy::WorkerSet::of(0);
    rt.admit(ContextOpts::new(ms(8), ms(10)).workers(first)).unwrap();
}

#[test]
fn loans_of_actors_end_under_many_schedules() {
    for seed in 0..40 {
        let builder = Runtime::builder().deterministic(seed).yield_interval(100);
        let builder = builder.workers(1 + seed as usize % 2).profile::<Cluster>();
        storm(&builder.build().unwrap(), 15);
    }
}

#[test]
fn loans_of_actors_end_on_threads() {
    must_end(|| {
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).profile::<Cluster>().build().unwrap();
            storm(&rt, 150);
        }
    });
}
