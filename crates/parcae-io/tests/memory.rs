//! The memory of a connection that waits in a child without a stack. A program of its own: the
//! allocator counts for the process.

use parcae::prelude::*;
use parcae_io::net::{TcpListener, TcpStream};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes all calls on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed); // a count
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed); // a count
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// As many as the slots of the first three chunks: none is made in advance.
const CONNECTIONS: usize = 64 + 128 + 256;

#[test]
fn an_idle_connection_without_a_stack_is_small() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let each = rt.run(|cx| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let mut ends = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = std::net::TcpStream::connect(address)?;
            let (server, _) = std::os::fd::AsFd::as_fd(&listener)
                .try_clone_to_owned()
                .map(std::net::TcpListener::from)?
                .accept()?;
            ends.push((client, server));
        }
        let stop = CancelToken::new();
        let mut each = 0;
        let waited = cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
            let before = IN_USE.load(Ordering::Relaxed);
            let mut clients = Vec::with_capacity(CONNECTIONS);
            let own = CONNECTIONS * size_of::<std::net::TcpStream>();
            for (client, server) in ends {
                clients.push(client);
                let mut server = TcpStream::from_std(server)?.into_async();
                n.spawn_future(async move {
                    let mut byte = [0; 1];
                    server.read(&mut byte).await?;
                    Ok(())
                })?;
            }
            cx.sleep(Duration::from_millis(50))?; // all of them wait
            let grown = IN_USE.load(Ordering::Relaxed) - before; // a count
            each = (grown - own) / CONNECTIONS;
            stop.cancel();
            Ok(())
        });
        assert!(waited.is_err_and(|error| error.is_cancelled()));
        Ok(each)
    });
    let each = each.unwrap();
    println!("{each} bytes");
    assert!((300..=600).contains(&each), "{each} bytes");
}
