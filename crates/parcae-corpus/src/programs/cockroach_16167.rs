//! `cockroach#16167`: one `RwLock` that is known by two names, read twice.
//!
//! A session reads the system configuration for the length of a statement. The cache of databases,
//! which the statement asks, has the same configuration under a name of its own, and reads it
//! again. Gossip updates the configuration: its writer waits for the first read, and the second
//! read queues behind the writer.
//!
//! Order that shows it: the writer comes between the two reads. Kind: lock. Tasks: 2.

use parcae::sync::RwLock;
use parcae::{Result, Runtime};
use std::collections::BTreeMap;
use std::sync::Arc;

type Config = BTreeMap<&'static str, u64>;

struct Databases {
    config: Arc<RwLock<Config>>,
}

impl Databases {
    fn id_of(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.config.read()?.get(name).copied())
    }
}

struct Session {
    system: Arc<RwLock<Config>>,
    databases: Databases,
}

impl Session {
    fn query_with_two_reads(&self) -> Result<Option<u64>> {
        let system = self.system.read()?;
        if system.is_empty() {
            return Ok(None);
        }
        self.databases.id_of("users")
    }

    fn query_with_one_read(&self) -> Result<Option<u64>> {
        let system = self.system.read()?;
        Ok(system.get("users").copied())
    }
}

fn run(rt: &Runtime, query: fn(&Session) -> Result<Option<u64>>) -> Result<()> {
    rt.run(|cx| {
        let config = Arc::new(RwLock::new(Config::from([("users", 1)])));
        let databases = Databases { config: config.clone() };
        let session = Session { system: config.clone(), databases };
        cx.nursery(|n| {
            n.spawn(|_| query(&session))?;
            n.spawn(|_| Ok(config.write()?.insert("users", 2)))?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Session::query_with_two_reads)
}

/// The statement uses the configuration that it has read already.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Session::query_with_one_read)
}
