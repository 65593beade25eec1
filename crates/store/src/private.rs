//! Keeps a data directory private: 0700, and 0600 for its files, whatever wrote them before.
//!
//! The umask of the process makes new files private; this repairs what an older weir left.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Files and directories that one start tightens at most.
const TIGHTENED_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 16;

/// Sticky bit: a directory such as `/tmp`, which belongs to everybody.
const STICKY: u32 = 0o1000;
const OTHERS: u32 = 0o077;

/// Makes a directory (0700) and its parents.
pub(crate) fn make_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Takes a data directory and what is in it away from other accounts, and logs that it did.
pub(crate) fn tighten(root: &Path) {
    let Ok(root) = root.canonicalize() else { return };
    let own = rustix::process::geteuid().as_raw();
    let is_own =
        root.metadata().is_ok_and(|found| found.uid() == own && found.mode() & STICKY == 0);
    if !is_own {
        return;
    }
    let mut count = 0;
    // The root first: with it closed, other accounts do not reach the rest.
    let failed = tighten_one(&root, &mut count).and_then(|()| tighten_below(&root, 0, &mut count));
    if let Err(error) = failed {
        tracing::warn!("cannot make `{}` private: {error}; chmod it to 0700", root.display());
    }
    if count > 0 {
        tracing::warn!(
            "`{}` was open to other accounts; {count} modes are now 0700 or 0600",
            root.display()
        );
    }
}

fn tighten_below(directory: &Path, depth: usize, count: &mut usize) -> std::io::Result<()> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    for entry in directory.read_dir()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_symlink() || *count >= TIGHTENED_MAX {
            continue;
        }
        match tighten_one(&entry.path(), count) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if kind.is_dir() {
            tighten_below(&entry.path(), depth + 1, count)?;
        }
    }
    Ok(())
}

fn tighten_one(path: &Path, count: &mut usize) -> std::io::Result<()> {
    let mode = path.symlink_metadata()?.mode();
    if mode & OTHERS != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
        *count += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn open_data_directory_becomes_private_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("data"), dir.path().join("outside"));
        std::fs::create_dir_all(root.join("wal")).unwrap();
        for file in [root.join("wal/1"), outside.clone()] {
            std::fs::write(&file, "row").unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        }
        for open in [root.clone(), root.join("wal")] {
            std::fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        }
        symlink(&outside, root.join("link")).unwrap();
        tighten(&root);
        let modes =
            [root.clone(), root.join("wal"), root.join("wal/1"), outside].map(|it| mode(&it));
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o644]);
        // A directory of everybody keeps its mode.
        std::fs::set_permissions(&root, Permissions::from_mode(0o1777)).unwrap();
        tighten(&root);
        assert_eq!(mode(&root), 0o1777);
    }
}
