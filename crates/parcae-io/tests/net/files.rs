//! Files: the same results on the simulated disk and on a real one; a power cut.

use crate::support::{deterministic_seeded, everywhere, everywhere_seeded, runtime, threads};
use crate::{pattern, under};
use parcae::prelude::*;
use parcae_io::fs::{self, File, FileType, OpenOptions};
use parcae_io::sim::Host;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A new directory, which is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // a number
        let name = format!("parcae-files-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0)?;
        Ok(folder)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // there is none of a simulated one
    }
}

#[test]
fn bytes_are_read_as_they_were_written() {
    everywhere_seeded(|_, number| {
        let folder = Folder::new()?;
        let size = [0, 1, 511, 512, 4097, 70_000][(number % 6) as usize];
        let bytes = pattern(size, number as usize);
        fs::write(folder.at("file"), &bytes)?;
        assert!(fs::read(folder.at("file"))? == bytes);
        let mut file = OpenOptions::new().read(true).append(true).open(folder.at("file"))?;
        file.write_all(b"more")?;
        assert_eq!(file.metadata()?.len(), size as u64 + 4);
        assert_eq!(file.seek(SeekFrom::End(-4))?, size as u64);
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        assert_eq!(text, "more");
        assert_eq!(file.read(&mut [0; 4])?, 0, "the end");
        file.set_len(1)?;
        file.sync_all()?;
        assert_eq!(fs::metadata(folder.at("file"))?.len(), 1);
        Ok(())
    });
}

#[test]
fn offsets_leave_the_cursor() {
    everywhere(|_| {
        let folder = Folder::new()?;
        let path = folder.at("file");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        assert_eq!(file.write_at(b"x", 1000)?, 1);
        assert_eq!(file.metadata()?.len(), 1001, "a hole");
        let mut one = [9];
        assert_eq!(file.read_at(&mut one, 999)?, 1);
        assert_eq!(one, [0]);
        assert_eq!(file.stream_position()?, 0);
        assert_eq!(file.seek(SeekFrom::Current(1000))?, 1000);
        file.read_exact(&mut one)?;
        assert_eq!(&one, b"x");
        assert!(file.seek(SeekFrom::Current(-2000)).is_err());
        Ok(())
    });
}

#[test]
fn names_are_made_moved_and_removed() {
    everywhere(|_| {
        let folder = Folder::new()?;
        let kind = |outcome: io::Result<()>| outcome.unwrap_err().kind();
        fs::create_dir(folder.at("a"))?;
        assert_eq!(kind(fs::create_dir(folder.at("a"))), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs::create_dir(folder.at("b/c"))), ErrorKind::NotFound);
        fs::create_dir_all(folder.at("b/c/d"))?;
        fs::write(folder.at("b/c/file"), "here")?;
        fs::rename(folder.at("b/c"), folder.at("a/moved"))?;
        assert_eq!(fs::read_to_string(folder.at("a/moved/file"))?, "here");
        assert!(!fs::exists(folder.at("b/c"))?);
        let mut found: Vec<_> = fs::read_dir(folder.at("a/moved"))?
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.file_type()))
            .collect();
        found.sort_by(|one, two| one.0.cmp(&two.0));
        assert_eq!(found, [("d".into(), FileType::Dir), ("file".into(), FileType::File)]);
        assert_eq!(kind(fs::remove_dir(folder.at("a/moved"))), ErrorKind::DirectoryNotEmpty);
        assert!(fs::remove_file(folder.at("a/moved/d")).is_err(), "a directory");
        assert_eq!(fs::copy(folder.at("a/moved/file"), folder.at("copy"))?, 4);
        fs::remove_dir_all(folder.at("a"))?;
        assert_eq!(File::open(folder.at("a/moved/file")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read(folder.at("copy"))?, b"here");
        Ok(())
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    everywhere(|_| {
        let folder = Folder::new()?;
        fs::write(folder.at("file"), "still here")?;
        let mut file = File::open(folder.at("file"))?;
        fs::remove_file(folder.at("file"))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        assert_eq!(text, "still here");
        assert!(file.write(b"x").is_err(), "it was opened for reading");
        Ok(())
    });
}

/// A large file on one worker: other tasks run between the calls that wait.
#[test]
fn a_worker_goes_on_while_the_disk_works() {
    runtime(1)
        .run(|cx| {
            let folder = Folder::new()?;
            let path = folder.at("large");
            cx.nursery(|n| {
                let bytes = pattern(8 << 20, 1);
                let expected = bytes.clone();
                let writes = n.spawn(move |_| {
                    let mut file = File::create(&path)?;
                    file.write_all(&bytes)?;
                    file.sync_all()?;
                    Ok(fs::read(&path)?)
                })?;
                let mut turns = 0_u64;
                while !writes.is_finished() {
                    cx.yield_now()?;
                    turns += 1;
                }
                assert!(turns > 1);
                assert!(writes.join()? == expected);
                Ok(())
            })
        })
        .unwrap();
}

#[test]
fn a_cancelled_task_makes_no_call() {
    everywhere(|cx| {
        let folder = Folder::new()?;
        let (path, stop) = (folder.at("file"), CancelToken::new());
        let outcome = cx.nursery_with(under(&stop), |_| {
            stop.cancel();
            Ok(fs::write(&path, "too late")?)
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert!(!fs::exists(&path)?);
        Ok(())
    });
}

/// A call that has begun cannot be interrupted: its result is returned, and the cancellation
/// reported by the next one. Opening a pipe by its name waits for a writer.
#[test]
fn the_result_of_a_call_that_has_begun_is_not_lost() {
    threads(|cx| {
        let (folder, stop) = (Folder::new()?, CancelToken::new());
        let path = folder.at("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let reader = path.clone();
        cx.nursery(|n| {
            let opens = n.spawn(|cx| {
                let mut opened = false;
                let outcome = cx.nursery_with(under(&stop), |_| {
                    let mut file = File::open(&reader)?;
                    opened = true;
                    Ok(file.read_to_end(&mut Vec::new()).map(drop)?)
                });
                Ok(opened && outcome.unwrap_err().is_cancelled())
            })?;
            cx.sleep(std::time::Duration::from_millis(2))?; // it may have begun
            stop.cancel();
            cx.sleep(std::time::Duration::from_millis(1))?;
            let writer = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
            let had_begun = opens.join()?;
            drop(writer);
            BEGUN.fetch_add(u64::from(had_begun), Ordering::Relaxed); // a count
            Ok(())
        })
    });
    assert!(BEGUN.load(Ordering::Relaxed) > 0, "Relaxed: no call had begun in time");
}

/// Opens that had begun when their task was cancelled.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The cost is the same on a disk, in the page cache and in the simulated world.
#[test]
fn calls_cost_the_same_on_all_backends() {
    everywhere(|cx| {
        let folder = Folder::new()?;
        let path = folder.at("file");
        fs::write(&path, "four")?;
        let budget = Budget::UNLIMITED.with_ops(1000).with_syscalls(1000);
        let opts = NurseryOpts::new().budget(budget.with_ops(2000)).on_exhausted(OnExhausted::Fail);
        let spent = cx.nursery_with(opts, |n| {
            let task = n.spawn_with(SpawnOpts::new().budget(budget), move |cx| {
                let before = cx.budget();
                let file = File::open(&path)?;
                file.read_at(&mut [0; 4], 0)?;
                file.sync_all()?;
                let after = cx.budget();
                Ok((before.ops - after.ops, before.syscalls - after.syscalls))
            })?;
            task.join()
        })?;
        assert_eq!(spent, (4, 4), "two for the open, one for each other call");
        Ok(())
    });
}

/// Writes a new version beside the old one and renames it; `syncs` says how carefully.
fn replace(folder: &str, text: &str, syncs: bool) -> io::Result<()> {
    let (path, new) = (format!("{folder}/file"), format!("{folder}/new"));
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    if syncs {
        file.sync_all()?;
    }
    fs::rename(&new, &path)?;
    if syncs {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The version that a power cut leaves of a file that was replaced.
fn after_a_cut(syncs: bool) -> Vec<String> {
    let left = std::sync::Mutex::new(Vec::new());
    deterministic_seeded(200, |_, _| {
        let host = Host::new("127.0.0.1");
        fs::create_dir("/data")?;
        File::open("/")?.sync_all()?;
        replace("/data", &"old ".repeat(500), true)?;
        replace("/data", &"new ".repeat(500), syncs)?;
        let mut open = File::open("/data/file")?;
        host.power_cut()?;
        assert_eq!(open.read(&mut [0; 8]).unwrap_err().raw_os_error(), Some(5), "EIO");
        let text = fs::read_to_string("/data/file").unwrap_or_default();
        left.lock().unwrap().push(text);
        host.power_cut()?; // there is nothing to lose any more
        assert_eq!(fs::read_to_string("/data/file").ok(), left.lock().unwrap().last().cloned());
        Ok(())
    });
    left.into_inner().unwrap()
}

#[test]
fn a_power_cut_loses_what_was_not_synced() {
    let (old, new) = ("old ".repeat(500), "new ".repeat(500));
    assert!(after_a_cut(true).iter().all(|text| *text == new), "everything was synced");
    let left = after_a_cut(false);
    let count = |version: &str| left.iter().filter(|text| *text == version).count();
    assert!(count(&old) > 10, "the rename is lost: {}", count(&old));
    let torn = left.iter().filter(|text| **text != old && **text != new).count();
    assert!(torn > 10, "the name is there, and not all bytes: {torn}");
}

#[test]
fn a_full_disk_is_an_error() {
    deterministic_seeded(50, |_, _| {
        let host = Host::new("127.0.0.1");
        host.set_disk_space(Some(1000))?;
        let mut file = File::create("/file")?;
        let error = file.write_all(&[1; 2000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(fs::metadata("/file")?.len(), 1000);
        host.set_disk_space(None)?;
        Ok(file.write_all(&[1; 2000])?)
    });
}
