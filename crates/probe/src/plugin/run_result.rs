//! What a run of a plugin means: its output, or why there is none.

use weir_plugin::{CheckState, PluginResult};

use super::runner::{PluginEnding, PluginRun};

impl PluginRun {
    /// The result of the run; what the plugin wrote to its error output counts only if it wrote
    /// nothing else.
    pub fn result(&self) -> PluginResult {
        let (state, failure) = match &self.ending {
            PluginEnding::Exited(code @ 0..=3) => (CheckState::of_code(*code), None),
            PluginEnding::Exited(code) => {
                (CheckState::Unknown, Some(format!("exit code {code}, plugins have 0 to 3")))
            }
            PluginEnding::Signalled(signal) => {
                (CheckState::Unknown, Some(format!("ended by signal {signal}")))
            }
            PluginEnding::TimedOut(timeout) => {
                let seconds = timeout.as_secs_f64();
                (CheckState::Unknown, Some(format!("no result within {seconds} s")))
            }
            PluginEnding::NotStarted(why) => (CheckState::Unknown, Some(why.clone())),
        };
        let mut result = PluginResult::parse(state, &String::from_utf8_lossy(&self.stdout));
        if result.summary.is_empty() {
            let errors = String::from_utf8_lossy(&self.stderr);
            let line = errors.lines().map(str::trim).find(|line| !line.is_empty());
            result.summary = line.unwrap_or("no output").to_owned();
        }
        if let Some(failure) = failure {
            let has_words = result.summary != "no output";
            let words = if has_words { format!(": {}", result.summary) } else { String::new() };
            result.summary = format!("{failure}{words}");
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    #[test]
    fn output_without_a_plugins_exit_code_is_unknown_and_says_why() {
        let run = |ending, stdout: &str, stderr: &str| {
            let (stdout, stderr) = (stdout.into(), stderr.into());
            let run = PluginRun { ending, stdout, stderr, is_cut: false, seconds: 0.1 };
            let result = run.result();
            format!("{}: {}", result.state.as_str(), result.summary)
        };
        expect!["ok: no output"].assert_eq(&run(PluginEnding::Exited(0), "", ""));
        expect!["warn: fine"].assert_eq(&run(PluginEnding::Exited(1), "fine\n", "debug\n"));
        expect!["critical: cannot open"].assert_eq(&run(
            PluginEnding::Exited(2),
            "\n",
            "\n  cannot open\n",
        ));
        expect!["unknown: exit code 127, plugins have 0 to 3: sh: 1: check_x: not found"]
            .assert_eq(&run(PluginEnding::Exited(127), "", "sh: 1: check_x: not found\n"));
        expect!["unknown: ended by signal 11: half"].assert_eq(&run(
            PluginEnding::Signalled(11),
            "half",
            "",
        ));
        expect!["unknown: no result within 10 s"].assert_eq(&run(
            PluginEnding::TimedOut(Duration::from_secs(10)),
            "",
            "",
        ));
        expect!["unknown: cannot start `/x`: no such file"].assert_eq(&run(
            PluginEnding::NotStarted("cannot start `/x`: no such file".into()),
            "",
            "",
        ));
    }
}
