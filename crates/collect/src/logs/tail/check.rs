//! Checks of a [`Tailer`]: what is at each path, and whether files have grown or moved.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use weir_tables::Micros;

use super::Tailer;
use super::content::Content;
use super::file::{MetadataCheck, TailFile};
use super::fingerprint::{FileIdentity, PartAge};
use super::resolve_stream::{Candidate, StartPolicy, StreamLookup};
use super::rotated::SIBLING_LIMIT;
use super::scan::{Orphan, PathState, WatchedPath};
use super::types::{GapReason, ReadFrom, TailEvent};

const BACKFILL_PARTS: usize = 200;

/// Files that are younger hold lines of a program that has just started.
const NEW_FILE: Duration = Duration::from_secs(60);

/// Whether the file was created within the last minute; `false` if the file system has no creation time.
fn is_new(path: &Path) -> bool {
    let made = path.metadata().and_then(|metadata| metadata.created());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < NEW_FILE))
}

impl Tailer {
    /// Aligns the watched paths with the sources, and lets go of files at dropped paths.
    pub(super) fn expand(&mut self, now: Micros) {
        let dropped = self.scanner.expand(now, self.options.max_paths);
        if dropped.is_empty() {
            return;
        }
        for watched in dropped {
            if watched.reported.is_some() {
                self.report.gone.push((watched.label, None));
            }
            if let PathState::Following(key) = watched.state
                && let Some(file) = self.files.get_mut(key)
            {
                file.is_rotated = true;
                self.files.hasten(key, now);
            }
        }
        self.resolver.retain_paths(&self.scanner.paths);
    }

    pub(super) fn check_files(&mut self, now: Micros) {
        for key in self.files.take_due(now) {
            self.check_file(key, now);
            self.files.plan(key, now);
        }
    }

    fn check_file(&mut self, key: u64, now: Micros) {
        self.files.release(key);
        self.files.watch_if_idle(key, now);
        let Some(file) = self.files.get_mut(key) else { return };
        let was_deleted = file.observed.is_deleted;
        let was_size = file.size;
        match file.check_metadata(now, self.options.stale_for) {
            Ok(MetadataCheck::Replaced) => return self.replaced(key, now),
            Ok(MetadataCheck::Moved) => self.hasten_path_of(key, now),
            Ok(MetadataCheck::Cut { lost_bytes: 0 }) => {}
            Ok(MetadataCheck::Cut { lost_bytes }) => {
                let from = was_size - lost_bytes;
                self.report.gap(file.gap(from, GapReason::Truncated, lost_bytes));
            }
            Ok(MetadataCheck::Same) => {}
            Err(error) => return self.reopen(key, &error, now),
        }
        let Some(file) = self.files.get_mut(key) else { return };
        if file.is_readable(now, self.options.half_line_after) {
            if was_deleted && file.size > was_size && file.is_rotated {
                let (path, size) = (file.path.clone(), file.size);
                self.report.event(TailEvent::WriterOnDeleted { path, size });
            }
            self.files.queue(key);
        } else if self.files.is_finished(key, now, &self.options) {
            if let Some(TailFile { content: Content::Remnant(remnant), .. }) = self.forget(key) {
                self.remnants.remove(remnant);
            }
            return;
        }
        self.preserve_deleted(key, now);
    }

    /// Makes the path of a file that was renamed or unlinked due now.
    fn hasten_path_of(&mut self, key: u64, now: Micros) {
        let Some(at) = self.files.get(key).map(|file| file.at.clone()) else { return };
        let watched = self.scanner.paths.get(&*at);
        if watched.is_some_and(
            |watched| matches!(watched.state, PathState::Following(other) if other == key),
        ) {
            self.scanner.hasten(&at, now);
        }
    }

    pub(super) fn check_paths(&mut self, now: Micros) {
        for path in self.scanner.take_due(now) {
            let Some((path, mut watched)) = self.scanner.take(&path, now) else { continue };
            self.check_path(&path, &mut watched, now);
            self.scanner.put_back(path, watched, &self.files, now);
        }
    }

    fn check_path(&mut self, path: &Path, watched: &mut WatchedPath, now: Micros) {
        watched.error = None;
        watched.retry_at = None;
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => {
                let inode = (metadata.dev(), metadata.ino());
                if !watched.is_still_there(inode, &self.files) {
                    self.leave(watched, now);
                    self.enter(path, watched, inode, now);
                }
            }
            Ok(_) => watched.fail(&io::Error::other("it is not a regular file"), now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.leave(watched, now),
            Err(error) => watched.fail(&error, now),
        }
        self.look_up(path, watched, now);
    }

    fn leave(&mut self, watched: &mut WatchedPath, now: Micros) {
        match std::mem::replace(&mut watched.state, PathState::Absent) {
            PathState::Absent | PathState::Resolving(_) => {}
            PathState::Waiting(content, identity) => {
                let at = watched.at.clone();
                self.scanner.orphans.push(Orphan { at, content, identity, size: 0, grown_at: now });
            }
            PathState::Following(key) => {
                let Some(file) = self.files.get_mut(key) else { return };
                if file.is_replaced().unwrap_or(false) {
                    // Truncated before it was renamed: its content is now a separate part.
                    return self.replaced(key, now);
                }
                file.is_rotated = true;
                file.observed.grown_at = now;
                self.report.event(TailEvent::Rotated {
                    path: file.path.clone(),
                    stream: file.stream,
                    unread_bytes: file.size.saturating_sub(file.position),
                });
                self.files.hasten(key, now);
            }
        }
    }

    fn enter(&mut self, path: &Path, watched: &mut WatchedPath, inode: (u64, u64), now: Micros) {
        if let Some(back) = self.files.readmit(inode, (&watched.label, &watched.at), now) {
            if let Some(key) = back {
                watched.state = PathState::Following(key);
            }
            return;
        }
        // The file may have changed between stat and open: use what was opened.
        watched.is_link = path.is_symlink();
        match Content::open(path).and_then(|content| Ok((FileIdentity::of(&content)?, content))) {
            Ok((identity, content)) => {
                watched.entered_at = now;
                watched.state = PathState::Waiting(content, identity);
            }
            Err(error) => watched.fail(&error, now),
        }
    }

    /// Looks up the stream of a file with a complete first line, and of unseen older parts.
    fn look_up(&mut self, path: &Path, watched: &mut WatchedPath, now: Micros) {
        let mut orphans = self.scanner.orphans.iter();
        if self.resolver.is_looking_up(path)
            || orphans.any(|orphan| orphan.at == watched.at && !orphan.is_empty())
        {
            // Older parts first: see `TailFile::waits_for`.
            return;
        }
        let live = watched.take_candidate(now);
        if watched.is_identified && live.is_none() {
            return;
        }
        let (siblings, has_older) =
            self.scanner.open_siblings(path, self.sibling_limit(), &self.files);
        let is_first = !std::mem::replace(&mut watched.is_identified, true);
        if live.is_none() && siblings.is_empty() {
            return;
        }
        let policy = self.policy(watched, is_first);
        let ages = live.iter().chain(&siblings).map(|candidate| candidate.identity.age());
        let newest = PartAge::newest(ages.chain(watched.newest_age));
        let mut lookup = StreamLookup::new(watched.at.clone(), live, siblings, policy);
        lookup.has_older = has_older;
        lookup.wants_all = is_first && watched.is_from_glob && policy == StartPolicy::Start;
        lookup.newest_age = std::mem::replace(&mut watched.newest_age, newest);
        lookup.wanted_since_ns = self
            .options
            .backfill
            .map(|span| u64::try_from((now - span).0).unwrap_or(0).saturating_mul(1000));
        self.resolver.start_lookup(lookup);
    }

    fn policy(&self, watched: &mut WatchedPath, is_first: bool) -> StartPolicy {
        let is_named_by_user = watched.source.found_in.starts_with("--tail");
        if std::mem::take(&mut watched.is_fresh) {
            StartPolicy::Fresh
        } else if !is_first || !watched.existed_at_start || is_named_by_user {
            StartPolicy::Start
        } else if watched.source.leaves_out_old_lines() {
            if is_new(&watched.at) { StartPolicy::Start } else { StartPolicy::Recent(0) }
        } else {
            match self.options.first_contact {
                ReadFrom::Recent(bytes) if self.options.backfill.is_none() => {
                    StartPolicy::Recent(bytes)
                }
                ReadFrom::Start | ReadFrom::Recent(_) => StartPolicy::Start,
            }
        }
    }

    fn sibling_limit(&self) -> usize {
        if self.options.backfill.is_some() { BACKFILL_PARTS } else { SIBLING_LIMIT }
    }

    /// Looks up rotated files whose first line is complete by now, or final after a while.
    pub(super) fn check_orphans(&mut self, now: Micros) {
        for mut orphan in std::mem::take(&mut self.scanner.orphans) {
            if self.resolver.is_looking_up(&orphan.at) {
                self.scanner.orphans.push(orphan);
                continue;
            }
            let size = orphan.content.metadata().map_or(0, |metadata| metadata.len());
            if size != orphan.size {
                orphan.size = size;
                orphan.grown_at = now;
            }
            let is_final = now >= orphan.grown_at + self.options.half_line_after;
            match Candidate::open(orphan.content, orphan.identity, is_final) {
                Ok(Ok(candidate)) => {
                    let limit = self.sibling_limit();
                    let (mut siblings, has_older) =
                        self.scanner.open_siblings(&orphan.at, limit, &self.files);
                    siblings.retain(|other| !other.identity.is_same_file(&orphan.identity));
                    siblings.push(Candidate { is_wanted: true, ..candidate });
                    siblings.sort_by_key(|candidate| std::cmp::Reverse(candidate.identity.age()));
                    let watched = self.scanner.paths.get(&*orphan.at);
                    let newest_age = watched.and_then(|watched| watched.newest_age);
                    let mut lookup =
                        StreamLookup::new(orphan.at, None, siblings, StartPolicy::Start);
                    lookup.newest_age = newest_age;
                    lookup.has_older = has_older;
                    self.resolver.start_lookup(lookup);
                }
                Ok(Err(content)) if now < orphan.grown_at + self.options.keep_rotated => {
                    self.scanner.orphans.push(Orphan { content, ..orphan });
                }
                _ => {}
            }
        }
    }
}
