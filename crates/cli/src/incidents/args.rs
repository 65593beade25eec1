//! Flags of `weir incidents`.

use clap::{Args, Subcommand, ValueEnum};

use crate::client::WeirArgs;
use crate::findings::args::VerdictArg;

/// List incidents, acknowledge, resolve and silence them.
///
/// An incident is a root finding with all findings that it explains. Each is one page or mail, however many symptoms and
/// hosts it has (docs/notify.md).
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir incidents                                 open incidents
  weir incidents --all --format json             resolved ones as well, for a program
  weir incidents ack 4K7QX2 --by ada             stop the escalation for 60 minutes
  weir incidents resolve 4K7QX2 --by ada --judgement real --did 'restarted shop.service'
  weir incidents judge 4K7QX2 wrong --by ada     one that is over
  weir incidents silence 'disk.*' --host db1 --for 2h --by ada --reason 'disk is being replaced'")]
pub(crate) struct IncidentsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: Option<IncidentsAction>,
    /// Include resolved incidents, newest first.
    #[arg(long)]
    pub(crate) all: bool,
    /// table for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) format: ListFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Columns side by side.
    Table,
    /// One array of objects.
    Json,
}

/// What to do with incidents.
#[derive(Debug, Subcommand)]
pub(crate) enum IncidentsAction {
    /// Acknowledge an incident: escalation stops for 60 minutes.
    Ack {
        /// The incident's id, or its first letters.
        #[arg(value_name = "ID")]
        id: String,
        /// Who acknowledges it; default: the user of the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Close an incident by hand; it opens again when it gets worse.
    Resolve {
        /// The incident's id, or its first letters.
        #[arg(value_name = "ID")]
        id: String,
        /// Who closes it; default: the user of the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Whether it was real; kept for its rule, as `weir findings judge` does.
        #[arg(long, value_enum)]
        judgement: Option<VerdictArg>,
        /// The action that was taken, in a few words; use the same words for the same action.
        #[arg(long, value_name = "TEXT", requires = "judgement")]
        did: Option<String>,
    },
    /// Say whether an incident was real, also when it is over; the newest judgement holds.
    Judge {
        /// The incident's id, or its first letters.
        #[arg(value_name = "ID")]
        id: String,
        /// real: something was wrong. not-actionable: true, but nothing to do about it. wrong:
        /// nothing was wrong.
        #[arg(value_enum)]
        verdict: VerdictArg,
        /// The action that was taken, in a few words; use the same words for the same action.
        #[arg(long, value_name = "TEXT")]
        did: Option<String>,
        /// Who judges; default: the user of the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// Suppress notifications of matching incidents for a while; a higher class breaks through.
    Silence {
        /// Rule, `*` for any text.
        #[arg(value_name = "RULE")]
        rule: String,
        /// Only this host, `*` for any text.
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// How long, at most 30d.
        #[arg(long = "for", value_name = "TIME", default_value = "2h")]
        duration: String,
        /// Why.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Who silences it; default: the user of the login.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}
