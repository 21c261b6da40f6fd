//! Scheduling contexts that are lent along calls.

use crate::contexts::{ms, one_worker, us, work};
use parcae::cap::CapContext;
use parcae::channel::{OneSender, oneshot};
use parcae::policy::{ContextEventKind, ContextOffer, ContextOpts, ContextRefused, LentContext};
use parcae::policy::{OverrunPolicy, Refill, runs_on_context};
use parcae::prelude::*;
use parcae::sync::Notify;
use parcae::time::now;
use parcae::{Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);

type Work = Box<dyn FnOnce(&Cx) -> Result<()> + Send>;

struct Request {
    work: Work,
    /// After the reply.
    rest: Work,
    reply: OneSender<()>,
    loan: Option<LentContext>,
}

/// A server: one task, which answers one request after another.
struct Server {
    requests: Mutex<VecDeque<Request>>,
    bell: Notify,
    is_closed: AtomicBool,
    min_budget: Duration,
}

impl Server {
    fn new() -> Arc<Server> {
        Server::with_min_budget(Duration::ZERO)
    }

    fn with_min_budget(min_budget: Duration) -> Arc<Server> {
        let (requests, bell) = (Mutex::default(), Notify::new());
        Arc::new(Server { requests, bell, is_closed: AtomicBool::new(false), min_budget })
    }

    fn serve(&self, cx: &Cx) -> Result<()> {
        loop {
            let request = self.requests.lock().unwrap().pop_front();
            match request {
                Some(Request { work, rest, reply, loan }) => {
                    if let Some(loan) = &loan {
                        loan.accept();
                    }
                    work(cx)?; // a failure drops the reply
                    loan.iter().for_each(LentContext::give_back);
                    let _ = reply.send(());
                    rest(cx)?;
                }
                None if self.is_closed.load(Ordering::Relaxed) => return Ok(()),
                None => self.bell.wait()?,
            }
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.bell.notify_one();
    }

    fn call(&self, work: impl FnOnce(&Cx) -> Result<()> + Send + 'static) -> Result<()> {
        self.call_within(LONG, work, |_| Ok(()))
    }

    fn call_within(
        &self,
        within: Duration,
        work: impl FnOnce(&Cx) -> Result<()> + Send + 'static,
        rest: impl FnOnce(&Cx) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let offer = ContextOffer::new(self.min_budget)?;
        let loan = offer.as_ref().map(ContextOffer::loan);
        let (reply, answer) = oneshot();
        let (work, rest) = (Box::new(work), Box::new(rest));
        self.requests.lock().unwrap().push_back(Request { work, rest, reply, loan: loan.clone() });
        match &loan {
            Some(loan) => self.bell.notify_one_lending(loan),
            None => self.bell.notify_one(),
        }
        answer.recv_timeout(within).map_err(Error::from)
    }
}

/// Refilled while it waits for other things than its period.
fn blocking(budget: Duration, period: Duration) -> ContextOpts {
    ContextOpts::new(budget, period).refill(Refill::HardCbs)
}

fn bound(cap: &CapContext) -> SpawnOpts {
    SpawnOpts::new().context(cap)
}

/// The time that was charged since the last call.
struct Charged<'c>(&'c CapContext, Duration);

impl<'c> Charged<'c> {
    fn new(cap: &'c CapContext) -> Charged<'c> {
        Charged(cap, cap.stats().used)
    }

    fn more(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.1, self.0.stats().used);
        self.1 - before
    }
}

/// Tasks without a context that always have something to do, until the flag is set.
fn hogs<'s>(n: &'s Nursery<'s, '_>, number: usize, done: &'s AtomicBool) -> Result<()> {
    for _ in 0..number {
        n.spawn(|cx: &Cx| {
            while !done.load(Ordering::Relaxed) {
                cx.checkpoint()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn is_near(time: Duration, expected: Duration) -> bool {
    time >= expected && time <= expected + us(100)
}

// rule: S3-SC-6, S3-GATE-11
#[test]
fn a_server_runs_on_the_time_of_its_caller() {
    for (seed, refill) in [(1, Refill::PerJob), (2, Refill::HardCbs)] {
        let rt = one_worker(seed);
        let cap = rt.admit(ContextOpts::new(ms(4), ms(10)).refill(refill)).unwrap();
        let (server, done) = (Server::new(), AtomicBool::new(false));
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                n.spawn(|cx| server.serve(cx))?;
                cx.yield_now()?; // the server waits
                hogs(n, 8, &done)?;
                let caller = n.spawn_with(bound(&cap), |cx| {
                    for _ in 0..20 {
                        let job = cx.next_period()?;
                        work(cx, 500)?;
                        let number = job.number;
                        server.call(move |cx| {
                            assert!(runs_on_context(), "{refill:?}, job {number}");
                            work(cx, 2_000)
                        })?;
                        work(cx, 500)?;
                        let took = now() - job.release;
                        assert!(took <= ms(4), "it has waited for the hogs: {took:?}, {job:?}");
                    }
                    Ok(())
                })?;
                let ended = caller.join();
                done.store(true, Ordering::Relaxed);
                server.close();
                ended
            })
        })
        .unwrap();
        let stats = cap.stats();
        assert_eq!((stats.late, stats.overruns, stats.lent), (0, 0, 20));
        assert!(is_near(stats.used / 20, ms(3)), "all charged once: {stats:?}");
    }
}

#[test]
fn a_chain_of_calls_runs_on_one_context() {
    let rt = one_worker(1);
    let cap = rt.admit(blocking(ms(5), ms(10))).unwrap();
    let (b, c, done) = (Server::new(), Server::new(), AtomicBool::new(false));
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| b.serve(cx))?;
            n.spawn(|cx| c.serve(cx))?;
            cx.yield_now()?;
            hogs(n, 4, &done)?;
            let caller = n.spawn_with(bound(&cap), |cx| {
                let began = now();
                let (mut charged, c) = (Charged::new(&cap), Arc::clone(&c));
                b.call(move |cx| {
                    work(cx, 500)?;
                    c.call(|cx| work(cx, 1_000))?;
                    assert!(runs_on_context(), "c has given it back to b");
                    work(cx, 500)
                })?;
                cx.yield_now()?; // charges
                assert!(is_near(charged.more(), ms(2)));
                assert!(is_near(now() - began, ms(2)));
                Ok(())
            })?;
            let ended = caller.join();
            done.store(true, Ordering::Relaxed);
            b.close();
            c.close();
            ended
        })
    })
    .unwrap();
    assert_eq!(cap.stats().lent, 2);
}

#[test]
fn a_server_that_has_replied_goes_on_at_its_own_cost() {
    let rt = one_worker(1);
    let cap = rt.admit(blocking(ms(5), ms(10))).unwrap();
    let server = Server::new();
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| server.serve(cx))?;
            cx.yield_now()?;
            let caller = n.spawn_with(bound(&cap), |cx| {
                let (mut charged, began) = (Charged::new(&cap), now());
                server.call_within(
                    LONG,
                    |cx| work(cx, 1_000),
                    |cx| {
                        assert!(!runs_on_context());
                        work(cx, 20_000)
                    },
                )?;
                assert!(is_near(now() - began, ms(1)), "the caller goes first");
                cx.sleep(ms(30))?; // the server goes on
                assert!(is_near(charged.more(), ms(1)));
                Ok(())
            })?;
            let ended = caller.join();
            server.close();
            ended
        })
    })
    .unwrap();
}

// rule: S3-GATE-11
#[test]
fn depletion_in_the_server_is_an_event_of_the_owner() {
    let rt = one_worker(1);
    let opts = blocking(ms(2), ms(10)).overrun(OverrunPolicy::Notify);
    let cap = rt.admit(opts).unwrap();
    let (server, done) = (Server::new(), AtomicBool::new(false));
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| server.serve(cx))?;
            cx.yield_now()?;
            hogs(n, 2, &done)?;
            let caller = n.spawn_with(bound(&cap), |_| {
                let began = now();
                server.call(|cx| work(cx, 5_000))?;
                Ok(now() - began)
            })?;
            let mut kinds = vec![cap.next_event(cx)?.kind, cap.next_event(cx)?.kind];
            kinds.sort_by_key(|kind| *kind as u8);
            assert_eq!(kinds, [ContextEventKind::Depleted, ContextEventKind::Timeout]);
            let took = caller.join();
            done.store(true, Ordering::Relaxed);
            server.close();
            // 2 ms in each of two periods, the last one in the third.
            assert!(is_near(took?, ms(21)), "the server is throttled as its caller");
            Ok(())
        })
    })
    .unwrap();
    assert!(cap.stats().depletions >= 2);
}

#[test]
fn a_caller_with_too_little_budget_is_refused() {
    let rt = one_worker(1);
    let cap = rt.admit(blocking(ms(3), ms(10))).unwrap();
    let server = Server::with_min_budget(ms(2));
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| server.serve(cx))?;
            let caller = n.spawn_with(bound(&cap), |cx| {
                work(cx, 2_000)?;
                let error = server.call(|_| panic!("not enough is left")).unwrap_err();
                match error.kind() {
                    ErrorKind::ContextRefused(ContextRefused::BelowMinimum { left, needed }) => {
                        assert!(*left <= ms(1) && *needed == ms(2), "{error}");
                    }
                    other => panic!("{other:?}"),
                }
                cx.sleep(ms(20))?;
                server.call(|cx| work(cx, 1_500))
            })?;
            let ended = caller.join();
            server.close();
            ended
        })
    })
    .unwrap();
    assert_eq!(cap.stats().lent, 1);
}

/// The ways in which a caller can stop waiting for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivesUp {
    Timeout,
    Cancel,
    Panic,
}

const WAYS: [GivesUp; 3] = [GivesUp::Timeout, GivesUp::Cancel, GivesUp::Panic];

/// A call that the caller does not wait for to its end, one way or another.
fn call_and_give_up(
    cx: &Cx,
    server: &Server,
    (way, after): (GivesUp, Duration),
    work: impl FnOnce(&Cx) -> Result<()> + Send + 'static,
) {
    match way {
        GivesUp::Timeout => {
            let late = server.call_within(after, work, |_| Ok(())).unwrap_err();
            assert!(late.to_string().contains("deadline"), "{late}");
        }
        GivesUp::Cancel => {
            let error = cx.timeout(after, || server.call(work)).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        GivesUp::Panic => {
            let offer = ContextOffer::new(Duration::ZERO).unwrap().unwrap();
            let (reply, answer) = oneshot();
            let (work, rest): (Work, Work) = (Box::new(work), Box::new(|_| Ok(())));
            let loan = Some(offer.loan());
            server.requests.lock().unwrap().push_back(Request { work, rest, reply, loan });
            server.bell.notify_one_lending(&offer.loan());
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _offer = offer;
                let _ = answer.recv_timeout(after);
                std::panic::resume_unwind(Box::new("the caller"));
            }));
            assert!(unwound.is_err());
        }
    }
}

#[test]
fn a_caller_that_gives_up_has_its_context_back() {
    for way in WAYS {
        let rt = one_worker(1);
        let cap = rt.admit(blocking(ms(8), ms(10))).unwrap();
        let server = Server::new();
        let served = Arc::new(AtomicU64::new(0));
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                n.spawn(|cx| server.serve(cx))?;
                cx.yield_now()?;
                let caller = n.spawn_with(bound(&cap), |cx| {
                    let (mut charged, store) = (Charged::new(&cap), Arc::clone(&served));
                    call_and_give_up(cx, &server, (way, ms(1)), move |cx| {
                        work(cx, 3_000)?;
                        assert!(!runs_on_context());
                        store.store(1, Ordering::Relaxed);
                        Ok(())
                    });
                    work(cx, 1_000)?; // goes first
                    assert_eq!(served.load(Ordering::Relaxed), 0, "{way:?}");
                    cx.sleep(ms(20))?;
                    assert_eq!(served.load(Ordering::Relaxed), 1, "{way:?}");
                    let used = charged.more();
                    assert!(is_near(used, ms(2)), "{way:?}: {used:?}");
                    Ok(())
                })?;
                let ended = caller.join();
                server.close();
                ended
            })
        })
        .unwrap();
    }
}

/// A calls B, B calls C, and one of them gives up while C works.
#[test]
fn each_link_of_a_chain_can_be_taken_back() {
    for (gives_up, way) in (0..2).flat_map(|link| WAYS.map(|way| (link, way))) {
        let rt = one_worker(1);
        let cap = rt.admit(blocking(ms(8), ms(10))).unwrap();
        let (b, c) = (Server::new(), Server::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().push((name, runs_on_context()))
        };
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                n.spawn(|cx| b.serve(cx))?;
                n.spawn(|cx| c.serve(cx))?;
                cx.yield_now()?;
                let caller = n.spawn_with(bound(&cap), |cx| {
                    let (mut charged, c) = (Charged::new(&cap), Arc::clone(&c));
                    let (begins, ends, b_ends) = (note("c begins"), note("c ends"), note("b ends"));
                    let in_c = move |cx: &Cx| {
                        begins();
                        work(cx, 4_000)?;
                        ends();
                        Ok(())
                    };
                    if gives_up == 0 {
                        call_and_give_up(cx, &b, (way, ms(1)), move |cx| {
                            c.call(in_c)?;
                            b_ends();
                            work(cx, 1_000)
                        });
                    } else {
                        b.call(move |cx| {
                            call_and_give_up(cx, &c, (way, ms(1)), in_c);
                            work(cx, 1_000)?;
                            b_ends();
                            Ok(())
                        })?;
                    }
                    cx.sleep(ms(20))?;
                    let expected = if gives_up == 0 { ms(1) } else { ms(2) };
                    let used = charged.more();
                    assert!(is_near(used, expected), "{gives_up} {way:?}: {used:?}");
                    Ok(())
                })?;
                let ended = caller.join();
                b.close();
                c.close();
                ended
            })
        })
        .unwrap();
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        let b_has_it = gives_up == 1;
        let expected = [("b ends", b_has_it), ("c begins", true), ("c ends", false)];
        assert_eq!(seen, expected, "{gives_up} {way:?}");
    }
}

#[test]
fn a_server_that_fails_gives_the_context_back() {
    for panics in [false, true] {
        let rt = one_worker(1);
        let cap = rt.admit(blocking(ms(8), ms(10))).unwrap();
        let server = Server::new();
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().name("all"), |n| {
                let ended = n.spawn(|cx| {
                    let opts = NurseryOpts::new().name("server");
                    let _ = cx.nursery_with(opts, |n| n.spawn(|cx| server.serve(cx))?.join());
                    Ok(())
                })?;
                cx.sleep(us(10))?;
                let caller = n.spawn_with(bound(&cap), |cx| {
                    let mut charged = Charged::new(&cap);
                    let failed = server.call(move |cx| {
                        work(cx, 1_000)?;
                        if panics {
                            std::panic::resume_unwind(Box::new("the server"));
                        }
                        Err(Error::msg("the server"))
                    });
                    assert!(failed.is_err());
                    work(cx, 1_000)?;
                    cx.yield_now()?;
                    assert!(is_near(charged.more(), ms(2)), "{panics}");
                    Ok(())
                })?;
                caller.join()?;
                ended.join()
            })
        })
        .unwrap();
    }
}

#[test]
fn a_revoked_context_leaves_the_borrower_as_it_was() {
    let rt = one_worker(1);
    let cap = rt.admit(blocking(ms(8), ms(10))).unwrap();
    let (b, c) = (Server::new(), Server::new());
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| b.serve(cx))?;
            n.spawn(|cx| c.serve(cx))?;
            cx.yield_now()?;
            let caller = n.spawn_with(bound(&cap), |_| {
                let (c, revoker) = (Arc::clone(&c), cap.revoker());
                b.call(move |_| {
                    c.call(move |cx| {
                        revoker.revoke();
                        work(cx, 2_000)?;
                        cx.yield_now()?;
                        assert!(!runs_on_context());
                        Ok(())
                    })?;
                    assert!(!runs_on_context());
                    Ok(())
                })
            })?;
            assert!(caller.join().unwrap_err().is_cancelled());
            cx.sleep(ms(20))?;
            b.call(|_| Ok(()))?; // both live
            b.close();
            c.close();
            Ok(())
        })
    })
    .unwrap();
    drop(cap);
    rt.admit(blocking(ms(8), ms(10))).unwrap(); // its place is free
}

#[test]
fn a_busy_server_has_the_context_when_it_takes_the_request() {
    let rt = one_worker(1);
    let cap = rt.admit(blocking(ms(5), ms(10))).unwrap();
    let (server, done) = (Server::new(), AtomicBool::new(false));
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn(|cx| server.serve(cx))?;
            cx.yield_now()?;
            let other = n.spawn(|_| server.call(|cx| work(cx, 3_500)))?;
            cx.sleep(ms(1))?; // it is at work for the other one
            hogs(n, 1, &done)?;
            let caller = n.spawn_with(bound(&cap), |cx| {
                let mut charged = Charged::new(&cap);
                server.call(|cx| {
                    assert!(runs_on_context());
                    work(cx, 1_000)
                })?;
                cx.yield_now()?;
                assert!(is_near(charged.more(), ms(1)), "the other one has paid for itself");
                Ok(())
            })?;
            let ended = caller.join();
            done.store(true, Ordering::Relaxed);
            other.join()?;
            server.close();
            ended
        })
    })
    .unwrap();
}

#[test]
fn a_server_elsewhere_or_with_a_context_answers_on_its_own_time() {
    let rt = Runtime::builder().deterministic(1).workers(2).build().unwrap();
    let first = parcae::policy::WorkerSet::of(0);
    let second = parcae::policy::WorkerSet::of(1);
    let caps = [first, second].map(|set| rt.admit(blocking(ms(5), ms(10)).workers(set)).unwrap());
    let near = rt.admit(blocking(ms(2), ms(10)).workers(first)).unwrap();
    let (elsewhere, own) = (Server::new(), Server::new());
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            n.spawn_with(bound(&caps[1]), |cx| elsewhere.serve(cx))?;
            n.spawn_with(bound(&near), |cx| own.serve(cx))?;
            cx.sleep(ms(1))?;
            let caller = n.spawn_with(bound(&caps[0]), |_| {
                elsewhere.call(|cx| work(cx, 100))?;
                own.call(|cx| work(cx, 100))
            })?;
            let ended = caller.join();
            elsewhere.close();
            own.close();
            ended
        })
    })
    .unwrap();
    assert_eq!(caps[0].stats().lent, 0);
    assert!(caps[1].stats().used >= us(100) && near.stats().used >= us(100));
}

/// Callers of random servers in chains, which give up at random; in the end nothing is lent.
fn storm(rt: &Runtime, rounds: u64) -> Result<()> {
    let caps: Vec<_> = (0..2).map(|_| rt.admit(blocking(ms(2), ms(10))).unwrap()).collect();
    let servers: Vec<_> = (0..3).map(|_| Server::new()).collect();
    let answered = AtomicU64::new(0);
    let (servers_of, answered_of) = (&servers, &answered);
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("all"), |n| {
            servers.iter().try_for_each(|one| n.spawn(|cx| one.serve(cx)).map(drop))?;
            let callers: Result<Vec<_>> = (0..4)
                .map(|number: u64| {
                    let body = move |cx: &Cx| {
                        for round in 0..rounds {
                            let mix = number * 7 + round * 3;
                            let first = &servers_of[(mix % 2) as usize];
                            let second = Arc::clone(&servers_of[2]);
                            let patience = us(100 + mix % 5 * 400);
                            let inner = us(100 + mix % 3 * 500);
                            let done = first.call_within(
                                patience,
                                move |cx| {
                                    work(cx, mix % 4 * 100)?;
                                    let rest = move |cx: &Cx| work(cx, 50);
                                    let work = move |cx: &Cx| work(cx, mix % 6 * 100);
                                    let _ = second.call_within(inner, work, rest);
                                    Ok(())
                                },
                                |cx| work(cx, 20),
                            );
                            answered_of.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
                            cx.checkpoint()?;
                        }
                        Ok(())
                    };
                    match caps.get(number as usize) {
                        Some(cap) => n.spawn_with(bound(cap), body),
                        None => n.spawn(body),
                    }
                })
                .collect();
            callers?.into_iter().try_for_each(|caller| caller.join())?;
            servers.iter().for_each(|server| server.close());
            Ok(())
        })
    })?;
    assert!(answered.load(Ordering::Relaxed) > 0);
    drop(caps);
    // No borrower has kept a context: there is room for one that takes all.
    rt.admit(ContextOpts::new(ms(8), ms(10)).workers(parcae::policy::WorkerSet::of(0))).unwrap();
    Ok(())
}

#[test]
fn loans_end_under_many_schedules() {
    for seed in 0..60 {
        let workers = 1 + seed as usize % 2;
        let builder = Runtime::builder().deterministic(seed).workers(workers).yield_interval(100);
        storm(&builder.build().unwrap(), 20).unwrap();
    }
}

#[test]
fn loans_end_on_threads() {
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        storm(&rt, 200).unwrap();
    }
}
