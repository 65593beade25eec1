//! Mounted file systems: `/proc/self/mounts`.
//!
//! Blanks, tabs, line feeds and backslashes are escaped as a backslash and three octal digits.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{View, text};
use crate::CollectError;

const MOUNT_LIMIT: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) device: String,
    pub(super) point: PathBuf,
    pub(super) kind: String,
    pub(super) options: String,
}

impl Mount {
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|found| found == option)
    }
}

/// Reads all mounts, oldest first.
pub(super) fn read_mounts(view: &View) -> Result<Vec<Mount>, CollectError> {
    let path = host_file(view, "mounts");
    std::fs::read(&path)
        .map(|bytes| parse(&bytes))
        .map_err(|error| CollectError::reading(&path, &error))
}

/// Path of a file about the host's mounts, such as `mounts` or `mountinfo`.
pub(super) fn host_file(view: &View, name: &str) -> PathBuf {
    // Below another root, `self` would be weir's own process; process 1 has the host's mounts.
    let process = if view.root == Path::new("/") { "self" } else { "1" };
    let path = view.path("proc").join(process).join(name);
    if path.exists() { path } else { view.path("proc").join(name) }
}

fn parse(bytes: &[u8]) -> Vec<Mount> {
    text::lines(bytes).take(MOUNT_LIMIT).filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = text::fields(line).map(unescape);
    Some(Mount {
        device: lossy(&fields.next()?),
        point: OsString::from_vec(fields.next()?).into(),
        kind: lossy(&fields.next()?),
        options: lossy(&fields.next()?),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_paths_and_options_are_read() {
        let mounts = parse(b"/dev/sda1 /srv/my\\040data ext4 rw,relatime 0 0\nbroken line\n");
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].point, Path::new("/srv/my data"));
        assert!(mounts[0].has_option("rw") && !mounts[0].has_option("ro"));
    }
}
