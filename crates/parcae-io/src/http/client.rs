//! The client: requests over connections that are kept.

use super::body::Left;
use super::carrier::Carrier;
use super::head::{self, Fields, Framing, Known, Refused, ResponseHead};
use super::reply::Reply;
use super::response::check_field;
use super::wire::Wire;
use crate::net::TcpStream;
#[cfg(feature = "tls")]
use crate::tls::TlsConnector;
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
/// An address begins with `http://`; or with `https://`, if the client has been given a connector
/// (`Client::tls`, with the feature `tls`).
#[derive(Debug)]
pub struct Client {
    /// By scheme and host.
    kept: Mutex<BTreeMap<String, Vec<Carrier>>>,
    #[cfg(feature = "tls")]
    connector: Option<TlsConnector>,
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

/// Whether a connection is made secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// A server, as an address names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin<'a> {
    scheme: Scheme,
    /// With the port, if there is one.
    host: &'a str,
    /// Both, as they were written.
    text: &'a str,
}

impl<'a> Origin<'a> {
    /// The host alone, and whether its port was written.
    fn name(self) -> (&'a str, bool) {
        let parts = self.host.rsplit_once(':');
        let parts = parts.filter(|(_, port)| port.parse::<u16>().is_ok());
        let name = parts.map_or(self.host, |(name, _)| name);
        // An address of version 6 is written in brackets.
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        (bare.unwrap_or(name), parts.is_some())
    }
}

/// The parts of `http://host:port/path`.
fn split(address: &str) -> io::Result<(Origin<'_>, &str)> {
    let bad = |text: &str| {
        let text = format!("`{address}` is no address for this client: {text}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https)];
    let found =
        schemes.iter().find_map(|(text, scheme)| Some((*scheme, address.strip_prefix(text)?)));
    let (scheme, rest) = found.ok_or_else(|| bad("it begins with `http://` or `https://`"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    if host.is_empty() || host.contains('@') || !target.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(bad("it has a host, no user, and no spaces"));
    }
    let text = &address[..address.len() - target.len()];
    Ok((Origin { scheme, host, text }, target))
}

/// Connects to a host, at a port that its text does not have.
fn connect(host: &str, port: Option<u16>) -> io::Result<TcpStream> {
    match port {
        None => TcpStream::connect(host),
        Some(port) => TcpStream::connect((host, port)),
    }
}

fn connect_under(cap: &CapNet, host: &str, port: Option<u16>) -> io::Result<TcpStream> {
    match port {
        None => TcpStream::connect_under(cap, host),
        Some(port) => TcpStream::connect_under(cap, (host, port)),
    }
}

fn refused(Refused(_, text): Refused) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer is no HTTP: {text}"))
}

impl Client {
    /// A client whose requests take at most 30 s, and whose answers have at most 16 MiB.
    pub fn new() -> Client {
        Client {
            kept: Mutex::default(),
            #[cfg(feature = "tls")]
            connector: None,
            time: Duration::from_secs(30),
            body_bytes: 16 << 20,
            head_bytes: 64 << 10,
        }
    }

    /// Connects to addresses that begin with `https://` by this connector. Protocols that its
    /// configuration offers by ALPN, if any, have to be `http/1.1` alone.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, connector: TlsConnector) -> Client {
        self.connector = Some(connector);
        self
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
        self.whole(self.open_by(request, connect)?)
    }

    /// Sends a request and returns the answer when its head has come; its body is read from the
    /// [`Reply`], and may have any length. The head has the [time](Client::time) of an answer, and
    /// so has each read of the body.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae_io::http::{Client, Outgoing, Response, Server};
    /// use parcae_io::net::TcpListener;
    /// use std::io::{Read, repeat};
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// rt.run(|cx| {
    ///     let (listener, stop) = (TcpListener::bind("127.0.0.1:0")?, CancelToken::new());
    ///     let url = format!("http://{}/film", listener.local_addr()?);
    ///     cx.nursery(|n| {
    ///         n.spawn(|cx| {
    ///             Server::new().serve(cx, &listener, &stop, |_, _| {
    ///                 Ok(Response::new(200).stream(repeat(7).take(20 << 20)))
    ///             })
    ///         })?;
    ///         let client = Client::new();
    ///         let mut film = client.open(&Outgoing::new("GET", &url))?;
    ///         assert_eq!(film.status(), 200);
    ///         assert_eq!(std::io::copy(&mut film, &mut std::io::sink())?, 20 << 20);
    ///         stop.cancel();
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`send`](Client::send); those of the body come when it is read.
    pub fn open(&self, request: &Outgoing) -> io::Result<Reply<'_>> {
        Ok(self.open_by(request, connect)?.paced(self.time))
    }

    /// As [`open`](Client::open), under a capability: see [`send_under`](Client::send_under).
    ///
    /// # Errors
    ///
    /// As for [`open`](Client::open), and the refusals of the capability.
    pub fn open_under(&self, cap: &CapNet, request: &Outgoing) -> io::Result<Reply<'_>> {
        let connect = |host: &str, port| connect_under(cap, host, port);
        Ok(self.open_by(request, connect)?.paced(self.time))
    }

    /// Reads a body to its end, within the time that is left of the request's.
    fn whole(&self, reply: Reply<'_>) -> io::Result<Answer> {
        let (mut reply, mut body) = (reply.bounded(self.body_bytes), Vec::new());
        reply.read_to_end(&mut body)?;
        let ResponseHead { status, fields, .. } = reply.into_head();
        Ok(Answer { status, fields, body })
    }

    /// As [`send`](Client::send), under a capability: see
    /// [`TcpStream::connect_under`]. Requests of one client should show the same capability: they
    /// share the connections that are kept.
    ///
    /// # Errors
    ///
    /// As for [`send`](Client::send), and the refusals of the capability.
    pub fn send_under(&self, cap: &CapNet, request: &Outgoing) -> io::Result<Answer> {
        let connect = |host: &str, port| connect_under(cap, host, port);
        self.whole(self.open_by(request, connect)?)
    }

    fn open_by(
        &self,
        request: &Outgoing,
        connect: impl FnOnce(&str, Option<u16>) -> io::Result<TcpStream>,
    ) -> io::Result<Reply<'_>> {
        let (origin, target) = split(&request.address)?;
        let is_safe = matches!(request.method.as_str(), "GET" | "HEAD");
        if is_safe && let Some(stream) = self.take(origin) {
            match self.exchange(stream, origin, target, request) {
                Err(error) if has_gone(&error) => {}
                other => return other,
            }
        }
        let connect = || match (origin.name(), origin.scheme) {
            ((_, true), _) => connect(origin.host, None),
            ((name, false), Scheme::Http) => connect(name, Some(80)),
            ((name, false), Scheme::Https) => connect(name, Some(443)),
        };
        let stream = match origin.scheme {
            Scheme::Http => connect()?.into(),
            Scheme::Https => self.secure(origin, connect)?,
        };
        self.exchange(stream, origin, target, request)
    }

    /// Connects by TLS.
    #[cfg(feature = "tls")]
    fn secure(
        &self,
        origin: Origin<'_>,
        connect: impl FnOnce() -> io::Result<TcpStream>,
    ) -> io::Result<Carrier> {
        let Some(connector) = &self.connector else {
            let text = format!("`{}` needs a connector: see `Client::tls`", origin.text);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        Ok(connector.connect(origin.name().0, connect()?)?.into())
    }

    /// Connects by TLS, if that is built in.
    #[cfg(not(feature = "tls"))]
    fn secure(
        &self,
        origin: Origin<'_>,
        _: impl FnOnce() -> io::Result<TcpStream>,
    ) -> io::Result<Carrier> {
        let text = format!("`{}` needs the feature `tls` of parcae-io", origin.text);
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn take(&self, origin: Origin<'_>) -> Option<Carrier> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get_mut(origin.text)?.pop()
    }

    /// Keeps a connection to the server of this scheme and host.
    pub(super) fn keep(&self, origin: &str, stream: Carrier) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let streams = kept.entry(origin.into()).or_default();
        if streams.len() < KEPT {
            streams.push(stream);
        }
    }

    fn exchange(
        &self,
        stream: Carrier,
        origin: Origin<'_>,
        target: &str,
        request: &Outgoing,
    ) -> io::Result<Reply<'_>> {
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        let mut out = Vec::new();
        write!(out, "{} {target} HTTP/1.1\r\nHost: {}\r\n", request.method, origin.host)?;
        for (name, value) in &request.fields {
            write!(out, "{name}: {value}\r\n")?;
        }
        if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT") {
            write!(out, "Content-Length: {}\r\n", request.body.len())?;
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&request.body);
        stream.socket().set_write_timeout(Some(self.time))?;
        (&mut &stream).write_all(&out)?;

        let mut wire = Wire::new(Box::new(stream));
        wire.limit(Some(self.time));
        let head = loop {
            let head = self.head(&mut wire)?;
            // 101 would be the last word in this protocol, and was not asked for.
            if !(100..200).contains(&head.status) {
                break head;
            }
        };
        let bodiless = request.method == "HEAD" || head.status == 204 || head.status == 304;
        let left = match head.fields.framing().map_err(refused)? {
            _ if bodiless => Left::NONE,
            Framing::None => Left::ToTheEnd,
            Framing::Length(length) => Left::Bytes(length),
            Framing::Chunked => Left::Chunks(None),
        };
        let closes = left == Left::ToTheEnd
            || head.fields.has_token(Known::Connection, "close")
            || (head.minor == 0 && !head.fields.has_token(Known::Connection, "keep-alive"));
        Ok(Reply::new(self, origin.text, head, (wire, left, !closes)))
    }

    fn head(&self, wire: &mut Wire<Box<Carrier>>) -> io::Result<ResponseHead> {
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
            let kind = io::ErrorKind::UnexpectedEof;
            let count = match wire.fill() {
                Err(error) if error.kind() == kind => 0, // TLS that is cut
                filled => filled?,
            };
            if count == 0 {
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
