//! `cockroach#9935`: an error path locks again what its caller has locked.
//!
//! A line is written to the log under the log's lock. If the disk fails, the function that reports
//! the failure takes the lock too, to mark the log as broken.
//!
//! Order that shows it: the disk goes away before the last line is written. Kind: double lock.
//! Tasks: 2 (the task that takes the disk away stands for the fault).

use parcae::channel::{Receiver, Sender, channel};
use parcae::sync::Mutex;
use parcae::{Result, Runtime};

struct Log {
    /// Whether the log is broken.
    state: Mutex<bool>,
    disk: Sender<u32>,
}

impl Log {
    fn write_and_report_inside(&self, line: u32) -> Result<()> {
        let broken = self.state.lock()?;
        if !*broken && self.disk.try_send(line).is_err() {
            self.give_up()?; // locks again
        }
        Ok(())
    }

    fn write_and_report_outside(&self, line: u32) -> Result<()> {
        let broken = self.state.lock()?;
        let failed = !*broken && self.disk.try_send(line).is_err();
        drop(broken);
        if failed { self.give_up() } else { Ok(()) }
    }

    fn give_up(&self) -> Result<()> {
        *self.state.lock()? = true;
        Ok(())
    }
}

fn run(rt: &Runtime, write: fn(&Log, u32) -> Result<()>) -> Result<()> {
    rt.run(|cx| {
        let (disk, pulled): (_, Receiver<u32>) = channel(16);
        let log = Log { state: Mutex::new(false), disk };
        cx.nursery(|n| {
            n.spawn(|_| (0..4).try_for_each(|line| write(&log, line)))?;
            n.spawn(|_| {
                pulled.close();
                Ok(())
            })?;
            Ok(())
        })
    })
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Log::write_and_report_inside)
}

/// The failure is reported after unlocking.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Log::write_and_report_outside)
}
