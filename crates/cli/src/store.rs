//! `weir store`: what a data directory holds, looked at from outside; damage mended; rows written
//! to files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use weir_config::Values;
use weir_config::flags::DataArgs;
use weir_config::place::read_token;
use weir_hub::cluster;
use weir_hub::slow_tier;
use weir_hub::store_failure;
use weir_hub::up::store_options;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::say;
use weir_store::{
    ErrorKind, FileRepair, Inspection, RestoredFiles, Store, StoreOptions, TableCost, inspect,
    inspect_cluster, repair, repair_cluster, undelete, undelete_cluster,
};
use weir_tables::nearest;

use crate::client::{Client, unreachable_weir};

/// Inspect, flush or repair the files of a data directory or a cluster.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir store check                               read every file: is it what the manifest says?
  weir store stats                               files, rows and bytes of each table
  weir store stats request --data /srv/weir      what each column of a table costs")]
pub(crate) struct StoreArgs {
    /// What to look at.
    #[command(subcommand)]
    pub(crate) action: StoreAction,
}

/// Commands about stored files.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreAction {
    /// Read every row of every file: decoding, order, times, page and text index, and unreferenced
    /// files.
    ///
    /// Ends with 1 when a file is not as the manifest says.
    Check {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Set damaged files aside, take up files that the manifest does not name; the weir that has
    /// the directory must be stopped.
    ///
    /// Rows of such a file that can be read and are nowhere else are appended again; the file moves
    /// to `lost/` below the data directory. Nothing is deleted. Ends with 1 when rows are lost.
    /// Hubs of a cluster keep running meanwhile, and their files that the manifest does not name
    /// stay in place.
    Repair {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Restore files that expired by their age within the last day; the weir that has the directory
    /// must be stopped.
    ///
    /// Set the clock right or raise `store.retention_days` first, or the next start deletes them
    /// again. Hubs of a cluster keep running meanwhile.
    Undelete {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Write what is in the log and in memory to files now, by way of the running weir if there is
    /// one.
    Flush {
        #[command(flatten)]
        data: DataArgs,
        #[command(flatten)]
        running: RunningArgs,
    },
    /// What tables cost, or the columns of one.
    Stats {
        /// The table whose columns are listed.
        #[arg(value_name = "TABLE")]
        table: Option<String>,
        #[command(flatten)]
        data: DataArgs,
    },
}

/// The weir that has a data directory.
#[derive(Args, Debug)]
pub(crate) struct RunningArgs {
    /// The running weir. Default: WEIR_URL, else where `api.listen` says.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file whose first line is its login.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl StoreAction {
    /// The flag `--data`.
    pub(crate) fn data(&self) -> Option<&PathBuf> {
        match self {
            Self::Check { data }
            | Self::Repair { data }
            | Self::Undelete { data }
            | Self::Flush { data, .. }
            | Self::Stats { data, .. } => data.data.as_ref(),
        }
    }
}

/// Runs the command; exit code 1 when something is not as it should be.
pub(crate) fn run(values: &Values, action: &StoreAction) -> Result<ExitCode, Failure> {
    let dir = Path::new(&values.store.dir);
    let slow = slow_tier::options(&values.store)?;
    let manifest = cluster::manifest(values)?;
    let look = |is_thorough| match &manifest {
        Some(manifest) => {
            inspect_cluster(dir, slow.as_ref(), manifest, is_thorough).map_err(store_failure)
        }
        None => inspect(dir, slow.as_ref(), is_thorough).map_err(store_failure),
    };
    match action {
        StoreAction::Check { .. } => {
            let found = look(true)?;
            say(checked(&found).trim_end());
            Ok(if found.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        StoreAction::Repair { .. } => mend(values),
        StoreAction::Undelete { .. } => restore_expired(values),
        StoreAction::Flush { running, .. } => {
            let place = flush(values, running)?;
            say(&format!("every row of `{place}` is in a file"));
            Ok(ExitCode::SUCCESS)
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

fn mend(values: &Values) -> Result<ExitCode, Failure> {
    let options = options(values)?;
    let (dir, slow) = (&values.store.dir, options.slow.as_ref());
    let mended = match cluster::manifest(values)? {
        Some(manifest) => {
            repair_cluster(dir, slow, &manifest, &SystemClock).map_err(store_failure)?
        }
        None => {
            inspect(dir, slow, false).map_err(store_failure)?;
            repair(&options).map_err(store_failure)?
        }
    };
    let text: String = mended.iter().map(told).collect();
    let is_lost = mended.iter().any(|file| file.rows_lost != Some(0));
    say(&(text + &format!("{} files mended", mended.len())));
    Ok(if is_lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn restore_expired(values: &Values) -> Result<ExitCode, Failure> {
    let options = options(values)?;
    let (dir, slow) = (&values.store.dir, options.slow.as_ref());
    let restored = match cluster::manifest(values)? {
        Some(manifest) => undelete_cluster(dir, slow, &manifest, &SystemClock),
        None => {
            inspect(dir, slow, false).map_err(store_failure)?;
            undelete(&options)
        }
    };
    let RestoredFiles { file_count, byte_count, missing } = restored.map_err(store_failure)?;
    let gone: String =
        missing.iter().map(|path| format!("`{path}` is gone: it was deleted already\n")).collect();
    say(&format!("{gone}{file_count} files restored ({} MiB)", byte_count >> 20));
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What became of a file, with what is lost.
fn told(file: &FileRepair) -> String {
    let FileRepair { path, why, rows_taken, rows_known, .. } = file;
    let mut text = format!("`{path}` {why}\n");
    if *rows_taken > 0 {
        text += &format!("  {rows_taken} rows were read and are kept again\n");
    }
    if *rows_known > 0 {
        text += &format!("  {rows_known} rows are in other files or in the log anyway\n");
    }
    let times = file.times.map(|(from, to)| format!(", of the times from {from} to {to}"));
    let of = file.table.map(|table| format!(" of `{table}`")).unwrap_or_default();
    match file.rows_lost {
        Some(0) => {}
        Some(rows) => text += &format!("  lost: {rows} rows{of}{}\n", times.unwrap_or_default()),
        None => text += &format!("  lost: an unknown number of rows{of}\n"),
    }
    match &file.kept_at {
        Some(place) => text + &format!("  the file is now `{place}`\n"),
        None => text + "  there is no file\n",
    }
}

fn options(values: &Values) -> Result<StoreOptions, Failure> {
    store_options(values, Arc::new(SystemClock))
}

/// Brings all rows into files: by way of the weir that has the directory, or without one. Whose
/// they are.
pub(crate) fn flush(values: &Values, running: &RunningArgs) -> Result<String, Failure> {
    let options = options(values)?;
    let url = running.url.clone().or_else(|| std::env::var("WEIR_URL").ok());
    // A hub of several enters what it has by itself, at its next start.
    if url.is_none() && cluster::manifest(values)?.is_none() {
        inspect(&values.store.dir, options.slow.as_ref(), false).map_err(store_failure)?;
        match Store::open(StoreOptions { copies: None, ..options }) {
            Ok(store) => {
                flush_here(&store)?;
                return Ok(values.store.dir.display().to_string());
            }
            Err(error) if error.kind == ErrorKind::Locked => {}
            Err(error) => return Err(store_failure(error)),
        }
    }
    let url = url.unwrap_or_else(|| values.api.listen.clone());
    flush_hub(values, running, &url)?;
    Ok(url)
}

/// Has the weir at `url` bring its rows into files.
pub(crate) fn flush_hub(values: &Values, running: &RunningArgs, url: &str) -> Result<(), Failure> {
    let token = running.token_file.as_deref().or(values.api.token_file.as_deref());
    let token = token.map(read_token).transpose()?;
    let client = Client::new(url, token.as_deref(), Duration::from_secs(300))?;
    let answer = client
        .post("/api/store/flush", b"{}")
        .map_err(|error| unreachable_weir(&client, &error))?;
    if answer.status != 200 {
        return Err(answer.failure());
    }
    Ok(())
}

/// Flushes the store when no other process has the directory.
fn flush_here(store: &Store) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime =
        runtime.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    runtime.block_on(store.close()).map_err(store_failure)?;
    Ok(())
}

fn checked(found: &Inspection) -> String {
    let mut text = String::new();
    for (name, cost) in &found.tables {
        text += &format!("{name}: {} files, {} rows\n", cost.file_count, cost.row_count);
    }
    for path in &found.unknown_files {
        text += &format!("not in the manifest (the next start deletes it): {path}\n");
    }
    if found.unsealed_files > 0 {
        let count = found.unsealed_files;
        text += &format!("without a checksum in the manifest, of an older weir: {count} files\n");
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
        Failure::new(format!("cannot show the size of `{name}`: it has no files"))
            .hint(hint)
            .code(EXIT_USAGE)
    })
}

fn costs(found: &Inspection) -> String {
    if found.tables.is_empty() {
        return "no row is in a file yet: `weir store flush` writes them\n".to_owned();
    }
    let head = format!(
        "{:<18}{:>7}{:>14}{:>16}{:>16}{:>14}{:>12}\n",
        "table", "files", "rows", "bytes", "of them slow", "text index", "bytes/row"
    );
    found.tables.iter().fold(head, |text, (name, cost)| text + &cost_line(name, cost))
}

fn cost_line(name: &str, cost: &TableCost) -> String {
    format!(
        "{name:<18}{:>7}{:>14}{:>16}{:>16}{:>14}{:>12.2}\n",
        cost.file_count,
        cost.row_count,
        cost.byte_count,
        cost.slow_bytes,
        cost.index_bytes,
        per_row(cost.byte_count, cost)
    )
}

/// A table's columns, largest first.
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
