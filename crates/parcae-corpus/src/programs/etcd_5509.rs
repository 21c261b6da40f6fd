//! `etcd#5509`: a failure path keeps a read lock, and closing waits for ever.
//!
//! A call holds a read lock on the connection. The error of a failed call carries the guard along,
//! and the caller keeps its errors until the client is closed. Closing takes the write lock.
//!
//! Order that shows it: any in which a call is made before the close. Kind: lock. Tasks: 2.

use parcae::channel::{Sender, channel};
use parcae::sync::{ReadGuard, RwLock};
use parcae::{Result, Runtime};

struct Client {
    /// Whether the connection is open.
    open: RwLock<bool>,
    remote: Sender<u32>,
}

/// A call that can be repeated.
struct Failed<'c> {
    request: u32,
    /// The connection that it failed on.
    open: Option<ReadGuard<'c, bool>>,
}

impl Client {
    fn call_and_keep_the_lock(&self, request: u32) -> Result<Option<Failed<'_>>> {
        let open = self.open.read()?;
        if *open && self.remote.try_send(request).is_err() {
            return Ok(Some(Failed { request, open: Some(open) }));
        }
        Ok(None)
    }

    fn call_and_unlock(&self, request: u32) -> Result<Option<Failed<'_>>> {
        let open = self.open.read()?;
        if *open && self.remote.try_send(request).is_err() {
            return Ok(Some(Failed { request, open: None }));
        }
        Ok(None)
    }
}

type Call = fn(&Client, u32) -> Result<Option<Failed<'_>>>;

fn run(rt: &Runtime, call: Call) -> Result<()> {
    rt.run(|cx| {
        let (remote, broken) = channel(1);
        drop(broken); // every call fails
        let client = Client { open: RwLock::new(true), remote };
        let (closed, until_closed) = channel(1);
        cx.nursery(|n| {
            n.spawn(|_| {
                let failed = call(&client, 7)?;
                until_closed.recv()?;
                let Some(failed) = failed else { return Ok(()) };
                assert_eq!((failed.request, failed.open.is_some()), (7, false));
                Ok(())
            })?;
            n.spawn(|_| {
                *client.open.write()? = false;
                Ok(closed.send(())?)
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Client::call_and_keep_the_lock)
}

/// The error does not hold the connection.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Client::call_and_unlock)
}
