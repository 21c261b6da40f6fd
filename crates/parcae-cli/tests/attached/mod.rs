//! A program to look into: the example `attached`, played by the test binary itself, which starts
//! itself again.

// Each test crate compiles its own copy and need not use all of it.
#![allow(dead_code)]

#[path = "../../../parcae/examples/attached.rs"]
mod example;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PLAY: &str = "PARCAE_TEST_PROGRAM";

/// If this process is to play the program: plays it, for as long as any test may take, and says so.
pub(crate) fn played() -> bool {
    let play = std::env::var_os(PLAY).is_some();
    if play {
        let opts = parcae::attach::AttachOpts::new();
        example::serve(opts, Duration::from_secs(900)).unwrap();
    }
    play
}

/// A text with `#` in the place of numbers of tasks and nurseries, which depend on who spawned
/// them.
pub(crate) fn unnumbered(text: &str) -> String {
    let all = |text: &str, is: fn(&u8) -> bool| !text.is_empty() && text.as_bytes().iter().all(is);
    let number = |word: &str| match (word.split_once('.'), word.strip_prefix("0x")) {
        (Some((origin, nth)), _) => {
            (origin == "root" || all(origin, u8::is_ascii_digit)) && all(nth, u8::is_ascii_digit)
        }
        (None, Some(hex)) => all(hex, u8::is_ascii_hexdigit),
        (None, None) => false,
    };
    let lines = text.lines().map(|line| {
        let words = line.split(' ').map(|word| if number(word) { "#" } else { word });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A folder for sockets, gone at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        // Paths of sockets are short, those of build folders need not be.
        let name = format!("parcae-{}-{test:.20}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // Programs create sockets only in folders that no other user may write to, whatever the
        // umask is here.
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(folder.join("parcae")).unwrap();
        Folder(folder)
    }

    /// A place in the folder where sockets are looked for.
    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.0.join("parcae").join(name)
    }

    /// A command that looks for sockets here.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "PARCAE_SEED"] {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", &self.0);
        command
    }

    pub(crate) fn parcae(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_parcae"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, as long as this lives.
pub(crate) struct Program {
    pub(crate) folder: Folder,
    child: Child,
}

impl Program {
    /// Starts it, and waits until all of its tasks wait.
    pub(crate) fn start(test: &str) -> Program {
        let folder = Folder::new(test);
        let mut command = folder.command(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(PLAY, "1").stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let program = Program { folder, child };
        program.settle();
        program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.socket(&format!("{}-0.sock", self.pid()))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }

    fn settle(&self) {
        const SIGNS: [&str; 7] = [
            r#""guest-1","state":"waiting""#,
            r#""guest-2","state":"waiting""#,
            r#""guest-3","state":"waiting""#,
            "out of ops",
            "receiving",
            "tenant-7",
            r#""live":4"#,
        ];
        for _ in 0..3_000 {
            let answer = self.ask("tasks").unwrap_or_default();
            if SIGNS.iter().all(|sign| answer.contains(sign)) && !answer.contains(r#""running""#) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("did not come to it: {:?}", self.ask("tasks"));
    }

    /// One answer, by a client of our own.
    pub(crate) fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
        writeln!(stream, "{request}")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
