//! More of everything than a program would do: spawns, yields, wakes, workers.

use super::*;
use std::sync::atomic::AtomicU32;

/// Each of these must run exactly once.
fn tickets(count: usize) -> Arc<Vec<AtomicU32>> {
    Arc::new((0..count).map(|_| AtomicU32::new(0)).collect())
}

fn each_ran_once(tickets: &[AtomicU32]) {
    for (number, ran) in tickets.iter().enumerate() {
        assert_eq!(ran.load(Ordering::Relaxed), 1, "task {number}");
    }
}

#[test]
fn spawns_from_inside() {
    everywhere(|engine| {
        let (spawners, each) = (20, by_executor(engine, 20, 500));
        let sum = completes(engine, move || {
            let sum = AtomicUsize::new(0);
            scope(|s| {
                for n in 0..spawners {
                    let sum = &sum;
                    s.spawn(move || {
                        scope(|s| {
                            for m in 0..each {
                                s.spawn(move || {
                                    sum.fetch_add(n * each + m, Ordering::Relaxed);
                                });
                            }
                        });
                    });
                }
            });
            sum.into_inner()
        });
        let count = spawners * each;
        assert_eq!(sum, count * (count - 1) / 2);
    });
}

#[test]
fn spawns_from_outside_and_inside_at_once() {
    threads(|engine| {
        const THREADS: usize = 3;
        const EACH: usize = 500;
        let ran = tickets(THREADS * EACH * 2);
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let ran = &ran;
                s.spawn(move || {
                    for n in 0..EACH {
                        let ran = Arc::clone(ran);
                        let number = 2 * (thread * EACH + n);
                        engine.spawn(move || {
                            scope(|s| {
                                s.spawn(|| {
                                    ran[number].fetch_add(1, Ordering::Relaxed);
                                });
                            });
                            ran[number + 1].fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        settles(engine);
        each_ran_once(&ran);
    });
}

// rule: S4-INJECT-6
#[test]
fn a_burst_of_a_hundred_thousand_from_outside() {
    const BURST: usize = 100_000;
    for (workers, deterministic) in [(1, true), (3, true), (1, false), (2, false)] {
        let opts = EngineOpts { workers, deterministic, ..EngineOpts::default() };
        let engine = Engine::new(opts).unwrap();
        let ran = tickets(BURST);
        // On threads no task is taken before all of it is there.
        let open = Arc::new(AtomicBool::new(deterministic));
        for _ in 0..workers {
            let open = Arc::clone(&open);
            engine.spawn(move || {
                while !open.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        }
        for number in 0..BURST {
            let ran = Arc::clone(&ran);
            engine.spawn(move || {
                ran[number].fetch_add(1, Ordering::Relaxed);
            });
        }
        open.store(true, Ordering::Release);
        settles(&engine);
        each_ran_once(&ran);
    }
}

#[test]
fn spawners_that_overflow_their_deques_all_at_once() {
    everywhere(|engine| {
        let (spawners, each) = (16, by_executor(engine, 300, 1024));
        let ran = tickets(spawners * each);
        let theirs = Arc::clone(&ran);
        completes(engine, move || {
            scope(|s| {
                for spawner in 0..spawners {
                    let ran = &theirs;
                    s.spawn(move || {
                        scope(|s| {
                            for n in 0..each {
                                s.spawn(move || {
                                    ran[spawner * each + n].fetch_add(1, Ordering::Relaxed);
                                });
                            }
                        });
                    });
                }
            });
        });
        each_ran_once(&ran);
    });
}

#[test]
fn yields() {
    everywhere(|engine| {
        const TASKS: usize = 32;
        let yields = by_executor(engine, 20, 200);
        let turns = completes(engine, move || {
            let turns = AtomicUsize::new(0);
            scope(|s| {
                let body = || {
                    for _ in 0..yields {
                        yield_now();
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                };
                for n in 0..TASKS {
                    match n % 4 {
                        // SAFETY: numbers and shared references on its stack.
                        0 => unsafe { s.spawn_migratable(body) },
                        1 => s.spawn_at(Priority::High, body),
                        2 => s.spawn_at(Priority::Low, body),
                        _ => s.spawn(body),
                    }
                }
            });
            turns.into_inner()
        });
        assert_eq!(turns, TASKS * yields);
        settles(engine);
        assert_eq!(total(engine).yielded, (TASKS * yields) as u64);
    });
}

/// Where one task of a ring waits for tokens.
struct Station {
    tokens: AtomicUsize,
    waker: Mutex<Option<Waker>>,
    /// Set while the task runs: it must not run a second time.
    occupied: AtomicBool,
}

impl Station {
    fn give(&self) {
        self.tokens.fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        // A task that registers after this looks for tokens after that.
        let waker = self.waker.lock().unwrap().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// One token, or none if it is over.
    fn take(&self, over: &AtomicBool) -> bool {
        loop {
            let taken = self
                .tokens
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |tokens| tokens.checked_sub(1));
            if over.load(Ordering::Acquire) || taken.is_ok() {
                return taken.is_ok();
            }
            self.occupied.store(false, Ordering::Release);
            park().unwrap();
            assert!(!self.occupied.swap(true, Ordering::AcqRel), "a task runs twice");
        }
    }
}

/// Tasks, every third of them movable, pass tokens around until there were enough hops. Each
/// hop is a wake, mostly of a task on another worker. A single one lost in the end stops all.
fn pass_tokens(engine: &Engine, stations: usize, tokens: usize, hops: usize) {
    let (taken, left) = completes(engine, move || {
        let ring: Vec<Station> = (0..stations)
            .map(|_| Station {
                tokens: AtomicUsize::new(0),
                waker: Mutex::new(None),
                occupied: AtomicBool::new(false),
            })
            .collect();
        let (taken, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        scope(|s| {
            for n in 0..stations {
                let (ring, taken, over) = (&ring, &taken, &over);
                let movable = n.is_multiple_of(3);
                let body = move || {
                    let (station, home) = (&ring[n], worker_index());
                    *station.waker.lock().unwrap() = Some(Waker::current());
                    station.occupied.store(true, Ordering::Release);
                    while station.take(over) {
                        assert!(movable || worker_index() == home, "a pinned task has moved");
                        let hop = taken.fetch_add(1, Ordering::Relaxed) + 1;
                        if hop >= hops {
                            over.store(true, Ordering::Release);
                            ring.iter().for_each(Station::wake);
                        } else {
                            // Far, near and unforeseeable, but the same in every run.
                            ring[(n * 5 + hop * 3 + 1) % ring.len()].give();
                        }
                    }
                };
                if movable {
                    // SAFETY: numbers and shared references on its stack.
                    unsafe { s.spawn_migratable(body) };
                } else {
                    s.spawn(body);
                }
            }
            for token in 0..tokens {
                ring[token * 7 % stations].give();
            }
        });
        let left: usize = ring.iter().map(|station| station.tokens.load(Ordering::Relaxed)).sum();
        (taken.into_inner(), left)
    });
    // From the hop on that was the last, a token that is taken is not passed on.
    assert_eq!(taken + 1 - hops + left, tokens, "a token was lost or doubled");
}

#[test]
fn wakes_across_workers() {
    everywhere(|engine| {
        let hops = by_executor(engine, 300, 5_000);
        pass_tokens(engine, 32, 8, hops);
    });
}

#[test]
fn wakes_of_few_tasks_that_hardly_ever_sleep() {
    everywhere(|engine| {
        let hops = by_executor(engine, 300, 5_000);
        pass_tokens(engine, 3, 3, hops);
        pass_tokens(engine, 2, 1, hops);
    });
}

#[test]
fn a_storm_of_the_same_seed_is_the_same_storm() {
    for workers in [1, 2, 7, 64, 256] {
        let storm = |seed| {
            let opts = EngineOpts { workers, seed, deterministic: true, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            pass_tokens(&engine, 20, 5, 200);
            engine.log()
        };
        let logs: Vec<Vec<u8>> = seeds().take(4).map(storm).collect();
        for (seed, log) in seeds().zip(&logs) {
            assert!(*log == storm(seed), "{workers} workers: PARCAE_SEED={seed}");
        }
        if workers > 1 && logs.len() > 1 {
            assert!(logs.iter().any(|log| *log != logs[0]), "{workers} workers: seeds do nothing");
        }
    }
}

// rule: S0-SCALE-2
#[test]
fn two_hundred_and_fifty_six_workers() {
    for deterministic in [true, false] {
        for seed in 0..3 {
            let opts = EngineOpts { workers: 256, seed, deterministic, ..EngineOpts::default() };
            let engine = Engine::new(opts).unwrap();
            pass_tokens(&engine, 300, 40, 5_000);
            let ran = tickets(2_000);
            let theirs = Arc::clone(&ran);
            completes(&engine, move || {
                scope(|s| {
                    for ran in &*theirs {
                        s.spawn(|| {
                            yield_now();
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
            each_ran_once(&ran);
        }
    }
}

/// How many parked tasks this build, this tool and this machine can do.
fn a_million_or_so() -> usize {
    if std::env::var_os("PARCAE_VALGRIND").is_some() {
        return 1_000;
    }
    if cfg!(debug_assertions) {
        return 50_000;
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    // A page of stack and a record each; half of what is there is enough for one test.
    (kib.unwrap_or(0_usize) / 2 / 5).min(1_000_000)
}

// rule: S0-SCALE-1
#[test]
fn a_million_parked_tasks_are_woken() {
    let tasks = a_million_or_so();
    let opts = EngineOpts { workers: 2, stack_size: StackSize::CORE, ..EngineOpts::default() };
    let engine = Engine::new(opts).unwrap();
    let woken = completes(&engine, move || {
        let (arrived, woken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let open = AtomicBool::new(false);
        let wakers: Vec<Mutex<Option<Waker>>> = (0..tasks).map(|_| Mutex::new(None)).collect();
        scope(|s| {
            for place in &wakers {
                s.spawn(|| {
                    *place.lock().unwrap() = Some(Waker::current());
                    arrived.fetch_add(1, Ordering::Release);
                    while !open.load(Ordering::Acquire) {
                        park().unwrap();
                    }
                    woken.fetch_add(1, Ordering::Relaxed);
                });
            }
            while arrived.load(Ordering::Acquire) < tasks {
                yield_now();
            }
            open.store(true, Ordering::Release);
            for place in &wakers {
                if let Some(waker) = &*place.lock().unwrap() {
                    waker.wake();
                }
            }
        });
        woken.into_inner()
    });
    assert_eq!(woken, tasks);
    let most = engine.stacks().stats().created;
    assert!(most >= tasks, "all of them waited at the same time: {most} stacks");
}
