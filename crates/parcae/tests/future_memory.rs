//! Memory of futures that wait. A program of its own, because its allocator counts all bytes.

use parcae::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }
}

// rule: S0-FUTURE-1, S0-STK-3
#[test]
fn a_parked_future_takes_256_bytes_beside_itself() {
    const FUTURES: usize = 65_536;
    // No log of events, which would grow with them: one worker on a thread.
    let rt = Runtime::builder().workers(1).build().unwrap();
    let parked = AtomicUsize::new(0);
    let each = rt.run(|cx| {
        let future = || async {
            parked.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<parcae::Result<()>>().await
        };
        let own = size_of_val(&future());
        cx.nursery(|n| {
            let before = LIVE.load(Ordering::Relaxed);
            for _ in 0..FUTURES {
                n.spawn_future(future())?;
            }
            while parked.load(Ordering::Relaxed) < FUTURES {
                cx.yield_now()?;
            }
            let each = (LIVE.load(Ordering::Relaxed) - before) / FUTURES;
            n.wind_down();
            Ok(each - own)
        })
    });
    let each = each.unwrap();
    println!("{each} bytes beside each future");
    // Debug builds mark links and tag overlays. Records come in chunks.
    let most = if cfg!(debug_assertions) { 330 } else { 260 };
    assert!((200..=most).contains(&each), "{each} bytes beside each future");
}
