//! File-system helpers for writers: durable names and free space.
//!
//! A file is durable only after its directory is synced as well, on creation and on rename.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::StoreError;

/// Syncs a directory, which makes its entries durable.
pub fn sync_dir(path: &Path) -> Result<(), StoreError> {
    let sync = File::open(path).and_then(|dir| dir.sync_all());
    sync.map_err(|error| StoreError::io("sync", path, &error))
}

/// Creates a file in place of one that is there. A link is replaced and not followed: the directory of
/// a backup or a cold tier may belong to another account.
pub fn create_own(path: &Path, mode: u32) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Bytes available to this process, and total bytes of the file system.
pub fn space(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// As estk/log4rs#388: a link was followed, and its target overwritten.
    #[test]
    fn link_of_another_account_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (theirs, draft) = (dir.path().join("theirs"), dir.path().join("draft"));
        std::fs::write(&theirs, "kept").unwrap();
        for target in ["theirs", "nowhere"] {
            std::os::unix::fs::symlink(target, &draft).unwrap();
            create_own(&draft, 0o600).unwrap().write_all(b"own").unwrap();
            assert_eq!(std::fs::read_to_string(&draft).unwrap(), "own");
            assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "kept");
            std::fs::remove_file(&draft).unwrap();
        }
        assert!(!dir.path().join("nowhere").exists());
    }
}
