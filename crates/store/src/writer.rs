//! The one thread that writes: it takes appends in groups, makes each group durable with one write and one sync, shows
//! its rows to queries, and answers.
//!
//! A group is whatever gathered while the previous one was being synced (group commit), so a hundred senders cost
//! about as many syncs as one. Positions of a group count for the parcels behind it in the same group, and are rolled
//! back with it when it cannot be written.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::oneshot;
use weir_tables::Parcel;

use crate::error::StoreError;
use crate::hot::View;
use crate::streams::{Positions, Verdict, judge};

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

/// One append on its way.
pub(crate) struct Request {
    pub(crate) parcel: Parcel,
    /// The record to log; empty when the store has no log.
    pub(crate) encoded: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Appended, StoreError>>,
}

/// What the thread is asked to do.
pub(crate) enum Command {
    Append(Request),
}

/// What the thread shares with queries and maintenance.
pub(crate) struct Shared {
    pub(crate) view: RwLock<View>,
    pub(crate) positions: Mutex<Positions>,
}

/// The thread's own state.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> (Self, Sender<Command>) {
        let (sender, commands) = channel();
        (Self { shared, commands }, sender)
    }

    /// Runs until every sender is gone.
    pub(crate) fn run(mut self) {
        while let Ok(command) = self.commands.recv() {
            let Command::Append(first) = command;
            let group = self.gather(first);
            self.commit(group);
        }
    }

    fn gather(&mut self, first: Request) -> Vec<Request> {
        let mut bytes = first.encoded.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            match self.commands.try_recv() {
                Ok(Command::Append(request)) => {
                    bytes += request.encoded.len();
                    group.push(request);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        group
    }

    fn commit(&mut self, group: Vec<Request>) {
        let mut positions = self.shared.positions.lock().expect("no thread panics with it");
        let mut accepted = Vec::with_capacity(group.len());
        for request in group {
            let position = request.parcel.range.and_then(|range| positions.next(range.stream));
            match judge(&request.parcel, position) {
                Ok(Verdict::Duplicate { position }) => {
                    let answer = Appended { rows: 0, position: Some(position) };
                    drop(request.reply.send(Ok(answer)));
                }
                Ok(Verdict::Whole) => accepted.push((request.parcel, request.reply)),
                Ok(Verdict::Trimmed(parcel)) => accepted.push((parcel, request.reply)),
                Err(error) => {
                    drop(request.reply.send(Err(error)));
                    continue;
                }
            }
            if let Some((parcel, _)) = accepted.last()
                && let Some(range) = parcel.range
            {
                positions.stage(range);
            }
        }
        positions.commit();
        drop(positions);
        let mut view = self.shared.view.write().expect("no thread panics with it");
        for (parcel, _) in &accepted {
            for batch in &parcel.batches {
                view.push(batch);
            }
        }
        drop(view);
        for (parcel, reply) in accepted {
            let position = parcel.range.map(|range| range.to);
            drop(reply.send(Ok(Appended { rows: parcel.row_count() as u64, position })));
        }
    }
}
