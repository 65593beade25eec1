//! A plugin of Nagios as a check: as another account, without a shell, with an empty environment.
//!
//! The surprising thing: an agent that runs as root does not run plugins as root unless the
//! configuration says so, because most plugins need no rights and some are scripts of others.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{CheckOutcome, CheckState};
use crate::plugin::{
    PerformanceValue, PluginAccount, PluginControl, PluginLimits, PluginResult, run_plugin_with,
};

/// Bytes of each output of a plugin that are kept.
const OUTPUT_BYTES: usize = 64 << 10;
/// Figures of a plugin that become `perfdata`.
const FIGURES_MAX: usize = 100;
/// Accounts of plugins where none is configured and the agent is root, the best first.
const USUAL_USERS: [&str; 2] = ["nagios", "nobody"];

/// The account of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginUser {
    /// The agent's own account; `nagios` or `nobody` if that is root.
    Usual,
    /// The account with this name.
    Named(String),
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCheck {
    /// The program, an absolute path, and its arguments.
    pub argv: Vec<String>,
    /// The account that it runs as.
    pub user: PluginUser,
}

impl PluginCheck {
    pub(super) fn run(&self, timeout: Duration, control: &PluginControl) -> CheckOutcome {
        if control.is_left_over.load(Relaxed) {
            let text = "the process of an earlier run was killed and has not ended";
            return CheckOutcome::new(CheckState::Unknown, text);
        }
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let own = rustix::process::geteuid().as_raw();
        let account = match account(&self.user, &accounts, own) {
            Ok(account) => account,
            Err(why) => return CheckOutcome::new(CheckState::Unknown, why),
        };
        let limits = PluginLimits { timeout, output_bytes: OUTPUT_BYTES };
        outcome(&run_plugin_with(&self.argv, &limits, account, control).result())
    }
}

/// The account to change to; `None` is the agent's own.
fn account(user: &PluginUser, accounts: &str, own: u32) -> Result<Option<PluginAccount>, String> {
    let found = match user {
        PluginUser::Usual if own != 0 => return Ok(None),
        PluginUser::Usual => USUAL_USERS.iter().find_map(|name| account_of(name, accounts.lines())),
        PluginUser::Named(name) => account_of(name, accounts.lines()),
    };
    let Some(found) = found else {
        return Err(match user {
            PluginUser::Usual => {
                "cannot start the plugin: the agent is root, and `/etc/passwd` has neither `nagios` nor `nobody`; hint: set `user`".to_owned()
            }
            PluginUser::Named(name) => {
                format!("cannot start the plugin as `{name}`: no such user in `/etc/passwd`")
            }
        });
    };
    match (found.user_id == own, own) {
        (true, _) => Ok(None),
        (false, 0) => Ok(Some(found)),
        (false, _) => Err(format!(
            "cannot start the plugin as user {}: the agent is no root (user {own}); hint: remove `user`, or let the command begin with `sudo -n -u`",
            found.user_id
        )),
    }
}

/// The entry of a name: passwd(5).
fn account_of<'a>(name: &str, accounts: impl Iterator<Item = &'a str>) -> Option<PluginAccount> {
    let fields = accounts.map(|line| line.split(':').collect::<Vec<_>>());
    let entry = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
    let (user_id, group_id) = (entry.get(2)?.parse().ok()?, entry.get(3)?.parse().ok()?);
    Some(PluginAccount { user_id, group_id })
}

fn outcome(result: &PluginResult) -> CheckOutcome {
    let mut outcome = CheckOutcome::new(result.state, result.summary.clone());
    if let Some(PerformanceValue { value, unit, .. }) = result.values.first() {
        outcome.value = *value;
        outcome.unit = (!unit.is_empty()).then(|| unit.clone());
        outcome.threshold = result.bound().map(|range| range.to_string());
    }
    let figures = result.values.iter().take(FIGURES_MAX);
    outcome.figures = figures.map(|value| (value.label.clone(), value.to_string())).collect();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::PluginResult;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n\
        nagiosql:x:9:9::/:/bin/sh\nnagios:x:107:114::/var/lib/nagios:/usr/sbin/nologin\n";

    #[test]
    fn root_runs_plugins_as_another_account_unless_it_is_configured() {
        let nagios = PluginAccount { user_id: 107, group_id: 114 };
        assert_eq!(account(&PluginUser::Usual, PASSWD, 0), Ok(Some(nagios)));
        assert_eq!(account(&PluginUser::Usual, PASSWD, 1000), Ok(None));
        let nobody = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        let account_id = account(&PluginUser::Usual, nobody, 0).unwrap().map(|one| one.user_id);
        assert_eq!(account_id, Some(65534));
        assert_eq!(account(&PluginUser::Named("root".into()), PASSWD, 0), Ok(None));
        assert_eq!(account(&PluginUser::Named("nagios".into()), PASSWD, 0), Ok(Some(nagios)));
    }

    #[test]
    fn account_that_cannot_be_used_makes_no_run_with_other_rights() {
        for (user, own, why) in [
            ("nagio", 0, "no such user in `/etc/passwd`"),
            ("nagios", 1000, "the agent is no root (user 1000)"),
            ("root", 1000, "the agent is no root (user 1000)"),
        ] {
            let error = account(&PluginUser::Named(user.into()), PASSWD, own).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(account(&PluginUser::Usual, "root:x:0:0::/:/bin/sh\n", 0).is_err());
        let check = PluginCheck {
            argv: vec!["/bin/true".into()],
            user: PluginUser::Named("no-such-account".into()),
        };
        let outcome = check.run(Duration::from_secs(5), &PluginControl::default());
        assert_eq!(outcome.state, CheckState::Unknown, "{outcome:?}");
    }

    #[test]
    fn plugin_runs_with_the_rights_of_its_account() {
        let check = PluginCheck {
            argv: ["/bin/sh", "-c", "echo $(id -u) $(id -G)"].map(String::from).to_vec(),
            user: PluginUser::Usual,
        };
        let outcome = check.run(Duration::from_secs(10), &PluginControl::default());
        assert_eq!(outcome.state, CheckState::Ok, "{outcome:?}");
        let own = rustix::process::geteuid().as_raw();
        let first: u32 = outcome.output.split(' ').next().unwrap().parse().unwrap();
        if own == 0 {
            assert_ne!(first, 0, "{outcome:?}");
            assert_eq!(outcome.output.split(' ').count(), 2, "no further groups: {outcome:?}");
        } else {
            assert_eq!(first, own);
        }
    }

    /// Icinga/icinga2#8981 and nagios-plugins/nagios-plugins#414: processes that cannot be killed, of
    /// root by sudo or on a dead mount, and one more of them at each turn.
    #[test]
    fn plugin_is_not_started_beside_one_that_could_not_be_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("started").display().to_string();
        let argv = vec!["/usr/bin/touch".to_owned(), mark.clone()];
        let user = PluginUser::Named("root".into());
        let check = PluginCheck { argv, user };
        let control = PluginControl::default();
        control.is_left_over.store(true, Relaxed);
        let outcome = check.run(Duration::from_secs(10), &control);
        assert_eq!(outcome.state, CheckState::Unknown);
        assert!(outcome.output.contains("has not ended"), "{outcome:?}");
        assert!(!std::path::Path::new(&mark).exists());
    }

    #[test]
    fn plugin_is_killed_when_the_program_ends() {
        let control = PluginControl::default();
        control.stop.store(true, Relaxed);
        let argv = ["/bin/sleep", "600.5"].map(String::from).to_vec();
        let check = PluginCheck { argv, user: PluginUser::Usual };
        let started = std::time::Instant::now();
        let outcome = check.run(Duration::from_secs(600), &control);
        assert_eq!(outcome.state, CheckState::Unknown);
        assert!(started.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn figures_keep_unit_and_bounds() {
        let text = "DISK WARNING - free: / 1 MB | /=2643MB;5948;5958;0;5968 'a b'=U;~:3;@1:2 c=1";
        let outcome = outcome(&PluginResult::parse(CheckState::Warning, text));
        assert_eq!((outcome.value, outcome.unit.as_deref()), (Some(2643.0), Some("MB")));
        assert_eq!(outcome.threshold.as_deref(), Some("5948"));
        let figures: Vec<(&str, &str)> =
            outcome.figures.iter().map(|(label, text)| (label.as_str(), text.as_str())).collect();
        let expected = [("/", "2643MB;5948;5958;0;5968"), ("a b", "U;~:3;@1:2"), ("c", "1")];
        assert_eq!(figures, expected);
    }
}
