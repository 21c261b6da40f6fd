//! Closing: explicitly, by the last handle, with an error; against waiters.

use super::*;
use crate::Error;

#[test]
fn close_is_final_and_idempotent_and_drains() {
    let (tx, rx) = channel(4);
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    rx.close();
    tx.close();
    tx.close_with(Error::msg("too late to say why"));
    assert!(tx.is_closed() && rx.is_closed());
    assert_eq!(tx.send(3).unwrap_err().into_inner(), 3);
    assert!(tx.try_send(3).unwrap_err().is_closed());
    assert_eq!((rx.recv().unwrap(), rx.try_recv().unwrap()), (1, 2));
    for error in [rx.recv().unwrap_err(), rx.try_recv().unwrap_err()] {
        assert!(matches!(error.reason(), Reason::Closed(None)));
        assert!(matches!(Error::from(error).kind(), ErrorKind::ChannelClosed));
    }
}

#[test]
fn the_error_reaches_both_ends_after_the_values() {
    let (tx, rx) = channel(4);
    tx.send(1).unwrap();
    tx.close_with("12x".parse::<i32>().unwrap_err());
    let refused = tx.send(2).unwrap_err();
    assert!(refused.is_closed());
    let items: Vec<_> = rx.iter().collect();
    assert_eq!(items.len(), 2, "a value, then the error");
    assert!(items[0].is_ok());
    for error in [items[1].clone().unwrap_err(), Error::from(refused)] {
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    }
    assert_eq!(rx.iter().count(), 1, "again for who asks again");
}

// rule: S4-WAIT-8
#[test]
fn whoever_waits_is_told_once() {
    everywhere(|cx, seed| {
        for capacity in [0, 2] {
            let (tx, rx) = channel::<u8>(capacity);
            cx.nursery(|n| {
                let (tx, rx) = (&tx, &rx);
                let receivers = [(); 3].map(|()| n.spawn(move |_| Ok(rx.recv().unwrap_err())));
                pause(cx, seed % 9)?;
                tx.close();
                for receiver in receivers {
                    assert!(receiver?.join()?.is_closed());
                }
                Ok(())
            })?;
            let (tx, rx) = channel(capacity);
            cx.nursery(|n| {
                for i in 0..capacity {
                    tx.send(i + 10)?;
                }
                let tx = &tx;
                let senders = [0, 1, 2].map(|i| n.spawn(move |_| Ok(tx.send(i).unwrap_err())));
                pause(cx, seed % 9)?;
                rx.close_with(Error::msg("enough"));
                for (i, sender) in senders.into_iter().enumerate() {
                    let error = sender?.join()?;
                    assert!(error.is_closed());
                    assert_eq!(error.into_inner(), i, "comes back");
                }
                assert_eq!(rx.len(), capacity, "none of them got in");
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn the_last_sender_closes_and_nothing_of_the_tail_is_lost() {
    everywhere(|cx, seed| {
        for capacity in [0, 1, 8] {
            let (tx, rx) = channel(capacity);
            let count = cx.nursery(|n| {
                for _ in 0..3 {
                    let tx = tx.clone();
                    n.spawn(move |cx| {
                        for i in 0..5 {
                            pause(cx, (seed + i) % 4)?;
                            tx.send(i)?;
                        }
                        Ok(())
                    })?;
                }
                drop(tx);
                let mut count = 0;
                for value in rx {
                    value?;
                    count += 1;
                }
                Ok(count)
            })?;
            assert_eq!(count, 15);
        }
        Ok(())
    });
}

#[test]
fn the_last_receiver_lets_senders_go() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(seed as usize % 3);
        cx.nursery(|n| {
            let sender = n.spawn(|_| {
                let mut sent = 0_u64;
                while tx.send(sent).is_ok() {
                    sent += 1;
                }
                Ok(sent)
            })?;
            let mut got = 0;
            for _ in 0..seed % 11 {
                assert_eq!(rx.recv()?, got);
                got += 1;
            }
            drop(rx);
            assert!((got..=got + 2).contains(&sender.join()?));
            Ok(())
        })
    });
}

#[test]
fn close_against_send_and_receive_conserves_values() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(seed as usize % 4);
        let (sent, got) = cx.nursery(|n| {
            let tx = &tx;
            let senders = [(); 2].map(|()| {
                n.spawn(move |_| Ok((0..10).take_while(|&i| tx.send(i).is_ok()).count()))
            });
            let receiver = n.spawn(|_| Ok(rx.iter().map(Result::unwrap).count()))?;
            pause(cx, seed % 13)?;
            tx.close();
            let mut sent = 0;
            for sender in senders {
                sent += sender?.join()?;
            }
            Ok((sent, receiver.join()?))
        })?;
        assert_eq!(sent, got);
        Ok(())
    });
}

#[test]
fn a_panic_that_unwinds_through_a_handle_closes_for_the_others() {
    everywhere(|cx, _| {
        let (tx, rx) = channel::<u8>(0);
        let outcome = cx.nursery(|n| {
            n.spawn(move |_| {
                let _tx = tx;
                // Thrown, not panicked: no message in the output.
                std::panic::resume_unwind(Box::new("gone"))
            })
            .map(|task: crate::TaskHandle<'_, ()>| drop(task))?;
            let error = cx.shield(|| rx.recv().unwrap_err());
            assert!(error.is_closed());
            Ok(())
        });
        assert!(outcome.unwrap_err().is_panic());
        Ok(())
    });
}
