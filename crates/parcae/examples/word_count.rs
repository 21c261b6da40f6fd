//! Two tasks that borrow from their caller, and a nursery that waits for both.

use parcae::prelude::*;

fn words(lines: &[&str]) -> usize {
    lines.iter().map(|line| line.split_whitespace().count()).sum()
}

fn main() -> parcae::Result<()> {
    let text = std::fs::read_to_string("README.md")?;
    let lines: Vec<&str> = text.lines().collect();
    let rt = Runtime::builder().workers(2).build()?;
    let words = rt.run(|cx| {
        cx.nursery(|n| {
            let (a, b) = lines.split_at(lines.len() / 2);
            let left = n.spawn(move |_| Ok(words(a)))?; // children borrow
            let right = n.spawn(move |_| Ok(words(b)))?;
            Ok(left.join()? + right.join()?)
        })
    })?;
    println!("{words} words");
    Ok(())
}
