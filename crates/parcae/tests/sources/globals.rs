//! No global state: no static holds a runtime, a scheduler or a capability, and one thread-local
//! leads to the current worker.

use crate::statics::Sources;
use std::collections::BTreeSet;
use std::path::Path;

/// The lines of the library's own code, without tests, in which `found` is.
fn lines_with(found: impl Fn(&str) -> bool) -> Vec<String> {
    fn walk(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "tests") {
                    walk(&path, files);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs")
                && path.file_stem().is_none_or(|stem| stem != "tests" && stem != "models")
            {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut lines) = (Vec::new(), Vec::new());
    walk(&root, &mut files);
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        lines.extend(code.filter(|line| found(line)).map(|line| format!("{name}: {line}")));
    }
    lines
}

/// Types that no static may hold: they run tasks, or allow to.
const AUTHORITY: [&str; 7] =
    ["Runtime", "Engine", "Shared", "Scheduler", "Nursery", "Mint", "Pool"];

/// Statics that reach one of them all the same. The list may only shrink.
const KNOWN: [(&str, &str); 1] = [
    // The worker whose thread this is: the one accessor that waiting needs.
    ("CURRENT", "sched/worker/mod.rs"),
];

// rule: S0-ROOT-1, S0-ROOT-3, S0-ROOT-11
#[test]
fn no_static_holds_a_runtime_or_a_scheduler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = Sources::of_library(&root);
    assert!(sources.statics.len() >= 15, "the scan finds only {}", sources.statics.len());
    let mut known = BTreeSet::new();
    for found in &sources.statics {
        let Some(way) = sources.reaches(found, &AUTHORITY) else { continue };
        let place = (found.name.as_str(), found.file.as_str());
        assert!(KNOWN.contains(&place), "{place:?} holds {}", way.join(" → "));
        known.insert(place);
    }
    assert_eq!(known, KNOWN.into(), "one holds nothing any more: take it off the list");
}

/// Each of these would be found: the scan is seen to fail.
// rule: S0-ROOT-1, S0-ROOT-3, S0-ROOT-11
#[test]
fn a_static_that_holds_authority_is_found_however_it_is_written() {
    let planted = [
        "static GLOBAL_SCHEDULER: OnceLock<crate::Runtime> = OnceLock::new();",
        "pub(crate) static mut ONE: Option<Runtime> = None;",
        "static MANY: Mutex<Vec<(u64, Weak<Shared>)>> = Mutex::new(Vec::new());",
        "static LINES: LazyLock<\n    HashMap<\n        u64,\n        Arc<Nursery>,\n    >,\n> =\n    LazyLock::new(f);",
        "static NESTED: Lock<Option<Box<dyn Fn(&Engine) -> Result<(), Error> + Send>>> = Lock::new(None);",
        "static ARRAY: [AtomicPtr<Mint>; 4] = [const { AtomicPtr::new(null_mut()) }; 4];",
        "thread_local! { static HERE: RefCell<Option<Runtime>> = const { RefCell::new(None) }; }",
        "extern \"C\" { static FOREIGN: *const Shared; }",
        "/* static NOT: u8 = 0; */ static /* : */ BEHIND: /* u8 = */ Runtime = f();",
        "static TEXT: Named<'static, Pool> = Named::new(\": u8 = 1;\");",
        "static HIDDEN: Mutex<Vec<Asked>> = Mutex::new(Vec::new());\nstruct Asked { shared: Weak<Shared> }",
        "struct Outer(Inner);\nenum Inner { None, Some { rt: Runtime } }\nstatic TWICE: Outer = Outer::NEW;",
        "type Alias = Option<Arc<Shared>>;\nstatic BY_ALIAS: Alias = None;",
    ];
    for text in planted {
        let mut sources = Sources::default();
        sources.read("planted.rs", text);
        let reached = |found| sources.reaches(found, &AUTHORITY).is_some();
        assert_eq!(sources.statics.len(), 1, "{text}: {:?}", sources.statics);
        assert!(sources.statics.iter().any(reached), "not found: {text}");
    }
    let harmless = [
        "static COUNT: AtomicU64 = AtomicU64::new(Runtime::COUNT);",
        "fn f(x: &'static Runtime) -> &'static Shared { x.shared() }",
        "// static COMMENT: Runtime = f();\nstatic NEXT: AtomicU32 = AtomicU32::new(0);",
        "let text = r#\"static RAW: Runtime = \"x\";\"#; let c = '\\''; let f = static || Runtime;",
        "static SMALL: Small = Small;\nstruct Small; struct Large { rt: Runtime }",
    ];
    for text in harmless {
        let mut sources = Sources::default();
        sources.read("harmless.rs", text);
        for found in &sources.statics {
            assert_eq!(sources.reaches(found, &AUTHORITY), None, "{text}");
        }
    }
}

// rule: S0-ROOT-2
#[test]
fn the_current_worker_is_the_only_state_of_a_thread_that_tasks_use() {
    let files: BTreeSet<String> = lines_with(|line| line.starts_with("thread_local!"))
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    let allowed = [
        "sched/worker/mod.rs",
        // The alternate signal stack of each thread, for reports of overflows.
        "stack/overflow/signal_stack.rs",
        // The schedule of a test in the lab: its first panic, its statements, its lab.
        "api/lab/invariants.rs",
        "api/lab/quiet.rs",
        "sched/lab/mod.rs",
        // In builds for tests alone.
        "scope/cx/frame/window.rs",
    ];
    assert_eq!(files, allowed.map(str::to_owned).into());
}
