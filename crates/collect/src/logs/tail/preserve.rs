//! Deleted logs that the hub does not accept: copies the unread remnant, closes the file.
//!
//! The space of a deleted file is not free while it is open. A log that is deleted while the hub is
//! unreachable would occupy its disk for as long, so after a while, or when the file system is
//! nearly full, its remnant goes to a `.rest` file. If there is no space for that either and the
//! disk is nearly full, the lines are given up, and the gap becomes a row.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Micros, StreamId};

use super::content::Content;
use super::file::{LAST_BYTES, ObservedState, TailFile};
use super::remnant::{RemnantCopy, RemnantHeader, RemnantWriter};
use super::remnant_content::{BLOCK_BYTES, RemnantContent};
use super::status::TailReport;
use super::types::{Gap, GapReason, NewStream, RestOptions, TailEvent};
use super::{Tailer, label};

const BLOCKS_AT_ONCE: usize = 16;
/// Pause after a copy that found no space.
const RETRY_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct RemnantStore {
    is_read: bool,
    bytes: u64,
    /// Remnants of an earlier agent whose position at the hub is not known yet.
    found: Vec<(RemnantHeader, RemnantContent)>,
    is_queried: bool,
}

enum CopyStep {
    More,
    Done,
    NoSpace(io::Error),
}

impl RemnantStore {
    /// Streams of remnants that an earlier agent left, to query at the hub.
    pub(super) fn queries(
        &mut self,
        options: Option<&RestOptions>,
        report: &mut TailReport,
    ) -> Vec<NewStream> {
        if !std::mem::replace(&mut self.is_read, true)
            && let Some(options) = options
        {
            self.read_directory(&options.dir, report);
        }
        if std::mem::replace(&mut self.is_queried, true) {
            return Vec::new();
        }
        let streams = self.found.iter().map(|(header, _)| NewStream {
            stream: header.stream,
            path: label(&header.path),
            source: Arc::new(header.source.clone()),
            existed_at_start: true,
        });
        streams.collect()
    }

    fn read_directory(&mut self, dir: &Path, report: &mut TailReport) {
        let entries = dir.read_dir().into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "rest"));
        paths.sort();
        for path in paths {
            match RemnantHeader::open(&path) {
                Ok(found) => {
                    self.bytes += found.1.stored_bytes;
                    self.found.push(found);
                }
                Err(error) => report.event(TailEvent::BadRest { path, why: error.to_string() }),
            }
        }
    }

    fn take_found(&mut self, stream: StreamId) -> Option<(RemnantHeader, RemnantContent)> {
        let at = self.found.iter().position(|(header, _)| header.stream == stream)?;
        Some(self.found.swap_remove(at))
    }

    pub(super) fn remove(&mut self, remnant: RemnantContent) {
        self.bytes = self.bytes.saturating_sub(remnant.stored_bytes);
        remnant.remove();
    }

    /// Abandons a copy that is not needed, because the file is finished or gone.
    pub(super) fn abandon_copy(&mut self, copy: &mut RemnantCopy) {
        if let Some(writer) = copy.writer.take() {
            self.bytes = self.bytes.saturating_sub(writer.stored_bytes);
            writer.abandon();
        }
    }

    fn start_copy(&mut self, file: &mut TailFile, dir: &Path) -> io::Result<()> {
        let header = RemnantHeader {
            stream: file.stream,
            acknowledged: file.acknowledged,
            size: file.size,
            identity: file.identity,
            head: file.head.clone(),
            path: file.at.to_path_buf(),
            source: file.source.as_ref().clone(),
        };
        let first = file.acknowledged.saturating_sub(LAST_BYTES as u64);
        let writer = RemnantWriter::create(dir, header, first)?;
        self.bytes += writer.stored_bytes;
        file.observed.copy.writer = Some(writer);
        Ok(())
    }

    fn copy_blocks(&mut self, file: &mut TailFile, limit_bytes: u64) -> CopyStep {
        let Some(writer) = &mut file.observed.copy.writer else { return CopyStep::Done };
        let mut space = limit_bytes.saturating_sub(self.bytes);
        let mut bytes = vec![0; BLOCK_BYTES];
        for _ in 0..BLOCKS_AT_ONCE {
            if writer.next >= writer.size() {
                return CopyStep::Done;
            }
            let wanted = usize::try_from(writer.size() - writer.next).unwrap_or(BLOCK_BYTES);
            let wanted = wanted.min(BLOCK_BYTES);
            let read = match file.content.read_at(&mut bytes[..wanted], writer.next) {
                Ok(0) => return CopyStep::Done,
                Ok(read) => read,
                Err(error) => return CopyStep::NoSpace(error),
            };
            let block = match writer.pack(&bytes[..read]) {
                Ok(block) => block,
                Err(error) => return CopyStep::NoSpace(error),
            };
            if block.len() as u64 > space {
                return CopyStep::NoSpace(io::Error::other("`agent.rest_bytes` is reached"));
            }
            if let Err(error) = writer.add(&block, read) {
                return CopyStep::NoSpace(error);
            }
            space -= block.len() as u64;
            self.bytes += block.len() as u64;
        }
        CopyStep::More
    }
}

impl Tailer {
    /// Handles the hub's answer about a remnant; false when the stream is none.
    pub(super) fn start_remnant(&mut self, stream: StreamId, answer: Option<u64>) -> bool {
        let Some((header, mut remnant)) = self.remnants.take_found(stream) else { return false };
        let position = answer.unwrap_or(header.acknowledged);
        if position >= header.size {
            self.remnants.remove(remnant);
            return true;
        }
        let now = self.scanned_at.unwrap_or_default();
        let RemnantHeader { size, identity, head, path, source, .. } = header;
        let mut observed = ObservedState::nothing(position, now);
        // These bytes distinguish a copy of the log from another one that began alike.
        let count = LAST_BYTES.min(usize::try_from(position).unwrap_or(LAST_BYTES));
        let mut last_bytes = vec![0; count];
        if remnant.read_at(&mut last_bytes, position - count as u64).is_ok_and(|read| read == count)
        {
            observed.last_bytes = last_bytes;
        }
        self.files.insert(TailFile {
            content: Content::Remnant(remnant),
            path: label(&path),
            at: path.as_path().into(),
            multiline: self.scanner.multiline_of(&source, &path),
            source: Arc::new(source),
            identity,
            head,
            stream,
            position,
            acknowledged: position,
            size,
            is_rotated: true,
            is_known: answer.is_some(),
            waits_for: Vec::new(),
            registration: None,
            is_backfill: false,
            observed,
        });
        true
    }

    /// Preserves a deleted file that has occupied its space for too long, a few blocks at a time.
    pub(super) fn preserve_deleted(&mut self, key: u64, now: Micros) {
        let Some(options) = self.options.rests.clone() else { return };
        let quiet_for = self.options.keep_deleted.min(options.after);
        let Some(file) = self.files.get_mut(key) else { return };
        let is_unread = file.observed.is_deleted
            && file.is_rotated
            && !file.content.is_immutable()
            && file.acknowledged < file.size
            && now >= file.observed.grown_at + quiet_for;
        let is_postponed = file.observed.copy.retry_at.is_some_and(|at| now < at);
        if !is_unread || is_postponed {
            return;
        }
        let is_urgent = is_nearly_full(&file.content, options.used_percent);
        if !file.observed.copy.is_under_way() {
            if !is_urgent && now < file.observed.grown_at + options.after {
                return;
            }
            if let Err(error) = self.remnants.start_copy(file, &options.dir) {
                return self.no_space(key, &error, is_urgent, now);
            }
        }
        match self.remnants.copy_blocks(file, options.limit_bytes) {
            CopyStep::More => {}
            CopyStep::Done => self.finish_copy(key, now),
            CopyStep::NoSpace(error) => self.no_space(key, &error, is_urgent, now),
        }
    }

    /// Closes the file; the copy becomes its content.
    fn finish_copy(&mut self, key: u64, now: Micros) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(writer) = file.observed.copy.writer.take() else { return };
        let (copied, stored_bytes) = (writer.next, writer.stored_bytes);
        match writer.finish() {
            Ok(remnant) => {
                self.report.event(TailEvent::Kept {
                    path: file.path.clone(),
                    stream: file.stream,
                    bytes: file.size.saturating_sub(file.acknowledged),
                    stored_bytes,
                    lost_bytes: file.size.saturating_sub(copied.max(file.position)),
                });
                file.content = Content::Remnant(remnant);
                file.observed.is_deleted = false;
                file.observed.stalled_size = None;
                self.files.release_inode(key);
                self.files.queue(key);
            }
            Err(error) => {
                self.remnants.bytes = self.remnants.bytes.saturating_sub(stored_bytes);
                self.no_space(key, &error, false, now);
            }
        }
    }

    /// Handles a copy that does not fit: keeps the file open, or, if space is short, loses lines.
    fn no_space(&mut self, key: u64, error: &io::Error, is_urgent: bool, now: Micros) {
        let Some(file) = self.files.get_mut(key) else { return };
        if is_urgent && file.observed.copy.is_under_way() {
            return self.finish_copy(key, now);
        }
        if is_urgent {
            // Not even the header of a remnant could be written.
            let lost_bytes = file.size.saturating_sub(file.position);
            let gap = Gap {
                to: Some(file.size),
                is_exact: true,
                ..file.gap(file.position, GapReason::Gone, lost_bytes)
            };
            self.forget(key);
            return self.report.gap(gap);
        }
        self.remnants.abandon_copy(&mut file.observed.copy);
        file.observed.copy.retry_at = Some(now + RETRY_EVERY);
        let (path, why) = (file.path.clone(), error.to_string());
        self.report.event(TailEvent::NotKept { path, why });
    }
}

/// Whether the used share of the space available to users exceeds `percent`.
fn is_nearly_full(content: &Content, percent: u64) -> bool {
    rustix::fs::fstatvfs(content.file()).is_ok_and(|fs| {
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        let all = used.saturating_add(fs.f_bavail);
        all > 0 && used.saturating_mul(100) > all.saturating_mul(percent)
    })
}
