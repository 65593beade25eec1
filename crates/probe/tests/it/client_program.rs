//! Programs in the six languages: the client and what uses it in one directory, compiled, started.
//!
//! A program prints its ports and ends with its standard input, so none outlives the test. It runs
//! in a separate process group, since PHP's client has a process for each check.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// A language that has a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language {
    /// Name of the directory below `clients/`, and of the block in the docs.
    pub(crate) name: &'static str,
    /// The client's file.
    pub(crate) client: &'static str,
    /// Path of the client relative to a program.
    client_place: &'static str,
    /// The file of a program.
    pub(crate) program: &'static str,
    /// The command that compiles the program, if the language needs one.
    compile: &'static [&'static str],
    run: &'static [&'static str],
}

pub(crate) const PYTHON: Language = Language {
    name: "python",
    client: "weir_health.py",
    client_place: "weir_health.py",
    program: "conform.py",
    compile: &[],
    run: &["python3", "conform.py"],
};
pub(crate) const GO: Language = Language {
    name: "go",
    client: "health.go",
    client_place: "weirhealth/health.go",
    program: "conform.go",
    compile: &["go", "build", "-o", "conform", "."],
    run: &["./conform"],
};
pub(crate) const NODE: Language = Language {
    name: "node",
    client: "weir-health.js",
    client_place: "weir-health.js",
    program: "conform.js",
    compile: &[],
    run: &["node", "conform.js"],
};
pub(crate) const RUBY: Language = Language {
    name: "ruby",
    client: "weir_health.rb",
    client_place: "weir_health.rb",
    program: "conform.rb",
    compile: &[],
    run: &["ruby", "conform.rb"],
};
pub(crate) const JAVA: Language = Language {
    name: "java",
    client: "WeirHealth.java",
    client_place: "WeirHealth.java",
    program: "Conform.java",
    compile: &[
        "javac",
        "-J-XX:TieredStopAtLevel=1",
        "-proc:none",
        "WeirHealth.java",
        "Conform.java",
    ],
    run: &["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "Conform"],
};
/// The public class of the example has a file of its name.
pub(crate) const JAVA_EXAMPLE: Language = Language {
    program: "Shop.java",
    compile: &["javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "WeirHealth.java", "Shop.java"],
    run: &["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "Shop"],
    ..JAVA
};
pub(crate) const PHP: Language = Language {
    name: "php",
    client: "weir-health.php",
    client_place: "weir-health.php",
    program: "conform.php",
    compile: &[],
    run: &["php", "conform.php"],
};

impl Language {
    /// The client's file in this repository.
    pub(crate) fn client_path(self) -> PathBuf {
        repository().join("clients").join(self.name).join(self.client)
    }
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program with its client in a temporary directory.
#[derive(Debug)]
pub(crate) struct ClientProgram {
    language: Language,
    dir: TempDir,
}

impl ClientProgram {
    /// Writes `source` next to the client and compiles it; `None` if the language is missing here.
    pub(crate) fn new(language: Language, source: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let client = dir.path().join(language.client_place);
        std::fs::create_dir_all(client.parent().expect("it is in a directory")).expect("it can");
        std::fs::copy(language.client_path(), client).expect("the client is there");
        std::fs::write(dir.path().join(language.program), source).expect("it can be written");
        std::fs::create_dir(dir.path().join("tmp")).expect("it can be made");
        std::fs::write(dir.path().join("go.mod"), "module example.com/shop\n\ngo 1.19\n")
            .expect("it can be written");
        let program = Self { language, dir };
        let Some(command) = language.compile.split_first() else { return Some(program) };
        let output = program.command(command.0, command.1).output();
        let Ok(output) = output else {
            crate::skip(command.0);
            return None;
        };
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {errors}", language.name);
        Some(program)
    }

    /// The directory of the program.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.dir.path())
            // Not the directory itself: Go takes no module in its directory of temporary files.
            .env("TMPDIR", self.dir.path().join("tmp"))
            // Below the target directory, so that the standard library is compiled once.
            .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"))
            .envs([("GOPROXY", "off"), ("GOFLAGS", "-buildvcs=false"), ("GOTOOLCHAIN", "local")])
            .envs([("CGO_ENABLED", "0"), ("PYTHONDONTWRITEBYTECODE", "1")]);
        command
    }

    /// Starts it with further arguments; `None` if the language is missing here.
    pub(crate) fn start(&self, arguments: &[&str]) -> Option<RunningProgram> {
        let run = self.language.run;
        let child = self
            .command(run[0], &run[1..])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        match child {
            Ok(child) => Some(RunningProgram { child }),
            Err(_) => {
                crate::skip(run[0]);
                None
            }
        }
    }
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    child: Child,
}

impl RunningProgram {
    /// The ports that it prints.
    pub(crate) fn ports(&mut self) -> Vec<u16> {
        let mut line = String::new();
        let stdout = self.child.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it can be read");
        let ports: Vec<u16> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if ports.is_empty() {
            panic!("no ports in `{line}`: {}", self.errors());
        }
        ports
    }

    /// Ends it; returns what it wrote to its error output.
    pub(crate) fn errors(&mut self) -> String {
        self.kill();
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _cut = stderr.read_to_string(&mut errors);
        }
        errors
    }

    fn kill(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _gone = kill_process_group(pid.expect("a child has a positive id"), Signal::KILL);
        let _status = self.child.wait();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
    }
}
