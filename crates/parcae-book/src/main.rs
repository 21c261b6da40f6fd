//! Renders and checks the book; see the library.

use parcae_book::{Book, check, site};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "parcae-book build [OUT]   renders the book into OUT, or target/book
parcae-book check         says what is wrong with its pages";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["build"] => build(Path::new("target/book")),
        ["build", out] => build(&PathBuf::from(out)),
        ["check"] => checked().map(|_| println!("nothing is wrong")),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The book, if it has no problems.
fn checked() -> Result<Book, String> {
    let book =
        Book::of_this_repository().map_err(|error| format!("the book cannot be read: {error}"))?;
    let problems = check(&book);
    if problems.is_empty() {
        return Ok(book);
    }
    Err(problems.iter().map(|problem| format!("{}/{problem}\n", book.folder)).collect())
}

fn build(out: &Path) -> Result<(), String> {
    let book = checked()?;
    let files = site::build(&book, out).map_err(|error| format!("{}: {error}", out.display()))?;
    println!(
        "{} pages and {} sources in {}",
        book.pages.len(),
        files - book.pages.len(),
        out.display()
    );
    Ok(())
}
