//! Flags of `weir oncall`.

use clap::Args;

use crate::client::WeirArgs;
use crate::incidents::args::ListFormat;

/// Show the people on call.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir oncall                                    now, all rotas
  weir oncall --rota web --at 2026-12-24T20:00:00+01:00
  weir oncall --format json")]
pub(crate) struct OncallArgs {
    /// Only this rota.
    #[arg(long, value_name = "NAME")]
    pub(crate) rota: Option<String>,
    /// Another time than now, RFC 3339.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// table for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) format: ListFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}
