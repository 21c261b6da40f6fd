//! Random trees of capabilities against a plain model.

use super::*;
use proptest::prelude::*;

/// The model's view of a capability.
struct Known {
    parent: Option<usize>,
    revoked: bool,
    delegation: Delegation,
    serial: u64,
}

/// The capabilities from `leaf` up to its root.
fn chain(known: &[Known], leaf: usize) -> Vec<usize> {
    std::iter::successors(Some(leaf), |&at| known[at].parent).collect()
}

/// The expected result of a derivation from `parent`, limits aside.
fn derivable(known: &[Known], parent: usize) -> Result<(), CapError> {
    if let Some(&at) = chain(known, parent).iter().find(|&&at| known[at].revoked) {
        return Err(CapError::Revoked { cap: known[at].serial });
    }
    match known[parent].delegation {
        Delegation::Forbidden => Err(CapError::NotDelegable { cap: known[parent].serial }),
        Delegation::Allowed => Ok(()),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Attenuate { pick: usize, amount: u64, delegation: Delegation },
    Use { pick: usize, amount: u64 },
    Return { pick: usize },
    Revoke { pick: usize },
    DropCap { pick: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pick = any::<usize>;
    let delegation = prop_oneof![3 => Just(Delegation::Allowed), 1 => Just(Delegation::Forbidden)];
    let step = prop_oneof![
        4 => (pick(), 0..6_u64, delegation)
            .prop_map(|(pick, amount, delegation)| Step::Attenuate { pick, amount, delegation }),
        8 => (pick(), 0..6_u64).prop_map(|(pick, amount)| Step::Use { pick, amount }),
        5 => pick().prop_map(|pick| Step::Return { pick }),
        1 => pick().prop_map(|pick| Step::Revoke { pick }),
        1 => pick().prop_map(|pick| Step::DropCap { pick }),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn spawn_capabilities_behave_like_counters_in_a_tree(max in 0..6_u32, steps in steps()) {
        let mint = mint();
        let root = mint.spawn(tasks(max), Delegation::Allowed);
        let mut known = vec![Known {
            parent: None,
            revoked: false,
            delegation: Delegation::Allowed,
            serial: root.serial(),
        }];
        let mut limits = vec![max];
        let mut live = vec![0_u32];
        let mut caps = vec![Some(root)];
        let mut permits: Vec<(TaskPermit, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Attenuate { pick, amount, delegation } => {
                    let at = pick % caps.len();
                    let Some(cap) = &caps[at] else { continue };
                    let asked = amount as u32;
                    let expected = derivable(&known, at).and_then(|()| {
                        not_wider(CapLimit::MaxTasks, asked.into(), limits[at].into())
                    });
                    let derived = match delegation {
                        Delegation::Allowed => cap.attenuate_delegable(tasks(asked)),
                        Delegation::Forbidden => cap.attenuate(tasks(asked)),
                    };
                    prop_assert_eq!(derived.as_ref().map(|_| ()).map_err(|e| *e), expected);
                    if let Ok(derived) = derived {
                        let serial = derived.serial();
                        known.push(Known { parent: Some(at), revoked: false, delegation, serial });
                        limits.push(asked);
                        live.push(0);
                        caps.push(Some(derived));
                    }
                }
                Step::Use { pick, .. } => {
                    let at = pick % caps.len();
                    let Some(cap) = &caps[at] else { continue };
                    let expected = chain(&known, at).iter().try_for_each(|&at| {
                        let cap = known[at].serial;
                        if known[at].revoked {
                            Err(CapError::Revoked { cap })
                        } else if live[at] == limits[at] {
                            let (limit, live) = (limits[at], live[at]);
                            Err(CapError::TaskLimitExceeded { cap, limit, live })
                        } else {
                            Ok(())
                        }
                    });
                    let permit = cap.admit();
                    prop_assert_eq!(permit.as_ref().map(|_| ()).map_err(|e| *e), expected);
                    if let Ok(permit) = permit {
                        chain(&known, at).iter().for_each(|&at| live[at] += 1);
                        permits.push((permit, at));
                    }
                }
                Step::Return { pick } if !permits.is_empty() => {
                    let (permit, at) = permits.swap_remove(pick % permits.len());
                    drop(permit);
                    chain(&known, at).iter().for_each(|&at| live[at] -= 1);
                }
                Step::Revoke { pick } => {
                    let at = pick % caps.len();
                    if let Some(cap) = &caps[at] {
                        cap.revoke();
                        known[at].revoked = true;
                    }
                }
                Step::DropCap { pick } => caps[pick % known.len()] = None,
                Step::Return { .. } => {}
            }
            for (at, cap) in caps.iter().enumerate() {
                let Some(cap) = cap else { continue };
                prop_assert_eq!(cap.live(), live[at]);
                prop_assert!(cap.live() <= limits[at]);
                let revoked = chain(&known, at).iter().any(|&at| known[at].revoked);
                prop_assert_eq!(cap.is_revoked(), revoked);
            }
        }
        drop(caps);
        drop(permits);
        prop_assert_eq!(Arc::strong_count(&mint.issuer), 1, "all nodes are freed");
    }

    #[test]
    fn budget_capabilities_conserve(total in 0..30_u64, steps in steps()) {
        let mint = mint();
        let vector = |n: u64| Budget {
            ops: n,
            memory: n / 2,
            spawn_count: 0,
            channel_ops: n * 3,
            syscalls: 1,
        };
        let wide = |n| BudgetLimits { total: vector(n), per_request: vector(n.min(4)) };
        let root = mint.budget(wide(total), Delegation::Allowed);
        let mut known = vec![Known {
            parent: None,
            revoked: false,
            delegation: Delegation::Allowed,
            serial: root.serial(),
        }];
        let mut caps = vec![root];
        let mut grants: Vec<(Budget, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Attenuate { pick, amount, delegation } => {
                    let at = pick % caps.len();
                    let limits = wide(amount * 3);
                    let expected =
                        derivable(&known, at).and_then(|()| limits.within(&caps[at].limits()));
                    let derived = match delegation {
                        Delegation::Allowed => caps[at].attenuate_delegable(limits),
                        Delegation::Forbidden => caps[at].attenuate(limits),
                    };
                    prop_assert_eq!(derived.as_ref().map(|_| ()).map_err(|e| *e), expected);
                    if let Ok(derived) = derived {
                        let serial = derived.serial();
                        known.push(Known { parent: Some(at), revoked: false, delegation, serial });
                        caps.push(derived);
                    }
                }
                Step::Use { pick, amount } => {
                    let at = pick % caps.len();
                    let wanted = vector(amount);
                    let revoked = chain(&known, at).iter().any(|&at| known[at].revoked);
                    let offered = chain(&known, at).iter().fold(wanted, |offered, &at| {
                        offered.min(caps[at].limits().per_request).min(caps[at].left())
                    });
                    match caps[at].take(wanted) {
                        Ok(granted) => {
                            prop_assert!(!revoked);
                            prop_assert_eq!(granted, offered);
                            grants.push((granted, at));
                        }
                        Err(CapError::Revoked { .. }) => prop_assert!(revoked),
                        Err(error) => prop_assert_eq!(offered, Budget::ZERO, "{}", error),
                    }
                }
                Step::Return { pick } if !grants.is_empty() => {
                    let (granted, at) = grants.swap_remove(pick % grants.len());
                    caps[at].give_back(granted);
                }
                Step::Revoke { pick } => {
                    let at = pick % caps.len();
                    caps[at].revoke();
                    known[at].revoked = true;
                }
                Step::Return { .. } | Step::DropCap { .. } => {}
            }
            // total = left + what was taken through the node and the ones below.
            for (at, cap) in caps.iter().enumerate() {
                let mut sum = cap.left();
                for (granted, through) in &grants {
                    if chain(&known, *through).contains(&at) {
                        sum.absorb(*granted);
                    }
                }
                prop_assert_eq!(sum, cap.limits().total);
            }
        }
    }
}
