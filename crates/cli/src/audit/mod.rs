//! `weir audit`: what is on disk against what the tables hold, line by line, without moving the
//! lines.
//!
//! Each row of a log has its stream and the offset of its line. The lines of a file are summed up
//! per stretch of 256 KiB: their number, and the sums of their offsets and of the squares. The hub
//! sums its rows in the same way. Only where the sums differ the offsets themselves are compared,
//! so a healthy log of many gigabytes costs a few kilobytes.
//!
//! Where an event can have several lines, the tailer's own splitter determines its first line, and
//! each row has its number of lines: a missing line is also detected in the middle of an event.

pub(crate) mod args;
mod ask;
mod disk;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_agent_core::watch::named_by_user;
use weir_collect::logs::{Multiline, PRESETS, is_log_or_part};
use weir_config::Values;
use weir_config::place::host_name;
use weir_process::failure::Failure;
use weir_process::terminal::say;

use crate::audit::args::{AuditArgs, AuditFormat};
use ask::{Hub, Row};
use disk::{Line, Lines, LogFile};

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

/// Lines, or events, that begin in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LineSum {
    lines: u64,
    /// Of offsets within the stretch.
    offsets: u64,
    /// Of their squares.
    squares: u64,
    /// Lines of each event, where it can have several; else 0.
    texts: u64,
}

impl LineSum {
    /// Adds an event that begins at `offset`; `texts` counts its lines, if it can have several.
    fn add(&mut self, offset: u64, texts: Option<u64>) {
        let within = offset % STRETCH_BYTES;
        self.lines += 1;
        self.offsets += within;
        self.squares += within * within;
        self.texts += texts.unwrap_or(0);
    }
}

/// Bytes `[from, to)` whose lines are in no table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingLines {
    from: u64,
    to: u64,
    lines: u64,
}

/// The result of one file's audit.
#[derive(Debug, Default)]
struct Audit {
    path: PathBuf,
    /// Why the file could not be compared; `None` when it was.
    unknown: Option<String>,
    stream: Option<i64>,
    /// Whether several lines can be one event; then events are counted instead of lines.
    is_multiline: bool,
    size: u64,
    /// How far the hub has it.
    position: u64,
    /// Lines below the position, blank ones not among them.
    lines: u64,
    rows: u64,
    gaps: Vec<MissingLines>,
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

    fn miss(&mut self, line: &Line) {
        match self.gaps.last_mut() {
            Some(gap) if gap.to == line.from => {
                gap.to = line.to;
                gap.lines += 1;
            }
            _ => self.gaps.push(MissingLines { from: line.from, to: line.to, lines: 1 }),
        }
    }

    fn missing_lines(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.lines).sum()
    }
}

/// Runs the command.
pub(crate) fn run(args: &AuditArgs, values: &Values) -> Result<ExitCode, Failure> {
    audit(args, values).map_err(|failure| failure.code(EXIT_UNKNOWN))
}

fn audit(args: &AuditArgs, values: &Values) -> Result<ExitCode, Failure> {
    let given = args.multiline.as_deref().map(rule_of_text).transpose()?;
    let hub = Hub::new(args.url.as_deref(), args.token_file.as_deref())?;
    let host = args.host.clone().unwrap_or_else(host_name);
    let paths = disk::expand(&args.files)?;
    let end = Instant::now() + Duration::from_secs(args.wait);
    let mut audits = Vec::new();
    for path in paths {
        let rule = given.as_ref().or_else(|| rule_of_path(&path, values));
        audits.push(one(&hub, &host, path, rule, end)?);
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

/// What `--multiline` says.
fn rule_of_text(text: &str) -> Result<Multiline, Failure> {
    let bad = |why: String| Failure::new(format!("cannot use `--multiline {text}`: {why}"));
    match text.split_once('=') {
        Some(("start", pattern)) => Multiline::with_start(pattern).map_err(bad),
        Some(("continuation", pattern)) => Multiline::with_continuation(pattern).map_err(bad),
        _ => Multiline::preset(text).ok_or_else(|| {
            bad("there is no such rule".to_owned())
                .hint(format!("{}, start=PATTERN or continuation=PATTERN", PRESETS.join(", ")))
        }),
    }
}

/// The multi-line rule of `[[logs]]` for a log or a rotated part of it; the first match wins, as in
/// the agent.
fn rule_of_path<'a>(path: &Path, values: &'a Values) -> Option<&'a Multiline> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut rules = values.logs.iter().filter_map(|log| Some((&log.path, log.multiline.as_ref()?)));
    let is_its = |pattern: &str| is_log_or_part(&named_by_user(pattern).path, &path);
    rules.find(|(pattern, _)| is_its(pattern)).map(|(_, rule)| rule)
}

/// Audits one file. With `--wait` the hub is polled until it has everything that is on disk now.
fn one(
    hub: &Hub,
    host: &str,
    path: PathBuf,
    rule: Option<&Multiline>,
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
        let of_container = if rule.is_none() { file.container_rule() } else { None };
        let rule = rule.or(of_container.as_ref());
        audit.is_multiline = rule.is_some();
        audit.stream = Some(file.stream.short());
        audit.position = file.position;
        let lines = file.lines(rule)?;
        audit.size = lines.size;
        if lines.whole_size > audit.position && Instant::now() < end {
            pause();
            continue;
        }
        compare(hub, &mut file, &lines, rule, &mut audit)?;
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
    rule: Option<&Multiline>,
    audit: &mut Audit,
) -> Result<(), Failure> {
    let stream = file.stream.short();
    let has_texts = rule.is_some_and(disk::has_text_lines);
    let rows = hub.sums(stream, file.position, has_texts)?;
    audit.lines = lines.sums.values().map(|sum| sum.lines).sum();
    audit.rows = rows.values().map(|sum| sum.lines).sum();
    audit.delay = hub.delay(stream)?;
    let stretches = lines.sums.keys().chain(rows.keys()).copied();
    let differing = stretches.filter(|at| lines.sums.get(at) != rows.get(at));
    // What begins in a stretch may reach into the next ones, where nothing begins.
    let begin = |at: u64| lines.firsts.range(..=at).next_back().map_or(0, |(_, first)| *first);
    let mut begins: Vec<u64> = differing.map(begin).collect();
    begins.sort_unstable();
    begins.dedup();
    audit.unseen_stretches = begins.len().saturating_sub(MAX_STRETCHES);
    for begin in begins.into_iter().take(MAX_STRETCHES) {
        let (events, end) = file.events(begin, rule)?;
        let mut in_tables = hub.offsets(stream, begin..end.min(file.position), has_texts)?;
        if rule.is_some() && !has_texts {
            // A row has all pieces of its message.
            in_tables.iter_mut().for_each(|row| row.lines = None);
        }
        look(&events, &in_tables, audit);
    }
    Ok(())
}

/// Compares one stretch event by event, each of them its lines; both sides sorted.
fn look(on_disk: &[Vec<Line>], in_tables: &[Row], audit: &mut Audit) {
    let mut rows = in_tables.iter().peekable();
    for event in on_disk {
        let mut reached = 0;
        for (number, line) in event.iter().enumerate() {
            while let Some(row) = rows.next_if(|row| row.offset < line.from) {
                audit.strangers.push(row.offset);
            }
            match rows.next_if(|row| row.offset == line.from) {
                Some(row) => {
                    if row.count > 1 || (number > 0 && number < reached) {
                        audit.doubled.push((row.offset, row.count.max(2)));
                    }
                    reached = reached.max(row.lines.map_or(event.len(), |lines| number + lines));
                    // How many lines an object had does not show in what was made of it.
                    if event[0].is_json {
                        reached = event.len();
                    }
                }
                None if number < reached || line.is_blank => {}
                None => audit.miss(line),
            }
        }
    }
    audit.strangers.extend(rows.map(|row| row.offset));
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn line(Range { start: from, end: to }: Range<u64>) -> Line {
        Line { from, to, is_blank: false, is_json: false }
    }

    fn row(offset: u64, lines: usize, count: u64) -> Row {
        Row { offset, count, lines: Some(lines) }
    }

    #[test]
    fn gaps_doubles_and_strangers_are_told_apart() {
        let mut audit = Audit::default();
        let on_disk = [(0, 10), (10, 20), (20, 30), (30, 45), (50, 60)];
        let on_disk: Vec<Vec<Line>> = on_disk.map(|(from, to)| vec![line(from..to)]).into();
        let rows = [(0, 1), (30, 3), (41, 1), (50, 1), (77, 1)];
        look(&on_disk, &rows.map(|(offset, count)| row(offset, 1, count)), &mut audit);
        assert_eq!(audit.gaps, [MissingLines { from: 10, to: 30, lines: 2 }]);
        assert_eq!(audit.doubled, [(30, 3)]);
        assert_eq!(audit.strangers, [41, 77]);
        assert!(audit.is_broken());
    }

    #[test]
    fn a_line_is_missing_in_the_middle_of_an_event_and_an_event_as_a_whole() {
        let trace = vec![line(0..10), line(10..20), line(20..30), line(30..40)];
        let events = [trace, vec![line(40..50)], vec![line(50..60), line(60..70)]];
        let check = |rows: &[Row]| {
            let mut audit = Audit::default();
            look(&events, rows, &mut audit);
            (audit.gaps, audit.doubled, audit.strangers)
        };
        let whole = [row(0, 4, 1), row(40, 1, 1), row(50, 2, 1)];
        assert_eq!(check(&whole), (vec![], vec![], vec![]));
        // An event that was cut because nothing came for a while is whole in its parts.
        let cut = [row(0, 2, 1), row(20, 2, 1), row(40, 1, 1), row(50, 2, 1)];
        assert_eq!(check(&cut), (vec![], vec![], vec![]));
        let inside = [row(0, 3, 1), row(40, 1, 1), row(50, 2, 1)];
        assert_eq!(check(&inside).0, [missing(30..40, 1)]);
        let event = [row(0, 4, 1), row(40, 1, 1)];
        assert_eq!(check(&event).0, [missing(50..70, 2)]);
        let begin = [row(20, 2, 1), row(40, 1, 1), row(50, 2, 1)];
        assert_eq!(check(&begin).0, [missing(0..20, 2)]);
        let twice = [row(0, 4, 1), row(20, 2, 1), row(40, 1, 1), row(50, 2, 1)];
        assert_eq!(check(&twice).1, [(20, 2)]);
    }

    fn missing(Range { start: from, end: to }: Range<u64>, lines: u64) -> MissingLines {
        MissingLines { from, to, lines }
    }

    #[test]
    fn sums_differ_when_a_line_is_missing_doubled_or_moved() {
        let whole = sum(&[0, 100, 200, 300]);
        for other in
            [&[0, 100, 200][..], &[0, 100, 200, 200], &[0, 100, 250, 250], &[0, 0, 300, 300]]
        {
            assert_ne!(sum(other), whole, "{other:?}");
        }
    }

    fn sum(offsets: &[u64]) -> LineSum {
        let mut sum = LineSum::default();
        offsets.iter().for_each(|offset| sum.add(*offset, None));
        sum
    }
}
