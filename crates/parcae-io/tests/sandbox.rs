//! A sandbox that forbids io_uring, as containers do, and a kernel that is older than some calls:
//! the same operations work without, and the runtime names the backend that it uses instead.
//!
//! A program of its own: the answers of the kernel are remembered for the whole process.

use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae_io::fs::{self, File, FileBackend};
use parcae_io::net::{TcpListener, TcpStream, UdpSocket};
use std::io::{Read, Seek, Write};
use std::time::Duration;

/// From now on these calls fail on this thread, and on those that it starts. An error if the system
/// has no such filters.
fn forbid(calls: &[(libc::c_long, i32)]) -> std::io::Result<()> {
    let step =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first word that a filter sees.
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (call, error) in calls {
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        steps.push(step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | *error as u32,
            0,
            0,
        ));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives until the calls return; the kernel copies and checks it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// A path in the folder for such files, removed at the end.
struct Path(std::path::PathBuf);

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn files() -> parcae::Result<()> {
    let name = format!("parcae-sandbox-{}", std::process::id());
    let path = Path(std::env::temp_dir().join(name));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path.0)?;
    file.write_all(&[7; 100_000])?;
    file.sync_all()?;
    file.rewind()?;
    let mut got = Vec::new();
    file.read_to_end(&mut got)?;
    assert_eq!(got, [7; 100_000]);
    Ok(())
}

fn sockets(cx: &Cx) -> parcae::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let stop = CancelToken::new();
    let served = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
        for _ in 0..20 {
            n.spawn(|cx| {
                let mut stream = TcpStream::connect(address)?;
                cx.sleep(Duration::from_micros(300))?;
                stream.write_all(b"hello")?;
                Ok(stream.read_exact(&mut [0; 5])?)
            })?;
            let (mut stream, _) = listener.accept()?;
            n.spawn(move |_| {
                let mut word = [0; 5];
                stream.read_exact(&mut word)?;
                Ok(stream.write_all(&word)?)
            })?;
        }
        // A datagram that does not come, and a connection that no one makes.
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_micros(1_500)))?;
        let error = socket.recv(&mut [0; 5]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        n.spawn(|_| Ok(listener.accept().map(drop)?))?;
        cx.sleep(Duration::from_millis(1))?;
        stop.cancel();
        Ok(())
    });
    assert!(served.is_err_and(|error| error.is_cancelled()));
    Ok(())
}

#[test]
fn everything_works_where_io_uring_is_forbidden() {
    let calls = [
        (libc::SYS_io_uring_setup, libc::EPERM),
        (libc::SYS_io_uring_enter, libc::EPERM),
        (libc::SYS_epoll_pwait2, libc::ENOSYS),
    ];
    if let Err(error) = forbid(&calls) {
        println!("skipped: no filters of system calls: {error}");
        return;
    }
    let rt = Runtime::builder().workers(2).sockets(SocketBackend::Ring).build().unwrap();
    rt.run(|cx| {
        sockets(cx)?;
        files()?;
        assert_eq!(parcae_io::net::backend(), SocketBackend::Epoll);
        assert_eq!(fs::backend(), FileBackend::Pool);
        assert!(fs::set_backend(FileBackend::Ring).is_err());
        Ok(())
    })
    .unwrap();
    let dump = rt.dump().to_string();
    assert!(dump.contains("sockets by epoll: the kernel refuses io_uring"), "{dump}");
}
