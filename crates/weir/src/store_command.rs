//! `weir store check` and `weir store stats`: what a data directory holds, looked at from outside.

use std::path::Path;
use std::process::ExitCode;

use weir_store::{Inspection, TableCost, inspect};

use crate::cli::StoreAction;
use crate::config::Values;
use crate::failure::{EXIT_USAGE, Failure};
use crate::nearest::nearest;
use crate::terminal::say;

/// Runs the command; exit code 1 when something is not as it should be.
pub(crate) fn run(values: &Values, action: &StoreAction) -> Result<ExitCode, Failure> {
    let dir = Path::new(&values.store.dir);
    let look = |is_thorough| {
        inspect(dir, is_thorough)
            .map_err(|error| Failure::new(error.message).hint(error.hint.unwrap_or_default()))
    };
    match action {
        StoreAction::Check { .. } => {
            let found = look(true)?;
            say(checked(&found).trim_end());
            Ok(if found.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        StoreAction::Stats { table, .. } => {
            let found = look(false)?;
            let text = match table {
                None => costs(&found),
                Some(name) => columns(name, cost_of(&found, name)?),
            };
            say(text.trim_end());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn checked(found: &Inspection) -> String {
    let mut text = String::new();
    for (name, cost) in &found.tables {
        text += &format!("{name}: {} files, {} rows\n", cost.file_count, cost.row_count);
    }
    for path in &found.unknown_files {
        text += &format!("not in the manifest (the next start deletes it): {path}\n");
    }
    for (path, why) in &found.problems {
        text += &format!("problem: `{path}` {why}\n");
    }
    let verdict = match found.problems.len() {
        0 => "every file is as the manifest says".to_owned(),
        count => format!("{count} files are not as the manifest says"),
    };
    text + &verdict
}

fn cost_of<'a>(found: &'a Inspection, name: &str) -> Result<&'a TableCost, Failure> {
    found.tables.get(name).ok_or_else(|| {
        let hint = nearest(name, found.tables.keys().copied()).map_or_else(
            || "`weir store stats` lists the tables that have files".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        Failure::new(format!("cannot say what `{name}` costs: it has no files"))
            .hint(hint)
            .code(EXIT_USAGE)
    })
}

fn costs(found: &Inspection) -> String {
    let head = format!(
        "{:<18}{:>7}{:>14}{:>16}{:>14}{:>12}\n",
        "table", "files", "rows", "bytes", "text index", "bytes/row"
    );
    let line = |name: &str, cost: &TableCost| {
        format!(
            "{name:<18}{:>7}{:>14}{:>16}{:>14}{:>12.2}\n",
            cost.file_count,
            cost.row_count,
            cost.byte_count,
            cost.index_bytes,
            per_row(cost.byte_count, cost)
        )
    };
    found.tables.iter().fold(head, |text, (name, cost)| text + &line(name, cost))
}

/// A table's columns, the dearest first.
fn columns(name: &str, cost: &TableCost) -> String {
    let mut parts: Vec<(&str, u64)> =
        cost.column_bytes.iter().map(|(column, bytes)| (column.as_str(), *bytes)).collect();
    let columns: u64 = cost.column_bytes.values().sum();
    parts.push(("(text index)", cost.index_bytes));
    parts.push(("(footers)", cost.byte_count.saturating_sub(columns + cost.index_bytes)));
    parts.sort_by_key(|(column, bytes)| (std::cmp::Reverse(*bytes), *column));
    let head = format!("{:<34}{:>16}{:>12}\n", format!("{name}: column"), "bytes", "bytes/row");
    parts.iter().fold(head, |text, (column, bytes)| {
        text + &format!("{column:<34}{bytes:>16}{:>12.2}\n", per_row(*bytes, cost))
    })
}

#[expect(clippy::cast_precision_loss, reason = "bytes of files are far below 2^53")]
fn per_row(bytes: u64, cost: &TableCost) -> f64 {
    if cost.row_count == 0 { 0.0 } else { bytes as f64 / cost.row_count as f64 }
}
