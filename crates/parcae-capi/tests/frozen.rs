//! The frozen part of the ABI, written down once more by hand, from the specification: sections 3.4
//! to 3.6 (adapter, contracts, results), 2.6 (life of the runtime) and 13 (exports for compilers).
//!
//! The header is printed from the code, and so changes with it. This file does not: a change of a
//! frozen name, signature, layout or number has to be made here as well, together with the major
//! version.

use parcae_capi::api::{SECTIONS, nursery, rt, scheduler};
use parcae_capi::decl::Function;
use parcae_capi::header::header;
use parcae_capi::types::{CONSTANTS, STRUCTURES};

/// Result, name, types of the parameters. The specification's `Budget` is `janus_budget` and so on:
/// see `SHORT_NAMES` below.
const FROZEN: &[(&str, &str, &[&str])] = &[
    ("void", "janus_rt_init", &["janus_runtime_config"]),
    ("void", "janus_rt_shutdown", &[]),
    ("janus_runtime *", "janus_rt_get", &[]),
    ("void *", "janus_nursery_create", &[]),
    ("int", "janus_nursery_spawn", &["janus_task_fn", "void *"]),
    ("long", "janus_nursery_await_all", &[]),
    ("void *", "janus_scheduler_create", &["janus_scheduler_config"]),
    ("void", "janus_scheduler_shutdown", &["void *"]),
    ("int", "janus_scheduler_spawn", &["void *", "void *"]),
    ("int", "janus_scheduler_yield", &[]),
    ("janus_budget", "janus_budget_get_current", &[]),
    ("int", "janus_budget_recharge", &["janus_budget"]),
];

/// Names, field by field: type, name, offset.
type Layout = (&'static str, usize, &'static [(&'static str, &'static str, usize)]);

const LAYOUTS: &[Layout] = &[
    (
        "janus_budget",
        40,
        &[
            ("uint64_t", "ops", 0),
            ("uint64_t", "memory", 8),
            ("uint64_t", "spawn_count", 16),
            ("uint64_t", "channel_ops", 24),
            ("uint64_t", "syscalls", 32),
        ],
    ),
    (
        "janus_runtime_config",
        16,
        &[("uint32_t", "worker_count", 0), ("uint64_t", "deterministic_seed", 8)],
    ),
    (
        "janus_scheduler_config",
        16,
        &[("uint32_t", "worker_count", 0), ("uint64_t", "deterministic_seed", 8)],
    ),
];

/// The table of results.
const CODES: &[(&str, i64)] = &[
    ("PARCAE_OK", 0),
    ("PARCAE_CANCELLED", -1),
    ("PARCAE_PANIC", -2),
    ("PARCAE_BUDGET", -3),
    ("PARCAE_PENDING", -4),
];

const SHORT_NAMES: &[&str] = &[
    "typedef int64_t (*janus_task_fn)(void *arg);",
    "typedef int64_t (*janus_noarg_task_fn)(void);",
    "typedef janus_task_fn TaskFn;",
    "typedef janus_noarg_task_fn NoArgTaskFn;",
    "typedef janus_budget Budget;",
    "typedef janus_runtime_config RuntimeConfig;",
    "typedef janus_scheduler_config SchedulerConfig;",
    "typedef janus_runtime Runtime;",
];

/// The problems of a list of declarations.
fn faults<'d>(declared: impl Iterator<Item = &'d Function> + Clone) -> Vec<String> {
    let mut faults = Vec::new();
    for (result, name, params) in FROZEN {
        let mut with_name = declared.clone().filter(|it| it.name == *name);
        let (Some(it), None) = (with_name.next(), with_name.next()) else {
            faults.push(format!("{name}: there once, and under this name"));
            continue;
        };
        let types: Vec<&str> = it.params.iter().map(|(_, ty)| *ty).collect();
        if it.result != *result || types != *params {
            faults.push(format!("{name}: {result} ({params:?}), but is {} ({types:?})", it.result));
        }
    }
    faults
}

fn declared() -> impl Iterator<Item = &'static Function> + Clone {
    SECTIONS.iter().flat_map(|(_, _, lists)| lists.iter().flat_map(|list| list.iter()))
}

// rule: S0-ERRMAP-7
#[test]
fn the_frozen_functions_are_as_the_specification_has_them() {
    assert_eq!(faults(declared()), Vec::<String>::new());
    // And nothing else is called frozen.
    let called: Vec<&str> = rt::FROZEN.iter().chain(nursery::FROZEN).map(|it| it.name).collect();
    let first: Vec<&str> = FROZEN[..6].iter().map(|(_, name, _)| *name).collect();
    assert_eq!(called, first);
    let exports: Vec<&str> = FROZEN[6..].iter().map(|(_, name, _)| *name).collect();
    let adapters = scheduler::FUNCTIONS.iter().map(|it| it.name);
    assert_eq!(adapters.filter(|name| exports.contains(name)).collect::<Vec<_>>(), exports);
}

// rule: S0-ERRMAP-7
#[test]
fn the_frozen_layouts_codes_and_names_are_as_the_specification_has_them() {
    for (name, size, fields) in LAYOUTS {
        let it = STRUCTURES.iter().find(|it| it.name == *name).expect(name);
        let found: Vec<_> = it.fields.iter().map(|it| (it.kind, it.name, it.offset)).collect();
        assert_eq!((it.size, found.as_slice()), (*size, *fields), "{name}");
    }
    let codes = CONSTANTS[0].1;
    assert_eq!(&codes[..CODES.len()], CODES);
    let header = header();
    let lines: Vec<&str> = header.lines().collect();
    for line in SHORT_NAMES {
        assert!(lines.contains(line), "{line}");
    }
}

/// The comparison sees what it has to.
// rule: S0-ERRMAP-7
#[test]
fn a_changed_signature_is_found() {
    let (place, original) =
        declared().enumerate().find(|(_, it)| it.name == "janus_nursery_spawn").expect("frozen");
    let copy = |name, result, params| Function {
        name,
        docs: &[],
        params,
        result,
        returns: original.returns,
    };
    let wrong = [
        copy("janus_nursery_spawn2", "int", original.params),
        copy("janus_nursery_spawn", "long", original.params),
        copy("janus_nursery_spawn", "int", &[("task", "janus_task_fn")]),
        copy("janus_nursery_spawn", "int", &[("arg", "void *"), ("task", "janus_task_fn")]),
        copy("janus_nursery_spawn", "int", &[("task", "parcae_task_fn_i32"), ("arg", "void *")]),
    ];
    for changed in &wrong {
        let list = declared().enumerate().map(|(at, it)| if at == place { changed } else { it });
        let found = faults(list.collect::<Vec<_>>().into_iter());
        assert!(found.len() == 1 && found[0].starts_with("janus_nursery_spawn:"), "{found:?}");
    }
}
