//! Flags of `weir doctor`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Check this host for a few seconds and report problems; needs no hub and no configuration.
///
/// Exit code: 0 nothing to act on (notes may be shown), 1 a finding of class mail, 2 a finding of
/// class page, 64 and above when doctor itself failed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir doctor                                    text for a person, worst first
  weir doctor --format json | jq '.[].fix'       for programs
  weir doctor --record /tmp/host --seconds 30    record this host (secrets redacted), to look at elsewhere
  weir doctor /tmp/host                          the same rules over a recorded host")]
pub(crate) struct DoctorArgs {
    /// A recorded host instead of this one.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
    pub(crate) format: DoctorFormat,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=3600))]
    pub(crate) seconds: u32,
    /// Record this host into a new directory.
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    pub(crate) record: Option<PathBuf>,
    /// Rules that add to or replace the built-in ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) rules: Option<PathBuf>,
    /// The root below which the host's files are read.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// How doctor answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// For a person.
    Text,
    /// An array of objects.
    Json,
}
