//! The registry of copies: what the store must know of all of them from its start.

mod copy;
mod positions;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{ErrorKind, StoreError};
use weir_tables::{LogPosition, TableSpec};

use copy::LogReader;
use positions::{CopyPositions, CopyState, StoredState};

use crate::directory::Directory;
use crate::store::Store;
use crate::write_path::segments::Segments;

pub use copy::Copy;

/// Selection of the rows to copy, and the limit of the backlog.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Name under which the position is stored.
    pub name: String,
    /// Table to copy.
    pub table: &'static TableSpec,
    /// SQL condition on the rows; `None` copies all.
    pub condition: Option<String>,
    /// Backlog limit in bytes of the log, after which [`Copy::is_over`] returns true.
    pub keep_bytes: u64,
}

/// Positions of copies and the log that they read.
pub(crate) struct CopyRegistry {
    dir: PathBuf,
    pub(crate) segments: Arc<Segments>,
    positions: Arc<CopyPositions>,
    /// Copies whose position changed after writing: they begin with the oldest record of the log, since
    /// rows that arrive twice have the same ids, and missing rows would go unnoticed.
    pub(crate) damaged: Vec<String>,
}

impl CopyRegistry {
    /// Opens the positions database and the log retained for copies. `known` names the copies to
    /// resume; others are forgotten. `None` keeps all.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corrupt`.
    pub(crate) fn open(
        directory: &Directory,
        kept_in: &Path,
        known: Option<&[String]>,
    ) -> Result<Self, StoreError> {
        let positions = CopyPositions::open(kept_in)?;
        let mut needs = BTreeMap::new();
        let mut damaged = Vec::new();
        for (name, StoredState { state, is_intact }) in positions.load()? {
            if known.is_none_or(|known| known.contains(&name)) {
                if !is_intact {
                    damaged.push(name.clone());
                }
                needs.insert(name, if is_intact { state.done.sequence } else { 0 });
            } else {
                tracing::warn!(
                    "the output `{name}` is not configured any more: its position is forgotten"
                );
                positions.forget(&name)?;
            }
        }
        let segments = Arc::new(Segments::new(directory.wal(), needs));
        Ok(Self { dir: directory.wal(), segments, positions: Arc::new(positions), damaged })
    }

    /// The stored state of a copy, or a new one at the end of the log.
    fn state(&self, name: &str) -> Result<CopyState, StoreError> {
        let end = LogPosition { sequence: self.segments.end(), row: 0 };
        let stored = self.positions.load()?.get(name).copied();
        if let Some(StoredState { state, is_intact: false }) = stored {
            let oldest = self.segments.place(0).map_or(end.sequence, |place| place.first_sequence);
            let done = LogPosition { sequence: oldest.min(end.sequence), row: 0 };
            let epoch = if state.epoch == 0 { new_epoch(name) } else { state.epoch };
            let state = CopyState { epoch, done, planned: done };
            self.positions.save(name, &state)?;
            return Ok(state);
        }
        let kept = stored.map(|stored| stored.state);
        if let Some(kept) = kept.filter(|kept| kept.done <= end) {
            return Ok(kept);
        }
        if kept.is_some() {
            tracing::warn!("the log ends before the position of `{name}`: it continues there");
        }
        let state = CopyState { epoch: new_epoch(name), done: end, planned: end };
        self.positions.save(name, &state)?;
        Ok(state)
    }
}

fn new_epoch(name: &str) -> i64 {
    std::hash::RandomState::new().hash_one(name).cast_signed()
}

impl Store {
    /// Starts or resumes a copy. Each name may be open once at a time.
    ///
    /// # Errors
    /// `BadQuery` for an invalid condition, and for a store without files; `Io`, `Full`, `Corrupt`.
    pub fn copy(&self, options: &CopyOptions) -> Result<Copy, StoreError> {
        let condition = options.condition.as_deref();
        let condition =
            condition.map(|sql| self.engine.condition(options.table, sql)).transpose()?;
        let copies = self.copies.as_ref().ok_or_else(|| {
            StoreError::new(ErrorKind::BadQuery, "rows without files cannot be copied")
        })?;
        let state = copies.state(&options.name)?;
        copies.segments.need(&options.name, state.done.sequence);
        let segments = Arc::clone(&copies.segments);
        Ok(Copy {
            name: options.name.clone(),
            table: options.table,
            condition,
            keep_bytes: options.keep_bytes,
            shared: Arc::clone(&self.shared),
            positions: Arc::clone(&copies.positions),
            log: LogReader::new(copies.dir.clone(), segments, state.done.sequence),
            state,
            waiting: None,
            unsettled: VecDeque::new(),
        })
    }

    /// Checks that `sql` is a condition on rows of `table`.
    ///
    /// # Errors
    /// `BadQuery`: what is wrong with it.
    pub fn check_condition(&self, table: &'static TableSpec, sql: &str) -> Result<(), StoreError> {
        self.engine.condition(table, sql).map(drop)
    }
}
