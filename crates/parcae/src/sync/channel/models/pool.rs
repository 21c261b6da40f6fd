//! Pools of items.

use super::*;

/// As [`recv`], for a value of size zero, which has no memory.
fn recv_permit(core: &Channel<()>) -> bool {
    let node = node();
    match begin_recv(core, NonNull::dangling(), &node) {
        Some(Took::Done(wakes)) => {
            wakes.wake();
            true
        }
        Some(_) => false,
        None => wait_on(&node) == Grant::Own,
    }
}

/// A pool of one item: its permits, the idle item, and the number of items made.
struct Lent {
    permits: Channel<()>,
    idle: IdleItems<u32>,
    made: AtomicUsize,
}

impl Lent {
    fn new() -> Shared<Lent> {
        let lent = Lent {
            permits: ChannelCore::new(1, Overflow::Block),
            idle: IdleItems::new(),
            made: AtomicUsize::new(0),
        };
        lent.permits.fill(1);
        Shared::new(lent)
    }

    /// Borrows an item and gives it back; false if the pool is closed.
    fn borrow(&self) -> bool {
        if !recv_permit(&self.permits) {
            return false;
        }
        let item = self.idle.take().unwrap_or_else(|| {
            self.made.fetch_add(1, Ordering::Relaxed); // a figure for the end
            7
        });
        drop(self.idle.give_back(Some(item), &self.permits));
        true
    }
}

// rule: S4-KIND-8
#[test]
fn a_pool_finds_its_idle_item_before_it_makes_another() {
    explore("pool: two borrowers of one", None, || {
        let lent = Lent::new();
        let other = {
            let lent = Shared::clone(&lent);
            thread::spawn(move || assert!(lent.borrow()))
        };
        assert!(lent.borrow());
        other.join().unwrap();
        assert_eq!(lent.made.load(Ordering::Relaxed), 1, "no more than the capacity");
    });
}

#[test]
fn a_pool_that_is_closed_keeps_nothing() {
    explore("pool: a borrower against a close", None, || {
        let lent = Lent::new();
        let borrower = {
            let lent = Shared::clone(&lent);
            thread::spawn(move || lent.borrow())
        };
        lent.permits.close(None);
        drop(lent.idle.empty(&lent.permits));
        borrower.join().unwrap();
        assert!(lent.idle.take().is_none(), "an item that nobody will borrow");
    });
}
