//! Runs a test program, passes its output on and counts: cargo's `test result:` lines, node's TAP, weir's own runner.
//!
//! `cargo test -- --show-output` is the only way to see a passing test say `skipped: …`; what else passing tests print
//! is dropped again here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::process::{Child, Command};
use std::time::Duration;

use crate::Result;

/// What one or several test programs reported.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// What tests said that they left out, and why.
    pub(crate) skipped: Vec<String>,
    /// Seconds that the tests of each crate took.
    seconds: BTreeMap<String, f64>,
    /// The crate whose tests run.
    crate_name: String,
    /// Inside of the output of passing tests.
    is_muted: bool,
    /// What failed tests printed, the last [`FAILURE_LINES`] of each program, repeated at the end of the run.
    failures: Vec<String>,
    /// Where in `failures` the lines of the running program begin; `None` outside of a failure.
    failure_start: Option<usize>,
}

/// Enough for the panics of some tests and the names of all; earlier output is printed where they ran.
const FAILURE_LINES: usize = 120;

impl Counts {
    /// Runs `command` to its end; `Ok(false)` when it failed.
    ///
    /// Its output goes through a file: every process that inherits a pipe can make it non-blocking for
    /// all others (Node does), and a test program whose output then meets a full pipe ends with 101.
    pub(crate) fn run(&mut self, mut command: Command) -> Result<bool> {
        let name = command.get_program().to_string_lossy().into_owned();
        let dir = crate::target_dir()?.join("tmp/xtask");
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(format!("output-{}", std::process::id()));
        let writer = File::options().create(true).append(true).open(&path)?;
        // One file for both, so that cargo's `Running` lines come before the results that they announce.
        let spawned = command.stdout(writer.try_clone()?).stderr(writer).spawn();
        let mut child = spawned.map_err(|error| format!("cannot run `{name}`: {error}"))?;
        let shown = self.follow(BufReader::new(File::open(&path)?), &mut child);
        std::fs::remove_file(&path)?;
        shown?;
        Ok(child.wait()?.success())
    }

    /// Reads what a program writes until it has ended, and shows the lines that matter.
    fn follow(&mut self, mut reader: BufReader<File>, child: &mut Child) -> Result {
        let mut line = Vec::new();
        loop {
            // First: what it wrote is whole then.
            let is_over = child.try_wait()?.is_some();
            while reader.read_until(b'\n', &mut line)? > 0 {
                if !line.ends_with(b"\n") && !is_over {
                    break;
                }
                if self.line(String::from_utf8_lossy(&line).trim_end()) {
                    std::io::stdout().write_all(&line)?;
                }
                line.clear();
            }
            if is_over {
                return Ok(());
            }
            // A shell's `> /dev/stderr` empties the file.
            if reader.get_ref().metadata()?.len() < reader.stream_position()? {
                reader.rewind()?;
            }
            pause();
        }
    }

    /// What failed tests printed, in the order in which they ran.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Keeps the lines of a failure: cargo's sections from `failures:` to the result, TAP's from `not ok` to `...`.
    fn note_failure(&mut self, line: &str) {
        if line == "failures:" || line.trim_start().starts_with("not ok ") {
            self.failure_start.get_or_insert(self.failures.len());
        }
        let Some(start) = self.failure_start else { return };
        self.failures.push(line.to_owned());
        if self.failures.len() - start > FAILURE_LINES {
            self.failures.remove(start);
        }
        if line.starts_with("test result:") || line.trim_start() == "..." {
            self.failure_start = None;
        }
    }

    /// Crates by the time of their tests, slowest first.
    pub(crate) fn slowest(&self) -> Vec<(&str, f64)> {
        let mut crates: Vec<_> = self.seconds.iter().map(|(name, time)| (&**name, *time)).collect();
        crates.sort_by(|one, other| other.1.total_cmp(&one.1));
        crates
    }

    /// Notes whose tests run, from cargo's lines: `Running unittests src/lib.rs (…/weir_tables-0123abcd)`.
    fn note_crate(&mut self, line: &str) {
        let program = line.trim_start().strip_prefix("Running unittests");
        let file = program.and_then(|rest| rest.rsplit('/').next());
        if let Some((name, _)) = file.and_then(|file| file.rsplit_once('-')) {
            self.crate_name = name.replace('_', "-");
        }
    }

    /// Takes one line; whether it should be shown.
    fn line(&mut self, line: &str) -> bool {
        self.is_muted = match line {
            "successes:" => true,
            "failures:" => false,
            _ => self.is_muted && !line.starts_with("test result:"),
        };
        if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.push(why.to_owned());
        }
        self.note_crate(line);
        self.note_failure(line);
        if let Some((_, time)) = line.split_once("; finished in ") {
            let seconds = time.trim_end_matches('s').parse::<f64>().unwrap_or(0.0);
            *self.seconds.entry(self.crate_name.clone()).or_default() += seconds;
        }
        let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["test", "result:", _, passed, "passed", failed, "failed", ..]
            | [passed, "passed,", failed, "failed"] => {
                self.passed += number(passed);
                self.failed += number(failed);
            }
            ["#", "pass", passed] => self.passed += number(passed),
            ["#", "fail", failed] => self.failed += number(failed),
            ["#", "skipped", count] if *count != "0" => {
                self.skipped.push(format!("{count} UI tests"))
            }
            _ => {}
        }
        !self.is_muted
    }
}

#[expect(clippy::disallowed_methods, reason = "a file tells nobody that it grew")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

fn number(text: &str) -> u64 {
    text.trim_end_matches('.').parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Counts;

    fn read(text: &str) -> (Counts, String) {
        let mut counts = Counts::default();
        let shown: Vec<&str> = text.lines().filter(|line| counts.line(line)).collect();
        (counts, shown.join("\n"))
    }

    #[test]
    fn output_is_whole_though_a_process_changes_the_mode_of_its_descriptor() {
        let script = "import os, fcntl, subprocess
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
text = b'x' * 999 + b'\\n'
for _ in range(1000): assert os.write(1, text) == 1000
subprocess.run(['sh', '-c', 'echo \"# pass 7\" >&2'])
print('# fail 1')";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]);
        let mut counts = Counts { is_muted: true, ..Counts::default() };
        assert!(counts.run(command).expect("python3 runs"));
        assert_eq!((counts.passed, counts.failed), (7, 1));
    }

    #[test]
    fn cargo_and_tap_and_rule_results_are_summed() {
        let (counts, _) = read(
            "test a ... ok\ntest result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
             # pass 4\n# fail 2\n17 passed, 0 failed",
        );
        assert_eq!((counts.passed, counts.failed), (26, 3));
    }

    #[test]
    fn seconds_belong_to_the_crate_whose_unit_tests_ran_last() {
        let (counts, _) = read(
            "     Running unittests src/lib.rs (target/debug/deps/weir_tables-0123abcd)\n\
             test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s\n\
             \x20    Running tests/it/main.rs (target/debug/deps/it-0123abcd)\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.25s",
        );
        assert_eq!(counts.slowest(), [("weir-tables", 2.75)]);
    }

    #[test]
    fn what_failed_tests_printed_is_kept_and_passing_tests_are_not() {
        let (counts, _) = read(
            "test a ... ok\ntest b ... FAILED\nfailures:\n\n---- b stdout ----\nb broke\n\nfailures:\n    b\n\
             test result: FAILED. 1 passed; 1 failed\nok 1 - c\n  ---\n  duration_ms: 3\n  ...\n\
             not ok 2 - d\n  ---\n  error: no page\n  ...\nok 3 - e",
        );
        let expected = "failures:\n\n---- b stdout ----\nb broke\n\nfailures:\n    b\n\
                        test result: FAILED. 1 passed; 1 failed\n\
                        not ok 2 - d\n  ---\n  error: no page\n  ...";
        assert_eq!(counts.failures().join("\n"), expected);
    }

    #[test]
    fn output_of_passing_tests_is_dropped_but_skips_are_kept() {
        let (counts, shown) = read(
            "test a ... ok\nsuccesses:\n---- a stdout ----\nskipped: nginx not found (apt install nginx)\nnoise\nsuccesses:\n    a\n\
             failures:\nb broke\ntest result: ok. 1 passed; 0 failed",
        );
        assert_eq!(counts.skipped, ["nginx not found (apt install nginx)"]);
        assert_eq!(shown, "test a ... ok\nfailures:\nb broke\ntest result: ok. 1 passed; 0 failed");
    }
}
