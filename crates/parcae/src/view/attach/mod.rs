//! Inspection by other processes: a Unix socket that a program opens on purpose.
//!
//! ```no_run
//! use parcae::attach::AttachOpts;
//! use parcae::prelude::*;
//!
//! let rt = Runtime::builder().build()?;
//! let _attached = rt.attach(AttachOpts::new())?; // `parcae top` finds it
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! It gives access to [`dump`](crate::Runtime::dump) and [`stats`](crate::Runtime::stats). It
//! changes nothing unless the program allows it: [`AttachOpts::allow_cancel`], and
//! [`AttachOpts::allow_recharge`], which takes a capability and cannot grant more than that has,
//! and [`AttachOpts::allow_policy`], which opens the desk of the operator.
//! The socket belongs to the user who runs the program, and to no other user (mode 0600).
//!
//! # The protocol
//!
//! A request is a line of words, an answer is a line of JSON. Requests on one connection are
//! answered in turn.
//!
//! | request | answer |
//! |---|---|
//! | `hello` | `{"parcae":"0.1.0","pid":1,"program":"…","workers":2,"may":["cancel","recharge"]}` |
//! | `dump` | as [`Dump::to_json`](crate::inspect::Dump::to_json); `dump full` has whole stacks |
//! | `tasks` | the same without `frames`, which take longest: for periodic requests |
//! | `task TASK` | one of the tasks of `dump`, by its `id` or its `label` |
//! | `text` | `{"text":"…"}`: the dump as people read it; `text full` has whole stacks |
//! | `stats` | `{"live":3,"workers":[{"executed":9,…}]}` |
//! | `deadlock` | `{"deadlock":null}`, or as [`Deadlock::to_json`](crate::inspect::Deadlock::to_json) in its place |
//! | `cancel TASK` | `{"ok":true}` |
//! | `recharge NURSERY ops=100 memory=4096 …` | `{"ok":true}` |
//! | `trace start events=N` | `{"ok":true}`: each worker keeps its last N events, see [`trace`](crate::trace) |
//! | `trace stop` | `{"bytes":N,"lost":N}`, and after that line so many bytes, as [`Trace::write_chrome`](crate::trace::Trace::write_chrome) |
//! | `policy show`, `policy explain TENANT`, `policy history` | the [policy](crate::policy) in force, as JSON |
//! | `policy set weight=512 latency=batch -- TENANT`, `policy unset TENANT`, `policy fallback`, `policy lift` | `{"ok":true}` |
//! | `policy load N`, `policy check N`, and after that line N bytes: a record of rules | `{"ok":true}`; `check` changes nothing |
//! | `policy serve -- NAME`, `policy serve epoch=N -- NAME` | `{"ok":true}`: this connection has the seat of the policy service |
//! | `policy view` | `{"bytes":N}`, and after that line a record of the [view](crate::policy::PolicyView) |
//! | `policy decide N`, and after that line N bytes: a record of the [decision](crate::policy::PolicyDecision); `policy alive EPOCH` | `{"ok":true}` |
//! | any other request, or one that is not allowed | `{"error":"…"}` |
//!
//! # Ownership
//!
//! One thread listens, and each of up to [`CONNECTIONS`] connections has its own thread. They hold
//! the scheduler weakly, so they do not keep a runtime alive; without a runtime, answers are
//! errors. Dropping [`Attached`] wakes the listener through a pipe, shuts the connections down, and
//! joins their threads: no request runs after it. A client that does not read is cut off after five
//! seconds. `Bound` owns the socket's file, and removes no other.

mod policy;
mod recording;
mod requests;
mod socket;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sched::Shared;
use crate::scope::cap::CapBudget;
use crate::view::policy::PolicyDesk;
use policy::PolicyAccess;
use requests::{ClientState, Server};
use socket::Bound;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Limit of connections at a time; another one is refused.
pub const CONNECTIONS: usize = 8;
/// Time that a client has to read an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause of the listener after it could not accept a connection.
const RETRY: Duration = Duration::from_millis(50);
/// The longest request.
const LONGEST: u64 = 4096;

/// Options of the socket: its path, and the allowed requests.
#[derive(Debug, Default)]
#[must_use]
pub struct AttachOpts {
    path: Option<PathBuf>,
    cancel: bool,
    recharge: Option<CapBudget>,
    policy: PolicyAccess,
}

impl AttachOpts {
    /// Inspection only, in the [default directory](default_dir).
    pub fn new() -> AttachOpts {
        AttachOpts::default()
    }

    /// Another path for the socket.
    pub fn path(mut self, path: impl Into<PathBuf>) -> AttachOpts {
        self.path = Some(path.into());
        self
    }

    /// Allows clients to cancel tasks.
    pub fn allow_cancel(mut self) -> AttachOpts {
        self.cancel = true;
        self
    }

    /// Allows clients to read and change the policy, as its operator, and to take the seat of its
    /// service: `parcae policy`, [`RemoteSeat`](crate::policy::RemoteSeat).
    pub fn allow_policy(mut self, policy: &PolicyDesk) -> AttachOpts {
        self.policy = PolicyAccess::to(policy.desk());
        self
    }

    /// Allows clients to recharge nurseries, within the limits of the capability.
    pub fn allow_recharge(mut self, cap: CapBudget) -> AttachOpts {
        self.recharge = Some(cap);
        self
    }
}

/// The default directory of sockets: `$XDG_RUNTIME_DIR/parcae`, or `parcae-UID` among the temporary
/// files. A socket is named by the id of its process, and the number of the runtime in it.
pub fn default_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("parcae"),
        // SAFETY: has no preconditions.
        _ => std::env::temp_dir().join(format!("parcae-{}", unsafe { libc::getuid() })),
    }
}

/// An open socket; removed when this is dropped.
pub struct Attached {
    /// Dropped last: its file is removed when the socket is no longer served.
    bound: Bound,
    /// Dropping it ends the listener.
    stop: Option<UnixStream>,
    listener: Option<JoinHandle<()>>,
}

impl Attached {
    /// Path of the socket.
    pub fn path(&self) -> &Path {
        self.bound.path()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(listener) = self.listener.take() {
            let _ = listener.join(); // a panic there was reported already
        }
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Opens the socket; see [`Runtime::attach`](crate::Runtime::attach).
pub(crate) fn open(shared: Weak<Shared>, opts: AttachOpts) -> io::Result<Attached> {
    use io::ErrorKind::{AddrInUse, AlreadyExists};
    let bound = match opts.path {
        Some(path) => Bound::at(path)?,
        None => loop {
            match Bound::at(usual_path()?) {
                // The next number.
                Err(error) if matches!(error.kind(), AddrInUse | AlreadyExists) => {}
                bound => break bound?,
            }
        },
    };
    let listener = bound.listener()?;
    let (stop, stopped) = UnixStream::pair()?;
    let server = Server::new(shared, opts.cancel, opts.recharge, opts.policy);
    let thread = thread::Builder::new()
        .name("parcae-attach".into())
        .spawn(move || serve(&listener, &stopped, &Arc::new(server)))?;
    Ok(Attached { bound, stop: Some(stop), listener: Some(thread) })
}

/// A path that no other runtime of this process has.
fn usual_path() -> io::Result<PathBuf> {
    /// Number of paths so far.
    static PLACES: AtomicU64 = AtomicU64::new(0);
    let dir = default_dir();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let found = fs::symlink_metadata(&dir)?;
    // SAFETY: has no preconditions.
    let ours = found.uid() == unsafe { libc::geteuid() };
    if !(ours && found.is_dir() && found.mode() & 0o022 == 0) {
        let text = format!(
            "{} is not a folder that only this user may write to; choose a path of your own",
            dir.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    sweep(&dir);
    let number = PLACES.fetch_add(1, Ordering::Relaxed); // only its uniqueness counts
    Ok(dir.join(format!("{}-{number}.sock", std::process::id())))
}

/// Removes sockets of programs that were killed, or ended without dropping them.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_suffix(".sock").and_then(|name| name.split_once('-'));
        if let Some(pid) = pid.and_then(|(pid, _)| pid.parse::<u32>().ok())
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // It may belong to a process of another container; then a program listens on it.
            let _ = socket::remove_dead(&path);
        }
    }
}

/// Whether the peer is of the same user, or root. The mode of the socket ensures the same, but not
/// in the moment between creating it and setting the mode.
fn is_ours(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and there is room for `size` bytes.
    let told = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    // SAFETY: has no preconditions.
    told == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

/// A connection: how to end it, and its thread.
type Connections = HashMap<u64, (UnixStream, JoinHandle<()>)>;

/// Takes connections until the other end of `stopped` is closed.
fn serve(listener: &UnixListener, stopped: &UnixStream, server: &Arc<Server>) {
    let open: Mutex<Connections> = Mutex::default();
    let lock = || open.lock().unwrap_or_else(PoisonError::into_inner);
    let mut number = 0;
    while wait_for_either(listener.as_raw_fd(), stopped.as_raw_fd()) {
        let stream = match listener.accept() {
            Ok((stream, _)) if is_ours(&stream) => stream,
            Ok(_) => continue,
            // No connection: a signal has ended the wait, or the client has gone again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => {
                thread::sleep(RETRY); // out of descriptors, most likely
                continue;
            }
        };
        lock().retain(|_, (_, thread)| !thread.is_finished());
        if lock().len() >= CONNECTIONS {
            let _ =
                writeln!(&stream, r#"{{"error":"{CONNECTIONS} connections are open; try again"}}"#);
            continue;
        }
        let Ok(end) = stream.try_clone() else { continue };
        let server = Arc::clone(server);
        let thread = thread::Builder::new().name("parcae-attach".into());
        // A client that is gone is no error.
        let serve_one = move || {
            let closes = Closes(stream);
            drop(talk(&closes.0, &server));
        };
        if let Ok(thread) = thread.spawn(serve_one) {
            lock().insert(number, (end, thread));
            number += 1;
        }
    }
    for (_, (stream, thread)) in lock().drain() {
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let _ = thread.join();
    }
}

/// Shuts its connection down when it is dropped, for the client too: the listener has another
/// descriptor of it.
struct Closes(UnixStream);

impl Drop for Closes {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both); // the client may have gone first
    }
}

/// Waits until there may be a connection; false if the second is closed.
fn wait_for_either(listener: i32, stopped: i32) -> bool {
    let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [poll(listener), poll(stopped)];
    // SAFETY: two entries, both descriptors are open.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
    ready < 0 || fds[1].revents == 0
}

/// Answers the requests of one connection.
fn talk(stream: &UnixStream, server: &Server) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut requests = BufReader::new(stream);
    let mut client = ClientState::default();
    loop {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut requests, LONGEST);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request = String::from_utf8_lossy(&line);
        let record = match policy::bytes_after(&request) {
            Some(length) => policy::read_record(&mut requests, length)?,
            None => Vec::new(),
        };
        let answer = server.answer(request.trim(), &record, &mut client);
        (&mut &*stream).write_all(&answer)?;
        if !line.ends_with(
            b"
",
        ) {
            return Ok(()); // longer than any request
        }
    }
}
