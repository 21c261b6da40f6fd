//! Calls that serve requests while they wait, messages that are delivered again, rates, letters.

use super::*;
use parcae::time;
use parcae_actor::{CallError, Child, LetterReason, Refusal, Supervise};

/// Calls another node, which calls back on the way, and so on.
struct Node {
    value: u64,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Waits,
    Serves,
}

enum ToNode {
    Value(Reply<u64>),
    Add(u64),
    /// Asks the next node to ask the one after it; the last asks for the value of the first.
    Chain(Vec<Address<ToNode>>, Reply<Result<u64, CallError>>),
    FailInside(Reply<u64>),
}

impl Actor for Node {
    type Msg = ToNode;

    fn handle(&mut self, cx: &mut ActorCx<'_, ToNode>, msg: ToNode) -> Result<Next> {
        match msg {
            ToNode::Value(reply) => reply.send(self.value),
            ToNode::Add(n) => self.value += n,
            ToNode::FailInside(reply) => {
                drop(reply);
                return Err(Error::msg("served and failed"));
            }
            ToNode::Chain(mut rest, reply) => {
                if rest.len() == 1 {
                    reply.send(rest[0].call(LONG, ToNode::Value));
                    return Ok(Next::Continue);
                }
                let next = rest.remove(0);
                let ask = |reply| ToNode::Chain(rest, reply);
                let answer = match self.mode {
                    Mode::Waits => next.call(LONG, ask),
                    Mode::Serves => cx.call_serving(self, &next, LONG, ask),
                };
                reply.send(answer.and_then(|answer| answer));
            }
        }
        Ok(Next::Continue)
    }
}

fn nodes(system: &System<'_>, mode: Mode) -> Result<[Address<ToNode>; 3]> {
    let start =
        |name: &str, value| system.start(ActorOpts::new(name), move |_| Ok(Node { value, mode }));
    Ok([start("a", 1)?, start("b", 2)?, start("c", 3)?])
}

#[test]
fn an_actor_that_lends_its_state_serves_those_that_it_waits_for() {
    everywhere(|_, system, _| {
        let [a, b, c] = nodes(system, Mode::Serves)?;
        let back = |reply| ToNode::Chain(vec![b.clone(), a.clone()], reply);
        assert_eq!(a.call(LONG, back)??, 1); // a calls b, which calls a
        let far = |reply| ToNode::Chain(vec![b.clone(), c.clone(), a.clone()], reply);
        assert_eq!(a.call(LONG, far)??, 1); // a calls b, which calls c, which calls a
        Ok(())
    });
}

#[test]
fn without_serving_the_same_calls_are_a_cycle() {
    everywhere(|_, system, _| {
        let [a, b, c] = nodes(system, Mode::Waits)?;
        let far = |reply| ToNode::Chain(vec![b, c, a.clone()], reply);
        let answer = a.call(LONG, far)?;
        let Err(CallError::Cycle(path)) = answer else { panic!("{answer:?}") };
        assert_eq!(path.iter().map(|name| &**name).collect::<Vec<_>>(), ["c", "a", "b", "c"]);
        Ok(())
    });
}

#[test]
fn messages_of_others_wait_for_the_end_of_a_call_that_serves() {
    everywhere(|_, system, _| {
        let [a, b, _] = nodes(system, Mode::Serves)?;
        for _ in 0..20 {
            a.tell(ToNode::Add(1))?;
        }
        let back = |reply| ToNode::Chain(vec![b, a.clone()], reply);
        assert_eq!(a.call(LONG, back)??, 21);
        a.tell(ToNode::Add(1))?;
        assert_eq!(a.call(LONG, ToNode::Value)?, 22);
        Ok(())
    });
}

#[test]
fn a_call_that_serves_ends_by_its_deadline_and_with_its_peer() {
    struct Busy(Option<Address<Msg>>);
    impl Actor for Busy {
        type Msg = Reply<Result<u64, CallError>>;

        fn handle(
            &mut self,
            cx: &mut ActorCx<'_, Reply<Result<u64, CallError>>>,
            reply: Reply<Result<u64, CallError>>,
        ) -> Result<Next> {
            let Some(other) = self.0.clone() else { return Ok(Next::Stop) };
            reply.send(cx.call_serving(self, &other, Duration::from_secs(1), Msg::Sum));
            Ok(Next::Continue)
        }
    }
    deterministic(|_, system, log| {
        let other = start(system, "other", log)?;
        let address = other.clone();
        let busy =
            system.start(ActorOpts::new("busy"), move |_| Ok(Busy(Some(address.clone()))))?;
        assert_eq!(busy.call(LONG, |reply| reply)?.ok(), Some(1000));
        other.call(LONG, Msg::Wait)?; // it does not answer
        let late = busy.call(LONG, |reply| reply)?;
        assert!(matches!(late, Err(CallError::Expired)), "{late:?}");
        other.kill()?;
        other.watch().wait()?;
        let gone = busy.call(LONG, |reply| reply)?;
        assert!(matches!(gone, Err(CallError::Gone(_))), "{gone:?}");
        Ok(())
    });
}

/// Fails on a message as often as it says.
struct Fragile<'a> {
    log: &'a Log,
    incarnation: u64,
}

#[derive(Clone)]
struct UntilLife(u64, &'static str);

impl Actor for Fragile<'_> {
    type Msg = UntilLife;

    fn handle(&mut self, _: &mut ActorCx<'_, UntilLife>, msg: UntilLife) -> Result<Next> {
        if self.incarnation < msg.0 {
            return Err(Error::msg("too early"));
        }
        self.log.add(format!("{} in life {}", msg.1, self.incarnation));
        Ok(if msg.1 == "last" { Next::Stop } else { Next::Continue })
    }

    fn copy(msg: &UntilLife) -> Option<UntilLife> {
        (msg.1 != "single").then(|| msg.clone())
    }
}

#[test]
fn a_message_is_delivered_again_until_it_is_poison() {
    let spec = || Supervise::one_for_one().restarts(100, LONG);
    everywhere(move |_, system, log| {
        system.supervise("top", spec(), move |children| {
            let opts = ActorOpts::new("fragile").redeliver(2).child(Child::transient());
            let factory =
                move |birth: &mut Birth| Ok(Fragile { log, incarnation: birth.incarnation() });
            children.actor(opts, factory).map(drop)
        })?;
        let actor = system.find::<UntilLife>("fragile").expect("it was started");
        let watch = |name: &'static str, life| actor.tell(UntilLife(life, name));
        watch("first", 3)?; // fails twice, then succeeds
        watch("single", 4)?; // has no copy: lost at its first failure, in life 3
        watch("poison", 9)?; // fails in the lives 4, 5 and 6
        watch("last", 0)?;
        while !actor.is_gone() {
            time::sleep(Duration::from_millis(1))?;
        }
        assert_eq!(log.take(), ["first in life 3", "last in life 7"]);
        let letters = system.dead_letters();
        assert_eq!(letters.count(LetterReason::Poison), 1);
        assert_eq!(letters.count(LetterReason::Failed), 1);
        Ok(())
    });
}

#[test]
fn a_rate_limits_all_copies_of_an_address() {
    deterministic(|_, system, log| {
        let actor = start(system, "a", log)?;
        let slow = actor.at_rate(3, Duration::from_secs(1));
        let copy = slow.clone();
        let refused = |address: &Address<Msg>| match address.tell(Msg::Add(1)) {
            Ok(()) => false,
            Err(error) => {
                assert!(matches!(error.error(), CallError::Refused(Refusal::TooFast)));
                true
            }
        };
        assert!(!refused(&slow) && !refused(&copy) && !refused(&slow));
        assert!(refused(&slow) && refused(&copy));
        time::sleep(Duration::from_millis(400))?;
        assert!(!refused(&copy) && refused(&slow)); // a third of a second for each
        time::sleep(Duration::from_secs(60))?;
        assert!((0..3).all(|_| !refused(&slow)) && refused(&slow)); // no more than one period
        assert_eq!(actor.call(LONG, Msg::Sum)?, 1007);
        Ok(())
    });
}

#[test]
fn a_task_waits_for_dead_letters() {
    everywhere(|cx, system, log| {
        let actor = start(system, "a", log)?;
        actor.stop()?;
        actor.watch().wait()?;
        cx.nursery(|n| {
            let readers = [0, 1].map(|_| n.spawn(|_| system.dead_letters().next()));
            let told = (0..2).filter(|_| actor.tell(Msg::Add(1)).is_ok()).count();
            assert_eq!(told, 0);
            for reader in readers {
                let letter = reader?.join()?;
                assert_eq!((letter.reason, &*letter.to), (LetterReason::Gone, "a"));
            }
            Ok(())
        })
    });
}

#[test]
fn a_request_that_fails_while_it_is_served_fails_the_actor() {
    struct Caller;
    impl Actor for Caller {
        type Msg = (Address<ToNode>, Reply<bool>);

        fn handle(
            &mut self,
            _: &mut ActorCx<'_, Self::Msg>,
            (node, reply): Self::Msg,
        ) -> Result<Next> {
            reply.send(node.call(LONG, ToNode::FailInside).is_err());
            Ok(Next::Continue)
        }
    }
    struct Server(Address<(Address<ToNode>, Reply<bool>)>);
    impl Actor for Server {
        type Msg = ToNode;

        fn handle(&mut self, cx: &mut ActorCx<'_, ToNode>, msg: ToNode) -> Result<Next> {
            match msg {
                ToNode::FailInside(reply) => {
                    drop(reply);
                    Err(Error::msg("served and failed"))
                }
                ToNode::Add(_) => {
                    let (own, caller) = (cx.address(), self.0.clone());
                    let called = cx.call_serving(self, &caller, LONG, |reply| (own, reply));
                    assert!(matches!(called, Err(CallError::Interrupted(_))), "{called:?}");
                    called?;
                    Ok(Next::Continue)
                }
                _ => Ok(Next::Continue),
            }
        }
    }
    everywhere(|_, system, _| {
        let caller = system.start(ActorOpts::new("caller"), |_| Ok(Caller))?;
        let opts = ActorOpts::new("server").child(Child::temporary());
        let server = system.start(opts, move |_| Ok(Server(caller.clone())))?;
        let watch = server.watch();
        server.tell(ToNode::Add(0))?;
        let exit = watch.wait()?;
        assert!(exit.to_string().contains("served and failed"), "{exit}");
        Ok(())
    });
}
