//! Rules of the adapter that are about its own code: what is global, what is thread-local, what it
//! keeps for a caller, and what it uses of the runtime. Each list is exact: what is added, renamed
//! or gets another type has to be added here, with a reason.

mod source;

use source::{Of, Static, code, fields, package, paths, statics};

/// The difference between the found and the allowed names.
fn difference<'a>(
    found: impl IntoIterator<Item = String>,
    allowed: impl IntoIterator<Item = &'a str>,
) -> (Vec<String>, Vec<String>) {
    let mut missing: Vec<String> = allowed.into_iter().map(str::to_owned).collect();
    let mut unknown = Vec::new();
    for item in found {
        match missing.iter().position(|allowed| *allowed == item) {
            Some(at) => _ = missing.remove(at),
            None => unknown.push(item),
        }
    }
    (unknown, missing)
}

fn exactly<'a>(
    what: &str,
    found: impl IntoIterator<Item = String>,
    allowed: &'a [(&'a str, &'a str)],
) {
    let (unknown, missing) = difference(found, allowed.iter().map(|(item, _)| *item));
    assert!(unknown.is_empty(), "{what}: not in the list, which needs a reason: {unknown:#?}");
    assert!(missing.is_empty(), "{what}: in the list, but gone: {missing:#?}");
    assert!(allowed.iter().all(|(_, reason)| !reason.is_empty()));
}

fn named(found: &[Static], of: Of) -> Vec<String> {
    let mine = found.iter().filter(|it| it.of == of);
    mine.map(|it| format!("{} {}: {}", it.file, it.name, it.ty)).collect()
}

fn all_statics(name: &str) -> Vec<Static> {
    package(name).iter().flat_map(|(file, code)| statics(file, code)).collect()
}

fn fields_of(structure: &str) -> Vec<String> {
    let found: Vec<_> =
        package("parcae-capi").iter().filter_map(|(_, code)| fields(code, structure)).collect();
    assert_eq!(found.len(), 1, "{structure} is there once");
    found[0].iter().map(|(name, ty)| format!("{name}: {ty}")).collect()
}

// ----- what is global
// -----------------------------------------------------------------------------

// rule: S0-ROOT-5, S0-ROOT-8
#[test]
fn the_runtime_is_the_only_global_with_authority() {
    exactly(
        "statics",
        named(&all_statics("parcae-capi"), Of::Process),
        &[("global.rs ROOT: Root", "the one root: no other function finds a runtime")],
    );
    exactly(
        "fields of the root",
        fields_of("Root"),
        &[
            ("state: RwLock<State>", "the runtime, if there is one"),
            ("objects: Table<Thing>", "handles of the process: a number in C names an object here"),
            ("driven: AtomicBool", "a hint that spares the lock where nothing is deterministic"),
            ("forked: AtomicBool", "a fact about the process"),
            ("at_fork: Once", "the handler that notes it is installed once"),
        ],
    );
    exactly(
        "fields of a runtime",
        fields_of("Global"),
        &[
            ("runtime: parcae::Runtime", "the runtime"),
            ("profile: ProfileId", "as it was asked for: types cannot say it in C"),
            ("deterministic: bool", "as it was asked for"),
            ("stall: Arc<Stall>", "who hears of stuck workers"),
            ("thread: ThreadId", "the thread that does the work of a deterministic runtime"),
            ("handle: usize", "its handle"),
        ],
    );
}

/// The scan sees what it has to: planted globals, in every form in which one could be written.
// rule: S0-ROOT-5, S0-ROOT-8
#[test]
fn a_planted_global_is_found() {
    let planted = code(
        "
        // static IN_A_COMMENT: u8 = 0;
        /* static IN_ANOTHER: u8 = 0; */
        const TEXT: &str = \"static IN_A_TEXT: u8 = 0;\";
        fn f<'a>(x: &'static str, c: char) -> bool { c == '\"' && x == \"\" }
        static STATE: std::sync::OnceLock<parcae::Runtime> = std::sync::OnceLock::new();
        pub(crate) static
            NEXT: [Option<Box<dyn Fn(&Runtime) -> u64>>; 2] = [None, None];
        fn hidden() { static mut OBJECTS : *mut Scheduler = null_mut(); }
        thread_local! { static CURRENT: Cell<Option<&'static Nursery>> = const { Cell::new(None) }; }
        macro_rules! global { ($name:ident) => { static $name: Mutex<Runtime> = make(); }; }
        extern \"C\" { static theirs: c_int; }
        #[cfg(test)]
        static FOR_TESTS: u8 = 0;
        #[cfg(test)]
        mod tests { static ALSO: u8 = { 0 }; }
        static LAST: u8 = 0;
        ",
    );
    let found = statics("planted.rs", &planted);
    let expected = [
        "planted.rs STATE: std::sync::OnceLock<parcae::Runtime>",
        "planted.rs NEXT: [Option<Box<dynFn(&Runtime)->u64>>;2]",
        "planted.rs mut OBJECTS: *mutScheduler",
        "planted.rs $name: Mutex<Runtime>",
        "planted.rs theirs: c_int",
        "planted.rs LAST: u8",
    ];
    assert_eq!(named(&found, Of::Process), expected);
    assert_eq!(named(&found, Of::Thread), ["planted.rs CURRENT: Cell<Option<&'staticNursery>>"]);
    // And a list finds what is too much and what is missing, by name and by type.
    let list = ["planted.rs LAST: u16", "planted.rs theirs: c_int"];
    let (unknown, missing) = difference(named(&found, Of::Process), list);
    assert_eq!(unknown.len(), 5, "{unknown:?}");
    assert_eq!(missing, ["planted.rs LAST: u16"]);
}

// ----- what is thread-local, and what is kept for a caller
// ---------------------------------------------

// rule: S0-ADAPT-1, S0-TLS-1, S0-TLS-2, S0-TLS-3
#[test]
fn thread_local_state_is_the_caller_context_and_the_scheduler_does_not_know_it() {
    exactly(
        "thread-local state",
        named(&all_statics("parcae-capi"), Of::Thread),
        &[(
            "caller.rs OUTSIDE: CallerContext",
            "the current nursery of a thread, for functions that name none",
        )],
    );
    for (file, code) in package("parcae") {
        assert_eq!(paths(&code, "parcae_capi").len(), 0, "{file} knows its adapter");
        let names =
            fields(&code, "CallerContext").is_some() || fields(&code, "RtNursery").is_some();
        assert!(!names, "{file} has a structure of the adapter's");
    }
}

/// The adapter's nursery is the wrapped one. The other state, and its caller, are listed here.
// rule: S0-ADAPT-4, S0-ADAPT-5, S0-ADAPT-6, S0-TLS-4
#[test]
fn a_nursery_of_the_adapter_is_the_wrapped_one_and_nothing_else() {
    exactly("fields", fields_of("RtNursery"), &[("nursery: OpenNursery", "the wrapped nursery")]);
    exactly(
        "fields",
        fields_of("Open"),
        &[
            ("handle: *mutc_void", "what janus_nursery_create has returned"),
            ("tasks: HashMap<usize,TaskHandle<'static,i64>>", "handles of parcae_spawn"),
            (
                "accounts: Vec<(u64,Account)>",
                "of children that janus_budget_recharge_child may name",
            ),
            ("metered: Accounts", "which children those are"),
            (
                "sovereign: bool",
                "whether a capability has to be shown: as its runtime was asked for",
            ),
            ("home: usize", "the handle of its runtime"),
            ("system: Option<Arc<SystemRef>>", "the system of actors that it was opened for"),
            ("rt: RtNursery", "the nursery"),
        ],
    );
    exactly(
        "fields",
        fields_of("CallerContext"),
        &[
            ("home: usize", "the runtime that the caller is a task of"),
            ("serving: Cell<bool>", "whether a shutdown waits for this thread"),
            ("nurseries: RefCell<Vec<Open>>", "the stack of open nurseries"),
            ("fault: RefCell<Option<Fault>>", "parcae_last_error_kind"),
            ("texts: RefCell<Vec<CString>>", "parcae_last_error"),
            ("result: Cell<NurseryResult>", "parcae_last_result"),
            ("cap_spawn: RefCell<Option<Arc<CapSpawn>>>", "parcae_cap_use"),
            ("cap_budget: RefCell<Option<Arc<CapBudget>>>", "parcae_cap_use"),
            ("polled: Cell<u64>", "where janus_supervisor_poll_exhausted goes on"),
            ("known: [Cell<Option<(usize,Thing)>>;2]", "objects that were looked up before"),
            ("handling: Cell<Option<Handling>>", "parcae_actor_self and its like"),
            ("meter: Cell<MeterWords>", "yield checks outside of tasks"),
            ("calm: u64", "the word that this meter looks at"),
        ],
    );
}

// rule: S0-ADAPT-4, S0-ADAPT-5, S0-ADAPT-6
#[test]
fn a_planted_field_is_found() {
    let planted = code(
        "
        struct Unit;
        pub(crate) struct CallerContext<'a, T: Fn(u8) -> u8> {
            /// A callback: forbidden.
            pub(crate) callback: Option<Box<dyn Fn(u8, u16) -> u8>>,
            queue: VecDeque<(u8, T)>, // a queue
        }
        impl CallerContext { fn struct_like() {} }
        ",
    );
    let found = fields(&planted, "CallerContext").unwrap();
    let expected = [("callback", "Option<Box<dynFn(u8,u16)->u8>>"), ("queue", "VecDeque<(u8,T)>")];
    assert_eq!(found, expected.map(|(name, ty)| (name.to_owned(), ty.to_owned())));
    assert_eq!(fields(&planted, "Missing"), None);
}

// ----- what it uses of others
// ----------------------------------------------------------------------------

/// The adapter makes no scheduling decision: it has no way to. All that it uses of the runtime, and
/// every thread and collection of the standard library, is in this list.
// rule: S0-ADAPT-3
#[test]
fn the_adapter_holds_no_queue_and_makes_no_choice() {
    let mut found = std::collections::BTreeSet::new();
    for (_, code) in package("parcae-capi") {
        // Actors are used by a short name.
        for root in ["parcae", "parcae_core", "parcae_actor", "actor"] {
            found.append(&mut paths(&code, root));
        }
        for path in paths(&code, "std") {
            let names = ["thread", "collections", "process", "net", "time", "sync::mpsc"];
            if names.iter().any(|name| path.starts_with(&format!("std::{name}"))) {
                found.insert(path);
            }
        }
        // Modules that were imported by their names, and what is used through them.
        found.append(&mut paths(&code, "thread"));
    }
    // An item as a whole: not each of its methods and variants.
    let items: std::collections::BTreeSet<String> = found.iter().map(|path| item(path)).collect();
    exactly("paths", items, USED);
}

/// A path up to the first type in it.
fn item(path: &str) -> String {
    let parts: Vec<&str> = path.split("::").collect();
    let ty = parts.iter().position(|part| part.starts_with(|c: char| c.is_uppercase()));
    parts[..ty.map_or(parts.len(), |at| at + 1)].join("::")
}

const USED: &[(&str, &str)] = &[
    ("actor::*", "the structures of the header"),
    ("actor::Actor", "an actor whose functions are in C"),
    ("actor::ActorCx", "lent to the functions of an actor"),
    ("actor::ActorOpts", "what was asked for is handed on"),
    ("actor::ActorsOpts", "what was asked for is handed on"),
    ("actor::Address", "addresses"),
    ("actor::Backoff", "what was asked for is handed on"),
    ("actor::Birth", "translated"),
    ("actor::Child", "what was asked for is handed on"),
    ("actor::Children", "lent to the callback that names them"),
    ("actor::Dynamic", "dynamic supervisors"),
    ("actor::Event", "translated"),
    ("actor::Exit", "translated"),
    ("actor::ExitKind", "translated"),
    ("actor::FUNCTIONS", "the section of the header"),
    ("actor::LetterReason", "translated"),
    ("actor::Mailbox", "what was asked for is handed on"),
    ("actor::Next", "translated"),
    ("actor::Overrun", "what was asked for is handed on"),
    ("actor::Recharge", "what was asked for is handed on"),
    ("actor::Reply", "answers"),
    ("actor::Supervise", "what was asked for is handed on"),
    ("actor::System", "systems"),
    ("actor::Watch", "monitors"),
    ("parcae_actor", "the short name"),
    ("parcae_actor::ActorCx", "lent to the functions of an actor"),
    ("parcae_actor::Actors", "opens a system"),
    ("parcae_actor::CallError", "translated"),
    ("parcae_actor::MonitorId", "translated"),
    ("parcae_actor::TellError", "translated"),
    ("parcae::budget::Account", "recharging a child by its number"),
    ("parcae::Budget", "translated field by field"),
    ("parcae::runtime::BuildError", "translated"),
    ("parcae::runtime::Builder", "what was asked for is handed on"),
    ("parcae::CancelReason", "translated"),
    ("parcae::CancelToken", "tokens"),
    ("parcae::Error", "translated"),
    ("parcae::ErrorKind", "translated"),
    ("parcae::NurseryOpts", "what was asked for is handed on"),
    ("parcae::cancel::OnCancel", "callbacks of tokens"),
    ("parcae::OnExhausted", "translated"),
    ("parcae::OnFailure", "translated"),
    ("parcae::Priority", "translated"),
    ("parcae::Result", "of the runtime's functions"),
    ("parcae::Runtime", "the runtime"),
    ("parcae::SpawnOpts", "what was asked for is handed on"),
    ("parcae::stall::StallKind", "translated"),
    ("parcae::stall::StallReport", "translated"),
    ("parcae::TaskHandle", "joins"),
    ("parcae::task::TaskId", "translated"),
    ("parcae::blocking", "parcae_blocking"),
    ("parcae::budget::UNLIMITED", "PARCAE_UNLIMITED is the same number"),
    ("parcae::cap::BudgetLimits", "what was asked for is handed on"),
    ("parcae::cap::CapBudget", "capabilities"),
    ("parcae::cap::CapChannel", "capabilities"),
    ("parcae::cap::CapSpawn", "capabilities"),
    ("parcae::cap::ChannelLimits", "what was asked for is handed on"),
    ("parcae::cap::ChannelPermit", "capabilities"),
    ("parcae::cap::Delegation", "translated"),
    ("parcae::cap::SpawnLimits", "what was asked for is handed on"),
    ("parcae::channel::OneReceiver", "the system that its task has opened"),
    ("parcae::channel::oneshot", "the same"),
    ("parcae::channel::Receiver", "channels"),
    ("parcae::channel::RecvError", "translated"),
    ("parcae::channel::SendError", "translated"),
    ("parcae::channel::Sender", "channels"),
    ("parcae::channel::channel", "channels"),
    ("parcae::foreign", "what the runtime offers to adapters: see its header"),
    ("parcae::foreign::MeterWords", "its layout is the ABI's"),
    ("parcae::foreign::OpenNursery", "the wrapped nursery"),
    ("parcae::foreign::check_cancelled", "whether the caller was asked to end"),
    ("parcae::foreign::task_id", "whether the caller is a task"),
    ("parcae::policy::Latency", "translated"),
    ("parcae::policy::ShareRefused", "translated"),
    ("parcae::policy::Weight", "checked, and handed on"),
    ("parcae::profile::Cluster", "chosen at run time"),
    ("parcae::profile::Core", "chosen at run time"),
    ("parcae::profile::Feature", "checked at run time, where types cannot"),
    ("parcae::profile::Profile", "chosen at run time"),
    ("parcae::profile::ProfileId", "chosen at run time"),
    ("parcae::profile::Service", "chosen at run time"),
    ("parcae::profile::Sovereign", "chosen at run time"),
    ("parcae::select::Select", "select"),
    ("parcae::stack::StackSize", "what was asked for is handed on"),
    ("parcae::stats::TenantFigures", "translated"),
    ("parcae::sync::Mutex", "mutexes"),
    ("parcae::sync::MutexGuard", "mutexes"),
    ("parcae::sync::Event", "the end of a system, for its task"),
    ("parcae::time::now", "the end of an address"),
    ("parcae::time::sleep", "parcae_sleep_ns"),
    ("std::collections::HashMap", "the handles of a nursery's tasks: looked up, in no order"),
    ("std::process::abort", "where unwinding would break C's stack"),
    ("std::thread", "the two functions below"),
    ("std::thread::ThreadId", "which thread does the work of a deterministic runtime"),
    ("std::thread::panicking", "whether a task unwinds: then it is not ended again"),
    ("std::time::Duration", "translated"),
    ("thread::current", "as ThreadId"),
    ("thread::sleep", "a shutdown waits for calls in progress"),
];

// rule: S0-ADAPT-3
#[test]
fn a_planted_path_is_found() {
    let planted = code(
        "
        use parcae::{runtime::Builder, cap::{CapSpawn, self, audit::*}, foreign as f};
        use std::collections::VecDeque;
        fn f() { let x = parcae::channel::channel::<u8>(1); my::parcae::no(); a_parcae::no(); }
        // parcae::worker::steal
        ",
    );
    let found: Vec<String> = paths(&planted, "parcae").into_iter().collect();
    let expected = [
        "parcae::cap",
        "parcae::cap::CapSpawn",
        "parcae::cap::audit::*",
        "parcae::channel::channel",
        "parcae::foreign",
        "parcae::runtime::Builder",
    ];
    assert_eq!(found, expected);
    let list = paths(&planted, "std").into_iter().collect::<Vec<_>>();
    assert_eq!(list, ["std::collections::VecDeque"]);
}
