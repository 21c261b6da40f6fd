//! Opening tenants, and refusals.

use crate::support::*;
use parcae::policy::{Latency, ShareRefused};
use parcae::prelude::*;

fn refusal(error: &parcae::Error) -> ShareRefused {
    match error.kind() {
        ErrorKind::ShareRefused(refused) => *refused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_table_refuses_the_next_tenant_and_serves_again() {
    let rt = Runtime::builder().deterministic(1).max_tenants(2).build().unwrap();
    rt.run(|cx| {
        for _ in 0..3 {
            cx.nursery_with(tenant("a", 1024), |_| {
                cx.nursery_with(tenant("b", 1024), |_| {
                    let full = cx.nursery_with(tenant("c", 1024), |_| Ok(())).unwrap_err();
                    assert_eq!(refusal(&full), ShareRefused::Full { max_tenants: 2 });
                    assert!(full.to_string().contains("max_tenants"), "{full}");
                    // The same name is the same tenant.
                    cx.nursery_with(tenant("a", 1024), |n| n.spawn(|_| Ok(())).map(drop))
                })
            })?;
            cx.nursery_with(tenant("c", 1024), |n| n.spawn(|_| Ok(())).map(drop))?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn slices_and_depth_have_limits() {
    fn nest(cx: &Cx, depth: u32) -> parcae::Result<u32> {
        let opts = tenant(&format!("depth {depth}"), 1024);
        cx.nursery_with(opts, |n| n.spawn(move |cx| nest(cx, depth + 1))?.join()).or_else(|error| {
            match refusal(&error) {
                ShareRefused::TooDeep { max_depth } => {
                    assert_eq!(max_depth, depth);
                    Ok(depth)
                }
                other => panic!("{other:?}"),
            }
        })
    }
    let rt = runtime(1, 1);
    rt.run(|cx| {
        let slice = |units| tenant("t", 1024).latency(Latency::Slice(units));
        let short = cx.nursery_with(slice(1), |_| Ok(())).unwrap_err();
        assert_eq!(refusal(&short), ShareRefused::Slice { min: 256, max: 65_536 });
        assert_eq!(nest(cx, 0)?, 8);
        Ok(())
    })
    .unwrap();
    let off = Runtime::builder().deterministic(1).max_tenants(0).build().unwrap();
    let error = off.run(|cx| cx.nursery_with(tenant("t", 1024), |_| Ok(()))).unwrap_err();
    assert_eq!(refusal(&error), ShareRefused::Off);
}

#[test]
fn a_nursery_without_a_share_belongs_to_the_tenant_around_it() {
    let rt = runtime(5, 1);
    rt.run(|cx| {
        cx.nursery_with(tenant("outer", 1024), |n| {
            n.spawn(|cx| {
                cx.nursery(|n| {
                    n.spawn(|cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?;
                    Ok(())
                })
            })?;
            Ok(())
        })
    })
    .unwrap();
    assert!(of(&rt.stats(), "outer").ops >= 5_000);
}

#[test]
fn a_runtime_without_shares_has_no_tenants() {
    let rt = runtime(1, 1);
    rt.run(|cx| cx.nursery(|n| n.spawn(|_| Ok(())).map(drop))).unwrap();
    assert!(rt.stats().tenants.is_empty());
    assert!(!rt.stats().to_prometheus().contains("parcae_tenant"));
}

/// The same seed gives the same figures.
#[test]
fn shares_repeat_with_the_seed() {
    let run = || {
        let rt = runtime(42, 2);
        let plays = [play(tenant("a", 1024), hog), play(tenant("b", 3000), hog)];
        stage(&rt, 3_000, &plays).tenants
    };
    assert_eq!(run(), run());
}

/// In the profile Sovereign a share needs a capability, which bounds number and weight.
#[test]
fn a_share_is_authority_in_the_sovereign_profile() {
    use parcae::cap::{CapError, Delegation, ShareLimits};
    use parcae::profile::Sovereign;
    let build = || Runtime::builder().profile::<Sovereign>().deterministic(1).build().unwrap();
    let (rt, other) = (build(), build());
    let limits = ShareLimits { max_open: 1, max_weight: weight(2048) };
    let cap = rt.cap_share(limits, Delegation::Allowed);
    let foreign = other.cap_share(limits, Delegation::Allowed);
    let capability = |outcome: parcae::Result<()>| match outcome.unwrap_err().kind() {
        ErrorKind::Capability(refused) => *refused,
        other => panic!("{other:?}"),
    };
    rt.run(|cx| {
        let light = || tenant("light", 1024);
        let refused = cx.nursery_with(light(), |_| Ok(())).unwrap_err();
        assert_eq!(refusal(&refused), ShareRefused::Sovereign);
        assert!(rt.stats().tenants.is_empty());
        let heavy = cx.nursery_with_share(&cap, tenant("heavy", 4096), |_| Ok(()));
        assert!(matches!(capability(heavy), CapError::WeightTooLarge { limit: 2048, .. }));
        let denied = cx.nursery_with_share(&foreign, light(), |_| Ok(()));
        assert!(matches!(capability(denied), CapError::Foreign { .. }));
        cx.nursery_with_share(&cap, light(), |_| {
            assert_eq!(cap.live(), 1);
            let full = cx.nursery_with_share(&cap, tenant("next", 1), |_| Ok(()));
            assert!(matches!(capability(full), CapError::ShareLimitExceeded { limit: 1, .. }));
            Ok(())
        })?;
        assert_eq!(cap.live(), 0);
        let weaker = cap.attenuate(ShareLimits { max_weight: weight(16), ..limits })?;
        let wider = weaker.attenuate(limits).unwrap_err();
        assert!(matches!(wider, CapError::NotDelegable { .. }), "{wider}");
        cap.revoke();
        let revoked = cx.nursery_with_share(&weaker, tenant("late", 1), |_| Ok(()));
        assert!(matches!(capability(revoked), CapError::Revoked { .. }));
        Ok(())
    })
    .unwrap();
}

/// A dump names each tenant with its shares, as text and as JSON; one without tenants does not.
#[test]
fn a_dump_has_the_tenants() {
    let rt = runtime(3, 1);
    rt.run(|cx| {
        assert!(!rt.dump().to_string().contains("tenant"));
        assert!(rt.dump().to_json().contains(r#""tenants":[]"#));
        cx.nursery_with(tenant("paid", 3072), |n| {
            n.spawn(|cx| (0..2_000).try_for_each(|_| cx.checkpoint()))?;
            cx.sleep(std::time::Duration::from_micros(5))?;
            let (text, json) = (rt.dump().to_string(), rt.dump().to_json());
            let line = "tenant `paid`: weight 3072, wanted 75.0 %, feasible ";
            assert!(text.contains(line) && text.contains("tasks without a tenant"), "{text}");
            assert!(json.contains(r#""tenant":"paid","number":1"#), "{json}");
            assert_eq!(rt.dump().tenants.len(), 2);
            Ok(())
        })
    })
    .unwrap();
}
