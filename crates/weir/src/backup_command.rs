//! `weir backup` and `weir restore`: copies of a data directory, whether a weir runs on it or not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weir_store::{BackedUp, Verified, backup, backup_snapshots, restore, verify_backup};
use weir_tables::Clock;

use crate::cli::DataArgs;
use crate::clock::SystemClock;
use crate::config::Values;
use crate::failure::{EXIT_USAGE, Failure};
use crate::slow_tier;
use crate::store_command::{RunningArgs, flush};
use crate::terminal::say;

/// Copy a data directory into a backup, beside a running weir or without one.
///
/// Rows are written to files first. Files that an earlier snapshot of the backup has are not copied again. A backup that is
/// killed leaves the earlier snapshots whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir backup /mnt/backup                        a snapshot of now
  weir backup /mnt/backup --keep 14              the same; of older ones only the newest 13 stay
  weir backup /mnt/backup --list                 the snapshots that there are
  weir backup /mnt/backup --verify               read all of them and compare checksums")]
pub(crate) struct BackupArgs {
    /// The directory of the backup; made when it is missing.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Only list the snapshots.
    #[arg(long, conflicts_with_all = ["verify", "keep"])]
    list: bool,
    /// Only read every byte of every snapshot; ends with 1 when one is not what was written.
    #[arg(long, conflicts_with = "keep")]
    verify: bool,
    /// So many snapshots stay, this one among them; older ones are removed.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    running: RunningArgs,
}

/// Make a data directory from a backup.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir restore /mnt/backup --data /srv/new                             the newest snapshot
  weir restore /mnt/backup --data /srv/new --at 2026-11-22T00:15:00Z   the newest that is not later")]
pub(crate) struct RestoreArgs {
    /// The directory of the backup.
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// A snapshot's name, or a time in UTC: the newest snapshot that is not later.
    #[arg(long, value_name = "NAME")]
    at: Option<String>,
    #[command(flatten)]
    data: DataArgs,
}

impl BackupArgs {
    /// The flag `--data`.
    pub(crate) fn dir(&self) -> Option<&PathBuf> {
        self.data.data.as_ref()
    }
}

impl RestoreArgs {
    /// The flag `--data`.
    pub(crate) fn dir(&self) -> Option<&PathBuf> {
        self.data.data.as_ref()
    }
}

/// Runs `weir backup`.
pub(crate) fn run(values: &Values, args: &BackupArgs) -> Result<ExitCode, Failure> {
    if args.list {
        list(&args.to)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.verify {
        return verify(&args.to);
    }
    let dir = &values.store.dir;
    let inside = |one: &Path, other: &Path| {
        let real = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        real(one).starts_with(real(other))
    };
    if inside(&args.to, dir) {
        let text = format!("cannot back up `{}` into itself", dir.display());
        return Err(Failure::new(text).hint("name a directory on another disk").code(EXIT_USAGE));
    }
    flush(values, &args.running)?;
    let slow = slow_tier::options(&values.store)?;
    let done = backup(dir, slow.as_ref(), &args.to, SystemClock.now(), args.keep.map(usize::from))?;
    say(&told(&done));
    Ok(ExitCode::SUCCESS)
}

/// Runs `weir restore`.
pub(crate) fn bring_back(values: &Values, args: &RestoreArgs) -> Result<(), Failure> {
    if args.data.data.is_none() {
        return Err(Failure::new("cannot restore: where to is not said")
            .hint("weir restore DIR --data NEW")
            .code(EXIT_USAGE));
    }
    let dir = &values.store.dir;
    let done = restore(&args.from, args.at.as_deref(), dir)?;
    say(&format!(
        "`{}` is as of {}: {} files, {} bytes",
        dir.display(),
        done.snapshot,
        done.file_count,
        done.byte_count
    ));
    Ok(())
}

fn told(done: &BackedUp) -> String {
    let mut text = format!(
        "{}: {} files, {} bytes; copied {} files, {} bytes",
        done.snapshot, done.file_count, done.byte_count, done.new_files, done.new_bytes
    );
    for name in &done.removed {
        text += &format!("\nremoved {name}");
    }
    text
}

fn list(dir: &Path) -> Result<(), Failure> {
    for snapshot in backup_snapshots(dir)? {
        match snapshot.file_count {
            Some(files) => {
                say(&format!("{}: {files} files, {} bytes", snapshot.name, snapshot.byte_count));
            }
            None => say(&format!("{}: damaged, its list cannot be read", snapshot.name)),
        }
    }
    Ok(())
}

fn verify(dir: &Path) -> Result<ExitCode, Failure> {
    let Verified { snapshots, file_count, byte_count, problems } = verify_backup(dir)?;
    for problem in &problems {
        say(&format!("problem: {problem}"));
    }
    say(&format!(
        "{snapshots} snapshots: {file_count} files, {byte_count} bytes are as they were written, {} problems",
        problems.len()
    ));
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
