//! A log file on disk: which stream it is, and where its lines begin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_collect::logs::Identified;
use weir_tables::StreamId;

use super::{STRETCH_BYTES, Sum};
use crate::failure::Failure;

/// Bytes that are read at a time.
const BLOCK_BYTES: usize = 1 << 20;

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

/// A file that the hub knows.
pub(super) struct LogFile {
    file: Identified,
    pub(super) stream: StreamId,
    pub(super) position: u64,
}

/// Where lines begin.
#[derive(Default)]
pub(super) struct Lines {
    /// Of the lines below the hub's position that are not blank, by the number of their stretch.
    pub(super) sums: BTreeMap<u64, Sum>,
    /// Bytes of the content.
    pub(super) size: u64,
    /// Bytes up to the end of the last whole line.
    pub(super) whole_size: u64,
}

impl LogFile {
    /// The inner error is what a person should know of a file that the hub does not know.
    pub(super) fn open(
        path: &Path,
        host: &str,
        mut ask: impl FnMut(&[StreamId]) -> Result<Vec<(StreamId, u64)>, Failure>,
    ) -> Result<Result<Self, String>, Failure> {
        let mut failure = None;
        let asked = Identified::open(path, host, &mut |streams| {
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

    /// Reads the whole content once.
    pub(super) fn lines(&mut self) -> Result<Lines, Failure> {
        let mut lines = Lines::default();
        let position = self.position;
        lines.size = self.each_line(0, |from, to, is_blank, is_whole| {
            if is_whole {
                lines.whole_size = to;
            }
            if from < position && !is_blank {
                lines.sums.entry(from / STRETCH_BYTES).or_default().add(from);
            }
            true
        })?;
        Ok(lines)
    }

    /// Lines `[from, to)` below the position that begin in a stretch; blank ones are left out.
    pub(super) fn starts(&mut self, stretch: u64) -> Result<Vec<(u64, u64)>, Failure> {
        let (start, end) = (stretch * STRETCH_BYTES, (stretch + 1) * STRETCH_BYTES);
        let (mut starts, position) = (Vec::new(), self.position);
        // The line before may reach into the stretch: what is read begins where the line of the byte before it ends.
        let first = if start == 0 { 0 } else { self.line_end(start - 1)? };
        self.each_line(first, |from, to, is_blank, _| {
            if from >= end {
                return false;
            }
            if from < position && !is_blank {
                starts.push((from, to));
            }
            true
        })?;
        Ok(starts)
    }

    /// Offset behind the newline at or after `offset`; the end of the content when there is none.
    fn line_end(&mut self, offset: u64) -> Result<u64, Failure> {
        let mut end = offset;
        self.each_line(offset, |_, to, _, _| {
            end = to;
            false
        })?;
        Ok(end)
    }

    /// Calls `take` with (from, to, is it blank, does it end in a newline) of each line until it returns false; gives the
    /// offset that was reached.
    fn each_line(
        &mut self,
        first: u64,
        mut take: impl FnMut(u64, u64, bool, bool) -> bool,
    ) -> Result<u64, Failure> {
        let mut block = vec![0; BLOCK_BYTES];
        let (mut at, mut from, mut is_blank) = (first, first, true);
        loop {
            let length = self.file.read_at(&mut block, at).map_err(|error| {
                Failure::new(format!("cannot read `{}`: {error}", self.file.path().display()))
            })?;
            if length == 0 {
                break;
            }
            let mut rest = &block[..length];
            while let Some(newline) = memchr::memchr(b'\n', rest) {
                is_blank &= rest[..newline].trim_ascii().is_empty();
                at += newline as u64 + 1;
                rest = &rest[newline + 1..];
                if !take(from, at, is_blank, true) {
                    return Ok(at);
                }
                (from, is_blank) = (at, true);
            }
            is_blank &= rest.trim_ascii().is_empty();
            at += rest.len() as u64;
        }
        if at > from {
            take(from, at, is_blank, false);
        }
        Ok(at)
    }
}
