//! File-system helpers for writers: durable names and free space.
//!
//! A file is durable only after its directory is synced as well, on creation and on rename.

use std::fs::File;
use std::path::Path;

use crate::error::StoreError;

/// Syncs a directory, which makes its entries durable.
pub fn sync_dir(path: &Path) -> Result<(), StoreError> {
    let sync = File::open(path).and_then(|dir| dir.sync_all());
    sync.map_err(|error| StoreError::io("sync", path, &error))
}

/// Bytes available to this process, and total bytes of the file system.
pub fn space(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
}
