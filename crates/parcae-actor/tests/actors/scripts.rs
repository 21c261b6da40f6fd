//! Actors that run what they are told: calls within calls, stops against restarts, limits of one
//! incarnation, endless times.

use super::*;
use parcae::time;
use parcae_actor::{Backoff, CallError, Child, LetterReason, Supervise};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An actor without a state of its own.
pub(super) struct Player;

pub(super) type Script = dyn FnOnce(&mut Player, &mut ActorCx<'_, Do>) -> Result<Next> + Send;

/// A message that is run. In a mutex because errors, which may carry it, are shared.
pub(super) struct Do(Mutex<Box<Script>>);

impl Actor for Player {
    type Msg = Do;

    fn handle(&mut self, cx: &mut ActorCx<'_, Do>, Do(script): Do) -> Result<Next> {
        script.into_inner().unwrap()(self, cx)
    }
}

/// A message that is this script.
pub(super) fn told(
    script: impl FnOnce(&mut Player, &mut ActorCx<'_, Do>) -> Result<Next> + Send + 'static,
) -> Do {
    Do(Mutex::new(Box::new(script)))
}

/// A request that this script answers.
pub(super) fn asked<R: Send + 'static>(
    script: impl FnOnce(&mut Player, &mut ActorCx<'_, Do>) -> Result<R> + Send + 'static,
) -> impl FnOnce(Reply<R>) -> Do {
    move |reply| {
        told(move |player, cx| {
            reply.send(script(player, cx)?);
            Ok(Next::Continue)
        })
    }
}

pub(super) fn player(system: &System<'_>, name: &str) -> Result<Address<Do>> {
    system.start(ActorOpts::new(name), |_| Ok(Player))
}

const SECOND: Duration = Duration::from_secs(1);

// ----- calls within calls -------------------------------------------------------------------

#[test]
fn an_actor_serves_on_after_a_call_within_a_served_request() {
    everywhere(|_, system, _| {
        let [a, b, c] = [player(system, "a")?, player(system, "b")?, player(system, "c")?];
        let back = a.clone();
        let of_b = asked(move |_, _| {
            // While it is served, `a` makes a call of its own that serves, and ends it.
            let inner = asked(move |player, cx| {
                Ok(cx.call_serving(player, &c, LONG, asked(|_, _| Ok(1)))?)
            });
            let first = back.call(LONG, inner)?;
            Ok(first + back.call(LONG, asked(|_, _| Ok(2)))?)
        });
        assert_eq!(
            a.call(LONG, asked(move |player, cx| Ok(cx.call_serving(player, &b, LONG, of_b)?)))?,
            3
        );
        Ok(())
    });
}

#[test]
fn a_cycle_is_found_after_a_call_within_a_served_request() {
    deterministic(|_, system, _| {
        let [a, b, c, d] = [
            player(system, "a")?,
            player(system, "b")?,
            player(system, "c")?,
            player(system, "d")?,
        ];
        let (to_a, to_c) = (a.clone(), c.clone());
        let of_b = asked(move |_, cx| {
            to_a.call(LONG, asked(move |_, _| Ok(d.call(LONG, asked(|_, _| Ok(())))?)))?;
            // `c` waits for `a`, which has put that request off: it waits for `b`.
            let from_c = to_a.clone();
            to_c.tell(told(move |_, _| {
                drop(from_c.call(LONG, asked(|_, _| Ok(()))));
                Ok(Next::Continue)
            }))?;
            cx.sleep(SECOND)?;
            Ok(to_c.call(LONG, asked(|_, _| Ok(()))).map_err(|error| error.to_string()))
        });
        let outer = asked(move |player, cx| Ok(cx.call_serving(player, &b, LONG, of_b)?));
        let found = a.call(LONG, outer)?;
        assert_eq!(found.unwrap_err(), "the call would wait for itself: b calls c calls a calls b");
        drop(c);
        Ok(())
    });
}

#[test]
fn a_request_that_has_expired_is_not_served() {
    deterministic(|_, system, _| {
        let [a, b] = [player(system, "a")?, player(system, "b")?];
        let served = &Arc::new(AtomicU64::new(0));
        let (back, count) = (a.clone(), Arc::clone(served));
        let of_b = asked(move |_, cx| {
            let slow = asked(|_, cx: &mut ActorCx<'_, Do>| cx.sleep(5 * SECOND));
            let first = back.call(SECOND, slow);
            let late =
                back.call(SECOND, asked(move |_, _| Ok(count.fetch_add(1, Ordering::Relaxed))));
            cx.sleep(10 * SECOND)?;
            Ok((first.is_err(), late.is_err()))
        });
        let outer = asked(move |player, cx| Ok(cx.call_serving(player, &b, LONG, of_b)?));
        assert_eq!(a.call(LONG, outer)?, (true, true));
        assert_eq!(served.load(Ordering::Relaxed), 0);
        assert_eq!(system.dead_letters().count(LetterReason::Expired), 1);
        Ok(())
    });
}

#[test]
fn an_actor_that_is_told_to_end_while_it_serves_ends_after_its_call() {
    everywhere(|_, system, _| {
        let [a, b] = [player(system, "a")?, player(system, "b")?];
        let (watch, back) = (a.watch(), a.clone());
        let of_b = asked(move |_, _| {
            back.call(LONG, |reply| {
                told(move |_, _| {
                    reply.send(1);
                    Ok(Next::Stop)
                })
            })
            .map_err(Error::from)
        });
        assert_eq!(
            a.call(LONG, asked(move |player, cx| Ok(cx.call_serving(player, &b, LONG, of_b)?)))?,
            1
        );
        assert_eq!(watch.wait()?.to_string(), "finished");
        Ok(())
    });
}

/// A call that is answered, expires and is cancelled at about the same time ends once, and the
/// next one is not disturbed by what is left of it.
#[test]
fn a_call_that_is_answered_and_cancelled_at_once_ends_once() {
    everywhere(|cx, system, _| {
        let [a, b] = [player(system, "a")?, player(system, "b")?];
        let outcomes = &AtomicU64::new(0);
        let near = Duration::from_micros(50);
        for round in 0..4 {
            let at_once = cx.nursery(|n| {
                let caller = n.spawn(|_| {
                    let answer = a.call(near, asked(move |_, cx| cx.sleep(near).map(|()| round)));
                    outcomes.fetch_add(1, Ordering::Relaxed);
                    Ok(answer?)
                })?;
                cx.sleep(near)?;
                n.cancel();
                caller.join()
            });
            let is_expected = match &at_once {
                Ok(value) => *value == round,
                Err(error) => error.is_cancelled() || error.to_string().contains("deadline"),
            };
            assert!(is_expected, "{at_once:?}");
            // Actors that call are not thought to wait for the call that was given up.
            let next = a.clone();
            assert_eq!(
                b.call(LONG, asked(move |_, _| Ok(next.call(LONG, asked(|_, _| Ok(7)))?)))?,
                7
            );
        }
        assert_eq!(outcomes.load(Ordering::Relaxed), 4);
        Ok(())
    });
}

/// An actor that is killed in a call, at any point of it, leaves no trace in the graph of callers.
#[test]
fn a_caller_that_is_killed_in_its_call_waits_for_nobody() {
    everywhere(|cx, system, _| {
        let opts = || ActorOpts::new("").child(Child::permanent());
        let spec = Supervise::one_for_one().restarts(u32::MAX, LONG);
        let all = system.dynamic("all", spec)?;
        let [a, b] = [all.start(opts(), |_| Ok(Player))?, all.start(opts(), |_| Ok(Player))?];
        for round in 0..4 {
            let callee = b.clone();
            a.this_life().tell(told(move |_, _| {
                callee.call(LONG, asked(|_, cx| cx.yield_now()))?;
                Ok(Next::Continue)
            }))?;
            for _ in 0..round {
                cx.yield_now()?;
            }
            let life = a.watch();
            a.kill()?;
            life.wait()?;
            // The next life of `a` calls, and is called by `b`: no cycle is seen.
            let (caller, callee) = (a.clone(), b.clone());
            assert_eq!(
                b.call(LONG, asked(move |_, _| Ok(caller.call(LONG, asked(|_, _| Ok(1)))?)))?,
                1
            );
            assert_eq!(
                a.call(LONG, asked(move |_, _| Ok(callee.call(LONG, asked(|_, _| Ok(2)))?)))?,
                2
            );
        }
        Ok(())
    });
}

// ----- stops against restarts ---------------------------------------------------------------

/// A failure.
fn broken() -> Do {
    told(|_, _| Err(Error::msg("broken")))
}

/// A child that was asked to stop while it waits for its restart is not started again, and its name
/// is free at once.
#[test]
fn a_child_that_is_stopped_between_two_lives_ends() {
    deterministic(|cx, system, _| {
        let delay = Backoff::exponential(100 * SECOND, 100 * SECOND);
        system.supervise("top", Supervise::one_for_one().backoff(delay), |children| {
            children.actor(ActorOpts::new("a"), |_| Ok(Player)).map(drop)
        })?;
        let a = system.find::<Do>("a").expect("it was started");
        let life = a.watch();
        a.tell(broken())?;
        life.wait()?;
        assert!(!a.is_gone());
        a.stop()?;
        cx.sleep(SECOND)?;
        assert!(a.is_gone() && system.find::<Do>("a").is_none());
        assert!(matches!(a.tell(broken()).unwrap_err().error(), CallError::Gone(Some(_))));
        Ok(())
    });
}

/// The same at any moment around the failure: a transient child has ended, a permanent one runs.
#[test]
fn a_stop_is_not_lost_in_a_restart() {
    everywhere(|cx, system, _| {
        let lives = &AtomicU64::new(0);
        for pause in 0..6 {
            let is_permanent = pause % 2 == 0;
            let child = if is_permanent { Child::permanent() } else { Child::transient() };
            let spec = Supervise::one_for_one().restarts(100, LONG);
            let top = system.dynamic("", spec)?;
            let a = top.start(ActorOpts::new("").child(child), |_| Ok(Player))?;
            a.tell(broken())?;
            for _ in 0..pause {
                cx.yield_now()?;
            }
            a.stop()?;
            if is_permanent {
                assert_eq!(a.call(LONG, asked(|_, _| Ok(1)))?, 1);
            } else {
                while !a.is_gone() {
                    cx.sleep(Duration::from_millis(1))?;
                }
            }
            lives.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(lives.load(Ordering::Relaxed), 6);
        Ok(())
    });
}

/// The group of a child that is stopped between two lives is started without it.
#[test]
fn a_group_starts_without_a_child_that_was_stopped_meanwhile() {
    deterministic(|cx, system, _| {
        let delay = Backoff::exponential(100 * SECOND, 100 * SECOND);
        let spec = Supervise::rest_for_one().backoff(delay).restarts(100, LONG);
        system.supervise("top", spec, |children| {
            let opts = |name: &str| ActorOpts::new(name).child(Child::transient());
            children.actor(opts("a"), |birth| {
                if birth.incarnation() > 1 { Err(Error::msg("no place")) } else { Ok(Player) }
            })?;
            children.actor(opts("b"), |_| Ok(Player)).map(drop)
        })?;
        let find = |name| system.find::<Do>(name).expect("it is there");
        let (a, b) = (find("a"), find("b"));
        let second = b.watch();
        a.tell(broken())?;
        second.wait()?; // both are to start again, and `a` cannot
        cx.sleep(SECOND)?;
        a.stop()?;
        assert_eq!(b.call(20 * SECOND, asked(|_, _| Ok(1)))?, 1);
        assert!(a.is_gone());
        Ok(())
    });
}

// ----- one incarnation ----------------------------------------------------------------------

#[test]
fn a_message_for_one_life_is_not_handled_by_the_next() {
    everywhere(|_, system, log| {
        let a = player(system, "a")?;
        let this = a.this_life();
        let handled = &Arc::new(AtomicU64::new(0));
        let counts = || {
            let handled = Arc::clone(handled);
            move |_: &mut Player, _: &mut ActorCx<'_, Do>| {
                handled.fetch_add(1, Ordering::Relaxed);
                Ok(Next::Continue)
            }
        };
        this.tell(told(counts()))?;
        a.tell(told(|_, cx| {
            cx.yield_now()?; // so that messages come while it fails
            Err(Error::msg("broken"))
        }))?;
        let was_told = this.tell(told(counts())).is_ok();
        let asks = |reply: Reply<()>| {
            let counted = counts();
            told(move |player, cx| {
                reply.send(());
                counted(player, cx)
            })
        };
        let answer = this.call(LONG, asks);
        let is_expected =
            matches!(answer, Err(CallError::Gone(Some(_)) | CallError::Restarting { .. }));
        assert!(is_expected, "{answer:?}");
        assert_eq!(a.call(LONG, asked(|_, _| Ok(1)))?, 1);
        assert_eq!(handled.load(Ordering::Relaxed), 1);
        let lost = system.dead_letters().count(LetterReason::Gone);
        assert!(lost >= u64::from(was_told), "{lost} letters");
        assert!(matches!(this.stop(), Err(CallError::Gone(Some(_)))));
        assert!(matches!(this.kill(), Err(CallError::Gone(Some(_)))));
        assert_eq!(a.call(LONG, asked(|_, _| Ok(1)))?, 1);
        log.add("the second life has seen neither");
        Ok(())
    });
}

/// A message that is to be delivered again, and a value that was handed over, outlast a start that
/// fails.
#[test]
fn a_start_that_fails_keeps_what_was_for_the_next_life() {
    struct Heir(u64);
    impl Actor for Heir {
        type Msg = (u64, &'static str);

        fn handle(&mut self, cx: &mut ActorCx<'_, Self::Msg>, msg: Self::Msg) -> Result<Next> {
            if self.0 == 0 {
                cx.hand_over(msg.0);
                return Err(Error::msg("broken"));
            }
            assert_eq!((self.0, msg), (7, (7, "again")));
            Ok(Next::Stop)
        }

        fn copy(msg: &Self::Msg) -> Option<Self::Msg> {
            Some(*msg)
        }
    }
    everywhere(|_, system, _| {
        let spec = Supervise::one_for_one().restarts(100, LONG);
        system.supervise("top", spec, |children| {
            let opts = ActorOpts::new("heir").redeliver(1).child(Child::transient());
            let factory = |birth: &mut Birth| match birth.incarnation() {
                1 => Ok(Heir(0)),
                2 | 3 => Err(Error::msg("not yet")),
                _ => Ok(Heir(birth.take_state().unwrap_or(1))),
            };
            children.actor(opts, factory).map(drop)
        })?;
        let heir = system.find::<(u64, &'static str)>("heir").expect("it was started");
        let first = heir.watch();
        heir.tell((7, "again"))?;
        first.wait()?;
        while !heir.is_gone() {
            time::sleep(Duration::from_millis(1))?;
        }
        let letters = system.dead_letters();
        let lost = [LetterReason::Failed, LetterReason::Poison, LetterReason::Gone];
        assert_eq!(lost.map(|reason| letters.count(reason)), [0, 0, 0]);
        Ok(())
    });
}

#[test]
fn times_may_be_endless() {
    everywhere(|_, system, _| {
        let child = Child::transient().stop_within(Duration::MAX).start_within(Duration::MAX);
        let a = system.start(ActorOpts::new("a").child(child), |_| Ok(Player))?;
        a.tell_within(
            Duration::MAX,
            told(|_, cx| {
                cx.timer("never", Duration::MAX);
                cx.timer_every("hardly", Duration::MAX);
                Ok(Next::Continue)
            }),
        )?;
        let b = player(system, "b")?;
        let inner = asked(move |player, cx| {
            Ok(cx.call_serving(player, &b, Duration::MAX, asked(|_, _| Ok(1)))?)
        });
        assert_eq!(a.call(Duration::MAX, inner)?, 1);
        Ok(())
    });
}

/// A monitor, a watch or a link of one life does not take a later one for it.
#[test]
fn news_of_one_life_are_not_those_of_the_next() {
    everywhere(|_, system, _| {
        let [a, b] = [player(system, "a")?, player(system, "b")?];
        let (this, first) = (a.this_life(), a.watch());
        a.tell(told(|_, _| Err(Error::msg("broken"))))?;
        assert_eq!(first.wait()?.incarnation(), 1);
        assert_eq!(a.call(LONG, asked(|_, _| Ok(1)))?, 1); // the next one runs
        assert_eq!(this.watch().exit().map(|exit| exit.incarnation()), Some(1));
        // The link finds a failure, and ends `b`.
        let (end, second) = (b.watch(), a.watch());
        b.tell(told(move |_, cx| {
            cx.link(&this);
            cx.sleep(LONG)?;
            Ok(Next::Continue)
        }))?;
        assert_eq!(end.wait()?.to_string(), "failed: the linked actor `a` has failed");
        assert_eq!(a.call(LONG, asked(|_, _| Ok(1)))?, 1);
        assert!(second.exit().is_none(), "the next life of `a` has no link");
        Ok(())
    });
}
