//! How a child is started.

use super::child::{Child, ChildStderr, ChildStdin, ChildStdout};
use crate::authority::Authority;
use crate::cost;
use crate::error::from_task;
use crate::pipe::{End, PipeReader, PipeWriter};
use crate::sim;
use crate::source::Charge;
use parcae::cap::CapExec;
use parcae::io::IoPlace;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{self, ExitStatus, Output};

/// The fate of a child whose [`Child`] is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDrop {
    /// It goes on, as in std; a thread reaps it when it ends.
    #[default]
    Leave,
    /// It is killed and reaped.
    Kill,
}

/// A standard stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stdio {
    /// That of this process.
    Inherit,
    /// Empty, or thrown away.
    Null,
    /// A pipe to this process: see [`Child`].
    Piped,
}

impl Stdio {
    fn real(self) -> process::Stdio {
        match self {
            Stdio::Inherit => process::Stdio::inherit(),
            Stdio::Null => process::Stdio::null(),
            Stdio::Piped => process::Stdio::piped(),
        }
    }
}

/// A program to be started, as `std::process::Command`.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::process::{Command, OnDrop, Stdio};
/// use std::io::{Read, Write};
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     let mut sort = Command::new("sort")
///         .stdin(Stdio::Piped)
///         .stdout(Stdio::Piped)
///         .on_drop(OnDrop::Kill) // if the task is cancelled
///         .spawn()?;
///     let mut input = sort.stdin.take().expect("it is piped");
///     input.write_all(b"b\na\n")?;
///     drop(input);
///     let mut sorted = String::new();
///     sort.stdout.take().expect("it is piped").read_to_string(&mut sorted)?;
///     assert_eq!(sorted, "a\nb\n");
///     assert!(sort.wait()?.success());
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug)]
pub struct Command {
    real: process::Command,
    program: OsString,
    arguments: Vec<OsString>,
    streams: [Option<Stdio>; 3],
    on_drop: OnDrop,
}

impl Command {
    /// A program, by its path or its name in `PATH`.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        let program = program.as_ref();
        Command {
            real: process::Command::new(program),
            program: program.into(),
            arguments: Vec::new(),
            streams: [None; 3],
            on_drop: OnDrop::default(),
        }
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, argument: S) -> &mut Command {
        self.real.arg(&argument);
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&mut self, all: I) -> &mut Command {
        for argument in all {
            self.arg(argument);
        }
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, value: V) -> &mut Command {
        self.real.env(key, value);
        self
    }

    /// Removes a variable from the child's environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.real.env_remove(key);
        self
    }

    /// Removes all variables from the child's environment.
    pub fn env_clear(&mut self) -> &mut Command {
        self.real.env_clear();
        self
    }

    /// The directory in which the child starts.
    pub fn current_dir<P: AsRef<Path>>(&mut self, path: P) -> &mut Command {
        self.real.current_dir(path);
        self
    }

    /// The child's standard input. At first inherited; empty for [`output`](Command::output).
    pub fn stdin(&mut self, stdio: Stdio) -> &mut Command {
        self.streams[0] = Some(stdio);
        self
    }

    /// The child's standard output. At first inherited; piped for [`output`](Command::output).
    pub fn stdout(&mut self, stdio: Stdio) -> &mut Command {
        self.streams[1] = Some(stdio);
        self
    }

    /// The child's standard error output. As for [`stdout`](Command::stdout).
    pub fn stderr(&mut self, stdio: Stdio) -> &mut Command {
        self.streams[2] = Some(stdio);
        self
    }

    /// The fate of the child if its [`Child`] is dropped.
    pub fn on_drop(&mut self, fate: OnDrop) -> &mut Command {
        self.on_drop = fate;
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    ///
    /// If there is no such program, or the kernel refuses; if the task is cancelled.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(&Authority::implicit()?, [Stdio::Inherit; 3])
    }

    /// As [`spawn`](Command::spawn), under a capability: the form of the sovereign profile. The
    /// program is named by its absolute path, as in the capability's set.
    ///
    /// ```
    /// use parcae::cap::{Delegation, ExecLimits, ProgramSet};
    /// use parcae::prelude::*;
    /// use parcae::profile::Sovereign;
    /// use parcae_io::process::Command;
    /// use std::io::ErrorKind;
    ///
    /// let rt = Runtime::builder().profile::<Sovereign>().build()?;
    /// let limits = ExecLimits { programs: ProgramSet::of(["/bin/true"]), max_children: 2 };
    /// let cap = rt.cap_exec(limits, Delegation::Forbidden);
    /// rt.run(|_| {
    ///     assert!(Command::new("/bin/true").spawn_under(&cap)?.wait()?.success());
    ///     let error = Command::new("/bin/sh").spawn_under(&cap).unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    ///     assert!(Command::new("/bin/true").spawn().is_err()); // no capability is shown
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Command::spawn); `PermissionDenied` for another program, and for a variable
    /// `LD_…` of the environment, which would make the loader run other code.
    pub fn spawn_under(&mut self, cap: &CapExec) -> io::Result<Child> {
        self.spawn_with(&Authority::shown(cap)?, [Stdio::Inherit; 3])
    }

    /// As [`output`](Command::output), under a capability: see
    /// [`spawn_under`](Command::spawn_under).
    ///
    /// # Errors
    ///
    /// As for [`spawn_under`](Command::spawn_under) and [`Child::wait_with_output`].
    pub fn output_under(&mut self, cap: &CapExec) -> io::Result<Output> {
        let streams = [Stdio::Null, Stdio::Piped, Stdio::Piped];
        self.spawn_with(&Authority::shown(cap)?, streams)?.wait_with_output()
    }

    /// Starts the program and waits for its end.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Command::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// As [`status`](Command::status), under a capability: see
    /// [`spawn_under`](Command::spawn_under).
    ///
    /// # Errors
    ///
    /// As for [`spawn_under`](Command::spawn_under) and [`Child::wait`].
    pub fn status_under(&mut self, cap: &CapExec) -> io::Result<ExitStatus> {
        self.spawn_under(cap)?.wait()
    }

    /// Starts the program, waits for its end and returns its outputs.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        let streams = [Stdio::Null, Stdio::Piped, Stdio::Piped];
        self.spawn_with(&Authority::implicit()?, streams)?.wait_with_output()
    }

    fn spawn_with(
        &mut self,
        authority: &Authority<'_, CapExec>,
        otherwise: [Stdio; 3],
    ) -> io::Result<Child> {
        if authority.cap().is_some() && self.changes_the_loader() {
            let text = "a variable `LD_…` would make the loader run other code than the program; \
                        a limited authority does not allow it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let permit = authority.admit(|cap| cap.admit(Path::new(&self.program)))?;
        let chosen = |at: usize| self.streams[at].unwrap_or(otherwise[at]);
        let streams = [chosen(0), chosen(1), chosen(2)];
        let charge = Charge::new(cost::PROCESS)?;
        if parcae::io::place() == IoPlace::Simulated {
            charge.keep(); // also if there is no such program
            let child = sim::start(&self.program, &self.arguments, streams[0] == Stdio::Piped)?;
            let piped = |at: usize| streams[at] == Stdio::Piped;
            let end = |which| End::Script(child.end(which));
            let stdin = piped(0).then(|| ChildStdin(PipeWriter(end(0))));
            let stdout = piped(1).then(|| ChildStdout(PipeReader(end(1))));
            let stderr = piped(2).then(|| ChildStderr(PipeReader(end(2))));
            let child = Child::simulated(child, self.on_drop, stdin, stdout, stderr);
            return Ok(child.counted(permit));
        }
        self.real.stdin(streams[0].real()).stdout(streams[1].real()).stderr(streams[2].real());
        let real = &mut self.real;
        let child = parcae::io::blocking(|| real.spawn()).map_err(from_task)?;
        charge.keep();
        Ok(Child::real(child?, self.on_drop)?.counted(permit))
    }

    fn changes_the_loader(&self) -> bool {
        let is_loaders = |key: &OsStr| key.as_encoded_bytes().starts_with(b"LD_");
        self.real.get_envs().any(|(key, value)| value.is_some() && is_loaders(key))
    }
}
