//! One rule: a TOML head between `/*---` and `---*/`, then one SQL query. The format is
//! `docs/rules.md`.
//!
//! The head is a comment to every SQL engine, so a rule file can be pasted into a SQL editor as it
//! is once `$now` is replaced by a time.

use std::fmt;

use weir_tables::Micros;

use crate::mine::{Scale, Side};
use crate::{ChosenText, RuleError, SourceFile, head};

/// Tiers, from the client to the disk.
pub const TIERS: &[&str] =
    &["client", "edge", "wire", "kernel", "proxy", "app", "db", "host", "disk", "log", "weir"];

/// The urgency of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// For information; no action needed now.
    Note,
    /// Act in working hours.
    Mail,
    /// Act now.
    Page,
}

impl Class {
    /// The word of rule files and of the column `class`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Mail => "mail",
            Self::Page => "page",
        }
    }

    /// The class of a word, or `None`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "note" => Some(Self::Note),
            "mail" => Some(Self::Mail),
            "page" => Some(Self::Page),
            _ => None,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A query whose answer draws the finding: a column `ts` and one or more numeric columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What the chart shows.
    pub title: String,
    /// The query; `$now` and `{column}` (of the finding's first evidence row) are replaced.
    pub sql: String,
    /// Unit of the numeric columns, as `unit_of` prints it.
    pub unit: String,
}

/// How a rule's threshold is mined: the section `[threshold]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ThresholdSpec {
    /// The value of `$threshold`; `None` for a rule that compares each subject with its own week.
    pub value: Option<f64>,
    /// Unit of the values, as `unit_of` prints it.
    pub unit: String,
    /// The side on which an event lies.
    pub side: Side,
    /// The scale on which the week is compared.
    pub scale: Scale,
    /// Whether a subject that has no row counts as 0.
    pub absent_is_zero: bool,
    /// The query of five-minute values from `$from` to `$to`: `ts`, `host`, `subject`, `value`.
    pub series: String,
}

impl ThresholdSpec {
    /// The query of the series for a span: `$from` inclusive, `$to` exclusive.
    pub fn series_between(&self, from: Micros, to: Micros) -> String {
        self.series.replace("$from", &literal(from)).replace("$to", &literal(to))
    }
}

/// Risks and interactions of a proposed setting: the section `[setting]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingNotes {
    /// Risks of the change.
    pub risk: String,
    /// Settings that it depends on or conflicts with.
    pub interaction: String,
}

/// A rule as read from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `family.name`, the same as the file's name without `.sql`.
    pub id: String,
    /// Title, for lists.
    pub title: String,
    /// The tier at fault, one of [`TIERS`]; the column `tier` of a row overrides it.
    pub tier: String,
    /// The urgency; the column `class` of a row overrides it.
    pub class: Class,
    /// How long the condition must hold before the finding fires.
    pub for_seconds: u64,
    /// How often the query runs.
    pub every_seconds: u64,
    /// How long the condition must be gone before the finding is resolved.
    pub clear_seconds: u64,
    /// Columns that, with `host`, identify a subject.
    pub key: Vec<String>,
    /// Template: the subject, for display.
    pub subject: String,
    /// Template: one sentence with the numbers.
    pub summary: String,
    /// Template: why it matters.
    pub why: String,
    /// Where to look next.
    pub look_at: String,
    /// When it stays silent, and which false alarms remain.
    pub silent_when: String,
    /// Template: the recommended change.
    pub fix: String,
    /// Texts that the query chooses by keys, in the order of the head.
    pub texts: Vec<ChosenText>,
    /// Source of the knowledge.
    pub source: String,
    /// Rules whose findings are symptoms of this one's; `None` without the key.
    pub explains: Option<Vec<String>>,
    /// Columns of its rows and of a symptom's that must not contradict each other, such as
    /// `process_name`.
    pub equal: Vec<String>,
    /// The older form, in the symptom: its causes by name; `None` without the key.
    pub explained_by: Option<Vec<String>>,
    /// Causes to name first when several fire, in this order; the others follow in the order of
    /// the rules.
    pub prefers: Vec<String>,
    /// Rules whose firing findings explain this one's, in the order in which they are preferred.
    /// [`RuleSet`](crate::RuleSet) fills it in; a rule outside of a set has those of
    /// `explained_by`.
    pub causes: Vec<String>,
    /// Tables that the query reads.
    pub needs: Vec<String>,
    /// Cheap queries, cheapest first: the rule's query runs only if each returns a row.
    pub when: Vec<String>,
    /// The chart of a finding.
    pub chart: Option<Chart>,
    /// How its threshold is mined.
    pub mining: Option<ThresholdSpec>,
    /// For the rules of `weir tune`: notes about the setting.
    pub setting: Option<SettingNotes>,
    /// The query, head excluded.
    pub sql: String,
    /// The file it was read from, or `built in`.
    pub origin: String,
}

impl Rule {
    /// Reads a rule file.
    ///
    /// # Errors
    /// A head that is missing, is no TOML, lacks a required key, has an unknown one or a
    /// value out of range; a query that is missing or has no time bound.
    pub fn parse(file: SourceFile<'_>) -> Result<Self, RuleError> {
        head::parse(file)
    }

    /// The query at `now`: every `$now` replaced by a literal of the type of the column `ts`.
    pub fn sql_at(&self, now: Micros) -> String {
        at(&self.sql, now)
    }

    /// Queries to run at `now`, in order: stop at the first empty result, the last result is the
    /// rule's.
    ///
    /// Planning a query of ten parts costs more CPU time than running it, so a rule may name cheap
    /// conditions (`when`) that are false on a healthy host.
    pub fn queries_at(&self, now: Micros) -> Vec<String> {
        self.queries().into_iter().map(|sql| at(sql, now)).collect()
    }

    /// The queries with `$now` still in them.
    pub fn queries(&self) -> Vec<&str> {
        self.when.iter().chain([&self.sql]).map(String::as_str).collect()
    }

    /// Where to look next for a finding with these evidence rows, with their columns filled in.
    pub fn look_at_of(&self, evidence: &[crate::Row]) -> String {
        match evidence.first() {
            Some(row) => crate::template::render(&self.look_at, row),
            None => self.look_at.clone(),
        }
    }

    /// The chart's query at `now` for a finding with these evidence rows, or `None` without a
    /// chart.
    pub fn chart_sql_at(&self, now: Micros, evidence: &[crate::Row]) -> Option<String> {
        let chart = self.chart.as_ref()?;
        let sql = match evidence.first() {
            Some(row) => crate::template::render_sql(&chart.sql, row),
            None => chart.sql.clone(),
        };
        Some(at(&sql, now))
    }
}

fn at(sql: &str, now: Micros) -> String {
    sql.replace("$now", &literal(now))
}

/// A SQL literal of the type of the column `ts`.
pub(crate) fn literal(time: Micros) -> String {
    format!("arrow_cast('{time}', 'Timestamp(Microsecond, Some(\"+00:00\"))')")
}
