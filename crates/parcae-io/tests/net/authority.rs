//! Authority: sets of addresses, directories and programs; limits of open descriptors; the same on
//! the simulated network and on epoll.

use crate::files::Folder;
use crate::support::{everywhere, schedules, with_runtimes};
use crate::{echo, listener};
use parcae::cap::{
    AddressSet, AuditEvent, CapError, CapNet, Delegation, ExecLimits, FsAccess, FsLimits,
    NetLimits, ProgramSet,
};
use parcae::prelude::*;
use parcae::profile::Sovereign;
use parcae_io::fs::{self, Dir, File};
use parcae_io::http::{Client, Outgoing};
use parcae_io::net::{
    TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream, lookup_host,
    lookup_host_under,
};
use parcae_io::process::Command;
use parcae_io::sim::{self, ProgramEnd};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

fn limits(bind: &str, connect: &str, max_sockets: u32) -> NetLimits {
    let set = |text: &str| match text {
        "" => AddressSet::NONE,
        "*" => AddressSet::ANY,
        text => text.parse().unwrap(),
    };
    NetLimits { bind: set(bind), connect: set(connect), max_sockets }
}

/// The refusal that an error carries.
fn refusal(error: io::Error) -> CapError {
    let kind = error.kind();
    assert!(matches!(kind, ErrorKind::PermissionDenied | ErrorKind::QuotaExceeded), "{error}");
    match parcae::Error::from(error).kind() {
        parcae::ErrorKind::Capability(refused) => *refused,
        other => panic!("{other:?}"),
    }
}

fn denied<T>(outcome: io::Result<T>) -> CapError {
    refusal(outcome.map(drop).unwrap_err())
}

#[test]
fn a_nursery_reaches_the_addresses_of_its_capability() {
    with_runtimes(|rt| {
        let cap = rt.cap_net(limits("", "127.0.0.1:*", 8), Delegation::Allowed);
        rt.run(|cx| {
            let (listener, address) = listener()?;
            let elsewhere: SocketAddr = "127.0.0.9:80".parse().unwrap();
            cx.nursery_with(NurseryOpts::new().net(&cap), |n| {
                // Also tasks of a nursery inside.
                n.spawn(move |cx| {
                    cx.nursery(|n| {
                        n.spawn(move |_| {
                            let stream = TcpStream::connect(address)?;
                            let refused = denied(TcpStream::connect(elsewhere));
                            assert!(matches!(refused, CapError::AddressDenied { address, .. }
                                    if address == elsewhere));
                            // One of several: those that are allowed are tried.
                            drop(TcpStream::connect([elsewhere, address])?);
                            denied(TcpListener::bind("127.0.0.1:0"));
                            denied(UdpSocket::bind("127.0.0.1:0"));
                            denied(UnixStream::connect("/some/path"));
                            denied(UnixListener::bind("/some/path"));
                            drop(UnixStream::pair()?);
                            drop(stream);
                            Ok(())
                        })?
                        .join()
                    })
                })?
                .join()
            })?;
            drop(listener);
            // Outside of the nursery all is as before.
            drop(UdpSocket::bind("127.0.0.1:0")?);
            assert_eq!(cap.live(), 0, "all sockets are closed");
            Ok(())
        })
        .unwrap();
        let denials = rt.audit().drain();
        let denials = denials.iter().filter(|entry| matches!(entry.event, AuditEvent::Denied(_)));
        assert_eq!(denials.map(|entry| entry.times).sum::<u64>(), 6, "they are in the log");
    });
}

#[test]
fn names_need_a_capability_that_connects() {
    with_runtimes(|rt| {
        let none = rt.cap_net(limits("*", "", 8), Delegation::Forbidden);
        let some = rt.cap_net(limits("", "127.0.0.1:*, [::1]:*", 8), Delegation::Forbidden);
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().net(&none), |n| {
                n.spawn(|_| {
                    assert!(matches!(
                        denied(lookup_host("localhost")),
                        CapError::NamesDenied { .. }
                    ));
                    denied(TcpStream::connect("localhost:80"));
                    assert!(lookup_host("127.0.0.1").is_ok(), "a literal asks no one");
                    Ok(())
                })?
                .join()
            })?;
            assert!(TcpStream::connect_under(&none, "localhost:1").is_err());
            cx.nursery_with(NurseryOpts::new().net(&some), |n| {
                n.spawn(|_| Ok(lookup_host("localhost").map(drop)?))?.join()
            })
        })
        .unwrap();
    });
}

#[test]
fn a_datagram_socket_sends_to_its_set() {
    with_runtimes(|rt| {
        let cap = rt.cap_net(limits("127.0.0.1:*", "127.0.0.1:*", 8), Delegation::Forbidden);
        rt.run(|_| {
            let socket = UdpSocket::bind_under(&cap, "127.0.0.1:0")?;
            let peer = UdpSocket::bind("127.0.0.1:0")?;
            socket.send_to(b"knock", peer.local_addr()?)?;
            let denied_to = denied(socket.send_to(b"knock", "127.0.0.2:9"));
            assert!(matches!(denied_to, CapError::AddressDenied { .. }));
            denied(socket.connect("127.0.0.2:9"));
            assert_eq!(cap.live(), 1);
            Ok(())
        })
        .unwrap();
    });
}

/// A plugin may have three sockets: its listener and two connections. The third client waits in the
/// queue until one of them is closed; sockets of others are not affected.
#[test]
fn a_plugin_cannot_use_up_the_descriptors() {
    with_runtimes(|rt| {
        let cap = rt.cap_net(limits("127.0.0.1:*", "", 3), Delegation::Forbidden);
        rt.run(|cx| {
            let stop = CancelToken::new();
            let opts = NurseryOpts::new().net(&cap).token(&stop);
            let (tell, told) = parcae::channel::channel(1);
            let served = cx.nursery(|n| {
                n.spawn(|cx| {
                    let served = cx.nursery_with(opts, |n| {
                        let plugin = n.spawn(|_| {
                            let listener = TcpListener::bind("127.0.0.1:0")?;
                            tell.send(listener.local_addr()?)?;
                            for stream in listener.incoming() {
                                let stream = stream?;
                                n.spawn(move |_| Ok(echo(stream).map(drop)?))?;
                            }
                            Ok(())
                        })?;
                        plugin.join()
                    });
                    crate::unless_cancelled(served)
                })?;
                let address = told.recv()?;
                let mut clients: Vec<TcpStream> =
                    (0..4).map(|_| TcpStream::connect(address)).collect::<io::Result<_>>()?;
                let mut answer = [0; 1];
                for client in &mut clients[..2] {
                    client.write_all(b"x")?;
                    client.read_exact(&mut answer)?;
                }
                assert_eq!(cap.live(), 3);
                clients[2].write_all(b"y")?;
                clients[2].set_read_timeout(Some(Duration::from_millis(20)))?;
                let waits = clients[2].read(&mut answer).unwrap_err();
                assert_eq!(waits.kind(), ErrorKind::TimedOut);
                clients[2].set_read_timeout(None)?;
                clients.remove(0); // its place is free
                clients[1].read_exact(&mut answer)?;
                assert_eq!(&answer, b"y");
                stop.cancel();
                Ok(())
            });
            served?;
            assert_eq!(cap.live(), 0);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn revoking_refuses_new_sockets_and_leaves_open_ones() {
    with_runtimes(|rt| {
        let cap = rt.cap_net(limits("127.0.0.1:*", "127.0.0.1:*", 9), Delegation::Allowed);
        rt.run(|_| {
            let (given, revoker) = {
                let given = cap.attenuate(cap.limits())?;
                let revoker = given.revoker();
                (given, revoker)
            };
            let listener = TcpListener::bind_under(&given, "127.0.0.1:0")?;
            let address = listener.local_addr()?;
            let mut client = TcpStream::connect_under(&given, address)?;
            let (mut server, _) = listener.accept()?;
            revoker.revoke();
            let late = TcpStream::connect_under(&cap, address)?;
            assert!(matches!(
                denied(TcpStream::connect_under(&given, address)),
                CapError::Revoked { .. }
            ));
            assert!(matches!(denied(listener.accept()), CapError::Revoked { .. }));
            client.write_all(b"still here")?;
            let mut text = [0; 10];
            server.read_exact(&mut text)?;
            drop((client, server, listener, late));
            assert_eq!(cap.live(), 0);
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_derived_capability_is_not_wider() {
    let rt = Runtime::builder().build().unwrap();
    let cap = rt.cap_net(limits("", "10.0.0.0/8:1-100", 4), Delegation::Allowed);
    let derive = |bind, connect, most| cap.attenuate(limits(bind, connect, most));
    assert!(derive("", "10.1.0.0/16:80", 4).is_ok());
    assert!(matches!(derive("", "11.0.0.1:80", 4), Err(CapError::WiderSet { .. })));
    assert!(matches!(derive("1.1.1.1:1", "", 4), Err(CapError::WiderSet { .. })));
    assert!(matches!(derive("", "*", 4), Err(CapError::WiderSet { .. })));
    assert!(matches!(derive("", "", 5), Err(CapError::Wider { .. })));
    let exec = ExecLimits { programs: ProgramSet::of(["/bin/true"]), max_children: 1 };
    let exec = rt.cap_exec(exec, Delegation::Allowed);
    let wider = ExecLimits { programs: ProgramSet::ANY, max_children: 1 };
    assert!(matches!(exec.attenuate(wider), Err(CapError::WiderSet { .. })));
    let files = FsLimits { access: FsAccess::Read, max_files: 1 };
    let fs = rt.cap_fs("/", files, Delegation::Allowed).unwrap();
    let wider = FsLimits { access: FsAccess::Write, ..files };
    assert!(matches!(fs.attenuate(wider), Err(CapError::WiderSet { .. })));
    assert!(matches!(fs.beneath("tmp", files), Ok(cap) if cap.path() == "/tmp"));
    assert!(fs.beneath("../tmp", files).is_err());
}

#[test]
fn a_capability_of_another_runtime_gives_nothing() {
    let other = Runtime::builder().build().unwrap();
    let cap: CapNet = other.cap_net(limits("*", "*", 9), Delegation::Forbidden);
    everywhere(|cx| {
        let foreign = denied(TcpListener::bind_under(&cap, "127.0.0.1:0"));
        assert!(matches!(foreign, CapError::Foreign { .. }));
        let opened = cx.nursery_with(NurseryOpts::new().net(&cap), |_| Ok(()));
        assert!(opened.is_err());
        Ok(())
    });
}

#[test]
fn sovereign_calls_show_their_capability() {
    schedules(&[1, 2], 20, 2, |schedule| {
        let rt = schedule.builder().profile::<Sovereign>().build().unwrap();
        let net = rt.cap_net(limits("127.0.0.1:*", "127.0.0.1:*", 9), Delegation::Forbidden);
        let exec = ExecLimits { programs: ProgramSet::of(["/bin/true"]), max_children: 2 };
        let exec = rt.cap_exec(exec, Delegation::Forbidden);
        rt.run(|cx| {
            let _ = sim::set_program("/bin/true", |_| ProgramEnd::default());
            let not_shown = |refused| assert!(matches!(refused, CapError::NotShown { .. }));
            not_shown(denied(TcpListener::bind("127.0.0.1:0")));
            not_shown(denied(TcpStream::connect("127.0.0.1:1")));
            not_shown(denied(UdpSocket::bind("127.0.0.1:0")));
            not_shown(denied(UnixStream::pair()));
            not_shown(denied(lookup_host("localhost")));
            not_shown(denied(File::open("/etc/passwd")));
            not_shown(denied(fs::create_dir("/tmp/x")));
            not_shown(denied(Command::new("/bin/true").spawn()));
            let listener = TcpListener::bind_under(&net, "127.0.0.1:0")?;
            let mut client = TcpStream::connect_under(&net, listener.local_addr()?)?;
            let mut server = listener.accept()?.0;
            client.write_all(b"a")?;
            server.read_exact(&mut [0; 1])?;
            assert!(Command::new("/bin/true").spawn_under(&exec)?.wait()?.success());
            denied(Command::new("/bin/sh").spawn_under(&exec));
            denied(Command::new("true").spawn_under(&exec));
            assert!(Command::new("/bin/true").env("LD_PRELOAD", "x").spawn_under(&exec).is_err());
            let time = Duration::from_secs(9);
            let timed = TcpStream::connect_timeout_under(&net, &listener.local_addr()?, time)?;
            drop((timed, listener.accept()?));
            assert_eq!(lookup_host_under(&net, "127.0.0.1")?.len(), 1); // no name is asked for
            assert!(Command::new("/bin/true").status_under(&exec)?.success());
            // Sets name addresses, not paths: only those with all of them allow paths.
            denied(UnixDatagram::unbound_under(&net));
            denied(UnixDatagram::bind_under(&net, "/tmp/x"));
            let (mut left, mut right) = UnixStream::pair_under(&net)?;
            left.write_all(b"b")?;
            right.read_exact(&mut [0; 1])?;
            let elsewhere = Outgoing::new("GET", "http://10.0.0.1:80/");
            denied(Client::new().send_under(&net, &elsewhere));
            not_shown(denied(Client::new().send(&elsewhere)));
            // The opener of a nursery shows it for all calls inside.
            let (net, address) = (&net, listener.local_addr()?);
            cx.nursery_with(NurseryOpts::new().net(net), |_| {
                not_shown(denied(TcpStream::connect(address))); // the body is outside
                Ok(())
            })
        })
        .unwrap();
        assert_eq!((net.live(), exec.live()), (0, 0));
    });
}

#[test]
fn files_stay_beneath_their_directory() {
    with_runtimes(|rt| {
        let folder = rt.run(|_| Ok(Folder::new()?)).unwrap();
        let limits = FsLimits { access: FsAccess::Write, max_files: 2 };
        let home = rt.run(|_| Ok(fs::create_dir(folder.at("home"))?));
        home.unwrap();
        let cap = rt.cap_fs(folder.at("home"), limits, Delegation::Allowed).unwrap();
        rt.run(|cx| {
            fs::write(folder.at("secret"), "not for them")?;
            let reads = FsLimits { access: FsAccess::Read, max_files: 2 };
            let reader = cap.attenuate(reads)?;
            cx.nursery_with(NurseryOpts::new().fs(&cap), |n| {
                let absolute = cap.path().join("b");
                let folder = &folder;
                n.spawn(move |_| {
                    fs::write("a", "one")?;
                    fs::create_dir_all("x/y/z")?;
                    fs::rename("a", "x/y/z/c")?;
                    fs::copy("x/y/z/c", &absolute)?;
                    assert_eq!(fs::read_to_string("b")?, "one");
                    assert_eq!(fs::read_to_string("x/../b")?, "one");
                    assert_eq!(fs::metadata("b")?.len(), 3);
                    let mut names: Vec<_> = fs::read_dir("")?.map(|e| e.file_name()).collect();
                    names.sort();
                    assert_eq!(names, ["b", "x"]);
                    let outside = |refused| {
                        assert!(matches!(refused, CapError::PathOutside { .. }), "{refused:?}");
                    };
                    outside(denied(fs::read("../secret")));
                    outside(denied(fs::read(folder.at("secret"))));
                    outside(denied(fs::rename("b", "../b")));
                    outside(denied(fs::rename("../secret", "b")));
                    outside(denied(fs::copy("../secret", "b")));
                    outside(denied(fs::remove_file("x/../../secret")));
                    outside(denied(fs::create_dir("../mine")));
                    outside(denied(fs::read_dir("..")));
                    outside(denied(fs::metadata("/")));
                    let two = (File::open("b")?, File::open("b")?);
                    let full = denied(File::open("b"));
                    assert!(matches!(full, CapError::FileLimitExceeded { .. }));
                    drop(two);
                    fs::remove_dir_all("x")?;
                    fs::remove_file("b")?;
                    Ok(())
                })?
                .join()
            })?;
            let dir = Dir::under(&reader)?;
            assert!(matches!(denied(dir.create("new")), CapError::WriteDenied { .. }));
            denied(dir.create_dir("new"));
            denied(dir.remove_file("new"));
            assert_eq!(dir.read("new").unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(cap.live(), 0);
            assert_eq!(fs::read_to_string(folder.at("secret"))?, "not for them");
            Ok(())
        })
        .unwrap();
    });
}

/// A link that leads out, also one that another thread puts there at the worst moment.
#[test]
fn links_do_not_lead_out_of_the_directory() {
    let folder = Folder::new().unwrap();
    let home = folder.at("home");
    std::fs::create_dir_all(home.join("inside")).unwrap();
    std::fs::create_dir_all(folder.at("outside")).unwrap();
    std::fs::write(home.join("inside/file"), "ours").unwrap();
    std::fs::write(folder.at("outside/file"), "theirs").unwrap();
    std::os::unix::fs::symlink(folder.at("outside/file"), home.join("absolute")).unwrap();
    std::os::unix::fs::symlink("../outside", home.join("relative")).unwrap();
    std::os::unix::fs::symlink("inside/file", home.join("good")).unwrap();
    let rt = Runtime::builder().build().unwrap();
    let limits = FsLimits { access: FsAccess::Write, max_files: 8 };
    let cap = rt.cap_fs(&home, limits, Delegation::Forbidden).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // `way` is a directory of ours and a link out of it, in turn.
            let (way, link) = (home.join("way"), home.join("link"));
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::rename(home.join("inside"), &way);
                let _ = std::fs::rename(&way, home.join("inside"));
                let _ = std::os::unix::fs::symlink("../outside", &link);
                let _ = std::fs::rename(&link, &way);
                let _ = std::fs::remove_file(&way);
            }
        });
        let outcome = rt.run(|_| {
            let dir = Dir::under(&cap)?;
            for _ in 0..3_000 {
                for path in ["way/file", "absolute", "relative/file", "good", "inside/file"] {
                    if let Ok(text) = dir.read_to_string(path) {
                        assert_eq!(text, "ours", "{path}");
                    }
                }
                assert!(dir.write("relative/new", "x").is_err());
                let _ = dir.write("way/new", "x");
                let _ = dir.create_dir("way/dir");
            }
            Ok(())
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap();
    });
    let outside: Vec<_> = std::fs::read_dir(folder.at("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1, "nothing was made there: {outside:?}");
    let rt_audit = rt.audit().drain();
    assert!(rt_audit.iter().any(|entry| entry.to_string().contains("leads out")));
}

#[test]
fn children_are_limited_in_number() {
    with_runtimes(|rt| {
        let limits = ExecLimits { programs: ProgramSet::of(["/bin/true"]), max_children: 1 };
        let cap = rt.cap_exec(limits, Delegation::Forbidden);
        rt.run(|cx| {
            let _ = sim::set_program("/bin/true", |_| ProgramEnd::default());
            cx.nursery_with(NurseryOpts::new().exec(&cap), |n| {
                n.spawn(|_| {
                    let mut child = Command::new("/bin/true").spawn()?;
                    let full = denied(Command::new("/bin/true").spawn());
                    assert!(matches!(full, CapError::ChildLimitExceeded { .. }));
                    child.wait()?;
                    drop(child);
                    denied(Command::new("/bin/false").spawn());
                    Ok(Command::new("/bin/true").status().map(drop)?)
                })?
                .join()
            })
        })
        .unwrap();
        assert_eq!(cap.live(), 0);
    });
}
