//! Rules of the adapter that are about its own code: what is global, and what is thread-local.

use std::path::Path;

/// The lines of a crate's own code, without tests, that begin like this, each with its file.
fn lines(package: &str, found: impl Fn(&str) -> bool) -> Vec<String> {
    fn walk(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package).join("src");
    let (mut files, mut lines) = (Vec::new(), Vec::new());
    walk(&root, &mut files);
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        lines.extend(code.filter(|line| found(line)).map(|line| format!("{name}: {line}")));
    }
    lines
}

#[test]
fn the_runtime_is_the_only_global_with_authority() {
    let statics = lines("parcae-capi", |line| {
        line.trim_start_matches("pub(crate) ").starts_with("static ") && line.contains(": ")
    });
    let runtimes: Vec<&String> = statics.iter().filter(|line| line.contains("State>")).collect();
    assert_eq!(runtimes.len(), 1, "{statics:?}");
    assert!(runtimes[0].starts_with("global.rs: static STATE"), "{runtimes:?}");
    for line in &statics {
        let known = ["STATE", "FORKED", "AT_FORK", "DRIVEN", "OBJECTS", "NEXT", "CALM", "OUTSIDE"];
        assert!(known.iter().any(|name| line.contains(name)), "another global: {line}");
    }
}

#[test]
fn thread_local_state_is_the_flow_and_the_scheduler_does_not_know_it() {
    let ours = lines("parcae-capi", |line| line.starts_with("thread_local!"));
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert!(ours[0].starts_with("flow.rs"), "{ours:?}");
    let theirs = lines("parcae", |line| line.contains("parcae_capi") || line.contains("OUTSIDE:"));
    assert!(theirs.iter().all(|line| line.contains("const OUTSIDE: u")), "{theirs:?}");
}

#[test]
fn the_adapter_holds_no_queue_and_makes_no_choice() {
    let words = ["VecDeque", "Chain<", "Stealer", "Rng", "crossbeam"];
    let found = lines("parcae-capi", |line| words.iter().any(|word| line.contains(word)));
    assert!(found.is_empty(), "{found:?}");
}
