//! Flags of the commands about rules, what they found, and their thresholds.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_agent_core::client::WeirArgs;

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
        /// Its id, such as tcp.listen_overflow.
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
    /// Its id; one of your own is in the directory of --rules.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// How far back: 30d, 12h, 90m.
    #[arg(long, value_name = "SPAN", default_value = "1d", value_parser = weir_process::time_args::parse_since)]
    pub(crate) since: std::time::Duration,
    /// Seconds between two looks while nothing is found; default: so many that 2,000 looks suffice.
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

/// List findings, and judge them.
///
/// What people say of findings is kept: a rule whose findings are mostly not real pages no more, confirmed incidents
/// teach the thresholds nothing, and what is done by hand three times is pointed out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir findings                                  those that are open
  weir findings --all                            and those that are over
  weir findings judge 3f2a wrong                 the first letters of an id are enough
  weir findings judge 3f2a real --did 'restarted the app'")]
pub(crate) struct FindingsArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub(crate) action: Option<FindingsAction>,
    /// Those that are over as well, newest first.
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
        /// Its id, or the first letters of it.
        #[arg(value_name = "ID")]
        id: String,
        /// real: something was wrong. not-actionable: true, but nothing to do about it. wrong: nothing was wrong.
        #[arg(value_enum)]
        verdict: VerdictArg,
        /// What was done about it, in a few words, always the same ones for the same thing.
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

/// Say what thresholds should be by this fleet's own past.
///
/// A threshold is the lowest one that would have been passed at most so often in the last four weeks, or in as much of
/// them as is known. Nothing is changed without --accept, which writes a copy of the rule.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir thresholds                                every rule that has a threshold to mine
  weir thresholds app.slow --per-week 0.25       one, for one false finding in four weeks
  weir thresholds app.slow --accept --rules /etc/weir/rules
  weir thresholds --series requests.csv --side below     a series of your own: a time and a value a line
  weir thresholds --series requests.csv --walk-from 2026-11-01T00:00:00Z   each day judged by the days before it")]
pub(crate) struct ThresholdsArgs {
    /// One rule; default: all that have a section `[threshold]`.
    #[arg(value_name = "RULE")]
    pub(crate) id: Option<String>,
    /// False findings of a rule that are accepted in a week; default: 0.25 for page, 1 for mail, 4 for note.
    #[arg(long, value_name = "N", value_parser = parse_per_week)]
    pub(crate) per_week: Option<f64>,
    /// Yes: write a copy of the rule with the proposed value into the directory of --rules.
    #[arg(long, requires = "id", requires = "rules")]
    pub(crate) accept: bool,
    /// Rules that add to or replace the built-in ones: what `rules.dir` of the running weir names.
    #[arg(long, value_name = "DIR")]
    pub(crate) rules: Option<PathBuf>,
    /// Mine this CSV file instead of asking a weir.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "accept"])]
    pub(crate) series: Option<PathBuf>,
    /// With --series: what counts.
    #[arg(long, value_enum, default_value_t = MineSide::Both, requires = "series")]
    pub(crate) side: MineSide,
    /// With --series: what is compared.
    #[arg(long, value_enum, default_value_t = MineScale::Auto, requires = "series")]
    pub(crate) scale: MineScale,
    /// With --series: judge each day from here on by what was known the night before.
    #[arg(long, value_name = "TIME", requires = "series")]
    pub(crate) walk_from: Option<String>,
    /// With --walk-from: a confirmed incident, from which nothing is learned; may be given more than once.
    #[arg(long, value_name = "FROM/TO", requires = "walk_from")]
    pub(crate) incident: Vec<String>,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(crate) format: ReplayFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// Say what this host's own counters ask of its kernel and its proxies; changes nothing without --try.
///
/// Each proposal has its reason, its evidence, its risk and what it works together with. Without evidence there is none:
/// a host that drops nothing needs no tuning.
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
    /// Set this until it is known whether it helps: kept when its counter says so, else put back. Needs root; nothing below
    /// /etc is written. Exit code 0 when it was kept, 1 when it was put back.
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

/// Which side of normal counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MineSide {
    /// Too much.
    Above,
    /// Too little.
    Below,
    /// Either.
    Both,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MineScale {
    /// Whichever has the evener noise.
    Auto,
    /// Logarithms.
    Log,
    /// Values as they are.
    Raw,
}

/// A number of findings a week.
fn parse_per_week(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "it is a number from 0 to 1000000, such as 0.25".to_owned())
}
