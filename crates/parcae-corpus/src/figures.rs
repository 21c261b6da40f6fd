//! The output: a table for people, or lines for programs.

use std::io::{Write, stdout};

/// Collects rows and prints each when it is complete: a measurement takes minutes.
pub(crate) struct Figures {
    tsv: bool,
    /// The columns that were printed last.
    columns: Vec<String>,
    failed: bool,
}

impl Figures {
    pub(crate) fn new(tsv: bool) -> Figures {
        if tsv {
            print("program\ttool\tstrategy\tfigure\tvalue\n");
        }
        Figures { tsv, columns: Vec::new(), failed: false }
    }

    /// A headline; the columns are printed again after it.
    pub(crate) fn title(&mut self, title: &str) {
        self.columns.clear();
        if !self.tsv {
            print(&format!("\n{title}\n"));
        }
    }

    /// A row of a program, measured with a tool.
    pub(crate) fn row<'f>(&'f mut self, program: &str, tool: &str) -> Row<'f> {
        Row { figures: self, program: program.into(), tool: tool.into(), cells: Vec::new() }
    }

    /// A fixed program that has failed.
    pub(crate) fn false_alarm(&mut self, program: &str, failure: &str) {
        self.failed = true;
        eprintln!("false alarm in {program}: {failure}");
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed
    }
}

/// One row.
pub(crate) struct Row<'f> {
    figures: &'f mut Figures,
    program: String,
    tool: String,
    /// Strategy, figure, value.
    cells: Vec<(String, String, String)>,
}

impl Row<'_> {
    pub(crate) fn word(&mut self, figure: &str, word: &str) {
        self.cells.push((String::new(), figure.into(), word.into()));
    }

    pub(crate) fn number(&mut self, strategy: &str, figure: &str, value: f64) {
        self.cells.push((strategy.into(), figure.into(), rounded(value)));
    }

    /// A figure that may be missing: not found, or not measured.
    pub(crate) fn maybe(&mut self, strategy: &str, figure: &str, value: Option<f64>) {
        let value = value.map_or("–".into(), rounded);
        self.cells.push((strategy.into(), figure.into(), value));
    }

    /// Prints it.
    pub(crate) fn end(self) {
        if self.figures.tsv {
            for (strategy, figure, value) in &self.cells {
                print(&format!("{}\t{}\t{strategy}\t{figure}\t{value}\n", self.program, self.tool));
            }
            return;
        }
        let column = |cell: &(String, String, String)| match (cell.0.as_str(), cell.1.as_str()) {
            ("" | "defaults", figure) => figure.to_string(),
            (strategy, figure) => format!("{strategy} {figure}"),
        };
        let columns: Vec<String> = self.cells.iter().map(column).collect();
        if columns != self.figures.columns {
            let names: Vec<String> = columns.iter().map(|name| format!("{name:>9}")).collect();
            print(&format!("{:17} {:8} {}\n", "program", "tool", names.join(" ")));
            self.figures.columns.clone_from(&columns);
        }
        let pad = |(cell, name): (&(String, String, String), &String)| {
            format!("{:>1$}", cell.2, name.chars().count().max(9))
        };
        let cells: Vec<String> = self.cells.iter().zip(&columns).map(pad).collect();
        print(&format!("{:17} {:8} {}\n", self.program, self.tool, cells.join(" ")));
    }
}

/// Three digits, or all before the point.
fn rounded(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        _ if value < 0.1 => format!("{value:.3}"),
        _ if value < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Prints at once; a reader that has gone away ends the program.
fn print(text: &str) {
    let mut out = stdout();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
