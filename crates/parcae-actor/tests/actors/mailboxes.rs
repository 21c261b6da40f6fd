//! The kinds of mailboxes, the stash, timers.

use super::*;
use parcae_actor::{CallError, LetterReason, Mailbox};
use std::collections::VecDeque;

/// Takes numbers; handles none before it is told to.
struct Gate<'a> {
    log: &'a Log,
    is_open: bool,
}

#[derive(Debug, Clone)]
enum Item {
    Number(u64),
    Open,
    Hold(std::sync::Arc<parcae::sync::Event>, std::sync::Arc<parcae::sync::Event>),
}

impl Actor for Gate<'_> {
    type Msg = Item;

    fn handle(&mut self, cx: &mut ActorCx<'_, Item>, item: Item) -> Result<Next> {
        match item {
            Item::Number(n) if self.is_open => self.log.add(n.to_string()),
            Item::Number(_) => {
                if cx.stash(item).is_err() {
                    self.log.add("the stash is full");
                }
            }
            Item::Open => {
                self.is_open = true;
                cx.unstash_all();
            }
            Item::Hold(held, release) => {
                self.is_open = true;
                held.set();
                release.wait()?;
            }
        }
        Ok(Next::Continue)
    }

    fn key(item: &Item) -> u64 {
        if let Item::Number(n) = item { n % 10 } else { u64::MAX }
    }

    fn level(item: &Item) -> usize {
        if let Item::Number(n) = item { (n / 100) as usize } else { 0 }
    }
}

/// The order in which numbers are handled that are sent, without waiting, while the actor is busy;
/// and the error of the first that was refused.
fn handled(mailbox: Mailbox, numbers: &'static [u64], expected: &'static [&str], lost: u64) {
    everywhere(move |cx, system, log| {
        let opts = ActorOpts::new("gate").mailbox(mailbox);
        let gate = system.start(opts, |_| Ok(Gate { log, is_open: false }))?;
        let (held, release) = Default::default();
        gate.tell(Item::Hold(std::sync::Arc::clone(&held), std::sync::Arc::clone(&release)))?;
        held.wait()?;
        let mut refused = VecDeque::new();
        for &n in numbers {
            if let Err(error) = gate.try_tell(Item::Number(n)) {
                assert!(matches!(error.error(), CallError::Full), "{error}");
                refused.push_back(n);
            }
        }
        release.set();
        while gate.queued() > 0 || log.0.lock().unwrap().len() < expected.len() {
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), expected);
        let letters = system.dead_letters();
        let dropped = letters.count(LetterReason::Overflow) + letters.count(LetterReason::Replaced);
        assert_eq!(dropped + refused.len() as u64, lost);
        Ok(())
    });
}

#[test]
fn a_full_mailbox_refuses() {
    handled(Mailbox::bounded(3).refuse(), &[1, 2, 3, 4, 5], &["1", "2", "3"], 2);
}

#[test]
fn a_full_mailbox_drops_its_newest_message() {
    handled(Mailbox::bounded(3).drop_newest(), &[1, 2, 3, 4, 5], &["1", "2", "3"], 2);
}

#[test]
fn a_full_mailbox_drops_its_oldest_message() {
    handled(Mailbox::bounded(3).drop_oldest(), &[1, 2, 3, 4, 5], &["3", "4", "5"], 2);
}

#[test]
fn a_message_replaces_one_of_the_same_key() {
    handled(Mailbox::bounded(3).latest_by_key(), &[11, 2, 21, 3, 31, 4], &["31", "2", "3"], 3);
}

#[test]
fn higher_levels_go_first_and_keep_their_order() {
    let numbers = &[1, 101, 2, 201, 102, 3, 202];
    let expected = &["201", "202", "101", "102", "1", "2", "3"];
    handled(Mailbox::bounded(8).priority(3), numbers, expected, 0);
}

#[test]
fn a_low_level_does_not_starve() {
    deterministic(|_, system, log| {
        let opts = ActorOpts::new("gate").mailbox(Mailbox::bounded(64).priority(2));
        let gate = system.start(opts, |_| Ok(Gate { log, is_open: false }))?;
        let (held, release) = Default::default();
        gate.tell(Item::Hold(std::sync::Arc::clone(&held), std::sync::Arc::clone(&release)))?;
        held.wait()?;
        gate.tell(Item::Number(1))?;
        (0..40).try_for_each(|n| gate.tell(Item::Number(100 + n)))?;
        release.set();
        let watch = gate.watch();
        parcae::time::sleep(LONG)?;
        gate.stop()?;
        watch.wait()?;
        let lines = log.take();
        assert_eq!(lines.iter().position(|line| line == "1"), Some(16), "{lines:?}");
        Ok(())
    });
}

#[test]
fn kept_messages_come_back_in_order_and_are_bounded() {
    everywhere(|cx, system, log| {
        let opts = ActorOpts::new("gate").stash(2);
        let gate = system.start(opts, |_| Ok(Gate { log, is_open: false }))?;
        for n in 1..=3 {
            gate.tell(Item::Number(n))?;
        }
        gate.tell(Item::Open)?;
        gate.tell(Item::Number(4))?;
        while log.0.lock().unwrap().len() < 4 {
            cx.sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), ["the stash is full", "1", "2", "4"]);
        Ok(())
    });
}

#[test]
fn a_sender_waits_while_the_mailbox_is_full() {
    everywhere(|cx, system, log| {
        let opts = ActorOpts::new("gate").mailbox(Mailbox::bounded(1));
        let gate = system.start(opts, |_| Ok(Gate { log, is_open: false }))?;
        let (held, release) = Default::default();
        gate.tell(Item::Hold(std::sync::Arc::clone(&held), std::sync::Arc::clone(&release)))?;
        held.wait()?;
        gate.tell(Item::Number(1))?;
        let late = gate.tell_within(Duration::from_millis(5), Item::Number(2)).unwrap_err();
        assert!(matches!(late.error(), CallError::Expired), "{late}");
        cx.nursery(|n| {
            let sender = gate.clone();
            let sent = n.spawn(move |_| Ok(sender.tell(Item::Number(3)).is_ok()))?;
            cx.sleep(Duration::from_millis(1))?;
            assert!(!sent.is_finished());
            // A request to stop goes before the messages, although the mailbox is full.
            let watch = gate.watch();
            gate.stop()?;
            release.set();
            assert_eq!(watch.wait()?.kind(), parcae_actor::ExitKind::Stopped);
            assert!(!sent.join()?);
            Ok(())
        })?;
        assert_eq!(log.take(), Vec::<String>::new());
        Ok(())
    });
}
