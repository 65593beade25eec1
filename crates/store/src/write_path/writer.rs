//! The one thread that writes: it takes appends in groups, makes each group durable with one write and one sync, shows
//! its rows to queries, and answers.
//!
//! A group is whatever gathered while the previous one was being synced (group commit), so a hundred senders cost
//! about as many syncs as one; and what comes shortly after, since one sender's parcels come one by one as well (see
//! [`GroupCommitDelay`]). Positions of a group count for the parcels behind it in the same group, and are rolled back with it when
//! it cannot be written.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use weir_datafile::{ErrorKind, Snapshot, StoreError, space};
use weir_tables::{Parcel, StreamId};

use crate::write_path::adapt::adapt;
use crate::write_path::shared::StoreState;
use crate::write_path::streams::{Admission, judge};
use crate::write_path::wal::Wal;

/// What [`crate::Store::append`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Rows that were new.
    pub rows: u64,
    /// Where the parcel's stream stands now; `None` for a parcel without a range.
    pub position: Option<u64>,
}

/// A group stops growing at this many bytes.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How often a full disk is looked at again when nobody appends.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// One append on its way.
pub(crate) struct AppendRequest {
    pub(crate) parcel: Parcel,
    /// The record to log; empty when the store has no log.
    pub(crate) encoded: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Appended, StoreError>>,
    /// Its share of the queue, given back when it is answered.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// What the thread is asked to do.
pub(crate) enum WriterCommand {
    Append(AppendRequest),
    /// Freeze all hot rows for a flush; `None` when nothing changed since the last, unless it has to be one anyway.
    Freeze {
        is_needed: bool,
        reply: Sender<Result<Option<FrozenRows>, StoreError>>,
    },
    /// Log segments below this are in files.
    Release(u64),
    /// Rows of these streams that are in no file are left out; the first log segment that has none of them.
    LeaveOut(Arc<HashSet<StreamId>>, Sender<Result<u64, StoreError>>),
}

/// What a flush has to make durable together with the frozen rows of the view.
#[derive(Debug)]
pub(crate) struct FrozenRows {
    /// Every record below this segment is in the frozen rows or in files.
    pub(crate) wal_floor: u64,
    pub(crate) positions: Arc<[(StreamId, u64)]>,
}

/// The log and when to stop filling its disk.
pub(crate) struct WriterLog {
    pub(crate) wal: Wal,
    pub(crate) dir: PathBuf,
    pub(crate) min_free_bytes: u64,
}

/// The thread's own state.
pub(crate) struct LogWriter {
    shared: Arc<StoreState>,
    commands: Receiver<WriterCommand>,
    log: Option<WriterLog>,
    pace: GroupCommitDelay,
    /// The first segment of the log that has rows which are in no file,
    floor: u64,
    /// and the first one that has none of the frozen rows, while there are some.
    frozen: Option<u64>,
}

/// An append that passed the positions.
struct AcceptedAppend {
    parcel: Parcel,
    encoded: Vec<u8>,
    reply: oneshot::Sender<Result<Appended, StoreError>>,
    answer: Appended,
    _room: OwnedSemaphorePermit,
}

/// How long a group waits for more: so long that syncs take a quarter of the time of the thread that makes them, unless
/// nothing comes.
#[derive(Debug, Default)]
struct GroupCommitDelay {
    /// No sync before this.
    next: Option<Instant>,
    /// Waits in a row in which nothing came.
    in_vain: u32,
}

/// Pauses are so many times as long as syncs,
const PAUSE_PARTS: u32 = 3;
/// but no longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// After so many waits in vain a sender seems to wait for its answer before it goes on,
const IN_VAIN_MAX: u32 = 2;
/// and so many groups go without.
const GROUPS_WITHOUT: u32 = 32;

impl GroupCommitDelay {
    /// Until when a group that begins now gathers; `None`: it does not wait.
    fn waits_until(&mut self, now: Instant) -> Option<Instant> {
        let next = self.next.filter(|next| now < *next)?;
        if self.in_vain < IN_VAIN_MAX {
            return Some(next);
        }
        self.in_vain += 1;
        if self.in_vain == IN_VAIN_MAX + GROUPS_WITHOUT {
            self.in_vain = 0;
        }
        None
    }

    fn waited(&mut self, is_more: bool) {
        self.in_vain = if is_more { 0 } else { self.in_vain + 1 };
    }

    fn committed(&mut self, began: Instant, ended: Instant) {
        self.next = Some(ended + ((ended - began) * PAUSE_PARTS).min(PAUSE_MAX));
    }
}

impl LogWriter {
    /// With the first segment of the log that has rows which are in no file.
    pub(crate) fn new(
        shared: Arc<StoreState>,
        log: Option<WriterLog>,
        floor: u64,
    ) -> (Self, Sender<WriterCommand>) {
        let (sender, commands) = channel();
        (
            Self { shared, commands, log, pace: GroupCommitDelay::default(), floor, frozen: None },
            sender,
        )
    }

    /// Runs until every sender is gone.
    pub(crate) fn run(mut self) {
        let mut next = None;
        loop {
            let command = match next.take() {
                Some(command) => command,
                None => match self.commands.recv_timeout(PROBE_INTERVAL) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => {
                        self.probe();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                },
            };
            match command {
                WriterCommand::Append(first) => next = self.append_group(first),
                WriterCommand::Freeze { is_needed, reply } => {
                    drop(reply.send(self.freeze(is_needed)))
                }
                WriterCommand::Release(floor) => self.release(floor),
                WriterCommand::LeaveOut(streams, reply) => {
                    drop(reply.send(self.leave_out(&streams)))
                }
            }
        }
    }

    /// Takes what has gathered behind `first`; gives the command that ended the group.
    fn append_group(&mut self, first: AppendRequest) -> Option<WriterCommand> {
        let mut bytes = first.encoded.len();
        let mut group = vec![first];
        let mut next = None;
        let waits_until = self.pace.waits_until(Instant::now());
        while bytes < GROUP_BYTES_MAX && next.is_none() {
            let command = match waits_until {
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    self.commands.recv_timeout(left).ok()
                }
                None => self.commands.try_recv().ok(),
            };
            match command {
                Some(WriterCommand::Append(request)) => {
                    bytes += request.encoded.len();
                    group.push(request);
                }
                Some(other) => next = Some(other),
                None => break,
            }
        }
        if waits_until.is_some() {
            self.pace.waited(group.len() > 1);
        }
        let began = Instant::now();
        self.commit(group);
        self.pace.committed(began, Instant::now());
        next
    }

    fn commit(&mut self, group: Vec<AppendRequest>) {
        let mut accepted: Vec<AcceptedAppend> =
            group.into_iter().filter_map(|request| self.accept(request)).collect();
        if let Err(error) = self.write(&mut accepted) {
            self.shared.positions().roll_back();
            self.shared.set_message((error.kind == ErrorKind::Full).then(|| error.to_string()));
            for append in accepted {
                drop(append.reply.send(Err(error.repeat())));
            }
            return;
        }
        self.shared.publish(accepted.iter().map(|append| &append.parcel));
        for append in accepted {
            drop(append.reply.send(Ok(append.answer)));
        }
    }

    /// Judges a parcel; `None` when it was refused and answered.
    fn accept(&self, request: AppendRequest) -> Option<AcceptedAppend> {
        let AppendRequest { mut parcel, mut encoded, reply, _room } = request;
        let mut positions = self.shared.positions();
        if parcel.range.is_some_and(|range| !positions.owns(range.stream)) {
            drop(reply.send(Err(StoreError::moved())));
            return None;
        }
        let position = parcel.range.and_then(|range| positions.next(range.stream));
        let mut end = parcel.range.map(|range| range.to);
        match judge(&parcel, position) {
            Ok(Admission::Whole) => {}
            Ok(Admission::Trimmed(rest)) => {
                encoded = if self.log.is_some() { rest.encode(false) } else { Vec::new() };
                parcel = rest;
            }
            Ok(Admission::Duplicate { position }) => {
                // Answered with its group: what makes it a duplicate may be in the same group.
                (parcel, encoded) = (Parcel::default(), Vec::new());
                end = Some(position);
            }
            Err(error) => {
                drop(reply.send(Err(error)));
                return None;
            }
        }
        if let Some(range) = parcel.range {
            positions.stage(range);
        }
        let answer = Appended { rows: parcel.row_count() as u64, position: end };
        Some(AcceptedAppend { parcel, encoded, reply, answer, _room })
    }

    fn write(&mut self, accepted: &mut [AcceptedAppend]) -> Result<(), StoreError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.check_room()?;
        let records = accepted.iter().map(|append| append.encoded.as_slice());
        log.wal.write_group(records.filter(|record| !record.is_empty()))?;
        self.shared.set_wal_bytes(log.wal.byte_count());
        self.shared.set_message(None);
        Ok(())
    }

    /// Notices that a full disk has room again.
    fn probe(&self) {
        if self.shared.is_full()
            && let Some(log) = &self.log
            && log.check_room().is_ok()
        {
            self.shared.set_message(None);
        }
    }

    fn freeze(&mut self, is_needed: bool) -> Result<Option<FrozenRows>, StoreError> {
        let Some(log) = &mut self.log else { return Ok(None) };
        if !is_needed && !log.wal.has_records() && self.shared.hot_bytes() == 0 {
            return Ok(None);
        }
        let wal_floor = log.wal.roll()?;
        self.shared.freeze();
        self.frozen = Some(wal_floor);
        Ok(Some(FrozenRows { wal_floor, positions: self.shared.positions().all() }))
    }

    /// Reads back what the memory has, without these streams.
    fn leave_out(&mut self, streams: &HashSet<StreamId>) -> Result<u64, StoreError> {
        let Some(log) = &mut self.log else { return Ok(0) };
        let end = log.wal.roll()?;
        let is_more = self.shared.positions().disown(streams);
        if is_more {
            let middle = self.frozen.unwrap_or(self.floor);
            let frozen = log.rows((self.floor, middle), streams)?;
            self.shared.put_in_memory(frozen, log.rows((middle, end), streams)?);
        }
        Ok(end)
    }

    fn release(&mut self, floor: u64) {
        let Some(log) = &mut self.log else { return };
        (self.floor, self.frozen) = (floor, None);
        log.wal.release(floor);
        self.shared.set_wal_bytes(log.wal.byte_count());
    }
}

impl WriterLog {
    /// Rows of records, without those of some streams.
    fn rows(
        &self,
        (from, to): (u64, u64),
        without: &HashSet<StreamId>,
    ) -> Result<Snapshot, StoreError> {
        let mut view = Snapshot::new();
        self.wal.read(from, to, |bytes| {
            let parcel = adapt(Parcel::decode(bytes).map_err(StoreError::bad_parcel)?)?;
            if parcel.range.is_none_or(|range| !without.contains(&range.stream)) {
                for batch in &parcel.batches {
                    view.push(batch);
                }
            }
            Ok(())
        })?;
        Ok(view)
    }

    /// # Errors
    /// `Full` when fewer bytes are free than have to stay free.
    fn check_room(&self) -> Result<(), StoreError> {
        // A file system that does not tell is written to until it refuses.
        let Some((free, _)) = space(&self.dir) else { return Ok(()) };
        if free >= self.min_free_bytes {
            return Ok(());
        }
        let text = format!(
            "cannot write to `{}`: {} MiB are free, {} MiB have to stay free",
            self.dir.display(),
            free >> 20,
            self.min_free_bytes >> 20
        );
        let hint = "free some space or shorten the retention; weir goes on by itself, nothing that was taken is lost";
        Err(StoreError::new(ErrorKind::Full, text).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_wait_in_proportion_to_syncs_unless_nothing_comes() {
        let began = Instant::now();
        let after = |micros| began + Duration::from_micros(micros);
        let mut pace = GroupCommitDelay::default();
        assert_eq!(pace.waits_until(began), None);
        pace.committed(began, after(1000));
        assert_eq!(pace.waits_until(after(2000)), Some(after(4000)));
        assert_eq!(pace.waits_until(after(4000)), None);
        pace.committed(began, after(100_000));
        assert_eq!(pace.waits_until(after(101_000)), Some(after(110_000)));
        for is_more in [false, true, false] {
            pace.waited(is_more);
            assert!(pace.waits_until(after(101_000)).is_some());
        }
        pace.waited(false);
        for _ in 0..GROUPS_WITHOUT {
            assert_eq!(pace.waits_until(after(101_000)), None);
        }
        assert!(pace.waits_until(after(101_000)).is_some());
    }
}
