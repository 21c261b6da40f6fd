//! Fenced blocks of code in a page. Shared with the build script, which has no dependencies;
//! therefore a scanner of lines, and `check` makes sure that it sees what the Markdown parser sees.

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The text after the opening fence: the language, then its attributes.
    pub info: String,
    /// The lines between the fences.
    pub text: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// Whether only empty lines and one paragraph are between the previous block and this one.
    pub follows: bool,
}

impl Fence {
    /// The language.
    pub fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// Whether an attribute is given, as in `rust,no_run`.
    pub fn has(&self, attribute: &str) -> bool {
        self.info.split(',').skip(1).any(|given| given.trim() == attribute)
    }

    /// The program as the compiler sees it, with the hidden lines of rustdoc.
    pub fn program(&self) -> String {
        let shown = |line: &str| match line.strip_prefix("# ") {
            Some(hidden) => format!("{hidden}\n"),
            None if line == "#" => "\n".into(),
            None => format!("{line}\n"),
        };
        self.text.lines().map(shown).collect()
    }
}

/// The fenced blocks of a page, in order.
pub fn fences(page: &str) -> Vec<Fence> {
    let mut found: Vec<Fence> = Vec::new();
    let mut open: Option<Fence> = None;
    let mut paragraphs = 0; // since the last block
    let mut blank = true;
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let follows = !found.is_empty() && paragraphs <= 1;
                let info = info.trim().to_owned();
                open = Some(Fence { info, text: String::new(), line: index + 1, follows });
            }
            (None, None) => {
                if blank && !line.trim().is_empty() {
                    paragraphs += 1;
                }
                blank = line.trim().is_empty();
            }
            (Some(_), Some(_)) => {
                found.extend(open.take());
                paragraphs = 0;
                blank = true;
            }
            (Some(fence), None) => {
                fence.text.push_str(line);
                fence.text.push('\n');
            }
        }
    }
    found
}

/// A program of a page and its documented output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its source.
    pub source: String,
    /// Its output.
    pub output: String,
    /// The line of its fence.
    pub line: usize,
}

/// The programs of a page whose output is shown: a block of Rust, followed by one called `output`.
pub fn programs(page: &str) -> Vec<Program> {
    let fences = fences(page);
    let shown = |pair: &[Fence]| {
        let [program, output] = pair else { return None };
        (program.language() == "rust" && output.language() == "output" && output.follows).then(
            || Program {
                source: program.program(),
                output: output.text.clone(),
                line: program.line,
            },
        )
    };
    fences.windows(2).filter_map(shown).collect()
}

/// A page's name as a Rust identifier.
pub fn identifier(page: &str) -> String {
    let name = page.strip_suffix(".md").unwrap_or(page);
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
