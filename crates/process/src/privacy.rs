//! What other accounts of the host may see of a weir process: none of its files, and no core dump.
//!
//! Sources: umask(2), core(5). Rows hold addresses of visitors and lines of root-only logs, so a
//! file that is created without an explicit mode is private whatever the umask of the shell was.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

/// Environment variable that keeps core dumps on, to debug weir.
const CORE_DUMPS: &str = "WEIR_CORE_DUMPS";

/// Makes files that are written from now on private (0600, directories 0700), and turns core dumps
/// off unless `WEIR_CORE_DUMPS=1` is set. Call it before the first thread starts.
pub fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if std::env::var_os(CORE_DUMPS).is_some_and(|value| value == "1") {
        return;
    }
    let maximum = rustix::process::getrlimit(Resource::Core).maximum;
    let limit = Rlimit { current: Some(0), maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Core, limit) {
        tracing::warn!("cannot turn core dumps off: {error}");
    }
}

/// Takes a file with a secret away from other accounts; returns whether it was open to them.
///
/// # Errors
/// When its mode cannot be changed, as on a read-only mount.
pub fn tighten_file(path: &Path) -> io::Result<bool> {
    // Whoever reads the file reports that it is missing or unreadable.
    let Ok(metadata) = path.metadata() else { return Ok(false) };
    if !metadata.is_file() || metadata.mode() & 0o007 == 0 {
        return Ok(false);
    }
    let mode = metadata.mode() & 0o770;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_that_all_may_read_is_taken_away_from_other_accounts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "secret").unwrap();
        for (before, after) in [(0o644, 0o640), (0o640, 0o640), (0o600, 0o600), (0o666, 0o660)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
            assert_eq!(tighten_file(&path).unwrap(), before != after, "{before:o}");
            assert_eq!(path.metadata().unwrap().mode() & 0o777, after, "{before:o}");
        }
    }
}
