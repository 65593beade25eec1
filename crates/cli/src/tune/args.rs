//! Flags of `weir tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::client::WeirArgs;

/// Propose kernel and proxy settings from this host's own counters; changes nothing without --try.
///
/// Each proposal has its reason, its evidence, its risk and what it works together with. Without
/// evidence there is none: a host that drops nothing needs no tuning.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir tune                                      this host, with reasons, and what never to set
  weir tune --format sysctl > /etc/sysctl.d/90-weir.conf
  weir tune --format diff | patch -p0            lines of nginx and HAProxy
  weir tune /tmp/host                            a host that `weir doctor --record` recorded
  weir tune --try net.core.somaxconn=8192 --for 10m        set it, measure, keep it or put it back
  weir tune --try net.core.somaxconn=8192 --url http://hub:4770    what siblings went through is taken off")]
pub(crate) struct TuneArgs {
    /// A recorded host instead of this one.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// text for a person, sysctl and diff to apply, json for a program.
    #[arg(long, value_enum, default_value_t = TuneFormat::Text)]
    pub(crate) format: TuneFormat,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=3600))]
    pub(crate) seconds: u32,
    /// The root below which the host's files are read.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// One setting for a while.
#[derive(Args, Debug)]
pub(crate) struct TrialArgs {
    /// Set this until its effect is known: kept when its counter improves, else reverted. Needs
    /// root; nothing below /etc is written. Exit code 0 when it was kept, 1 when it was reverted.
    #[arg(long = "try", value_name = "KEY=VALUE")]
    pub(crate) wish: Option<String>,
    /// With --try: how long, from 5s to 1h.
    #[arg(long, value_name = "SPAN", default_value = "10m", requires = "wish", value_parser = weir_process::time_args::parse_since)]
    pub(crate) r#for: std::time::Duration,
    /// With --try: how long to look before it is set; default: as --for, at most 5m.
    #[arg(long, value_name = "SPAN", requires = "wish", value_parser = weir_process::time_args::parse_since)]
    pub(crate) before: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// How proposals are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuneFormat {
    /// For a person.
    Text,
    /// A commented file for `/etc/sysctl.d`.
    Sysctl,
    /// A unified diff of the proxies' configuration.
    Diff,
    /// An array of objects.
    Json,
}
