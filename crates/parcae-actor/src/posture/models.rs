//! Models of senders and stops against an actor that is going to wait or to sleep.

use super::{Alarm, Posture};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// An actor with one lane, a bell that keeps a ring, and a supervisor that starts tasks.
struct Model {
    posture: Posture,
    /// A lane whose accesses order nothing by themselves.
    lane: AtomicUsize,
    /// The request to stop, in the system lane.
    stops: AtomicBool,
    bell: Mutex<bool>,
    rung: Condvar,
    /// Requests to the supervisor.
    requests: AtomicUsize,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            posture: Posture::new(),
            lane: AtomicUsize::new(0),
            stops: AtomicBool::new(false),
            bell: Mutex::new(false),
            rung: Condvar::new(),
            requests: AtomicUsize::new(0),
        })
    }

    fn tell(&self) {
        self.lane.fetch_add(1, Ordering::Relaxed);
        match self.posture.sent() {
            Alarm::None => {}
            Alarm::Ring => self.ring(),
            Alarm::Rouse => {
                self.requests.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    fn ring(&self) {
        *self.bell.lock().unwrap() = true;
        self.rung.notify_one();
    }

    /// An event of the system rings also if the actor neither waits nor sleeps.
    fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        match self.posture.sent() {
            Alarm::None | Alarm::Ring => self.ring(),
            Alarm::Rouse => {
                self.requests.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// Takes all messages, and returns their number.
    fn take(&self) -> usize {
        self.lane.swap(0, Ordering::Relaxed)
    }

    /// Handles messages until there is none, and sleeps. Returns their number.
    fn until_asleep(&self) -> usize {
        let mut handled = self.take();
        loop {
            self.posture.sleep();
            match self.take() {
                0 => return handled,
                more => handled += more,
            }
            self.posture.get_up();
        }
    }

    /// Handles messages, for which it waits, and returns their number.
    fn until_handled(&self) -> usize {
        loop {
            let first = self.take();
            if first > 0 {
                return first;
            }
            self.posture.wait();
            let last = self.take();
            if last > 0 {
                self.posture.get_up();
                return last;
            }
            self.sleep_at_the_bell();
            self.posture.get_up();
        }
    }

    fn sleep_at_the_bell(&self) {
        let mut ring = self.bell.lock().unwrap();
        while !*ring {
            ring = self.rung.wait(ring).unwrap();
        }
        *ring = false;
    }

    /// Handles messages until it is asked to stop, and returns their number.
    fn until_stopped(&self) -> usize {
        let mut handled = 0;
        let mut waits = false;
        loop {
            if self.stops.load(Ordering::Relaxed) {
                return handled;
            }
            let taken = self.take();
            handled += taken;
            match (taken, waits) {
                (0, true) => self.sleep_at_the_bell(),
                (0, false) => self.posture.wait(),
                _ => {}
            }
            waits = taken == 0 && !waits;
            if !waits {
                self.posture.get_up();
            }
        }
    }
}

/// An actor that waits hears of a message.
#[test]
fn tell_against_wait() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let sender = thread::spawn(move || other.tell());
        assert_eq!(model.until_handled(), 1);
        sender.join().unwrap();
    });
}

/// Of two senders one rings; the actor that waits handles the messages of both.
#[test]
fn two_senders_against_wait() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2); // three threads
    builder.check(|| {
        let model = Model::new();
        let (one, two) = (Arc::clone(&model), Arc::clone(&model));
        let senders = [thread::spawn(move || one.tell()), thread::spawn(move || two.tell())];
        let mut handled = 0;
        while handled < 2 {
            handled += model.until_handled();
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// An actor that sleeps leaves no message behind: either it has found it, or there is a request.
#[test]
fn tell_against_sleep() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let sender = thread::spawn(move || other.tell());
        let mut handled = model.until_asleep();
        sender.join().unwrap();
        // The supervisor starts a task for a request.
        let requests = model.requests.swap(0, Ordering::AcqRel);
        for _ in 0..requests {
            handled += model.until_asleep();
        }
        assert_eq!((handled, model.take()), (1, 0));
    });
}

/// Two senders that find the actor asleep make one request.
#[test]
fn a_sleep_has_one_request() {
    loom::model(|| {
        let model = Model::new();
        assert_eq!(model.until_asleep(), 0);
        let other = Arc::clone(&model);
        let sender = thread::spawn(move || other.tell());
        model.tell();
        sender.join().unwrap();
        assert_eq!(model.requests.load(Ordering::Acquire), 1);
        assert_eq!(model.until_asleep(), 2);
    });
}

/// A stop meets a message and an actor that is going to wait: the actor hears of the stop, and the
/// message was handled, or is still in the lane for the dead letters.
#[test]
fn stop_against_tell() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2); // three threads
    builder.check(|| {
        let model = Model::new();
        let (one, two) = (Arc::clone(&model), Arc::clone(&model));
        let sender = thread::spawn(move || one.tell());
        let stopper = thread::spawn(move || two.stop());
        let handled = model.until_stopped();
        sender.join().unwrap();
        stopper.join().unwrap();
        assert_eq!(handled + model.take(), 1);
    });
}
