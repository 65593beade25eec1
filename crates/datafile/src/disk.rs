//! What writers need of the file system: names that last, and how much space is left.
//!
//! A file is durable only when its directory is synced too, after creating as after renaming.

use std::fs::File;
use std::path::Path;

use crate::error::StoreError;

/// Makes the names in a directory durable.
pub fn sync_dir(path: &Path) -> Result<(), StoreError> {
    let sync = File::open(path).and_then(|dir| dir.sync_all());
    sync.map_err(|error| StoreError::io("sync", path, &error))
}

/// Bytes that are free for this process, and bytes of the whole file system.
pub fn space(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
}
