//! The programs, and the table of them.

pub mod account_audit;
pub mod account_update;
pub mod carter01;
pub mod cockroach_10214;
pub mod cockroach_10790;
pub mod cockroach_13755;
pub mod cockroach_16167;
pub mod cockroach_9935;
pub mod din_phil;
pub mod etcd_5509;
pub mod etcd_7443;
pub mod etcd_7902;
pub mod grpc_1353;
pub mod grpc_1460;
pub mod grpc_3017;
pub mod grpc_660;
pub mod istio_8967;
pub mod kubernetes_11298;
pub mod kubernetes_1321;
pub mod kubernetes_62464;
pub mod kubernetes_70277;
pub mod lazy01;
pub mod moby_4951;
pub mod queue;
pub mod serving_2137;
pub mod stringbuffer;
pub mod token_ring;
pub mod wronglock;

use parcae::lab::FailureKind;
use parcae::{Result, Runtime};

/// A program of the corpus.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Entry {
    /// Its name, unique.
    pub name: &'static str,
    /// The kind of bug.
    pub kind: &'static str,
    /// Its tasks, the root not counted.
    pub tasks: usize,
    /// The failure to be found.
    pub failing: FailureKind,
    /// The program with the bug.
    pub buggy: fn(&Runtime) -> Result<()>,
    /// The program without it.
    pub fixed: fn(&Runtime) -> Result<()>,
}

/// Rows of the table: the functions are those of a module.
macro_rules! corpus {
    ($($name:literal, $kind:literal, $tasks:literal, $failing:ident, $module:ident $(<$seats:literal>)?;)*) => {
        /// All programs.
        pub const CORPUS: &[Entry] = &[$(Entry {
            name: $name,
            kind: $kind,
            tasks: $tasks,
            failing: FailureKind::$failing,
            buggy: $module::buggy $(::<$seats>)?,
            fixed: $module::fixed $(::<$seats>)?,
        }),*];
    };
}

corpus! {
    "cockroach#10214", "lock order", 2, Deadlock, cockroach_10214;
    "cockroach#16167", "lock read twice", 2, Deadlock, cockroach_16167;
    "cockroach#9935", "lock taken twice", 2, Deadlock, cockroach_9935;
    "cockroach#13755", "leak", 1, Leak, cockroach_13755;
    "cockroach#10790", "leak", 3, Deadlock, cockroach_10790;
    "etcd#7443", "channel and lock", 4, Deadlock, etcd_7443;
    "etcd#7902", "event and lock", 3, Deadlock, etcd_7902;
    "etcd#5509", "lock kept", 2, Deadlock, etcd_5509;
    "grpc#660", "leak", 3, Deadlock, grpc_660;
    "grpc#1353", "channel and lock", 3, Deadlock, grpc_1353;
    "grpc#1460", "notification and lock", 2, Deadlock, grpc_1460;
    "grpc#3017", "time, lock kept", 2, Deadlock, grpc_3017;
    "kubernetes#1321", "channel and lock", 2, Deadlock, kubernetes_1321;
    "kubernetes#11298", "lost notification", 3, Deadlock, kubernetes_11298;
    "kubernetes#62464", "lock read twice", 2, Deadlock, kubernetes_62464;
    "kubernetes#70277", "leak, time", 1, Livelock, kubernetes_70277;
    "moby#4951", "lock order", 2, Deadlock, moby_4951;
    "serving#2137", "semaphore and lock", 2, Deadlock, serving_2137;
    "istio#8967", "order", 2, Deadlock, istio_8967;
    "wronglock", "atomicity", 4, Panic, wronglock;
    "stringbuffer", "atomicity", 2, Panic, stringbuffer;
    "lazy01", "order", 3, Panic, lazy01;
    "account-update", "atomicity", 3, Panic, account_update;
    "account-audit", "atomicity", 3, Panic, account_audit;
    "carter01", "lock order", 4, Deadlock, carter01;
    "din_phil-5", "lock order", 5, Deadlock, din_phil<5>;
    "din_phil-6", "lock order", 6, Deadlock, din_phil<6>;
    "din_phil-7", "lock order", 7, Deadlock, din_phil<7>;
    "token_ring", "order", 4, Panic, token_ring;
    "queue", "atomicity", 3, Panic, queue;
}
