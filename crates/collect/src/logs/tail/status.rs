//! Status of every file: all of it, or the changes since the last report.
//!
//! Thousands of logs are idle while a few are written, so idle ones are not reported again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Tailer;
use super::file::{ReportedStatus, TailFile};
use super::scan::{PathState, WatchedPath};
use super::types::{Gap, StatusChanges, StatusKey, StreamState, StreamStatus, TailEvent};

/// Events that are kept until they are taken; further ones displace the oldest.
const EVENT_LIMIT: usize = 1000;

#[derive(Debug)]
pub(super) struct TailReport {
    max_paths: usize,
    events: VecDeque<TailEvent>,
    lost_bytes: HashMap<Arc<str>, u64>,
    /// Streams and paths whose end was not reported yet.
    pub(super) gone: Vec<StatusKey>,
}

impl TailReport {
    pub(super) fn new(max_paths: usize) -> Self {
        let (events, lost_bytes, gone) = <_>::default();
        Self { max_paths, events, lost_bytes, gone }
    }

    pub(super) fn event(&mut self, event: TailEvent) {
        if self.events.len() == EVENT_LIMIT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn gap(&mut self, gap: Gap) {
        self.count_lost(&gap);
        self.event(TailEvent::Gap(gap));
    }

    pub(super) fn count_lost(&mut self, gap: &Gap) {
        if gap.lost_bytes > 0
            && (self.lost_bytes.len() < self.max_paths || self.lost_bytes.contains_key(&gap.path))
        {
            *self.lost_bytes.entry(gap.path.clone()).or_default() += gap.lost_bytes;
        }
    }

    pub(super) fn take_events(&mut self) -> Vec<TailEvent> {
        self.events.drain(..).collect()
    }

    fn lost_bytes(&self, path: &str) -> u64 {
        self.lost_bytes.get(path).copied().unwrap_or_default()
    }
}

impl Tailer {
    /// Status of every file: its position, and its error if any.
    pub fn status(&self) -> Vec<StreamStatus> {
        let files = self.files.iter().map(|(_, file)| self.file_status(file));
        let mut all: Vec<StreamStatus> =
            files.chain(self.scanner.paths.values().filter_map(path_status)).collect();
        all.sort_by(|a, b| (&a.path, a.stream).cmp(&(&b.path, b.stream)));
        all
    }

    /// Changes since the last call: new or changed files, and ended ones.
    pub fn status_changes(&mut self) -> StatusChanges {
        let mut changes =
            StatusChanges { gone: std::mem::take(&mut self.report.gone), ..Default::default() };
        let mut changed = Vec::new();
        for (key, file) in self.files.iter() {
            let current = ReportedStatus::of(file, self.report.lost_bytes(&file.path));
            if file.observed.reported.as_ref() != Some(&current) {
                changed.push((key, current, self.file_status(file)));
            }
        }
        for (key, current, status) in changed {
            changes.changed.push(status);
            let Some(file) = self.files.get_mut(key) else { continue };
            let before = file.observed.reported.replace(current);
            if let Some(before) = before.filter(|before| before.path != file.path) {
                changes.gone.push((before.path, Some(file.stream)));
            }
        }
        for watched in self.scanner.paths.values_mut() {
            let status = path_status(watched);
            let current = status.as_ref().map(|status| (status.state, status.size));
            match (status, &watched.reported) {
                (Some(status), before) if *before != current => changes.changed.push(status),
                (None, Some(_)) => changes.gone.push((watched.label.clone(), None)),
                _ => {}
            }
            watched.reported = current;
        }
        changes
    }

    fn file_status(&self, file: &TailFile) -> StreamStatus {
        StreamStatus {
            stream: Some(file.stream),
            path: file.path.clone(),
            program: file.source.program,
            position: file.position,
            acknowledged: file.acknowledged,
            size: file.size,
            lag_bytes: file.lag(),
            modified: file.modified(),
            lost_bytes: self.report.lost_bytes(&file.path),
            state: file.state(),
            error: file.observed.error.clone(),
        }
    }
}

fn path_status(watched: &WatchedPath) -> Option<StreamStatus> {
    let (state, size) = match (&watched.state, &watched.error) {
        (_, Some(_)) => (StreamState::Failed, 0),
        (PathState::Waiting(..), None) => (StreamState::Waiting, watched.waiting_size),
        (PathState::Resolving(_), None) => (StreamState::Starting, 0),
        (PathState::Absent | PathState::Following(_), None) => return None,
    };
    Some(StreamStatus {
        stream: None,
        path: watched.label.clone(),
        program: watched.source.program,
        position: 0,
        acknowledged: 0,
        size,
        lag_bytes: size,
        modified: None,
        lost_bytes: 0,
        state,
        error: watched.error.clone(),
    })
}
