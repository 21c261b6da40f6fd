//! `parcae-bench`: measures workloads of parcae and of its peers. The library does the work.

fn main() -> std::process::ExitCode {
    parcae_bench::main()
}
