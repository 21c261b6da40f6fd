//! Names of hosts in the simulated network.
//!
//! A question travels to the name server and back: two latencies of a link of its own. `localhost`
//! is known from the start.

use super::World;
use super::drive::{Stop, WaitList, operate};
use crate::source::ready::Direction;
use crate::source::{Limit, Operation};
use std::io;
use std::net::IpAddr;

/// Gives a host of the simulated network a name, in place of the one that it may have had. Without
/// addresses the name is unknown again.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_io::net::{TcpListener, TcpStream};
/// use parcae_io::sim;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// rt.run(|cx| {
///     sim::set_name("shop.example", &["10.0.0.1", "10.0.0.2"])?;
///     let listener = TcpListener::bind("10.0.0.2:80")?;
///     cx.nursery(|n| {
///         n.spawn(|_| Ok(TcpStream::connect("shop.example:80").map(drop)?))?;
///         listener.accept()?;
///         assert!(TcpStream::connect("other.example:80").is_err());
///         Ok(())
///     })
/// })?;
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// Outside of deterministic runtimes; for a text that is no address.
pub fn set_name(name: &str, addresses: &[&str]) -> io::Result<()> {
    let parse = |text: &&str| {
        text.parse::<IpAddr>().map_err(|error| {
            let text = format!("`{text}` is no address of a host: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    };
    let addresses = addresses.iter().map(parse).collect::<io::Result<Vec<_>>>()?;
    let world = World::here()?;
    let names = &mut world.net().names;
    if addresses.is_empty() {
        names.remove(name);
    } else {
        names.insert(name.into(), addresses);
    }
    Ok(())
}

/// The addresses of a host.
pub(crate) fn lookup(host: &str, cost: u64) -> io::Result<Vec<IpAddr>> {
    let world = World::here()?;
    let mut random = world.stream(&format!("name {host}"));
    let net = world.net();
    let time = net.latency(&mut random) + net.latency(&mut random);
    drop(net);
    let due = parcae::time::now() + time;
    let operation = Operation {
        direction: Direction::Read,
        cost,
        limit: Limit::Endless,
        what: "resolving",
        object: &host,
    };
    operate(operation, &WaitList::default(), || {
        if parcae::time::now() < due {
            return Err(Stop::Wait(Some(due)));
        }
        match world.net().names.get(host) {
            Some(addresses) => Ok(addresses.clone()),
            None if host == "localhost" => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            None => {
                let text = format!("the name `{host}` is not known in the simulated network");
                Err(Stop::Failed(io::Error::new(io::ErrorKind::NotFound, text)))
            }
        }
    })
}
