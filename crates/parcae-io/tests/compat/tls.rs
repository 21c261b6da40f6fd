//! TLS against itself and against OpenSSL.

use super::*;
use parcae_io::tls::rustls::pki_types::pem::PemObject;
use parcae_io::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use parcae_io::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use parcae_io::tls::{TlsAcceptor, TlsConnector, TlsStream};
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

// Made by OpenSSL for these tests: Ed25519, valid for a hundred years, for localhost.
const AUTHORITY: &[u8] = include_bytes!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");

pub(crate) fn acceptor() -> TlsAcceptor {
    acceptor_for(&[])
}

/// One that offers these protocols.
pub(crate) fn acceptor_for(protocols: &[&[u8]]) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::new(Arc::new(config))
}

pub(crate) fn connector() -> TlsConnector {
    connector_for(AUTHORITY)
}

/// One that knows these authorities.
pub(crate) fn connector_for(authorities: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(authority.unwrap()).unwrap();
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::new(Arc::new(config))
}

/// Both ends of a connection by TLS: the client's, the server's.
fn secured(cx: &Cx) -> parcae::Result<(TlsStream<TcpStream>, TlsStream<TcpStream>)> {
    let (client, server) = connected()?;
    cx.nursery(|n| {
        let server = n.spawn(move |_| Ok(acceptor().accept(server)?))?;
        let client = connector().connect("localhost", client)?;
        Ok((client, server.join()?))
    })
}

#[test]
fn both_sides_write_at_once() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            let (client, server) = secured(cx)?;
            let sent = pattern(200_000);
            cx.nursery(|n| {
                // More than all buffers together: each side reads while it cannot write.
                for stream in [&client, &server] {
                    let sent = &sent;
                    n.spawn(move |_| {
                        let mut stream = stream;
                        stream.write_all(sent)?;
                        Ok(stream.close()?)
                    })?;
                    n.spawn(move |_| {
                        let (mut stream, mut got) = (stream, Vec::new());
                        stream.read_to_end(&mut got)?;
                        assert!(got == *sent);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
    });
}

/// Writes until the peer takes no more, and gives up. Returns the number of bytes written.
fn stuff(mut stream: &TlsStream<TcpStream>) -> std::io::Result<usize> {
    let chunk = pattern(10_000);
    stream.get_ref().set_write_timeout(Some(Duration::from_millis(30)))?;
    let mut written = 0;
    loop {
        written += chunk.len(); // also of the last one, which is sent later
        match stream.write(&chunk) {
            Ok(length) => assert_eq!(length, chunk.len()),
            Err(error) if error.kind() == ErrorKind::TimedOut => break,
            Err(error) => return Err(error),
        }
    }
    stream.get_ref().set_write_timeout(None)?;
    Ok(written)
}

/// Both sides have filled their sockets and have bytes left that they must send: neither may wait
/// for the other to read before it reads itself. The writes that were cut short are no tear in the
/// stream, and keys change meanwhile.
#[test]
fn both_sides_must_send_while_their_sockets_are_full() {
    everywhere(10, |rt| {
        rt.run(|cx| {
            let (client, server) = secured(cx)?;
            let streams = [&client, &server];
            for stream in streams {
                stream.refresh_keys()?;
            }
            let written = [stuff(&client)?, stuff(&server)?];
            let chunk = pattern(10_000);
            cx.nursery(|n| {
                for (mut stream, length) in streams.into_iter().zip([written[1], written[0]]) {
                    let chunk = &chunk;
                    n.spawn(move |_| {
                        let mut buffer = vec![0; 10_000];
                        for _ in 0..length / chunk.len() {
                            stream.read_exact(&mut buffer)?;
                            assert!(buffer == *chunk);
                        }
                        Ok(stream.flush()?)
                    })?;
                }
                Ok(())
            })?;
            for mut stream in streams {
                stream.refresh_keys()?;
                stream.write_all(b"and on")?;
            }
            for mut stream in streams {
                let mut text = [0; 6];
                stream.read_exact(&mut text)?;
                assert_eq!(&text, b"and on");
            }
            Ok(())
        })
    });
}

/// The server has tickets to send after the handshake, for which there is no room, and the client
/// writes a long request before it reads.
#[test]
fn a_server_with_output_reads_on() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let outcome = rt.run(|cx| {
            parcae_io::sim::set_buffer(50)?;
            let (client, server) = connected()?;
            cx.nursery(|n| {
                n.spawn(move |_| {
                    let mut server = acceptor().accept(server)?;
                    let mut request = vec![0; 5_000];
                    server.read_exact(&mut request)?;
                    assert!(request == pattern(5_000));
                    server.write_all(b"answer")?;
                    Ok(server.close()?)
                })?;
                let mut client = connector().connect("localhost", client)?;
                client.write_all(&pattern(5_000))?;
                let mut answer = String::new();
                client.read_to_string(&mut answer)?;
                assert_eq!(answer, "answer");
                Ok(())
            })
        });
        outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The same as above on threads, without a runtime.
#[test]
fn threads_must_send_while_their_sockets_are_full() {
    let (client, server) = connected().unwrap();
    let [client, server] = std::thread::scope(|threads| {
        let server = threads.spawn(|| acceptor().accept(server).unwrap());
        [connector().connect("localhost", client).unwrap(), server.join().unwrap()]
    });
    client.refresh_keys().unwrap();
    server.refresh_keys().unwrap();
    let written = [stuff(&client).unwrap(), stuff(&server).unwrap()];
    std::thread::scope(|threads| {
        for (mut stream, length) in [(&client, written[1]), (&server, written[0])] {
            threads.spawn(move || {
                stream.read_exact(&mut vec![0; length]).unwrap();
                stream.flush().unwrap();
            });
        }
    });
}

#[test]
fn a_stream_that_is_cut_is_an_error() {
    everywhere(10, |rt| {
        rt.run(|cx| {
            let (mut client, mut server) = secured(cx)?;
            client.write_all(b"half a sen")?;
            client.get_ref().shutdown(std::net::Shutdown::Write)?; // without `close_notify`
            let mut text = [0; 10];
            server.read_exact(&mut text)?;
            assert_eq!(&text, b"half a sen");
            let error = server.read(&mut text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            Ok(())
        })
    });
}

#[test]
fn a_wrong_name_is_refused_by_both() {
    everywhere(5, |rt| {
        rt.run(|cx| {
            let (client, server) = connected()?;
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let server = n.spawn(move |_| Ok(acceptor().accept(server)?))?;
                let error = connector().connect("example.org", client).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidData);
                assert!(error.to_string().contains("not valid for name"), "{error}");
                // The client's alert; or a reset, if the client had not read all before it gave up.
                assert!(server.join().is_err());
                Ok(())
            })
        })
    });
}

#[test]
fn a_silent_client_is_given_up() {
    everywhere(5, |rt| {
        rt.run(|_| {
            let (client, server) = connected()?;
            let patient = acceptor().handshake_timeout(Duration::from_millis(30));
            let error = patient.accept(server).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            drop(client);
            Ok(())
        })
    });
}

#[test]
fn a_handshake_is_cancelled_promptly() {
    everywhere(10, |rt| {
        let outcome = rt.run(|cx| {
            let (_client, server) = connected()?;
            cx.nursery(|n| {
                n.spawn(move |_| Ok(acceptor().accept(server).map(drop)?))?;
                cx.sleep(Duration::from_millis(1))?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

/// Keys have another value in each run, and so have the bytes; the course of the run is the same.
#[test]
fn a_run_is_replayed_from_its_seed() {
    let run = |seed| {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            let (mut client, mut server) = secured(cx)?;
            cx.nursery(|n| {
                n.spawn(move |_| {
                    client.write_all(&pattern(10_000))?;
                    Ok(client.close_gracefully(Duration::from_secs(5))?)
                })?;
                let mut got = Vec::new();
                server.read_to_end(&mut got)?;
                assert!(got == pattern(10_000));
                Ok(server.close()?)
            })
        })
        .unwrap();
        rt.event_log()
    };
    assert_eq!(run(5), run(5));
}

#[test]
fn openssl_connects_to_it() {
    let Some(openssl) = tool("openssl") else { return };
    let rt = Runtime::builder().workers(2).build().unwrap();
    let text = rt.run(|cx| {
        let (listener, address) = listener()?;
        cx.nursery(|n| {
            n.spawn(move |_| {
                let mut stream = acceptor().accept(listener.accept()?.0)?;
                let mut word = [0; 6];
                stream.read_exact(&mut word)?;
                stream.write_all(b"got ")?;
                stream.write_all(&word)?;
                Ok(stream.close()?)
            })?;
            let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/tls/ca.pem");
            let output = parcae::blocking(|| {
                let mut child = Command::new(&openssl)
                    .args(["s_client", "-quiet", "-verify_return_error", "-CAfile", authority])
                    .args(["-servername", "localhost", "-connect", &address.to_string()])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()?;
                let mut input = child.stdin.take().unwrap();
                input.write_all(b"hello\n")?;
                let output = child.wait_with_output(); // `input` is open until the server is done
                drop(input);
                output
            })??;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    });
    assert_eq!(text.unwrap(), "got hello\n");
}

#[test]
fn it_connects_to_openssl() {
    let Some(openssl) = tool("openssl") else { return };
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|_| {
        // A free port: `s_server` does not say which one it has got.
        let (listener, address) = listener()?;
        drop(listener);
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compat/tls");
        let mut server = Command::new(&openssl)
            .args(["s_server", "-quiet", "-rev", "-naccept", "1"])
            .args(["-accept", &address.to_string()])
            .args(["-cert", &format!("{files}/server.pem"), "-key", &format!("{files}/server.key")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let answer = (|| -> parcae::Result<[u8; 6]> {
            let mut tries = 0;
            let stream = loop {
                match TcpStream::connect(address) {
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused && tries < 500 => {
                        tries += 1;
                        parcae::time::sleep(Duration::from_millis(20))?;
                    }
                    connected => break connected?,
                }
            };
            let mut stream = connector().connect("localhost", stream)?;
            stream.write_all(b"hello\n")?;
            let mut line = [0; 6];
            stream.read_exact(&mut line)?;
            stream.close()?;
            Ok(line)
        })();
        let _ = server.kill(); // it may have ended
        server.wait()?;
        assert_eq!(&answer?, b"olleh\n"); // `-rev`
        Ok(())
    })
    .unwrap();
}
