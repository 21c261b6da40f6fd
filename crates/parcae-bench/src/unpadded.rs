//! `parcae-bench-unpadded`: the same program, without the padding that keeps words of different
//! writers on cache lines of their own. `parcae-bench --evidence` runs it.

fn main() -> std::process::ExitCode {
    parcae_bench::main()
}
