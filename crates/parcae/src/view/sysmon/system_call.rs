//! The system call in which a thread waits, by name, and the call to make instead.

use std::fmt;

/// The system call in which a worker is blocked.
///
/// Its text names the call, its object, and the call of this project that parks the task instead:
/// "`recvfrom` on a socket: use `parcae_io::net`".
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedIn {
    /// Its number on this architecture.
    pub number: i64,
    /// Its name; `None` if it is not one of those that tasks usually block in.
    pub name: Option<&'static str>,
    /// The object of a call on a descriptor.
    pub object: Option<BlockedOn>,
}

/// The object of a call on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockedOn {
    /// A socket.
    Socket,
    /// A pipe, or a terminal.
    Pipe,
    /// A file or a directory.
    File,
    /// Another one: an event, a timer, a device.
    Other,
}

/// The subject of a call, which decides what to use instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Its first argument is a descriptor.
    Descriptor,
    Net,
    Files,
    Sleep,
    Lock,
    Child,
}

#[rustfmt::skip]
const CALLS: &[(libc::c_long, &str, Subject)] = &[
    (libc::SYS_read, "read", Subject::Descriptor),
    (libc::SYS_pread64, "pread64", Subject::Descriptor),
    (libc::SYS_readv, "readv", Subject::Descriptor),
    (libc::SYS_preadv2, "preadv2", Subject::Descriptor),
    (libc::SYS_write, "write", Subject::Descriptor),
    (libc::SYS_pwrite64, "pwrite64", Subject::Descriptor),
    (libc::SYS_writev, "writev", Subject::Descriptor),
    (libc::SYS_recvfrom, "recvfrom", Subject::Descriptor),
    (libc::SYS_recvmsg, "recvmsg", Subject::Descriptor),
    (libc::SYS_sendto, "sendto", Subject::Descriptor),
    (libc::SYS_sendmsg, "sendmsg", Subject::Descriptor),
    (libc::SYS_accept, "accept", Subject::Net),
    (libc::SYS_accept4, "accept4", Subject::Net),
    (libc::SYS_connect, "connect", Subject::Net),
    (libc::SYS_ppoll, "ppoll", Subject::Net),
    (libc::SYS_pselect6, "pselect6", Subject::Net),
    (libc::SYS_epoll_pwait, "epoll_pwait", Subject::Net),
    (libc::SYS_openat, "openat", Subject::Files),
    (libc::SYS_fsync, "fsync", Subject::Files),
    (libc::SYS_fdatasync, "fdatasync", Subject::Files),
    (libc::SYS_flock, "flock", Subject::Files),
    (libc::SYS_fcntl, "fcntl", Subject::Files),
    (libc::SYS_getdents64, "getdents64", Subject::Files),
    (libc::SYS_statx, "statx", Subject::Files),
    (libc::SYS_nanosleep, "nanosleep", Subject::Sleep),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", Subject::Sleep),
    (libc::SYS_futex, "futex", Subject::Lock),
    (libc::SYS_wait4, "wait4", Subject::Child),
    (libc::SYS_waitid, "waitid", Subject::Child),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll", Subject::Net),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select", Subject::Net),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait", Subject::Net),
];

fn known(number: i64) -> Option<&'static (libc::c_long, &'static str, Subject)> {
    CALLS.iter().find(|(known, ..)| *known == number)
}

/// The system call in which a thread of this process waits; `None` if it runs, or the system gives
/// no information.
pub(super) fn blocked_in(tid: i32) -> Option<BlockedIn> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    let (number, first) = parse(&text)?;
    let known = known(number);
    let object = match known {
        Some((_, _, Subject::Descriptor)) => object_of(first),
        _ => None,
    };
    Some(BlockedIn { number, name: known.map(|(_, name, _)| *name), object })
}

/// The number, and the first argument: "0 0x3 0x7f8d… …", "running", or "-1 …" outside of a call.
fn parse(text: &str) -> Option<(i64, u64)> {
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let first = words.next()?.strip_prefix("0x")?;
    Some((number, u64::from_str_radix(first, 16).ok()?))
}

fn object_of(descriptor: u64) -> Option<BlockedOn> {
    let target = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    let target = target.to_string_lossy();
    Some(match &*target {
        path if path.starts_with("socket:") => BlockedOn::Socket,
        path if path.starts_with("pipe:") || path.starts_with("/dev/pts/") => BlockedOn::Pipe,
        path if path.starts_with("/dev/") || !path.starts_with('/') => BlockedOn::Other,
        _ => BlockedOn::File,
    })
}

impl fmt::Display for BlockedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockedOn::Socket => "a socket",
            BlockedOn::Pipe => "a pipe or a terminal",
            BlockedOn::File => "a file",
            BlockedOn::Other => "a descriptor",
        })
    }
}

impl fmt::Display for BlockedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "`{name}`")?,
            None => write!(f, "system call {}", self.number)?,
        }
        if let Some(object) = self.object {
            write!(f, " on {object}")?;
        }
        let subject = known(self.number).map(|(_, _, subject)| *subject);
        f.write_str(match (subject, self.object) {
            (Some(Subject::Net), _) | (_, Some(BlockedOn::Socket)) => ": use `parcae_io::net`",
            (Some(Subject::Files), _) | (_, Some(BlockedOn::File)) => ": use `parcae_io::fs`",
            (_, Some(BlockedOn::Pipe)) => ": use `parcae_io::pipe` or `parcae_io::stdio`",
            (Some(Subject::Sleep), _) => ": use `parcae::time::sleep`",
            (Some(Subject::Lock), _) => {
                " (a lock, channel, condition or join of threads): use `parcae::sync` and \
                 `parcae::channel`"
            }
            (Some(Subject::Child), _) => ": use `parcae_io::process`",
            (Some(Subject::Descriptor) | None, _) => "",
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_from_the_text_of_the_system() {
        assert_eq!(parse("0 0x3 0x7f8d01c4a000 0x20000"), Some((0, 3)));
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse("-1 0x7fff90c0f108 0x7f8d01dc62ad"), None);
        assert_eq!(parse("7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_text_says_what_to_use_instead() {
        let text = |number, object| {
            let name = known(number).map(|(_, name, _)| *name);
            BlockedIn { number, name, object }.to_string()
        };
        for (number, object, expected) in [
            (libc::SYS_recvfrom, Some(BlockedOn::Socket), "on a socket: use `parcae_io::net`"),
            (libc::SYS_read, Some(BlockedOn::File), "`read` on a file: use `parcae_io::fs`"),
            (libc::SYS_read, Some(BlockedOn::Pipe), "use `parcae_io::pipe`"),
            (libc::SYS_read, Some(BlockedOn::Other), "`read` on a descriptor"),
            (libc::SYS_clock_nanosleep, None, "use `parcae::time::sleep`"),
            (libc::SYS_futex, None, "use `parcae::sync`"),
            (libc::SYS_waitid, None, "use `parcae_io::process`"),
            (4_095, None, "system call 4095"),
        ] {
            let text = text(number, object);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_seen_in_its_call() {
        let (tell, told) = std::sync::mpsc::channel();
        let (mut end, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let reads = std::thread::spawn(move || {
            // SAFETY: takes no pointers.
            tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as i32).unwrap();
            std::io::Read::read(&mut end, &mut [0; 1]).unwrap()
        });
        let tid = told.recv().unwrap();
        let seen = loop {
            match blocked_in(tid) {
                Some(seen) if seen.object == Some(BlockedOn::Socket) => break Some(seen),
                // Not there yet, or the system does not say.
                None if std::fs::read_to_string("/proc/self/syscall").is_err() => break None,
                _ => std::thread::yield_now(),
            }
        };
        drop(other);
        assert_eq!(reads.join().unwrap(), 0);
        if let Some(seen) = seen {
            assert!(seen.to_string().ends_with("on a socket: use `parcae_io::net`"), "{seen}");
        }
    }
}
