//! The paths of a [`Tailer`](super::Tailer): by sources and globs, with the file at each.
//!
//! A path is checked every half second, or when a name in its directory has changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{LogSource, Micros};

use super::content::Content;
use super::fingerprint::{FileIdentity, PartAge};
use super::idle::{DirectoryWatch, InotifyWatches, TRUST};
use super::read::OpenFiles;
use super::resolve_stream::Candidate;
use super::rotated::{DirectoryListings, is_part_of_another};
use super::schedule::{QUIET_AFTER, Schedule};
use super::types::StreamState;
use super::{cannot_read, label};
use weir_discover::glob;
use weir_multiline::Multiline;

const EXPAND_EVERY: Duration = Duration::from_secs(2);
const RETRY_EVERY: Duration = Duration::from_secs(30);
const PATH_EVERY: Duration = Duration::from_millis(500);
const QUIET_PATH_EVERY: Duration = Duration::from_secs(2);

/// Whether the log of a source has records of several lines, by the path of its file.
type HasRecords = dyn Fn(&LogSource, &str) -> bool + Send;

/// Which logs have records of several lines.
pub struct RecordLogs(Box<HasRecords>);

impl RecordLogs {
    /// The logs for which `has_records` holds.
    pub fn new(has_records: impl Fn(&LogSource, &str) -> bool + Send + 'static) -> Self {
        Self(Box::new(has_records))
    }
}

impl Default for RecordLogs {
    /// No logs.
    fn default() -> Self {
        Self::new(|_, _| false)
    }
}

impl std::fmt::Debug for RecordLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordLogs")
    }
}

#[derive(Debug, Default)]
pub(super) struct PathScanner {
    record_logs: RecordLogs,
    sources: Vec<Arc<LogSource>>,
    /// Rules for events of several lines, by path or glob.
    multiline: Vec<(PathBuf, Arc<Multiline>)>,
    are_sources_new: bool,
    expanded_at: Option<Micros>,
    /// Time of the last match of the globs without any change of names.
    matched_at: Option<Micros>,
    first_line_watches: InotifyWatches,
    watched_paths: HashMap<u64, Arc<Path>>,
    next_watch: u64,
    directories: DirectoryWatch,
    due: Schedule<Arc<Path>>,
    pub(super) paths: BTreeMap<PathBuf, WatchedPath>,
    /// Files that were rotated away before their first line was complete.
    pub(super) orphans: Vec<Orphan>,
    pub(super) listings: DirectoryListings,
}

#[derive(Debug)]
pub(super) struct WatchedPath {
    pub(super) source: Arc<LogSource>,
    pub(super) at: Arc<Path>,
    pub(super) label: Arc<str>,
    /// Whether the path is a symbolic link: a change in its target's directory would go unnoticed.
    pub(super) is_link: bool,
    pub(super) multiline: Option<Arc<Multiline>>,
    pub(super) existed_at_start: bool,
    pub(super) is_from_glob: bool,
    /// Whether the parts beside it were identified once.
    pub(super) is_identified: bool,
    checked_at: Option<Micros>,
    due_at: Micros,
    /// When a file without a first line appeared or last grew.
    pub(super) entered_at: Micros,
    /// Watch for the first line, and the file size when it was set.
    first_line_watch: Option<u64>,
    pub(super) waiting_size: u64,
    pub(super) retry_at: Option<Micros>,
    pub(super) is_fresh: bool,
    /// Newest age of the files found at the last lookup.
    pub(super) newest_age: Option<PartAge>,
    pub(super) state: PathState,
    pub(super) error: Option<String>,
    pub(super) reported: Option<(StreamState, u64)>,
}

#[derive(Debug)]
pub(super) enum PathState {
    Absent,
    /// Without a complete first line.
    Waiting(Content, FileIdentity),
    Resolving(FileIdentity),
    Following(u64),
}

/// A rotated file without a complete first line.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) at: Arc<Path>,
    pub(super) content: Content,
    pub(super) identity: FileIdentity,
    pub(super) size: u64,
    pub(super) grown_at: Micros,
}

impl Orphan {
    pub(super) fn is_empty(&self) -> bool {
        self.content.metadata().is_ok_and(|metadata| metadata.len() == 0)
    }
}

impl WatchedPath {
    /// Records a failed access; the path is retried later.
    pub(super) fn fail(&mut self, error: &std::io::Error, now: Micros) {
        self.error = Some(cannot_read(&self.label, error));
        self.retry_at = Some(now + RETRY_EVERY);
    }

    pub(super) fn is_still_there(&self, inode: (u64, u64), files: &OpenFiles) -> bool {
        match &self.state {
            PathState::Absent => false,
            PathState::Waiting(_, identity) | PathState::Resolving(identity) => {
                identity.inode() == inode
            }
            PathState::Following(key) => {
                files.get(*key).is_some_and(|file| file.identity.inode() == inode)
            }
        }
    }

    /// Opens the file at the path if its first line is complete.
    pub(super) fn take_candidate(&mut self, now: Micros) -> Option<Candidate> {
        let (content, identity) = match std::mem::replace(&mut self.state, PathState::Absent) {
            PathState::Waiting(content, identity) => (content, identity),
            other => {
                self.state = other;
                return None;
            }
        };
        match Candidate::open(content, identity, false) {
            Ok(Ok(candidate)) => {
                self.state = PathState::Resolving(identity);
                Some(candidate)
            }
            Ok(Err(content)) => {
                let size = content.metadata().map_or(0, |metadata| metadata.len());
                if std::mem::replace(&mut self.waiting_size, size) != size {
                    self.entered_at = now;
                }
                self.state = PathState::Waiting(content, identity);
                None
            }
            Err(error) => {
                self.fail(&error, now);
                None
            }
        }
    }
}

impl PathScanner {
    pub(super) fn set_multiline(&mut self, rules: Vec<(PathBuf, Multiline)>) {
        self.multiline = rules.into_iter().map(|(path, rule)| (path, Arc::new(rule))).collect();
    }

    pub(super) fn set_record_logs(&mut self, record_logs: RecordLogs) {
        self.record_logs = record_logs;
    }

    pub(super) fn set_sources(&mut self, sources: Vec<LogSource>) {
        self.sources = sources.into_iter().map(Arc::new).collect();
        self.are_sources_new = true;
    }

    pub(super) fn multiline_of(&self, source: &LogSource, path: &Path) -> Option<Arc<Multiline>> {
        let rule = self.multiline.iter().find(|(pattern, _)| glob::path_matches(pattern, path));
        if let Some((_, rule)) = rule {
            return Some(rule.clone());
        }
        let has_records = self.record_logs.0(source, &path.to_string_lossy());
        has_records.then(|| Arc::new(Multiline::of_records()))
    }

    /// Aligns the watched paths with the sources and their globs; returns the dropped ones.
    pub(super) fn expand(&mut self, now: Micros, max_paths: usize) -> Vec<WatchedPath> {
        let is_due = self.expanded_at.is_none_or(|at| now >= at + EXPAND_EVERY || now < at);
        if !self.are_sources_new && !is_due {
            return Vec::new();
        }
        self.expanded_at = Some(now);
        self.directories.clean(now);
        if !self.are_sources_new && self.matches_as_before(now) {
            return Vec::new();
        }
        self.matched_at = Some(now);
        let wanted = self.wanted_paths(max_paths);
        for (path, source) in &wanted {
            self.watch(path, source, now);
        }
        let are_sources_new = std::mem::take(&mut self.are_sources_new);
        let dropped = self.paths.extract_if(.., |path, watched| {
            let is_left = are_sources_new || matches!(watched.state, PathState::Absent);
            is_left && !wanted.contains_key(path)
        });
        let mut dropped: Vec<WatchedPath> = dropped.map(|(_, watched)| watched).collect();
        for watched in &mut dropped {
            self.unwatch(watched);
        }
        dropped
    }

    /// Whether every glob still matches the same paths, because no name in its directory changed.
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

    fn wanted_paths(&self, max_paths: usize) -> BTreeMap<PathBuf, Arc<LogSource>> {
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
        while wanted.len() > max_paths {
            wanted.pop_last();
        }
        wanted
    }

    fn watch(&mut self, path: &Path, source: &Arc<LogSource>, now: Micros) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.source = source.clone();
            return;
        }
        let watched = WatchedPath {
            source: source.clone(),
            at: path.into(),
            label: label(path),
            is_link: true,
            multiline: self.multiline_of(source, path),
            existed_at_start: self.are_sources_new && path.exists(),
            is_from_glob: glob::is_pattern(&source.path),
            is_identified: false,
            checked_at: None,
            due_at: now,
            entered_at: now,
            first_line_watch: None,
            waiting_size: 0,
            retry_at: None,
            is_fresh: false,
            newest_age: None,
            state: PathState::Absent,
            error: None,
            reported: None,
        };
        self.due.add(now, watched.at.clone());
        self.paths.insert(path.to_owned(), watched);
    }

    /// Paths whose check is due, those of one directory next to each other.
    pub(super) fn take_due(&mut self, now: Micros) -> Vec<Arc<Path>> {
        for directory in self.directories.changed(now) {
            let within =
                self.paths.range::<Path, _>((Bound::Included(&*directory), Bound::Unbounded));
            let within = within.take_while(|(path, _)| path.starts_with(&directory));
            for path in within.map(|(_, watched)| watched.at.clone()).collect::<Vec<_>>() {
                self.hasten(&path, now);
            }
        }
        for watch in self.first_line_watches.take() {
            if let Some(path) = self.watched_paths.remove(&watch) {
                self.hasten(&path, now);
            }
        }
        let paths = &self.paths;
        let planned = self.due.take(now).filter(|(at, path)| {
            // A path that was rescheduled has outdated entries.
            paths.get(&**path).is_some_and(|watched| watched.due_at == *at)
        });
        let mut due: Vec<Arc<Path>> = planned.map(|(_, path)| path).collect();
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Takes a path out for its check; [`PathScanner::put_back`] schedules the next one.
    pub(super) fn take(&mut self, path: &Path, now: Micros) -> Option<(PathBuf, WatchedPath)> {
        let (path, mut watched) = self.paths.remove_entry(path)?;
        self.unwatch(&mut watched);
        watched.checked_at = Some(now);
        Some((path, watched))
    }

    pub(super) fn put_back(
        &mut self,
        path: PathBuf,
        mut watched: WatchedPath,
        files: &OpenFiles,
        now: Micros,
    ) {
        watched.due_at = self.next_check(&path, &mut watched, files, now);
        self.due.add(watched.due_at, watched.at.clone());
        self.paths.insert(path, watched);
    }

    /// Time of the next check; an unchanged path waits for a change of names in its directory.
    fn next_check(
        &mut self,
        path: &Path,
        watched: &mut WatchedPath,
        files: &OpenFiles,
        now: Micros,
    ) -> Micros {
        let directory = path.parent().unwrap_or(path);
        let is_settled = !watched.is_link && watched.retry_at.is_none();
        let is_left_alone = is_settled
            && match &watched.state {
                PathState::Following(_) | PathState::Resolving(_) => {
                    self.directories.is_quiet(directory, now)
                }
                PathState::Waiting(content, _) if now >= watched.entered_at + QUIET_AFTER => {
                    self.directories.is_quiet(directory, now) && {
                        let watch = self.next_watch;
                        self.next_watch += 1;
                        watched.first_line_watch = Some(watch);
                        self.watched_paths.insert(watch, watched.at.clone());
                        // A write between the check and the watch would go unreported.
                        self.first_line_watches.add(watch, content.file())
                            && content.metadata().is_ok_and(|m| m.len() == watched.waiting_size)
                    }
                }
                _ => false,
            };
        let is_quiet = match &watched.state {
            PathState::Following(key) => {
                files.get(*key).is_some_and(|file| now >= file.observed.grown_at + QUIET_AFTER)
            }
            _ => false,
        };
        let is_young = now < watched.entered_at + QUIET_AFTER;
        match (&watched.state, watched.retry_at) {
            _ if watched.checked_at.is_none() => now,
            _ if is_left_alone => now + TRUST,
            (_, Some(at)) => at,
            (PathState::Waiting(..), None) if is_young => now,
            _ if is_quiet => now + QUIET_PATH_EVERY,
            _ => now + PATH_EVERY,
        }
    }

    pub(super) fn hasten(&mut self, path: &Path, now: Micros) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.checked_at = None;
            watched.due_at = now;
            self.due.add(now, watched.at.clone());
        }
    }

    /// Makes all checks due now: after a clock step back the planned times mean nothing.
    pub(super) fn hasten_all(&mut self, now: Micros) {
        self.due.clear();
        for watched in self.paths.values_mut() {
            watched.due_at = now;
            self.due.add(now, watched.at.clone());
        }
    }

    /// Ends the watch for the first line of the file at the path.
    fn unwatch(&mut self, watched: &mut WatchedPath) {
        if let Some(watch) = watched.first_line_watch.take() {
            self.first_line_watches.remove(watch);
            self.watched_paths.remove(&watch);
        }
    }

    /// Opens rotated parts that are not being read; also returns whether there may be older ones.
    pub(super) fn open_siblings(
        &mut self,
        path: &Path,
        limit: usize,
        files: &OpenFiles,
    ) -> (Vec<Candidate>, bool) {
        let paths = &self.paths;
        let parts = self.listings.siblings_except(path, limit, |path| paths.contains_key(path));
        let has_older = parts.len() == limit;
        let free = parts.into_iter().filter(|part| {
            !files.has_inode(part.identity.inode())
                && !self.orphans.iter().any(|orphan| orphan.identity.is_same_file(&part.identity))
        });
        let opened =
            free.filter_map(|part| Candidate::open(part.content, part.identity, true).ok()?.ok());
        (opened.collect(), has_older)
    }
}
