//! The polling half of the [`Tailer`]: which paths there are, what is at them, and what becomes of files.
//!
//! Everything that is due is looked at by age: a file that grew in the last ten seconds at each scan, others once a
//! second; a path every half second, one whose file has been quiet every two.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros};

use super::contact::{Candidate, Contact, Policy};
use super::file::{Look, TailFile};
use super::identity::Place;
use super::rotated::{base_names, siblings};
use super::types::{ReadFrom, TailEvent};
use super::{Live, Orphan, Tailer, Watched, cannot_read, label};
use crate::logs::glob;

const EXPAND_EVERY: Duration = Duration::from_secs(2);
const PATH_EVERY: Duration = Duration::from_millis(500);
const QUIET_PATH_EVERY: Duration = Duration::from_secs(2);
const QUIET_FILE_EVERY: Duration = Duration::from_secs(1);
const QUIET_AFTER: Duration = Duration::from_secs(10);
const RETRY_EVERY: Duration = Duration::from_secs(30);

impl Tailer {
    /// Brings the watched paths in line with the sources and their globs.
    pub(super) fn expand(&mut self, now: Micros) {
        let is_due = self.expanded_at.is_none_or(|at| now >= at + EXPAND_EVERY || now < at);
        if !self.are_sources_new && !is_due {
            return;
        }
        self.expanded_at = Some(now);
        let wanted = self.wanted_paths();
        for (path, source) in &wanted {
            self.watch(path, source);
        }
        if std::mem::take(&mut self.are_sources_new) {
            self.drop_paths(|path, _| wanted.contains_key(path));
        } else {
            let is_kept = |path: &Path, watched: &Watched| {
                wanted.contains_key(path) || !matches!(watched.live, Live::Absent)
            };
            self.drop_paths(is_kept);
        }
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
            for path in matched.iter().filter(|path| !is_part_of_another(path, &names)) {
                wanted.entry(path.clone()).or_insert_with(|| source.clone());
            }
        }
        while wanted.len() > self.options.max_paths {
            wanted.pop_last();
        }
        wanted
    }

    fn watch(&mut self, path: &Path, source: &Arc<LogSource>) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.source = source.clone();
            return;
        }
        let watched = Watched {
            source: source.clone(),
            label: label(path),
            existed_at_start: self.are_sources_new && path.exists(),
            is_from_glob: glob::is_pattern(&source.path),
            is_met: false,
            looked_at: None,
            retry_at: None,
            begins_anew: false,
            known_age: None,
            live: Live::Absent,
            error: None,
        };
        self.paths.insert(path.to_owned(), watched);
    }

    fn drop_paths(&mut self, is_kept: impl Fn(&Path, &Watched) -> bool) {
        let files = &mut self.files;
        self.paths.retain(|path, watched| {
            let is_kept = is_kept(path, watched);
            if let (false, Live::Following(key)) = (is_kept, &watched.live)
                && let Some(file) = files.get_mut(key)
            {
                file.is_rotated = true;
            }
            is_kept
        });
        let paths = &self.paths;
        self.contacts.retain(|contact| paths.contains_key(&contact.path));
    }

    /// Looks at every open file that is due.
    pub(super) fn look_at_files(&mut self, now: Micros) {
        let due: Vec<u64> = self
            .files
            .iter()
            .filter(|(_, file)| {
                let is_busy = now < file.grown_at + QUIET_AFTER;
                is_busy || now >= file.checked_at + QUIET_FILE_EVERY || now < file.checked_at
            })
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.look_at_file(key, now);
        }
    }

    fn look_at_file(&mut self, key: u64, now: Micros) {
        self.release(key);
        let Some(file) = self.files.get_mut(&key) else { return };
        let was_deleted = file.is_deleted;
        let was_size = file.size;
        match file.look(now) {
            Ok(Look::Replaced) => return self.replaced(key, now),
            Ok(Look::Moved) => self.hurry(key),
            Ok(Look::Same) => {}
            Err(error) => file.error = Some(cannot_read(&file.path, &error)),
        }
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.is_readable(now, self.options.half_line_after) {
            if was_deleted && file.size > was_size && file.is_rotated {
                let event = TailEvent::WriterOnDeleted { path: file.path.clone(), size: file.size };
                self.event(event);
            }
            self.queue(key);
        } else if self.is_finished(key, now) {
            self.forget(key);
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
    fn hurry(&mut self, key: u64) {
        let is_its = |live: &Live| matches!(live, Live::Following(followed) if *followed == key);
        if let Some(watched) = self.paths.values_mut().find(|watched| is_its(&watched.live)) {
            watched.looked_at = None;
        }
    }

    fn is_finished(&self, key: u64, now: Micros) -> bool {
        let Some(file) = self.files.get(&key) else { return false };
        let keep =
            if file.is_deleted { self.options.keep_deleted } else { self.options.keep_rotated };
        file.is_rotated
            && file.acknowledged == file.position
            && file.position >= file.size
            && now >= file.grown_at + keep
    }

    pub(super) fn forget(&mut self, key: u64) -> Option<TailFile> {
        let file = self.files.remove(&key)?;
        self.keys.remove(&file.stream);
        self.in_flight_bytes -= file.position - file.acknowledged;
        Some(file)
    }

    /// Looks at every path that is due.
    pub(super) fn look_at_paths(&mut self, now: Micros) {
        let due: Vec<PathBuf> = self
            .paths
            .iter()
            .filter(|(_, watched)| self.is_path_due(watched, now))
            .map(|(path, _)| path.clone())
            .collect();
        for path in due {
            let Some(mut watched) = self.paths.remove(&path) else { continue };
            watched.looked_at = Some(now);
            self.look_at_path(&path, &mut watched, now);
            self.paths.insert(path, watched);
        }
    }

    fn is_path_due(&self, watched: &Watched, now: Micros) -> bool {
        let Some(looked_at) = watched.looked_at else { return true };
        if watched.retry_at.is_some_and(|at| now < at) && now >= looked_at {
            return false;
        }
        let is_quiet = match &watched.live {
            Live::Following(key) => {
                self.files.get(key).is_some_and(|file| now >= file.grown_at + QUIET_AFTER)
            }
            _ => false,
        };
        let every = if is_quiet { QUIET_PATH_EVERY } else { PATH_EVERY };
        now >= looked_at + every || now < looked_at || matches!(watched.live, Live::Waiting(..))
    }

    fn look_at_path(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        watched.error = None;
        watched.retry_at = None;
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => {
                let place = Place::of(&metadata);
                if !self.is_still_there(watched, place) {
                    self.leave(path, watched, now);
                    self.enter(path, watched, place, now);
                }
            }
            Ok(_) => self.fail(watched, &io::Error::other("it is not a regular file"), now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.leave(path, watched, now),
            Err(error) => self.fail(watched, &error, now),
        }
        self.meet(path, watched, now);
    }

    fn is_still_there(&self, watched: &Watched, found: Place) -> bool {
        match &watched.live {
            Live::Absent => false,
            Live::Waiting(_, place) | Live::Resolving(place) => place.is_same_file(&found),
            Live::Following(key) => {
                self.files.get(key).is_some_and(|file| file.place.is_same_file(&found))
            }
        }
    }

    fn fail(&mut self, watched: &mut Watched, error: &io::Error, now: Micros) {
        watched.error = Some(cannot_read(&watched.label, error));
        watched.retry_at = Some(now + RETRY_EVERY);
    }

    /// The file that was at the path is not there any more.
    fn leave(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        match std::mem::replace(&mut watched.live, Live::Absent) {
            Live::Absent => {}
            Live::Resolving(place) => watched.known_age = Some(place.age()),
            Live::Waiting(file, place) => {
                watched.known_age = Some(place.age());
                let path = path.to_owned();
                self.orphans.push(Orphan { path, file, place, size: 0, grown_at: now });
            }
            Live::Following(key) => {
                let Some(file) = self.files.get_mut(&key) else { return };
                file.is_rotated = true;
                file.grown_at = now;
                let newest =
                    file.file.metadata().map_or(file.place, |metadata| Place::of(&metadata));
                watched.known_age = Some(newest.age());
                let event = TailEvent::Rotated {
                    path: file.path.clone(),
                    stream: file.stream,
                    unread_bytes: file.size.saturating_sub(file.position),
                };
                self.event(event);
            }
        }
    }

    /// A file is at the path that was not there before.
    fn enter(&mut self, path: &Path, watched: &mut Watched, place: Place, now: Micros) {
        let open = self.files.iter_mut().find(|(_, file)| file.place.is_same_file(&place));
        if let Some((key, file)) = open {
            // Renamed back to where it was; under another name the first one that found it keeps it.
            if std::mem::replace(&mut file.is_rotated, false) {
                watched.live = Live::Following(*key);
            }
            return;
        }
        match File::open(path) {
            // The file may have changed between stat and open: what was opened counts.
            Ok(file) => match file.metadata() {
                Ok(metadata) => watched.live = Live::Waiting(file, Place::of(&metadata)),
                Err(error) => self.fail(watched, &error, now),
            },
            Err(error) => self.fail(watched, &error, now),
        }
    }

    /// Asks about a file whose first line is complete, and, the first time and after a rotation, about older parts.
    fn meet(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        let live_place = match &watched.live {
            Live::Waiting(_, place) => Some(*place),
            _ => None,
        };
        let live = match std::mem::replace(&mut watched.live, Live::Absent) {
            Live::Waiting(file, place) => self.meet_live(watched, file, place, now),
            other => {
                watched.live = other;
                None
            }
        };
        let wants_siblings = !watched.is_met || (live.is_some() && watched.known_age.is_some());
        if !wants_siblings && live.is_none() {
            return;
        }
        let copies_of = live_place.filter(|_| !watched.is_met);
        let siblings =
            if wants_siblings { self.open_siblings(path, copies_of) } else { Vec::new() };
        let is_first = !std::mem::replace(&mut watched.is_met, true);
        if live.is_none() && siblings.is_empty() {
            return;
        }
        let policy = self.policy(watched, is_first);
        self.contacts.push(Contact {
            path: path.to_owned(),
            live,
            siblings,
            policy,
            wants_all: is_first && watched.is_from_glob && policy == Policy::Start,
            known_age: watched.known_age.take(),
        });
    }

    fn meet_live(
        &mut self,
        watched: &mut Watched,
        file: File,
        place: Place,
        now: Micros,
    ) -> Option<Candidate> {
        let again = file.try_clone();
        match (Candidate::open(file, place, false, &[]), again) {
            (Ok(Some(candidate)), _) => {
                watched.live = Live::Resolving(place);
                Some(candidate)
            }
            (Ok(None), Ok(file)) => {
                watched.live = Live::Waiting(file, place);
                None
            }
            (Err(error), _) | (_, Err(error)) => {
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
                ReadFrom::Start => Policy::Start,
                ReadFrom::Recent(bytes) => Policy::Recent(bytes),
            }
        }
    }

    fn open_siblings(&self, path: &Path, live: Option<Place>) -> Vec<Candidate> {
        let siblings = siblings(path);
        let originals: Vec<Place> =
            siblings.iter().map(|(_, _, place)| *place).chain(live).collect();
        siblings
            .into_iter()
            .filter(|(path, _, place)| {
                let is_open = |file: &TailFile| file.place.is_same_file(place);
                !self.paths.contains_key(path)
                    && !self.files.values().any(is_open)
                    && !self.orphans.iter().any(|orphan| orphan.place.is_same_file(place))
            })
            .filter_map(|(_, file, place)| {
                Candidate::open(file, place, true, &originals).ok().flatten()
            })
            .collect()
    }

    /// Rotated files without a whole first line: complete by now, or final after a while.
    pub(super) fn look_at_orphans(&mut self, now: Micros) {
        for mut orphan in std::mem::take(&mut self.orphans) {
            let size = orphan.file.metadata().map_or(0, |metadata| metadata.len());
            if size != orphan.size {
                orphan.size = size;
                orphan.grown_at = now;
            }
            let is_final = now >= orphan.grown_at + self.options.half_line_after;
            let Ok(file) = orphan.file.try_clone() else { continue };
            match Candidate::open(file, orphan.place, is_final, &[]) {
                Ok(Some(candidate)) => self.contacts.push(Contact {
                    path: orphan.path,
                    live: None,
                    siblings: vec![candidate],
                    policy: Policy::Start,
                    wants_all: true,
                    known_age: None,
                }),
                Ok(None) if now < orphan.grown_at + self.options.keep_rotated => {
                    self.orphans.push(orphan);
                }
                _ => {}
            }
        }
    }
}

/// Whether `path` is named like a rotated part of another one that matched.
fn is_part_of_another(path: &Path, matched: &HashSet<&Path>) -> bool {
    let Some(name) = path.file_name() else { return false };
    let bases = base_names(name.as_encoded_bytes());
    bases
        .iter()
        .any(|base| matched.contains(path.with_file_name(OsStr::from_bytes(base)).as_path()))
}
