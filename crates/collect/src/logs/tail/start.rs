//! Starts reading files whose stream is resolved, and drops files that were replaced.
//!
//! The surprising thing: between a query to the hub and its answer a file may be truncated or
//! renamed, so it is checked again before a byte of it is read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Micros, StreamId};

use weir_multiline::Multiline;

use super::content::{Content, is_line_start, recent_start};
use super::file::{ObservedState, TailFile};
use super::fingerprint::FileIdentity;
use super::resolve::WIDE_LIMIT;
use super::resolve_stream::{Candidate, StartPlan, StartPolicy, StartPosition, StreamLookup};
use super::rotated::RotatedPart;
use super::scan::{Orphan, PathState};
use super::types::{Gap, GapReason, TailEvent};
use super::{Tailer, cannot_read, elapsed};

/// Pause between attempts to reopen an unreadable file.
const REOPEN_EVERY: Duration = Duration::from_secs(5);
/// Bytes that show which program writes a log.
const HEAD_BYTES: usize = 512;
/// Stale file handle: the server of a network file system does not know the file any more.
const ESTALE: i32 = 116;

impl Tailer {
    pub(super) fn resolve(&mut self, now: Micros) {
        for (id, mut lookup) in self.resolver.take_complete(&self.options.host) {
            if self.needs_more(&mut lookup) {
                self.resolver.put_back(id, lookup);
                continue;
            }
            let path = lookup.path.clone();
            let stale = lookup.take_stale_live();
            let is_fresh = lookup.policy == StartPolicy::Fresh;
            let label = self.scanner.paths.get(&*path).map(|watched| &*watched.label);
            let names = (&*self.options.host, label);
            let plans = self.resolver.finish(lookup, stale.as_ref(), names, &self.files);
            for plan in plans {
                self.start_file(&path, plan, now);
            }
            if let Some(watched) = self.scanner.paths.get_mut(&*path)
                && stale.is_some()
                && matches!(watched.state, PathState::Resolving(_))
            {
                watched.state = PathState::Absent;
                watched.is_fresh |= is_fresh;
                self.scanner.hasten(&path, now);
            }
        }
    }

    /// Opens older parts where they may be wanted; returns whether the lookup needs more answers.
    fn needs_more(&mut self, lookup: &mut StreamLookup) -> bool {
        if !lookup.wants_older() {
            return false;
        }
        if self.resolver.is_crowded() {
            // Each part is an open file: this lookup waits for its turn.
            lookup.has_news = true;
            return true;
        }
        let (siblings, _) = self.scanner.open_siblings(&lookup.path, WIDE_LIMIT, &self.files);
        lookup.add_older(siblings);
        !lookup.take_answers(&self.options.host)
    }

    fn start_file(&mut self, path: &Path, plan: StartPlan, now: Micros) {
        let Some(watched) = self.scanner.paths.get_mut(path) else { return };
        let StartPlan { candidate, stream, position, registration, ended, .. } = plan;
        let Candidate { mut content, identity, head, size, .. } = candidate;
        // It may have been rotated away before the answer came.
        let is_live = plan.is_live
            && matches!(&watched.state, PathState::Resolving(at) if at.is_same_file(&identity));
        // Other content may have replaced the file while no agent ran, or before the answer came.
        let is_same = match position {
            StartPosition::Known(known) if is_live && !content.is_immutable() => {
                head.is_head_of(&mut content).unwrap_or(true)
                    && (known == size || is_line_start(&mut content, known).unwrap_or(true))
            }
            _ => true,
        };
        let is_known = matches!(position, StartPosition::Known(_));
        let position = match position {
            StartPosition::Known(position) => position,
            StartPosition::Zero => 0,
            StartPosition::Recent(recent) => {
                recent_start(&mut content, size.checked_sub(recent)).unwrap_or(0)
            }
        };
        if self.files.has_stream(stream) || self.files.has_inode(identity.inode()) {
            if is_live {
                watched.state = PathState::Absent;
                self.scanner.hasten(path, now);
            }
            return;
        }
        let older = self
            .files
            .at_path(&watched.label)
            .filter(|file| !file.is_known && !file.is_backfill && file.path == watched.label);
        let waits_for = older.map(|file| file.stream).collect();
        let size = if content.is_immutable() { position + 1 } else { size.max(position) };
        let file = TailFile {
            multiline: watched.multiline.clone().or_else(|| head_rule(&mut content)),
            content,
            path: watched.label.clone(),
            at: watched.at.clone(),
            source: watched.source.clone(),
            identity,
            head,
            stream,
            position,
            acknowledged: position,
            size,
            is_rotated: !is_live,
            is_known,
            waits_for,
            registration,
            is_backfill: plan.is_backfill,
            observed: ObservedState::nothing(position, now),
        };
        let label = watched.label.clone();
        let key = self.files.insert(file);
        if is_live {
            watched.state = PathState::Following(key);
        }
        if let Some(registration) = registration {
            self.resolver.register(registration, key);
        }
        if let Some((stream, read)) = ended {
            self.note_end(label, stream, read);
        }
        if !is_same {
            self.replaced(key, now);
        }
    }

    /// Reports a file that was replaced while no agent ran, without a copy of its old content.
    fn note_end(&mut self, path: Arc<str>, stream: StreamId, read: u64) {
        let event = TailEvent::Truncated { path: path.clone(), stream, is_copy_found: false };
        self.report.event(event);
        self.report.gap(Gap {
            path,
            stream,
            from: read,
            to: None,
            lost_bytes: 0,
            is_exact: false,
            unwatched: None,
            reason: GapReason::Truncated,
        });
    }

    pub(super) fn forget(&mut self, key: u64) -> Option<TailFile> {
        let mut file = self.files.remove(key)?;
        self.remnants.abandon_copy(&mut file.observed.copy);
        self.resolver.give_up(file.stream, file.registration);
        if let Some(reported) = &file.observed.reported {
            self.report.gone.push((reported.path.clone(), Some(file.stream)));
        }
        Some(file)
    }

    /// Handles a file whose content was replaced: the rest of the old content may be in a copy.
    pub(super) fn replaced(&mut self, key: u64, now: Micros) {
        let Some(old) = self.forget(key) else { return };
        let copy = self.find_copy(&old);
        self.note_truncation(&old, copy.as_ref().map(|(_, size)| *size), now);
        let at = old.at.clone();
        if let Some((part, size)) = copy {
            self.files.restore_in_flight(&old);
            self.resolver.take_back(old.stream);
            let size = if part.content.is_immutable() { old.position + 1 } else { size };
            let registration = old.registration;
            let copy_key = self.files.insert(TailFile {
                content: part.content,
                identity: part.identity,
                size,
                is_rotated: true,
                is_backfill: false,
                observed: ObservedState::nothing(old.position, now),
                ..old
            });
            if let Some(registration) = registration {
                self.resolver.register(registration, copy_key);
            }
        }
        self.wait_for_first_line(&at, (key, old.content, old.identity), now);
    }

    /// Treats the content at the path of a replaced file as a new file.
    fn wait_for_first_line(
        &mut self,
        at: &Arc<Path>,
        (key, content, identity): (u64, Content, FileIdentity),
        now: Micros,
    ) {
        let watched = self.scanner.paths.get_mut(&**at).filter(
            |watched| matches!(watched.state, PathState::Following(followed) if followed == key),
        );
        let Some(watched) = watched else {
            // Truncated and renamed between two checks: its content is now a separate part.
            let at = at.clone();
            self.scanner.orphans.push(Orphan { at, content, identity, size: 0, grown_at: now });
            return;
        };
        watched.state = PathState::Waiting(content, identity);
        watched.is_fresh = true;
        watched.entered_at = now;
        self.scanner.hasten(at, now);
    }

    /// The copy that copytruncate made of `old`, if it contains more than was read, and its size.
    fn find_copy(&mut self, old: &TailFile) -> Option<(RotatedPart, u64)> {
        self.scanner.listings.clear();
        let parts = self.scanner.listings.siblings(&old.at);
        self.scanner.listings.clear();
        let mut copies = parts.into_iter().filter_map(|mut part| {
            let is_copy = !part.identity.is_same_file(&old.identity)
                && !self.files.has_inode(part.identity.inode())
                && old.is_copied_to(&mut part.content);
            is_copy.then_some(part)
        });
        copies.find_map(|part| {
            let size = match part.content.known_size().ok()? {
                Some(size) => size,
                // The size of a compressed copy is known only at its end; it will be read that far.
                None => old.position.max(old.size),
            };
            (size >= old.position).then_some((part, size))
        })
    }

    /// Reports a truncation: bytes that were seen, but neither read nor copied, are lost.
    fn note_truncation(&mut self, old: &TailFile, copy_size: Option<u64>, now: Micros) {
        self.report.event(TailEvent::Truncated {
            path: old.path.clone(),
            stream: old.stream,
            is_copy_found: copy_size.is_some(),
        });
        let from = copy_size.unwrap_or(0).max(old.position);
        let lost_bytes = old.size.saturating_sub(from);
        self.report.gap(Gap {
            unwatched: Some(elapsed(old.observed.checked_at, now)),
            ..old.gap(from, GapReason::Truncated, lost_bytes)
        });
    }

    /// Reopens an unreadable file: it may have another handle (network file systems), or be gone.
    pub(super) fn reopen(&mut self, key: u64, error: &io::Error, now: Micros) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.observed.reopened_at.is_some_and(|at| now < at + REOPEN_EVERY && now >= at) {
            return;
        }
        file.observed.reopened_at = Some(now);
        file.observed.error = Some(cannot_read(&file.path, error));
        let here = Content::open(&file.at).ok().and_then(|content| {
            let identity = FileIdentity::of(&content).ok()?;
            Some(RotatedPart { content, identity })
        });
        self.scanner.listings.clear();
        let parts = here.into_iter().chain(self.scanner.listings.siblings(&file.at));
        let found = parts.into_iter().find_map(|mut part| {
            let is_it = part.identity.is_same_file(&file.identity)
                && file.head.is_head_of(&mut part.content).unwrap_or(false);
            is_it.then_some(part.content)
        });
        if let Some(found) = found {
            file.content = found;
            file.observed.error = None;
            self.files.queue(key);
        } else if error.raw_os_error() == Some(ESTALE) {
            let lost_bytes = file.size.saturating_sub(file.position);
            let gap = Gap {
                unwatched: Some(elapsed(file.observed.checked_at, now)),
                ..file.gap(file.position, GapReason::Gone, lost_bytes)
            };
            self.forget(key);
            self.report.gap(gap);
        }
    }
}

/// The rule that the first line of a log shows: that of a container runtime, or of the export
/// format of the journal.
fn head_rule(content: &mut Content) -> Option<Arc<Multiline>> {
    let mut head = [0; HEAD_BYTES];
    let length = content.read_at(&mut head, 0).ok()?;
    Multiline::of_head(&head[..length]).map(Arc::new)
}
