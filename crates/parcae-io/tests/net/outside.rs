//! Outside of tasks the same calls block the thread; real sockets are refused in a simulation.

use crate::support::{must_end, runtime, seeded};
use crate::{connected, listener};
use parcae_io::net::{TcpListener, TcpStream, UdpSocket};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

#[test]
fn threads_block() {
    must_end(|| {
        let (listener, address) = listener().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            stream.write_all(b"thread").unwrap();
        });
        let (mut server, _) = listener.accept().unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "thread");
        client.join().unwrap();
        let (_idle, mut stream) = connected().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let late = stream.read(&mut [0; 1]).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn a_thread_and_a_task_talk() {
    let rt = runtime(2);
    let (listener, address) = listener().unwrap();
    let client = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"plain").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    rt.run(|_| {
        let (mut stream, _) = listener.accept()?;
        let mut word = [0; 5];
        stream.read_exact(&mut word)?;
        Ok(stream.write_all(b"fiber")?)
    })
    .unwrap();
    assert_eq!(client.join().unwrap(), "fiber");
}

#[test]
fn sockets_of_the_standard_library_come_and_go() {
    let rt = runtime(1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::net::TcpStream::connect(address).unwrap();
    let (listener, mut client, mut server) = rt
        .run(|cx| {
            let listener = TcpListener::from_std(listener)?;
            let (mut server, _) = listener.accept()?;
            let mut client = TcpStream::from_std(client)?;
            assert!(connected()?.1.nodelay()?, "inherited from the listener");
            cx.nursery(|n| {
                n.spawn(|_| Ok(server.read_exact(&mut [0; 3])?))?;
                cx.sleep(Duration::from_millis(1))?;
                Ok(client.write_all(b"abc")?)
            })?;
            assert!(client.as_fd().try_clone_to_owned().is_ok());
            Ok((listener.into_std()?, client.into_std()?, server.into_std()?))
        })
        .unwrap();
    drop(listener);
    // Blocking again, and registered nowhere.
    let reader = std::thread::spawn(move || server.read_exact(&mut [0; 1]));
    client.write_all(b"d").unwrap();
    reader.join().unwrap().unwrap();
}

#[test]
fn real_sockets_are_refused_in_a_simulation() {
    let (client, mut server) = connected().unwrap();
    let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = seeded(1)
        .run(|_| {
            assert!(UdpSocket::from_std(plain).is_err());
            Ok(server.read(&mut [0; 1])?)
        })
        .unwrap_err();
    assert!(error.to_string().contains("could not be replayed"), "{error}");
    drop(client);
    // And the reverse.
    let simulated = seeded(1).run(|_| Ok(connected()?)).unwrap();
    let error = (&simulated.0).write(b"x").unwrap_err();
    assert!(error.to_string().contains("simulated network"), "{error}");
    let error = simulated.0.into_std().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}
