//! Charges: by logical operation, the same on all backends, and none without an effect.

use crate::files::Folder;
use crate::support::everywhere;
use crate::{connected, listener};
use parcae::prelude::*;
use parcae_io::fs;
use parcae_io::net::{TcpListener, TcpStream, UdpSocket, UnixStream, lookup_host};
use parcae_io::process::Command;
use parcae_io::sim::ProgramEnd;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::time::Duration;

/// The ops and syscalls that a closure is charged.
fn charged(
    cx: &Cx,
    body: impl FnOnce() -> parcae::Result<()> + Send,
) -> parcae::Result<(u64, u64)> {
    let budget = Budget::UNLIMITED.with_ops(10_000).with_syscalls(10_000);
    let pool = budget.with_ops(20_000);
    let opts = NurseryOpts::new().budget(pool).on_exhausted(OnExhausted::Fail);
    cx.nursery_with(opts, |n| {
        let task = n.spawn_with(SpawnOpts::new().budget(budget), move |cx| {
            let before = cx.budget();
            body()?;
            let after = cx.budget();
            Ok((before.ops - after.ops, before.syscalls - after.syscalls))
        })?;
        task.join()
    })
}

/// An operation of the price list.
type Row<'r> = (&'static str, u64, Box<dyn FnOnce() -> io::Result<()> + Send + 'r>);

fn row<'r, T>(
    name: &'static str,
    cost: u64,
    body: impl FnOnce() -> io::Result<T> + Send + 'r,
) -> Row<'r> {
    (name, cost, Box::new(move || body().map(drop)))
}

/// Each row is charged what it says, in ops and in syscalls.
fn check(cx: &Cx, rows: Vec<Row<'_>>) -> parcae::Result<()> {
    for (name, cost, body) in rows {
        let taken = charged(cx, || Ok(body()?))?;
        assert_eq!(taken, (cost, cost), "{name}");
    }
    Ok(())
}

/// The same, of operations that fail: they have happened.
fn check_failing(cx: &Cx, rows: Vec<Row<'_>>) -> parcae::Result<()> {
    for (name, cost, body) in rows {
        let taken = charged(cx, || {
            body().expect_err(name);
            Ok(())
        })?;
        assert_eq!(taken, (cost, cost), "{name}, which fails");
    }
    Ok(())
}

// rule: S0-COST-8
#[test]
fn sockets_cost_the_same_on_all_backends() {
    everywhere(|cx| {
        let (listener, address) = listener()?;
        let (client, server) = connected()?;
        let (left, right) = UnixStream::pair()?;
        let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let to = here.local_addr()?;
        let free = crate::listener()?.1; // closed again
        let word = [0_u8; 64];
        check(
            cx,
            vec![
                row("a listener", 1, || TcpListener::bind("127.0.0.1:0")),
                row("three that share an address", 3, || {
                    TcpListener::bind_shards("127.0.0.1:0", 3)
                }),
                row("a datagram socket", 1, || UdpSocket::bind("127.0.0.1:0")),
                row("a pair", 1, UnixStream::pair),
                row("a connect", 2, || TcpStream::connect(address)),
                row("one of two addresses", 2, || TcpStream::connect([address, address])),
                row("an accept", 1, || listener.accept()),
                row("a write", 1, || (&client).write(b"abcd")),
                row("a peek", 1, || server.peek(&mut [0; 64])),
                row("a read", 1, || (&server).read(&mut [0; 64])),
                row("an empty read", 0, || (&server).read(&mut [])),
                row("a write of 65 KiB", 2, || (&client).write(&[1; 65 << 10])),
                row("a read of 129 KiB", 3, || (&server).read(&mut vec![0; 129 << 10])),
                row("a write of buffers", 2, || {
                    (&client).write_vectored(&[IoSlice::new(&word), IoSlice::new(&[1; 64 << 10])])
                }),
                row("a write to a Unix socket", 1, || (&left).write(b"a")),
                row("a read from a Unix socket", 1, || (&right).read(&mut [0; 4])),
                row("a send", 1, || there.send_to(b"knock", to)),
                row("a receive", 1, || here.recv(&mut [0; 64])),
                row("a literal", 0, || lookup_host("127.0.0.1")),
                row("a name", 10, || lookup_host("localhost")),
                row("a pipe", 1, parcae_io::pipe::pipe),
                row("a shutdown", 0, || client.shutdown(Shutdown::Write)),
            ],
        )?;
        check_failing(
            cx,
            vec![
                row("a connect", 2, || TcpStream::connect(free)),
                row("one of two addresses", 2, || TcpStream::connect([free, free])),
                row("a connect by path", 2, || UnixStream::connect("/nobody/listens")),
                row("a listener", 1, || TcpListener::bind(address)),
                row("a name", 10, || lookup_host("nowhere.invalid")),
            ],
        )
    });
}

// rule: S0-COST-7
#[test]
fn files_cost_the_same_on_all_backends() {
    everywhere(|cx| {
        let folder = Folder::new()?;
        let (path, other) = (folder.at("file"), folder.at("other"));
        let file = fs::OpenOptions::new().read(true).write(true).create(true).open(&path)?;
        let dir = folder.at("dir");
        check(
            cx,
            vec![
                row("an open", 2, || fs::File::open(&path)),
                row("a write", 1, || file.write_at(b"abcd", 0)),
                row("a large write", 3, || file.write_at(&[1; 128 << 10], 0)),
                row("a read", 1, || file.read_at(&mut [0; 64], 0)),
                row("a large read", 2, || file.read_at(&mut vec![0; 64 << 10], 0)),
                row("a read at the end", 1, || file.read_at(&mut [0; 64], 1 << 30)),
                row("a seek", 1, || (&file).seek(SeekFrom::Start(1))),
                row("a seek from here", 1, || (&file).seek(SeekFrom::Current(1))),
                row("a seek from the end", 1, || (&file).seek(SeekFrom::End(0))),
                row("facts of a file", 1, || file.metadata()),
                row("facts of a path", 1, || fs::metadata(&path)),
                row("a size", 1, || file.set_len(7)),
                row("a sync", 1, || file.sync_all()),
                row("a sync of bytes", 1, || file.sync_data()),
                row("a copy", 4, || fs::copy(&path, &other)),
                row("a rename", 1, || fs::rename(&other, folder.at("third"))),
                row("a directory", 1, || fs::create_dir(&dir)),
                row("a list", 1, || fs::read_dir(&folder.0)),
                row("a removal of a directory", 1, || fs::remove_dir(&dir)),
                row("a removal", 1, || fs::remove_file(folder.at("third"))),
            ],
        )?;
        let reads = fs::File::open(&path)?;
        check_failing(
            cx,
            vec![
                row("an open", 2, || fs::File::open(folder.at("nothing"))),
                row("an open for nothing", 2, || fs::OpenOptions::new().open(&path)),
                row("a write", 1, || reads.write_at(b"a", 0)),
                row("a size", 1, || reads.set_len(0)),
                row("a rename", 1, || fs::rename(folder.at("nothing"), &other)),
                row("a copy", 4, || fs::copy(folder.at("nothing"), &other)),
            ],
        )
    });
}

#[test]
fn a_process_costs_the_same_on_all_backends() {
    everywhere(|cx| {
        // Without effect on threads, where there is a real one.
        let _ = parcae_io::sim::set_program("true", |_| ProgramEnd::default());
        let taken = charged(cx, || Ok(Command::new("true").spawn().map(drop)?))?;
        assert_eq!(taken, (50, 50));
        check_failing(cx, vec![row("a process", 50, || Command::new("/no/such/program").spawn())])
    });
}

/// The copy of a file has the bytes of the file, on both disks.
#[test]
fn a_copy_is_the_same_on_all_backends() {
    everywhere(|_| {
        let folder = Folder::new()?;
        fs::write(folder.at("a"), b"some bytes")?;
        fs::write(folder.at("b"), b"others, and more of them")?;
        assert_eq!(fs::copy(folder.at("a"), folder.at("b"))?, 10);
        assert_eq!(fs::read(folder.at("b"))?, b"some bytes");
        fs::write(folder.at("a"), b"changed")?;
        assert_eq!(fs::read(folder.at("b"))?, b"some bytes");
        assert!(fs::copy(&folder.0, folder.at("b")).is_err(), "a directory");
        assert!(fs::copy(folder.at("a"), &folder.0).is_err(), "onto a directory");
        Ok(())
    });
}

#[test]
fn an_operation_without_effect_costs_nothing() {
    everywhere(|cx| {
        let (_client, server) = connected()?;
        server.set_read_timeout(Some(Duration::from_millis(2)))?;
        let waited = charged(cx, || {
            assert!((&server).read(&mut [0; 64]).is_err());
            Ok(())
        })?;
        assert_eq!(waited.1, 0, "no syscall");
        Ok(())
    });
}

#[test]
fn an_operation_without_budget_does_nothing() {
    everywhere(|cx| {
        let (client, mut server) = connected()?;
        let budget = Budget::UNLIMITED.with_syscalls(3);
        let opts = NurseryOpts::new().budget(budget).on_exhausted(OnExhausted::Fail);
        let outcome = cx.nursery_with(opts, |n| {
            let task = n.spawn_with(SpawnOpts::new().budget(budget), |_| {
                loop {
                    (&client).write_all(b"x")?;
                }
                #[allow(unreachable_code)]
                Ok(())
            })?;
            task.join()
        });
        let kind = outcome.unwrap_err().kind().clone();
        assert!(matches!(kind, ErrorKind::BudgetExceeded(_)), "{kind:?}");
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text)?;
        assert_eq!(text, "xxx");
        Ok(())
    });
}
