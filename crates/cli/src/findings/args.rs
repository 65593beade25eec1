//! Flags of `weir findings`.

use clap::{Args, Subcommand, ValueEnum};

use crate::client::WeirArgs;

/// List findings, and record whether they were right.
///
/// What people say of findings is kept: a rule whose findings are mostly not real pages no more,
/// confirmed incidents teach the thresholds nothing, and what is done by hand three times is
/// pointed out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir findings                                  open findings
  weir findings --all                            resolved ones as well
  weir findings judge 3f2a wrong                 the first letters of an id are enough
  weir findings judge 3f2a real --did 'restarted the app'")]
pub(crate) struct FindingsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: Option<FindingsAction>,
    /// Include resolved findings, newest first.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// What to do with findings.
#[derive(Debug, Subcommand)]
pub(crate) enum FindingsAction {
    /// Say whether a finding was real; the newest judgement of a finding holds.
    Judge {
        /// The finding's id, or its first letters.
        #[arg(value_name = "ID")]
        id: String,
        /// real: something was wrong. not-actionable: true, but nothing to do about it. wrong:
        /// nothing was wrong.
        #[arg(value_enum)]
        verdict: VerdictArg,
        /// The action that was taken, in a few words; use the same words for the same action.
        #[arg(long, value_name = "TEXT")]
        did: Option<String>,
    },
}

/// A judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerdictArg {
    /// Something was wrong.
    Real,
    /// True, but nothing to do about it.
    NotActionable,
    /// Nothing was wrong.
    Wrong,
}

impl VerdictArg {
    /// The word of the API and of the column `verdict`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::NotActionable => "not_actionable",
            Self::Wrong => "wrong",
        }
    }
}
