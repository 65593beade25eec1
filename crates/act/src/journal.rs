//! The journal of orders: which were taken, and how they ended. An order's id is on disk before
//! its first step starts, so it never runs twice.
//!
//! ```text
//!   journal.lock   held for milliseconds, to read and write the journal
//!   repair.lock    held while steps run: one repair on the host at a time
//!   journal        one line per order taken or refused, and one per outcome: a checksum and JSON
//! ```
//! A last line without its end is an append that was cut off: its order did not start. Any other
//! line that does not fit its checksum makes the journal unusable, and then nothing runs.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::error::ActError;
use crate::order::{Order, OrderMode, order_id_text};
use crate::reply::{RunReport, RunState};

/// Size at which old lines are dropped.
const COMPACT_BYTES: usize = 1 << 20;
/// Orders that are kept at least.
const KEPT_ORDERS: usize = 100;
/// Age up to which every order is kept, in microseconds: far above the validity of an order.
const KEPT_MICROS: i64 = 3_600_000_000;
/// Bytes of output in the journal.
const OUTPUT_BYTES: usize = 4 << 10;
/// Length of the checksum of a line: hexadecimal digits of the start of SHA-256.
const CHECKSUM_LENGTH: usize = 16;
/// Longest cool-down.
const COOLDOWN_MAX: Duration = Duration::from_secs(86_400);
const HOUR_MICROS: u64 = 3_600_000_000;

/// An order that was taken or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The order's id.
    pub id: String,
    /// When it arrived, in microseconds since 1970.
    pub at: i64,
    /// Action and parameters: what a cool-down is about.
    pub subject: String,
    /// The action alone: what the runs of an hour are about.
    pub action: String,
    /// The order's mode.
    pub mode: OrderMode,
    /// Why it was refused; `None` if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What would be known if the program that ran it died, and later its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<RunReport>,
}

impl JournalEntry {
    fn is_run(&self) -> bool {
        self.mode == OrderMode::Run && self.refused.is_none()
    }

    fn state(&self) -> RunState {
        self.report.as_ref().map_or(RunState::Unknown, |report| report.state)
    }

    /// When it ended, or arrived if that is not known.
    fn end_micros(&self) -> i64 {
        self.report.as_ref().and_then(|report| report.ended).unwrap_or(self.at)
    }
}

fn checksum(json: &[u8]) -> String {
    let digest = digest(&SHA256, json);
    digest.as_ref()[..CHECKSUM_LENGTH / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends the line of an entry.
fn write_line(entry: &JournalEntry, to: &mut Vec<u8>) -> serde_json::Result<()> {
    let json = serde_json::to_vec(entry)?;
    to.extend(checksum(&json).as_bytes());
    to.push(b' ');
    to.extend(json);
    to.push(b'\n');
    Ok(())
}

/// The JSON of a line without its end, if it fits the checksum in front of it. Lines of older versions
/// have none.
fn checked(line: &[u8]) -> Option<&[u8]> {
    if line.starts_with(b"{") {
        return Some(line);
    }
    let (sum, rest) = line.split_at_checked(CHECKSUM_LENGTH)?;
    let json = rest.strip_prefix(b" ")?;
    (checksum(json).as_bytes() == sum).then_some(json)
}

/// What an order acts on: two orders with equal subjects do the same.
pub(crate) fn subject_of(order: &Order) -> String {
    let params: Vec<String> =
        order.params.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{} {}", order.action, params.join(" ")).trim_end().to_owned()
}

/// The journal, locked for its reader.
#[derive(Debug)]
pub struct OrderJournal {
    dir: PathBuf,
    entries: Vec<JournalEntry>,
    by_id: HashMap<String, usize>,
    lock: File,
}

/// As for [`RepairLock`].
impl Drop for OrderJournal {
    fn drop(&mut self) {
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// The right to run steps; ends when it is dropped, or its process dies.
#[derive(Debug)]
pub struct RepairLock {
    lock: File,
}

/// A child between its fork and its exec has the file too; closing ours would not end the lock.
impl Drop for RepairLock {
    fn drop(&mut self) {
        // The lock also ends with the file.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl RepairLock {
    /// Takes the lock; `None` while another repair runs.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub fn take(dir: &Path) -> Result<Option<Self>, ActError> {
        let path = dir.join("repair.lock");
        let lock = open(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { lock })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(why) => Err(ActError::file("lock", &path, why)),
        }
    }
}

fn open(path: &Path) -> Result<File, ActError> {
    let options = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    options.map_err(|why| {
        ActError::file("write", path, why).hint("check the free space of its disk; no order runs")
    })
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> ActError {
    ActError::file("use", path, why)
        .hint("move it away when no order can be on its way any more, which is after a minute")
}

impl OrderJournal {
    /// Opens the journal of a directory, and waits while another process has it.
    ///
    /// # Errors
    /// It cannot be read, or was damaged.
    pub fn open(dir: &Path) -> Result<Self, ActError> {
        let path = dir.join("journal.lock");
        let lock = open(&path)?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|why| ActError::file("lock", &path, why))?;
        let mut journal =
            Self { dir: dir.to_owned(), entries: Vec::new(), by_id: HashMap::new(), lock };
        journal.load()?;
        Ok(journal)
    }

    fn path(&self) -> PathBuf {
        self.dir.join("journal")
    }

    fn load(&mut self) -> Result<(), ActError> {
        let path = self.path();
        let mut file = open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|why| ActError::file("read", &path, why))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let cut = &bytes[whole..];
        if let Some((_, line)) = cut.split_last()
            && !line.starts_with(b"{")
            && checked(line).is_some()
        {
            return Err(damaged(&path, "the end of its last line was changed"));
        }
        if !cut.is_empty() {
            file.set_len(whole as u64)
                .and_then(|()| file.sync_all())
                .map_err(|why| ActError::file("mend", &path, why))?;
        }
        for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let json = checked(&line[..line.len() - 1]).ok_or_else(|| {
                damaged(&path, format!("line {} does not fit its checksum", index + 1))
            })?;
            let entry = serde_json::from_slice(json)
                .map_err(|error| damaged(&path, format!("line {}: {error}", index + 1)))?;
            self.insert(entry);
        }
        Ok(())
    }

    /// The last line of an order counts.
    fn insert(&mut self, entry: JournalEntry) {
        match self.by_id.get(&entry.id) {
            Some(at) => self.entries[*at] = entry,
            None => {
                self.by_id.insert(entry.id.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }

    /// The entry of an order that was seen before.
    pub fn seen(&self, id: &[u8; 16]) -> Option<&JournalEntry> {
        self.by_id.get(&order_id_text(id)).map(|at| &self.entries[*at])
    }

    /// Writes down an order before it runs, or that it was refused; returns when that survives a
    /// loss of power.
    ///
    /// # Errors
    /// It cannot be written: the order must not run.
    pub fn record(&mut self, mut entry: JournalEntry) -> Result<(), ActError> {
        if let Some(report) = &mut entry.report {
            let from = report.output_tail.len().saturating_sub(OUTPUT_BYTES);
            let from = report.output_tail.ceil_char_boundary(from);
            report.output_tail.drain(..from);
        }
        let now = entry.at;
        let mut line = Vec::new();
        write_line(&entry, &mut line)
            .map_err(|error| ActError::file("write", &self.path(), error))?;
        self.insert(entry);
        let path = self.path();
        let is_new = !path.exists();
        let mut file = open(&path)?;
        let length = file.metadata().map(|meta| meta.len()).unwrap_or_default();
        let written = file.write_all(&line).and_then(|()| file.sync_all());
        if let Err(why) = written {
            // A part of the line may be there: cut it off, so that the next line starts a line.
            let _ = file.set_len(length);
            return Err(
                ActError::file("write", &path, why).hint("check the free space of its disk")
            );
        }
        if is_new {
            sync_dir(&self.dir).map_err(|why| ActError::file("sync", &self.dir, why))?;
        }
        if usize::try_from(length).unwrap_or(usize::MAX) > COMPACT_BYTES {
            self.compact(now)?;
        }
        Ok(())
    }

    fn compact(&mut self, now: i64) -> Result<(), ActError> {
        let old = self.entries.len().saturating_sub(KEPT_ORDERS);
        let mut index = 0;
        self.entries.retain(|entry| {
            index += 1;
            index > old || now - entry.at < KEPT_MICROS
        });
        for entry in &mut self.entries {
            if let Some(report) = entry.report.as_mut().filter(|_| now - entry.at >= KEPT_MICROS) {
                report.output_tail.clear();
            }
        }
        let ids = self.entries.iter().enumerate().map(|(at, entry)| (entry.id.clone(), at));
        self.by_id = ids.collect();
        self.rewrite().map_err(|why| ActError::file("write", &self.path(), why))
    }

    fn rewrite(&self) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for entry in &self.entries {
            write_line(entry, &mut bytes)?;
        }
        let next = self.dir.join("journal.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&next, self.path())?;
        sync_dir(&self.dir)
    }

    /// Whether the action's limits allow another run now.
    ///
    /// # Errors
    /// Which limit does not, and for how long.
    pub fn allow(&self, action: &Action, order: &Order, now: i64) -> Result<(), ActError> {
        match order.mode {
            OrderMode::DryRun => Ok(()),
            OrderMode::Run => self.allow_run(action, order, now),
            OrderMode::Undo => self.allow_undo(order),
        }
    }

    fn allow_run(&self, action: &Action, order: &Order, now: i64) -> Result<(), ActError> {
        let id = &action.id;
        // A clock that was set makes entries of the future: they count as well for an hour.
        let recent = self.entries.iter().filter(|entry| {
            entry.is_run() && entry.action == *id && now.abs_diff(entry.at) < HOUR_MICROS
        });
        let (count, limit) = (recent.count(), action.runs_per_hour);
        if count >= limit as usize {
            return Err(ActError::new(format!(
                "`{id}` ran {count} times within an hour, its limit"
            ))
            .hint("raise `runs_per_hour` in its file on the host, or find out why it repeats"));
        }
        let subject = subject_of(order);
        let runs = self.entries.iter().filter(|entry| entry.is_run() && entry.subject == subject);
        let Some((end, wait)) = cooldown(runs, action.cooldown) else { return Ok(()) };
        let wait_micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        let since = now.saturating_sub(end);
        if since.abs() >= wait_micros {
            return Ok(());
        }
        let left = (wait_micros - since.max(0)).div_euclid(1_000_000) + 1;
        Err(ActError::new(format!("`{subject}` cools down for another {left} s"))
            .hint("it doubles with each run that failed or soon followed another"))
    }

    /// An undo needs a run that it takes back, once.
    fn allow_undo(&self, order: &Order) -> Result<(), ActError> {
        let subject = subject_of(order);
        let last = self.entries.iter().rev().find(|entry| {
            entry.subject == subject && entry.refused.is_none() && entry.mode != OrderMode::DryRun
        });
        match last.map(|entry| entry.mode) {
            Some(OrderMode::Run) => Ok(()),
            Some(_) => Err(ActError::new(format!("`{subject}` was undone already"))),
            None => {
                Err(ActError::new(format!("`{subject}` did not run here, so nothing is undone")))
            }
        }
    }
}

/// End of the last run, and how long the next one waits for it.
///
/// The first run of a series waits `base`; each that failed, or came within twice the wait of the
/// one before, doubles it.
fn cooldown<'a>(
    runs: impl Iterator<Item = &'a JournalEntry>,
    base: Duration,
) -> Option<(i64, Duration)> {
    let mut last: Option<(i64, Duration, bool)> = None;
    for run in runs {
        let is_failed = run.state() != RunState::Ended;
        let wait = match last {
            Some((end, wait, was_failed)) => {
                let twice = i64::try_from((wait * 2).as_micros()).unwrap_or(i64::MAX);
                let is_repeated = was_failed || run.at.saturating_sub(end) < twice;
                if is_repeated { (wait * 2).min(COOLDOWN_MAX.max(base)) } else { base }
            }
            None => base,
        };
        last = Some((run.end_micros(), wait, is_failed));
    }
    last.map(|(end, wait, is_failed)| {
        (end, if is_failed { (wait * 2).min(COOLDOWN_MAX.max(base)) } else { wait })
    })
}

fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}
