//! The writer thread: collects appends into groups, makes each group durable with one write and one
//! sync, shows its rows to queries, and acknowledges.
//!
//! A group consists of the appends that arrived during the previous sync (group commit), so a
//! hundred senders cost about as many syncs as one. It also includes what arrives shortly after,
//! because a sender's parcels arrive one by one (see [`GroupCommitDelay`]). Staged positions of a
//! group apply to later parcels in the same group, and are rolled back if the write fails.

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

/// The result of [`crate::Store::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Number of new rows.
    pub rows: u64,
    /// New position of the parcel's stream; `None` for a parcel without a range.
    pub position: Option<u64>,
}

/// Size at which a group is closed.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Interval between checks of a full disk while no append arrives.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// A queued append.
pub(crate) struct AppendRequest {
    pub(crate) parcel: Parcel,
    /// The record to log; empty when the store has no log.
    pub(crate) encoded: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Appended, StoreError>>,
    /// Queue permit, released with the response.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// Commands to the writer thread.
pub(crate) enum WriterCommand {
    Append(AppendRequest),
    /// Freezes the memtable for a flush; `None` when nothing changed since the last one, unless
    /// forced.
    Freeze {
        is_needed: bool,
        reply: Sender<Result<Option<FrozenRows>, StoreError>>,
    },
    /// Log segments below this are flushed.
    Release(u64),
    /// Purges unflushed rows of these streams; returns the first log segment that has none of them.
    LeaveOut(Arc<HashSet<StreamId>>, Sender<Result<u64, StoreError>>),
}

/// What a flush makes durable together with the immutable memtable of the view.
#[derive(Debug)]
pub(crate) struct FrozenRows {
    /// Every record below this segment is in the immutable memtable or in files.
    pub(crate) wal_floor: u64,
    pub(crate) positions: Arc<[(StreamId, u64)]>,
}

/// The log, and the free space at which to stop writing.
pub(crate) struct WriterLog {
    pub(crate) wal: Wal,
    pub(crate) dir: PathBuf,
    pub(crate) min_free_bytes: u64,
}

/// State of the writer thread.
pub(crate) struct LogWriter {
    shared: Arc<StoreState>,
    commands: Receiver<WriterCommand>,
    log: Option<WriterLog>,
    pace: GroupCommitDelay,
    /// First log segment with unflushed rows.
    floor: u64,
    /// First log segment after the immutable memtable, while there is one.
    frozen: Option<u64>,
}

/// An append that passed admission.
struct AcceptedAppend {
    parcel: Parcel,
    encoded: Vec<u8>,
    reply: oneshot::Sender<Result<Appended, StoreError>>,
    answer: Appended,
    _room: OwnedSemaphorePermit,
}

/// Delay before a group is committed: chosen so that syncs take a quarter of the writer's time, and
/// skipped when waiting brings nothing.
#[derive(Debug, Default)]
struct GroupCommitDelay {
    /// Earliest time of the next sync.
    next: Option<Instant>,
    /// Consecutive delays in which nothing arrived.
    in_vain: u32,
}

/// Delays are this many times as long as a sync,
const PAUSE_PARTS: u32 = 3;
/// up to this limit.
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// After this many fruitless delays the sender probably waits for its response,
const IN_VAIN_MAX: u32 = 2;
/// and this many groups are committed without delay.
const GROUPS_WITHOUT: u32 = 32;

impl GroupCommitDelay {
    /// Deadline for collecting a group that begins now; `None` for no delay.
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
    /// Makes the writer; `floor` is the first log segment with unflushed rows.
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

    /// Collects the appends queued after `first`; returns the command that ended the group.
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

    /// Admits a parcel; `None` when it was refused and answered.
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
                // Acknowledge duplicates with the group, because the original may be in the same
                // group.
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

    /// Notices when a full disk has free space again.
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

    /// Rebuilds the memtables from the log without these streams.
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
        self.wal.read(from..to, |bytes| {
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

    /// Fails when free space is below the reserve.
    ///
    /// # Errors
    /// `Full` when fewer bytes are free than have to stay free.
    fn check_room(&self) -> Result<(), StoreError> {
        // Without free-space information, write until the file system refuses.
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
        let hint = "free some space or shorten the retention; weir resumes by itself, and no accepted row is lost";
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
