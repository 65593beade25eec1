//! A log file on disk: which stream it is, and where its lines begin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_collect::logs::{IdentifiedFile, Multiline};
use weir_process::failure::Failure;
use weir_tables::StreamId;

use super::{LineSum, STRETCH_BYTES};

/// Bytes that are read at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes that show which program writes a log.
const HEAD_BYTES: usize = 512;

/// Files that the arguments name; a glob must find something.
pub(super) fn expand(globs: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for glob in globs {
        let found = weir_collect::logs::expand(Path::new(glob));
        if found.is_empty() {
            return Err(Failure::new(format!("cannot audit `{glob}`: there is no such file"))
                .hint("quote a glob so that the shell leaves it alone, or name the file"));
        }
        paths.extend(found);
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Whether rows of a rule have texts of several lines.
pub(super) fn has_text_lines(rule: &Multiline) -> bool {
    !rule.joins_pieces()
}

/// A file that the hub knows.
pub(super) struct LogFile {
    file: IdentifiedFile,
    pub(super) stream: StreamId,
    pub(super) position: u64,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) is_blank: bool,
    /// Whether it begins an object.
    pub(super) is_json: bool,
}

/// Where lines, or events, begin.
#[derive(Default)]
pub(super) struct Lines {
    /// Checksums by stretch, of lines below the hub's position that are not blank.
    pub(super) sums: BTreeMap<u64, LineSum>,
    /// Where the first one of a stretch begins.
    pub(super) firsts: BTreeMap<u64, u64>,
    /// Bytes of the content.
    pub(super) size: u64,
    /// Bytes up to the end of the last whole line.
    pub(super) whole_size: u64,
}

impl Lines {
    fn add(&mut self, event: &[Line], position: u64, has_texts: bool) {
        let Some(first) = event.first().filter(|first| first.from < position) else { return };
        self.firsts.entry(first.from / STRETCH_BYTES).or_insert(first.from);
        let Some(last) = event.iter().rposition(|line| !line.is_blank) else { return };
        let texts = has_texts.then_some(last as u64 + 1);
        self.sums.entry(first.from / STRETCH_BYTES).or_default().add(first.from, texts);
    }
}

impl LogFile {
    /// The inner error is what a person should know of a file that the hub does not know.
    pub(super) fn open(
        path: &Path,
        host: &str,
        mut ask: impl FnMut(&[StreamId]) -> Result<Vec<(StreamId, u64)>, Failure>,
    ) -> Result<Result<Self, String>, Failure> {
        let mut failure = None;
        let asked = IdentifiedFile::open(path, host, &mut |streams| {
            ask(streams).map_err(|error| failure = Some(error)).ok()
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok(match asked {
            Err(error) => Err(error.to_string()),
            Ok(file) => match file.stream() {
                Some((stream, position)) => Ok(Self { file, stream, position }),
                None => Err(format!("the hub does not know it as a log of host `{host}`")),
            },
        })
    }

    /// The rule that the agent applies to a container's log.
    pub(super) fn container_rule(&mut self) -> Option<Multiline> {
        let mut head = vec![0; HEAD_BYTES];
        let length = self.file.read_at(&mut head, 0).ok()?;
        Multiline::of_head(&head[..length])
    }

    /// Reads the whole content once.
    pub(super) fn lines(&mut self, rule: Option<&Multiline>) -> Result<Lines, Failure> {
        let mut lines = Lines::default();
        let (position, has_texts) = (self.position, rule.is_some_and(has_text_lines));
        let (mut splitter, mut event) = (rule.map(Multiline::splitter), Vec::new());
        lines.size = self.each_line(0, rule.is_some(), |line, text, is_whole| {
            if is_whole {
                lines.whole_size = line.to;
            }
            if splitter.as_mut().is_none_or(|splitter| splitter.begins_event(text)) {
                lines.add(&event, position, has_texts);
                event.clear();
            }
            event.push(line);
            true
        })?;
        lines.add(&event, position, has_texts);
        Ok(lines)
    }

    /// Events below the position that begin in the stretch of `first`, where one begins, and the
    /// offset at which the next one does.
    pub(super) fn events(
        &mut self,
        first: u64,
        rule: Option<&Multiline>,
    ) -> Result<(Vec<Vec<Line>>, u64), Failure> {
        let end = (first / STRETCH_BYTES + 1) * STRETCH_BYTES;
        let (mut events, mut next) = (Vec::<Vec<Line>>::new(), u64::MAX);
        let (mut splitter, position) = (rule.map(Multiline::splitter), self.position);
        self.each_line(first, rule.is_some(), |line, text, _| {
            if splitter.as_mut().is_none_or(|splitter| splitter.begins_event(text)) {
                if line.from >= end.min(position) {
                    next = line.from;
                    return false;
                }
                events.push(Vec::new());
            }
            events.last_mut().expect("the first line begins an event").push(line);
            true
        })?;
        Ok((events, next))
    }

    /// Calls `take` with each line, its text if that is wanted (of a long one the front), and
    /// whether it ends in a newline, until it returns false; gives the offset that was reached.
    fn each_line(
        &mut self,
        first: u64,
        has_texts: bool,
        mut take: impl FnMut(Line, &[u8], bool) -> bool,
    ) -> Result<u64, Failure> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut at = first;
        let (mut line, mut text) =
            (Line { from: first, to: first, is_blank: true, is_json: false }, Vec::new());
        loop {
            let length = self.file.read_at(&mut block, at).map_err(|error| {
                Failure::new(format!("cannot read `{}`: {error}", self.file.path().display()))
            })?;
            if length == 0 {
                break;
            }
            for part in block[..length].split_inclusive(|byte| *byte == b'\n') {
                if line.to == line.from {
                    line.is_json = part.starts_with(b"{");
                }
                line.is_blank &= part.trim_ascii().is_empty();
                at += part.len() as u64;
                line.to = at;
                if has_texts && text.len() < BLOCK_BYTES {
                    text.extend_from_slice(part);
                }
                if part.ends_with(b"\n") {
                    if !take(line, &text, true) {
                        return Ok(at);
                    }
                    line = Line { from: at, to: at, is_blank: true, is_json: false };
                    text.clear();
                }
            }
        }
        if line.to > line.from {
            take(line, &text, false);
        }
        Ok(at)
    }
}
