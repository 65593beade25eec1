//! Flags of `weir rules`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::client::WeirArgs;

/// List, show, test and replay rules.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir rules                                     list them
  weir rules show tcp.listen_overflow            one with its reason, fix and SQL
  weir rules test my-rules/                      run every .test file below a directory
  weir rules replay app.slow --since 30d         when would it have fired")]
pub(crate) struct RulesArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: Option<RulesAction>,
    /// Rules that add to or replace the built-in ones.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) rules: Option<PathBuf>,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesAction {
    /// List every rule.
    List,
    /// Show one rule in full.
    Show {
        /// The rule's id, such as tcp.listen_overflow.
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Run `.test` files; directories are searched. Exit code 1 when one fails.
    Test {
        /// Files or directories.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
    },
    /// When would a rule have fired on the rows that the running weir holds?
    Replay(ReplayArgs),
}

/// A rule over the past.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The rule's id; your own rules are in the directory of --rules.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// How far back: 30d, 12h, 90m.
    #[arg(long, value_name = "SPAN", default_value = "1d", value_parser = weir_process::time_args::parse_since)]
    pub(crate) since: std::time::Duration,
    /// Seconds between two evaluations while nothing is found; default: wide enough for 2,000
    /// evaluations.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) step: Option<u64>,
    /// text for a person, json with the evidence for a program.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(crate) format: ReplayFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// How a replay is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayFormat {
    /// A line for each time that it would have fired.
    Text,
    /// One object.
    Json,
}
