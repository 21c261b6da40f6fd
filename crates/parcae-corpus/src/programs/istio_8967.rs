//! `istio#8967`: a stop that clears the field which the loop reads next.
//!
//! A source of files has a channel that is closed to stop it. Its loop looks the channel up in a
//! field for every event. Stopping closes the channel and empties the field: a loop that comes
//! to the field after that has no channel, and waits for events alone.
//!
//! Order that shows it: the stop comes while the loop handles an event. Kind: order. Tasks: 2.

use parcae::channel::{Receiver, Sender, channel};
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Source {
    events: Receiver<u32>,
    /// Both ends, while the source runs.
    running: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Source {
    fn stop(&self) -> Result<()> {
        if let Some((done, _)) = self.running.lock()?.take() {
            done.close();
        }
        Ok(())
    }

    fn done(&self) -> Result<Option<Receiver<()>>> {
        Ok(self.running.lock()?.as_ref().map(|(_, done)| done.clone()))
    }

    fn watch_and_look_up(&self) -> Result<()> {
        let mut seen = 0;
        loop {
            seen += match self.done()? {
                Some(done) => parcae::select! {
                    recv(self.events) -> event => event?,
                    recv(done) -> _ => break,
                }?,
                None => self.events.recv()?,
            };
        }
        assert!(seen <= 3);
        Ok(())
    }

    fn watch_and_remember(&self) -> Result<()> {
        let mut seen = 0;
        if let Some(done) = self.done()? {
            loop {
                seen += parcae::select! {
                    recv(self.events) -> event => event?,
                    recv(done) -> _ => break,
                }?;
            }
        }
        assert!(seen <= 3);
        Ok(())
    }
}

fn run(rt: &Runtime, watch: fn(&Source) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (write, events) = channel(4);
        let source = Source { events, running: Mutex::new(Some(channel(0))) };
        write.send_all([1, 2])?;
        cx.nursery(|n| {
            n.spawn(|_| watch(&source))?;
            n.spawn(|_| source.stop())?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Source::watch_and_look_up)
}

/// The loop reads the field once.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Source::watch_and_remember)
}
