//! The inspected program: finding its socket, and sending it requests.
//!
//! A program opens a socket on purpose (`Runtime::attach`), in a folder where it is found by the
//! number of the process (`parcae::attach::default_dir`) or wherever it likes. The header of
//! `parcae::attach` has the protocol: a request is a line of words, an answer is a line of JSON.
//!
//! Answers are not trusted: one that does not follow the protocol is an error.

use crate::Exit;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer may take. Programs answer on a separate thread, so only a stopped or starved
/// program takes this long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer: a few million tasks.
const LONGEST: u64 = 2 << 30;

/// Why a program cannot be inspected.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Several programs have a socket.
    Several(Vec<String>),
    /// No program has a socket in this folder.
    None(PathBuf),
    /// No program with this process id has a socket in this folder.
    NoSuchPid(String, PathBuf),
    /// There is no usable socket at this path, and why.
    NoSuchSocket(PathBuf, &'static str),
    Denied(PathBuf),
    /// It has ended, or closed its socket.
    Gone(String),
    /// It does not answer in time.
    Silent(String),
    /// The answer does not follow the protocol.
    Garbage(PathBuf, String),
    /// The program refused the request.
    Refused(String),
    /// The system denied access.
    Io(PathBuf, io::Error),
    /// The answer cannot be written.
    Output(PathBuf, io::Error),
    /// Standard output is not a terminal.
    NoTerminal,
}

impl Trouble {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Trouble::Several(_) | Trouble::NoTerminal => Exit::Usage,
            Trouble::None(_) | Trouble::NoSuchPid(..) | Trouble::NoSuchSocket(..) => Exit::Missing,
            Trouble::Output(..) => Exit::Failed,
            _ => Exit::Target,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Several(programs) => {
                write!(f, "several programs can be inspected; choose one by PID or SOCKET:")?;
                programs.iter().try_for_each(|program| write!(f, "\n  {program}"))
            }
            Trouble::None(dir) => write!(
                f,
                "no program can be inspected: there is no socket in {}.\n  \
                 A program opens one with `let _attached = rt.attach(AttachOpts::new())?;`.\n  \
                 If its socket is in another folder, give its path. To try it:\n  \
                 cargo run --release -p parcae --example attached",
                dir.display()
            ),
            Trouble::NoSuchPid(pid, dir) => write!(
                f,
                "process {pid} cannot be inspected: it has no socket {pid}-0.sock in {}.\n  \
                 It opens one with `let _attached = rt.attach(AttachOpts::new())?;`",
                dir.display()
            ),
            Trouble::NoSuchSocket(path, why) => write!(f, "{}: {why}", path.display()),
            Trouble::Denied(path) => write!(
                f,
                "{}: permission denied. Only the user who runs the program can connect",
                path.display()
            ),
            Trouble::Gone(who) => write!(f, "{who} has ended, or has closed its socket"),
            Trouble::Silent(who) => {
                write!(f, "{who} has not answered for {ANSWER_TIMEOUT:?}: is it stopped?")
            }
            Trouble::Garbage(path, what) => {
                write!(f, "{}: not the socket of a parcae program: {what}", path.display())
            }
            Trouble::Refused(text) => write!(f, "the program refused: {text}"),
            Trouble::Io(path, error) | Trouble::Output(path, error) => {
                write!(f, "{}: {error}", path.display())
            }
            Trouble::NoTerminal => {
                write!(f, "not a terminal: `--once` prints one screen, `--json` prints JSON")
            }
        }
    }
}

/// A program's answer to `hello`.
#[derive(Debug, Clone)]
pub(crate) struct Hello {
    pub(crate) program: String,
    pub(crate) pid: u64,
    pub(crate) workers: u64,
    may: Vec<String>,
    pub(crate) json: Value,
}

impl Hello {
    pub(crate) fn read(json: &Value) -> Option<Hello> {
        json["parcae"].as_str()?;
        let program = json["program"].as_str()?;
        let name = Path::new(program).file_name().unwrap_or(OsStr::new(program));
        let may = json["may"].as_array()?.iter().filter_map(|what| Some(what.as_str()?.to_owned()));
        Some(Hello {
            program: name.to_string_lossy().into_owned(),
            pid: json["pid"].as_u64()?,
            workers: json["workers"].as_u64()?,
            may: may.collect(),
            json: json.clone(),
        })
    }

    /// Whether the program allows this.
    pub(crate) fn allows(&self, what: &str) -> bool {
        self.may.iter().any(|allowed| allowed == what)
    }
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.program, self.pid)
    }
}

/// A connection to a program.
pub(crate) struct Client {
    pub(crate) hello: Hello,
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the program that an argument names, or to the only one there is.
    pub(crate) fn find(target: Option<&OsStr>) -> Result<Client, Trouble> {
        let dir = parcae::attach::default_dir();
        let pid = target.and_then(OsStr::to_str).filter(|text| is_number(text));
        match (target, pid) {
            (Some(path), None) => Client::connect(Path::new(path)),
            (_, Some(pid)) => {
                only(sockets(&dir, &format!("{pid}-"))?, || Trouble::NoSuchPid(pid.into(), dir))
            }
            (None, None) => only(sockets(&dir, "")?, || Trouble::None(dir)),
        }
    }

    pub(crate) fn connect(path: &Path) -> Result<Client, Trouble> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Trouble::NoSuchSocket(path.into(), "there is no such socket")
            }
            io::ErrorKind::ConnectionRefused => {
                Trouble::NoSuchSocket(path.into(), why_refused(path))
            }
            io::ErrorKind::PermissionDenied => Trouble::Denied(path.into()),
            _ => Trouble::Io(path.into(), error),
        })?;
        stream
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)))
            .map_err(|error| Trouble::Io(path.into(), error))?;
        let hello = Hello {
            program: path.display().to_string(),
            pid: 0,
            workers: 0,
            may: Vec::new(),
            json: Value::Null,
        };
        let mut client = Client { hello, path: path.into(), stream: BufReader::new(stream) };
        let answer = client.ask("hello")?;
        client.hello = Hello::read(&answer)
            .ok_or_else(|| client.garbage("it does not identify itself".to_owned()))?;
        Ok(client)
    }

    /// Sends a request and returns the answer.
    pub(crate) fn ask(&mut self, request: &str) -> Result<Value, Trouble> {
        self.tell(request)?;
        self.answer()
    }

    /// Sends a request with the bytes that follow it, and returns the answer.
    pub(crate) fn ask_with(&mut self, request: &str, bytes: &[u8]) -> Result<Value, Trouble> {
        self.tell(request)?;
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(self.failed(error)),
            _ => self.answer(),
        }
    }

    fn tell(&mut self, request: &str) -> Result<(), Trouble> {
        let line = format!("{request}\n");
        // A refused client gets the reason before the socket is closed: then writing fails, and
        // reading does not.
        match self.stream.get_mut().write_all(line.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn answer(&mut self) -> Result<Value, Trouble> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(LONGEST).read_until(b'\n', &mut line);
        read.map_err(|error| self.failed(error))?;
        if line.last() != Some(&b'\n') {
            return Err(match line.len() as u64 {
                LONGEST => self.garbage(format!("an answer of more than {LONGEST} bytes")),
                _ => Trouble::Gone(self.who()),
            });
        }
        let answer: Value = serde_json::from_slice(&line)
            .map_err(|_| self.garbage(format!("unexpected answer {}", excerpt(&line))))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(text) => Err(Trouble::Refused(text.to_owned())),
            None => Ok(answer),
        }
    }

    /// Waits for a time, or until the program is gone.
    pub(crate) fn watch(&mut self, time: Duration) -> Result<(), Trouble> {
        let failed = |client: &Client, error| Trouble::Io(client.path.clone(), error);
        let timeout = |client: &Client, time| client.stream.get_ref().set_read_timeout(Some(time));
        timeout(self, time).map_err(|error| failed(self, error))?;
        let ended = match self.stream.fill_buf() {
            Ok([]) => Err(Trouble::Gone(self.who())),
            Ok(more) => {
                let text = format!("it sent {} without a request", excerpt(more));
                Err(self.garbage(text))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(self.failed(error)),
        };
        timeout(self, ANSWER_TIMEOUT).map_err(|error| failed(self, error))?;
        ended
    }

    /// Reads bytes that follow an answer into `out`.
    pub(crate) fn copy(&mut self, bytes: u64, out: &mut impl Write) -> Result<(), Trouble> {
        let mut left = bytes;
        while left > 0 {
            let buffer = match self.stream.fill_buf() {
                Ok([]) => return Err(Trouble::Gone(self.who())),
                Ok(buffer) => {
                    &buffer[..buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
                }
                Err(error) => return Err(self.failed(error)),
            };
            let length = buffer.len();
            out.write_all(buffer).map_err(|error| Trouble::Io("the output".into(), error))?;
            self.stream.consume(length);
            left -= length as u64;
        }
        Ok(())
    }

    /// Its name in errors.
    pub(crate) fn who(&self) -> String {
        if self.hello.pid == 0 { self.hello.program.clone() } else { self.hello.to_string() }
    }

    fn garbage(&self, what: String) -> Trouble {
        Trouble::Garbage(self.path.clone(), what)
    }

    fn failed(&self, error: io::Error) -> Trouble {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Trouble::Silent(self.who()),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Trouble::Gone(self.who()),
            _ => Trouble::Io(self.path.clone(), error),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Why connecting to an existing path failed.
fn why_refused(path: &Path) -> &'static str {
    match path.metadata() {
        Ok(it) if it.file_type().is_socket() => "no program listens there; it has ended",
        _ => "this is not a socket",
    }
}

/// The sockets in a folder whose names begin with `begin`, sorted.
fn sockets(dir: &Path, begin: &str) -> Result<Vec<PathBuf>, Trouble> {
    let entries = match dir.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Trouble::Denied(dir.into()));
        }
        Err(error) => return Err(Trouble::Io(dir.into(), error)),
    };
    let fits = |name: &OsString| {
        name.as_bytes().starts_with(begin.as_bytes()) && name.as_bytes().ends_with(b".sock")
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut paths: Vec<PathBuf> = names.filter(fits).map(|name| dir.join(name)).collect();
    paths.sort();
    Ok(paths)
}

/// The one program that answers. Sockets that programs have left behind do not count.
fn only(paths: Vec<PathBuf>, none: impl FnOnce() -> Trouble) -> Result<Client, Trouble> {
    let mut live: Vec<(PathBuf, Result<Client, Trouble>)> = Vec::new();
    for path in paths {
        match Client::connect(&path) {
            Err(Trouble::NoSuchSocket(..)) => {}
            answer => live.push((path, answer)),
        }
    }
    if live.len() > 1 {
        let lines = live.iter().map(|(path, client)| match client {
            Ok(client) => {
                format!("{}  {}  {}", client.hello.pid, client.hello.program, path.display())
            }
            Err(trouble) => trouble.to_string(),
        });
        return Err(Trouble::Several(lines.collect()));
    }
    live.pop().map_or_else(|| Err(none()), |(_, client)| client)
}

/// The beginning of an invalid answer, for the error.
fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    format!("{:?}{}", text.trim_end(), if bytes.len() > 40 { " …" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_are_told_from_paths() {
        assert!(is_number("4711"));
        assert!(!is_number("") && !is_number("4711.sock") && !is_number("-1"));
    }

    #[test]
    fn what_is_no_answer_is_shown_in_part() {
        assert_eq!(excerpt(b"HTTP/1.1 400\r\n"), "\"HTTP/1.1 400\"");
        assert_eq!(excerpt(&[0xff; 50]), format!("{:?} …", "\u{fffd}".repeat(40)));
    }

    #[test]
    fn what_a_program_says_of_itself() {
        let text =
            r#"{"parcae":"0.1.0","pid":7,"program":"a/b/shop","workers":2,"may":["cancel"]}"#;
        let hello = Hello::read(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(hello.to_string(), "shop (pid 7)");
        assert!(hello.allows("cancel") && !hello.allows("recharge"));
        assert!(Hello::read(&serde_json::json!({"pid": 7})).is_none());
    }
}
