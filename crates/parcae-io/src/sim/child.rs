//! Scripted children of the simulated world.
//!
//! A program is a function from arguments and input to outputs and a status. It is called when its
//! input is complete: at once if it has none, otherwise when the pipe to it is closed. Its outputs
//! and its end come after the time that it says. A child that is killed before that has no output.

use super::World;
use super::drive::{Stop, WaitList, operate};
use crate::source::Operation;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The call of a scripted program.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProgramCall {
    /// The arguments, without the name of the program.
    pub args: Vec<OsString>,
    /// Everything that was written to its input.
    pub input: Vec<u8>,
}

/// The end of a scripted program.
#[derive(Debug, Clone, Default)]
pub struct ProgramEnd {
    /// The exit code; 0 is success.
    pub code: u8,
    /// Everything that it writes to its output.
    pub stdout: Vec<u8>,
    /// Everything that it writes to its error output.
    pub stderr: Vec<u8>,
    /// The time that it takes.
    pub after: Duration,
}

pub(super) type Program = Arc<dyn Fn(&ProgramCall) -> ProgramEnd + Send + Sync>;

/// Makes a program known to [`process::Command`](crate::process::Command) in this runtime.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::process::Command;
/// use parcae_io::sim::{self, ProgramEnd};
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|_| {
///     sim::set_program("backup", |call| ProgramEnd {
///         code: if call.args.is_empty() { 2 } else { 0 },
///         after: std::time::Duration::from_secs(3600), // of virtual time
///         ..ProgramEnd::default()
///     })?;
///     assert!(Command::new("backup").arg("/home").status()?.success());
///     assert_eq!(Command::new("backup").status()?.code(), Some(2));
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// Outside of deterministic runtimes.
pub fn set_program<F>(name: &str, program: F) -> io::Result<()>
where
    F: Fn(&ProgramCall) -> ProgramEnd + Send + Sync + 'static,
{
    World::here()?.net().programs.insert(name.into(), Arc::new(program));
    Ok(())
}

/// A scripted child.
#[derive(Debug, Clone)]
pub(crate) struct SimChild(Arc<Script>);

struct Script {
    id: u32,
    program: Program,
    state: Mutex<ScriptState>,
    changed: WaitList,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("id", &self.id).finish_non_exhaustive()
    }
}

struct ScriptState {
    call: ProgramCall,
    /// Its end, and when it comes; none while its input is open.
    end: Option<(ProgramEnd, Instant)>,
    killed: bool,
    /// Bytes of the outputs that were read.
    read: [usize; 2],
}

/// An end of a pipe to or from a scripted child: 0 is its input, 1 and 2 are its outputs.
#[derive(Debug)]
pub(crate) struct ScriptEnd {
    child: SimChild,
    which: usize,
}

/// Starts a program.
pub(crate) fn start(program: &OsStr, args: &[OsString], has_input: bool) -> io::Result<SimChild> {
    let world = World::here()?;
    let mut net = world.net();
    let name = program.to_string_lossy();
    let Some(found) = net.programs.get(name.as_ref()).cloned() else {
        let text = format!("no program `{name}` in the simulated world: see `sim::set_program`");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    };
    net.processes += 1;
    let id = net.processes;
    drop(net);
    let call = ProgramCall { args: args.to_vec(), input: Vec::new() };
    let state = ScriptState { call, end: None, killed: false, read: [0; 2] };
    let (state, changed) = (Mutex::new(state), WaitList::default());
    let child = SimChild(Arc::new(Script { id, program: found, state, changed }));
    if !has_input {
        child.begin();
    }
    Ok(child)
}

impl SimChild {
    pub(crate) fn id(&self) -> u32 {
        self.0.id
    }

    pub(crate) fn end(&self, which: usize) -> ScriptEnd {
        ScriptEnd { child: self.clone(), which }
    }

    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input is complete: calls the program.
    fn begin(&self) {
        let call = self.lock().call.clone();
        let end = (self.0.program)(&call);
        let due = parcae::time::now() + end.after;
        self.lock().end.get_or_insert((end, due));
        self.0.changed.wake();
    }

    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        let has_ended = state.end.as_ref().is_some_and(|(_, due)| *due <= parcae::time::now());
        state.killed |= !has_ended;
        drop(state);
        self.0.changed.wake();
    }

    pub(crate) fn status(&self) -> Option<ExitStatus> {
        let state = self.lock();
        if state.killed {
            return Some(ExitStatus::from_raw(libc::SIGKILL));
        }
        let (end, due) = state.end.as_ref()?;
        (*due <= parcae::time::now()).then(|| ExitStatus::from_raw(i32::from(end.code) << 8))
    }

    pub(crate) fn wait(&self, operation: Operation<'_>) -> io::Result<ExitStatus> {
        operate(operation, &self.0.changed, || {
            let due = self.lock().end.as_ref().map(|(_, due)| *due);
            self.status().ok_or(Stop::Wait(due))
        })
    }
}

impl ScriptEnd {
    pub(crate) fn read(&self, operation: Operation<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        operate(operation, &self.child.0.changed, || {
            let mut state = self.child.lock();
            if state.killed {
                return Ok(0);
            }
            let Some((end, due)) = &state.end else { return Err(Stop::Wait(None)) };
            if *due > parcae::time::now() {
                return Err(Stop::Wait(Some(*due)));
            }
            let bytes = if self.which == 1 { &end.stdout } else { &end.stderr };
            let from = state.read[self.which - 1];
            let count = (bytes.len() - from).min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[from..from + count]);
            state.read[self.which - 1] += count;
            Ok(count)
        })
    }

    pub(crate) fn write(&self, operation: Operation<'_>, bytes: &[u8]) -> io::Result<usize> {
        operate(operation, &self.child.0.changed, || {
            let mut state = self.child.lock();
            if state.killed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            state.call.input.extend_from_slice(bytes);
            Ok(bytes.len())
        })
    }
}

impl Drop for ScriptEnd {
    fn drop(&mut self) {
        if self.which == 0 {
            self.child.begin();
        }
    }
}
