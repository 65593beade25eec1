//! The other half of the [`Tailer`]: asks the hub about new files, begins them where it stands, ends them when their
//! content is replaced.
//!
//! The surprising thing: between the question and the answer a file may be truncated or renamed, so what was asked about
//! is checked again before a byte of it is read.

use std::fs::File;
use std::path::{Path, PathBuf};

use weir_tables::{Micros, StreamId};

use super::contact::{Begin, Candidate, StartAt};
use super::file::{TailFile, is_line_start, recent_start};
use super::identity::Place;
use super::rotated::siblings;
use super::types::{NewStream, TailEvent};
use super::{Live, Orphan, Tailer};

impl Tailer {
    /// Begins reading where every answer is there.
    pub(super) fn resolve(&mut self, now: Micros) {
        if self.contacts.is_empty() {
            return;
        }
        for mut contact in std::mem::take(&mut self.contacts) {
            if contact.answer(&self.options.host, &self.answers) {
                let path = contact.path.clone();
                for begin in contact.resolve() {
                    self.begin(&path, begin, now);
                }
            } else {
                self.contacts.push(contact);
            }
        }
        if self.contacts.is_empty() {
            self.answers.clear();
            self.asked.clear();
        }
    }

    fn begin(&mut self, path: &Path, begin: Begin, now: Micros) {
        let Some(watched) = self.paths.get_mut(path) else { return };
        let Begin { candidate, stream, position, is_live } = begin;
        let Candidate { file, place, head, size, .. } = candidate;
        // It may have been rotated away while the hub was being asked.
        let is_live =
            is_live && matches!(&watched.live, Live::Resolving(at) if at.is_same_file(&place));
        // Another content may have taken the file over while nobody looked, or while the hub was being asked.
        let is_same = match position {
            StartAt::Known(known) if is_live => {
                head.is_head_of(&file).unwrap_or(true)
                    && is_line_start(&file, known).unwrap_or(true)
            }
            _ => true,
        };
        let is_known = matches!(position, StartAt::Known(_));
        let position = match position {
            StartAt::Known(position) => position,
            StartAt::Zero => 0,
            StartAt::Recent(recent) => recent_start(&file, size, recent).unwrap_or(0),
        };
        if self.keys.contains_key(&stream) {
            if is_live {
                watched.live = Live::Absent;
            }
            return;
        }
        let is_older = |file: &&TailFile| !file.is_known && file.path == watched.label;
        let waits_for = self.files.values().filter(is_older).map(|file| file.stream).collect();
        let file = TailFile {
            file,
            path: watched.label.clone(),
            source: watched.source.clone(),
            place,
            head,
            stream,
            position,
            acknowledged: position,
            size,
            stalled_size: None,
            scanned: position,
            grown_at: now,
            checked_at: now,
            changed_ns: 0,
            is_rotated: !is_live,
            is_deleted: false,
            is_queued: false,
            is_known,
            waits_for,
            error: None,
        };
        let key = self.next_key;
        if is_live {
            watched.live = Live::Following(key);
        }
        self.insert(file);
        if !is_same {
            self.replaced(key, now);
        }
    }

    fn insert(&mut self, file: TailFile) {
        let key = self.next_key;
        self.next_key += 1;
        self.keys.insert(file.stream, key);
        let is_free = file.waits_for.is_empty();
        self.files.insert(key, file);
        if is_free {
            self.queue(key);
        }
    }

    /// The file begins anew: the rest of the old content may be in a copy beside it.
    pub(super) fn replaced(&mut self, key: u64, now: Micros) {
        let Some(old) = self.forget(key) else { return };
        let is_its = |live: &Live| matches!(live, Live::Following(followed) if *followed == key);
        let path = self.paths.iter().find(|(_, watched)| is_its(&watched.live));
        let path = path.map(|(path, _)| path.clone());
        let copy = find_copy(Path::new(&*old.path), &old);
        let event = TailEvent::Truncated {
            path: old.path.clone(),
            stream: old.stream,
            lost_bytes: if copy.is_some() { 0 } else { old.size.saturating_sub(old.position) },
            is_copy_found: copy.is_some(),
        };
        self.event(event);
        let label = old.path.clone();
        let TailFile { file: live, place, .. } = old;
        let known_age = copy.as_ref().map(|(_, place, _)| place.age());
        if let Some((file, copy_place, size)) = copy {
            self.in_flight_bytes += old.position - old.acknowledged;
            self.insert(TailFile {
                file,
                place: copy_place,
                size,
                path: old.path,
                source: old.source,
                head: old.head,
                stream: old.stream,
                position: old.position,
                acknowledged: old.acknowledged,
                stalled_size: None,
                scanned: old.position,
                grown_at: now,
                checked_at: now,
                changed_ns: 0,
                is_rotated: true,
                is_deleted: false,
                is_queued: false,
                is_known: old.is_known,
                waits_for: old.waits_for,
                error: None,
            });
        }
        let Some(watched) = path.and_then(|path| self.paths.get_mut(&path)) else {
            // Truncated and renamed between two looks: what it holds now is a part of its own.
            let path = PathBuf::from(&*label);
            self.orphans.push(Orphan { path, file: live, place, size: 0, grown_at: now });
            return;
        };
        watched.live = Live::Waiting(live, place);
        watched.begins_anew = true;
        // It may have been truncated twice since; then another copy holds what was never seen.
        watched.known_age = known_age;
        watched.looked_at = None;
    }

    /// What is not yet asked of the hub.
    pub(super) fn questions(&mut self) -> Vec<NewStream> {
        let mut new = Vec::new();
        for contact in &self.contacts {
            let Some(watched) = self.paths.get(&contact.path) else { continue };
            let asked: Vec<StreamId> = contact
                .questions(&self.options.host)
                .filter(|stream| !self.answers.contains_key(stream))
                .collect();
            for stream in asked.into_iter().filter(|stream| self.asked.insert(*stream)) {
                new.push(NewStream {
                    stream,
                    path: watched.label.clone(),
                    source: watched.source.clone(),
                    existed_at_start: watched.existed_at_start,
                });
            }
        }
        new
    }
}

/// The copy that copytruncate made of `old`, if it holds more than what was read.
fn find_copy(path: &Path, old: &TailFile) -> Option<(File, Place, u64)> {
    let (_, file, place) = siblings(path).into_iter().find(|(_, file, place)| {
        !place.is_same_file(&old.place) && old.head.is_head_of(file).unwrap_or(false)
    })?;
    let size = file.metadata().ok()?.len();
    (size >= old.position).then_some((file, place, size))
}
