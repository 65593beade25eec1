//! `weir audit`: what is on disk against what the tables hold, line by line, without moving the lines.
//!
//! Each row of a log says its stream and the offset of its line. The lines of a file are summed up per stretch of 256 KiB: how
//! many begin there, and the sums of their offsets and of the squares. The hub sums its rows in the same way. Only
//! where the sums differ the offsets themselves are asked for, so a healthy log of many gigabytes costs a few kilobytes.

mod ask;
mod disk;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cli::{AuditArgs, AuditFormat};
use crate::config::place::{host_name, read_token};
use crate::failure::Failure;
use crate::terminal::say;
use ask::Hub;
use disk::{Lines, LogFile};

/// Exit code when gaps or lines that are there twice were found.
const EXIT_BROKEN: u8 = 1;
/// Exit code when it could not be found out.
const EXIT_UNKNOWN: u8 = 2;
/// Bytes of a log whose lines are summed up together.
const STRETCH_BYTES: u64 = 256 << 10;
/// Stretches that are looked into line by line, of one file.
const MAX_STRETCHES: usize = 1000;
/// The pause between two looks of `--wait`.
const LOOK: Duration = Duration::from_millis(200);

/// Lines that begin in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    lines: u64,
    /// Of offsets within the stretch.
    offsets: u64,
    /// Of their squares.
    squares: u64,
}

impl Sum {
    fn add(&mut self, offset: u64) {
        let within = offset % STRETCH_BYTES;
        self.lines += 1;
        self.offsets += within;
        self.squares += within * within;
    }
}

/// Bytes `[from, to)` whose lines are in no table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    from: u64,
    to: u64,
    lines: u64,
}

/// What one file's audit found.
#[derive(Debug, Default)]
struct Audit {
    path: PathBuf,
    /// Why the file could not be compared; `None` when it was.
    unknown: Option<String>,
    stream: Option<i64>,
    size: u64,
    /// How far the hub has it.
    position: u64,
    /// Lines below the position, blank ones not among them.
    lines: u64,
    rows: u64,
    gaps: Vec<Missing>,
    /// Offsets of lines that have more than one row, and how many rows.
    doubled: Vec<(u64, u64)>,
    /// Rows where no line begins.
    strangers: Vec<u64>,
    /// Stretches that differ and were not looked into.
    unseen_stretches: usize,
    delay: Option<ask::Delay>,
}

impl Audit {
    fn is_broken(&self) -> bool {
        !self.gaps.is_empty()
            || !self.doubled.is_empty()
            || !self.strangers.is_empty()
            || self.unseen_stretches > 0
    }

    fn missing_lines(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.lines).sum()
    }
}

/// Runs the command.
pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    audit(args).map_err(|failure| failure.code(EXIT_UNKNOWN))
}

fn audit(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let hub = Hub::new(args.url.clone(), token.as_deref())?;
    let host = args.host.clone().unwrap_or_else(host_name);
    let paths = disk::expand(&args.files)?;
    let end = Instant::now() + Duration::from_secs(args.wait);
    let mut audits = Vec::new();
    for path in paths {
        audits.push(one(&hub, &host, path, args, end)?);
    }
    say(&match args.format {
        AuditFormat::Text => report::text(&audits),
        AuditFormat::Json => report::json(&audits),
    });
    Ok(if audits.iter().any(Audit::is_broken) {
        EXIT_BROKEN.into()
    } else if audits.iter().any(|audit| audit.unknown.is_some()) {
        EXIT_UNKNOWN.into()
    } else {
        ExitCode::SUCCESS
    })
}

/// One file. With `--wait` the hub is asked again until it has what is on disk now.
fn one(
    hub: &Hub,
    host: &str,
    path: PathBuf,
    args: &AuditArgs,
    end: Instant,
) -> Result<Audit, Failure> {
    loop {
        let mut audit = Audit { path: path.clone(), ..Audit::default() };
        let mut file = match LogFile::open(&path, host, |streams| hub.positions(streams))? {
            Ok(file) => file,
            Err(why) => {
                audit.unknown = Some(why);
                if Instant::now() >= end {
                    return Ok(audit);
                }
                pause();
                continue;
            }
        };
        audit.stream = Some(file.stream.short());
        audit.position = file.position;
        let lines = file.lines()?;
        audit.size = lines.size;
        if lines.whole_size > audit.position && Instant::now() < end {
            pause();
            continue;
        }
        compare(hub, &mut file, &lines, args.multiline, &mut audit)?;
        return Ok(audit);
    }
}

#[expect(clippy::disallowed_methods, reason = "paces a loop that waits for the hub")]
fn pause() {
    std::thread::sleep(LOOK);
}

fn compare(
    hub: &Hub,
    file: &mut LogFile,
    lines: &Lines,
    is_multiline: bool,
    audit: &mut Audit,
) -> Result<(), Failure> {
    let stream = file.stream.short();
    let rows = hub.sums(stream, file.position)?;
    audit.lines = lines.sums.values().map(|sum| sum.lines).sum();
    audit.rows = rows.values().map(|sum| sum.lines).sum();
    audit.delay = hub.delay(stream)?;
    let stretches = lines.sums.keys().chain(rows.keys()).copied();
    let mut differing: Vec<u64> =
        stretches.filter(|at| lines.sums.get(at) != rows.get(at)).collect();
    differing.sort_unstable();
    differing.dedup();
    audit.unseen_stretches = differing.len().saturating_sub(MAX_STRETCHES);
    for stretch in differing.into_iter().take(MAX_STRETCHES) {
        let on_disk = file.starts(stretch)?;
        let in_tables = hub.offsets(stream, stretch, file.position)?;
        look(&on_disk, &in_tables, is_multiline, audit);
    }
    Ok(())
}

/// Compares one stretch line by line. `on_disk` are the lines' ranges, `in_tables` offsets with their numbers of rows; both
/// sorted. With multi-line events a line without a row belongs to the event above it.
fn look(on_disk: &[(u64, u64)], in_tables: &[(u64, u64)], is_multiline: bool, audit: &mut Audit) {
    let mut rows = in_tables.iter().peekable();
    for &(from, to) in on_disk {
        while let Some((offset, _)) = rows.next_if(|(offset, _)| *offset < from) {
            audit.strangers.push(*offset);
        }
        match rows.next_if(|(offset, _)| *offset == from) {
            Some((offset, count)) if *count > 1 => audit.doubled.push((*offset, *count)),
            Some(_) => {}
            None if is_multiline => {}
            None => match audit.gaps.last_mut() {
                Some(gap) if gap.to == from => {
                    gap.to = to;
                    gap.lines += 1;
                }
                _ => audit.gaps.push(Missing { from, to, lines: 1 }),
            },
        }
    }
    audit.strangers.extend(rows.map(|(offset, _)| offset));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_doubles_and_strangers_are_told_apart() {
        let mut audit = Audit::default();
        let on_disk = [(0, 10), (10, 20), (20, 30), (30, 45), (50, 60)];
        look(&on_disk, &[(0, 1), (30, 3), (41, 1), (50, 1), (77, 1)], false, &mut audit);
        assert_eq!(audit.gaps, [Missing { from: 10, to: 30, lines: 2 }]);
        assert_eq!(audit.doubled, [(30, 3)]);
        assert_eq!(audit.strangers, [41, 77]);
        assert!(audit.is_broken());
        let mut audit = Audit::default();
        look(&on_disk, &[(0, 1), (30, 1)], true, &mut audit);
        assert!(!audit.is_broken(), "{audit:?}");
    }

    #[test]
    fn sums_differ_when_a_line_is_missing_doubled_or_moved() {
        let sum = |offsets: &[u64]| {
            let mut sum = Sum::default();
            offsets.iter().for_each(|offset| sum.add(*offset));
            sum
        };
        let whole = sum(&[0, 100, 200, 300]);
        for other in
            [&[0, 100, 200][..], &[0, 100, 200, 200], &[0, 100, 250, 250], &[0, 0, 300, 300]]
        {
            assert_ne!(sum(other), whole, "{other:?}");
        }
    }
}
