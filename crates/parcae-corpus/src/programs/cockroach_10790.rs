//! `cockroach#10790`: a drainer that waits for senders which have left.
//!
//! A command waits for the commands before it. If it is cancelled during that wait, it starts a
//! task that waits for the rest of them in its place. But the earlier commands were cancelled too,
//! and left without a word.
//!
//! Order that shows it: the cancellation comes before the earlier commands are done. Kind: leak.
//! Tasks: 3, and the drainer.

use parcae::channel::{Receiver, Sender, channel};
use parcae::prelude::*;
use parcae::{Result, Runtime};

/// A command that others wait for.
struct Command {
    done: Sender<()>,
    finished: Receiver<()>,
}

impl Command {
    fn new() -> Command {
        let (done, finished) = channel(1);
        Command { done, finished }
    }

    fn execute_or_leave(&self, requests: &CancelToken) -> Result<()> {
        if requests.is_cancelled() {
            return Ok(()); // the commands that wait for this one are not told
        }
        Ok(self.done.send(())?)
    }

    fn execute_or_close(&self, requests: &CancelToken) -> Result<()> {
        if requests.is_cancelled() {
            self.done.close();
            return Ok(());
        }
        Ok(self.done.send(())?)
    }
}

type Execute = fn(&Command, &CancelToken) -> Result<()>;

fn run(rt: &Runtime, execute: Execute) -> Result<()> {
    rt.run(|cx| {
        let before = [Command::new(), Command::new()];
        let requests = CancelToken::new();
        cx.nursery(|n| {
            n.spawn(|_| before.iter().try_for_each(|command| execute(command, &requests)))?;
            n.spawn(|_| {
                for (at, command) in before.iter().enumerate() {
                    let cancelled = parcae::select! {
                        recv(command.finished) -> _ => false,
                        cancelled(requests) -> _ => true,
                    }?;
                    if cancelled {
                        let rest = &before[at..];
                        n.spawn(move |_| drain(rest))?;
                        break;
                    }
                }
                Ok(())
            })?;
            n.spawn(|_| {
                requests.cancel();
                Ok(())
            })?;
            Ok(())
        })
    })
}

fn drain(rest: &[Command]) -> Result<()> {
    for command in rest {
        match command.finished.recv() {
            Ok(()) => {}
            Err(error) if error.is_closed() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// With the bug.
pub fn buggy(rt: &Runtime) -> Result<()> {
    run(rt, Command::execute_or_leave)
}

/// A command that leaves closes its channel.
pub fn fixed(rt: &Runtime) -> Result<()> {
    run(rt, Command::execute_or_close)
}
