//! Generates modules from the programs of the book whose output is shown, so that a test can run
//! them and compare. See `src/bin/program.rs`.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[allow(dead_code, unreachable_pub)]
#[path = "src/fences.rs"]
mod fences;

fn pages(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book");
    println!("cargo::rerun-if-changed={}", book.display());
    println!("cargo::rerun-if-changed=src/fences.rs");
    let mut found = Vec::new();
    pages(&book, &mut found)?;
    found.sort();
    let (mut modules, mut list) = (Vec::new(), Vec::new());
    for path in found {
        let page = path.strip_prefix(&book).unwrap_or(&path).display().to_string();
        let programs = fences::programs(&fs::read_to_string(&path)?);
        for (index, program) in programs.iter().enumerate() {
            let name = format!("p_{}_{index}", fences::identifier(&page));
            let fences::Program { source, output, line } = program;
            modules.push(format!(
                "mod {name} {{\n{source}\npub(crate) fn start() -> parcae::Result<()> {{ main() }}\n}}\n"
            ));
            list.push(format!(
                "Program {{ page: {page:?}, line: {line}, output: {output:?}, start: {name}::start }},\n"
            ));
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("programs.rs");
    fs::write(
        out,
        format!("{}const PROGRAMS: &[Program] = &[\n{}];\n", modules.concat(), list.concat()),
    )
}
