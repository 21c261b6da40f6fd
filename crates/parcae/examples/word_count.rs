//! Two tasks that borrow from their caller, and a nursery that waits for both.

use parcae::prelude::*;

fn main() -> parcae::Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(std::env::args().nth(1).unwrap_or(file.to_owned()))?;
    let (a, b) = halves(&text);
    let rt = Runtime::builder().workers(2).build()?;
    let words = rt.run(|cx| {
        cx.nursery(|n| {
            let left = n.spawn(move |_| Ok(a.split_whitespace().count()))?;
            let right = n.spawn(move |_| Ok(b.split_whitespace().count()))?;
            Ok(left.join()? + right.join()?)
        })
    })?;
    println!("{words} words");
    Ok(())
}

/// Cuts a text between two words, near the middle.
fn halves(text: &str) -> (&str, &str) {
    let middle = (text.len() / 2..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let space = text[middle..].find(char::is_whitespace).map_or(text.len(), |at| middle + at);
    text.split_at(space)
}
