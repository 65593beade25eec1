//! Flags of `weir thresholds`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::client::WeirArgs;
use crate::rules::args::ReplayFormat;

/// Propose thresholds from this fleet's history.
///
/// A threshold is the lowest one that would have been passed at most so often in the last four
/// weeks, or in as much of them as is known. Nothing is changed without --accept, which writes a
/// copy of the rule.
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
    /// False findings of a rule that are accepted in a week; default: 0.25 for page, 1 for mail, 4
    /// for note.
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
    /// With --walk-from: a confirmed incident, from which nothing is learned; may be given more
    /// than once.
    #[arg(long, value_name = "FROM/TO", requires = "walk_from")]
    pub(crate) incident: Vec<String>,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(crate) format: ReplayFormat,
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
}

/// The side of normal that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MineSide {
    /// Too much.
    Above,
    /// Too little.
    Below,
    /// Either.
    Both,
}

/// The scale of the comparison.
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
