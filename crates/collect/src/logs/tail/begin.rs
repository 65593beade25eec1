//! The other half of the [`Tailer`]: asks the hub about new files, begins them where it stands,
//! ends them when their content is replaced.
//!
//! The surprising thing: between the question and the answer a file may be truncated or renamed, so
//! what was asked about is checked again before a byte of it is read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Micros, StreamId};

use super::contact::{Begin, Candidate, Contact, Policy, StartAt, Surroundings};
use super::content::Content;
use super::file::{Seen, TailFile, is_line_start, recent_start};
use super::identity::Place;
use super::rotated::{Part, SIBLING_LIMIT};
use super::types::{Chunk, Gap, GapReason, NewStream, TailEvent};
use super::{Live, Orphan, Tailer, cannot_read, elapsed};

/// How often opening an unreadable file again is tried.
const REOPEN_EVERY: Duration = Duration::from_secs(5);
/// Rotated parts of one log that are looked at where the usual number is too few, and of several
/// such logs at a time.
const WIDE_LIMIT: usize = 1000;
/// Names of dropped streams that are kept.
const GIVEN_UP_LIMIT: usize = 65_536;
/// Stale file handle: the server of a network file system does not know the file any more.
const ESTALE: i32 = 116;

impl Tailer {
    /// Begins reading where every answer is there.
    pub(super) fn resolve(&mut self, now: Micros) {
        let host = &self.options.host;
        let is_complete = |contact: &mut Contact| contact.has_news && contact.has_answers(host);
        let complete = self.contacts.extract_if(.., |_, contact| is_complete(contact));
        for (id, mut contact) in complete.collect::<Vec<_>>() {
            if self.asks_on(&mut contact) {
                self.contacts.insert(id, contact);
                continue;
            }
            let path = contact.path.clone();
            self.in_contact.remove(&path);
            let stale = contact.take_stale_live();
            let (keys, given_up) = (&self.keys, &self.given_up);
            let of_path = self.paths.get(&*path).and_then(|w| self.by_path.get(&w.label));
            let open: Vec<&TailFile> =
                of_path.into_iter().flatten().filter_map(|key| self.files.get(key)).collect();
            let mut around = Surroundings {
                host: &self.options.host,
                is_open: &|stream| keys.contains_key(&stream),
                is_taken: &|stream| keys.contains_key(&stream) || given_up.contains(&stream),
                is_copy: &|content| open.iter().any(|file| file.is_copied_to(content)),
                registered: &mut self.registered,
            };
            let is_fresh = contact.policy == Policy::Fresh;
            let begins = contact.resolve(stale.as_ref(), &mut around);
            for begin in begins {
                self.begin(&path, begin, now);
            }
            if let Some(watched) = self.paths.get_mut(&*path)
                && stale.is_some()
                && matches!(watched.live, Live::Resolving(_))
            {
                watched.live = Live::Absent;
                watched.begins_anew |= is_fresh;
                self.hasten_path(&path, now);
            }
        }
    }

    /// Opens the parts older than those that were asked about, where they may be wanted; gives
    /// whether the contact is not to be resolved yet.
    fn asks_on(&mut self, contact: &mut Contact) -> bool {
        if !contact.wants_older() {
            return false;
        }
        let is_wide = |other: &&Contact| other.siblings.len() > SIBLING_LIMIT;
        let wide = self.contacts.values().filter(is_wide);
        if wide.map(|other| other.siblings.len()).sum::<usize>() >= WIDE_LIMIT {
            // Each part is an open file: this contact's turn comes.
            contact.has_news = true;
            return true;
        }
        let (siblings, _) = self.open_siblings(&contact.path, WIDE_LIMIT);
        contact.add_older(siblings);
        !contact.has_answers(&self.options.host)
    }

    /// One contact of a path at a time: two would find the same parts.
    pub(super) fn ask(&mut self, contact: Contact) {
        self.in_contact.insert(contact.path.clone());
        self.contacts.insert(self.next_contact, contact);
        self.next_contact += 1;
    }

    fn begin(&mut self, path: &Path, begin: Begin, now: Micros) {
        let Some(watched) = self.paths.get_mut(path) else { return };
        let Begin { candidate, stream, position, is_live, registration, ended, is_backfill } =
            begin;
        let Candidate { mut content, place, head, size, .. } = candidate;
        // It may have been rotated away while the hub was being asked.
        let is_live =
            is_live && matches!(&watched.live, Live::Resolving(at) if at.is_same_file(&place));
        // Another content may have taken the file over while nobody looked, or while the hub was
        // being asked.
        let is_same = match position {
            StartAt::Known(known) if is_live && !content.is_packed() => {
                head.is_head_of(&mut content).unwrap_or(true)
                    && (known == size || is_line_start(&mut content, known).unwrap_or(true))
            }
            _ => true,
        };
        let is_known = matches!(position, StartAt::Known(_));
        let position = match position {
            StartAt::Known(position) => position,
            StartAt::Zero => 0,
            StartAt::Recent(recent) => recent_start(&mut content, size, recent).unwrap_or(0),
        };
        if self.keys.contains_key(&stream) || self.by_inode.contains_key(&place.inode()) {
            if is_live {
                watched.live = Live::Absent;
                self.hasten_path(path, now);
            }
            return;
        }
        let is_older =
            |file: &&TailFile| !file.is_known && !file.is_backfill && file.path == watched.label;
        let of_path = self.by_path.get(&watched.label).into_iter().flatten();
        let open = of_path.filter_map(|key| self.files.get(key));
        let waits_for = open.filter(is_older).map(|file| file.stream).collect();
        let size = if content.is_packed() { position + 1 } else { size.max(position) };
        let file = TailFile {
            content,
            path: watched.label.clone(),
            at: watched.at.clone(),
            source: watched.source.clone(),
            place,
            head,
            stream,
            position,
            acknowledged: position,
            size,
            is_rotated: !is_live,
            multiline: watched.multiline.clone(),
            is_known,
            waits_for,
            registration,
            is_backfill,
            seen: Seen::nothing(position, now),
        };
        let label = watched.label.clone();
        if is_live {
            watched.live = Live::Following(self.next_key);
        }
        let key = self.insert(file);
        if let Some((stream, read)) = ended {
            self.note_end(label, stream, read);
        }
        if !is_same {
            self.replaced(key, now);
        }
    }

    /// While no agent looked a file began anew, and no copy of the old content is beside it.
    fn note_end(&mut self, path: Arc<str>, stream: StreamId, read: u64) {
        self.event(TailEvent::Truncated { path: path.clone(), stream, is_copy_found: false });
        self.gap(Gap {
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

    pub(super) fn insert(&mut self, file: TailFile) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.keys.insert(file.stream, key);
        self.by_inode.insert(file.place.inode(), key);
        self.by_path.entry(file.path.clone()).or_default().push(key);
        if let Some(registration) = file.registration {
            self.registrations.insert(registration.slot, key);
            self.unsent.push_back(registration.slot);
        }
        if file.is_backfill {
            self.backfill.push((file.place.modified_ns, key));
            self.backfill.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.files_due.add(file.seen.due_at, key);
        self.files.insert(key, file);
        self.queue(key);
        key
    }

    /// Drops a file.
    pub(super) fn forget(&mut self, key: u64) -> Option<TailFile> {
        let mut file = self.files.remove(&key)?;
        self.end_keeping(&mut file);
        self.keys.remove(&file.stream);
        self.watches.remove(key);
        if self.by_inode.get(&file.place.inode()) == Some(&key) {
            self.by_inode.remove(&file.place.inode());
        }
        if let Some(keys) = self.by_path.get_mut(&file.path) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_path.remove(&file.path);
            }
        }
        if let Some(registration) = file.registration {
            self.registrations.remove(&registration.slot);
        }
        self.in_flight[usize::from(file.is_backfill)] -= file.position - file.acknowledged;
        // What is on its way may still arrive, and an answer that says that nobody knows it may be
        // old by now: so nothing else may have this name.
        if self.given_up.len() >= GIVEN_UP_LIMIT && self.contacts.is_empty() {
            self.given_up.clear();
        }
        self.given_up.insert(file.stream);
        if let Some(told) = &file.seen.told {
            self.gone.push((told.path.clone(), Some(file.stream)));
        }
        Some(file)
    }

    /// The next file's entry into its head's directory, as a chunk without lines: durable before
    /// the file's first line.
    pub(super) fn next_registration(&mut self) -> Option<Chunk> {
        while let Some(slot) = self.unsent.pop_front() {
            let file = self.registrations.get(&slot).and_then(|key| self.files.get(key));
            let Some((file, registration)) = file.and_then(|file| Some((file, file.registration?)))
            else {
                continue;
            };
            return Some(Chunk {
                stream: slot,
                path: file.path.clone(),
                source: file.source.clone(),
                from: registration.from,
                to: registration.to,
                bytes: Vec::new(),
                skipped_bytes: 0,
                is_lost: false,
                events: None,
                is_first: true,
            });
        }
        None
    }

    /// The hub holds `to` in a slot; gives whether that was a slot.
    pub(super) fn registered(&mut self, slot: StreamId, to: u64) -> bool {
        let Some(key) = self.registrations.get(&slot).copied() else { return false };
        if let Some(file) = self.files.get_mut(&key)
            && file.registration.is_some_and(|registration| registration.to <= to)
        {
            file.registration = None;
            self.registrations.remove(&slot);
            self.queue(key);
        }
        true
    }

    /// The hub does not hold a slot's entry; gives whether that was a slot.
    pub(super) fn register_again(&mut self, slot: StreamId, from: u64) -> bool {
        let Some(key) = self.registrations.get(&slot).copied() else { return false };
        if let Some(registration) =
            self.files.get_mut(&key).and_then(|file| file.registration.as_mut())
        {
            registration.from = from.min(registration.to);
            self.unsent.push_back(slot);
        }
        true
    }

    /// The file begins anew: the rest of the old content may be in a copy beside it.
    pub(super) fn replaced(&mut self, key: u64, now: Micros) {
        let Some(old) = self.forget(key) else { return };
        let copy = self.find_copy(&old);
        self.note_truncation(&old, copy.as_ref().map(|(_, size)| *size), now);
        let at = old.at.clone();
        if let Some((part, size)) = copy {
            self.in_flight[usize::from(old.is_backfill)] += old.position - old.acknowledged;
            self.given_up.remove(&old.stream);
            let size = if part.content.is_packed() { old.position + 1 } else { size };
            self.insert(TailFile {
                content: part.content,
                place: part.place,
                size,
                is_rotated: true,
                is_backfill: false,
                seen: Seen::nothing(old.position, now),
                ..old
            });
        }
        let (content, place) = (old.content, old.place);
        let watched = self.paths.get_mut(&*at);
        let its =
            watched.filter(|w| matches!(w.live, Live::Following(followed) if followed == key));
        let Some(watched) = its else {
            // Truncated and renamed between two looks: what it holds now is a part of its own.
            self.orphans.push(Orphan { at, content, place, size: 0, grown_at: now });
            return;
        };
        watched.live = Live::Waiting(content, place);
        watched.begins_anew = true;
        watched.entered_at = now;
        self.hasten_path(&at, now);
    }

    /// The copy that copytruncate made of `old`, if it holds more than what was read, and its size.
    fn find_copy(&mut self, old: &TailFile) -> Option<(Part, u64)> {
        self.listings.clear();
        let parts = self.listings.siblings(&old.at);
        self.listings.clear();
        let mut copies = parts.into_iter().filter_map(|mut part| {
            let is_copy = !part.place.is_same_file(&old.place)
                && !self.by_inode.contains_key(&part.place.inode())
                && old.is_copied_to(&mut part.content);
            is_copy.then_some(part)
        });
        copies.find_map(|part| {
            let size = match part.content.known_size().ok()? {
                Some(size) => size,
                // A packed copy has to be unpacked to be measured; the bytes before its end will be
                // read from it.
                None => old.position.max(old.size),
            };
            (size >= old.position).then_some((part, size))
        })
    }

    /// What was seen of the old content and is neither read nor in the copy is lost; what was
    /// written after the last look may be.
    fn note_truncation(&mut self, old: &TailFile, copy_size: Option<u64>, now: Micros) {
        self.event(TailEvent::Truncated {
            path: old.path.clone(),
            stream: old.stream,
            is_copy_found: copy_size.is_some(),
        });
        let from = copy_size.unwrap_or(0).max(old.position);
        self.gap(Gap {
            path: old.path.clone(),
            stream: old.stream,
            from,
            to: None,
            lost_bytes: old.size.saturating_sub(from),
            is_exact: false,
            unwatched: Some(elapsed(old.seen.checked_at, now)),
            reason: GapReason::Truncated,
        });
    }

    /// A file cannot be read: its place may have another file handle by now (network file systems),
    /// or it is gone.
    pub(super) fn reopen(&mut self, key: u64, error: &io::Error, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.seen.reopened_at.is_some_and(|at| now < at + REOPEN_EVERY && now >= at) {
            return;
        }
        file.seen.reopened_at = Some(now);
        file.seen.error = Some(cannot_read(&file.path, error));
        let here = Content::open(&file.at).ok().and_then(|content| {
            let place = Place::of(&content).ok()?;
            Some(Part { content, place })
        });
        self.listings.clear();
        let parts = here.into_iter().chain(self.listings.siblings(&file.at));
        let found = parts.into_iter().find_map(|mut part| {
            let is_it = part.place.is_same_file(&file.place)
                && file.head.is_head_of(&mut part.content).unwrap_or(false);
            is_it.then_some(part.content)
        });
        if let Some(found) = found {
            file.content = found;
            file.seen.error = None;
            self.queue(key);
        } else if error.raw_os_error() == Some(ESTALE) {
            let gap = Gap {
                path: file.path.clone(),
                stream: file.stream,
                from: file.position,
                to: None,
                lost_bytes: file.size.saturating_sub(file.position),
                is_exact: false,
                unwatched: Some(elapsed(file.seen.checked_at, now)),
                reason: GapReason::Gone,
            };
            self.forget(key);
            self.gap(gap);
        }
    }

    /// What is not yet asked of the hub.
    pub(super) fn questions(&mut self) -> Vec<NewStream> {
        let mut new = self.rest_questions();
        for (id, contact) in self.contacts.iter_mut().filter(|(_, contact)| contact.has_news) {
            contact.has_news = false;
            let Some(watched) = self.paths.get(&*contact.path) else { continue };
            for stream in contact.questions(&self.options.host) {
                let by = self.asked.entry(stream).or_default();
                if by.is_empty() {
                    new.push(NewStream {
                        stream,
                        path: Arc::clone(&watched.label),
                        source: watched.source.clone(),
                        existed_at_start: watched.existed_at_start,
                    });
                }
                if !by.contains(id) {
                    by.push(*id);
                }
            }
        }
        new
    }
}
