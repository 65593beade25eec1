//! Maintenance of the cold tier: chooses the next file to move, commits moved files, and deletes
//! expired ones.
//!
//! A separate thread does all waiting for the tier, so a slow or unreachable tier blocks nothing
//! else.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use weir_datafile::{DataFile, ErrorKind, FileSeal, StoreError, Tier};
use weir_tables::Micros;
use weir_tier::{ColdTier, MoverJob, MoverReport, SlowOptions, TierMover, to_move};

use crate::maintenance::{Maintenance, RetiredFile};
use crate::manifest::Manifest;

/// State of the cold tier's maintenance.
pub(crate) struct TierMaintenance {
    slow: Arc<ColdTier>,
    options: SlowOptions,
    mover: TierMover,
    /// Files waiting to be moved.
    queue: VecDeque<Arc<DataFile>>,
    /// Files in the cold tier waiting to be deleted.
    deleting: Vec<RetiredFile>,
    is_busy: bool,
    /// Whether the tier was reachable at the last check.
    is_there: bool,
    /// Whether leftovers of a killed run are deleted.
    is_clean: bool,
}

impl TierMaintenance {
    /// Assigns the tier an id in the manifest at its first use.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corrupt`.
    pub(crate) fn start(
        slow: Arc<ColdTier>,
        options: SlowOptions,
        manifest: &mut Manifest,
    ) -> Result<Self, StoreError> {
        let id = match manifest.slow_id()? {
            Some(id) => id,
            None => {
                let id = std::hash::RandomState::new().hash_one("slow tier").cast_signed();
                manifest.set_slow_id(id)?;
                id
            }
        };
        slow.set_id(id);
        Ok(Self {
            mover: TierMover::start(Arc::clone(&slow))?,
            slow,
            options,
            queue: VecDeque::new(),
            deleting: Vec::new(),
            is_busy: false,
            is_there: false,
            is_clean: false,
        })
    }

    fn send(&mut self, job: MoverJob) {
        self.mover.send(job);
        self.is_busy = true;
    }

    fn fail(&mut self, error: &StoreError) -> String {
        self.queue.clear();
        self.is_there = false;
        match error.kind {
            ErrorKind::Full => format!(
                "the cold tier `{}` is full, files stay on the fast disk: {}",
                self.slow.name(),
                error.message
            ),
            _ => error.message.clone(),
        }
    }
}

impl Maintenance {
    /// Checks that the tier is reachable, and if so chooses the files to move.
    pub(crate) fn look_at_slow_tier(&mut self) {
        let Some(tier) = self.slow.as_mut().filter(|tier| !tier.is_busy) else { return };
        let view = self.shared.view();
        let files = view.tables.iter().flat_map(|table| table.files.iter());
        let live = files.filter(|file| file.tier == Tier::Slow).map(|file| &file.path);
        let retired = self.retired.iter().filter(|retired| retired.tier == Tier::Slow);
        let known: HashSet<String> =
            live.chain(retired.map(|retired| &retired.path)).cloned().collect();
        let is_used = !known.is_empty() || self.names_unknown_tables;
        // With unknown tables in the manifest, it is not known which files belong to them.
        let is_to_clean = !tier.is_clean && !self.names_unknown_tables;
        tier.send(MoverJob::Look { is_used, known: is_to_clean.then_some(known) });
    }

    /// Handles completed work and starts the next.
    pub(crate) fn go_on_with_slow_tier(&mut self) {
        while let Some(done) = self.slow.as_mut().and_then(|tier| tier.mover.take()) {
            if let Some(tier) = &mut self.slow {
                tier.is_busy = false;
            }
            match done {
                MoverReport::Looked(outcome) => self.looked(outcome),
                MoverReport::Copied { file, id, path, outcome } => {
                    self.copied(&file, id, path, outcome)
                }
                MoverReport::Deleted(outcome) => self.deleted(outcome),
            }
        }
        if self.slow.as_ref().is_some_and(|tier| tier.is_there && !tier.is_busy) {
            self.next_of_slow_tier();
        }
    }

    fn looked(&mut self, outcome: Result<(), StoreError>) {
        let Some(tier) = &mut self.slow else { return };
        if let Err(error) = outcome {
            let why = tier.fail(&error);
            self.shared.set_slow_failure(Some(why));
            return;
        }
        (tier.is_there, tier.is_clean) = (true, true);
        let view = self.shared.view();
        let files = view.tables.iter().flat_map(|table| table.files.iter());
        let whole: Vec<_> = files.filter(|file| !self.broken.contains(&file.id)).cloned().collect();
        tier.queue = to_move(&whole, &tier.options, self.shared.now()).into();
        if tier.queue.is_empty() {
            self.shared.set_slow_failure(None);
        }
    }

    fn copied(
        &mut self,
        file: &Arc<DataFile>,
        id: i64,
        path: String,
        outcome: Result<Option<FileSeal>, StoreError>,
    ) {
        let seal = outcome.as_ref().ok().copied().flatten();
        let moved = DataFile { id, path, tier: Tier::Slow, seal, ..(**file).clone() };
        let moved = Arc::new(moved);
        match outcome {
            Ok(_) if self.is_live(file) => {
                let replaced =
                    self.replace("move", vec![Arc::clone(file)], std::slice::from_ref(&moved));
                if let Err(error) = replaced {
                    tracing::warn!("cannot move files to the cold tier: {error}");
                } else {
                    self.shared.set_slow_failure(None);
                }
            }
            // Merged or deleted meanwhile.
            Ok(_) => self.retired.push(RetiredFile::unnamed(&moved)),
            Err(error) if error.kind == ErrorKind::Corrupt => {
                tracing::error!("{error}");
                self.broken.insert(file.id);
            }
            Err(error) if error.kind == ErrorKind::Closed => {}
            Err(error) => {
                let why = self.slow.as_mut().map(|tier| tier.fail(&error));
                self.shared.set_slow_failure(why);
            }
        }
    }

    fn deleted(&mut self, outcome: Result<Vec<String>, StoreError>) {
        let Some(tier) = &mut self.slow else { return };
        let deleting = std::mem::take(&mut tier.deleting);
        let gone: HashSet<String> = match outcome {
            Ok(gone) => gone.into_iter().collect(),
            Err(error) => {
                let why = tier.fail(&error);
                self.shared.set_slow_failure(Some(why));
                return self.retired.extend(deleting);
            }
        };
        let (gone, left): (Vec<_>, Vec<_>) =
            deleting.into_iter().partition(|retired| gone.contains(&retired.path));
        // A file that cannot be deleted is queued again, so that others move meanwhile.
        let since = self.shared.now();
        self.retired.extend(left.into_iter().map(|retired| RetiredFile { since, ..retired }));
        let ids: Vec<i64> = gone.iter().map(|retired| retired.id).collect();
        if let Err(error) = self.manifest.forget(&ids) {
            tracing::warn!("cannot forget files that were deleted: {error}");
        }
    }

    /// Deletes what is due, otherwise moves the next file.
    fn next_of_slow_tier(&mut self) {
        let rule = self.deletion_rule();
        let is_due = |retired: &RetiredFile| retired.tier == Tier::Slow && rule.is_due(retired);
        let due: Vec<RetiredFile> =
            self.retired.extract_if(.., |retired| is_due(retired)).collect();
        let Some(tier) = &mut self.slow else { return };
        if !due.is_empty() {
            let paths = due.iter().map(|retired| retired.path.clone()).collect();
            tier.deleting = due;
            return tier.send(MoverJob::Delete(paths));
        }
        let next = loop {
            let Some(file) = self.slow.as_mut().and_then(|tier| tier.queue.pop_front()) else {
                return;
            };
            if self.is_live(&file) {
                break file;
            }
        };
        let (id, path) = self.maker.next_path(next.table, next.day);
        let from = self.directory.file(&next.path);
        if let Some(tier) = &mut self.slow {
            tier.send(MoverJob::Copy { file: next, from, id, path });
        }
    }

    fn is_live(&self, file: &DataFile) -> bool {
        let view = self.shared.view();
        view.tables.iter().any(|table| table.files.iter().any(|other| other.id == file.id))
    }
}

impl RetiredFile {
    /// A copy that never reached the manifest.
    pub(crate) fn unnamed(file: &Arc<DataFile>) -> Self {
        let (path, tier, byte_count) = (file.path.clone(), file.tier, file.byte_count);
        let (since, is_restorable) = (Micros::default(), false);
        Self { id: file.id, path, tier, since, byte_count, is_restorable, file: None }
    }
}
