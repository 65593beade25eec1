//! Blocks of rows in a test file: a table, its times, columns and values, as a record batch.
//!
//! A number may be `100 +5/s`: a counter that grows with the time since the block's first row.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use weir_tables::{Batch, Column, DataKind, Kind, Micros, TableSpec, kind, parse_whole_seconds};

use super::NOW;
use crate::RuleError;
use crate::suggest::nearest;

const MAX_ROWS_PER_BLOCK: usize = 100_000;

/// A block being parsed.
#[derive(Debug)]
pub(super) struct RowBlock {
    line: usize,
    table: &'static TableSpec,
    times: Vec<Micros>,
    columns: Vec<&'static Column>,
    rows: Vec<(usize, Vec<String>)>,
}

impl RowBlock {
    /// `TABLE at -5s`, `TABLE each 1s from -9s to 0s`, or `TABLE` with a column `ts`.
    pub(super) fn begin(origin: &str, line: usize, text: &str) -> Result<Self, RuleError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let name = words.first().copied().unwrap_or_default();
        let table = weir_tables::table(name).ok_or_else(|| {
            let known: Vec<&str> = weir_tables::TABLES.iter().map(|spec| spec.name).collect();
            let error = RuleError::new(origin, line, format!("there is no table `{name}`"));
            match nearest(name, &known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`weir tables` lists them"),
            }
        })?;
        let times = times(&words[1..]).ok_or_else(|| {
            RuleError::new(origin, line, "the times of the block are invalid").hint(
                "`TABLE at -5s`, `TABLE each 1s from -9s to 0s`, or `TABLE` and a column `ts`",
            )
        })?;
        Ok(Self { line, table, times, columns: Vec::new(), rows: Vec::new() })
    }

    /// The line of column names, then lines of values.
    pub(super) fn line(
        &mut self,
        origin: &str,
        number: usize,
        text: &str,
    ) -> Result<(), RuleError> {
        let cells = split(text);
        if self.columns.is_empty() {
            self.columns = cells
                .iter()
                .map(|name| {
                    column(self.table, name).map_err(|(what, hint)| match hint {
                        Some(near) => RuleError::new(origin, number, what)
                            .hint(format!("did you mean `{near}`?")),
                        None => RuleError::new(origin, number, what),
                    })
                })
                .collect::<Result<_, _>>()?;
            return Ok(());
        }
        if cells.len() != self.columns.len() {
            let message = format!("{} values for {} columns", cells.len(), self.columns.len());
            return Err(RuleError::new(origin, number, message));
        }
        if (self.rows.len() + 1) * self.times.len().max(1) > MAX_ROWS_PER_BLOCK {
            return Err(RuleError::new(origin, number, "more than 100,000 rows in one block"));
        }
        self.rows.push((number, cells));
        Ok(())
    }
}

fn column(
    table: &'static TableSpec,
    name: &str,
) -> Result<&'static Column, (String, Option<&'static str>)> {
    table.column(name).ok_or_else(|| {
        let known: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        (format!("table `{}` has no column `{name}`", table.name), nearest(name, &known))
    })
}

fn times(words: &[&str]) -> Option<Vec<Micros>> {
    match words {
        [] => Some(Vec::new()),
        ["at", at] => Some(vec![instant(at)?]),
        ["each", step, "from", from, "to", to] => {
            let step =
                i64::try_from(parse_whole_seconds(step).ok()?).ok().filter(|step| *step > 0)?
                    * 1_000_000;
            let (from, to) = (instant(from)?, instant(to)?);
            let count = usize::try_from((to.0 - from.0) / step + 1).ok()?;
            if from > to || count > MAX_ROWS_PER_BLOCK {
                return None;
            }
            let step = usize::try_from(step).ok()?;
            Some((from.0..=to.0).step_by(step).map(Micros).collect())
        }
        _ => None,
    }
}

/// `now`, `-5s`, `+1m`, `0s`: relative to the test's now.
fn instant(text: &str) -> Option<Micros> {
    if text == "now" {
        return Some(NOW);
    }
    let (sign, span) = match text.strip_prefix('-') {
        Some(span) => (-1, span),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let seconds = i64::try_from(parse_whole_seconds(span).ok()?)
        .ok()
        .filter(|seconds| *seconds <= 10_000_000)?;
    Some(Micros(NOW.0 + sign * seconds * 1_000_000))
}

/// Values separated by commas; `"` quotes, `""` inside is a quote.
fn split(text: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                if let Some(cell) = cells.last_mut() {
                    cell.push('"');
                }
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            letter => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(letter);
                }
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// All rows of a block in the table's schema: unnamed columns are NULL, or empty if not nullable.
pub(super) fn batch_of(origin: &str, block: RowBlock) -> Result<Batch, RuleError> {
    let has_ts = block.columns.iter().any(|column| column.name == "ts");
    if has_ts != block.times.is_empty() {
        return Err(RuleError::new(
            origin,
            block.line,
            "the block has no times, or has them twice",
        )
        .hint("either `at`, `each … from … to …`, or a column `ts`"));
    }
    let mut instants: Vec<(Option<Micros>, f64)> = vec![(None, 0.0)];
    if let Some(first) = block.times.first() {
        instants = block.times.iter().map(|at| (Some(*at), at.seconds_since(*first))).collect();
    }
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for column in block.table.columns {
        let place = block.columns.iter().position(|named| named.name == column.name);
        let mut values = ColumnBuilder::new(column);
        for (line, cells) in &block.rows {
            for (ts, elapsed) in &instants {
                let own_words = template_of(&block, column, cells);
                let text = place.map(|at| cells[at].as_str()).or(own_words.as_deref());
                let pushed = match (column.name, ts) {
                    ("ts", Some(ts)) => values.push_time(*ts),
                    _ => values.push(text, *elapsed, column.is_nullable),
                };
                if pushed.is_none() {
                    let text = text.unwrap_or_default();
                    let message = format!("column `{}` cannot hold `{text}`", column.name);
                    return Err(RuleError::new(origin, *line, message));
                }
            }
        }
        arrays.push(values.finish());
    }
    let rows = RecordBatch::try_new(block.table.schema(), arrays)
        .map_err(|error| RuleError::new(origin, block.line, error.to_string()))?;
    Ok(Batch { table: block.table, rows })
}

/// The value of `log.message_template` where a block does not name it: what the parser finds in the
/// message of this program.
fn template_of(block: &RowBlock, column: &Column, cells: &[String]) -> Option<String> {
    if block.table.name != "log" || column.name != "message_template" {
        return None;
    }
    let cell = |name: &str| {
        let at = block.columns.iter().position(|named| named.name == name)?;
        Some(cells[at].as_str())
    };
    weir_tables::message_template(cell("program")?, cell("body")?).map(Cow::into_owned)
}

/// A column's builder by its kind.
enum ColumnBuilder {
    Time(TimestampMicrosecondBuilder),
    Text(StringBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Flag(BooleanBuilder),
    Attrs(Box<<kind::Attrs as Kind>::Builder>),
}

impl ColumnBuilder {
    fn new(column: &Column) -> Self {
        match column.kind {
            DataKind::Time => Self::Time(kind::Time::builder()),
            DataKind::Text => Self::Text(StringBuilder::new()),
            DataKind::Int => Self::Int(Int64Builder::new()),
            DataKind::Float => Self::Float(Float64Builder::new()),
            DataKind::Flag => Self::Flag(BooleanBuilder::new()),
            DataKind::Attrs => Self::Attrs(Box::new(kind::Attrs::builder())),
        }
    }

    fn push_time(&mut self, at: Micros) -> Option<()> {
        match self {
            Self::Time(builder) => builder.append_value(at.0),
            _ => return None,
        }
        Some(())
    }

    /// `None` if the text is no value of the column's type.
    fn push(&mut self, text: Option<&str>, elapsed: f64, is_nullable: bool) -> Option<()> {
        let text = text.unwrap_or_default();
        let is_null = text.is_empty() && is_nullable;
        match self {
            Self::Time(builder) if is_null => builder.append_null(),
            Self::Time(builder) => {
                builder.append_value(instant(if text.is_empty() { "now" } else { text })?.0)
            }
            Self::Text(builder) if is_null => builder.append_null(),
            Self::Text(builder) => builder.append_value(text),
            Self::Int(builder) if is_null => builder.append_null(),
            Self::Int(builder) => builder.append_value(whole(growing(text, elapsed)?)?),
            Self::Float(builder) if is_null => builder.append_null(),
            Self::Float(builder) => builder.append_value(growing(text, elapsed)?),
            Self::Flag(builder) if is_null => builder.append_null(),
            Self::Flag(builder) => builder.append_value(match text {
                "true" => true,
                "false" | "" => false,
                _ => return None,
            }),
            Self::Attrs(builder) => {
                let pairs: Option<Vec<(&str, &str)>> = text
                    .split(';')
                    .filter(|pair| !pair.trim().is_empty())
                    .map(|pair| pair.trim().split_once('='))
                    .collect();
                kind::Attrs::append(builder, &pairs?);
            }
        }
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Flag(builder) => Arc::new(builder.finish()),
            Self::Attrs(builder) => ArrayBuilder::finish(builder.as_mut()),
        }
    }
}

/// `12`, `0.5`, `100 +5/s`; empty is 0.
fn growing(text: &str, elapsed: f64) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let Some((base, rate)) = text.split_once(" +") else { return text.parse().ok() };
    let rate: f64 = rate.trim().strip_suffix("/s")?.parse().ok()?;
    Some(base.trim().parse::<f64>().ok()? + rate * elapsed)
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(value: f64) -> Option<i64> {
    (value.abs() < 9e15).then(|| value.floor() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_and_spans_are_relative() {
        assert_eq!(growing("100 +5/s", 3.0), Some(115.0));
        assert_eq!(growing("-1.5", 3.0), Some(-1.5));
        assert_eq!(growing("1 + 2", 3.0), None);
        assert_eq!(instant("-1m"), Some(Micros(NOW.0 - 60_000_000)));
        assert_eq!(NOW.to_string(), "2026-11-20T12:00:00.000000Z");
        assert_eq!(split("a, \"b, \"\"c\"\"\",, d"), ["a", "b, \"c\"", "", "d"]);
    }
}
