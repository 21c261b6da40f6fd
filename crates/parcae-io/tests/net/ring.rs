//! Files by io_uring and by the pool of threads: the same results; a cancelled operation leaves the
//! buffer alone and loses no byte.

use crate::files::Folder;
use crate::support::{must_end, runtime, threads};
use crate::{pattern, under};
use parcae::prelude::*;
use parcae_io::fs::{self, File, FileBackend};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The backend belongs to the process: tests that choose one run one after the other.
static CHOICE: Mutex<()> = Mutex::new(());

/// Runs a test with each backend that the kernel allows.
pub(crate) fn with_each_backend(test: impl Fn(FileBackend)) {
    let _alone = CHOICE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for backend in [FileBackend::Pool, FileBackend::Ring] {
        if let Err(error) = fs::set_backend(backend) {
            println!("skipped: {backend:?}: {error}");
            continue;
        }
        assert_eq!(fs::backend(), backend);
        test(backend);
    }
}

/// Runs a test with io_uring, if the kernel allows it.
fn with_ring(test: impl FnOnce()) {
    let _alone = CHOICE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match fs::set_backend(FileBackend::Ring) {
        Ok(()) => test(),
        Err(error) => println!("skipped: io_uring: {error}"),
    }
}

/// Takes the pages of a file out of the cache.
fn evict(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: takes no pointers.
    unsafe { libc::posix_fadvise(file.as_fd().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[test]
fn bytes_that_are_not_cached_are_read() {
    with_each_backend(|_| {
        threads(|cx| {
            let folder = Folder::new()?;
            let bytes = pattern(300_000, 3);
            fs::write(folder.at("file"), &bytes)?;
            let file = File::open(folder.at("file"))?;
            cx.nursery(|n| {
                for part in 0..8_usize {
                    let (file, bytes) = (&file, &bytes);
                    n.spawn(move |_| {
                        evict(file);
                        let mut buffer = vec![0; 30_000];
                        let at = part * 37_000;
                        let mut filled = 0;
                        while filled < buffer.len() {
                            let offset = (at + filled) as u64;
                            let count = file.read_at(&mut buffer[filled..], offset)?;
                            assert!(count > 0);
                            filled += count;
                        }
                        assert!(buffer == bytes[at..at + buffer.len()]);
                        Ok(())
                    })?;
                }
                Ok(())
            })?;
            assert_eq!(file.read_at(&mut [0; 8], 300_000)?, 0, "the end");
            assert_eq!(file.read_at(&mut [0; 8], 1 << 33)?, 0, "far behind the end");
            Ok(())
        });
    });
}

#[test]
fn the_cursor_moves_with_reads_and_writes() {
    with_each_backend(|_| {
        threads(|_| {
            let folder = Folder::new()?;
            let mut file = File::create(folder.at("file"))?;
            file.write_all(b"one")?;
            file.write_all(b"two")?;
            file.write_at(b"T", 3)?;
            file.write_all(b"three")?;
            file.sync_data()?;
            let mut file = File::open(folder.at("file"))?;
            evict(&file);
            let mut word = [0; 3];
            file.read_exact(&mut word)?;
            assert_eq!(&word, b"one");
            let mut rest = String::new();
            file.read_to_string(&mut rest)?;
            assert_eq!(rest, "Twothree");
            let error = file.write(b"x").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "opened for reading");
            Ok(())
        });
    });
}

/// A file on which a read waits until the other end writes.
fn pipe() -> io::Result<(File, std::io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((File::from_std(OwnedFd::from(reader).into())?, writer))
}

/// The cancelled read has touched nothing, takes no byte that comes later, and costs nothing.
#[test]
fn a_cancelled_read_has_no_effect() {
    with_ring(|| {
        must_end(|| {
            let rt = runtime(2);
            rt.run(|cx| {
                let (mut file, mut writer) = pipe()?;
                let mut buffer = [0xAA; 64];
                for _ in 0..100 {
                    let stop = CancelToken::new();
                    let ended = cx.nursery_with(under(&stop), |n| {
                        let task = n.spawn(|cx| {
                            let before = cx.budget();
                            let error = file.read(&mut buffer).unwrap_err();
                            assert!(parcae_io::is_cancelled(&error), "{error}");
                            assert_eq!(cx.budget().syscalls, before.syscalls);
                            Ok(())
                        })?;
                        parcae::yield_now()?;
                        stop.cancel();
                        task.join()
                    });
                    drop(ended);
                }
                writer.write_all(b"later")?;
                assert_eq!(buffer, [0xAA; 64], "no one has written there");
                let count = file.read(&mut buffer)?;
                assert_eq!(&buffer[..count], b"later");
                Ok(())
            })
            .unwrap();
        });
    });
}

/// Bytes arrive while their readers are cancelled: each byte was read, or is still in the pipe.
#[test]
fn a_cancel_that_comes_too_late_loses_no_byte() {
    with_ring(|| {
        must_end(|| {
            let rt = runtime(2);
            let read = AtomicUsize::new(0);
            rt.run(|cx| {
                let (file, mut writer) = pipe()?;
                for round in 0..400_u64 {
                    let stop = CancelToken::new();
                    let writer = &mut writer;
                    let ended = cx.nursery_with(under(&stop), |n| {
                        for _ in 0..3 {
                            n.spawn(|_| {
                                let mut byte = [0; 1];
                                let count = (&file).read(&mut byte)?;
                                assert_eq!((count, byte), (1, [7]));
                                read.fetch_add(1, Ordering::Relaxed);
                                Ok(())
                            })?;
                        }
                        for _ in 0..round % 5 {
                            parcae::yield_now()?;
                        }
                        if round % 2 == 0 {
                            writer.write_all(&[7])?;
                            stop.cancel();
                        } else {
                            stop.cancel();
                            writer.write_all(&[7])?;
                        }
                        Ok(())
                    });
                    assert!(ended.is_err_and(|error| error.is_cancelled()));
                }
                drop(writer);
                let mut rest = Vec::new();
                let mut file = file;
                file.read_to_end(&mut rest)?;
                assert_eq!(read.load(Ordering::Relaxed) + rest.len(), 400);
                Ok(())
            })
            .unwrap();
        });
    });
}

/// As many readers as a ring takes are cancelled at one time: there is room for each cancel.
#[test]
fn a_storm_of_cancels_ends() {
    with_ring(|| {
        must_end(|| {
            let rt = runtime(1);
            rt.run(|cx| {
                let (file, writer) = pipe()?;
                let stop = CancelToken::new();
                let ended = cx.nursery_with(under(&stop), |n| {
                    let readers: Vec<_> = (0..250)
                        .map(|_| n.spawn(|_| Ok((&file).read(&mut [0; 8])?)))
                        .collect::<parcae::Result<_>>()?;
                    cx.sleep(Duration::from_millis(5))?;
                    stop.cancel();
                    drop(readers);
                    Ok(())
                });
                assert!(ended.is_err_and(|error| error.is_cancelled()));
                drop(writer);
                Ok(())
            })
            .unwrap();
        });
    });
}

/// More reads than the ring takes: the rest goes to the pool, and all of them end.
#[test]
fn a_full_ring_leaves_the_rest_to_the_pool() {
    with_ring(|| {
        threads(|cx| {
            let folder = Folder::new()?;
            fs::write(folder.at("file"), pattern(1 << 20, 1))?;
            let file = File::open(folder.at("file"))?;
            let expected = pattern(1 << 20, 1);
            cx.nursery(|n| {
                for part in 0..600_usize {
                    let (file, expected) = (&file, &expected);
                    n.spawn(move |_| {
                        if part % 50 == 0 {
                            evict(file);
                        }
                        let mut buffer = [0; 1_000];
                        let at = part * 1_700;
                        let count = file.read_at(&mut buffer, at as u64)?;
                        assert!(buffer[..count] == expected[at..at + count]);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        });
    });
}

/// Two runtimes come and go while their files are used: no descriptor of a ring is left.
#[test]
fn rings_end_with_their_runtimes() {
    with_ring(|| {
        let rings = || {
            let fds = std::fs::read_dir("/proc/self/fd").unwrap();
            let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
            links.filter(|link| link.to_string_lossy().contains("io_uring")).count()
        };
        let before = rings();
        let folder = Folder::new().unwrap();
        for _ in 0..10 {
            let rt = runtime(2);
            rt.run(|_| {
                fs::write(folder.at("file"), b"some bytes")?;
                Ok(())
            })
            .unwrap();
        }
        // Tests beside this one may have rings; they have not become more by ten.
        assert!(rings() < before + 10, "{before}, then {}", rings());
    });
}
