//! Datagrams: whole or not at all.

use crate::support::{everywhere, everywhere_seeded};
use parcae_io::net::{UdpSocket, UnixDatagram};

#[test]
fn datagrams_come_whole() {
    everywhere(|cx| {
        let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let address = here.local_addr()?;
        let sender = there.local_addr()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                there.connect(address)?;
                for length in 1..=20 {
                    there.send(&vec![length as u8; length])?;
                }
                Ok(())
            })?;
            let mut seen = [false; 21];
            for _ in 1..=20 {
                let mut buffer = [0; 64];
                let (length, from) = here.recv_from(&mut buffer)?;
                assert_eq!(from, sender);
                assert!(buffer[..length].iter().all(|byte| usize::from(*byte) == length));
                assert!(!std::mem::replace(&mut seen[length], true), "twice");
            }
            Ok(())
        })
    });
}

#[test]
fn a_short_buffer_cuts_a_datagram() {
    everywhere(|_| {
        let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        there.send_to(b"long", here.local_addr()?)?;
        let mut buffer = [0; 2];
        assert_eq!(here.recv(&mut buffer)?, 2);
        assert_eq!(&buffer, b"lo");
        assert!(there.send(b"no peer").is_err());
        Ok(())
    });
}

#[test]
fn unix_datagrams_keep_their_order() {
    everywhere_seeded(|cx, number| {
        let name = format!("parcae-io-datagram-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let here = UnixDatagram::bind(&path)?;
        cx.nursery(|n| {
            let path = &path;
            n.spawn(move |_| {
                let there = UnixDatagram::unbound()?;
                (0..100_u8).try_for_each(|one| there.send_to(&[one], path).map(drop))?;
                Ok(())
            })?;
            for one in 0..100_u8 {
                let mut buffer = [0; 4];
                assert_eq!((here.recv(&mut buffer)?, buffer[0]), (1, one));
            }
            Ok(())
        })?;
        let _ = std::fs::remove_file(&path);
        Ok(())
    });
}
