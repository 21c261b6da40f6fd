//! `grpc#1460`: a keeper waits to be woken with the lock that its waker needs.
//!
//! A transport without streams need not send pings: the keeper sleeps until there is a stream. It
//! looks at the streams under the transport's lock, and sleeps with it. A new stream takes the
//! lock.
//!
//! Order that shows it: the keeper looks before the first stream is added. Kind: lock and
//! notification. Tasks: 2.

use parcae::sync::{Mutex, Notify};
use parcae::{Result, Runtime};

#[derive(Default)]
struct Transport {
    streams: Mutex<u32>,
    awaken: Notify,
}

impl Transport {
    fn add_stream(&self) -> Result<()> {
        let mut streams = self.streams.lock()?;
        *streams += 1;
        self.awaken.notify_one();
        Ok(())
    }

    fn sleep_with_the_lock(&self) -> Result<()> {
        let streams = self.streams.lock()?;
        if *streams == 0 {
            self.awaken.wait()?;
        }
        Ok(())
    }

    fn sleep_without_the_lock(&self) -> Result<()> {
        let idle = *self.streams.lock()? == 0;
        if idle {
            self.awaken.wait()?;
        }
        assert_eq!(*self.streams.lock()?, 1);
        Ok(())
    }
}

fn run(rt: &Runtime, keep: fn(&Transport) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let transport = Transport::default();
        cx.nursery(|n| {
            n.spawn(|_| transport.add_stream())?;
            n.spawn(|_| keep(&transport))?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Transport::sleep_with_the_lock)
}

/// The keeper unlocks before it sleeps. The notification is kept for it.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Transport::sleep_without_the_lock)
}
