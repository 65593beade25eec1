//! `weir backup` and `weir restore`: copies of a data directory, whether a weir runs on it or not,
//! or of a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_config::Values;
use weir_config::flags::DataArgs;
use weir_hub::cluster;
use weir_hub::slow_tier;
use weir_hub::store_failure;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::say;
use weir_store::{
    BackedUp, ManifestOptions, SlowPlace, Verified, backup, backup_cluster, backup_snapshots,
    cluster_hubs, restore, restore_cluster, verify_backup,
};
use weir_tables::Clock;

use crate::store::{RunningArgs, flush, flush_hub};

/// Back up a data directory, while weir runs or not; with `cluster.manifest` a whole cluster.
///
/// Rows are written to files first, at all hubs of a cluster that are there. Files that an earlier
/// snapshot of the backup has are not copied again. A backup that is killed leaves the earlier
/// snapshots whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir backup /mnt/backup                        a snapshot of now
  weir backup s3://copies/weir                   into a bucket, which `store.slow_endpoint` and its neighbours reach
  weir backup /mnt/backup --keep 14              the same; of older ones only the newest 13 stay
  weir backup /mnt/backup --list                 the snapshots that there are
  weir backup /mnt/backup --verify               read all of them and compare checksums")]
pub(crate) struct BackupArgs {
    /// The directory of the backup, made when it is missing; or s3://BUCKET/PREFIX, with keys and
    /// endpoint of the configuration (`store.slow_…`) or of the environment (`AWS_…`).
    #[arg(value_name = "PLACE")]
    to: String,
    /// Only list the snapshots.
    #[arg(long, conflicts_with_all = ["verify", "keep"])]
    list: bool,
    /// Only read every byte of every snapshot; ends with 1 when one is not what was written.
    #[arg(long, conflicts_with = "keep")]
    verify: bool,
    /// Snapshots to keep, including this one; older ones are removed.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    running: RunningArgs,
}

/// Restore a backup to a new data directory, or with `cluster.manifest` and without `--data` to a
/// cluster.
///
/// A cluster begins in a schema of PostgreSQL that has no tables of weir, and in an empty bucket or
/// directory (`store.slow_path`). Backups of a hub alone and of a cluster can become either.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir restore /mnt/backup --data /srv/new                             the newest snapshot
  weir restore /mnt/backup --data /srv/new --at 2026-11-22T00:15:00Z   the newest that is not later
  weir restore /mnt/backup --config new.toml                           into the cluster that new.toml says")]
pub(crate) struct RestoreArgs {
    /// The directory of the backup, or s3://BUCKET/PREFIX.
    #[arg(value_name = "PLACE")]
    from: String,
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
    let to = slow_tier::place(&values.store, &args.to)?;
    if args.list {
        list(&to)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.verify {
        return verify(&to);
    }
    if let Some(manifest) = cluster::manifest(values)? {
        return of_cluster(values, args, &manifest, &to);
    }
    let dir = &values.store.dir;
    if matches!(&to, SlowPlace::Directory(to) if slow_tier::is_inside(to, dir)) {
        let text = format!("cannot back up `{}` into itself", dir.display());
        return Err(Failure::new(text).hint("name a directory on another disk").code(EXIT_USAGE));
    }
    flush(values, &args.running)?;
    let slow = slow_tier::options(&values.store)?;
    let done = backup(dir, slow.as_ref(), &to, SystemClock.now(), args.keep.map(usize::from))
        .map_err(store_failure)?;
    say(&told(&done));
    Ok(ExitCode::SUCCESS)
}

/// All hubs that are there write what they have to files first.
fn of_cluster(
    values: &Values,
    args: &BackupArgs,
    manifest: &ManifestOptions,
    to: &SlowPlace,
) -> Result<ExitCode, Failure> {
    let hubs = cluster_hubs(manifest).map_err(store_failure)?;
    for hub in &hubs.there {
        flush_hub(values, &args.running, &hub.address)?;
    }
    let slow = slow_tier::options(&values.store)?;
    let keep = args.keep.map(usize::from);
    let done = backup_cluster(slow.as_ref(), manifest, to, SystemClock.now(), keep)
        .map_err(store_failure)?;
    say(&told(&done));
    for name in &hubs.gone {
        say(&format!("the hub `{name}` is not there: rows that only its log has are not in it"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `weir restore`.
pub(crate) fn bring_back(values: &Values, args: &RestoreArgs) -> Result<(), Failure> {
    if args.data.data.is_none() {
        if let Some(manifest) = cluster::manifest(values)? {
            return to_cluster(values, args, &manifest);
        }
        return Err(Failure::new("cannot restore: no destination is given")
            .hint("weir restore PLACE --data NEW, or for a cluster set `cluster.manifest`")
            .code(EXIT_USAGE));
    }
    let dir = &values.store.dir;
    let from = slow_tier::place(&values.store, &args.from)?;
    let done = restore(from, args.at.as_deref(), dir).map_err(store_failure)?;
    say(&format!(
        "`{}` is as of {}: {} files, {} bytes",
        dir.display(),
        done.snapshot,
        done.file_count,
        done.byte_count
    ));
    Ok(())
}

fn to_cluster(
    values: &Values,
    args: &RestoreArgs,
    manifest: &ManifestOptions,
) -> Result<(), Failure> {
    let slow = slow_tier::options(&values.store)?;
    let (at, now) = (args.at.as_deref(), SystemClock.now());
    let from = slow_tier::place(&values.store, &args.from)?;
    let done = restore_cluster(
        from,
        at,
        slow.as_ref(),
        manifest,
        &|path: &str| cluster::is_shared(path),
        now,
    )
    .map_err(store_failure)?;
    say(&format!(
        "the cluster is as of {}: {} files, {} bytes; start hubs with empty data directories",
        done.snapshot, done.file_count, done.byte_count
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

fn list(place: &SlowPlace) -> Result<(), Failure> {
    for snapshot in backup_snapshots(place).map_err(store_failure)? {
        match snapshot.file_count {
            Some(files) => {
                say(&format!("{}: {files} files, {} bytes", snapshot.name, snapshot.byte_count));
            }
            None => say(&format!("{}: damaged, its list cannot be read", snapshot.name)),
        }
    }
    Ok(())
}

fn verify(place: &SlowPlace) -> Result<ExitCode, Failure> {
    let Verified { snapshots, file_count, byte_count, problems } =
        verify_backup(place).map_err(store_failure)?;
    for problem in &problems {
        say(&format!("problem: {problem}"));
    }
    say(&format!(
        "{snapshots} snapshots: {file_count} files, {byte_count} bytes are as they were written, {} problems",
        problems.len()
    ));
    if !problems.is_empty() {
        say(
            "delete damaged files of `objects`: the next `weir backup` copies again what is still in the data directory",
        );
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
