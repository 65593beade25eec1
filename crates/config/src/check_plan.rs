//! What an agent runs of `[[checks]]` and `[[probes]]`: the files that they import are read here, and
//! not with the configuration, which other commands read as well.

use std::time::Duration;

use weir_probe::check::{CheckSpec, CheckWork, PluginCheck, PluginUser};
use weir_probe::plugin::NrpeConfig;
use weir_process::failure::{Failure, read_failure};
use weir_tables::nearest;

use super::checks::{NamedCheck, NrpeImport, did_you_mean, plugin_user};
use super::keys::Values;
use super::refusal::refused;

/// What an agent runs, and what it cannot run.
#[derive(Clone, Debug, Default)]
pub struct CheckPlan {
    /// Checks and probes.
    pub specs: Vec<CheckSpec>,
    /// Commands that are left out, each with the reason and a hint.
    pub notes: Vec<String>,
}

impl CheckPlan {
    /// The checks of a configuration; reads the files that it imports.
    ///
    /// # Errors
    /// When such a file cannot be read, or lacks a named command.
    pub fn of(values: &Values) -> Result<Self, Failure> {
        let mut plan = Self { specs: values.probes.clone(), notes: Vec::new() };
        for check in &values.checks {
            if let NamedCheck::Plugin(spec) = check {
                plan.specs.push(spec.clone());
            }
        }
        for check in &values.checks {
            if let NamedCheck::Import(import) = check {
                plan.add(import)?;
            }
        }
        Ok(plan)
    }

    fn add(&mut self, import: &NrpeImport) -> Result<(), Failure> {
        let place = &import.place;
        let config = NrpeConfig::load(&import.path).map_err(|(path, error)| {
            read_failure(&path, &error).hint(format!("it is imported by `nrpe_config` of {place}"))
        })?;
        let commands = config.commands.iter().map(|command| command.name.as_str());
        let left_out = config.refused.iter().map(|refused| refused.name.as_str());
        let names: Vec<&str> = commands.chain(left_out).collect();
        if let Some(missing) = import.only.iter().find(|name| !names.contains(&name.as_str())) {
            let path = import.path.display();
            let near = nearest(missing, names.iter().copied());
            let hint = near.map_or_else(|| format!("it has {}", names.join(", ")), did_you_mean);
            let what = format!("cannot use {place}: `{path}` has no command `{missing}`");
            return Err(refused(what).hint(hint));
        }
        let left_out = config.refused.iter().filter(|refused| import.is_wanted(&refused.name));
        self.notes.extend(left_out.map(ToString::to_string));
        let timeout = import.timeout.or(config.timeout_seconds.map(Duration::from_secs));
        let user = import.user.clone().or(config.user);
        for command in config.commands.into_iter().filter(|command| import.is_wanted(&command.name))
        {
            if self.specs.iter().any(|spec| spec.name == command.name) {
                let name = &command.name;
                let path = import.path.display();
                self.notes.push(format!("`{name}` of `{path}` is left out: a check has that name"));
                continue;
            }
            self.specs.push(CheckSpec {
                name: command.name,
                service: import.service.clone(),
                interval: import.interval,
                timeout: timeout.unwrap_or(Duration::from_secs(10)),
                work: CheckWork::Plugin(PluginCheck {
                    argv: command.argv,
                    user: imported_user(user.as_deref()),
                }),
            });
        }
        Ok(())
    }
}

/// NRPE's own account counts only where the agent can change to it.
fn imported_user(name: Option<&str>) -> PluginUser {
    let is_root = rustix::process::geteuid().is_root();
    plugin_user(name.filter(|_| is_root))
}

#[cfg(test)]
mod tests;
