//! `kubernetes#62464`: a method that holds a read lock calls another that reads again.
//!
//! The state of a CPU manager has an accessor with a default, which calls the accessor without
//! one. Both read the lock. A writer that comes in between waits for the first read and stops the
//! second.
//!
//! Order that shows it: the writer comes between the two reads. Kind: lock. Tasks: 2.

use parcae::sync::RwLock;
use parcae::{Result, Runtime};
use std::collections::BTreeMap;

type Sets = BTreeMap<&'static str, u64>;

#[derive(Default)]
struct Assignments {
    sets: RwLock<Sets>,
}

impl Assignments {
    fn set_of(&self, container: &str) -> Result<Option<u64>> {
        Ok(self.sets.read()?.get(container).copied())
    }

    fn set_or_default_by_accessor(&self, container: &str) -> Result<u64> {
        let sets = self.sets.read()?;
        match self.set_of(container)? {
            Some(set) => Ok(set),
            None => Ok(sets.get("default").copied().unwrap_or(!0)),
        }
    }

    fn set_or_default(&self, container: &str) -> Result<u64> {
        let sets = self.sets.read()?;
        Ok(sets.get(container).or_else(|| sets.get("default")).copied().unwrap_or(!0))
    }
}

fn run(rt: &Runtime, find: fn(&Assignments, &str) -> Result<u64>) -> Result<()> {
    rt.run(|cx| {
        let assignments = Assignments::default();
        cx.nursery(|n| {
            n.spawn(|_| find(&assignments, "web"))?;
            n.spawn(|_| Ok(assignments.sets.write()?.insert("default", 0b1100)))?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Assignments::set_or_default_by_accessor)
}

/// One read lock for both lookups.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Assignments::set_or_default)
}
