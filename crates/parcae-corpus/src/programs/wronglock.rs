//! `wronglock`: two locks for one datum.
//!
//! A counter is updated under the lock of the table by one task, and under the lock of the index
//! by the others. An update between the load and the store of another one is lost.
//!
//! Order that shows it: an update with the other lock comes between load and store.
//! Kind: atomicity. Tasks: 4.

use crate::atomic::{AtomicU32, Ordering::Relaxed};
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

#[derive(Default)]
struct Table {
    table: Mutex<()>,
    index: Mutex<()>,
    rows: AtomicU32,
}

impl Table {
    fn insert(&self, lock: &Mutex<()>) -> Result<()> {
        let _guard = lock.lock()?;
        let rows = self.rows.load(Relaxed);
        self.rows.store(rows + 1, Relaxed);
        Ok(())
    }
}

fn run(rt: &Runtime, lock_of_the_index: fn(&Table) -> &Mutex<()>) -> Result<()> {
    rt.run(|cx| {
        let table = Table::default();
        cx.nursery(|n| {
            n.spawn(|_| table.insert(&table.table))?;
            for _ in 0..3 {
                n.spawn(|_| table.insert(lock_of_the_index(&table)))?;
            }
            Ok(())
        })?;
        assert_eq!(table.rows.load(Relaxed), 4, "a row was lost");
        Ok(())
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, |table| &table.index)
}

/// One lock.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, |table| &table.table)
}
