//! `docs/conformance.md` is generated: the rules come from `docs/conformance/*.txt`, the tests from
//! marks in the sources. After a change of either:
//!
//! ```sh
//! PARCAE_ACCEPT=1 cargo test -p parcae --test documents conformance
//! ```
//!
//! A mark is a comment above a test, `// rule: S0-DEQUE-1, S0-DEQUE-4`, in C `/* rule: S0-CTX-2
//! */`. A mark says that the test fails if the rule is broken. It stands between the test's
//! documentation and its attributes. Several lines may follow each other.
//!
//! | file | content |
//! |---|---|
//! | `rules.rs` | reads the lists of rules, and checks each rule against its tests |
//! | `marks.rs` | finds marks, and the test that each belongs to |
//! | `document.rs` | writes the document |
//! | `checks.rs` | shows that every check can fail |

mod checks;
mod document;
mod marks;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The seeds, in the order of the document.
const SEEDS: [&str; 5] = ["S0", "S1", "S2", "S3", "S4"];

/// Rules that rest on a test are counted; a test that proves more than this is listed.
const SHARED: usize = 5;

fn read(path: &str) -> String {
    let path = Path::new(REPOSITORY).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All sources in which marks can stand, as paths from the root of the repository.
fn sources() -> Vec<String> {
    let (mut folders, mut files) = (vec![PathBuf::from(REPOSITORY).join("crates")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs" || end == "c") {
                let path = path.strip_prefix(REPOSITORY).unwrap();
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_document_is_what_rules_and_marks_say() {
    let mut problems = Vec::new();
    let seeds: Vec<rules::Seed> = SEEDS
        .iter()
        .map(|seed| {
            let path = format!("docs/conformance/{}.txt", seed.to_lowercase());
            rules::parse(&path, &read(&path), &mut problems)
        })
        .collect();
    let mut marks = Vec::new();
    for path in sources() {
        marks::collect(&path, &read(&path), &mut marks, &mut problems);
    }
    let exists = |path: &str| Path::new(REPOSITORY).join(path).exists();
    rules::check(&seeds, &marks, &exists, &mut problems);
    assert!(problems.is_empty(), "{} problem(s):\n  {}", problems.len(), problems.join("\n  "));
    for (test, rules) in marks::shared(&marks, SHARED) {
        println!("{} rules rest on {test}: {}", rules.len(), rules.join(" "));
    }

    let document = document::render(&read("docs/conformance/intro.md"), &seeds, &marks);
    let path = Path::new(REPOSITORY).join("docs/conformance.md");
    if std::env::var_os("PARCAE_ACCEPT").is_some() {
        fs::write(path, document).unwrap();
    } else {
        let committed = fs::read_to_string(path).unwrap_or_default();
        let different = committed.lines().zip(document.lines()).find(|(a, b)| a != b);
        assert!(
            committed == document,
            "docs/conformance.md is out of date; accept it with PARCAE_ACCEPT=1 (see the header \
             of this file). First difference: {different:#?}"
        );
    }
}
