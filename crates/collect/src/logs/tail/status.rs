//! How far every file is: all of it, or what changed since it was last told.
//!
//! Thousands of logs rest while a few are written, so what is told every second must not be told of
//! each.

use super::file::{TailFile, Told};
use super::types::{StatusChanges, StreamState, StreamStatus};
use super::{Live, Tailer, Watched};

impl Tailer {
    /// Every file: how far it is, and what is wrong with it.
    pub fn status(&self) -> Vec<StreamStatus> {
        let files = self.files.values().map(|file| self.file_status(file));
        let mut all: Vec<StreamStatus> =
            files.chain(self.paths.values().filter_map(path_status)).collect();
        all.sort_by(|a, b| (&a.path, a.stream).cmp(&(&b.path, b.stream)));
        all
    }

    /// What is otherwise than at the last call, and what has ended since.
    pub fn status_changes(&mut self) -> StatusChanges {
        let mut changes =
            StatusChanges { gone: std::mem::take(&mut self.gone), ..Default::default() };
        let mut changed = Vec::new();
        for (key, file) in &self.files {
            let told = Told::of(file, self.lost.get(&file.path).copied().unwrap_or_default());
            if file.seen.told.as_ref() != Some(&told) {
                changed.push((*key, told));
            }
        }
        for (key, told) in changed {
            let Some(file) = self.files.get_mut(&key) else { continue };
            if let Some(before) = file.seen.told.replace(told).filter(|told| told.path != file.path)
            {
                changes.gone.push((before.path, Some(file.stream)));
            }
            changes.changed.push(self.file_status(&self.files[&key]));
        }
        for watched in self.paths.values_mut() {
            let status = path_status(watched);
            let now = status.as_ref().map(|status| (status.state, status.size));
            match (status, &watched.told) {
                (Some(status), told) if *told != now => changes.changed.push(status),
                (None, Some(_)) => changes.gone.push((watched.label.clone(), None)),
                _ => {}
            }
            watched.told = now;
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
            lost_bytes: self.lost.get(&file.path).copied().unwrap_or_default(),
            state: file.state(),
            error: file.seen.error.clone(),
        }
    }
}

/// The status of a path that has no stream (yet).
fn path_status(watched: &Watched) -> Option<StreamStatus> {
    let (state, size) = match (&watched.live, &watched.error) {
        (_, Some(_)) => (StreamState::Failed, 0),
        (Live::Waiting(..), None) => (StreamState::Waiting, watched.waiting_size),
        (Live::Resolving(_), None) => (StreamState::Starting, 0),
        (Live::Absent | Live::Following(_), None) => return None,
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
