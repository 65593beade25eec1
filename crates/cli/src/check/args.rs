//! Flags of `weir check`.

use clap::{Args, Subcommand};

/// List the checks and probes of this host's configuration, and run one now.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir check list                                what the agent runs here, and what it cannot run
  weir check list --config weir.toml             the same of a file that is not in force yet
  sudo -u weir weir check run check_load         run one now, with the agent's rights")]
pub(crate) struct CheckArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: CheckAction,
}

/// What to do with checks.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckAction {
    /// List checks and probes, and commands of NRPE that cannot be imported, with the reason.
    List,
    /// Run a check now and print its result; nothing is stored.
    ///
    /// The exit status is that of a plugin: 0 ok, 1 warning, 2 critical, 3 unknown.
    Run {
        /// The name of the check.
        name: String,
    },
}
