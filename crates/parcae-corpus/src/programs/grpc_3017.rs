//! `grpc#3017`: a timer that lost against its cancellation returns without putting the lock back.
//!
//! A connection that is no longer used is deleted after a while, unless it is used again before.
//! Users and the timer check the connection out of the cache and put it back. A reuse that finds
//! the timer already running tells it to abort; the timer then returns at once, and keeps the
//! connection.
//!
//! Order that shows it: the reuse and the timer fall on the same moment, and the reuse is first.
//! Kind: time, lock. Tasks: 2.

use parcae::prelude::*;
use parcae::sync::{Condvar, Mutex};
use parcae::{Result, Runtime};
use std::time::Duration;

const UNUSED_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Connection {
    /// Set by a reuse that was too late to stop the timer.
    abort_deletion: bool,
    deleted: bool,
}

struct Cache {
    /// Empty while the connection is checked out.
    slot: Mutex<Option<Connection>>,
    put_back: Condvar,
}

impl Cache {
    fn check_out(&self) -> Result<Connection> {
        let mut slot = self.put_back.wait_while(self.slot.lock()?, |slot| slot.is_none())?;
        Ok(slot.take().expect("there is a connection, or the wait would go on"))
    }

    fn put_back(&self, connection: Connection) -> Result<()> {
        *self.slot.lock()? = Some(connection);
        self.put_back.notify_one();
        Ok(())
    }

    fn delete_or_keep(&self) -> Result<()> {
        let mut connection = self.check_out()?;
        if connection.abort_deletion {
            return Ok(()); // the connection is not put back
        }
        connection.deleted = true;
        self.put_back(connection)
    }

    fn delete_or_put_back(&self) -> Result<()> {
        let mut connection = self.check_out()?;
        connection.deleted = !connection.abort_deletion;
        self.put_back(connection)
    }

    fn reuse(&self) -> Result<()> {
        let mut connection = self.check_out()?;
        connection.abort_deletion = !connection.deleted;
        self.put_back(connection)
    }
}

fn run(rt: &Runtime, delete: fn(&Cache) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let slot = Mutex::new(Some(Connection::default()));
        let cache = Cache { slot, put_back: Condvar::new() };
        cx.nursery(|n| {
            n.spawn(|cx: &Cx| {
                cx.sleep(UNUSED_FOR)?;
                delete(&cache)
            })?;
            n.spawn(|cx: &Cx| {
                cx.sleep(UNUSED_FOR)?;
                cache.reuse()?;
                cx.sleep(UNUSED_FOR)?;
                cache.reuse()
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Cache::delete_or_keep)
}

/// Every path puts the connection back.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Cache::delete_or_put_back)
}
