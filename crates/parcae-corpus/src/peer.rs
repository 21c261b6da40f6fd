//! Some of the programs for Shuttle, as they are for Parcae: the same tasks, locks and accesses.
//!
//! Left out are the programs for which Shuttle has no counterpart: tokens that can be waited for,
//! `select!`, semaphores with a guard, virtual time, tasks that outlive the program. Its `RwLock`
//! refuses every read by a task that reads already, so that the two programs about reading twice
//! fail there in every schedule.
//!
//! Shuttle ends at the first failure. [`share`] therefore starts it again for each seed. PCT and
//! URW use their first schedule to count steps; only the second one is counted for them.

use crate::measure::{Bounds, Rate, Share, quietly};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler};
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use shuttle::sync::mpsc::{Receiver, SyncSender, sync_channel};
use shuttle::sync::{Arc, Barrier, Condvar, Mutex};
use shuttle::{Config, FailurePersistence, Runner, thread};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A program for Shuttle.
#[derive(Debug, Clone, Copy)]
pub struct PeerEntry {
    /// The name of the same program in [`CORPUS`](crate::CORPUS).
    pub name: &'static str,
    /// The program with the bug.
    pub buggy: fn(),
}

/// The programs.
pub const PEERS: &[PeerEntry] = &[
    PeerEntry { name: "cockroach#10214", buggy: cockroach_10214 },
    PeerEntry { name: "etcd#7443", buggy: etcd_7443 },
    PeerEntry { name: "etcd#7902", buggy: etcd_7902 },
    PeerEntry { name: "grpc#1353", buggy: grpc_1353 },
    PeerEntry { name: "kubernetes#11298", buggy: kubernetes_11298 },
    PeerEntry { name: "moby#4951", buggy: moby_4951 },
    PeerEntry { name: "wronglock", buggy: wronglock },
    PeerEntry { name: "stringbuffer", buggy: stringbuffer },
    PeerEntry { name: "lazy01", buggy: lazy01 },
    PeerEntry { name: "account-update", buggy: account_update },
    PeerEntry { name: "account-audit", buggy: account_audit },
    PeerEntry { name: "carter01", buggy: carter01 },
    PeerEntry { name: "din_phil-5", buggy: || din_phil(5) },
    PeerEntry { name: "din_phil-7", buggy: || din_phil(7) },
    PeerEntry { name: "token_ring", buggy: token_ring },
    PeerEntry { name: "queue", buggy: queue },
];

/// A scheduler of Shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerStrategy {
    /// Random walk.
    Random,
    /// PCT of this depth.
    Pct(usize),
    /// Uniform random walk.
    Urw,
}

impl PeerStrategy {
    /// Those that are measured.
    pub const ALL: [PeerStrategy; 4] =
        [PeerStrategy::Random, PeerStrategy::Pct(2), PeerStrategy::Pct(3), PeerStrategy::Urw];

    /// The name of the column.
    pub fn name(self) -> String {
        match self {
            PeerStrategy::Random => "random".into(),
            PeerStrategy::Pct(depth) => format!("pct-{depth}"),
            PeerStrategy::Urw => "urw".into(),
        }
    }

    fn scheduler(self, seed: u64, schedules: usize) -> Box<dyn Scheduler + Send> {
        match self {
            PeerStrategy::Random => Box::new(RandomScheduler::new_from_seed(seed, schedules)),
            PeerStrategy::Pct(depth) => {
                Box::new(PctScheduler::new_from_seed(seed, depth, schedules))
            }
            PeerStrategy::Urw => Box::new(UrwRandomScheduler::new_from_seed(seed, schedules)),
        }
    }

    /// Schedules that only count steps.
    fn estimating(self) -> u64 {
        u64::from(self != PeerStrategy::Random)
    }

    /// Runs schedules until one fails. Whether one did, and how many ran.
    fn hunt(self, program: fn(), seed: u64, bounds: Bounds) -> (bool, u64) {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.max_time = Some(bounds.time);
        let runs = std::sync::Arc::new(AtomicU64::new(0));
        let counted = runs.clone();
        let run = move || {
            counted.fetch_add(1, Relaxed);
            program();
        };
        let hunt = || {
            let scheduler = self.scheduler(seed, bounds.schedules as usize);
            Runner::new(scheduler, config).run(run)
        };
        // A thread of its own: after a panic of a task that holds two locks, each later run on the
        // same thread fails at once.
        let hunt = || std::thread::scope(|scope| scope.spawn(hunt).join().is_err());
        let failed = quietly(hunt);
        (failed, runs.load(Relaxed))
    }
}

/// The share of failing schedules.
pub fn share(program: fn(), strategy: PeerStrategy, bounds: Bounds) -> Share {
    let (started, mut share) = (Instant::now(), Share::default());
    let last = strategy.estimating() + 1;
    for seed in 0..bounds.schedules {
        if started.elapsed() >= bounds.time {
            break;
        }
        let once = Bounds { schedules: last, time: bounds.time };
        let (failed, runs) = strategy.hunt(program, seed, once);
        if runs == last {
            share.of += 1;
            share.failed += u64::from(failed);
        }
    }
    share
}

/// Schedules and time to the first failure, for each seed.
pub fn first_failures(
    program: fn(),
    strategy: PeerStrategy,
    seeds: impl IntoIterator<Item = u64>,
    bounds: Bounds,
) -> Vec<Option<(u64, Duration)>> {
    let hunt = |seed| {
        let started = Instant::now();
        let (failed, runs) = strategy.hunt(program, seed, bounds);
        failed.then(|| (runs, started.elapsed()))
    };
    seeds.into_iter().map(hunt).collect()
}

/// Schedules per second of a program that does not fail.
pub fn rate(program: fn(), strategy: PeerStrategy, bounds: Bounds) -> Rate {
    let started = Instant::now();
    let (failed, schedules) = strategy.hunt(program, 7, bounds);
    let failure = failed.then(|| "failed under Shuttle".to_string());
    Rate { schedules, time: started.elapsed(), failure }
}

/// Ten tasks that yield four times each.
pub fn yields() {
    let tasks: Vec<_> =
        (0..10).map(|_| thread::spawn(|| (0..4).for_each(|_| thread::yield_now()))).collect();
    for task in tasks {
        task.join().unwrap();
    }
}

/// Runs tasks together and waits for all.
fn together(tasks: Vec<Box<dyn FnOnce() + Send + 'static>>) {
    let tasks: Vec<_> = tasks.into_iter().map(thread::spawn).collect();
    for task in tasks {
        task.join().unwrap();
    }
}

/// Boxes a task.
macro_rules! task {
    ($($shared:ident),* => $body:expr) => {{
        $(let $shared = $shared.clone();)*
        Box::new(move || { $body; }) as Box<dyn FnOnce() + Send>
    }};
}

/// An event, by a flag and a condition variable.
#[derive(Default)]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
    }
}

fn cockroach_10214() {
    let coalesced = Arc::new(Mutex::new(Vec::new()));
    let (raft, unreachable) = (Arc::new(Mutex::new(0_u64)), Arc::new(Mutex::new(0_u64)));
    let report = |raft: &Mutex<u64>, unreachable: &Mutex<u64>| {
        let _raft = raft.lock().unwrap();
        *unreachable.lock().unwrap() += 1;
    };
    together(vec![
        task!(coalesced, raft, unreachable => {
            let mut coalesced = coalesced.lock().unwrap();
            for _ in coalesced.drain(..) {
                report(&raft, &unreachable);
            }
            report(&raft, &unreachable);
        }),
        task!(coalesced, raft, unreachable => {
            let mut ticks = raft.lock().unwrap();
            *ticks += 1;
            let unreachable = unreachable.lock().unwrap();
            if *unreachable == 0 {
                coalesced.lock().unwrap().push(*ticks);
            }
        }),
    ]);
}

#[derive(Default)]
struct Pinned {
    address: Option<u32>,
    closed: bool,
}

fn etcd_7443() {
    let (tx, rx): (SyncSender<Option<Option<u32>>>, Receiver<_>) = sync_channel(1);
    let pinned = Arc::new(Mutex::new(Pinned::default()));
    let notify = |pinned: &Mutex<Pinned>, tx: &SyncSender<_>, address: Option<u32>| {
        let mut pinned = pinned.lock().unwrap();
        if !pinned.closed {
            pinned.address = address;
            tx.send(Some(address)).unwrap();
        }
    };
    together(vec![
        task!(pinned => {
            let mut dialled = 0;
            while let Some(address) = rx.recv().unwrap() {
                dialled += u32::from(pinned.lock().unwrap().address == address);
            }
            assert!(dialled <= 4);
        }),
        task!(pinned, tx => {
            notify(&pinned, &tx, Some(1));
            notify(&pinned, &tx, None);
        }),
        task!(pinned, tx => {
            notify(&pinned, &tx, Some(2));
            notify(&pinned, &tx, None);
        }),
        task!(pinned, tx => {
            pinned.lock().unwrap().closed = true;
            tx.send(None).unwrap(); // there is no `close`: a last message
        }),
    ]);
}

fn etcd_7902() {
    let (entered, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Flag::default()));
    let follower = |client: u32| {
        task!(entered, over => {
            let mut entered = entered.lock().unwrap();
            entered.push(client);
            over.wait();
        })
    };
    let leader = task!(entered, over => {
        entered.lock().unwrap().clear();
        over.set();
    });
    together(vec![leader, follower(1), follower(2)]);
}

fn grpc_1353() {
    let (tx, lists): (SyncSender<Vec<u32>>, Receiver<_>) = sync_channel(0);
    let addresses = Arc::new(Mutex::new(Vec::new()));
    let update = |address: u32| {
        task!(addresses, tx => {
            let mut addresses = addresses.lock().unwrap();
            addresses.push(address);
            tx.send(addresses.clone()).unwrap();
        })
    };
    let watch = task!(addresses => for _ in 0..2 {
        for address in lists.recv().unwrap() {
            assert!(addresses.lock().unwrap().contains(&address));
        }
    });
    together(vec![watch, update(1), update(2)]);
}

fn kubernetes_11298() {
    let (ready, changed) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
    let (report, reports) = sync_channel(0);
    let (states_in, states) = sync_channel(0);
    together(vec![
        task!(ready, changed => {
            drop(changed.wait(ready.lock().unwrap()).unwrap());
            for _ in 0..2 {
                report.send(states.recv().unwrap()).unwrap();
            }
        }),
        task!(ready, changed => {
            *ready.lock().unwrap() = true;
            changed.notify_one();
            for state in 0..2 {
                states_in.send(state).unwrap();
            }
        }),
        Box::new(move || assert_eq!((reports.recv().unwrap(), reports.recv().unwrap()), (0, 1))),
    ]);
}

fn moby_4951() {
    let (all, removed) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(false)));
    let delete = || {
        task!(all, removed => {
            let guard = all.lock().unwrap();
            let mut removed = removed.lock().unwrap();
            if *removed {
                return;
            }
            drop(guard);
            *removed = true;
            *all.lock().unwrap() -= 1;
        })
    };
    together(vec![delete(), delete()]);
    assert_eq!(*all.lock().unwrap(), 0);
}

fn wronglock() {
    let (table, index) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let rows = Arc::new(AtomicU32::new(0));
    let insert = |lock: &Arc<Mutex<()>>| {
        task!(lock, rows => {
            let _guard = lock.lock().unwrap();
            let seen = rows.load(SeqCst);
            rows.store(seen + 1, SeqCst);
        })
    };
    together(vec![insert(&table), insert(&index), insert(&index), insert(&index)]);
    assert_eq!(rows.load(SeqCst), 4);
}

fn stringbuffer() {
    let mine = Arc::new(Mutex::new(String::new()));
    let other = Arc::new(Mutex::new(String::from("abc")));
    together(vec![
        task!(mine, other => {
            let bytes = other.lock().unwrap().len();
            let text = other.lock().unwrap()[..bytes].to_string();
            mine.lock().unwrap().push_str(&text);
        }),
        task!(other => other.lock().unwrap().clear()),
    ]);
}

fn lazy01() {
    let sum = Arc::new(Mutex::new(0));
    together(vec![
        task!(sum => *sum.lock().unwrap() += 1),
        task!(sum => assert!(*sum.lock().unwrap() < 3)),
        task!(sum => *sum.lock().unwrap() += 2),
    ]);
}

fn account_update() {
    let (balance, done) = (Arc::new(Mutex::new(100)), Arc::new(Barrier::new(3)));
    let change = |by: i64| {
        task!(balance, done => {
            let seen = *balance.lock().unwrap();
            *balance.lock().unwrap() = seen + by;
            done.wait();
        })
    };
    let check = task!(balance, done => {
        done.wait();
        assert_eq!(*balance.lock().unwrap(), 70);
    });
    together(vec![change(20), change(-50), check]);
}

fn account_audit() {
    let accounts = [Arc::new(Mutex::new(100)), Arc::new(Mutex::new(100))];
    let whole = Arc::new(Mutex::new(()));
    let transfer = |from: usize, to: usize, amount: i64| {
        task!(accounts => {
            *accounts[from].lock().unwrap() -= amount;
            *accounts[to].lock().unwrap() += amount;
        })
    };
    let audit = task!(accounts, whole => {
        let _whole = whole.lock().unwrap();
        let first = accounts[0].lock().unwrap();
        let sum = *first + *accounts[1].lock().unwrap();
        assert_eq!(sum, 200);
    });
    together(vec![transfer(0, 1, 30), transfer(1, 0, 10), audit]);
}

fn carter01() {
    let inside = Arc::new(Mutex::new([0_u32; 2]));
    let (taken, left) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
    let visit = |group: usize| {
        task!(inside, taken, left => {
            let mut counters = inside.lock().unwrap();
            counters[group] += 1;
            if counters[group] == 1 {
                let mut room = taken.lock().unwrap();
                while *room {
                    room = left.wait(room).unwrap();
                }
                *room = true;
            }
            drop(counters);
            let mut counters = inside.lock().unwrap();
            counters[group] -= 1;
            if counters[group] == 0 {
                *taken.lock().unwrap() = false;
                left.notify_one();
            }
        })
    };
    together((0..4).map(|guest| visit(guest % 2)).collect());
}

fn din_phil(seats: usize) {
    let forks: Arc<Vec<Mutex<u32>>> = Arc::new((0..seats).map(|_| Mutex::new(0)).collect());
    let dine = |seat: usize| {
        task!(forks => {
            let mut left = forks[seat].lock().unwrap();
            let mut right = forks[(seat + 1) % forks.len()].lock().unwrap();
            *left += 1;
            *right += 1;
        })
    };
    together((0..seats).map(dine).collect());
}

fn token_ring() {
    let ring: Arc<Vec<Mutex<u32>>> = Arc::new((0..5).map(|_| Mutex::new(0)).collect());
    let pass = |station: usize| {
        task!(ring => {
            let token = *ring[station].lock().unwrap();
            *ring[station + 1].lock().unwrap() = token + 1;
        })
    };
    together((0..4).map(pass).collect());
    assert_eq!(*ring[4].lock().unwrap(), 4);
}

/// A ring of two places: items, and how many were written and read.
#[derive(Default)]
struct Places {
    places: [Option<usize>; 2],
    written: usize,
    read: usize,
}

fn queue() {
    let ring = Arc::new(Mutex::new(Places::default()));
    let (room, items) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    fn note(ring: &Places, room: &AtomicBool, items: &AtomicBool) {
        room.store(ring.written - ring.read < 2, SeqCst);
        items.store(ring.written > ring.read, SeqCst);
    }
    let produce = |first: usize| {
        task!(ring, room, items => for item in first..first + 2 {
            while !room.load(SeqCst) {
                thread::yield_now();
            }
            let mut ring = ring.lock().unwrap();
            let at = ring.written % 2;
            assert_eq!(ring.places[at].replace(item), None);
            ring.written += 1;
            note(&ring, &room, &items);
        })
    };
    let consume = task!(ring, room, items => for _ in 0..4 {
        while !items.load(SeqCst) {
            thread::yield_now();
        }
        let mut ring = ring.lock().unwrap();
        let at = ring.read % 2;
        ring.places[at].take().unwrap();
        ring.read += 1;
        note(&ring, &room, &items);
    });
    together(vec![produce(0), produce(2), consume]);
}
