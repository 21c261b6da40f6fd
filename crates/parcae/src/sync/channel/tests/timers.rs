//! Points in time that are received.

use super::*;
use crate::{Budget, time};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn a_point_in_time_comes_once_and_not_before() {
    everywhere(|_, seed| {
        let time = Duration::from_micros(seed % 300);
        let (start, timer) = (time::now(), after(time));
        let due = timer.recv()?;
        assert!(due >= start + time && time::now() >= due);
        assert!(matches!(timer.try_recv().unwrap_err().reason(), Reason::WouldWait), "once");
        let passed = at(start);
        assert_eq!((passed.recv()?, passed.try_recv().is_err()), (start, true));
        assert!(after(Duration::MAX).try_recv().is_err());
        Ok(())
    });
    let timer = after(Duration::from_millis(1)); // on a thread
    assert!(timer.recv().is_ok() && timer.try_recv().is_err());
}

#[test]
fn ticks_stay_at_multiples_and_those_that_nobody_took_are_left_out() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run(|cx| {
        let (start, ticks) = (time::now(), tick(SECOND));
        assert!(ticks.try_recv().is_err());
        assert_eq!(ticks.recv()?, start + SECOND);
        cx.sleep(3 * SECOND + SECOND / 2)?;
        assert_eq!(ticks.try_recv()?, start + 2 * SECOND, "it has waited");
        assert!(ticks.try_recv().is_err(), "3 and 4 are left out");
        assert_eq!(ticks.recv()?, start + 5 * SECOND);
        assert_eq!(ticks.recv()?, start + 6 * SECOND);
        Ok(())
    })
    .unwrap();
    assert!(std::panic::catch_unwind(|| tick(Duration::ZERO)).is_err());
}

#[test]
fn each_point_in_time_is_received_by_one() {
    deterministic(100, |cx, _| {
        let (timer, ticks) = (after(SECOND), tick(SECOND));
        let counts = cx.nursery(|n| {
            let takers = [(); 3].map(|()| {
                n.spawn(|_| {
                    let (mut once, mut often, enough) = (0, 0, after(5 * SECOND + SECOND / 2));
                    loop {
                        crate::select! {
                            recv(timer) -> at => once += at.map_or(100, |_| 1),
                            recv(ticks) -> at => often += at.map_or(100, |_| 1),
                            recv(enough) -> _ => return Ok((once, often)),
                        }?;
                    }
                })
            });
            let mut sum = (0, 0);
            for taker in takers {
                let (once, often) = taker?.join()?;
                sum = (sum.0 + once, sum.1 + often);
            }
            Ok(sum)
        })?;
        assert_eq!(counts, (1, 5));
        Ok(())
    });
}

#[test]
fn they_are_cases_and_may_be_temporaries() {
    crate::support::on_workers_seeded(|_, seed| {
        let (tx, rx) = channel(1);
        let late = crate::select! {
            recv(rx.clone()) -> _ => panic!("nobody sends"),
            recv(never::<u8>()) -> _ => panic!("never"),
            recv(after(Duration::from_micros(seed % 50))) -> at => time::now() >= at?,
            recv(tick(LONG)) -> _ => false,
        }?;
        assert!(late);
        // One that is due is possible, as a value is; a timeout is not.
        tx.send(1)?;
        let (passed, mut chosen) = (time::now(), [0; 3]);
        for _ in 0..60 {
            crate::select! {
                recv(rx) -> v => tx.send(v?).map(|()| chosen[0] += 1)?,
                recv(at(passed)) -> _ => chosen[1] += 1,
                timeout(Duration::ZERO) => chosen[2] += 1,
            }?;
        }
        assert!(chosen[0] > 5 && chosen[1] > 5 && chosen[2] == 0, "{chosen:?}");
        Ok(())
    });
}

#[test]
fn a_wait_for_a_time_is_cancelled_and_charged_as_a_receive() {
    deterministic(50, |cx, seed| {
        let outcome = cx.nursery(|n| {
            n.spawn(|_| after(LONG).recv().map(drop).map_err(crate::Error::from))?;
            n.spawn(|_| {
                let once = at(time::now());
                once.recv()?;
                once.recv().map(drop).map_err(crate::Error::from) // never again
            })?;
            n.spawn(
                |_| crate::select! { recv(never::<u8>()) -> _ => (), recv(after(LONG)) -> _ => () },
            )?;
            pause(cx, seed % 9)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
    let budget = Budget { channel_ops: 3, ..Budget::UNLIMITED };
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run_with(SpawnOpts::new().budget(budget), |cx| {
        let ticks = tick(SECOND);
        assert!(ticks.try_recv().is_err());
        ticks.recv()?;
        crate::select! { recv(ticks) -> at => assert!(at.is_ok()) }?;
        assert_eq!(cx.budget().channel_ops, 1);
        Ok(())
    })
    .unwrap();
}
