//! `weir parse --replay`: what a pipeline would make of lines that weir has, against what was made
//! of them.
//!
//! Raw lines are kept of rejects, and of `log` rows whose body is the whole line; both are queried
//! from the running weir. The pipeline reads them again, and the difference is shown. Nothing is
//! changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_hub::cells::plain;
use weir_hub::explain::LineReader;
use weir_parse::{Parsers, Pipeline, RowText};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::say;
use weir_tables::{Micros, sql_literal};

use super::show::clean;
use crate::client::{Client, unreachable_weir};
use crate::parse::args::ParseArgs;

/// Examples that are shown of each kind of change.
const EXAMPLES: usize = 3;
/// Columns that tell when and where a line was read, and not what it says.
const ABOUT_READING: [&str; 9] =
    ["host", "observed_ts", "source", "source_offset", "stream", "tier", "parser", "detail", "raw"];

/// A line as it was stored.
struct StoredLine {
    source: String,
    line: String,
    observed: Micros,
    table: &'static str,
    columns: BTreeMap<String, String>,
}

/// What changed how often, with examples.
#[derive(Default)]
struct ReplayChanges {
    counts: BTreeMap<String, (usize, Vec<String>)>,
    fields: BTreeMap<String, usize>,
    lines: usize,
    unchanged: usize,
}

/// Asks, reads again, and prints the difference.
pub(super) fn run(
    args: &ParseArgs,
    parsers: &Parsers,
    pipeline: Option<Arc<Pipeline>>,
) -> Result<(), Failure> {
    let Some(pipeline) = pipeline else {
        return Err(Failure::new("cannot replay: no pipeline is named")
            .hint("weir parse --replay --pipeline shop.toml")
            .code(EXIT_USAGE));
    };
    let client = Client::of(args.url.as_deref(), args.token_file.as_deref())?;
    let mut stored = Vec::new();
    for table in ["reject", "log"] {
        stored.extend(ask(&client, table, args)?);
    }
    let mut changes = ReplayChanges::default();
    for old in stored.iter().filter(|old| args.path.is_some() || pipeline.takes(&old.source)) {
        let reading =
            LineReader::new(parsers.clone(), Some(Arc::clone(&pipeline)), &old.source, "replay");
        let new = reading.rows(&mut reading.parser(), &old.line, old.observed);
        if let Some(new) = new.first() {
            changes.add(old, new);
        }
    }
    say(&changes.text(&pipeline, args));
    Ok(())
}

fn ask(client: &Client, table: &'static str, args: &ParseArgs) -> Result<Vec<StoredLine>, Failure> {
    let sql = query(table, args);
    let body = json!({"sql": sql, "limit": args.rows}).to_string();
    let answer = client
        .post("/api/sql", body.as_bytes())
        .map_err(|error| unreachable_weir(client, &error))?;
    if answer.status != 200 {
        return Err(answer.failure());
    }
    let answer: Value = serde_json::from_slice(&answer.body).map_err(|error| {
        Failure::new(format!("cannot read the answer: {error}")).hint("is it a weir?")
    })?;
    let names: Vec<&str> = answer["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| column["name"].as_str().unwrap_or_default())
        .collect();
    let rows = answer["rows"].as_array().into_iter().flatten();
    Ok(rows.filter_map(|row| stored(table, &names, row.as_array()?)).collect())
}

/// Rows of weir itself are no lines of a log.
fn query(table: &str, args: &ParseArgs) -> String {
    let path = args.path.as_deref().map_or_else(
        || "source not like 'weir:%'".to_owned(),
        |path| format!("source like {}", sql_literal(&path.replace('*', "%"))),
    );
    let since = sql_literal(&format!("{} seconds", args.since));
    format!("select * from {table} where ts > now() - interval {since} and {path} order by ts desc")
}

fn stored(table: &'static str, names: &[&str], row: &[Value]) -> Option<StoredLine> {
    let mut columns = BTreeMap::new();
    for (name, value) in names.iter().zip(row).filter(|(_, value)| !value.is_null()) {
        match value.as_object() {
            Some(attrs) => columns
                .extend(attrs.iter().map(|(key, value)| (format!("attrs.{key}"), plain(value)))),
            None => drop(columns.insert((*name).to_owned(), plain(value))),
        }
    }
    let line = columns.get(if table == "reject" { "raw" } else { "body" })?.clone();
    let read = columns.get(if table == "reject" { "ts" } else { "observed_ts" })?;
    Some(StoredLine {
        source: columns.get("source")?.clone(),
        observed: weir_hub::cells::parse_time(read)?,
        line,
        table,
        columns,
    })
}

impl ReplayChanges {
    fn add(&mut self, old: &StoredLine, new: &RowText) {
        self.lines += 1;
        let now: BTreeMap<String, String> = new
            .columns
            .iter()
            .map(|(name, _, text)| ((*name).to_owned(), text.clone()))
            .chain(new.attrs.iter().map(|(key, value)| (format!("attrs.{key}"), value.clone())))
            .collect();
        let mut fields: Vec<&str> = Vec::new();
        for name in now.keys().chain(old.columns.keys()) {
            let is_about_line = !ABOUT_READING.contains(&name.as_str());
            let (was, is) = (old.columns.get(name), now.get(name));
            if is_about_line && was != is && !(is_empty(was) && is_empty(is)) {
                fields.push(name);
            }
        }
        fields.sort_unstable();
        fields.dedup();
        let is_same_reject = old.table == "reject" && new.table == "reject";
        if old.table == new.table && (fields.is_empty() || is_same_reject) {
            self.unchanged += 1;
            return;
        }
        let kind = if old.table == new.table {
            format!("{} with other fields", old.table)
        } else {
            format!("{} to {}", old.table, new.table)
        };
        let (count, examples) = self.counts.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(example(old, &now, &fields));
        }
        for name in fields {
            *self.fields.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn text(&self, pipeline: &Pipeline, args: &ParseArgs) -> String {
        let mut out = format!(
            "{}: {} lines of the last {} s read again, {} would be the same\n",
            pipeline.name(),
            self.lines,
            args.since,
            self.unchanged
        );
        if self.lines == 0 {
            out += "no raw line of a log that the pipeline takes; --path names others\n";
        }
        for (kind, (count, examples)) in &self.counts {
            out += &format!("\n{count} {kind}\n");
            examples.iter().for_each(|example| out += example);
        }
        if !self.fields.is_empty() {
            let fields: Vec<String> =
                self.fields.iter().map(|(name, count)| format!("{name} {count}")).collect();
            out += &format!("\nfields that change: {}\n", fields.join(", "));
        }
        out.trim_end().to_owned()
    }
}

fn is_empty(text: Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

fn example(old: &StoredLine, now: &BTreeMap<String, String>, fields: &[&str]) -> String {
    let line: String = clean(&old.line).chars().take(160).collect();
    let mut out = format!("  {line}\n");
    for name in fields {
        if let Some(text) = old.columns.get(*name) {
            out += &format!("    - {name}: {}\n", clean(text));
        }
        if let Some(text) = now.get(*name) {
            out += &format!("    + {name}: {}\n", clean(text));
        }
    }
    out
}
