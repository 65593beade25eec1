//! Runs a test program, passes its output on and counts: cargo's `test result:` lines, node's TAP, weir's own runner.
//!
//! `cargo test -- --show-output` is the only way to see a passing test say `skipped: …`; what else passing tests print
//! is dropped again here.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::Result;

/// What one or several test programs reported.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// What tests said that they left out, and why.
    pub(crate) skipped: Vec<String>,
    /// Inside of the output of passing tests.
    is_muted: bool,
}

impl Counts {
    /// Runs `command` to its end; `Ok(false)` when it failed.
    pub(crate) fn run(&mut self, mut command: Command) -> Result<bool> {
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot run `{name}`: {error}"))?;
        let mut reader = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if self.line(String::from_utf8_lossy(&line).trim_end()) {
                std::io::stdout().write_all(&line)?;
            }
            line.clear();
        }
        Ok(child.wait()?.success())
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
        let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["test", "result:", _, passed, "passed", failed, "failed", ..]
            | [passed, "passed,", failed, "failed"] => self.add(passed, failed),
            ["#", "pass", passed] => self.add(passed, "0"),
            ["#", "fail", failed] => self.add("0", failed),
            ["#", "skipped", count] if *count != "0" => {
                self.skipped.push(format!("{count} UI tests"))
            }
            _ => {}
        }
        !self.is_muted
    }

    fn add(&mut self, passed: &str, failed: &str) {
        self.passed += passed.trim_end_matches('.').parse::<u64>().unwrap_or(0);
        self.failed += failed.parse::<u64>().unwrap_or(0);
    }
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
    fn cargo_and_tap_and_rule_results_are_summed() {
        let (counts, _) = read(
            "test a ... ok\ntest result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
             # pass 4\n# fail 2\n17 passed, 0 failed",
        );
        assert_eq!((counts.passed, counts.failed), (26, 3));
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
