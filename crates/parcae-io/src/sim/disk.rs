//! The disk of a simulated host: files and directories, with a page cache that a power cut loses.
//!
//! A disk has two states: *now*, which all calls see, and the *durable* one. A file's bytes become
//! durable by `sync_all` or `sync_data` of the file, a name by `sync_all` of its directory. A power
//! cut makes a state out of both: for each name and each block of 512 bytes that differ, the seed
//! chooses the durable or the present one, as the cache may or may not have been written back.
//! Files that are open then fail with EIO.
//!
//! The seed also chooses how much a read or a write takes, often less than it could, and the time
//! of a sync. A disk is bounded only if the program says so ([`Host::set_disk_space`]).
//!
//! There are no permissions, no links and no calendar.

use super::drive::{Stop, WaitList, operate};
use super::random::Random;
use super::{Host, World, host};
use crate::fs::{FileType, Metadata, OpenOptions};
use crate::source::ready::Direction;
use crate::source::{Charge, Limit, Operation};
use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that reach the disk together.
const BLOCK: usize = 512;
/// The time of a sync, between these.
const SYNC: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));

/// The kind of entry that a call removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    File,
    Dir,
    Tree,
}

/// The disk of one host.
#[derive(Debug)]
pub(super) struct Disk {
    now: BTreeMap<PathBuf, Entry>,
    durable: BTreeMap<PathBuf, Entry>,
    /// Counts power cuts.
    life: u64,
    space: Option<u64>,
    random: Random,
}

#[derive(Debug, Clone)]
enum Entry {
    Dir,
    File(Arc<Mutex<Inode>>),
}

/// The bytes of a file.
#[derive(Debug, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
}

fn lock(inode: &Mutex<Inode>) -> MutexGuard<'_, Inode> {
    inode.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    fn new(random: Random) -> Disk {
        let roots = ["/", "/tmp"].map(|path| (PathBuf::from(path), Entry::Dir));
        let now = BTreeMap::from(roots);
        Disk { durable: now.clone(), now, life: 0, space: None, random }
    }

    fn entry(&self, path: &Path) -> io::Result<&Entry> {
        self.now.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Ensures that the directory of a new entry exists.
    fn parent(&self, path: &Path) -> io::Result<()> {
        match path.parent().map(|parent| self.entry(parent)) {
            Some(Ok(Entry::Dir)) => Ok(()),
            Some(Ok(Entry::File(_))) => Err(io::ErrorKind::NotADirectory.into()),
            Some(Err(error)) => Err(error),
            None => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// The entries directly below a directory.
    fn children(&self, path: &Path) -> Vec<PathBuf> {
        let is_child = |other: &&PathBuf| other.parent() == Some(path);
        self.now.keys().filter(is_child).cloned().collect()
    }

    fn used(&self) -> u64 {
        let bytes = |entry: &Entry| match entry {
            Entry::Dir => 0,
            Entry::File(inode) => lock(inode).now.len() as u64,
        };
        self.now.values().map(bytes).sum()
    }

    /// The names in a directory become durable.
    fn sync_dir(&mut self, path: &Path) {
        self.durable.retain(|other, _| other.parent() != Some(path));
        for child in self.children(path) {
            if let Some(entry) = self.now.get(&child) {
                self.durable.insert(child, entry.clone());
            }
        }
    }

    fn power_cut(&mut self) {
        self.life += 1;
        let mut paths: Vec<PathBuf> = self.now.keys().chain(self.durable.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        let mut after: BTreeMap<PathBuf, Entry> = BTreeMap::new();
        for path in paths {
            let (now, durable) = (self.now.get(&path), self.durable.get(&path));
            let same = match (now, durable) {
                (Some(Entry::Dir), Some(Entry::Dir)) => true,
                (Some(Entry::File(one)), Some(Entry::File(two))) => Arc::ptr_eq(one, two),
                _ => false,
            };
            let kept = if same || self.random.below(2) == 0 { now } else { durable };
            // A name whose directory is gone is gone, too.
            let reached = path.parent().is_none_or(|up| matches!(after.get(up), Some(Entry::Dir)));
            if let Some(entry) = kept
                && reached
            {
                after.insert(path, entry.clone());
            }
        }
        // In the order of the names: a file with two of them is torn once, by the first.
        for entry in after.values() {
            if let Entry::File(inode) = entry {
                lock(inode).tear(&mut self.random);
            }
        }
        self.now = after.clone();
        self.durable = after;
    }
}

impl Inode {
    /// The bytes after a power cut: each block is the durable or the present one.
    fn tear(&mut self, random: &mut Random) {
        if self.now == self.durable {
            return;
        }
        let longer = self.now.len().max(self.durable.len());
        let size = [self.now.len(), self.durable.len()][random.below(2) as usize];
        let mut torn = vec![0; longer];
        for start in (0..longer).step_by(BLOCK) {
            let end = (start + BLOCK).min(longer);
            let from = if random.below(2) == 0 { &self.now } else { &self.durable };
            let known = from.get(start..end.min(from.len())).unwrap_or(&[]);
            torn[start..start + known.len()].copy_from_slice(known);
        }
        torn.truncate(size);
        self.now.clone_from(&torn);
        self.durable = torn;
    }
}

impl World {
    /// Works on the disk of a host.
    fn on_disk<T>(&self, at: IpAddr, work: impl FnOnce(&mut Disk) -> T) -> T {
        let random = self.seeded(&format!("disk {at}"));
        let mut net = self.net();
        work(net.disks.entry(at).or_insert_with(|| Disk::new(random)))
    }
}

impl Host {
    /// The power of the host fails: its disk loses what was not synced, as far as the seed says,
    /// and its open files fail. Its tasks and sockets are left to the program, which cancels them.
    ///
    /// ```
    /// use parcae_io::fs;
    /// use parcae_io::sim::Host;
    ///
    /// let lost = (0..20_u64).find(|seed| {
    ///     let rt = parcae::Runtime::builder().deterministic(*seed).build().unwrap();
    ///     let kept = rt.run(|_| {
    ///         let host = Host::new("127.0.0.1");
    ///         fs::write("/order", "bread")?; // and no sync
    ///         host.power_cut()?;
    ///         Ok(fs::read_to_string("/order").is_ok_and(|text| text == "bread"))
    ///     });
    ///     !kept.unwrap()
    /// });
    /// assert!(lost.is_some(), "some seed loses the order");
    /// ```
    ///
    /// # Errors
    ///
    /// Outside of deterministic runtimes.
    pub fn power_cut(&self) -> io::Result<()> {
        World::here()?.on_disk(self.ip(), Disk::power_cut);
        Ok(())
    }

    /// Sets how many bytes the files of the host may have: more fail with `StorageFull`. `None`:
    /// any number.
    ///
    /// # Errors
    ///
    /// Outside of deterministic runtimes.
    pub fn set_disk_space(&self, bytes: Option<u64>) -> io::Result<()> {
        World::here()?.on_disk(self.ip(), |disk| disk.space = bytes);
        Ok(())
    }
}

/// An absolute path without `.` and `..`.
fn absolute(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// A call on the disk of the task's host.
fn on_disk<T>(
    cost: u64,
    what: &'static str,
    path: &Path,
    mut work: impl FnMut(&mut Disk) -> io::Result<T>,
) -> io::Result<T> {
    let (world, at) = (World::here()?, host());
    let object = path.display();
    let direction = Direction::Read;
    let operation = Operation { direction, cost, limit: Limit::Endless, what, object: &object };
    operate(operation, &WaitList::default(), || world.on_disk(at, &mut work).map_err(Stop::Failed))
}

pub(crate) fn create_dir(cost: u64, path: &Path) -> io::Result<()> {
    let path = absolute(path);
    on_disk(cost, "making", &path, |disk| {
        disk.parent(&path)?;
        match disk.now.insert(path.clone(), Entry::Dir) {
            None => Ok(()),
            Some(before) => {
                disk.now.insert(path.clone(), before);
                Err(io::ErrorKind::AlreadyExists.into())
            }
        }
    })
}

pub(crate) fn create_dir_all(cost: u64, path: &Path) -> io::Result<()> {
    let path = absolute(path);
    on_disk(cost, "making", &path, |disk| {
        for part in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if let Entry::File(_) = disk.now.entry(part.into()).or_insert(Entry::Dir) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(())
    })
}

pub(crate) fn remove(cost: u64, path: &Path, what: Removed) -> io::Result<()> {
    let path = absolute(path);
    on_disk(cost, "removing", &path, |disk| {
        match (disk.entry(&path)?, what) {
            (Entry::File(_), Removed::File) | (Entry::Dir, Removed::Tree) => {}
            (Entry::Dir, Removed::Dir) if disk.children(&path).is_empty() => {}
            (Entry::Dir, Removed::Dir) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            (Entry::Dir, Removed::File) => return Err(io::ErrorKind::IsADirectory.into()),
            (Entry::File(_), _) => return Err(io::ErrorKind::NotADirectory.into()),
        }
        disk.now.retain(|other, _| !other.starts_with(&path));
        Ok(())
    })
}

pub(crate) fn rename(cost: u64, from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (absolute(from), absolute(to));
    on_disk(cost, "renaming", &from, |disk| {
        disk.parent(&to)?;
        match (disk.entry(&from)?, disk.now.get(&to)) {
            (_, None) | (Entry::File(_), Some(Entry::File(_))) => {}
            (Entry::Dir, Some(Entry::Dir)) if disk.children(&to).is_empty() => {}
            (Entry::Dir, Some(Entry::Dir)) => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            (Entry::Dir, Some(Entry::File(_))) => return Err(io::ErrorKind::NotADirectory.into()),
            (Entry::File(_), Some(Entry::Dir)) => return Err(io::ErrorKind::IsADirectory.into()),
        }
        if to.starts_with(&from) && to != from {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let moved: Vec<_> = disk.now.extract_from(&from);
        for (path, entry) in moved {
            let below = path.strip_prefix(&from).unwrap_or(Path::new(""));
            let place = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
            disk.now.insert(place, entry);
        }
        Ok(())
    })
}

/// Copies the bytes of a file. One operation: no other task sees half of it.
pub(crate) fn copy(cost: u64, from: &Path, to: &Path) -> io::Result<u64> {
    let (from, to) = (absolute(from), absolute(to));
    on_disk(cost, "copying", &from, |disk| {
        let Entry::File(source) = disk.entry(&from)? else {
            return Err(io::ErrorKind::InvalidInput.into()); // as std says
        };
        let bytes = lock(source).now.clone();
        disk.parent(&to)?;
        if let Some(space) = disk.space
            && bytes.len() as u64 > space.saturating_sub(disk.used())
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let place = disk.now.entry(to.clone()).or_insert_with(|| Entry::File(Arc::default()));
        let Entry::File(target) = place else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let count = bytes.len() as u64;
        lock(target).now = bytes;
        Ok(count)
    })
}

/// Takes a tree out of a table of names.
trait ExtractFrom {
    fn extract_from(&mut self, root: &Path) -> Vec<(PathBuf, Entry)>;
}

impl ExtractFrom for BTreeMap<PathBuf, Entry> {
    fn extract_from(&mut self, root: &Path) -> Vec<(PathBuf, Entry)> {
        let paths: Vec<_> = self.keys().filter(|path| path.starts_with(root)).cloned().collect();
        paths.into_iter().filter_map(|path| self.remove_entry(&path)).collect()
    }
}

pub(crate) fn metadata(cost: u64, path: &Path) -> io::Result<Metadata> {
    let path = absolute(path);
    on_disk(cost, "asking about", &path, |disk| Ok(facts(disk.entry(&path)?)))
}

fn facts(entry: &Entry) -> Metadata {
    let (kind, len) = match entry {
        Entry::Dir => (FileType::Dir, 0),
        Entry::File(inode) => (FileType::File, lock(inode).now.len() as u64),
    };
    Metadata { kind, len, modified: None }
}

pub(crate) fn read_dir(cost: u64, path: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let (asked, path) = (path, absolute(path));
    on_disk(cost, "listing", &path, |disk| {
        let Entry::Dir = disk.entry(&path)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let named = |child: PathBuf| {
            let kind = disk.now.get(&child).map_or(FileType::Other, |entry| facts(entry).kind);
            (asked.join(child.file_name().unwrap_or_default()), kind)
        };
        Ok(disk.children(&path).into_iter().map(named).collect())
    })
}

/// An open file of a simulated host.
#[derive(Debug)]
pub(crate) struct SimFile {
    world: Arc<World>,
    at: IpAddr,
    path: PathBuf,
    entry: Entry,
    options: OpenOptions,
    /// The life of the disk in which it was opened.
    life: u64,
    state: Mutex<Cursor>,
}

#[derive(Debug)]
struct Cursor {
    at: u64,
    random: Random,
}

pub(crate) fn open_file(cost: u64, path: &Path, options: &OpenOptions) -> io::Result<SimFile> {
    let writes = options.write || options.append;
    let makes = options.create || options.create_new;
    if !writes && (!options.read || options.truncate || makes) {
        Charge::new(cost)?.keep(); // asked, and refused
        let text = "the options open the file for nothing, or make it without writing to it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let path = absolute(path);
    let (entry, life) = on_disk(cost, "opening", &path, |disk| {
        match disk.now.get(&path) {
            Some(_) if options.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(Entry::Dir) if writes => return Err(io::ErrorKind::IsADirectory.into()),
            Some(_) => {}
            None if makes => {
                disk.parent(&path)?;
                disk.now.insert(path.clone(), Entry::File(Arc::default()));
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        let entry = disk.entry(&path)?.clone();
        if let (true, Entry::File(inode)) = (options.truncate, &entry) {
            lock(inode).now.clear();
        }
        Ok((entry, disk.life))
    })?;
    let (world, at) = (World::here()?, host());
    let random = world.stream(&format!("file {at} {}", path.display()));
    let (options, state) = (options.clone(), Mutex::new(Cursor { at: 0, random }));
    Ok(SimFile { world, at, path, entry, options, life, state })
}

impl SimFile {
    /// A call on the bytes of the file.
    fn on_bytes<T>(
        &self,
        cost: u64,
        what: &'static str,
        mut work: impl FnMut(&mut Cursor, &mut Inode, Option<u64>) -> io::Result<T>,
    ) -> io::Result<T> {
        let object = self.path.display();
        let direction = Direction::Read;
        let operation = Operation { direction, cost, limit: Limit::Endless, what, object: &object };
        operate(operation, &WaitList::default(), || {
            let room = self.world.on_disk(self.at, |disk| {
                if disk.life != self.life {
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                Ok(disk.space.map(|space| space.saturating_sub(disk.used())))
            });
            let mut cursor = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match (room, &self.entry) {
                (Err(error), _) => Err(Stop::Failed(error)),
                (Ok(_), Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
                (Ok(room), Entry::File(inode)) => {
                    work(&mut cursor, &mut lock(inode), room).map_err(Stop::Failed)
                }
            }
        })
    }

    pub(crate) fn read(
        &self,
        cost: u64,
        buffer: &mut [u8],
        offset: Option<u64>,
    ) -> io::Result<usize> {
        if !self.options.read {
            Charge::new(cost)?.keep(); // as in `open_file`
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.on_bytes(cost, "reading from", |cursor, inode, _| {
            let start = offset.unwrap_or(cursor.at).min(inode.now.len() as u64) as usize;
            let there = &inode.now[start..];
            let count = cursor.random.portion(there.len().min(buffer.len()));
            buffer[..count].copy_from_slice(&there[..count]);
            // Behind the end there is nothing, and the cursor stays.
            if offset.is_none() && count > 0 {
                cursor.at = (start + count) as u64;
            }
            Ok(count)
        })
    }

    pub(crate) fn write(&self, cost: u64, bytes: &[u8], offset: Option<u64>) -> io::Result<usize> {
        let OpenOptions { write, append, .. } = self.options;
        if !write && !append {
            Charge::new(cost)?.keep(); // as in `open_file`
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.on_bytes(cost, "writing to", |cursor, inode, room| {
            let size = inode.now.len();
            let start = if append { size } else { offset.unwrap_or(cursor.at) as usize };
            let end = start + cursor.random.portion(bytes.len());
            let end = room.map_or(end, |room| end.min(size + room as usize).max(start));
            let count = end - start;
            if count == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if end > size {
                inode.now.resize(end, 0);
            }
            inode.now[start..end].copy_from_slice(&bytes[..count]);
            if offset.is_none() || append {
                cursor.at = end as u64;
            }
            Ok(count)
        })
    }

    pub(crate) fn seek(&self, cost: u64, to: SeekFrom) -> io::Result<u64> {
        self.on_bytes(cost, "seeking in", |cursor, inode, _| {
            let place = match to {
                SeekFrom::Start(at) => Some(at),
                SeekFrom::Current(by) => cursor.at.checked_add_signed(by),
                SeekFrom::End(by) => (inode.now.len() as u64).checked_add_signed(by),
            };
            cursor.at = place.ok_or(io::ErrorKind::InvalidInput)?;
            Ok(cursor.at)
        })
    }

    pub(crate) fn set_len(&self, cost: u64, size: u64) -> io::Result<()> {
        if !self.options.write && !self.options.append {
            Charge::new(cost)?.keep(); // as in `open_file`
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.on_bytes(cost, "cutting", |_, inode, room| {
            let grows = size.saturating_sub(inode.now.len() as u64);
            if room.is_some_and(|room| grows > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inode.now.resize(size as usize, 0);
            Ok(())
        })
    }

    pub(crate) fn metadata(&self, cost: u64) -> io::Result<Metadata> {
        Charge::new(cost)?.keep();
        Ok(facts(&self.entry))
    }

    /// Makes the bytes of a file, or the names in a directory, durable.
    pub(crate) fn sync(&self, cost: u64) -> io::Result<()> {
        let object = self.path.display();
        let (direction, what) = (Direction::Write, "syncing");
        let operation = Operation { direction, cost, limit: Limit::Endless, what, object: &object };
        let spread = (SYNC.1 - SYNC.0).as_nanos() as u64;
        let extra = {
            let mut cursor = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            Duration::from_nanos(cursor.random.below(spread))
        };
        let due = parcae::time::now() + SYNC.0 + extra;
        operate(operation, &WaitList::default(), || {
            if parcae::time::now() < due {
                return Err(Stop::Wait(Some(due)));
            }
            self.world.on_disk(self.at, |disk| {
                if disk.life != self.life {
                    return Err(Stop::Failed(io::Error::from_raw_os_error(libc::EIO)));
                }
                match &self.entry {
                    Entry::Dir => disk.sync_dir(&self.path),
                    Entry::File(inode) => {
                        let mut inode = lock(inode);
                        inode.durable = inode.now.clone();
                    }
                }
                Ok(())
            })
        })
    }
}
