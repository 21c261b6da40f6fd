//! One test per rule of the module's header. Trees against a plain model are in `random`,
//! threads in `stress`.

mod random;
mod stress;

use super::*;
use std::sync::atomic::AtomicU64 as Ticks;

const LIMITS: SpawnLimits = SpawnLimits { max_tasks: 10, task_budget: Budget::CHILD };
const CHANNELS: ChannelLimits = ChannelLimits { max_channels: 3, max_buffer: 100 };

/// A mint whose clock ticks at each entry.
fn mint_at(entries: usize, level: AuditLevel) -> Mint {
    let ticks = Ticks::new(100);
    Mint::new(entries, level, Box::new(move || ticks.fetch_add(1, Ordering::Relaxed)))
}

fn mint() -> Mint {
    mint_at(64, AuditLevel::default())
}

fn tasks(max_tasks: u32) -> SpawnLimits {
    SpawnLimits { max_tasks, ..LIMITS }
}

fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::ZERO }
}

fn events(audit: &Audit) -> Vec<AuditEvent> {
    audit.drain().into_iter().map(|entry| entry.event).collect()
}

// rule: S0-GOAL-6
#[test]
fn max_tasks_counts_live_tasks() {
    let cap = mint().spawn(tasks(2), Delegation::Forbidden);
    let first = cap.admit().unwrap();
    let _second = cap.admit().unwrap();
    let full = CapError::TaskLimitExceeded { cap: cap.serial(), limit: 2, live: 2 };
    assert_eq!(cap.admit().unwrap_err(), full);
    assert_eq!(cap.live(), 2, "a refusal is not counted");
    drop(first);
    assert_eq!(cap.live(), 1);
    let _third = cap.admit().unwrap();
}

#[test]
fn a_limit_of_0_admits_nobody() {
    let cap = mint().spawn(tasks(0), Delegation::Forbidden);
    assert!(matches!(cap.admit(), Err(CapError::TaskLimitExceeded { limit: 0, live: 0, .. })));
}

#[test]
fn tasks_count_in_every_ancestor() {
    let root = mint().spawn(tasks(3), Delegation::Allowed);
    let left = root.attenuate_delegable(tasks(2)).unwrap();
    let leaf = left.attenuate(tasks(2)).unwrap();
    let right = root.attenuate(tasks(3)).unwrap();
    let permit = leaf.admit().unwrap();
    assert_eq!([leaf.live(), left.live(), right.live(), root.live()], [1, 1, 0, 1]);
    let others = [right.admit().unwrap(), right.admit().unwrap()];
    // Its own limit would allow one more; the root's does not, and nothing is taken below.
    let full = CapError::TaskLimitExceeded { cap: root.serial(), limit: 3, live: 3 };
    assert_eq!(leaf.admit().unwrap_err(), full);
    assert_eq!([leaf.live(), left.live(), right.live(), root.live()], [1, 1, 2, 3]);
    drop(permit);
    drop(others);
    assert_eq!([leaf.live(), left.live(), right.live(), root.live()], [0, 0, 0, 0]);
}

#[test]
fn the_nearest_limit_refuses_first() {
    let root = mint().spawn(tasks(1), Delegation::Allowed);
    let leaf = root.attenuate(tasks(1)).unwrap();
    let _permit = leaf.admit().unwrap();
    let full = CapError::TaskLimitExceeded { cap: leaf.serial(), limit: 1, live: 1 };
    assert_eq!(leaf.admit().unwrap_err(), full);
}

#[test]
fn nothing_wider_can_be_derived() {
    let mint = mint();
    let spawn = mint.spawn(LIMITS, Delegation::Allowed);
    let wider = |limit, asked, allowed| CapError::Wider { limit, asked, allowed };
    assert_eq!(spawn.attenuate(tasks(11)).unwrap_err(), wider(CapLimit::MaxTasks, 11, 10));
    for r in Resource::ALL {
        let mut task_budget = LIMITS.task_budget;
        let more = LIMITS.task_budget.get(r) + 1;
        match r {
            Resource::Ops => task_budget.ops = more,
            Resource::Memory => task_budget.memory = more,
            Resource::SpawnCount => task_budget.spawn_count = more,
            Resource::ChannelOps => task_budget.channel_ops = more,
            Resource::Syscalls => task_budget.syscalls = more,
        }
        let refused = spawn.attenuate_delegable(SpawnLimits { task_budget, ..LIMITS });
        assert_eq!(refused.unwrap_err(), wider(CapLimit::TaskBudget(r), more, more - 1));
    }
    let channel = mint.channel(CHANNELS, Delegation::Allowed);
    let refused = channel.attenuate(ChannelLimits { max_channels: 4, ..CHANNELS });
    assert_eq!(refused.unwrap_err(), wider(CapLimit::MaxChannels, 4, 3));
    let refused = channel.attenuate(ChannelLimits { max_buffer: 101, ..CHANNELS });
    assert_eq!(refused.unwrap_err(), wider(CapLimit::MaxBuffer, 101, 100));
    let limits = BudgetLimits { total: ops(50), per_request: ops(10) };
    let budget = mint.budget(limits, Delegation::Allowed);
    let refused = budget.attenuate(BudgetLimits { total: ops(51), ..limits });
    assert_eq!(refused.unwrap_err(), wider(CapLimit::Total(Resource::Ops), 51, 50));
    let refused = budget.attenuate(BudgetLimits { per_request: Budget::UNLIMITED, ..limits });
    assert_eq!(refused.unwrap_err(), wider(CapLimit::PerRequest(Resource::Ops), u64::MAX, 10));
    // As wide is not wider.
    let same = spawn.attenuate(LIMITS).unwrap();
    assert_eq!((same.limits(), same.task_budget()), (LIMITS, Budget::CHILD));
    assert_eq!(channel.attenuate(CHANNELS).unwrap().limits(), CHANNELS);
    assert_eq!(budget.attenuate(limits).unwrap().limits(), limits);
}

#[test]
fn deriving_needs_a_delegable_capability() {
    let mint = mint();
    let plain = mint.spawn(LIMITS, Delegation::default());
    let refused = CapError::NotDelegable { cap: plain.serial() };
    assert_eq!(plain.attenuate(tasks(1)).unwrap_err(), refused);
    assert_eq!(plain.attenuate_delegable(tasks(1)).unwrap_err(), refused);

    let root = mint.spawn(LIMITS, Delegation::Allowed);
    let further = root.attenuate_delegable(tasks(5)).unwrap();
    assert_eq!(further.delegation(), Delegation::Allowed);
    let last = further.attenuate(tasks(5)).unwrap();
    assert_eq!(last.delegation(), Delegation::Forbidden);
    assert!(matches!(last.attenuate(tasks(1)), Err(CapError::NotDelegable { .. })));

    let budget = mint.budget(BudgetLimits::total(ops(5)), Delegation::Forbidden);
    let refused = budget.attenuate(BudgetLimits::total(ops(1)));
    assert!(matches!(refused, Err(CapError::NotDelegable { .. })));
    let channel = mint.channel(CHANNELS, Delegation::Forbidden);
    assert!(matches!(channel.attenuate(CHANNELS), Err(CapError::NotDelegable { .. })));
}

#[test]
fn a_tree_has_only_so_many_levels() {
    let mut chain = vec![mint().spawn(LIMITS, Delegation::Allowed)];
    while let Ok(next) = chain.last().unwrap().attenuate_delegable(LIMITS) {
        chain.push(next);
    }
    assert_eq!(chain.len(), MAX_DEPTH as usize);
    let refused = chain.last().unwrap().attenuate(LIMITS).unwrap_err();
    assert_eq!(refused, CapError::TooDeep { limit: MAX_DEPTH });
    let permit = chain.last().unwrap().admit().unwrap();
    assert!(chain.iter().all(|cap| cap.live() == 1));
    drop(permit);
    assert!(chain.iter().all(|cap| cap.live() == 0));
}

#[test]
fn revoking_refuses_the_whole_subtree_and_nobody_else() {
    let root = mint().spawn(LIMITS, Delegation::Allowed);
    let middle = root.attenuate_delegable(LIMITS).unwrap();
    let leaf = middle.attenuate_delegable(LIMITS).unwrap();
    let sibling = root.attenuate(LIMITS).unwrap();
    middle.revoke();
    let revoked = CapError::Revoked { cap: middle.serial() };
    assert_eq!(middle.admit().unwrap_err(), revoked);
    assert_eq!(leaf.admit().unwrap_err(), revoked);
    assert_eq!(leaf.attenuate(LIMITS).unwrap_err(), revoked);
    assert!(leaf.is_revoked() && middle.is_revoked());
    assert!(!root.is_revoked() && !sibling.is_revoked());
    assert_eq!([leaf.live(), middle.live(), root.live()], [0, 0, 0], "nothing is left taken");
    let _permits = [sibling.admit().unwrap(), root.admit().unwrap()];
    root.attenuate(LIMITS).unwrap();
}

#[test]
fn permits_of_a_revoked_capability_are_given_back() {
    let root = mint().spawn(LIMITS, Delegation::Allowed);
    let leaf = root.attenuate(LIMITS).unwrap();
    let permit = leaf.admit().unwrap();
    leaf.revoke();
    assert_eq!([leaf.live(), root.live()], [1, 1]);
    drop(permit);
    assert_eq!([leaf.live(), root.live()], [0, 0]);
    leaf.revoke();
    assert!(leaf.is_revoked(), "revoking twice changes nothing");
}

#[test]
fn a_revoker_works_from_another_thread_and_without_the_capability() {
    let root = mint().spawn(LIMITS, Delegation::Allowed);
    let given = root.attenuate_delegable(LIMITS).unwrap();
    let revoker = given.revoker();
    assert_eq!(revoker.serial(), given.serial());
    let leaf = given.attenuate(LIMITS).unwrap();
    drop(given); // what was derived stays valid
    drop(leaf.admit().unwrap());
    std::thread::spawn(move || revoker.revoke()).join().unwrap();
    assert!(matches!(leaf.admit(), Err(CapError::Revoked { .. })));
    drop(root.admit().unwrap());
    // Dropping a revoker is not revoking.
    drop(root.revoker());
    assert!(!root.is_revoked());
}

#[test]
fn revokers_of_all_kinds() {
    let mint = mint();
    let channel = mint.channel(CHANNELS, Delegation::Forbidden);
    let budget = mint.budget(BudgetLimits::total(ops(5)), Delegation::Allowed);
    let below = budget.attenuate(BudgetLimits::total(ops(5))).unwrap();
    let revokers = [channel.revoker(), budget.revoker()];
    assert_eq!(revokers.each_ref().map(Revoker::serial), [channel.serial(), budget.serial()]);
    revokers.iter().for_each(Revoker::revoke);
    assert_eq!(channel.admit(1).unwrap_err(), CapError::Revoked { cap: channel.serial() });
    assert_eq!(channel.admit(101).unwrap_err(), CapError::Revoked { cap: channel.serial() });
    assert_eq!(below.take(ops(1)).unwrap_err(), CapError::Revoked { cap: budget.serial() });
    assert!(channel.is_revoked() && below.is_revoked() && budget.is_revoked());
    let refused = below.attenuate(BudgetLimits::total(ops(1))).unwrap_err();
    assert_eq!(refused, CapError::Revoked { cap: budget.serial() });
}

#[test]
fn a_permit_outlives_its_capability() {
    let mint = mint();
    let root = mint.spawn(LIMITS, Delegation::Allowed);
    let leaf = root.attenuate(LIMITS).unwrap();
    let permit = leaf.admit().unwrap();
    drop(leaf);
    assert_eq!(root.live(), 1);
    drop(root);
    std::thread::spawn(move || drop(permit)).join().unwrap();
    assert_eq!(Arc::strong_count(&mint.issuer), 1, "all nodes are freed");
}

#[test]
fn references_are_bounded_and_never_reach_the_mark() {
    let cap = mint().spawn(LIMITS, Delegation::Forbidden);
    let node = cap.revoker();
    let Revocable::Spawn(node) = &node.0 else { unreachable!() };
    node.set_references(permits::MAX_REFERENCES);
    let more = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cap.revoker()));
    assert!(more.is_err());
    assert!(!cap.is_revoked());
    node.set_references(2); // the capability and the revoker
}

#[test]
fn channels_are_limited_in_number_and_buffer() {
    let root = mint().channel(CHANNELS, Delegation::Allowed);
    let leaf = root.attenuate(ChannelLimits { max_channels: 2, max_buffer: 10 }).unwrap();
    let too_large = CapError::BufferTooLarge { cap: leaf.serial(), limit: 10, requested: 11 };
    assert_eq!(leaf.admit(11).unwrap_err(), too_large);
    assert_eq!([leaf.live(), root.live()], [0, 0]);
    let first = leaf.admit(10).unwrap();
    let _rendezvous = leaf.admit(0).unwrap();
    let full = CapError::ChannelLimitExceeded { cap: leaf.serial(), limit: 2, live: 2 };
    assert_eq!(leaf.admit(0).unwrap_err(), full);
    let _wide = root.admit(100).unwrap();
    let full = CapError::ChannelLimitExceeded { cap: root.serial(), limit: 3, live: 3 };
    assert_eq!(root.admit(0).unwrap_err(), full);
    drop(first);
    assert_eq!([leaf.live(), root.live()], [1, 2]);
    assert_eq!(leaf.delegation(), Delegation::Forbidden);
}

#[test]
fn a_request_for_budget_is_clamped() {
    let limits = BudgetLimits {
        total: Budget { ops: 25, memory: 7, ..Budget::ZERO },
        per_request: Budget { ops: 10, memory: 100, syscalls: 5, ..Budget::ZERO },
    };
    let cap = mint().budget(limits, Delegation::Forbidden);
    // Per request, by what is left, and to nothing at all, each component by itself.
    let wanted = Budget { ops: 20, memory: 20, syscalls: 3, ..Budget::ZERO };
    assert_eq!(cap.take(wanted).unwrap(), Budget { ops: 10, memory: 7, ..Budget::ZERO });
    assert_eq!(cap.take(ops(4)).unwrap(), ops(4));
    assert_eq!(cap.take(wanted).unwrap(), ops(10));
    assert_eq!(cap.take(wanted).unwrap(), ops(1));
    let (cap_, resource) = (cap.serial(), Resource::Ops);
    let dry = CapError::BudgetLimitExceeded { cap: cap_, resource, wanted: 20, left: 0 };
    assert_eq!(cap.take(wanted).unwrap_err(), dry);
    assert_eq!(cap.take(Budget::ZERO).unwrap(), Budget::ZERO);
}

#[test]
fn an_exact_request_gets_all_or_nothing() {
    let cap = mint().budget(BudgetLimits::total(ops(5)), Delegation::Forbidden);
    assert_eq!(cap.take_exact(ops(3)).unwrap(), ops(3));
    let short = CapError::BudgetLimitExceeded {
        cap: cap.serial(),
        resource: Resource::Ops,
        wanted: 3,
        left: 2,
    };
    assert_eq!(cap.take_exact(ops(3)).unwrap_err(), short);
    assert_eq!(cap.left(), ops(2));
}

#[test]
fn budget_is_taken_from_every_ancestor_and_given_back_there() {
    let root = mint().budget(BudgetLimits::total(ops(10)), Delegation::Allowed);
    let a = root.attenuate(BudgetLimits::total(ops(8))).unwrap();
    let b = root.attenuate(BudgetLimits::total(ops(8))).unwrap();
    assert_eq!(a.take(ops(8)).unwrap(), ops(8));
    assert_eq!(b.take(ops(8)).unwrap(), ops(2), "the root has no more");
    assert_eq!([a.left(), b.left(), root.left()], [ops(0), ops(6), ops(0)]);
    let refused = b.take(ops(1)).unwrap_err();
    assert!(matches!(refused, CapError::BudgetLimitExceeded { cap, .. } if cap == root.serial()));
    assert_eq!(b.left(), ops(6), "a refusal takes nothing");
    a.revoke();
    a.give_back(ops(3));
    assert_eq!([a.left(), root.left()], [ops(3), ops(3)]);
    a.give_back(ops(100)); // more than was taken
    assert_eq!([a.left(), b.left(), root.left()], [ops(8), ops(6), ops(8)]);
}

#[test]
fn unlimited_budget_is_not_counted_and_not_made() {
    let root = mint().budget(BudgetLimits::total(Budget::UNLIMITED), Delegation::Allowed);
    assert_eq!(root.take(Budget::SERVICE).unwrap(), Budget::SERVICE);
    assert_eq!(root.left(), Budget::UNLIMITED);
    let bounded = root.attenuate(BudgetLimits::total(Budget::CHILD)).unwrap();
    assert_eq!(bounded.take(Budget::UNLIMITED).unwrap(), Budget::CHILD);
    bounded.give_back(Budget::UNLIMITED);
    assert_eq!([bounded.left(), root.left()], [Budget::CHILD, Budget::UNLIMITED]);
}

#[test]
fn everything_but_uses_is_audited_by_default() {
    let mint = mint();
    let audit = mint.audit();
    let root = mint.spawn(tasks(1), Delegation::Allowed);
    let leaf = root.attenuate(tasks(1)).unwrap();
    let permit = leaf.admit().unwrap();
    let error = root.admit().unwrap_err();
    leaf.revoke();
    leaf.revoke(); // said once
    let entries = audit.drain();
    let facts: Vec<_> =
        entries.iter().map(|e| (e.sequence, e.time, e.kind, e.serial, e.parent, e.event)).collect();
    let (a, b, kind) = (root.serial(), leaf.serial(), CapKind::Spawn);
    assert_eq!(
        facts,
        [
            (0, 100, kind, a, None, AuditEvent::Minted(Limits::Spawn(tasks(1)))),
            (1, 101, kind, b, Some(a), AuditEvent::Attenuated(Limits::Spawn(tasks(1)))),
            (2, 102, kind, a, None, AuditEvent::Denied(error)),
            (3, 103, kind, b, Some(a), AuditEvent::Revoked),
        ]
    );
    assert!(audit.drain().is_empty(), "an entry is drained once");
    drop(permit);
}

#[test]
fn uses_are_audited_on_demand() {
    let mint = mint_at(64, AuditLevel::All);
    let audit = mint.audit();
    let spawn = mint.spawn(LIMITS, Delegation::Forbidden);
    let channel = mint.channel(CHANNELS, Delegation::Forbidden);
    let budget = mint.budget(BudgetLimits::total(ops(5)), Delegation::Forbidden);
    audit.drain();
    let _permits = [spawn.admit().unwrap(), spawn.admit().unwrap()];
    let _channel = channel.admit(7).unwrap();
    budget.take(ops(9)).unwrap();
    let used = [
        Usage::Task { live: 1 },
        Usage::Task { live: 2 },
        Usage::Channel { live: 1, buffer: 7 },
        Usage::Budget { granted: ops(5) },
    ];
    assert_eq!(events(&audit), used.map(AuditEvent::Used));
    audit.set_level(AuditLevel::Denials);
    let _third = spawn.admit().unwrap();
    assert_eq!(events(&audit), []);
}

#[test]
fn an_audit_that_is_off_records_nothing() {
    let mint = mint_at(64, AuditLevel::Off);
    let cap = mint.spawn(tasks(0), Delegation::Forbidden);
    cap.admit().unwrap_err();
    cap.revoke();
    assert_eq!(events(&mint.audit()), []);
    mint.audit().set_level(AuditLevel::All);
    assert_eq!(cap.admit().unwrap_err(), CapError::Revoked { cap: cap.serial() });
    assert_eq!(mint.audit().drain().len(), 1);
}

#[test]
fn the_audit_keeps_the_newest_and_counts_the_lost() {
    let mint = mint_at(3, AuditLevel::Denials);
    let audit = mint.audit();
    for _ in 0..5 {
        mint.spawn(LIMITS, Delegation::Forbidden);
    }
    assert_eq!(audit.dropped(), 2);
    let sequences: Vec<u64> = audit.drain().iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [2, 3, 4]);
    mint.spawn(LIMITS, Delegation::Forbidden);
    assert_eq!((audit.dropped(), audit.drain().len()), (2, 1));

    let nothing = mint_at(0, AuditLevel::Denials);
    nothing.spawn(LIMITS, Delegation::Forbidden);
    assert_eq!((nothing.audit().dropped(), nothing.audit().drain().len()), (1, 0));
}

#[test]
fn a_flood_of_denials_is_one_entry() {
    let mint = mint_at(2, AuditLevel::Denials);
    let cap = mint.spawn(tasks(0), Delegation::Forbidden);
    for _ in 0..1_000 {
        cap.admit().unwrap_err();
    }
    let entries = mint.audit().drain();
    assert!(matches!(entries[0].event, AuditEvent::Minted(_)));
    assert_eq!((entries.len(), entries[1].times, mint.audit().dropped()), (2, 1_000, 0));
    // Another denial is another entry; those that are lost are counted in full.
    let other = mint.spawn(tasks(0), Delegation::Forbidden);
    for _ in 0..2 {
        cap.admit().unwrap_err();
        cap.admit().unwrap_err();
        other.admit().unwrap_err();
    }
    assert_eq!((mint.audit().drain().len(), mint.audit().dropped()), (2, 4));
}

#[test]
fn denials_of_two_capabilities_for_one_reason_are_two_entries() {
    let mint = mint();
    let root = mint.spawn(LIMITS, Delegation::Allowed);
    let below = [0; 2].map(|_| root.attenuate(LIMITS).unwrap());
    root.revoke();
    mint.audit().drain();
    below.iter().for_each(|cap| assert!(cap.admit().is_err()));
    let serials: Vec<u64> = mint.audit().drain().iter().map(|entry| entry.serial).collect();
    assert_eq!(serials, below.each_ref().map(CapSpawn::serial));
}

#[test]
fn serial_numbers_are_unique_over_all_kinds() {
    let mint = mint();
    let spawn = mint.spawn(LIMITS, Delegation::Allowed);
    let budget = mint.budget(BudgetLimits::total(ops(1)), Delegation::Allowed);
    let channel = mint.channel(CHANNELS, Delegation::Allowed);
    let below = channel.attenuate(CHANNELS).unwrap();
    let further = spawn.attenuate(LIMITS).unwrap();
    let serials =
        [spawn.serial(), budget.serial(), channel.serial(), below.serial(), further.serial()];
    assert_eq!(serials, [1, 2, 3, 4, 5]);
}

#[test]
fn errors_say_what_was_hit_and_what_helps() {
    let (cap, resource) = (7, Resource::Memory);
    for (error, words) in [
        (CapError::NotDelegable { cap }, ["#7", "Delegation::Allowed"]),
        (CapError::Revoked { cap }, ["#7 was revoked", "from its issuer"]),
        (
            CapError::TaskLimitExceeded { cap, limit: 5, live: 5 },
            ["max_tasks is 5", "higher max_tasks"],
        ),
        (
            CapError::ChannelLimitExceeded { cap, limit: 5, live: 5 },
            ["max_channels is 5", "higher max_channels"],
        ),
        (
            CapError::BufferTooLarge { cap, limit: 5, requested: 6 },
            ["buffer of 6", "higher max_buffer"],
        ),
        (
            CapError::BudgetLimitExceeded { cap, resource, wanted: 6, left: 5 },
            ["6 memory requested", "more memory in total"],
        ),
        (
            CapError::Wider { limit: CapLimit::TaskBudget(resource), asked: 6, allowed: 5 },
            ["task_budget.memory of 6", "5 allowed"],
        ),
        (CapError::TooDeep { limit: MAX_DEPTH }, ["32 derivations", "ancestors"]),
    ] {
        let text = (&error as &dyn std::error::Error).to_string();
        for word in words {
            assert!(text.contains(word), "{text:?} lacks {word:?}");
        }
    }
    let names = [
        CapLimit::MaxTasks,
        CapLimit::Total(Resource::Ops),
        CapLimit::PerRequest(Resource::Syscalls),
        CapLimit::MaxChannels,
        CapLimit::MaxBuffer,
    ]
    .map(|limit| limit.to_string());
    let expected = ["max_tasks", "total.ops", "per_request.syscalls", "max_channels", "max_buffer"];
    assert_eq!(names, expected);
}

#[test]
fn debug_and_audit_texts_name_things_without_addresses() {
    let mint = mint_at(64, AuditLevel::All);
    let root = mint.spawn(tasks(1), Delegation::Allowed);
    let cap = root.attenuate(tasks(1)).unwrap();
    let permit = cap.admit().unwrap();
    cap.admit().unwrap_err();
    cap.admit().unwrap_err();
    let channel = mint.channel(CHANNELS, Delegation::Forbidden);
    let place = channel.admit(1).unwrap();
    let budget = mint.budget(BudgetLimits::total(ops(5)), Delegation::Forbidden);
    budget.take(ops(1)).unwrap();
    cap.revoke();
    let texts = [
        format!("{root:?} {cap:?} {permit:?} {channel:?} {place:?} {budget:?}"),
        format!("{:?} {:?} {:?}", root.revoker(), mint.audit(), mint),
    ];
    for text in &texts {
        assert!(!text.contains("0x"), "{text}");
    }
    assert!(texts[0].contains("CapSpawn { serial: 2, parent: Some(1)"), "{texts:?}");
    let log: Vec<String> = mint.audit().drain().iter().map(AuditEntry::to_string).collect();
    for (line, words) in log.iter().zip([
        "0 at 100: spawn capability #1 minted",
        "spawn capability #2 (from #1) attenuated",
        "used for a task, 1 live",
        "denied 2 times: 1 tasks live",
        "channel capability #3 minted",
        "used for a channel with buffer 1, 1 live",
        "budget capability #4 minted",
        "used for Budget { ops: 1",
        "#2 (from #1) revoked",
    ]) {
        assert!(line.contains(words), "{line:?} lacks {words:?}");
    }
    assert_eq!(log.len(), 9);
}

#[test]
fn capabilities_go_anywhere_and_permits_are_small() {
    fn send_sync<T: Send + Sync + 'static>() {}
    send_sync::<CapSpawn>();
    send_sync::<CapBudget>();
    send_sync::<CapChannel>();
    send_sync::<TaskPermit>();
    send_sync::<ChannelPermit>();
    send_sync::<Revoker>();
    send_sync::<Audit>();
    send_sync::<AuditEntry>();
    assert_eq!(size_of::<TaskPermit>(), size_of::<usize>());
    assert_eq!(size_of::<Option<ChannelPermit>>(), size_of::<usize>());
}
