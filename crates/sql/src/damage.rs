//! Finds the damaged file that failed a query.

use tokio::runtime::Handle;
use weir_datafile::{ErrorKind, FileCheck, Inspection, StoreError, Tier};
use weir_tier::FileLocations;

use crate::limits::QueryUsage;

/// Files are checked for damage up to this many bytes.
const DAMAGE_BYTES_MAX: u64 = 2 << 30;

/// Where a query's files are, and threads that can check them.
pub(crate) struct DamageSearch {
    pub(crate) places: Option<FileLocations>,
    pub(crate) runtime: Handle,
}

impl DamageSearch {
    /// Checks the files that the query opened: decoders do not report which file they read. `None`
    /// if all are intact.
    pub(crate) async fn find(&self, usage: &QueryUsage) -> Option<StoreError> {
        let places = self.places.clone()?;
        let opened = usage.opened();
        let check = move || {
            if let Some(error) = places.missing(&opened) {
                return Some(error);
            }
            let mut left = DAMAGE_BYTES_MAX;
            opened.into_iter().rev().find_map(|file| {
                left = left.checked_sub(file.byte_count)?;
                let is_far = places.slow.as_ref().is_some_and(|slow| slow.is_far());
                let is_thorough = file.tier == Tier::Local || !is_far;
                let check = FileCheck { places: &places, file: &file, is_thorough };
                let why = check.look(&mut Inspection::default()).err()?;
                let text = format!("cannot answer: `{}` {why}", file.path);
                Some(StoreError::new(ErrorKind::Corrupt, text).with_hint(
                    "queries that do not need this file go on; `weir store check` lists what is damaged, `weir store repair` sets it aside",
                ))
            })
        };
        self.runtime.spawn_blocking(check).await.ok()?
    }
}
