//! Begins copies: what the store needs to know of all of them, from its start on.

mod copy;
mod positions;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{ErrorKind, StoreError};
use weir_tables::{LogPosition, TableSpec};

use copy::LogReader;
use positions::{CopyPositions, CopyState};

use crate::directory::Directory;
use crate::store::Store;
use crate::write_path::segments::Segments;

pub use copy::Copy;

/// What is to be copied, and how much of it may wait.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Under this name the position is kept.
    pub name: String,
    /// The table.
    pub table: &'static TableSpec,
    /// A condition on its rows, in SQL; without one, all are copied.
    pub condition: Option<String>,
    /// Bytes of the log that may wait to be copied, before [`Copy::is_over`] says that it is too much.
    pub keep_bytes: u64,
}

/// Positions of copies and the log that they read.
pub(crate) struct CopyRegistry {
    dir: PathBuf,
    pub(crate) segments: Arc<Segments>,
    positions: Arc<CopyPositions>,
}

impl CopyRegistry {
    /// Positions of the copies that there are, in a database, and the log kept for them. `known` names those that will go on; others are
    /// forgotten. Without it all are kept.
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
        for (name, state) in positions.load()? {
            if known.is_none_or(|known| known.contains(&name)) {
                needs.insert(name, state.done.sequence);
            } else {
                tracing::warn!(
                    "the output `{name}` is not configured any more: its position is forgotten"
                );
                positions.forget(&name)?;
            }
        }
        let segments = Arc::new(Segments::new(directory.wal(), needs));
        Ok(Self { dir: directory.wal(), segments, positions: Arc::new(positions) })
    }

    /// Where the copy stands: as it was kept, else at the end of the log.
    fn state(&self, name: &str) -> Result<CopyState, StoreError> {
        let end = LogPosition { sequence: self.segments.end(), row: 0 };
        let kept = self.positions.load()?.get(name).copied();
        if let Some(kept) = kept.filter(|kept| kept.done <= end) {
            return Ok(kept);
        }
        if kept.is_some() {
            tracing::warn!("the log ends before the position of `{name}`: it goes on from there");
        }
        let epoch = std::hash::RandomState::new().hash_one(name).cast_signed();
        let state = CopyState { epoch, done: end, planned: end };
        self.positions.save(name, &state)?;
        Ok(state)
    }
}

impl Store {
    /// Begins or goes on with a copy. A name may be used once at a time.
    ///
    /// # Errors
    /// `BadQuery` for a condition that is none, and for a store without files; `Io`, `Full`, `Corrupt`.
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

    /// Whether `sql` is a condition on rows of `table`.
    ///
    /// # Errors
    /// `BadQuery`: what is wrong with it.
    pub fn check_condition(&self, table: &'static TableSpec, sql: &str) -> Result<(), StoreError> {
        self.engine.condition(table, sql).map(drop)
    }
}
