//! Scheduling contexts, case by case: terms, binding and calls. The cases are those of seL4's
//! tests for them, in our words, and its bugs that were real.

use parcae_core::WorkerSet;
use parcae_core::context::{
    Band, CallId, ContextId, ContextSlot, Contexts, Gate, Overrun, Params, PartyId, PartySlot,
    Refill, Refused, Stop,
};

type Table = Contexts<[ContextSlot; 8], [PartySlot; 8]>;

const FREE: Gate = Gate { min_budget: 0 };

fn table() -> Table {
    Contexts::new(0, [ContextSlot::EMPTY; 8], [PartySlot::EMPTY; 8])
}

/// A party with a context of its own.
fn bound(table: &mut Table, params: Params) -> (PartyId, ContextId) {
    let party = table.register(None).unwrap();
    let context = table.create(params, 0).unwrap();
    table.bind(context, party).unwrap();
    (party, context)
}

/// As [`bound`], awake and running since 0.
fn running(table: &mut Table, params: Params) -> (PartyId, ContextId) {
    let (party, context) = bound(table, params);
    table.wake(party, 0).unwrap();
    table.start(party, 0).unwrap();
    (party, context)
}

/// A chain of calls from a running client through `N` passive servers, all at time 1.
fn chain<const N: usize>(table: &mut Table) -> (ContextId, PartyId, [PartyId; N], [CallId; N]) {
    let (client, context) = running(table, Params::new(50, 100));
    let servers = [(); N].map(|()| table.register(None).unwrap());
    let mut caller = client;
    let calls = servers.map(|server| {
        let call = table.donate(caller, server, FREE, 1).unwrap();
        caller = server;
        call
    });
    (context, client, servers, calls)
}

mod configure {
    use super::*;

    // rule: S3-SC-1
    #[test]
    fn terms_are_checked_and_refusals_say_what_to_do() {
        let mut table = table().with_min_slice(10);
        let good = Params::new(20, 100);
        let sliding = |refills| Refill::SlidingWindow { refills };
        let bad = [
            (Params { budget: 9, ..good }, "10 or more"),
            (Params { budget: 0, ..good }, "10 or more"),
            (Params { period: 1 << 61, ..good }, "too long"),
            (Params { deadline: 101, ..good }, "lower it"),
            (Params { deadline: 19, ..good }, "lower the budget"),
            (Params { workers: WorkerSet::NONE, ..good }, "at least one"),
            (Params { workers: WorkerSet::of(3), ..good }, "worker 0"),
            (Params { refill: sliding(1), ..good }, "2 to 8"),
            (Params { refill: sliding(9), ..good }, "2 to 8"),
        ];
        for (params, hint) in bad {
            let why = table.create(params, 0).unwrap_err().to_string();
            assert!(why.contains(hint), "{params:?}: {why}");
        }
        assert_eq!(table.vacant(), 8, "nothing was made");
        for _ in 0..8 {
            table.create(good, 0).unwrap();
        }
        assert_eq!(table.create(good, 0), Err(Refused::Full));
    }

    // rule: S3-SC-11
    #[test]
    fn new_terms_do_not_give_used_budget_again() {
        for refill in [Refill::HardCbs, Refill::SlidingWindow { refills: 4 }] {
            let mut table = table();
            let terms = Params { refill, ..Params::new(10, 100) };
            let (party, context) = running(&mut table, terms);
            assert_eq!(table.reconfigure(context, terms, 5), Err(Refused::Running));
            let _ = table.stop(10, Stop::Preempted).unwrap();
            table.reconfigure(context, terms, 10).unwrap();
            assert_eq!(table.start(party, 10), Err(Refused::Depleted { until: 100 }));
            let longer = Params { period: 150, deadline: 150, ..terms };
            table.reconfigure(context, longer, 20).unwrap();
            assert_eq!(table.ready_at(context), Some(150));
            // Whole again: new terms hold at once.
            table.reconfigure(context, Params { budget: 30, ..terms }, 400).unwrap();
            assert_eq!(table.start(party, 400).unwrap().limit, 30);
        }
    }

    #[test]
    fn terms_of_a_context_can_be_read() {
        let mut table = table();
        let params = Params { band: Band(3), ..Params::new(5, 50) };
        let context = table.create(params, 0).unwrap();
        assert_eq!(table.params(context), Some(&params));
        assert_eq!(table.urgency(context).unwrap().deadline(), 50);
    }
}

mod binding {
    use super::*;

    #[test]
    fn bind_errors() {
        let mut table = table();
        let (party, context) = bound(&mut table, Params::new(5, 50));
        let (other, free) = (table.register(None).unwrap(), Params::new(1, 9));
        let spare = table.create(free, 0).unwrap();
        assert_eq!(table.bind(context, other), Err(Refused::Bound));
        assert_eq!(table.bind(spare, party), Err(Refused::HasContext));
        table.destroy(spare, 0).unwrap();
        assert_eq!(table.bind(spare, other), Err(Refused::StaleContext));
        let spare = table.create(free, 0).unwrap();
        table.unregister(other, 0).unwrap();
        assert_eq!(table.bind(spare, other), Err(Refused::StaleParty));
        assert_eq!(table.held_by(party), Some(context));
    }

    #[test]
    fn who_waits_for_a_call_cannot_be_bound() {
        let mut table = table();
        let (context, client, _, _) = chain::<1>(&mut table);
        table.destroy(context, 2).unwrap();
        let spare = table.create(Params::new(1, 9), 2).unwrap();
        assert_eq!(table.bind(spare, client), Err(Refused::Waits));
    }

    #[test]
    fn destroying_a_context_stops_its_party() {
        let mut table = table();
        let (party, context) = running(&mut table, Params::new(50, 100));
        assert_eq!(table.destroy(context, 3), Ok(Some(party)), "to be taken off the worker");
        assert_eq!(table.charge(4), Err(Refused::NotRunning));
        assert_eq!(table.start(party, 4), Err(Refused::NoContext));
        assert_eq!(table.wake(party, 4), Err(Refused::NoContext));
    }

    #[test]
    fn a_service_context_is_free_again_when_the_party_on_it_ends() {
        let mut table = table();
        let (party, context) = running(&mut table, Params::new(50, 100));
        assert_eq!(table.unregister(party, 10), Ok(None));
        assert_eq!((table.holder(context), table.left(context, 10)), (None, Some(40)));
        let next = table.register(None).unwrap();
        table.bind(context, next).unwrap();
        table.wake(next, 20).unwrap();
        assert_eq!(table.start(next, 20).unwrap().limit, 40);
    }

    // rule: S3-GOAL-5, S3-SC-4
    #[test]
    fn a_passive_party_runs_once_it_is_bound() {
        let mut table = table();
        let party = table.register(None).unwrap();
        assert_eq!(table.wake(party, 0), Err(Refused::NoContext), "nothing is inherited");
        assert_eq!(table.start(party, 0), Err(Refused::NoContext));
        let context = table.create(Params::new(5, 50), 0).unwrap();
        table.bind(context, party).unwrap();
        assert_eq!(table.start(party, 0), Err(Refused::Asleep));
        assert_eq!(table.wake(party, 0), Ok(0));
        assert_eq!(table.start(party, 0).unwrap().limit, 5);
    }

    // rule: S3-DECIDE-3
    #[test]
    fn unbinding_takes_it_from_home_and_holder() {
        let mut table = table();
        let (context, client, [server], [call]) = chain::<1>(&mut table);
        assert_eq!(table.unbind(context, 5), Ok(Some(server)));
        assert_eq!((table.held_by(client), table.held_by(server)), (None, None));
        // The call itself is still answered, without time.
        assert_eq!(table.give_back(call, 6).unwrap().context, None);
        table.bind(context, server).unwrap();
        assert_eq!(table.left(context, 6), Some(45));
    }
}

mod calls {
    use super::*;

    /// Gate: donation and return.
    // rule: S3-GATE-11, S3-SC-6
    #[test]
    fn donation_and_return_charge_the_same_context() {
        let mut table = table();
        let (context, client, [server], [call]) = chain::<1>(&mut table);
        assert_eq!(table.holder(context), Some(server));
        assert_eq!((table.held_by(client), table.held_by(server)), (None, Some(context)));
        assert_eq!(table.start(client, 2), Err(Refused::Waits));
        let charge = table.charge(10).unwrap();
        assert_eq!((charge.context, charge.party, charge.used), (context, server, 10));
        let back = table.give_back(call, 12).unwrap();
        assert_eq!((back.caller, back.context, back.interrupted), (client, Some(context), None));
        assert_eq!((table.held_by(client), table.held_by(server)), (Some(context), None));
        let charge = table.stop(15, Stop::Blocked).unwrap();
        assert_eq!((charge.party, charge.used, charge.left), (client, 5, 35));
        assert_eq!(table.usage(context).unwrap().total, 15, "once, not twice");
    }

    #[test]
    fn donation_errors_change_nothing() {
        let mut table = table();
        let (client, context) = running(&mut table, Params::new(50, 100));
        let (busy, _) = bound(&mut table, Params::new(5, 100));
        let server = table.register(None).unwrap();
        let passive = table.register(None).unwrap();
        assert_eq!(table.donate(client, busy, FREE, 1), Err(Refused::HasContext));
        assert_eq!(table.donate(client, client, FREE, 1), Err(Refused::HasContext));
        assert_eq!(table.donate(passive, server, FREE, 1), Err(Refused::NoContext));
        assert_eq!(table.donate(busy, server, FREE, 1), Err(Refused::NotRunning));
        let gone = table.register(None).unwrap();
        table.unregister(gone, 1).unwrap();
        assert_eq!(table.donate(client, gone, FREE, 1), Err(Refused::StaleParty));
        assert_eq!((table.holder(context), table.left(context, 1)), (Some(client), Some(49)));
        // Calling a waiting party would close a cycle.
        let _call = table.donate(client, server, FREE, 1).unwrap();
        assert_eq!(table.donate(server, client, FREE, 1), Err(Refused::Waits));
    }

    #[test]
    fn a_gate_refuses_who_has_not_enough_for_the_worst_case() {
        let mut table = table();
        let (client, _) = running(&mut table, Params::new(50, 100));
        let server = table.register(None).unwrap();
        let gate = Gate { min_budget: 30 };
        // Time that runs but is not charged yet counts.
        let refused = table.donate(client, server, gate, 21);
        assert_eq!(refused, Err(Refused::BelowMinimum { left: 29, needed: 30 }));
        assert!(refused.unwrap_err().to_string().contains("29 are left"));
        assert!(table.donate(client, server, gate, 20).is_ok());
    }

    #[test]
    fn a_callee_that_ends_gives_the_context_back() {
        let mut table = table();
        let (context, _, [first, second], [_, call]) = chain::<2>(&mut table);
        assert_eq!(table.unregister(second, 5), Ok(Some(first)));
        assert_eq!((table.holder(context), table.left(context, 5)), (Some(first), Some(45)));
        assert_eq!(table.give_back(call, 6), Err(Refused::StaleCall));
        assert_eq!(table.start(first, 6).unwrap().limit, 45);
    }

    #[test]
    fn a_caller_that_ends_is_passed_over() {
        let mut table = table();
        let (context, client, [first, second], [outer, inner]) = chain::<2>(&mut table);
        assert_eq!(table.unregister(first, 5), Ok(None));
        assert_eq!(table.give_back(inner, 6), Err(Refused::StaleCall));
        assert_eq!(table.holder(context), Some(second));
        let back = table.give_back(outer, 7).unwrap();
        assert_eq!((back.caller, back.context), (client, Some(context)));
    }

    #[test]
    fn revoking_the_last_call_returns_the_context_from_under_the_callee() {
        let mut table = table();
        let (context, client, [server], [call]) = chain::<1>(&mut table);
        let back = table.revoke(call, 9).unwrap();
        assert_eq!((back.caller, back.context), (client, Some(context)));
        assert_eq!(back.interrupted, Some(server), "it is off the worker");
        assert_eq!(table.start(server, 9), Err(Refused::NoContext));
        assert_eq!(table.start(client, 9).unwrap().limit, 41, "and was charged");
        assert_eq!(table.revoke(call, 9), Err(Refused::StaleCall));
    }

    #[test]
    fn revoking_calls_in_order_from_the_end() {
        let mut table = table();
        let (context, client, [a, b, _], [x, y, z]) = chain::<3>(&mut table);
        for (call, heir) in [(z, b), (y, a), (x, client)] {
            assert_eq!(table.revoke(call, 5).unwrap().context, Some(context));
            assert_eq!(table.holder(context), Some(heir));
        }
        assert_eq!(table.start(client, 5).unwrap().limit, 45);
    }

    #[test]
    fn revoking_calls_out_of_order_closes_the_chain_over_them() {
        let mut table = table();
        let (context, client, [a, _, c], [x, y, z]) = chain::<3>(&mut table);
        assert_eq!(table.give_back(y, 5), Err(Refused::NotLast));
        let lost = table.revoke(y, 5).unwrap();
        assert_eq!((lost.caller, lost.context, lost.interrupted), (a, None, None));
        assert_eq!(table.holder(context), Some(c), "the context stays at the end");
        assert_eq!(table.charge(6).unwrap().party, c);
        table.give_back(z, 7).unwrap();
        let back = table.give_back(x, 8).unwrap();
        assert_eq!((back.caller, table.holder(context)), (client, Some(client)), "past the gap");
    }

    #[test]
    fn a_context_nobody_waits_for_stays_until_it_is_recalled() {
        let mut table = table();
        let (context, client, [first, _], [outer, inner]) = chain::<2>(&mut table);
        assert_eq!(table.revoke(outer, 2).unwrap().context, None);
        table.revoke(inner, 3).unwrap();
        assert_eq!(table.holder(context), Some(first));
        assert_eq!(table.recall(context, 4), Ok(None));
        assert_eq!((table.holder(context), table.held_by(first)), (Some(client), None));
        assert_eq!(table.recall(context, 4), Ok(None), "at home already");
        assert_eq!(table.start(client, 4).unwrap().limit, 47);
    }

    #[test]
    fn recalling_or_destroying_a_context_on_a_chain_frees_everyone() {
        for destroy in [true, false] {
            let mut table = table();
            let (context, client, servers, calls) = chain::<3>(&mut table);
            let off = if destroy { table.destroy(context, 9) } else { table.recall(context, 9) };
            assert_eq!(off, Ok(Some(servers[2])));
            // Answers still reach the waiting callers, in any order, without a context.
            for nth in [1, 2] {
                let back = table.give_back(calls[nth], 10).unwrap();
                assert_eq!((back.caller, back.context), (servers[nth - 1], None));
                assert_eq!(table.start(back.caller, 10), Err(Refused::NoContext));
            }
            if destroy {
                assert_eq!(table.give_back(calls[0], 10).unwrap().caller, client);
                assert_eq!(table.start(client, 10), Err(Refused::NoContext));
            } else {
                assert_eq!(table.give_back(calls[0], 10), Err(Refused::StaleCall));
                assert_eq!(table.start(client, 10).unwrap().limit, 41);
            }
        }
    }

    #[test]
    fn recall_does_not_give_a_party_two_contexts() {
        let mut table = table();
        let (context, client, _, [outer, _]) = chain::<2>(&mut table);
        let (other, lent) = bound(&mut table, Params::new(50, 100));
        assert_eq!(table.revoke(outer, 2).unwrap().caller, client);
        let _ = table.stop(3, Stop::Preempted).unwrap();
        table.wake(other, 3).unwrap();
        table.start(other, 3).unwrap();
        let _call = table.donate(other, client, FREE, 3).unwrap();
        assert_eq!(table.recall(context, 4), Err(Refused::HasContext));
        let server = table.register(None).unwrap();
        let call = table.donate(client, server, FREE, 4).unwrap();
        assert_eq!(table.recall(context, 5), Err(Refused::Waits));
        table.give_back(call, 6).unwrap();
        assert_eq!(table.held_by(client), Some(lent));
    }

    /// The bug of budget amplification through a call: what was refilled meanwhile has a later
    /// deadline, and the caller goes on with that.
    #[test]
    fn a_context_refilled_during_a_call_returns_with_the_later_deadline() {
        let mut table = table();
        let (context, client, [server], [call]) = chain::<1>(&mut table);
        assert_eq!(table.urgency(context).unwrap().deadline(), 100);
        let charge = table.stop(50, Stop::Preempted).unwrap();
        assert_eq!((charge.party, charge.depleted), (server, Some(100)));
        table.start(server, 100).unwrap();
        let back = table.give_back(call, 110).unwrap();
        assert_eq!((back.caller, back.context), (client, Some(context)));
        assert_eq!(table.urgency(context).unwrap().deadline(), 200);
        assert_eq!(table.stop(120, Stop::Blocked).unwrap().left, 30, "one budget per period");
    }
}

mod handles {
    use super::*;

    /// Gate: revocation of stale capabilities.
    // rule: S3-GATE-13
    #[test]
    fn stale_handles_are_refused_by_every_operation() {
        let mut table = table();
        let (party, context) = bound(&mut table, Params::new(5, 50));
        table.destroy(context, 0).unwrap();
        table.unregister(party, 0).unwrap();
        // The slots have new owners, which the old handles must not reach.
        let (new_party, new_context) = running(&mut table, Params::new(7, 70));
        assert_eq!(new_context.index(), context.index());
        assert_eq!(new_party.index(), party.index());

        let terms = Params::new(1, 9);
        assert_eq!(table.destroy(context, 1), Err(Refused::StaleContext));
        assert_eq!(table.reconfigure(context, terms, 1), Err(Refused::StaleContext));
        assert_eq!(table.unbind(context, 1), Err(Refused::StaleContext));
        assert_eq!(table.recall(context, 1), Err(Refused::StaleContext));
        assert_eq!(table.resume(context), Err(Refused::StaleContext));
        assert_eq!(table.depart(context, 1).unwrap_err(), Refused::StaleContext);
        assert_eq!(table.bind(context, new_party), Err(Refused::StaleContext));
        assert_eq!(table.bind(new_context, party), Err(Refused::StaleParty));
        assert_eq!(table.unregister(party, 1), Err(Refused::StaleParty));
        assert_eq!(table.wake(party, 1), Err(Refused::StaleParty));
        assert_eq!(table.start(party, 1), Err(Refused::StaleParty));
        assert_eq!(table.donate(party, new_party, FREE, 1), Err(Refused::StaleParty));
        assert_eq!(table.params(context), None);
        assert_eq!(table.usage(context), None);
        assert_eq!(table.left(context, 1), None);
        assert_eq!(table.ready_at(context), None);
        assert_eq!(table.urgency(context), None);
        assert_eq!(table.holder(context), None);
        assert_eq!(table.held_by(party), None);
        assert_eq!(table.take_consumed(context), None);
        assert_eq!(table.refills(context).count(), 0);
        // Nothing of that touched the new owners.
        assert_eq!(table.charge(3).unwrap().left, 4);
    }

    #[test]
    fn the_handle_of_a_call_is_stale_once_it_is_over() {
        let mut table = table();
        let (_, client, [server], [first]) = chain::<1>(&mut table);
        table.give_back(first, 2).unwrap();
        let second = table.donate(client, server, FREE, 3).unwrap();
        assert_ne!(first, second);
        assert_eq!(table.give_back(first, 4), Err(Refused::StaleCall));
        assert_eq!(table.revoke(first, 4), Err(Refused::StaleCall));
        assert!(table.give_back(second, 4).is_ok());
    }

    /// The bug of the lagging pointer to the current context: a context destroyed while it
    /// runs, its slot filled anew, and then the charge comes in.
    #[test]
    fn a_charge_after_the_context_is_gone_hits_nobody() {
        let mut table = table();
        let (party, old) = running(&mut table, Params::new(50, 100));
        table.destroy(old, 10).unwrap();
        let new = table.create(Params::new(50, 100), 10).unwrap();
        assert_eq!(new.index(), old.index());
        assert_eq!(table.stop(20, Stop::Blocked), Err(Refused::NotRunning));
        table.bind(new, party).unwrap();
        assert_eq!((table.left(new, 20), table.usage(new).unwrap().total), (Some(50), 0));
    }

    /// A worker that changes: budget used here stays used there.
    #[test]
    fn a_context_moves_to_another_worker_with_its_debts() {
        let mut here = table();
        let mut there: Table = Contexts::new(5, [ContextSlot::EMPTY; 8], [PartySlot::EMPTY; 8]);
        let here_only = Params { workers: WorkerSet::of(0), ..Params::new(10, 100) };
        let loud = Params { overrun: Overrun::Notify, ..Params::new(50, 100) };
        let (party, context) = running(&mut here, loud);
        assert_eq!(here.depart(context, 1).unwrap_err(), Refused::Running);
        let server = here.register(None).unwrap();
        let call = here.donate(party, server, FREE, 1).unwrap();
        let _ = here.stop(60, Stop::Preempted).unwrap();
        assert_eq!(here.depart(context, 60).unwrap_err(), Refused::Lent);
        here.revoke(call, 60).unwrap();
        let traveller = here.depart(context, 60).unwrap();
        assert_eq!(here.take_event(), None, "its events went along");
        assert_eq!(here.start(party, 60), Err(Refused::NoContext));
        assert_eq!(here.params(context), None);

        let moved = there.arrive(traveller).unwrap();
        assert_eq!((there.left(moved, 99), there.left(moved, 100)), (Some(0), Some(40)));
        assert_eq!(there.usage(moved).unwrap().total, 60);
        let told = [there.take_event().unwrap(), there.take_event().unwrap()];
        assert!(told.iter().all(|event| event.context == moved && event.holder.is_none()));
        let bound_here = here.create(here_only, 20).unwrap();
        let refused = there.arrive(here.depart(bound_here, 20).unwrap());
        let (why, unharmed) = refused.unwrap_err();
        assert_eq!(why, Refused::WrongWorker { worker: 5 });
        assert!(here.arrive(unharmed).is_ok());
    }
}
