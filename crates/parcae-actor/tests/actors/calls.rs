//! Messages, calls and the limits of an address.

use super::*;
use parcae::time;
use parcae_actor::{AddressEvent, AddressLimit, CallError, Refusal};

#[test]
fn messages_of_one_sender_are_handled_in_order() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        for n in 0..200 {
            actor.tell(Msg::Note(n.to_string()))?;
        }
        actor.call(LONG, Msg::Sum)?;
        assert_eq!(log.take(), (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
        Ok(())
    });
}

#[test]
fn many_senders_lose_no_message() {
    everywhere(|cx, system, log| {
        let actor = start(system, "a", log)?;
        cx.nursery(|n| {
            for _ in 0..4 {
                let actor = actor.clone();
                n.spawn(move |_| {
                    (0..50).try_for_each(|_| actor.tell(Msg::Add(1)))?;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(actor.call(LONG, Msg::Sum)?, 1200);
        Ok(())
    });
}

#[test]
fn each_failure_of_a_call_has_an_error_of_its_own() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        assert!(matches!(actor.call(LONG, Msg::Drop), Err(CallError::NoReply)));
        actor.call(LONG, Msg::Wait)?; // now it is busy
        let late = actor.call(Duration::from_secs(1), Msg::Sum);
        assert!(matches!(late, Err(CallError::Expired)), "{late:?}");
        actor.kill()?;
        actor.watch().wait()?;
        assert!(matches!(actor.call(LONG, Msg::Sum), Err(CallError::Gone(Some(_)))));
        let error = actor.tell(Msg::Add(1)).unwrap_err();
        assert!(matches!(error.error(), CallError::Gone(_)));
        assert!(matches!(error.into_inner(), Msg::Add(1)));
        Ok(())
    });
}

#[test]
fn an_expired_request_is_not_handled() {
    deterministic(|cx, system, log| {
        let actor = start(system, "a", log)?;
        let watch = actor.watch();
        cx.nursery(|n| {
            let busy = actor.clone();
            n.spawn(move |_| Ok(busy.call(LONG, Msg::Wait)?))?.join()
        })?;
        let late = actor.call(Duration::from_secs(1), Msg::Sum);
        assert!(matches!(late, Err(CallError::Expired)), "{late:?}");
        cx.sleep(LONG)?; // until the actor is back
        actor.call(LONG, Msg::Sum)?;
        assert_eq!(system.dead_letters().count(parcae_actor::LetterReason::Expired), 1);
        assert!(watch.exit().is_none());
        Ok(())
    });
}

/// Keeps its worker busy until a point in time.
struct Busy;

impl Actor for Busy {
    type Msg = (std::time::Instant, Option<Reply<()>>);

    fn handle(&mut self, _: &mut ActorCx<'_, Self::Msg>, msg: Self::Msg) -> Result<Next> {
        while std::time::Instant::now() < msg.0 {}
        drop(msg.1);
        Ok(Next::Continue)
    }
}

/// With one worker the actor drops the request before the clock can wake the caller. The handler
/// before it has computed for so long that only a look at the clock tells that it is late.
#[test]
fn a_request_that_is_dropped_because_it_is_late_has_expired() {
    let rt = Runtime::builder().workers(1).profile::<Cluster>().build().unwrap();
    let ended = rt.run(|cx| {
        cx.actors(ActorsOpts::new(), |system| {
            let actor = system.start(ActorOpts::new("busy"), |_| Ok(Busy))?;
            for _ in 0..5 {
                let soon = Duration::from_millis(1);
                actor.tell((time::now() + 3 * soon, None))?;
                let late = actor.call(soon, |reply| (time::now(), Some(reply)));
                assert!(matches!(late, Err(CallError::Expired)), "{late:?}");
            }
            Ok(())
        })
    });
    support::succeed(ended);
}

#[test]
fn a_call_that_would_wait_for_itself_fails_at_once() {
    everywhere(|_, system, log| {
        let (a, b) = (start(system, "a", log)?, start(system, "b", log)?);
        let to_itself = a.call(LONG, |reply| Msg::Call(a.clone(), reply))?;
        assert!(
            matches!(&to_itself, Err(CallError::Cycle(path)) if path.len() == 2),
            "{to_itself:?}"
        );
        assert_eq!(a.call(LONG, |reply| Msg::Call(b.clone(), reply))?.unwrap(), 1000);
        Ok(())
    });
}

#[test]
fn an_address_can_be_weakened_and_never_widened() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        let teller = actor.tell_only();
        teller.tell(Msg::Add(1))?;
        assert!(matches!(teller.call(LONG, Msg::Sum), Err(CallError::Refused(Refusal::TellOnly))));
        assert!(matches!(teller.stop(), Err(CallError::Refused(Refusal::TellOnly))));
        let few = actor.at_most(2);
        let copy = few.clone();
        few.tell(Msg::Add(1))?;
        copy.tell(Msg::Add(1))?;
        let refused = few.tell(Msg::Add(1)).unwrap_err();
        assert!(matches!(refused.error(), CallError::Refused(Refusal::UsedUp)));
        let (lent, take_back) = actor.revocable();
        lent.tell(Msg::Add(1))?;
        take_back();
        assert!(matches!(
            lent.tell_only().tell(Msg::Add(1)).unwrap_err().error(),
            CallError::Refused(Refusal::Revoked)
        ));
        let early = actor.until(time::now());
        assert!(matches!(
            early.tell(Msg::Add(1)).unwrap_err().error(),
            CallError::Refused(Refusal::TooLate)
        ));
        assert_eq!(actor.call(LONG, Msg::Sum)?, 1004);
        Ok(())
    });
}

/// All copies of a weaker address are one in the audit, and refusals in a row are one record.
#[test]
fn weaker_addresses_are_audited() {
    everywhere(|_, system, log| {
        let actor = start(system, "a", log)?;
        let (lent, take_back) = actor.revocable();
        let few = lent.at_most(1);
        few.tell(Msg::Add(1))?;
        for _ in 0..3 {
            assert!(few.clone().tell(Msg::Add(1)).is_err());
        }
        take_back();
        take_back();
        assert!(few.tell(Msg::Add(1)).is_err());
        assert!(lent.tell(Msg::Add(1)).is_err());
        actor.tell(Msg::Add(1))?; // a full address leaves no record
        let records = system.audit().take();
        let (first, second) = (records[0].address, records[1].address);
        let found: Vec<_> = (records.iter())
            .map(|record| (record.address, record.from, record.event, record.times))
            .collect();
        let refused = AddressEvent::Refused;
        assert_eq!(
            found,
            [
                (first, None, AddressEvent::Weakened(AddressLimit::Revocable), 1),
                (second, Some(first), AddressEvent::Weakened(AddressLimit::AtMost(1)), 1),
                (second, Some(first), refused(Refusal::UsedUp), 3),
                (first, None, AddressEvent::Revoked, 1),
                (second, Some(first), refused(Refusal::UsedUp), 1),
                (first, None, refused(Refusal::Revoked), 1),
            ]
        );
        let line = records[2].to_string();
        assert!(
            line.starts_with(&format!("address #{second} of `a` (from #{first}) refused")),
            "{line}"
        );
        assert!(system.audit().take().is_empty());
        Ok(())
    });
}

#[test]
fn a_thread_reaches_an_actor_too() {
    support::schedules(&[1, 2], 0, 5, |schedule| {
        let rt = schedule.builder().profile::<Cluster>().build().unwrap();
        let log = Log::default();
        let ended = rt.run(|cx| {
            cx.actors(ActorsOpts::new(), |system| {
                let actor = start(system, "a", &log)?;
                let outside = actor.clone();
                let thread = std::thread::spawn(move || {
                    outside.tell(Msg::Add(5)).unwrap();
                    outside.call(LONG, Msg::Sum).unwrap()
                });
                assert_eq!(parcae::blocking(|| thread.join().unwrap())?, 1005);
                Ok(())
            })
        });
        support::succeed(ended);
    });
}
