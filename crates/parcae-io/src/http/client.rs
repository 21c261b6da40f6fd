//! The client: requests over connections that are kept.

use super::body::{Body, Left};
use super::head::{self, Fields, Framing, Known, Refused, ResponseHead};
use super::response::check_field;
use super::wire::Wire;
use crate::net::TcpStream;
use parcae::cap::CapNet;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections that are kept for one server.
const KEPT: usize = 8;

/// An HTTP/1.1 client. It keeps connections for further requests to the same server; share it by
/// reference.
///
/// Without TLS: an address begins with `http://`.
#[derive(Debug)]
pub struct Client {
    kept: Mutex<BTreeMap<String, Vec<TcpStream>>>,
    time: Duration,
    body_bytes: u64,
    head_bytes: usize,
}

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

/// A request to be sent.
///
/// ```
/// use parcae_io::http::Outgoing;
///
/// let order = Outgoing::new("POST", "http://shop.example/orders")
///     .header("Content-Type", "application/json")
///     .body(r#"{"bread": 2}"#);
/// # drop(order);
/// ```
#[derive(Debug, Clone)]
pub struct Outgoing {
    method: String,
    address: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Outgoing {
    /// A request without a body.
    ///
    /// # Panics
    ///
    /// If the method is no token.
    pub fn new(method: &str, address: &str) -> Outgoing {
        check_field(method, "");
        let (method, address) = (method.into(), address.into());
        Outgoing { method, address, fields: Vec::new(), body: Vec::new() }
    }

    /// Adds a header field.
    ///
    /// # Panics
    ///
    /// If the name is no token, or the value has a line break.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Outgoing {
        let (name, value) = (name.into(), value.into());
        check_field(&name, &value);
        self.fields.push((name, value));
        self
    }

    /// Sets the body.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Outgoing {
        self.body = bytes.into();
        self
    }
}

/// An answer, with its whole body.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    fields: Fields,
    body: Vec<u8>,
}

impl Answer {
    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The first value of a header field, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.all(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }
}

/// The parts of `http://host:port/path`.
fn split(address: &str) -> io::Result<(&str, &str)> {
    let bad = |text: &str| {
        let text = format!("`{address}` is no address for this client: {text}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let rest = address.strip_prefix("http://").ok_or_else(|| bad("it begins with `http://`"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.is_empty() || host.contains('@') || !target.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(bad("it has a host, no user, and no spaces"));
    }
    Ok((host, target))
}

fn refused(Refused(_, text): Refused) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer is no HTTP: {text}"))
}

impl Client {
    /// A client whose requests take at most 30 s, and whose answers have at most 16 MiB.
    pub fn new() -> Client {
        Client {
            kept: Mutex::default(),
            time: Duration::from_secs(30),
            body_bytes: 16 << 20,
            head_bytes: 64 << 10,
        }
    }

    /// Sets the time that an answer may take.
    pub fn time(mut self, time: Duration) -> Client {
        self.time = time;
        self
    }

    /// Sets how many bytes the body of an answer may have.
    pub fn body_bytes(mut self, bytes: u64) -> Client {
        self.body_bytes = bytes;
        self
    }

    /// Sends a GET.
    ///
    /// # Errors
    ///
    /// As for [`send`](Client::send).
    pub fn get(&self, address: &str) -> io::Result<Answer> {
        self.send(&Outgoing::new("GET", address))
    }

    /// Sends a request and reads the answer. A GET or HEAD uses a kept connection; if the server
    /// has closed it meanwhile, the request is sent again over a new one. Other methods, which must
    /// not happen twice, use a new connection.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, its answer is no HTTP, too large or too slow, or the task
    /// is cancelled. A status such as 404 is no error.
    pub fn send(&self, request: &Outgoing) -> io::Result<Answer> {
        let connect = |host: &str, has_port| match has_port {
            true => TcpStream::connect(host),
            false => TcpStream::connect((host, 80)),
        };
        self.send_by(request, connect)
    }

    /// As [`send`](Client::send), under a capability: see
    /// [`TcpStream::connect_under`]. Requests of one client should show the same capability: they
    /// share the connections that are kept.
    ///
    /// # Errors
    ///
    /// As for [`send`](Client::send), and the refusals of the capability.
    pub fn send_under(&self, cap: &CapNet, request: &Outgoing) -> io::Result<Answer> {
        let connect = |host: &str, has_port| match has_port {
            true => TcpStream::connect_under(cap, host),
            false => TcpStream::connect_under(cap, (host, 80)),
        };
        self.send_by(request, connect)
    }

    fn send_by(
        &self,
        request: &Outgoing,
        connect: impl FnOnce(&str, bool) -> io::Result<TcpStream>,
    ) -> io::Result<Answer> {
        let (host, target) = split(&request.address)?;
        let is_safe = matches!(request.method.as_str(), "GET" | "HEAD");
        if is_safe && let Some(stream) = self.take(host) {
            match self.exchange(stream, host, target, request) {
                Err(error) if has_gone(&error) => {}
                other => return other,
            }
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let stream = connect(host, has_port)?;
        self.exchange(stream, host, target, request)
    }

    fn take(&self, host: &str) -> Option<TcpStream> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get_mut(host)?.pop()
    }

    fn keep(&self, host: &str, stream: TcpStream) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let streams = kept.entry(host.into()).or_default();
        if streams.len() < KEPT {
            streams.push(stream);
        }
    }

    fn exchange(
        &self,
        stream: TcpStream,
        host: &str,
        target: &str,
        request: &Outgoing,
    ) -> io::Result<Answer> {
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        let mut out = Vec::new();
        write!(out, "{} {target} HTTP/1.1\r\nHost: {host}\r\n", request.method)?;
        for (name, value) in &request.fields {
            write!(out, "{name}: {value}\r\n")?;
        }
        if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT") {
            write!(out, "Content-Length: {}\r\n", request.body.len())?;
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&request.body);
        stream.set_write_timeout(Some(self.time))?;
        (&mut &stream).write_all(&out)?;

        let mut wire = Wire::new(&stream);
        wire.limit(Some(self.time));
        let head = loop {
            let head = self.head(&mut wire)?;
            // 101 would be the last word in this protocol, and was not asked for.
            if !(100..200).contains(&head.status) {
                break head;
            }
        };
        let bodiless = request.method == "HEAD" || head.status == 204 || head.status == 304;
        let mut left = match head.fields.framing().map_err(refused)? {
            _ if bodiless => Left::NONE,
            Framing::None => Left::ToTheEnd,
            Framing::Length(length) => Left::Bytes(length),
            Framing::Chunked => Left::Chunks(None),
        };
        let closes = left == Left::ToTheEnd
            || head.fields.has_token(Known::Connection, "close")
            || (head.minor == 0 && !head.fields.has_token(Known::Connection, "keep-alive"));
        let (mut body, mut room) = (Vec::new(), self.body_bytes);
        Body { wire: &mut wire, left: &mut left, room: &mut room }.read_to_end(&mut body)?;
        // Bytes behind the answer are of no request: such a connection is not used again.
        let is_clean = wire.bytes().is_empty();
        if !closes && is_clean {
            self.keep(host, stream);
        }
        Ok(Answer { status: head.status, fields: head.fields, body })
    }

    fn head(&self, wire: &mut Wire<'_>) -> io::Result<ResponseHead> {
        let mut searched = 0;
        loop {
            if let Some(end) = head::end_of_head(wire.bytes(), searched) {
                let head = head::response(&wire.bytes()[..end]).map_err(refused);
                wire.consume(end);
                return head;
            }
            searched = wire.bytes().len();
            if searched > self.head_bytes {
                return Err(refused(Refused(502, "its head is too large")));
            }
            if wire.fill()? == 0 {
                let kind = io::ErrorKind::UnexpectedEof;
                return Err(if searched == 0 { io::Error::new(kind, Gone) } else { kind.into() });
            }
        }
    }
}

/// The server has closed the connection before it answered.
#[derive(Debug)]
struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server has closed the connection without an answer")
    }
}

impl std::error::Error for Gone {}

/// Whether a kept connection turned out to be closed before anything was answered.
fn has_gone(error: &io::Error) -> bool {
    let reset = matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    );
    reset || error.get_ref().is_some_and(|inner| inner.is::<Gone>())
}
