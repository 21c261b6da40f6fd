//! The kinds of mailboxes, the stash, timers.

use super::*;
use parcae::cap::{ChannelLimits, Delegation};
use parcae::{CancelToken, NurseryOpts};
use parcae_actor::{CallError, LetterReason, Mailbox};
use std::collections::VecDeque;
use std::sync::Arc;

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
        let opts = ActorOpts::new("gate").mailbox(mailbox.clone());
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

// rule: S0-PROFILE-7
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

// rule: S0-PROFILE-7
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

#[test]
fn an_actor_that_drains_handles_its_mailbox_first() {
    everywhere(|_, system, log| {
        let opts = ActorOpts::new("a").mailbox(Mailbox::bounded(100));
        let actor = system.start(opts, subject("a", log))?;
        let watch = actor.watch();
        for n in 0..50 {
            actor.tell(Msg::Note(n.to_string()))?;
        }
        actor.drain()?;
        assert_eq!(watch.wait()?.kind(), parcae_actor::ExitKind::Stopped);
        let mut expected: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        expected.push("a stopped".into());
        assert_eq!(log.take(), expected);
        Ok(())
    });
}

#[test]
fn an_idle_actor_drains_at_once_and_a_failed_one_in_its_next_life() {
    everywhere(|_, system, log| {
        let idle = start(system, "idle", log)?;
        idle.call(LONG, Msg::Sum)?;
        let watch = idle.watch();
        idle.drain()?;
        watch.wait()?;
        assert_eq!(log.take(), ["idle stopped"]);
        let actor = start(system, "a", log)?;
        for msg in [Msg::Fail("broken"), Msg::Note("handled".into())] {
            actor.tell(msg)?;
        }
        actor.drain()?;
        while !actor.is_gone() {
            parcae::time::sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), ["a failed: broken", "a again", "handled", "a stopped"]);
        Ok(())
    });
}

#[test]
fn a_permanent_actor_drains_once() {
    everywhere(|_, system, log| {
        let opts = ActorOpts::new("a").child(parcae_actor::Child::permanent());
        let actor = system.start(opts, subject("a", log))?;
        actor.drain()?;
        while actor.call(LONG, Msg::Incarnation)? == 1 {
            parcae::yield_now()?;
        }
        assert_eq!(actor.call(LONG, Msg::Incarnation)?, 2);
        assert_eq!(system.restarts_left(), 999);
        Ok(())
    });
}

/// Starts an actor that is busy until the event is set.
fn busy<'env>(
    system: &System<'env>,
    mailbox: Mailbox,
    log: &'env Log,
) -> Result<(Address<Item>, Arc<parcae::sync::Event>)> {
    let opts = ActorOpts::new("gate").mailbox(mailbox);
    let gate = system.start(opts, |_| Ok(Gate { log, is_open: false }))?;
    let (held, release) = <(Arc<parcae::sync::Event>, Arc<parcae::sync::Event>)>::default();
    gate.tell(Item::Hold(Arc::clone(&held), Arc::clone(&release)))?;
    held.wait()?;
    Ok((gate, release))
}

#[test]
fn a_message_is_handed_over_or_comes_back() {
    everywhere(|cx, system, log| {
        let (gate, release) = busy(system, Mailbox::rendezvous(), log)?;
        assert!(matches!(gate.try_tell(Item::Number(1)).unwrap_err().error(), CallError::Full));
        let late = gate.tell_within(Duration::from_millis(5), Item::Number(2)).unwrap_err();
        assert!(matches!(late.error(), CallError::Expired), "{late}");
        assert!(matches!(late.into_inner(), Item::Number(2)));
        cx.nursery(|n| {
            let sender = gate.clone();
            let sent = n.spawn(move |_| Ok(sender.tell(Item::Number(3))?))?;
            while gate.queued() == 0 {
                cx.sleep(Duration::from_millis(1))?;
            }
            assert!(!sent.is_finished());
            release.set();
            sent.join()
        })?;
        gate.tell(Item::Number(4))?; // the third is handled: the actor has come back
        assert_eq!(log.take()[0], "3");
        // When it waits for a message, there is room for one that must not wait.
        while gate.try_tell(Item::Number(5)).is_err() {
            cx.sleep(Duration::from_millis(1))?;
        }
        let watch = gate.watch();
        gate.drain()?;
        watch.wait()?;
        assert_eq!(log.take().last().unwrap(), "5");
        assert_eq!(system.dead_letters().count(LetterReason::Gone), 0);
        Ok(())
    });
}

#[test]
fn senders_that_wait_for_an_actor_that_ends_get_their_messages_back() {
    everywhere(|cx, system, log| {
        let (gate, release) = busy(system, Mailbox::rendezvous(), log)?;
        cx.nursery(|n| {
            let senders: Vec<_> = (0..3)
                .map(|at| {
                    let gate = gate.clone();
                    n.spawn(move |_| Ok(gate.tell(Item::Number(at))))
                })
                .collect::<Result<_>>()?;
            let cancelled = CancelToken::new();
            let (own, sender) = (cancelled.clone(), gate.clone());
            let fourth = n.spawn(move |cx| {
                let opts = NurseryOpts::new().token(&own);
                let ended = cx.nursery_with(opts, |_| Ok(sender.tell(Item::Number(9)).map(drop)));
                Ok(ended.is_err() || ended.is_ok_and(|told| told.is_err()))
            })?;
            while gate.queued() < 4 {
                cx.sleep(Duration::from_millis(1))?;
            }
            cancelled.cancel();
            assert!(fourth.join()?);
            assert_eq!(gate.queued(), 3);
            gate.stop()?;
            release.set();
            for (at, sender) in senders.into_iter().enumerate() {
                let error = sender.join()?.unwrap_err();
                assert!(matches!(error.error(), CallError::Gone(Some(_))), "{error}");
                assert!(matches!(error.into_inner(), Item::Number(n) if n == at as u64));
            }
            Ok(())
        })?;
        let late = gate.tell(Item::Number(7)).unwrap_err();
        assert!(matches!(late.error(), CallError::Gone(Some(_))));
        assert_eq!(log.take(), Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn only_a_capability_makes_a_mailbox_unbounded() {
    support::schedules(&[1, 2], 20, 3, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let cap = |max_channels, max_buffer| {
            let limits = ChannelLimits { max_channels, max_buffer };
            Arc::new(rt.cap_channel(limits, Delegation::Forbidden))
        };
        let (one, small) = (cap(1, usize::MAX), cap(1, 1000));
        let log = Log::default();
        support::succeed(rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                let start = |cap| {
                    let opts = ActorOpts::new("gate").mailbox(Mailbox::unbounded(cap));
                    system.start(opts, |_| Ok(Gate { log: &log, is_open: false }))
                };
                start(Arc::clone(&small)).unwrap_err(); // and the name is free again
                let (gate, release) = busy(system, Mailbox::unbounded(Arc::clone(&one)), &log)?;
                (0..1000).try_for_each(|n| gate.try_tell(Item::Number(n)))?;
                assert_eq!((gate.queued(), one.live(), small.live()), (1000, 1, 0));
                let opts = ActorOpts::new("second").mailbox(Mailbox::unbounded(Arc::clone(&one)));
                system.start(opts, |_| Ok(Gate { log: &log, is_open: false })).unwrap_err();
                release.set();
                let watch = gate.watch();
                gate.drain()?;
                watch.wait()?;
                Ok(())
            })
        }));
        assert_eq!(log.take(), (0..1000).map(|n: u32| n.to_string()).collect::<Vec<_>>());
        assert_eq!(one.live(), 0);
    });
}

/// Messages of several senders, each handled once and in the order of its sender, or refused,
/// dropped or replaced, and then counted: of each kind of mailbox.
#[test]
fn every_message_has_one_fate() {
    struct Sorter<'a>(&'a Log);
    impl Actor for Sorter<'_> {
        type Msg = (u64, u64);
        fn handle(&mut self, _: &mut ActorCx<'_, (u64, u64)>, msg: (u64, u64)) -> Result<Next> {
            self.0.add(format!("{} {}", msg.0, msg.1));
            if msg.1 == 3 && msg.0 == 0 {
                return Err(Error::msg("broken")); // the mailbox survives
            }
            Ok(Next::Continue)
        }
        fn key(msg: &(u64, u64)) -> u64 {
            msg.0
        }
        fn level(msg: &(u64, u64)) -> usize {
            msg.0 as usize
        }
    }
    let bounded = || Mailbox::bounded(2);
    let kinds: [fn(Mailbox) -> Mailbox; 7] = [
        |mailbox| mailbox,
        Mailbox::refuse,
        Mailbox::drop_oldest,
        Mailbox::drop_newest,
        Mailbox::latest_by_key,
        |mailbox| mailbox.priority(3),
        |_| Mailbox::rendezvous(),
    ];
    for kind in kinds {
        everywhere(move |cx, system, log| {
            let opts = ActorOpts::new("sorter").mailbox(kind(bounded()));
            let sorter = system.start(opts, |_| Ok(Sorter(log)))?;
            let refused = cx.nursery(|n| {
                let senders: Vec<_> = (0..3)
                    .map(|sender| {
                        let sorter = sorter.clone();
                        n.spawn(move |_| {
                            let tell = |at| sorter.tell((sender, at));
                            Ok((0..8).filter(|&at| tell(at).is_err()).count() as u64)
                        })
                    })
                    .collect::<Result<_>>()?;
                senders.into_iter().map(|sender| sender.join()).sum::<Result<u64>>()
            })?;
            let watch = sorter.watch();
            sorter.drain()?;
            watch.wait()?;
            while !sorter.is_gone() {
                cx.sleep(Duration::from_millis(1))?;
            }
            let lines = log.take();
            for sender in 0..3 {
                let own = |line: &&String| line.starts_with(&format!("{sender} "));
                let own: Vec<_> = lines.iter().filter(own).collect();
                assert!(own.is_sorted_by(|one, next| one < next), "{lines:?}");
            }
            let letters = system.dead_letters();
            let lost = [LetterReason::Overflow, LetterReason::Replaced, LetterReason::Gone]
                .map(|reason| letters.count(reason));
            assert_eq!(lines.len() as u64 + refused + lost.iter().sum::<u64>(), 24, "{lines:?}");
            Ok(())
        });
    }
}
