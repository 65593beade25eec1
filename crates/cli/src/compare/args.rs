//! Flags of `weir compare`.

use clap::{Args, ValueEnum};

use crate::client::WeirArgs;

/// Compare times of two sets of requests that were measured at the same tier.
///
/// A and B are conditions on the table `request`. A time depends on its vantage point: whose clock
/// it was and whom that tier answered. When a balancer comes in front of a server, the server's
/// times fall and no page is quicker. Such a comparison is refused with the reason, and times that
/// can be compared are shown instead.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir compare --around 2026-11-21T14:00:00Z               an hour before and an hour after
  weir compare --around 2026-11-21T14:00:00Z --for 1d --where \"url_path = '/cart'\"
  weir compare \"host = 'web1'\" \"host = 'web2'\" --where \"ts > now() - interval '1 hour'\"
  weir compare --around 2026-11-21T14:00:00Z --measure upstream_header_seconds

Exit code: 0 compared, 3 nothing of it can be compared, 1 not asked, 64 a command line that makes no sense.")]
pub(crate) struct CompareArgs {
    /// Two conditions in SQL on `request`: A, and B.
    #[arg(value_name = "CONDITION", num_args = 0..=2)]
    pub(crate) sides: Vec<String>,
    /// A is the time before this instant, B the time from it on: 2026-11-21T14:00:00Z, in UTC
    /// unless it says otherwise; or so long ago: 20m.
    #[arg(long, value_name = "TIME")]
    pub(crate) around: Option<String>,
    /// How much before and after: 90s, 30m, 1h, 7d.
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    pub(crate) r#for: String,
    /// A condition that holds for both.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) r#where: Option<String>,
    /// The time: duration_seconds, queue_seconds, upstream_connect_seconds, upstream_header_seconds
    /// or upstream_response_seconds.
    #[arg(long, value_name = "COLUMN", default_value = "duration_seconds")]
    pub(crate) measure: String,
    /// table for a person, json for a program.
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub(crate) format: CompareFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// For a person.
    Table,
    /// What `/api/compare` answers.
    Json,
}
