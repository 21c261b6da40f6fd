//! Arguments that name sockets: addresses, and names of hosts that have to be resolved.

use crate::authority::Authority;
use crate::dns;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An argument of `bind` and `connect`, as `std::net::ToSocketAddrs`: an address, several of them,
/// or a host and a port. The name of a host is resolved without blocking a worker.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::ToSocketAddrs;
///
/// let rt = Runtime::builder().build()?;
/// rt.run(|_| {
///     for address in "localhost:80".resolve()? {
///         assert!(address.ip().is_loopback() && address.port() == 80);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// The addresses, in order of preference. A cancel point if a name has to be resolved.
    ///
    /// # Errors
    ///
    /// For a text that is no address and no `host:port`; for a name that is not known; if the task
    /// is cancelled.
    fn resolve(&self) -> io::Result<Addresses>;

    /// As [`resolve`](ToSocketAddrs::resolve), and asks for a name only if `may_ask` allows it: for
    /// calls that show a capability.
    ///
    /// # Errors
    ///
    /// Those of `may_ask`, and of [`resolve`](ToSocketAddrs::resolve).
    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        may_ask()?;
        self.resolve()
    }
}

/// The check of calls that show no capability.
fn implicit() -> io::Result<()> {
    Authority::implicit()?.names()
}

/// The addresses of a socket: see [`ToSocketAddrs`].
#[derive(Debug, Clone)]
pub struct Addresses(List);

#[derive(Debug, Clone)]
enum List {
    One(Option<SocketAddr>),
    Many(std::vec::IntoIter<SocketAddr>),
}

impl Addresses {
    /// These addresses, for other implementations of [`ToSocketAddrs`].
    pub fn new(addresses: Vec<SocketAddr>) -> Addresses {
        match addresses[..] {
            [one] => Addresses::one(one),
            _ => Addresses(List::Many(addresses.into_iter())),
        }
    }

    fn one(address: SocketAddr) -> Addresses {
        Addresses(List::One(Some(address)))
    }
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match &mut self.0 {
            List::One(address) => address.take(),
            List::Many(addresses) => addresses.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            List::One(address) => usize::from(address.is_some()),
            List::Many(addresses) => addresses.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Addresses {}

/// The addresses of a host, with the families in turn (RFC 8305, section 4): if one of them does
/// not work, the second attempt tries the other.
fn of_host(host: &str, port: u16, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
    if let Some(ip) = dns::literal(host) {
        return Ok(Addresses::one(SocketAddr::new(ip, port)));
    }
    may_ask()?;
    let ips = dns::lookup_name(host)?;
    let addresses: Vec<_> = in_turn(ips).map(|ip| SocketAddr::new(ip, port)).collect();
    if addresses.is_empty() {
        let text = format!("the name `{host}` has no address");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(Addresses::new(addresses))
}

/// The families in turn, beginning with that of the first address.
fn in_turn(ips: Vec<IpAddr>) -> impl Iterator<Item = IpAddr> {
    let first = ips.first().is_some_and(IpAddr::is_ipv6);
    let (preferred, others): (Vec<_>, Vec<_>) =
        ips.into_iter().partition(|ip| ip.is_ipv6() == first);
    let (mut preferred, mut others) = (preferred.into_iter(), others.into_iter());
    let mut other = true;
    std::iter::from_fn(move || {
        other = !other;
        if other {
            others.next().or_else(|| preferred.next())
        } else {
            preferred.next().or_else(|| others.next())
        }
    })
}

impl ToSocketAddrs for str {
    fn resolve(&self) -> io::Result<Addresses> {
        self.resolve_for(&implicit)
    }

    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        if let Ok(address) = self.parse() {
            return Ok(Addresses::one(address));
        }
        let parts = self.rsplit_once(':').map(|(host, port)| (host, port.parse()));
        let Some((host, Ok(port))) = parts else {
            let text = format!("`{self}` is no address and no host with a port, as in `host:80`");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        of_host(host, port, may_ask)
    }
}

impl ToSocketAddrs for String {
    fn resolve(&self) -> io::Result<Addresses> {
        self.as_str().resolve()
    }

    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        self.as_str().resolve_for(may_ask)
    }
}

impl ToSocketAddrs for (&str, u16) {
    fn resolve(&self) -> io::Result<Addresses> {
        self.resolve_for(&implicit)
    }

    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        of_host(self.0, self.1, may_ask)
    }
}

impl ToSocketAddrs for (String, u16) {
    fn resolve(&self) -> io::Result<Addresses> {
        self.resolve_for(&implicit)
    }

    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        of_host(&self.0, self.1, may_ask)
    }
}

impl ToSocketAddrs for [SocketAddr] {
    fn resolve(&self) -> io::Result<Addresses> {
        Ok(Addresses::new(self.to_vec()))
    }

    fn resolve_for(&self, _: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        self.resolve()
    }
}

impl<const N: usize> ToSocketAddrs for [SocketAddr; N] {
    fn resolve(&self) -> io::Result<Addresses> {
        self.as_slice().resolve()
    }

    fn resolve_for(&self, _: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        self.resolve()
    }
}

impl<A: ToSocketAddrs + ?Sized> ToSocketAddrs for &A {
    fn resolve(&self) -> io::Result<Addresses> {
        (**self).resolve()
    }

    fn resolve_for(&self, may_ask: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
        (**self).resolve_for(may_ask)
    }
}

/// Implements it for types of one address.
macro_rules! one {
    ($($type:ty),*) => {$(
        impl ToSocketAddrs for $type {
            fn resolve(&self) -> io::Result<Addresses> {
                Ok(Addresses::one((*self).into()))
            }

            fn resolve_for(&self, _: &dyn Fn() -> io::Result<()>) -> io::Result<Addresses> {
                self.resolve()
            }
        }
    )*};
}

one!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_families_take_turns() {
        let four = |last| IpAddr::from([10, 0, 0, last]);
        let six = |last| IpAddr::from([0, 0, 0, 0, 0, 0, 1, last]);
        let given = vec![six(1), six(2), six(3), four(1)];
        let turns: Vec<_> = in_turn(given).collect();
        assert_eq!(turns, [six(1), four(1), six(2), six(3)]);
        let turns: Vec<_> = in_turn(vec![four(1), four(2), six(1)]).collect();
        assert_eq!(turns, [four(1), six(1), four(2)]);
    }

    #[test]
    fn a_text_without_a_port_is_refused() {
        for text in ["localhost", "localhost:", "localhost:99999", ""] {
            assert_eq!(text.resolve().unwrap_err().kind(), io::ErrorKind::InvalidInput, "{text}");
        }
        let one: Vec<_> = "[::1]:7".resolve().unwrap().collect();
        assert_eq!(one, ["[::1]:7".parse().unwrap()]);
    }
}
