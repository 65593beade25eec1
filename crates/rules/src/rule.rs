//! One rule: a TOML head between `/*---` and `---*/`, then one SQL query. The format is `docs/rules.md`.
//!
//! The head is a comment to every SQL engine, so a rule file can be pasted into a SQL editor as it is once `$now` is
//! replaced by a time.

use std::fmt;

use weir_tables::Micros;

use crate::mine::{Scale, Side};
use crate::{RuleError, head};

/// Where it can hurt, from the visitor's side to the disk.
pub const TIERS: &[&str] =
    &["client", "edge", "wire", "kernel", "proxy", "app", "db", "host", "disk", "log", "weir"];

/// How much a finding matters: the order is the urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Worth knowing; nobody needs to act now.
    Note,
    /// Somebody should act in working hours.
    Mail,
    /// Somebody must act now.
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
pub struct Mining {
    /// What `$threshold` is in the rule's query; `None` when it is compared with its own week instead.
    pub value: Option<f64>,
    /// Unit of the values, as `unit_of` prints it.
    pub unit: String,
    /// On which side an event lies.
    pub side: Side,
    /// The scale on which the week is compared.
    pub scale: Scale,
    /// Whether a subject that has no row counts as 0.
    pub absent_is_zero: bool,
    /// The query of the values of five minutes: `ts`, `host`, `subject`, `value` of what lies in `$from` to `$to`.
    pub series: String,
}

impl Mining {
    /// The series' query for a span: `$from` is in it, `$to` is not.
    pub fn series_between(&self, from: Micros, to: Micros) -> String {
        self.series.replace("$from", &literal(from)).replace("$to", &literal(to))
    }
}

/// What else must be known of a rule that proposes a setting: the section `[setting]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What can go wrong when it is set.
    pub risk: String,
    /// What it works together with, or against.
    pub interaction: String,
}

/// A rule as read from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// `family.name`, the same as the file's name without `.sql`.
    pub id: String,
    /// What it finds, for lists.
    pub title: String,
    /// Where it hurts, one of [`TIERS`]; the answer's column `tier` overrides it.
    pub tier: String,
    /// How much it matters; the answer's column `class` overrides it.
    pub class: Class,
    /// How long the condition must hold before the finding fires.
    pub for_seconds: u64,
    /// How often the query runs.
    pub every_seconds: u64,
    /// How long the condition must be gone before the finding is resolved.
    pub clear_seconds: u64,
    /// The answer's columns that, with `host`, tell one subject from another.
    pub key: Vec<String>,
    /// Template: what it is about, for a person.
    pub subject: String,
    /// Template: one sentence with the numbers.
    pub summary: String,
    /// Template: what it means.
    pub why: String,
    /// What to look at next.
    pub look_at: String,
    /// When it stays silent although one might expect it, and which false alarms remain.
    pub silent_when: String,
    /// Template: what to change.
    pub fix: String,
    /// Where the knowledge comes from.
    pub source: String,
    /// Rules whose firing findings explain this one: it is lowered to a note while they fire.
    pub explained_by: Vec<String>,
    /// Tables that the query reads.
    pub needs: Vec<String>,
    /// Cheap queries, the cheapest first, that must each have a row for the rule's query to be asked at all.
    pub when: Vec<String>,
    /// How to draw it.
    pub chart: Option<Chart>,
    /// How its threshold is mined.
    pub mining: Option<Mining>,
    /// For the rules of `weir tune`: what else must be known of the setting.
    pub setting: Option<Setting>,
    /// The query, head excluded.
    pub sql: String,
    /// The file it was read from, or `built in`.
    pub origin: String,
}

impl Rule {
    /// Reads a rule file.
    ///
    /// # Errors
    /// A head that is missing, is no TOML, lacks a required key, has an unknown one or a value out of range; a query
    /// that is missing or has no time bound.
    pub fn parse(origin: &str, text: &str) -> Result<Self, RuleError> {
        head::parse(origin, text)
    }

    /// The query at `now`: every `$now` replaced by a literal of the type of the column `ts`.
    pub fn sql_at(&self, now: Micros) -> String {
        at(&self.sql, now)
    }

    /// What to ask at `now`, in order: the first empty answer ends it, and the last answer is the rule's.
    ///
    /// Planning a query of ten parts takes the processor longer than running it, so a rule may name cheap conditions
    /// (`when`) that are false on a healthy host.
    pub fn queries_at(&self, now: Micros) -> Vec<String> {
        self.queries().into_iter().map(|sql| at(sql, now)).collect()
    }

    /// The same for no moment yet: `$now` stands where it will be.
    pub fn queries(&self) -> Vec<&str> {
        self.when.iter().chain([&self.sql]).map(String::as_str).collect()
    }

    /// Where to look next for a finding with these evidence rows: its columns are filled in.
    pub fn look_at_of(&self, evidence: &[crate::Row]) -> String {
        match evidence.first() {
            Some(row) => crate::template::render(&self.look_at, row),
            None => self.look_at.clone(),
        }
    }

    /// The chart's query at `now` for a finding with these evidence rows, or `None` without a chart.
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

/// A time of the type of the column `ts`.
pub(crate) fn literal(time: Micros) -> String {
    format!("arrow_cast('{time}', 'Timestamp(Microsecond, Some(\"+00:00\"))')")
}
