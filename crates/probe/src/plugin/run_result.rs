//! What a run of a plugin means: its output, or why there is none.
//!
//! The surprising thing: an interpreter that cannot run a plugin ends it with 1 (Python) or 2 (Perl).
//! The state stays that of the code, since a check that no longer checks is worth a mail; the summary
//! says that nothing was checked.

use weir_plugin::{CheckState, PluginResult};

use super::runner::{PluginEnding, PluginRun};

impl PluginRun {
    /// The result of the run; what the plugin wrote to its error output counts only if it wrote
    /// nothing else.
    pub fn result(&self) -> PluginResult {
        let errors = String::from_utf8_lossy(&self.stderr);
        let crash = crash(&errors).filter(|_| self.stdout.trim_ascii().is_empty());
        let (state, failure) = match &self.ending {
            PluginEnding::Exited(code @ 0..=3) => {
                let words = crash.map(|_| "nothing was checked, the plugin did not run".to_owned());
                (CheckState::of_code(*code), words)
            }
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
            let line = errors.lines().map(str::trim).find(|line| !line.is_empty());
            result.summary = crash.or(line).unwrap_or("no output").to_owned();
        }
        if let Some(failure) = failure {
            let has_words = result.summary != "no output";
            let words = if has_words { format!(": {}", result.summary) } else { String::new() };
            result.summary = format!("{failure}{words}");
        }
        result
    }
}

/// The line that says why an interpreter could not run a plugin.
fn crash(errors: &str) -> Option<&str> {
    let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty());
    if errors.lines().any(|line| line.starts_with("Traceback (most recent call last):")) {
        return lines.next_back();
    }
    let is_perl = errors.contains("BEGIN failed--compilation aborted at ")
        || errors.contains("Can't locate ") && errors.contains(" in @INC");
    lines.next().filter(|_| is_perl)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    /// monitoring-plugins/monitoring-plugins#817 and nagios-plugins/nagios-plugins#354 (Perl, exit code
    /// 2), Josef-Friedrich/check_systemd#25 (Python, exit code 1).
    #[test]
    fn plugin_that_its_interpreter_cannot_run_says_so() {
        let perl = "Can't locate utils.pm in @INC (you may need to install the utils module) (@INC \
            contains: /usr/lib/nagios/plugins /etc/perl) at /usr/lib/nagios/plugins/check_mailq line \
            36.\nBEGIN failed--compilation aborted at /usr/lib/nagios/plugins/check_mailq line 36.\n";
        let python = "Traceback (most recent call last):\n  File \"./check_systemd.py\", line 76, in \
            <module>\n    import nagiosplugin\nModuleNotFoundError: No module named 'nagiosplugin'\n";
        let run = |code, stdout: &str, stderr: &str| {
            let (ending, stdout, stderr) =
                (PluginEnding::Exited(code), stdout.into(), stderr.into());
            let run = PluginRun { ending, stdout, stderr, is_cut: false, seconds: 0.1 };
            let result = run.result();
            format!("{}: {}", result.state.as_str(), result.summary)
        };
        let missing = run(2, "", perl);
        assert!(missing.starts_with(
            "critical: nothing was checked, the plugin did not run: Can't locate utils.pm"
        ));
        assert_eq!(
            run(1, "", python),
            "warn: nothing was checked, the plugin did not run: ModuleNotFoundError: No module named \
             'nagiosplugin'"
        );
        // With a result of its own, a plugin ran.
        assert_eq!(
            run(2, "CRITICAL - 5 units failed\n", python),
            "critical: CRITICAL - 5 units failed"
        );
    }

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
