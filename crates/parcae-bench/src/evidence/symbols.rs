//! Names for sampled addresses, and the parts of a program that they belong to.
//!
//! An address of this program gets the name of the innermost function, also of an inlined one, and
//! its source file: builds with line tables alone know no paths of modules. An address of the
//! kernel gets its name from `/proc/kallsyms`, if this process may see addresses there.

use super::perf::Samples;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A function, and how many samples fell into it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) part: &'static str,
    pub(super) samples: u64,
}

/// The parts of a program.
pub(super) const PARTS: [&str; 4] = ["kernel", "runtime", "libraries", "workload"];
const KERNEL: &str = PARTS[0];
const RUNTIME: &str = PARTS[1];
const LIBRARIES: &str = PARTS[2];
const WORKLOAD: &str = PARTS[3];

/// The functions with samples, the most first.
pub(super) fn functions(samples: &Samples) -> Vec<Function> {
    let wants_kernel = samples.found.keys().any(|&(_, in_kernel)| in_kernel);
    let text = if wants_kernel { fs::read_to_string("/proc/kallsyms").ok() } else { None };
    let kernel = KernelSymbols::parse(text.as_deref().unwrap_or_default());
    let mut found: HashMap<(String, &'static str), u64> = HashMap::new();
    for (&(address, in_kernel), count) in &samples.found {
        let function = if in_kernel {
            (format!("[kernel] {}", kernel.name(address)), KERNEL)
        } else {
            of_program(address)
        };
        *found.entry(function).or_default() += count;
    }
    let function = |((name, part), samples)| Function { name, part, samples };
    let mut functions: Vec<Function> = found.into_iter().map(function).collect();
    functions.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.name.cmp(&b.name)));
    functions
}

/// The part that a source file belongs to. Generic functions count for the crate that defines them,
/// so that a closure of the workload in a function of the standard library is *libraries*.
fn part(file: &str) -> &'static str {
    if file.contains("crates/parcae-bench/") {
        WORKLOAD
    } else if file.contains("crates/parcae") {
        RUNTIME
    } else {
        LIBRARIES
    }
}

/// The function of this program with that instruction, and its part.
fn of_program(address: u64) -> (String, &'static str) {
    let mut found = None;
    backtrace::resolve(address as *mut _, |symbol| {
        // The first answer is the innermost function.
        if found.is_none() {
            let name = symbol.name().map(|name| format!("{name:#}"));
            found = name.map(|name| described(&name, symbol.filename()));
        }
    });
    found.unwrap_or_else(|| ("(unknown)".to_owned(), LIBRARIES))
}

/// A name with the end of the path of its file.
fn described(name: &str, file: Option<&Path>) -> (String, &'static str) {
    let Some(file) = file.and_then(Path::to_str) else {
        let own = ["parcae", "janus_"].iter().any(|prefix| name.starts_with(prefix));
        return (name.to_owned(), if own { RUNTIME } else { LIBRARIES });
    };
    let short = file.rfind("crates/").map_or(file, |at| &file[at + "crates/".len()..]);
    (format!("{name}, {short}"), part(file))
}

/// The kernel's functions by address.
struct KernelSymbols<'t>(Vec<(u64, &'t str)>);

impl<'t> KernelSymbols<'t> {
    /// Lines of address, type, name, and perhaps module. Without permission all addresses are 0.
    fn parse(text: &'t str) -> KernelSymbols<'t> {
        let line = |line: &'t str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let (kind, name) = (words.next()?, words.next()?);
            (address > 0 && kind.eq_ignore_ascii_case("t")).then_some((address, name))
        };
        let mut symbols: Vec<_> = text.lines().filter_map(line).collect();
        symbols.sort_unstable();
        KernelSymbols(symbols)
    }

    fn name(&self, address: u64) -> &'t str {
        let behind = self.0.partition_point(|symbol| symbol.0 <= address);
        behind.checked_sub(1).map_or("(names are not permitted)", |at| self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_addresses_belong_to_the_function_before_them() {
        let text = "ffff0100 T schedule\nffff0200 t futex_wait\t[mod]\nffff0150 d data\n";
        let symbols = KernelSymbols::parse(text);
        assert_eq!(symbols.name(0xffff_0100), "schedule");
        assert_eq!(symbols.name(0xffff_01ff), "schedule");
        assert_eq!(symbols.name(0xffff_0fff), "futex_wait");
        assert_eq!(symbols.name(0xffff_0000), "(names are not permitted)");
        let hidden = KernelSymbols::parse("0000000000000000 T schedule\n");
        assert_eq!(hidden.name(0xffff_0100), "(names are not permitted)");
    }

    #[test]
    fn functions_belong_to_the_crate_that_defines_them() {
        let of = |name: &str, file: Option<&str>| described(name, file.map(Path::new));
        let file = "/src/x/crates/parcae/src/sched/run_queue/mod.rs";
        let expected = ("pick, parcae/src/sched/run_queue/mod.rs".to_owned(), "runtime");
        assert_eq!(of("pick", Some(file)), expected);
        assert_eq!(of("pick", Some("crates/parcae-core/src/fair/queue.rs")).1, "runtime");
        assert_eq!(of("work", Some("crates/parcae-bench/src/workloads/fair.rs")).1, "workload");
        assert_eq!(of("load", Some("/rustc/1/library/core/src/sync/atomic.rs")).1, "libraries");
        // Assembly has no file.
        assert_eq!(of("janus_context_switch", None), ("janus_context_switch".into(), "runtime"));
        assert_eq!(of("memcpy", None).1, "libraries");
    }

    #[test]
    fn an_address_of_this_program_has_its_name() {
        #[inline(never)]
        fn somewhere() -> u64 {
            std::hint::black_box(1)
        }
        let within = somewhere as fn() -> u64 as usize as u64 + 1;
        let samples = Samples {
            found: HashMap::from([((within, false), 3), ((1, false), 5)]),
            ..Samples::default()
        };
        let found = functions(&samples);
        let unknown = Function { name: "(unknown)".into(), part: "libraries", samples: 5 };
        assert_eq!(found[0], unknown);
        assert!(found[1].name.contains("somewhere") && found[1].samples == 3, "{found:?}");
    }
}
