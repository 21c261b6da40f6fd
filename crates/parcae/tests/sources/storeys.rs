//! The storeys of the crate: a module uses its own storey and those below it.
//!
//! The test scans the sources. References that go up, inherent `impl` blocks outside of their
//! type's module and type names with two meanings are listed here, each with its reason; an entry
//! that is no longer needed fails the test, so the lists can only shrink.
//!
//! `cargo test -p parcae --test sources storeys -- --nocapture` prints the diagram.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest.
const STOREYS: [&str; 8] = ["stack", "base", "sched", "wait", "scope", "sync", "view", "api"];

/// References from a module to a storey above its own: none is left.
const UP: &[(&str, &str)] = &[];

/// Number of modules in the largest cycle of references.
const LARGEST_CYCLE: usize = 7;

/// Inherent `impl` blocks in another module than their type, the module and the type: none is left.
const AWAY: &[(&str, &str)] = &[];

/// Type names that are defined in two files: none is left.
const HOMONYMS: &[&str] = &[];

/// A source file that is no test: its path, its module, and its text without comments and tests.
struct Source {
    path: String,
    module: String,
    text: String,
}

impl Source {
    /// The paths from the root of the crate, without `crate::`.
    fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (at, _) in self.text.match_indices("crate::") {
            // A path in a macro is the user's.
            if !self.text[..at].ends_with('$') {
                expand("", &self.text[at + "crate::".len()..], &mut paths);
            }
        }
        paths
    }
}

/// All sources, and the modules that define each type.
struct Crate {
    sources: Vec<Source>,
    modules: BTreeSet<String>,
    types: BTreeMap<String, BTreeSet<String>>,
}

impl Crate {
    fn read() -> Crate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        collect(&root, &mut files);
        let sources: Vec<Source> = files
            .iter()
            .filter_map(|path| {
                let relative = path.strip_prefix(&root).unwrap();
                let module = module_of(relative)?;
                let text = fs::read_to_string(path).unwrap();
                let code: Vec<&str> =
                    text.lines().map(|line| line.split("//").next().unwrap()).collect();
                let path = relative.display().to_string();
                Some(Source { path, module, text: without_tests(&code.join("\n")) })
            })
            .collect();
        let modules = sources.iter().map(|source| source.module.clone()).collect();
        let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for source in &sources {
            for name in source.text.lines().filter_map(defined_type) {
                types.entry(name).or_default().insert(source.module.clone());
            }
        }
        Crate { sources, modules, types }
    }

    /// The modules that each module names by a path from the root of the crate.
    fn references(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for source in &self.sources {
            let targets = found.entry(&source.module).or_default();
            targets.extend(source.paths().iter().filter_map(|path| self.target(path)));
            targets.remove(&source.module);
        }
        found
    }

    /// The module that a path leads to: by its name, or by the definition of a re-exported type.
    fn target(&self, path: &str) -> Option<String> {
        let mut parts = path.split("::");
        let first = parts.next()?;
        let defined = |name: &str, storey: &str| {
            let all = self.types.get(name).into_iter().flatten();
            let mut here = all.filter(|module| storey.is_empty() || self.is_in(module, storey));
            here.next().filter(|_| here.next().is_none()).cloned()
        };
        if !STOREYS.contains(&first) {
            return defined(first, "");
        }
        let second = parts.next().unwrap_or_default();
        let module = format!("{first}::{second}");
        if self.modules.contains(&module) {
            return Some(module);
        }
        Some(defined(second, first).unwrap_or_else(|| first.to_owned()))
    }

    fn is_in(&self, module: &str, storey: &str) -> bool {
        module.split("::").next() == Some(storey)
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The module of a file: storey and folder; `None` for tests, models and the root of the crate.
fn module_of(relative: &Path) -> Option<String> {
    let relative = relative.to_str().unwrap();
    let parts: Vec<&str> = relative.trim_end_matches(".rs").split('/').collect();
    if parts == ["lib"] || parts.iter().any(|part| matches!(*part, "tests" | "models")) {
        return None;
    }
    // Files in the folder of these storeys itself belong to one module.
    let flat = parts.len() == 2 && matches!(parts[0], "stack" | "wait" | "sync");
    let whole = flat || parts[1] == "mod";
    Some(if whole { parts[0].to_owned() } else { format!("{}::{}", parts[0], parts[1]) })
}

/// The text without items for tests only.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    let marks = ["#[cfg(test", "#[cfg(all(test"];
    while let Some(at) = marks.iter().filter_map(|mark| rest.find(mark)).min() {
        kept.push_str(&rest[..at]);
        let item = rest[at..].find(']').map_or(rest.len(), |end| at + end + 1);
        let mut depth = 0;
        let end = rest[item..].find(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth < 0 || depth == 0 && matches!(c, '}' | ';' | ',')
        });
        // The brace that closes what the item stands in is not part of it.
        rest = &rest[end.map_or(rest.len(), |end| item + end + usize::from(depth == 0))..];
    }
    kept + rest
}

/// The paths of a `use` tree, or of a plain path, that begins here.
fn expand(prefix: &str, text: &str, paths: &mut Vec<String>) {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    if !(text[end..].starts_with('{') && (path.is_empty() || path.ends_with("::"))) {
        paths.push(path.trim_end_matches("::").to_owned());
        return;
    }
    let mut depth = 0;
    let mut start = end + 1;
    for (at, c) in text[end..].char_indices() {
        let at = end + at;
        if c == '{' {
            depth += 1;
        } else if depth == 1 && matches!(c, ',' | '}') {
            let item = text[start..at].trim();
            if !item.is_empty() {
                expand(&path, item, paths);
            }
            start = at + 1;
        }
        if c == '}' {
            depth -= 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// The name of the type that this line begins to define.
fn defined_type(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => line,
    };
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let kinds = ["struct ", "enum ", "union ", "trait "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
    (!name.is_empty()).then_some(name)
}

/// The type of the inherent `impl` block that begins on this line.
fn implemented_type(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => {
            let mut depth = 1;
            let end = generics.char_indices().find(|(at, c)| {
                match c {
                    '<' => depth += 1,
                    // The arrow of a function type closes nothing.
                    '>' if !generics[..*at].ends_with('-') => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            &generics[end?.0 + 1..]
        }
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
    (!name.is_empty() && !rest.contains(" for ")).then_some(name)
}

fn storey(module: &str) -> usize {
    let name = module.split("::").next().unwrap();
    STOREYS.iter().position(|storey| *storey == name).unwrap_or_else(|| panic!("{module}"))
}

/// Fails if `found` and `listed` differ.
fn compare<T: Ord + std::fmt::Debug>(found: &BTreeSet<T>, listed: &BTreeSet<T>, advice: &str) {
    let new: Vec<_> = found.difference(listed).collect();
    assert!(new.is_empty(), "{advice}: {new:?}");
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(gone.is_empty(), "these are gone; take them out of the list: {gone:?}");
}

#[test]
fn a_module_uses_its_own_storey_and_those_below() {
    let all = Crate::read();
    let references = all.references();
    let mut up = BTreeSet::new();
    let mut counts = [[0; STOREYS.len()]; STOREYS.len()];
    for (module, targets) in &references {
        for target in targets {
            counts[storey(module)][storey(target)] += 1;
            if storey(target) > storey(module) {
                up.insert((*module, target.as_str()));
            }
        }
    }
    println!("{} references go up. References from the storey on the left:", up.len());
    println!("{:>8} {}", "", STOREYS.map(|storey| format!("{storey:>6}")).concat());
    for (name, row) in STOREYS.iter().zip(counts).rev() {
        println!("{name:>8} {}", row.map(|count| format!("{count:>6}")).concat());
    }
    let listed = UP.iter().copied().collect();
    compare(&up, &listed, "these go up; move the used item to a storey below");
}

/// The modules that users see re-export items of all storeys, so such a path hides a reference.
#[test]
fn storeys_below_the_api_do_not_use_the_modules_that_users_see() {
    let all = Crate::read();
    let mut hidden = BTreeSet::new();
    for source in all.sources.iter().filter(|source| !all.is_in(&source.module, "api")) {
        for path in source.paths() {
            let Some((first, _)) = path.split_once("::") else { continue };
            if !STOREYS.contains(&first) && first.starts_with(char::is_lowercase) {
                hidden.insert((source.module.clone(), path));
            }
        }
    }
    assert!(hidden.is_empty(), "name the storey instead: {hidden:#?}");
}

#[test]
fn no_cycle_of_modules_grows() {
    let all = Crate::read();
    let references = all.references();
    let reach = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for target in references.get(module.as_str()).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    next.push(target.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> =
        references.keys().map(|module| (*module, reach(module))).collect();
    let cycle = |module: &&str| -> BTreeSet<&String> {
        let back = |other: &&String| {
            reached.get(other.as_str()).is_some_and(|seen| seen.contains(*module))
        };
        reached[*module].iter().filter(back).collect()
    };
    let cycles: BTreeSet<_> = references.keys().map(cycle).filter(|one| one.len() > 1).collect();
    let largest = cycles.iter().map(BTreeSet::len).max().unwrap_or(0);
    for cycle in &cycles {
        println!("a cycle of {} modules: {cycle:?}", cycle.len());
    }
    assert_eq!(largest, LARGEST_CYCLE, "more is not allowed; less: lower the bound");
}

#[test]
fn methods_stand_beside_their_type() {
    let all = Crate::read();
    let mut away = BTreeSet::new();
    for source in &all.sources {
        for name in source.text.lines().filter_map(implemented_type) {
            let here = |homes: &BTreeSet<String>| homes.contains(&source.module);
            if all.types.get(&name).is_some_and(|homes| !here(homes)) {
                away.insert((source.module.clone(), name));
            }
        }
    }
    println!("{} types have methods in another module", away.len());
    let listed = AWAY.iter().map(|(module, name)| ((*module).into(), (*name).into())).collect();
    compare(&away, &listed, "these methods belong into the module of their type");
}

#[test]
fn a_type_name_has_one_meaning() {
    let all = Crate::read();
    let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    // One architecture: its twin has the same names on purpose.
    for source in all.sources.iter().filter(|source| source.path != "stack/arch/aarch64.rs") {
        for name in source.text.lines().filter_map(defined_type) {
            files.entry(name).or_default().insert(&source.path);
        }
    }
    files.retain(|_, files| files.len() > 1);
    println!("{} type names are defined in several files: {files:?}", files.len());
    let found = files.keys().map(String::as_str).collect();
    let listed = HOMONYMS.iter().copied().collect();
    compare(&found, &listed, "these names have a second meaning; choose another");
}

#[test]
fn the_scan_reads_what_it_should() {
    let text = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(all(test, loom))]\nmod m { {} x }\nc";
    assert_eq!(without_tests(text).split_whitespace().collect::<Vec<_>>(), ["a", "b", "c"]);
    let field = "struct S {\n    #[cfg(test)]\n    one: u8\n}\nd";
    assert!(without_tests(field).trim_end().ends_with("}\nd"));
    let mut paths = Vec::new();
    expand("", "a::{b, c::{self, D}, e};", &mut paths);
    assert_eq!(paths, ["a::b", "a::c::self", "a::c::D", "a::e"]);
    assert_eq!(implemented_type("impl<T: Fn() -> u8> Ring<T> {").as_deref(), Some("Ring"));
    assert_eq!(implemented_type("impl Drop for Ring {"), None);
    assert_eq!(defined_type("    pub(crate) struct Ring<T> {").as_deref(), Some("Ring"));
}
