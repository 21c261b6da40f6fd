//! Each kind of case.

use super::*;
use crate::sync::channel::{ChannelOpts, Overflow, Reason};
use crate::{Budget, CancelReason};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn one_that_is_possible_happens_and_nothing_else_is_touched() {
    let ((a, a_rx), (b, b_rx)) = (channel(1), channel(1));
    b.send(2).unwrap();
    let got = crate::select! {
        recv(a_rx) -> v => (0, v.unwrap()),
        recv(b_rx) -> v => (1, v.unwrap()),
        timeout(LONG) => (2, 0),
    };
    assert_eq!(got.unwrap(), (1, 2));
    a.send(1).unwrap();
    b.send(2).unwrap();
    let winner = crate::select! {
        recv(a_rx) -> _ => 0,
        recv(b_rx) -> _ => 1,
    };
    assert_eq!([a.len(), b.len()][1 - winner.unwrap()], 1, "the other has kept its value");
    assert_eq!(a.len() + b.len(), 1);
}

#[test]
#[allow(unreachable_code, reason = "all arms diverge, and the macro is of this crate")]
fn control_flow_in_a_case_is_that_of_the_code_around() {
    fn first(rx: &Receiver<u8>) -> crate::Result<u8> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            crate::select! {
                recv(rx) -> v => match v? {
                    0 => continue,
                    1 => break,
                    v => return Ok(v + rounds),
                },
                default => return Err(crate::Error::msg("empty")),
            }?;
        }
        Ok(100)
    }
    let (tx, rx) = channel(8);
    assert_eq!(first(&rx).unwrap_err().to_string(), "empty");
    [0, 0, 7].into_iter().for_each(|v| tx.send(v).unwrap());
    assert_eq!(first(&rx).unwrap(), 10);
    tx.send(1).unwrap();
    assert_eq!(first(&rx).unwrap(), 100);
    tx.close();
    assert!(matches!(first(&rx).unwrap_err().kind(), ErrorKind::ChannelClosed));
}

/// A case whose arm is `value?` keeps its value until it is moved out. `?` may be applied to
/// another variable, and a single call may stand there as well.
#[test]
fn a_question_mark_alone_is_that_of_its_variable() {
    fn both(other: crate::Result<u8>, rx: &Receiver<String>) -> crate::Result<(u8, String, usize)> {
        let other = crate::select! { recv(rx) -> _value => other? }?;
        let value = crate::select! { recv(rx) -> value => value?, default => String::new() }?;
        let called = |value: &str| value.len();
        let text = "abc";
        let length = crate::select! { recv(rx) -> _value => called(text), default => 0 }?;
        Ok((other, value, length))
    }
    let (tx, rx) = channel(3);
    tx.send_all(["lost", "found", "last"].map(String::from)).unwrap();
    assert_eq!(both(Ok(7), &rx).unwrap(), (7, "found".to_owned(), 3));
    tx.send_all(["lost", "found"].map(String::from)).unwrap();
    assert_eq!(both(Err(crate::Error::msg("other")), &rx).unwrap_err().to_string(), "other");
    drop(tx);
    rx.recv().unwrap();
    assert!(matches!(both(Ok(7), &rx).unwrap_err().kind(), crate::ErrorKind::ChannelClosed));
    let due = || -> crate::Result<()> {
        let _at =
            crate::select! { recv(crate::sync::channel::after(Duration::ZERO)) -> at => at? }?;
        let never = crate::sync::channel::never::<u8>();
        let none = crate::select! { recv(never) -> value => value?, default => 9 }?;
        assert_eq!(none, 9);
        Ok(())
    };
    due().unwrap();
}

#[test]
fn all_possible_cases_get_their_chance() {
    let channels = [(); 4].map(|()| channel::<()>(1_000));
    channels.iter().for_each(|(tx, _)| (0..1_000).for_each(|_| tx.send(()).unwrap()));
    let count = || {
        let mut counts = [0; 4];
        for _ in 0..400 {
            let mut select = Select::new();
            for (i, (_, rx)) in channels.iter().enumerate() {
                select.recv(rx, move |_| i);
            }
            counts[select.wait().unwrap()] += 1;
        }
        counts
    };
    let rt = Runtime::builder().deterministic(5).build().unwrap();
    for counts in [count(), rt.run(|_| Ok(count())).unwrap()] {
        assert!(counts.iter().all(|&n| n > 40), "{counts:?}");
    }
}

#[test]
fn the_choice_is_the_same_in_a_replay() {
    let choices = |seed| {
        let rt = Runtime::builder().deterministic(seed).build().unwrap();
        rt.run(|_| {
            let (tx, rx) = channel(200);
            (0..100).try_for_each(|i| tx.send(i))?;
            let choose = |_| {
                crate::select! {
                    recv(rx) -> _ => true,
                    send(tx, 0) -> _ => false,
                }
            };
            (0..50).map(choose).collect::<crate::Result<Vec<bool>>>()
        })
        .unwrap()
    };
    assert_eq!(choices(1), choices(1));
    assert_ne!(choices(1), choices(2));
}

#[test]
fn closed_channels_are_possible() {
    let (tx, rx) = channel::<u8>(1);
    tx.close();
    let error = crate::select! { recv(rx) -> v => v.unwrap_err() }.unwrap();
    assert!(error.is_closed());
    let error = crate::select! { send(tx, 3) -> r => r.unwrap_err() }.unwrap();
    assert!(error.is_closed() && error.into_inner() == 3);
    deterministic(100, |cx, seed| {
        let ((tx, rx), (other, other_rx)) = (channel::<u8>(0), channel::<u8>(0));
        cx.nursery(|n| {
            let (rx, tx2) = (&rx, &tx);
            let waits = n.spawn(move |_| {
                crate::select! {
                    recv(rx) -> v => v.unwrap_err(),
                    recv(other_rx) -> _ => panic!("nobody sends there"),
                }
            })?;
            pause(cx, seed % 6)?;
            tx2.close_with(crate::Error::msg("enough"));
            let error = waits.join()?;
            assert!(matches!(error.reason(), Reason::Closed(Some(_))));
            Ok(())
        })?;
        assert_nobody_waits(&other);
        Ok(())
    });
}

#[test]
fn what_is_offered_stays_unless_it_is_sent() {
    let ((full, _rx), (free, free_rx)) = (channel(0), channel(1));
    let (mut a, mut b) = (Some("a"), None::<&str>);
    let winner = crate::select! {
        offer(full, &mut a) -> _ => 0,
        offer(free, &mut b) -> _ => 1,
        timeout(Duration::from_millis(1)) => 2,
    };
    assert_eq!((winner.unwrap(), a, b, free_rx.len()), (2, Some("a"), None, 0));
    crate::select! {
        offer(free, &mut a) -> r => r.unwrap(),
        timeout(LONG) => panic!("there is room"),
    }
    .unwrap();
    assert_eq!((a, free_rx.recv().unwrap()), (None, "a"));
}

#[test]
fn timeouts_and_tokens() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel::<u8>(0);
        let token = CancelToken::new();
        let early = crate::select! {
            recv(rx) -> _ => 0,
            timeout(LONG) => 1,
            timeout(Duration::from_micros(seed % 50)) => 2,
            cancelled(token) -> _ => 3,
        }?;
        assert_eq!(early, 2, "the earlier one");
        cx.nursery(|n| {
            let waits = n.spawn(|_| {
                crate::select! {
                    recv(rx) -> _ => None,
                    cancelled(token) -> why => Some(why),
                    timeout(LONG) => None,
                }
            })?;
            pause(cx, seed % 5)?;
            token.cancel();
            assert_eq!(waits.join()?, Some(CancelReason::Explicit));
            Ok(())
        })?;
        let again = crate::select! { recv(rx) -> _ => 0, cancelled(token) => 1 }?;
        assert_eq!(again, 1, "at once");
        assert_nobody_waits(&tx);
        Ok(())
    });
}

#[test]
fn a_value_comes_before_a_timeout_of_nothing() {
    let (tx, rx) = channel(1);
    for _ in 0..50 {
        tx.send(1).unwrap();
        let got = crate::select! { recv(rx) -> v => v.unwrap(), timeout(Duration::ZERO) => 0 };
        assert_eq!(got.unwrap(), 1);
        let got = crate::select! { recv(rx) -> v => v.unwrap(), timeout(Duration::ZERO) => 0 };
        assert_eq!(got.unwrap(), 0);
    }
}

#[test]
fn both_directions_of_one_channel_do_not_meet_themselves() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(0);
        let own = crate::select! {
            recv(rx) -> _ => "received",
            send(tx, 0) -> _ => "sent",
            timeout(Duration::from_micros(5)) => "neither",
        }?;
        assert_eq!(own, "neither");
        // Two of them meet each other: one sends, the other receives.
        let sum = cx.nursery(|n| {
            let both = |me: u64| {
                let (tx, rx) = (&tx, &rx);
                n.spawn(move |cx| {
                    pause(cx, (seed + me) % 3)?;
                    crate::select! {
                        recv(rx) -> v => v.unwrap(),
                        send(tx, me) -> r => r.map(|()| 0).unwrap(),
                    }
                })
            };
            let (one, two) = (both(1)?, both(2)?);
            Ok((one.join()?, two.join()?))
        })?;
        assert!(matches!(sum, (0, 1) | (2, 0)), "{sum:?}");
        assert_nobody_waits(&tx);
        Ok(())
    });
}

#[test]
fn dropping_channels_are_always_possible_to_send_to() {
    for (overflow, refused) in [(Overflow::DropNew, true), (Overflow::DropOld, false)] {
        let (tx, rx) = ChannelOpts::bounded(1).overflow(overflow).build();
        tx.send(1).unwrap();
        let sent = crate::select! { send(tx, 2) -> r => r, timeout(LONG) => panic!("waits") };
        assert_eq!(sent.unwrap().is_err(), refused);
        assert_eq!(rx.recv().unwrap(), if refused { 1 } else { 2 });
    }
}

#[test]
fn no_cases_and_lists() {
    assert!(Select::<()>::new().wait().is_err());
    let mut only = Select::new();
    only.default(|()| 7);
    assert_eq!(only.wait().unwrap(), 7);
    let (tx, rx) = channel(1);
    let token = CancelToken::new();
    let (mut slot, time) = (Some(4), LONG);
    let mut list = Select::new();
    list.recv(&rx, |_| 0).offer(&tx, &mut slot, |r| r.map(|()| 1).unwrap());
    list.cancelled(&token, |_| 2).timeout(time, |()| 3).send(&tx, 9, |_| 4);
    let winner = list.wait().unwrap();
    assert_eq!((slot, rx.recv().unwrap()), if winner == 1 { (None, 4) } else { (Some(4), 9) });
}

#[test]
fn a_select_is_charged_once_for_what_happened() {
    let budget = Budget { channel_ops: 3, ..Budget::UNLIMITED };
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run_with(SpawnOpts::new().budget(budget), |cx| {
        let ((tx, rx), (_other, other_rx)) = (channel(4), channel::<u8>(0));
        let left = || cx.budget().channel_ops;
        crate::select! { recv(rx) -> _ => (), default => () }?;
        crate::select! { recv(rx) -> _ => (), timeout(LONG) => () }?;
        assert_eq!(left(), 3);
        crate::select! { send(tx, 1) -> r => r?, recv(other_rx) -> _ => () }?;
        assert_eq!(left(), 2);
        crate::select! { recv(rx) -> v => assert_eq!(v?, 1) }?;
        tx.send(1)?;
        assert_eq!(left(), 0);
        let refused = crate::select! { recv(rx) -> _ => () };
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::BudgetExceeded(_)));
        assert_eq!(rx.len(), 1, "and nothing has happened");
        Ok(())
    })
    .unwrap();
}
