//! The polling half of the [`Tailer`]: which paths there are, what is at them, and what becomes of
//! files.
//!
//! Everything has a time at which it is due: a file that grew in the last ten seconds at each scan,
//! others in a second or when inotify says so; a path in half a second, or when a name in its
//! directory has changed.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros};

use super::agenda::QUIET_AFTER;
use super::contact::{Candidate, Contact, Policy};
use super::content::Content;
use super::file::{Look, TailFile};
use super::identity::{Age, Place};
use super::idle::TRUST;
use super::rotated::{Part, SIBLING_LIMIT, is_part_of_another};
use super::types::{Gap, GapReason, ReadFrom, TailEvent};
use super::{Live, Orphan, Tailer, Watched, cannot_read, label};
use crate::logs::glob;
use crate::logs::multiline::Multiline;

const EXPAND_EVERY: Duration = Duration::from_secs(2);
const RETRY_EVERY: Duration = Duration::from_secs(30);
/// Rotated parts of one log that are looked at when the past is wanted.
const BACKFILL_PARTS: usize = 200;

impl Tailer {
    /// Brings the watched paths in line with the sources and their globs.
    pub(super) fn expand(&mut self, now: Micros) {
        let is_due = self.expanded_at.is_none_or(|at| now >= at + EXPAND_EVERY || now < at);
        if !self.are_sources_new && !is_due {
            return;
        }
        self.expanded_at = Some(now);
        self.directories.clean(now);
        if !self.are_sources_new && self.matches_as_before(now) {
            return;
        }
        self.matched_at = Some(now);
        let wanted = self.wanted_paths();
        for (path, source) in &wanted {
            self.watch(path, source, now);
        }
        if std::mem::take(&mut self.are_sources_new) {
            self.drop_paths(now, |path, _| wanted.contains_key(path));
        } else {
            let is_kept = |path: &Path, watched: &Watched| {
                wanted.contains_key(path) || !matches!(watched.live, Live::Absent)
            };
            self.drop_paths(now, is_kept);
        }
    }

    /// Whether every glob gives what it gave: no name has changed where it looks.
    fn matches_as_before(&mut self, now: Micros) -> bool {
        if self.matched_at.is_none_or(|at| now >= at + TRUST || now < at) {
            return false;
        }
        let directories = &mut self.directories;
        self.sources.iter().filter(|source| glob::is_pattern(&source.path)).all(|source| {
            let directory = source.path.parent();
            directory.is_some_and(|directory| {
                !glob::is_pattern(directory) && directories.is_quiet(directory, now)
            })
        })
    }

    fn wanted_paths(&self) -> BTreeMap<PathBuf, Arc<LogSource>> {
        let mut wanted = BTreeMap::new();
        for source in &self.sources {
            if !glob::is_pattern(&source.path) {
                wanted.insert(source.path.clone(), source.clone());
                continue;
            }
            let matched = glob::expand(&source.path);
            let names: HashSet<&Path> = matched.iter().map(PathBuf::as_path).collect();
            for path in
                matched.iter().filter(|path| !is_part_of_another(path, |log| names.contains(log)))
            {
                wanted.entry(path.clone()).or_insert_with(|| source.clone());
            }
        }
        while wanted.len() > self.options.max_paths {
            wanted.pop_last();
        }
        wanted
    }

    fn watch(&mut self, path: &Path, source: &Arc<LogSource>, now: Micros) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.source = source.clone();
            return;
        }
        let watched = Watched {
            source: source.clone(),
            at: path.into(),
            label: label(path),
            is_link: true,
            multiline: self.multiline_of(path),
            existed_at_start: self.are_sources_new && path.exists(),
            is_from_glob: glob::is_pattern(&source.path),
            is_met: false,
            looked_at: None,
            due_at: now,
            entered_at: now,
            retry_at: None,
            waiting: None,
            waiting_size: 0,
            begins_anew: false,
            seen_age: None,
            live: Live::Absent,
            error: None,
            told: None,
        };
        self.paths_due.add(now, watched.at.clone());
        self.paths.insert(path.to_owned(), watched);
    }

    pub(super) fn multiline_of(&self, path: &Path) -> Option<Arc<Multiline>> {
        let rule = self.multiline.iter().find(|(pattern, _)| glob::path_matches(pattern, path));
        rule.map(|(_, rule)| rule.clone())
    }

    fn drop_paths(&mut self, now: Micros, is_kept: impl Fn(&Path, &Watched) -> bool) {
        let dropped = self.paths.extract_if(.., |path, watched| !is_kept(path, watched));
        for (_, mut watched) in dropped.collect::<Vec<_>>() {
            self.unwatch(&mut watched);
            if watched.told.is_some() {
                self.gone.push((watched.label, None));
            }
            if let Live::Following(key) = watched.live
                && let Some(file) = self.files.get_mut(&key)
            {
                file.is_rotated = true;
                self.hasten_file(key, now);
            }
        }
        let paths = &self.paths;
        self.contacts.retain(|_, contact| paths.contains_key(&*contact.path));
        self.in_contact.retain(|path| paths.contains_key(&**path));
    }

    /// Looks at every open file that is due.
    pub(super) fn look_at_files(&mut self, now: Micros) {
        let mut due = self.watches.take();
        for key in &due {
            if let Some(file) = self.files.get_mut(key) {
                file.seen.is_watched = false;
            }
        }
        let files = &self.files;
        let is_right =
            |at: Micros, key: &u64| files.get(key).is_some_and(|file| file.seen.due_at == at);
        let planned = self.files_due.take(now).filter(|(at, key)| is_right(*at, key));
        due.extend(planned.map(|(_, key)| key));
        due.sort_unstable();
        due.dedup();
        for key in due {
            self.look_at_file(key, now);
            self.plan_file(key, now);
        }
    }

    fn look_at_file(&mut self, key: u64, now: Micros) {
        self.release(key);
        let Some(file) = self.files.get_mut(&key) else { return };
        // What rests at its end, all of it acknowledged, changes only if somebody does something to
        // it.
        let is_resting = file.acknowledged == file.size && !file.is_rotated;
        if is_resting && now >= file.seen.grown_at + QUIET_AFTER {
            file.seen.is_watched = self.watches.add(key, file.content.file());
        }
        let was_deleted = file.seen.is_deleted;
        let was_size = file.size;
        match file.look(now, self.options.stale_for) {
            Ok(Look::Replaced) => return self.replaced(key, now),
            Ok(Look::Moved) => self.hurry(key, now),
            Ok(Look::Cut { lost_bytes: 0 }) => {}
            Ok(Look::Cut { lost_bytes }) => self.note_cut(key, was_size, lost_bytes),
            Ok(Look::Same) => {}
            Err(error) => return self.reopen(key, &error, now),
        }
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.is_readable(now, self.options.half_line_after) {
            if was_deleted && file.size > was_size && file.is_rotated {
                let event = TailEvent::WriterOnDeleted { path: file.path.clone(), size: file.size };
                self.event(event);
            }
            self.queue(key);
        } else if self.is_finished(key, now) {
            if let Some(TailFile { content: Content::Kept(kept), .. }) = self.forget(key) {
                self.remove_rest(kept);
            }
            return;
        }
        self.keep_rest(key, now);
    }

    /// Unread lines were cut off the end of a file.
    fn note_cut(&mut self, key: u64, was_size: u64, lost_bytes: u64) {
        let Some(file) = self.files.get(&key) else { return };
        let gap = Gap {
            path: file.path.clone(),
            stream: file.stream,
            from: was_size - lost_bytes,
            to: None,
            lost_bytes,
            is_exact: false,
            unwatched: None,
            reason: GapReason::Truncated,
        };
        self.gap(gap);
    }

    /// The hub knows a file of this path that it did not know: another one may have waited for
    /// that.
    pub(super) fn release_those_of(&mut self, path: &str) {
        for key in self.by_path.get(path).cloned().unwrap_or_default() {
            if self.files.get(&key).is_some_and(|file| !file.waits_for.is_empty()) {
                self.release(key);
                self.queue(key);
            }
        }
    }

    /// Drops those that a file waits for from its list once the hub knows them, or they are gone.
    fn release(&mut self, key: u64) {
        let Some(file) = self.files.get_mut(&key).filter(|file| !file.waits_for.is_empty()) else {
            return;
        };
        let mut waits_for = std::mem::take(&mut file.waits_for);
        waits_for.retain(|stream| {
            let older = self.keys.get(stream).and_then(|key| self.files.get(key));
            older.is_some_and(|older| {
                !older.is_known && older.size > older.position.min(older.acknowledged)
            })
        });
        if let Some(file) = self.files.get_mut(&key) {
            file.waits_for = waits_for;
        }
    }

    /// Makes the path of a file that was renamed or unlinked due now.
    fn hurry(&mut self, key: u64, now: Micros) {
        let Some(at) = self.files.get(&key).map(|file| file.at.clone()) else { return };
        let is_its = |watched: &Watched| matches!(watched.live, Live::Following(its) if its == key);
        if self.paths.get(&*at).is_some_and(is_its) {
            self.hasten_path(&at, now);
        }
    }

    fn is_finished(&self, key: u64, now: Micros) -> bool {
        let Some(file) = self.files.get(&key) else { return false };
        let keep = match (file.content.is_packed(), file.seen.is_deleted) {
            (true, _) => Duration::ZERO,
            (false, true) => self.options.keep_deleted,
            (false, false) => self.options.keep_rotated,
        };
        file.is_rotated
            && file.acknowledged == file.position
            && file.position >= file.size
            && now >= file.seen.grown_at + keep
    }

    /// Looks at every path that is due.
    pub(super) fn look_at_paths(&mut self, now: Micros) {
        for directory in self.directories.changed(now) {
            let within =
                self.paths.range::<Path, _>((Bound::Included(&*directory), Bound::Unbounded));
            let within = within.take_while(|(path, _)| path.starts_with(&directory));
            for path in within.map(|(_, watched)| watched.at.clone()).collect::<Vec<_>>() {
                self.hasten_path(&path, now);
            }
        }
        for key in self.waiting.take() {
            if let Some(path) = self.waiting_paths.remove(&key) {
                self.hasten_path(&path, now);
            }
        }
        let paths = &self.paths;
        let is_right =
            |at: Micros, path: &Path| paths.get(path).is_some_and(|watched| watched.due_at == at);
        let planned = self.paths_due.take(now).filter(|(at, path)| is_right(*at, path));
        let mut due: Vec<Arc<Path>> = planned.map(|(_, path)| path).collect();
        // Paths of one directory come one after the other.
        due.sort_unstable();
        due.dedup();
        for path in due {
            let Some((path, mut watched)) = self.paths.remove_entry(&*path) else { continue };
            self.unwatch(&mut watched);
            watched.looked_at = Some(now);
            self.look_at_path(&path, &mut watched, now);
            self.plan_path(&path, &mut watched, now);
            self.paths.insert(path, watched);
        }
    }

    fn look_at_path(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        watched.error = None;
        watched.retry_at = None;
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => {
                let inode = (metadata.dev(), metadata.ino());
                if !self.is_still_there(watched, inode) {
                    self.leave(watched, now);
                    self.enter(path, watched, inode, now);
                }
            }
            Ok(_) => self.fail(watched, &io::Error::other("it is not a regular file"), now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.leave(watched, now),
            Err(error) => self.fail(watched, &error, now),
        }
        self.meet(path, watched, now);
    }

    fn is_still_there(&self, watched: &Watched, inode: (u64, u64)) -> bool {
        match &watched.live {
            Live::Absent => false,
            Live::Waiting(_, place) | Live::Resolving(place) => place.inode() == inode,
            Live::Following(key) => {
                self.files.get(key).is_some_and(|file| file.place.inode() == inode)
            }
        }
    }

    fn fail(&mut self, watched: &mut Watched, error: &io::Error, now: Micros) {
        watched.error = Some(cannot_read(&watched.label, error));
        watched.retry_at = Some(now + RETRY_EVERY);
    }

    /// The file that was at the path is not there any more.
    fn leave(&mut self, watched: &mut Watched, now: Micros) {
        match std::mem::replace(&mut watched.live, Live::Absent) {
            Live::Absent | Live::Resolving(_) => {}
            Live::Waiting(content, place) => {
                let at = watched.at.clone();
                self.orphans.push(Orphan { at, content, place, size: 0, grown_at: now });
            }
            Live::Following(key) => {
                let Some(file) = self.files.get_mut(&key) else { return };
                if file.is_replaced().unwrap_or(false) {
                    // Truncated before it was renamed: what it holds now is a part of its own.
                    return self.replaced(key, now);
                }
                file.is_rotated = true;
                file.seen.grown_at = now;
                let event = TailEvent::Rotated {
                    path: file.path.clone(),
                    stream: file.stream,
                    unread_bytes: file.size.saturating_sub(file.position),
                };
                self.event(event);
                self.hasten_file(key, now);
            }
        }
    }

    /// A file is at the path that was not there before.
    fn enter(&mut self, path: &Path, watched: &mut Watched, inode: (u64, u64), now: Micros) {
        if let Some(key) = self.by_inode.get(&inode)
            && let Some(file) = self.files.get_mut(key)
        {
            // Renamed back to where it was; under another name the first one that found it keeps
            // it.
            if std::mem::replace(&mut file.is_rotated, false) {
                watched.live = Live::Following(*key);
                let was = std::mem::replace(&mut file.path, watched.label.clone());
                file.at = watched.at.clone();
                if let Some(keys) = self.by_path.get_mut(&was) {
                    keys.retain(|other| other != key);
                }
                self.by_path.entry(watched.label.clone()).or_default().push(*key);
                file.seen.due_at = now;
                self.files_due.add(now, *key);
            }
            return;
        }
        // The file may have changed between stat and open: what was opened counts.
        watched.is_link = path.is_symlink();
        match Content::open(path).and_then(|content| Ok((Place::of(&content)?, content))) {
            Ok((place, content)) => {
                watched.entered_at = now;
                watched.live = Live::Waiting(content, place);
            }
            Err(error) => self.fail(watched, &error, now),
        }
    }

    /// Asks about a file whose first line is complete, and about older parts that came between,
    /// however many.
    fn meet(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        let is_older = |orphan: &Orphan| orphan.at == watched.at && !orphan.is_empty();
        if self.in_contact.contains(path) || self.orphans.iter().any(is_older) {
            // Older parts first: see `TailFile::waits_for`.
            return;
        }
        let live = match std::mem::replace(&mut watched.live, Live::Absent) {
            Live::Waiting(content, place) => self.meet_live(watched, content, place, now),
            other => {
                watched.live = other;
                None
            }
        };
        if watched.is_met && live.is_none() {
            return;
        }
        let (siblings, has_older) = self.open_siblings(path, self.sibling_limit());
        let is_first = !std::mem::replace(&mut watched.is_met, true);
        if live.is_none() && siblings.is_empty() {
            return;
        }
        let policy = self.policy(watched, is_first);
        let ages = live.iter().chain(&siblings).map(|candidate| candidate.place.age());
        let newest = Age::newest(ages.chain(watched.seen_age));
        let mut contact = Contact::new(watched.at.clone(), live, siblings, policy);
        contact.has_older = has_older;
        contact.wants_all = is_first && watched.is_from_glob && policy == Policy::Start;
        contact.seen_age = std::mem::replace(&mut watched.seen_age, newest);
        contact.wanted_since_ns = self
            .options
            .backfill
            .map(|span| u64::try_from((now - span).0).unwrap_or(0).saturating_mul(1000));
        self.ask(contact);
    }

    fn meet_live(
        &mut self,
        watched: &mut Watched,
        content: Content,
        place: Place,
        now: Micros,
    ) -> Option<Candidate> {
        match Candidate::open(content, place, false) {
            Ok(Ok(candidate)) => {
                watched.live = Live::Resolving(place);
                Some(candidate)
            }
            Ok(Err(content)) => {
                let size = content.metadata().map_or(0, |metadata| metadata.len());
                if std::mem::replace(&mut watched.waiting_size, size) != size {
                    watched.entered_at = now;
                }
                watched.live = Live::Waiting(content, place);
                None
            }
            Err(error) => {
                self.fail(watched, &error, now);
                None
            }
        }
    }

    fn policy(&self, watched: &mut Watched, is_first: bool) -> Policy {
        let is_named_by_user = watched.source.found_in.starts_with("--tail");
        if std::mem::take(&mut watched.begins_anew) {
            Policy::Fresh
        } else if !is_first || !watched.existed_at_start || is_named_by_user {
            Policy::Start
        } else {
            match self.options.first_contact {
                ReadFrom::Recent(bytes) if self.options.backfill.is_none() => Policy::Recent(bytes),
                ReadFrom::Start | ReadFrom::Recent(_) => Policy::Start,
            }
        }
    }

    fn sibling_limit(&self) -> usize {
        if self.options.backfill.is_some() { BACKFILL_PARTS } else { SIBLING_LIMIT }
    }

    /// Rotated parts that are not being read, and whether there may be older ones.
    pub(super) fn open_siblings(&mut self, path: &Path, limit: usize) -> (Vec<Candidate>, bool) {
        let paths = &self.paths;
        let parts = self.listings.siblings_but(path, limit, |path| paths.contains_key(path));
        let has_older = parts.len() == limit;
        let is_free = |place: &Place| {
            !self.by_inode.contains_key(&place.inode())
                && !self.orphans.iter().any(|orphan| orphan.place.is_same_file(place))
        };
        let free = parts.into_iter().filter(|part| is_free(&part.place));
        let open = |part: Part| Candidate::open(part.content, part.place, true).ok()?.ok();
        (free.filter_map(open).collect(), has_older)
    }

    /// Rotated files without a whole first line: complete by now, or final after a while.
    pub(super) fn look_at_orphans(&mut self, now: Micros) {
        for mut orphan in std::mem::take(&mut self.orphans) {
            if self.in_contact.contains(&orphan.at) {
                self.orphans.push(orphan);
                continue;
            }
            let size = orphan.content.metadata().map_or(0, |metadata| metadata.len());
            if size != orphan.size {
                orphan.size = size;
                orphan.grown_at = now;
            }
            let is_final = now >= orphan.grown_at + self.options.half_line_after;
            match Candidate::open(orphan.content, orphan.place, is_final) {
                Ok(Ok(candidate)) => {
                    let limit = self.sibling_limit();
                    let (mut siblings, has_older) = self.open_siblings(&orphan.at, limit);
                    let is_other = |other: &Candidate| !other.place.is_same_file(&orphan.place);
                    siblings.retain(is_other);
                    siblings.push(Candidate { is_wanted: true, ..candidate });
                    siblings.sort_by_key(|candidate| std::cmp::Reverse(candidate.place.age()));
                    let seen_age = self.paths.get(&*orphan.at).and_then(|w| w.seen_age);
                    let mut contact = Contact::new(orphan.at, None, siblings, Policy::Start);
                    contact.seen_age = seen_age;
                    contact.has_older = has_older;
                    self.ask(contact);
                }
                Ok(Err(content)) if now < orphan.grown_at + self.options.keep_rotated => {
                    self.orphans.push(Orphan { content, ..orphan });
                }
                _ => {}
            }
        }
    }
}
