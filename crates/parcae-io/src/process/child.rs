//! A child process that was started.

use super::OnDrop;
use crate::error::from_task;
use crate::pipe::{End, PipeReader, PipeWriter};
use crate::sim;
use crate::source::ready::Direction;
use crate::source::{Attempt, Limit, Operation, Source};
use crate::sys;
use parcae::cap::ChildPermit;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ExitStatus, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pipe to a child's standard input. Dropping it ends the input.
#[derive(Debug)]
pub struct ChildStdin(pub(super) PipeWriter);

/// The pipe from a child's standard output.
#[derive(Debug)]
pub struct ChildStdout(pub(super) PipeReader);

/// The pipe from a child's standard error output.
#[derive(Debug)]
pub struct ChildStderr(pub(super) PipeReader);

impl Write for ChildStdin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back here
    }
}

impl Read for ChildStdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Read for ChildStderr {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// A child process, as `std::process::Child`: see [`Command::spawn`](super::Command::spawn).
#[derive(Debug)]
pub struct Child {
    process: Process,
    on_drop: OnDrop,
    /// The pipe to its input, if it was asked for.
    pub stdin: Option<ChildStdin>,
    /// The pipe from its output, if it was asked for.
    pub stdout: Option<ChildStdout>,
    /// The pipe from its error output, if it was asked for.
    pub stderr: Option<ChildStderr>,
    permit: Option<ChildPermit>,
}

#[derive(Debug)]
enum Process {
    Os { source: Source<Pidfd>, id: u32 },
    Sim(sim::SimChild),
}

/// The descriptor of a child, and the child.
struct Pidfd {
    fd: OwnedFd,
    child: Mutex<std::process::Child>,
}

impl Pidfd {
    fn child(&self) -> MutexGuard<'_, std::process::Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Pidfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pidfd").field(&self.fd).finish()
    }
}

/// A child, for observers.
struct Named(u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

impl Child {
    pub(super) fn real(mut child: std::process::Child, on_drop: OnDrop) -> io::Result<Child> {
        let id = child.id();
        // Not reaped: the number is the child's, whether or not it has ended.
        let opened = sys::pidfd_open(id);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) => {
                let _ = child.kill(); // it could not be waited for
                let _ = child.wait();
                return Err(error);
            }
        };
        let source = Source::new(Pidfd { fd, child: Mutex::new(child) });
        let reader = |fd| End::own(fd).map(PipeReader);
        Ok(Child {
            process: Process::Os { source, id },
            on_drop,
            stdin: stdin
                .map(|pipe| End::own(pipe.into()))
                .transpose()?
                .map(PipeWriter)
                .map(ChildStdin),
            stdout: stdout.map(|pipe| reader(pipe.into())).transpose()?.map(ChildStdout),
            stderr: stderr.map(|pipe| reader(pipe.into())).transpose()?.map(ChildStderr),
            permit: None,
        })
    }

    pub(super) fn simulated(
        child: sim::SimChild,
        on_drop: OnDrop,
        stdin: Option<ChildStdin>,
        stdout: Option<ChildStdout>,
        stderr: Option<ChildStderr>,
    ) -> Child {
        Child { process: Process::Sim(child), on_drop, stdin, stdout, stderr, permit: None }
    }

    /// Counted under a capability.
    pub(super) fn counted(mut self, permit: Option<ChildPermit>) -> Child {
        self.permit = permit;
        self
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        match &self.process {
            Process::Os { id, .. } => *id,
            Process::Sim(child) => child.id(),
        }
    }

    /// Ends the input of the child, and waits for its end. A cancel point; the child goes on then.
    /// Once it has ended, every call returns the same status.
    ///
    /// # Errors
    ///
    /// If the task is cancelled.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.wait_for_end()
    }

    fn wait_for_end(&self) -> io::Result<ExitStatus> {
        let named = Named(self.id());
        let operation = Operation {
            direction: Direction::Read,
            cost: 1,
            limit: Limit::Endless,
            what: "waiting for",
            object: &named,
        };
        match &self.process {
            Process::Os { source, .. } => source.operate(operation, |pidfd| {
                let status = pidfd.child().try_wait()?;
                status.map(Attempt::Full).ok_or_else(|| io::ErrorKind::WouldBlock.into())
            }),
            Process::Sim(child) => child.wait(operation),
        }
    }

    /// The status of a child that has ended. Does not wait.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &self.process {
            Process::Os { source, .. } => source.get().child().try_wait(),
            Process::Sim(child) => Ok(child.status()),
        }
    }

    /// Kills the child by SIGKILL. It still has to be waited for. No error if it has ended.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        match &self.process {
            Process::Os { source, .. } => source.get().child().kill(),
            Process::Sim(child) => {
                child.kill();
                Ok(())
            }
        }
    }

    /// Ends the input of the child, reads both outputs to their ends, and waits for its end.
    ///
    /// # Errors
    ///
    /// If the task is cancelled: then the outputs that were read so far are lost.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        match (self.stdout.take(), self.stderr.take()) {
            (Some(one), Some(two)) => read_both([&one.0, &two.0], [&mut stdout, &mut stderr])?,
            (Some(mut one), None) => drop(one.read_to_end(&mut stdout)?),
            (None, Some(mut two)) => drop(two.read_to_end(&mut stderr)?),
            (None, None) => {}
        }
        Ok(Output { status: self.wait_for_end()?, stdout, stderr })
    }
}

/// Reads two pipes to their ends at the same time: a child that fills one of them would wait for
/// ever if the other one were read first.
fn read_both(pipes: [&PipeReader; 2], into: [&mut Vec<u8>; 2]) -> io::Result<()> {
    let ends = pipes.map(|pipe| &pipe.0);
    let [End::Os(one), End::Os(two)] = ends else {
        // The outputs of a scripted child do not depend on each other.
        for (pipe, into) in pipes.into_iter().zip(into) {
            let mut pipe = pipe;
            pipe.read_to_end(into)?;
        }
        return Ok(());
    };
    if parcae::io::place() != parcae::io::IoPlace::Task {
        let [first, second] = into;
        let [mut one, mut two] = pipes;
        return std::thread::scope(|s| {
            let other = s.spawn(move || two.read_to_end(second));
            one.read_to_end(first)?;
            other.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)).map(drop)
        });
    }
    let mut buffer = vec![0; 16 << 10];
    let mut open = [true; 2];
    loop {
        let (mut places, mut progress) = (Vec::new(), false);
        for (at, source) in [one, two].into_iter().enumerate() {
            if !open[at] {
                continue;
            }
            let mut count = 0;
            let place = source.try_or_publish(Direction::Read, |io| {
                count = sys::read(io.as_fd(), &mut buffer)?;
                Ok(())
            })?;
            match place {
                Some(place) => places.push(place),
                None => {
                    open[at] = count > 0;
                    into[at].extend_from_slice(&buffer[..count]);
                    progress = true;
                }
            }
        }
        if open == [false; 2] {
            return Ok(());
        }
        if progress {
            drop(places);
            parcae::io::charge(1).map_err(from_task)?; // a checkpoint
        } else {
            parcae::io::wait(None, "reading from", &"two pipes").map_err(from_task)?;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        match &self.process {
            Process::Os { source, .. } => {
                let mut child = source.get().child();
                if let Ok(None) = child.try_wait() {
                    if self.on_drop == OnDrop::Kill {
                        let _ = child.kill();
                        let _ = child.wait(); // at once: it was killed
                    } else if let Ok(fd) = source.get().fd.try_clone() {
                        reap_later(fd);
                    }
                }
            }
            Process::Sim(child) if self.on_drop == OnDrop::Kill => child.kill(),
            Process::Sim(_) => {}
        }
    }
}

/// Reaps a child that was left, so that it does not stay a zombie.
fn reap_later(pidfd: OwnedFd) {
    // Without a thread it stays one until this process ends, as in std.
    let _ = std::thread::Builder::new()
        .name("parcae-reaper".into())
        .stack_size(64 << 10)
        .spawn(move || sys::reap(pidfd.as_fd()));
}
