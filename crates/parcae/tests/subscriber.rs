//! A subscriber of the feature `tracing` is code of the program, and may panic.

#![cfg(feature = "tracing")]

use parcae::channel::channel;
use parcae::inspect::TaskState;
use parcae::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Whether the next task that is resumed finds a subscriber that panics.
static PANIC: AtomicBool = AtomicBool::new(false);

struct PanicsOnce {
    next: AtomicU64,
}

impl Subscriber for PanicsOnce {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        assert!(!PANIC.swap(false, Ordering::Relaxed), "a panic of the subscriber");
    }

    fn exit(&self, _: &Id) {}
}

/// The panic comes when a sender is resumed whose value was taken: it must not unwind the send.
#[test]
fn a_panic_of_a_subscriber_undoes_no_send() {
    tracing::subscriber::set_global_default(PanicsOnce { next: AtomicU64::new(1) }).unwrap();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let value = Arc::new(());
    let received = rt.run(|cx| {
        let (tx, rx) = channel::<Arc<()>>(0);
        let sent = Arc::clone(&value);
        cx.nursery(|n| {
            let sender = n.spawn(move |_| Ok(tx.send(sent)?))?;
            while sender.state() != TaskState::Waiting {
                cx.yield_now()?;
            }
            let received = rx.recv()?;
            PANIC.store(true, Ordering::Relaxed);
            sender.join()?;
            Ok(received)
        })
    });
    let received = received.unwrap();
    assert!(!PANIC.load(Ordering::Relaxed), "the subscriber was not called");
    assert_eq!(Arc::strong_count(&value), 2, "the sender has dropped a value that it had sent");
    drop(received);
}
