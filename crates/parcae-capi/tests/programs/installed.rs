//! The library as a C program finds it: installed into a folder of this test's own.

use crate::tools;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) const HINT: &str = "Debian: apt-get install gcc g++ libc6-dev binutils";
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// No program takes nearly as long. One that hangs must not.
const LONGEST: Duration = Duration::from_secs(300);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A file of this package.
pub(crate) fn file(path: &str) -> PathBuf {
    Path::new(PACKAGE).join(path)
}

/// Whether programs run under Valgrind; the library has to be built for it (see `.ci/run`).
pub(crate) fn in_valgrind() -> bool {
    std::env::var_os("PARCAE_VALGRIND").is_some_and(|it| it == "1")
}

/// Where the library is installed; once for all tests.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        clean(folder);
        let prefix = folder.join(format!("c-library-{}", id()));
        // This binary is beside the libraries that it was built with.
        let exe = std::env::current_exe().expect("the path of this test binary");
        let built = exe.parent().expect("a folder");
        let output = Command::new(file("install"))
            .args([Path::new("--prefix"), &prefix, Path::new("--from"), built])
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        prefix
    })
}

/// Removes what earlier runs have left.
fn clean(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(process) = name.strip_prefix("c-library-")
            && !Path::new("/proc").join(process).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Which library a program is linked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Static,
}

/// The compiler for this kind of source; none where the machine has none.
pub(crate) fn compiler(test: &str, source: &str) -> Option<PathBuf> {
    let name = if source.ends_with(".cpp") { "c++" } else { "cc" };
    let found = tools::find(name);
    if found.is_none() {
        tools::skip(test, name, HINT);
    }
    found
}

/// The compiler's output; options come before the sources.
pub(crate) fn compile(
    compiler: &Path,
    options: &[&str],
    sources: &[PathBuf],
    program: &Path,
    linked: Linked,
) -> Result<(), String> {
    let prefix = prefix();
    let mut command = Command::new(compiler);
    command.args(["-g", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-fstack-clash-protection"); // as the manual tells programs to do
    command.arg("-I").arg(prefix.join("include")).args(options).args(sources);
    command.arg("-o").arg(program);
    match linked {
        Linked::Shared => {
            command.arg("-L").arg(prefix.join("lib")).arg("-lparcae");
            command.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
        }
        Linked::Static => {
            command.arg(prefix.join("lib/libparcae.a")).args(["-ldl", "-lm", "-lgcc_s"]);
        }
    }
    let output = command.arg("-lpthread").output().expect("a compiler that runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// Compiles one program and runs it; none if there is no compiler.
pub(crate) fn run(
    test: &str,
    sources: &[&str],
    options: &[&str],
    args: &[&str],
    linked: Linked,
) -> Option<Outcome> {
    let compiler = compiler(test, sources[0])?;
    run_with(&compiler, test, sources, options, args, linked)
}

/// The same with a compiler of one's own.
pub(crate) fn run_with(
    compiler: &Path,
    test: &str,
    sources: &[&str],
    options: &[&str],
    args: &[&str],
    linked: Linked,
) -> Option<Outcome> {
    let program = prefix().join(format!("{test}-{}", args.join("-")));
    let sources: Vec<PathBuf> = sources.iter().map(|source| file(source)).collect();
    if let Err(said) = compile(compiler, options, &sources, &program, linked) {
        panic!("{test} does not compile:\n{said}");
    }
    Some(execute(&program, args))
}

/// The hook by which the compiler's own calls are yield checks, compiled: without the option that
/// makes them.
pub(crate) fn trace_hook(compiler: &Path, test: &str) -> String {
    let object = prefix().join(format!("trace-{test}.o"));
    let status = Command::new(compiler)
        .args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o"])
        .arg(&object)
        .arg("-I")
        .arg(file("include"))
        .arg(file("trace/parcae_trace_pc.c"))
        .status();
    assert!(status.expect("a compiler that runs").success());
    object.display().to_string()
}

/// Runs a program to its end.
pub(crate) fn execute(program: &Path, args: &[&str]) -> Outcome {
    let mut command = if in_valgrind() {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--error-exitcode=99", "--leak-check=no", "--fair-sched=yes"]);
        valgrind.arg(program);
        valgrind
    } else {
        Command::new(program)
    };
    let mut child = command
        .args(args)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program that runs");
    let reader = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = reader(Box::new(child.stdout.take().expect("piped")));
    let stderr = reader(Box::new(child.stderr.take().expect("piped")));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break status;
        }
        if began.elapsed() > LONGEST {
            let _ = child.kill();
            panic!("{} hangs", program.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Outcome {
        code: status.code(),
        signal: status.signal(),
        stdout: stdout.join().expect("a reader"),
        stderr: stderr.join().expect("a reader"),
    }
}

/// A text of this package or the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
