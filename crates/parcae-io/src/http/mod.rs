//! HTTP/1.1: a server and a client, as straight-line code on fibers.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_io::http::{Client, Response, Server};
//! use parcae_io::net::TcpListener;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! rt.run(|cx| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let stop = CancelToken::new();
//!     cx.nursery(|n| {
//!         n.spawn(|cx| {
//!             Server::new().serve(cx, &listener, &stop, |_, request| {
//!                 Ok(Response::text(format!("you asked for {}", request.target())))
//!             })
//!         })?;
//!         let answer = Client::new().get(&format!("http://{address}/bread"))?;
//!         assert_eq!((answer.status(), answer.body()), (200, &b"you asked for /bread"[..]));
//!         stop.cancel();
//!         Ok(())
//!     })
//! })?;
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `head` | the grammar of heads, strict where leniency lets requests be smuggled |
//! | `scan` | searching bytes |
//! | `body` | the framing of bodies: by length, in chunks, to the end |
//! | `carrier` | the stream below: a socket, or TLS on it |
//! | `wire` | the bytes of a connection that were read and not used, and deadlines |
//! | `server` | the loop of a connection, limits, draining |
//! | `reply` | answers whose bodies are read as they come |
//! | `client` | requests over connections that are kept |
//!
//! With the feature `tls` the server speaks HTTPS by `Server::serve_tls`, and the client by
//! `Client::tls`. Not here: HTTP/2, compression, WebSockets.

mod body;
mod carrier;
mod client;
mod head;
mod reply;
mod response;
mod scan;
mod server;
mod wire;

pub use body::Body;
pub use client::{Answer, Client, Outgoing};
pub use reply::Reply;
pub use response::Response;
pub use server::{Limits, Request, Server};
