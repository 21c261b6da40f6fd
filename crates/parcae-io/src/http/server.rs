//! The server: the loop of a connection, its limits, and draining.
//!
//! # A connection
//!
//! One fiber reads a request, calls the handler, writes the response, and begins again. Responses
//! are collected and leave together when the next request is not complete yet: a batch of pipelined
//! requests is answered by one write. The rest of a body that the handler has not read is skipped.
//!
//! # Draining
//!
//! A connection is *idle* while it waits for the first byte of a request. When the server is told
//! to stop, it accepts no more, ends the input of all idle connections, and waits for the others,
//! for as long as the grace allows; then it cancels them. A connection marks itself idle and then
//! looks whether the server drains; the server says that it drains and then looks which connections
//! are idle. Both sides use sequentially consistent accesses, so at least one of them sees the
//! other, and no idle connection is overlooked. Bytes of a request that have arrived before its
//! input is ended are still read.
//!
//! A response that is sent while the server drains says `Connection: close`.

use super::body::{Body, Left};
use super::carrier::Carrier;
use super::head::{self, Fields, Framing, Known, Refused, RequestHead};
use super::response::{Asked, Response};
use super::wire::Wire;
use crate::net::{TcpListener, TcpStream};
use crate::source::{Alarm, Limit};
#[cfg(feature = "tls")]
use crate::tls::{TlsAcceptor, rustls};
use parcae::prelude::*;
use parcae::sync::Semaphore;
use parcae::task::Placement;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Responses that are collected before they are written.
const COLLECTED: usize = 64 << 10;
/// The grace of a connection that was refused, for its peer to read the reason.
const FAREWELL: Duration = Duration::from_secs(1);

/// The limits of a server. All are on by default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a head: 16 KiB.
    pub head_bytes: usize,
    /// Time from the first byte of a head to its last: 10 s.
    pub head_time: Duration,
    /// Bytes of a body: 1 MiB.
    pub body_bytes: u64,
    /// Time in which a body has to arrive: 30 s.
    pub body_time: Duration,
    /// Time in which the peer has to take each part of a response: 30 s.
    pub write_time: Duration,
    /// Time that a connection may be idle: 60 s.
    pub idle_time: Duration,
    /// Connections at one time: 10 000. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// Time that requests have to end when the server drains: 10 s.
    pub drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: 16 << 10,
            head_time: Duration::from_secs(10),
            body_bytes: 1 << 20,
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
            connections: 10_000,
            drain_time: Duration::from_secs(10),
        }
    }
}

/// An HTTP/1.1 server: see [`serve`](Server::serve).
#[derive(Debug, Clone, Default)]
pub struct Server {
    limits: Limits,
    placement: Placement,
}

/// A connection, as the server sees it.
#[derive(Debug)]
struct Connection {
    stream: Carrier,
    idle: AtomicBool,
}

/// All connections of a server that runs.
#[derive(Debug, Default)]
struct Connections {
    draining: AtomicBool,
    open: Mutex<(u64, BTreeMap<u64, Arc<Connection>>)>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Connection>>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a connection as idle; false if the server drains.
    fn enter_idle(&self, connection: &Connection) -> bool {
        connection.idle.store(true, Ordering::SeqCst); // pairs with the load in `drain`
        !self.draining.load(Ordering::SeqCst) // pairs with the store in `drain`
    }

    fn leave_idle(&self, connection: &Connection) {
        // Relaxed: if `drain` still sees it idle, its request was sent too late.
        connection.idle.store(false, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) // a hint: the next idle connection looks again
    }

    /// Ends all idle connections, and those that become idle later.
    fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst); // pairs with the load in `enter_idle`
        for connection in self.lock().1.values() {
            // Pairs with the store in `enter_idle`.
            if connection.idle.load(Ordering::SeqCst) {
                let _ = connection.stream.socket().shutdown(Shutdown::Read); // the peer may be gone
            }
        }
    }
}

impl Server {
    /// A server with the default limits.
    pub fn new() -> Server {
        Server::default()
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Server {
        self.limits = limits;
        self
    }

    /// Sets where the task of a connection starts; it stays there. By default it is the worker that
    /// has accepted the connection, or one that has nothing to do and takes it over. With
    /// [`Placement::Spread`] it is the first worker that has nothing else to do: better where
    /// connections live long and their requests compute, as no connection moves later.
    pub fn placement(mut self, placement: Placement) -> Server {
        self.placement = placement;
        self
    }

    /// Serves connections until `stop` is cancelled, then drains: idle connections end at once,
    /// requests within [`drain_time`](Limits::drain_time). Each connection is a task; `handler` is
    /// called there for each request, and an error of it becomes a response with status 500. A
    /// panic ends its connection alone.
    ///
    /// # Errors
    ///
    /// If the listener breaks, or the calling task is cancelled. Errors of single connections are
    /// no errors of the server.
    pub fn serve<H>(
        &self,
        cx: &Cx,
        listener: &TcpListener,
        stop: &CancelToken,
        handler: H,
    ) -> parcae::Result<()>
    where
        H: Fn(&Cx, &mut Request<'_, '_>) -> parcae::Result<Response> + Sync,
    {
        self.serve_by(cx, listener, stop, |_, stream| Ok(stream.into()), handler)
    }

    /// As [`serve`](Server::serve), by TLS: HTTPS. The task of a connection makes the handshake,
    /// for which the acceptor has a limit of its own; a handshake that fails ends its connection
    /// alone, and draining ends handshakes at once. Protocols that the acceptor's configuration
    /// offers by ALPN, if any, have to be `http/1.1` alone.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae_io::http::{Client, Response, Server};
    /// use parcae_io::net::TcpListener;
    /// use parcae_io::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    /// use parcae_io::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// use parcae_io::tls::{TlsAcceptor, TlsConnector};
    /// use std::sync::Arc;
    ///
    /// # const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/tls");
    /// # std::env::set_current_dir(DIR)?;
    /// let chain = vec![CertificateDer::from_pem_file("server.pem")?];
    /// let key = PrivateKeyDer::from_pem_file("server.key")?;
    /// let server = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    /// let acceptor = TlsAcceptor::new(Arc::new(server));
    ///
    /// let mut roots = RootCertStore::empty();
    /// roots.add(CertificateDer::from_pem_file("ca.pem")?)?;
    /// let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    /// let client = Client::new().tls(TlsConnector::new(Arc::new(client)));
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// rt.run(|cx| {
    ///     let (listener, stop) = (TcpListener::bind("127.0.0.1:0")?, CancelToken::new());
    ///     let port = listener.local_addr()?.port();
    ///     cx.nursery(|n| {
    ///         n.spawn(|cx| {
    ///             Server::new().serve_tls(cx, &listener, &acceptor, &stop, |_, request| {
    ///                 let version = request.with_tls(|tls| tls.protocol_version()).flatten();
    ///                 Ok(Response::text(format!("{} by {version:?}", request.path())))
    ///             })
    ///         })?;
    ///         let answer = client.get(&format!("https://localhost:{port}/bread"))?;
    ///         assert_eq!(answer.text(), Some("/bread by Some(TLSv1_3)"));
    ///         stop.cancel();
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`serve`](Server::serve).
    #[cfg(feature = "tls")]
    pub fn serve_tls<H>(
        &self,
        cx: &Cx,
        listener: &TcpListener,
        acceptor: &TlsAcceptor,
        stop: &CancelToken,
        handler: H,
    ) -> parcae::Result<()>
    where
        H: Fn(&Cx, &mut Request<'_, '_>) -> parcae::Result<Response> + Sync,
    {
        // No request has begun: draining need not wait for a handshake.
        let secure = |cx: &Cx, stream| {
            let opts = NurseryOpts::new().token(stop);
            cx.nursery_with(opts, |_| Ok(acceptor.accept(stream)?.into()))
        };
        self.serve_by(cx, listener, stop, secure, handler)
    }

    /// `secure` is called by the task of a connection, before its first request.
    fn serve_by<H>(
        &self,
        cx: &Cx,
        listener: &TcpListener,
        stop: &CancelToken,
        secure: impl Fn(&Cx, TcpStream) -> parcae::Result<Carrier> + Sync,
        handler: H,
    ) -> parcae::Result<()>
    where
        H: Fn(&Cx, &mut Request<'_, '_>) -> parcae::Result<Response> + Sync,
    {
        let (connections, cut) = (Connections::default(), CancelToken::new());
        let room = Arc::new(Semaphore::new(self.limits.connections));
        let opts = NurseryOpts::new().token(&cut).on_failure(OnFailure::Isolate);
        let mut outcome = Ok(());
        let served = cx.nursery_with(opts, |n| {
            let accepted = cx.nursery_with(NurseryOpts::new().token(stop), |_| {
                loop {
                    let place = room.acquire_owned(1)?;
                    let mut incoming = listener.incoming();
                    let Some(stream) = incoming.next().transpose()? else { return Ok(()) };
                    let (connections, secure, handler) = (&connections, &secure, &handler);
                    let opts = SpawnOpts::new().placement(self.placement);
                    n.spawn_with(opts, move |cx| {
                        if let Ok(stream) = secure(cx, stream) {
                            self.connection(cx, connections, stream, handler);
                        }
                        drop(place);
                        Ok(())
                    })?;
                }
            });
            connections.drain();
            match accepted {
                Err(error) if !error.is_cancelled() => outcome = Err(error),
                Err(_) | Ok(()) => {}
            }
            cx.checkpoint()?; // the server itself may be cancelled
            // All places are free when all connections have ended.
            let all = self.limits.connections;
            let ended = room.acquire_timeout(all, self.limits.drain_time);
            if ended.is_err_and(|error| error.is_timed_out()) {
                cut.cancel();
            }
            Ok(())
        });
        match served {
            // Connections that were cut; and panics of handlers, which end their connections alone
            // and were printed by the panic hook.
            Err(error) if error.is_panic() || (error.is_cancelled() && cut.is_cancelled()) => {
                outcome
            }
            other => other.and(outcome),
        }
    }

    /// One connection, from its first request to its end.
    fn connection<H>(&self, cx: &Cx, all: &Connections, stream: Carrier, handler: &H)
    where
        H: Fn(&Cx, &mut Request<'_, '_>) -> parcae::Result<Response>,
    {
        struct Listed<'a>(&'a Connections, u64);
        impl Drop for Listed<'_> {
            fn drop(&mut self) {
                self.0.lock().1.remove(&self.1);
            }
        }
        let connection = Arc::new(Connection { stream, idle: AtomicBool::new(false) });
        let mut open = all.lock();
        let number = open.0;
        open.0 += 1;
        open.1.insert(number, Arc::clone(&connection));
        drop(open);
        let listed = Listed(all, number);
        let rest = self.requests(cx, all, &connection, handler);
        drop(listed);
        let (Ok(rest), Some(connection)) = (rest, Arc::into_inner(connection)) else { return };
        let _ = match rest {
            Rest::None => connection.stream.close(FAREWELL),
            // The peer has not sent all, or was refused: it should read the answer before a reset.
            Rest::Unread => connection.stream.close_gracefully(FAREWELL),
        };
    }

    /// The requests of a connection. An error is one of the connection: there is no one to tell.
    fn requests<H>(
        &self,
        cx: &Cx,
        all: &Connections,
        connection: &Connection,
        handler: &H,
    ) -> io::Result<Rest>
    where
        H: Fn(&Cx, &mut Request<'_, '_>) -> parcae::Result<Response>,
    {
        let (stream, limits) = (&connection.stream, &self.limits);
        stream.socket().set_write_timeout(Some(limits.write_time))?;
        let mut wire = Wire::new(stream);
        let (mut out, mut spare, alarm) = (Vec::new(), Fields::default(), Alarm::default());
        loop {
            let head = match self.head(all, connection, (&mut wire, &alarm), &mut out, spare)? {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(Rest::None),
                Err(refused) => return refuse(stream, out, refused),
            };
            let framing = match head.fields.framing() {
                Ok(framing) => framing,
                Err(refused) => return refuse(stream, out, refused),
            };
            let mut left = match framing {
                Framing::None => Left::NONE,
                Framing::Length(length) if length > limits.body_bytes => {
                    return refuse(stream, out, Refused(413, "the body is too large"));
                }
                Framing::Length(length) => Left::Bytes(length),
                Framing::Chunked => Left::Chunks(None),
            };
            let mut room = limits.body_bytes;
            let keeps = head.fields.has_token(Known::Connection, "keep-alive");
            let closes = head.fields.has_token(Known::Connection, "close")
                || (head.minor == 0 && !keeps)
                || all.is_draining();
            let waits = left != Left::NONE && head.fields.has_token(Known::Expect, "100-continue");
            if left != Left::NONE {
                wire.limit(Some(limits.body_time));
            }
            let asked = Asked { head_only: head.is_head(), closes, minor: head.minor };
            let mut request = Request {
                head,
                stream,
                wire: &mut wire,
                out: &mut out,
                left: &mut left,
                room: &mut room,
                waits,
            };
            let response = match handler(cx, &mut request) {
                Ok(response) => response,
                Err(error) if error.is_cancelled() && cx.is_cancelled() => {
                    return Err(io::Error::other(error.into_std()));
                }
                Err(_) => Response::new(500),
            };
            let Request { head, waits, .. } = request;
            spare = head.fields;
            // A body that the client was not asked for, or that is not read to its end, would be
            // taken for the next request.
            let skipped = !waits && skip(&mut wire, &mut left, &mut room).is_ok();
            let closes = closes || !skipped || response.ends_with_connection(asked.minor);
            response.write(&mut out, stream, Asked { closes, ..asked })?;
            if closes || out.len() >= COLLECTED {
                (&mut &*stream).write_all(&out)?;
                out.clear();
            }
            if closes {
                return Ok(Rest::Unread);
            }
        }
    }

    /// The head of the next request; `None` at the end of the connection. Responses that were
    /// collected are written before it waits.
    fn head(
        &self,
        all: &Connections,
        connection: &Connection,
        (wire, alarm): (&mut Wire<&Carrier>, &Alarm),
        out: &mut Vec<u8>,
        spare: Fields,
    ) -> io::Result<Result<Option<RequestHead>, Refused>> {
        let limits = &self.limits;
        let mut searched = 0;
        let mut has_begun = false;
        loop {
            if wire.bytes().starts_with(b"\r\n") {
                wire.consume(2); // an empty line before a request is passed over
                searched = 0;
                continue;
            }
            if let Some(end) = head::end_of_head(wire.bytes(), searched) {
                if end > limits.head_bytes {
                    return Ok(Err(Refused(431, "the head is too large")));
                }
                let parsed = head::request(&wire.bytes()[..end], spare);
                wire.consume(end);
                return Ok(parsed.map(Some));
            }
            searched = wire.bytes().len();
            if searched > limits.head_bytes {
                return Ok(Err(Refused(431, "the head is too large")));
            }
            if !out.is_empty() {
                (&mut &connection.stream).write_all(out)?;
                out.clear();
            }
            if searched > 0 && !has_begun {
                has_begun = true;
                wire.limit(Some(limits.head_time));
            }
            let read = if has_begun {
                wire.fill()
            } else {
                let idle = Limit::Alarm(limits.idle_time, alarm);
                let goes_on = all.enter_idle(connection);
                let read = if goes_on { wire.fill_limited(idle) } else { Ok(0) };
                all.leave_idle(connection);
                read
            };
            match read {
                Ok(0) => return Ok(Ok(None)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut && has_begun => {
                    return Ok(Err(Refused(408, "the head took too long")));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Ok(None)),
                // TLS that is cut, by the peer or by draining, and not in a request.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !has_begun => {
                    return Ok(Ok(None));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The state in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    /// The peer may still send, or read.
    Unread,
}

/// Answers a request that cannot be served; the connection ends.
fn refuse(mut stream: &Carrier, mut out: Vec<u8>, refused: Refused) -> io::Result<Rest> {
    let response = Response::new(refused.0).header("Content-Type", "text/plain");
    let asked = Asked { head_only: false, closes: true, minor: 1 };
    response.body(format!("{}\n", refused.1)).write(&mut out, io::sink(), asked)?;
    stream.write_all(&out)?;
    Ok(Rest::Unread)
}

/// Reads the rest of a body.
fn skip(wire: &mut Wire<&Carrier>, left: &mut Left, room: &mut u64) -> io::Result<()> {
    if *left != Left::NONE {
        io::copy(&mut Body { wire, left, room }, &mut io::sink())?;
    }
    Ok(())
}

/// A request, as a handler sees it.
#[derive(Debug)]
pub struct Request<'r, 's> {
    head: RequestHead,
    stream: &'s Carrier,
    wire: &'r mut Wire<&'s Carrier>,
    out: &'r mut Vec<u8>,
    left: &'r mut Left,
    room: &'r mut u64,
    /// The client waits for a word before it sends the body.
    waits: bool,
}

impl<'s> Request<'_, 's> {
    /// The method, in capitals: `GET`.
    pub fn method(&self) -> &str {
        self.head.method()
    }

    /// The target as it was sent: `/path?query`.
    pub fn target(&self) -> &str {
        self.head.target()
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// The first value of a header field, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.fields.all(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All header fields, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.head.fields.iter()
    }

    /// The address of the client.
    ///
    /// # Errors
    ///
    /// If the socket has none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.socket().peer_addr()
    }

    /// Looks at the TLS connection: version, certificates of the client, server name; `None`
    /// without TLS.
    #[cfg(feature = "tls")]
    pub fn with_tls<R>(&self, look: impl FnOnce(&rustls::Connection) -> R) -> Option<R> {
        match self.stream {
            Carrier::Plain(_) => None,
            Carrier::Tls(stream) => Some(stream.with_connection(look)),
        }
    }

    /// The body, to be read. Reading fails if it is larger than the limit, comes too slowly or is
    /// no HTTP.
    ///
    /// # Errors
    ///
    /// If the client cannot be told that it may send the body.
    pub fn body(&mut self) -> io::Result<Body<'_, 's>> {
        if std::mem::replace(&mut self.waits, false) {
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            let mut stream = self.stream;
            stream.write_all(self.out)?;
            self.out.clear();
        }
        Ok(Body { wire: self.wire, left: self.left, room: self.room })
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// As for reading [`body`](Request::body).
    pub fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.body()?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
