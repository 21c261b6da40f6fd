//! Files and sockets for programs, as functions of the host, each under a capability.
//!
//! A call parks its task, is a cancel point, and is charged by `parcae-io` as every call there: one
//! op and one syscall for an operation. Sockets are numbers in a table of their own, which the
//! functions share: a number means nothing in another run. Input is bounded: a file and a line are
//! refused above [`LARGEST`] bytes, and have to be UTF-8.

use crate::functions::{Answer, Functions, HostFault, HostValue};
use parcae::Budget;
use parcae::cap::{CapFs, CapNet};
use parcae_io::fs::{Dir, OpenOptions};
use parcae_io::net::{TcpListener, TcpStream};
use parcae_ir::Type;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};

/// Most bytes of a file or a line that a program gets at once.
const LARGEST: usize = 16 << 20;
/// Most bytes of a read from a socket.
const CHUNK: usize = 16 << 10;

/// The authority of a run over files and sockets.
///
/// ```
/// use parcae::cap::{Delegation, FsAccess, FsLimits};
/// use parcae::prelude::*;
/// use parcae_interp::{Host, Outside, Program};
/// use parcae_lang::{Profile, Source};
///
/// let rt = Runtime::builder().deterministic(1).build()?; // with a disk of its own
/// let limits = FsLimits { access: FsAccess::Write, max_files: 4 };
/// let disk = rt.cap_fs("/", limits, Delegation::Forbidden)?;
/// let functions = Outside::new().write(disk).functions();
///
/// let text = "{.profile: service.}\nfunc main() do write_file(\"a.txt\", \"hello\") end";
/// let source = Source::new("write.jan", text);
/// let program = Program::compile(&source, Profile::Core, &functions).expect("correct");
/// program.run(&rt, Host::new(|_| ()).functions(&functions)).expect("no failure");
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Default)]
pub struct Outside {
    read: Option<Arc<CapFs>>,
    write: Option<Arc<CapFs>>,
    net: Option<Arc<CapNet>>,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside")
            .field("read", &self.read.is_some())
            .field("write", &self.write.is_some())
            .field("net", &self.net.is_some())
            .finish()
    }
}

impl Outside {
    /// No authority.
    pub fn new() -> Outside {
        Outside::default()
    }

    /// To read the files beneath the capability's directory, which paths are relative to.
    #[must_use]
    pub fn read(mut self, cap: CapFs) -> Outside {
        self.read = Some(Arc::new(cap));
        self
    }

    /// To write and remove files beneath the capability's directory.
    #[must_use]
    pub fn write(mut self, cap: CapFs) -> Outside {
        self.write = Some(Arc::new(cap));
        self
    }

    /// To use the sockets that the capability allows.
    #[must_use]
    pub fn net(mut self, cap: CapNet) -> Outside {
        self.net = Some(Arc::new(cap));
        self
    }

    /// The functions that this authority gives, by the names of [`parcae_lang::library`].
    pub fn functions(&self) -> Functions {
        let mut functions = Functions::new();
        let none = Budget::ZERO; // charged by parcae-io
        if let Some(cap) = &self.read {
            let (a, b) = (Arc::clone(cap), Arc::clone(cap));
            functions = functions
                .add("read_file", none, move |path: String| Done(read(&a, &path)))
                .add("file_exists", none, move |path: String| {
                    Done(Dir::under(&b).and_then(|dir| dir.exists(&path)))
                });
        }
        if let Some(cap) = &self.write {
            let [a, b, c] = [(); 3].map(|()| Arc::clone(cap));
            functions = functions
                .add("write_file", none, move |path: String, text: String| {
                    Done(Dir::under(&a).and_then(|dir| dir.write(&path, &text)))
                })
                .add("append_file", none, move |path: String, text: String| {
                    Done(append(&b, &path, &text))
                })
                .add("remove_file", none, move |path: String| {
                    Done(Dir::under(&c).and_then(|dir| dir.remove_file(&path)))
                });
        }
        match &self.net {
            Some(cap) => sockets(functions, cap),
            None => functions,
        }
    }
}

fn read(cap: &CapFs, path: &str) -> io::Result<String> {
    let file = Dir::under(cap)?.open(path)?;
    let mut text = String::new();
    (&file).take(LARGEST as u64 + 1).read_to_string(&mut text)?;
    if text.len() > LARGEST { Err(too_large()) } else { Ok(text) }
}

fn append(cap: &CapFs, path: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = Dir::under(cap)?.open_with(options.append(true).create(true), path)?;
    file.write_all(text.as_bytes())
}

fn too_large() -> io::Error {
    io::Error::other(format!("it has more than {LARGEST} bytes"))
}

/// An open socket; a stream with the bytes that were received and not given to the program.
enum Socket {
    Listener(TcpListener),
    Stream(TcpStream, Mutex<Vec<u8>>),
}

#[derive(Default)]
struct Sockets {
    open: BTreeMap<i64, Arc<Socket>>,
    last: i64,
}

#[derive(Clone, Default)]
struct Table(Arc<Mutex<Sockets>>);

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Table {
    fn add(&self, socket: Socket) -> i64 {
        let mut sockets = locked(&self.0);
        sockets.last += 1;
        let number = sockets.last;
        sockets.open.insert(number, Arc::new(socket));
        number
    }

    fn stream(stream: TcpStream) -> Socket {
        Socket::Stream(stream, Mutex::default())
    }

    fn get(&self, number: i64) -> io::Result<Arc<Socket>> {
        let found = locked(&self.0).open.get(&number).cloned();
        found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "there is no such socket"))
    }

    fn listener<T>(
        &self,
        number: i64,
        of: impl FnOnce(&TcpListener) -> io::Result<T>,
    ) -> io::Result<T> {
        match &*self.get(number)? {
            Socket::Listener(listener) => of(listener),
            Socket::Stream(..) => Err(io::Error::other("it does not listen")),
        }
    }

    /// Text from a stream up to this end, or what there is; empty at the end of the stream.
    fn read(&self, number: i64, end: impl Fn(&[u8]) -> Option<usize>) -> io::Result<String> {
        let socket = self.get(number)?;
        let Socket::Stream(stream, rest) = &*socket else {
            return Err(io::Error::other("it listens, and has nothing to read"));
        };
        // No lock is held while the task waits. Of two readers each gets bytes of its own.
        let mut bytes = std::mem::take(&mut *locked(rest));
        let mut chunk = vec![0; CHUNK];
        let outcome = loop {
            if let Some(end) = end(&bytes).filter(|end| *end > 0) {
                break Ok(end);
            }
            if bytes.len() > LARGEST {
                break Err(too_large());
            }
            match (&*stream).read(&mut chunk) {
                Ok(0) => break Ok(bytes.len()),
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(error) => break Err(error),
            }
        };
        let taken = *outcome.as_ref().unwrap_or(&0);
        let kept = bytes.split_off(taken);
        locked(rest).splice(0..0, kept);
        outcome?;
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, "the bytes are no UTF-8"))
    }
}

/// Up to the end of the first line.
fn line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
}

/// All bytes but those of a character that is not complete.
fn characters(bytes: &[u8]) -> Option<usize> {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => Some(error.valid_up_to()),
        _ => Some(bytes.len()),
    }
}

fn sockets(functions: Functions, cap: &Arc<CapNet>) -> Functions {
    let none = Budget::ZERO;
    let table = Table::default();
    let [a, b, c, d, e, f, g, h] = [(); 8].map(|()| table.clone());
    let (to, at) = (Arc::clone(cap), Arc::clone(cap));
    functions
        .add("tcp_listen", none, move |address: String| {
            let listener = TcpListener::bind_under(&at, &address);
            Done(listener.map(|listener| a.add(Socket::Listener(listener))))
        })
        .add("tcp_port", none, move |socket: i64| {
            let port = |listener: &TcpListener| Ok(listener.local_addr()?.port().into());
            Done::<i64>(b.listener(socket, port))
        })
        .add("tcp_accept", none, move |socket: i64| {
            let accepted = c.listener(socket, |listener| Ok(listener.accept()?.0));
            Done(accepted.map(|stream| c.add(Table::stream(stream))))
        })
        .add("tcp_connect", none, move |address: String| {
            let stream = TcpStream::connect_under(&to, &address);
            Done(stream.map(|stream| d.add(Table::stream(stream))))
        })
        .add("tcp_read", none, move |socket: i64| Done(e.read(socket, characters)))
        .add("tcp_read_line", none, move |socket: i64| Done(f.read(socket, line)))
        .add("tcp_write", none, move |socket: i64, text: String| {
            Done(g.get(socket).and_then(|socket| match &*socket {
                Socket::Stream(stream, _) => (&mut &*stream).write_all(text.as_bytes()),
                Socket::Listener(_) => Err(io::Error::other("it listens, and takes no text")),
            }))
        })
        .add("tcp_close", none, move |socket: i64| {
            let closed = locked(&h.0).open.remove(&socket);
            drop(closed);
        })
}

/// The outcome of a call: an error of the runtime ends the task as everywhere, others are P007.
struct Done<T>(io::Result<T>);

impl<T: Answer> Answer for Done<T> {
    const TYPE: Type = T::TYPE;
    fn give(self) -> Result<HostValue, HostFault> {
        match self.0 {
            Ok(value) => value.give(),
            Err(error) => Err(match error.get_ref().and_then(parcae::io::error_of) {
                // A refusal of a capability is an error of the call.
                Some(ended) if ends(ended.kind()) => HostFault::Ended(ended.clone()),
                _ => HostFault::Message(error.to_string()),
            }),
        }
    }
}

/// Whether an error of the runtime ends the task, and is not about the file or the socket.
fn ends(kind: &parcae::ErrorKind) -> bool {
    use parcae::ErrorKind as Kind;
    matches!(
        kind,
        Kind::Cancelled(_) | Kind::BudgetExceeded(_) | Kind::ShuttingDown | Kind::Unwinding
    )
}
