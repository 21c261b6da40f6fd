//! Values of 32 KiB through channels, on tasks with stacks of 256 KiB, also without optimisation:
//! an operation has room for its few copies of a value, whether it happens, waits or fails. One
//! copy too many is an overflow, and the end of the process.

use parcae::channel::{Receiver, SendError, Sender, channel, oneshot, unbounded};
use parcae::prelude::*;
use parcae::select::{Cases, Select};
use parcae::stack::StackSize;
use parcae::time;
use parcae::{Error, Result};
use std::time::Duration;

const SIZE: usize = 32 * 1024;
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3_600);

struct Large([u8; SIZE]);

#[inline(never)]
fn large(i: u8) -> Large {
    Large([i; SIZE])
}

#[inline(never)]
fn check(value: &Large, i: u8) {
    assert!(value.0.iter().all(|&byte| byte == i), "not as it was sent");
}

#[inline(never)]
fn check_back(error: SendError<Large>, i: u8) {
    check(&error.into_inner(), i);
}

type Task = Box<dyn FnOnce(&Cx) -> Result<()> + Send>;

/// Runs all of them beside each other, each on a stack of 256 KiB, under many seeds: each of them
/// waits for another in some.
fn beside<const N: usize>(tasks: impl Fn() -> [Task; N] + Sync) {
    for seed in 0..6 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                for task in tasks() {
                    let stack = StackSize::new(256 * 1024)?;
                    n.spawn_with(SpawnOpts::new().stack_size(stack), move |cx| {
                        for _ in 0..seed % 3 {
                            cx.yield_now()?;
                        }
                        task(cx)
                    })?;
                }
                Ok(())
            })
        });
        outcome.unwrap();
    }
}

// ----- senders ------------------------------------------------------------------------------

#[inline(never)]
fn send(tx: &Sender<Large>) -> Result<()> {
    tx.send(large(1))?;
    Ok(())
}

#[inline(never)]
fn send_timeout(tx: &Sender<Large>) -> Result<()> {
    tx.send_timeout(large(1), LONG)?;
    Ok(())
}

#[inline(never)]
fn send_deadline(tx: &Sender<Large>) -> Result<()> {
    tx.send_deadline(large(1), time::now() + LONG)?;
    Ok(())
}

#[inline(never)]
fn send_all(tx: &Sender<Large>) -> Result<()> {
    tx.send_all(std::iter::once_with(|| large(1)))?;
    Ok(())
}

#[inline(never)]
fn try_send(tx: &Sender<Large>) -> Result<()> {
    let mut value = large(1);
    while let Err(error) = tx.try_send(value) {
        if error.is_closed() {
            return Err(error.into());
        }
        value = error.into_inner();
        time::sleep(SHORT)?;
    }
    Ok(())
}

#[inline(never)]
fn select_send(tx: &Sender<Large>) -> Result<()> {
    parcae::select! {
        send(tx, large(1)) -> sent => sent?,
        timeout(LONG) => panic!("nobody receives"),
    }
}

#[inline(never)]
fn select_send_with(tx: &Sender<Large>) -> Result<()> {
    parcae::select! {
        send_with(tx, || large(1)) -> sent => sent?,
        timeout(LONG) => panic!("nobody receives"),
    }
}

#[inline(never)]
fn select_offer(tx: &Sender<Large>) -> Result<()> {
    let mut value = Some(large(1));
    parcae::select! {
        offer(tx, &mut value) -> sent => sent?,
        timeout(LONG) => panic!("nobody receives"),
    }
}

#[inline(never)]
fn list_send(tx: &Sender<Large>) -> Result<()> {
    let mut select = Select::new();
    select.send(tx, large(1), |sent| sent.map_err(Error::from));
    select.wait()?
}

#[inline(never)]
fn cases_send(tx: &Sender<Large>) -> Result<()> {
    let mut cases = Cases::new();
    cases.send_with(tx, || large(1), |sent| sent.map_err(Error::from));
    cases.wait()?
}

type ToSend = fn(&Sender<Large>) -> Result<()>;

const SENDERS: [ToSend; 10] = [
    send,
    send_timeout,
    send_deadline,
    send_all,
    try_send,
    select_send,
    select_send_with,
    select_offer,
    list_send,
    cases_send,
];

// ----- receivers ----------------------------------------------------------------------------

#[inline(never)]
fn recv(rx: &Receiver<Large>) -> Result<()> {
    let value = rx.recv()?;
    check(&value, 1);
    Ok(())
}

#[inline(never)]
fn recv_timeout(rx: &Receiver<Large>) -> Result<()> {
    let value = rx.recv_timeout(LONG)?;
    check(&value, 1);
    Ok(())
}

#[inline(never)]
fn recv_deadline(rx: &Receiver<Large>) -> Result<()> {
    let value = rx.recv_deadline(time::now() + LONG)?;
    check(&value, 1);
    Ok(())
}

#[inline(never)]
fn try_recv(rx: &Receiver<Large>) -> Result<()> {
    loop {
        match rx.try_recv() {
            Ok(value) => {
                check(&value, 1);
                return Ok(());
            }
            Err(error) if error.is_closed() => return Err(error.into()),
            Err(_) => time::sleep(SHORT)?,
        }
    }
}

#[inline(never)]
fn recv_many(rx: &Receiver<Large>) -> Result<()> {
    let mut values = Vec::new();
    assert_eq!(rx.recv_many(&mut values, 1)?, 1);
    check(&values[0], 1);
    Ok(())
}

#[inline(never)]
fn iter(rx: &Receiver<Large>) -> Result<()> {
    match rx.iter().next() {
        Some(Ok(value)) => check(&value, 1),
        Some(Err(error)) => return Err(error),
        None => panic!("closed"),
    }
    Ok(())
}

#[inline(never)]
fn select_recv(rx: &Receiver<Large>) -> Result<()> {
    parcae::select! {
        recv(rx) -> value => check(&value?, 1),
        timeout(LONG) => panic!("nobody sends"),
    }
}

#[inline(never)]
fn select_recv_out(rx: &Receiver<Large>) -> Result<()> {
    let value = parcae::select! {
        recv(rx) -> value => value?,
        timeout(LONG) => panic!("nobody sends"),
    }?;
    check(&value, 1);
    Ok(())
}

#[inline(never)]
fn list_recv(rx: &Receiver<Large>) -> Result<()> {
    let mut select = Select::new();
    select.recv(rx, |value| value.map(|value| check(&value, 1)));
    Ok(select.wait()??)
}

#[inline(never)]
fn cases_recv(rx: &Receiver<Large>) -> Result<()> {
    let mut cases = Cases::new();
    cases.recv(rx, |value| value.map(|value| check(&value, 1)));
    Ok(cases.wait()??)
}

type ToRecv = fn(&Receiver<Large>) -> Result<()>;

const RECEIVERS: [ToRecv; 10] = [
    recv,
    recv_timeout,
    recv_deadline,
    try_recv,
    recv_many,
    iter,
    select_recv,
    select_recv_out,
    list_recv,
    cases_recv,
];

#[test]
fn every_way_to_send_and_every_way_to_receive_has_room() {
    let pairs = SENDERS.map(|send| (send, recv as ToRecv));
    for (send, recv) in pairs.into_iter().chain(RECEIVERS.map(|recv| (send as ToSend, recv))) {
        for capacity in [0, 1] {
            beside(|| {
                let (tx, rx) = channel(capacity);
                [Box::new(move |_| send(&tx)), Box::new(move |_| recv(&rx))]
            });
        }
    }
}

#[test]
fn a_select_of_both_directions_has_room_for_both() {
    #[inline(never)]
    fn both(tx: &Sender<Large>, rx: &Receiver<Large>) -> Result<()> {
        parcae::select! {
            recv(rx) -> value => match value {
                Ok(value) => check(&value, 1),
                // `?` makes four copies without optimisation.
                Err(error) => return Err(error.into()),
            },
            send(tx, large(1)) -> sent => sent?,
        }
    }
    beside(|| {
        let (tx, rx) = channel(0);
        let (tx2, rx2) = (tx.clone(), rx.clone());
        [Box::new(move |_| both(&tx, &rx)), Box::new(move |_| both(&tx2, &rx2))]
    });
}

#[test]
fn a_oneshot_and_an_unbounded_channel_hand_them_over() {
    beside(|| {
        let (tx, rx) = oneshot();
        [
            Box::new(move |_| Ok(tx.send(large(1))?)),
            Box::new(move |_| {
                check(&rx.recv()?, 1);
                Ok(())
            }),
        ]
    });
    beside(|| {
        let (tx, rx) = unbounded();
        [
            Box::new(move |_| (0..10).try_for_each(|_| send(&tx))),
            Box::new(move |_| (0..10).try_for_each(|_| recv(&rx))),
        ]
    });
}

#[test]
fn what_is_not_sent_comes_back() {
    #[inline(never)]
    fn full(tx: &Sender<Large>) {
        check_back(tx.try_send(large(3)).err().unwrap(), 3);
    }
    #[inline(never)]
    fn late(tx: &Sender<Large>) {
        check_back(tx.send_timeout(large(4), SHORT).err().unwrap(), 4);
    }
    #[inline(never)]
    fn gone(tx: &Sender<Large>) {
        check_back(tx.send(large(5)).err().unwrap(), 5);
    }
    #[inline(never)]
    fn by_select(tx: &Sender<Large>) {
        parcae::select! {
            send(tx, large(6)) -> sent => check_back(sent.err().unwrap(), 6),
            timeout(LONG) => panic!("closed is possible"),
        }
        .unwrap();
    }
    #[inline(never)]
    fn by_offer(tx: &Sender<Large>) {
        let mut value = Some(large(7));
        parcae::select! {
            offer(tx, &mut value) -> _ => panic!("it is full"),
            timeout(SHORT) => (),
        }
        .unwrap();
        check(value.as_ref().unwrap(), 7);
    }
    beside(|| {
        [Box::new(|_| {
            let (tx, rx) = channel(1);
            send(&tx)?;
            full(&tx);
            late(&tx);
            by_offer(&tx);
            rx.close();
            gone(&tx);
            by_select(&tx);
            recv(&rx)
        })]
    });
}

#[test]
fn what_a_cancelled_task_did_not_send_comes_back() {
    beside(|| {
        [Box::new(|cx: &Cx| {
            let (tx, rx) = channel(0);
            let outcome = cx.nursery(|n| {
                let stack = StackSize::new(256 * 1024)?;
                let opts = SpawnOpts::new().stack_size(stack);
                let sender = n.spawn_with(opts, move |_| {
                    let error = tx.send(large(8)).err().unwrap();
                    assert!(error.is_cancelled());
                    check_back(error, 8);
                    Ok(())
                })?;
                cx.yield_now()?;
                sender.cancel();
                sender.join()
            });
            drop(rx);
            outcome.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) })
        })]
    });
}

/// Without optimisation every `?` on a value keeps three copies of it in the frame of its function.
/// The arm `value?` of a select has none, so there is as much room as after a plain receive.
#[cfg(debug_assertions)]
#[test]
fn a_value_leaves_its_select_with_the_copies_of_one_question_mark() {
    use std::cell::Cell;

    thread_local! {
        static DEEPEST: Cell<usize> = const { Cell::new(0) };
    }

    #[inline(never)]
    fn note_depth(value: &Large) {
        check(value, 1);
        let here = 0_u8;
        DEEPEST.set((&raw const here).addr());
    }
    #[inline(never)]
    fn by_select(rx: &Receiver<Large>) -> Result<()> {
        let value = parcae::select! { recv(rx) -> value => value? }?;
        note_depth(&value);
        Ok(())
    }
    #[inline(never)]
    fn by_recv(rx: &Receiver<Large>) -> Result<()> {
        let value = rx.recv()?;
        note_depth(&value);
        Ok(())
    }
    #[inline(never)]
    fn frame_of(function: ToRecv) -> usize {
        let (tx, rx) = channel(1);
        send(&tx).unwrap();
        let here = 0_u8;
        function(&rx).unwrap();
        (&raw const here).addr() - DEEPEST.get()
    }
    let (by_select, by_recv) = (frame_of(by_select), frame_of(by_recv));
    assert!(by_recv > 3 * SIZE, "{by_recv}");
    assert!(by_select < by_recv + SIZE * 3 / 2, "{by_select} bytes instead of {by_recv}");
}
