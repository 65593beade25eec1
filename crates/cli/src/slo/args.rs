//! Flags of `weir slo`.

use clap::{Args, Subcommand};

use crate::client::WeirArgs;
use crate::incidents::args::ListFormat;

/// Show what is left of the error budgets of SLOs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir slo list                                  budget left, burn rate in each window
  weir slo list --format json")]
pub(crate) struct SloArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: SloAction,
}

/// What to do with SLOs.
#[derive(Debug, Subcommand)]
pub(crate) enum SloAction {
    /// List the SLOs of the running weir: budget left, and how many times too fast it is spent.
    List {
        /// table for a person, json for a program.
        #[arg(long, value_enum, default_value_t = ListFormat::Table)]
        format: ListFormat,
        #[command(flatten)]
        weir: WeirArgs,
    },
}
