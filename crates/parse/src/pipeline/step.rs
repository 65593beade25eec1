//! Steps of a pipeline, applied to parsed rows in the order of the file.

use weir_values::number;

use super::condition::Condition;
use crate::problem::{ParserProblem, did_you_mean};
use crate::record::{LineFault, Record, RowKind};
use crate::redact::{Redaction, is_of_the_fleet};

/// Attribute with the tags, joined by commas.
const TAGS: &str = "tags";

/// Actions under one condition.
#[derive(Debug)]
pub(crate) struct PipelineStep {
    pub(crate) when: Option<Condition>,
    pub(crate) actions: Vec<StepAction>,
}

/// One action of a step.
#[derive(Debug)]
pub(crate) enum StepAction {
    Set { field: String, text: String },
    Rename { from: String, to: String },
    Drop { field: String },
    Convert { field: String, conversion: Conversion },
    Tag(String),
    Redact(Redaction),
    Route(RouteTarget),
}

/// Destination of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteTarget {
    Table(RowKind),
    /// With the user's detail.
    Reject(String),
}

impl RouteTarget {
    pub(crate) fn parse(table: &str) -> Result<Self, ParserProblem> {
        match table {
            "request" => Ok(Self::Table(RowKind::Request)),
            "log" => Ok(Self::Table(RowKind::Log)),
            "reject" => Ok(Self::Reject("routed to `reject` by the pipeline".to_owned())),
            other => Err(ParserProblem::new(
                format!("lines cannot go to `{other}`"),
                did_you_mean(other, ["request", "log", "reject"], "request, log or reject"),
            )),
        }
    }
}

/// A conversion of a value's format or unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    Integer,
    Float,
    Boolean,
    Lowercase,
    Uppercase,
    Trim,
    MillisToSeconds,
    MicrosToSeconds,
    NanosToSeconds,
    Bytes,
}

const CONVERSIONS: [(&str, Conversion); 10] = [
    ("integer", Conversion::Integer),
    ("float", Conversion::Float),
    ("boolean", Conversion::Boolean),
    ("lowercase", Conversion::Lowercase),
    ("uppercase", Conversion::Uppercase),
    ("trim", Conversion::Trim),
    ("ms_to_s", Conversion::MillisToSeconds),
    ("us_to_s", Conversion::MicrosToSeconds),
    ("ns_to_s", Conversion::NanosToSeconds),
    ("bytes", Conversion::Bytes),
];

impl Conversion {
    pub(crate) fn parse(name: &str) -> Result<Self, ParserProblem> {
        let found = CONVERSIONS.iter().find(|(known, _)| *known == name);
        found.map(|(_, conversion)| *conversion).ok_or_else(|| {
            let names = CONVERSIONS.iter().map(|(known, _)| *known);
            let all: Vec<&str> = names.clone().collect();
            ParserProblem::new(
                format!("there is no conversion `{name}`"),
                did_you_mean(name, names, &all.join(", ")),
            )
        })
    }

    /// The converted text; `None` if the text cannot be converted.
    fn apply(self, text: &str) -> Option<String> {
        match self {
            Self::Integer => integer(text).map(|value| value.to_string()),
            Self::Float => number::float(text.trim_ascii()).map(|value| value.to_string()),
            Self::Boolean => number::boolean(text.trim_ascii()).map(str::to_owned),
            Self::Lowercase => Some(text.to_lowercase()),
            Self::Uppercase => Some(text.to_uppercase()),
            Self::Trim => Some(text.trim().to_owned()),
            Self::MillisToSeconds => scaled(text, 1e3),
            Self::MicrosToSeconds => scaled(text, 1e6),
            Self::NanosToSeconds => scaled(text, 1e9),
            Self::Bytes => bytes(text),
        }
    }
}

fn integer(text: &str) -> Option<i64> {
    let text = text.trim_ascii();
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => number::integer(text),
    }
}

fn scaled(text: &str, per_second: f64) -> Option<String> {
    number::float(text.trim_ascii()).map(|value| (value / per_second).to_string())
}

/// `12`, `12K`, `1.5 MiB`, `3 GB`: prefixes without `i` are powers of 1,000 only before a `B`.
#[expect(clippy::cast_possible_truncation, reason = "a size of more than 2^63 bytes is cut there")]
fn bytes(text: &str) -> Option<String> {
    let text = text.trim_ascii();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value = number::float(&text[..end])?;
    let unit = text[end..].trim_ascii();
    let base: f64 = if unit.len() == 2 && unit.ends_with(['B', 'b']) { 1e3 } else { 1024.0 };
    let power = match unit.bytes().next().map(|first| first.to_ascii_uppercase()) {
        None | Some(b'B') => 0,
        Some(b'K') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(_) => return None,
    };
    Some(((value * base.powi(power)) as i64).to_string())
}

/// A row while the steps are applied.
pub(crate) struct PipelineRow<'r, 'a> {
    pub(crate) record: &'r mut Record<'a>,
    pub(crate) kind: RowKind,
    pub(crate) line: &'a str,
    pub(crate) source: &'a str,
}

impl<'a> PipelineRow<'_, 'a> {
    /// Runs all steps; a fault rejects the line.
    pub(crate) fn run(&mut self, steps: &[PipelineStep]) -> Result<(), LineFault> {
        for step in steps {
            let is_wanted = step
                .when
                .as_ref()
                .is_none_or(|when| when.holds(self.record, self.kind, self.source));
            if is_wanted {
                for action in &step.actions {
                    self.act(action)?;
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, action: &StepAction) -> Result<(), LineFault> {
        match action {
            StepAction::Set { field, text } => self.set([field, text]),
            StepAction::Rename { from, to } => {
                if let Some(value) = self.text(from) {
                    self.record.clear_value(self.kind, from);
                    self.set([to, value]);
                }
            }
            StepAction::Drop { field } => self.record.clear_value(self.kind, field),
            StepAction::Convert { field, conversion } => {
                if let Some(text) = self.text(field).and_then(|text| conversion.apply(text)) {
                    self.set([field, &text]);
                }
            }
            StepAction::Tag(tag) => self.tag(tag),
            StepAction::Redact(redaction) => redact(self.record, self.kind, redaction),
            StepAction::Route(RouteTarget::Table(kind)) => {
                if *kind != self.kind {
                    self.record.move_to(self.kind, *kind, self.line);
                    self.kind = *kind;
                }
            }
            StepAction::Route(RouteTarget::Reject(detail)) => {
                return Err(LineFault { reason: "routed", detail: detail.clone() });
            }
        }
        Ok(())
    }

    fn text(&mut self, field: &str) -> Option<&'a str> {
        let value = self.record.value(self.kind, field)?;
        Some(self.record.text_of(value)).filter(|text| !text.is_empty())
    }

    /// Sets a field; `%{other}` in the text is replaced by the value of another field.
    fn set(&mut self, [field, text]: [&str; 2]) {
        let text = if text.contains("%{") { self.filled(text) } else { text.to_owned() };
        let (field, text) =
            (self.record.arena.alloc_str(field), self.record.arena.alloc_str(&text));
        self.record.set_value(self.kind, [field, text]);
    }

    fn filled(&mut self, template: &str) -> String {
        let (mut out, mut rest) = (String::new(), template);
        while let Some((before, behind)) = rest.split_once("%{") {
            out.push_str(before);
            let Some((field, after)) = behind.split_once('}') else {
                out.push_str("%{");
                rest = behind;
                continue;
            };
            out.push_str(self.text(field).unwrap_or_default());
            rest = after;
        }
        out + rest
    }

    fn tag(&mut self, tag: &str) {
        let tags = match self.record.attr_value(TAGS) {
            Some(tags) if tags.split(',').any(|known| known == tag) => return,
            Some(tags) => format!("{tags},{tag}"),
            None => tag.to_owned(),
        };
        let tags = self.record.arena.alloc_str(&tags);
        self.record.set_value(self.kind, [TAGS, tags]);
    }
}

/// Redacts every text of a row that may hold client data.
pub(crate) fn redact(record: &mut Record<'_>, kind: RowKind, redaction: &Redaction) {
    let arena = record.arena;
    record.each_text(kind, |name, text| match redaction.apply(text) {
        _ if is_of_the_fleet(name) => text,
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(changed) => arena.alloc_str(&changed),
    });
}
