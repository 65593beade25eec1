//! Which files beside a log are its rotated older parts: `access.log.1`, `access.log-20261120`, `app-20261120.log`.
//!
//! Source: logrotate(8) (`dateext`, `dateformat`, `extension`). Compressed parts are no stream that can be read again
//! by offset and are passed over.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::identity::Place;

/// Older parts of one log that are looked at, newest first.
const SIBLING_LIMIT: usize = 12;

/// Suffixes that mean an older part and are no number.
const WORDS: &[&[u8]] = &[b"old", b"bak", b"save", b"prev"];

/// Files beside `path` that are named like rotated parts of it, newest first.
pub(super) fn siblings(path: &Path) -> Vec<(PathBuf, File, Place)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut found: Vec<(PathBuf, File, Place)> = entries
        .flatten()
        .filter(|entry| {
            is_rotated_name(name.as_encoded_bytes(), entry.file_name().as_encoded_bytes())
        })
        .filter_map(|entry| open_regular(&entry.path()))
        .collect();
    found.sort_by_key(|(_, _, place)| std::cmp::Reverse(place.age()));
    found.truncate(SIBLING_LIMIT);
    found
}

fn open_regular(path: &Path) -> Option<(PathBuf, File, Place)> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let place = Place::of(&file.metadata().ok()?);
    Some((path.to_owned(), file, place))
}

/// Whether `other` is how a rotation would name an older part of `name`.
pub(super) fn is_rotated_name(name: &[u8], other: &[u8]) -> bool {
    if let Some(suffix) = other.strip_prefix(name) {
        return is_rotation_suffix(suffix);
    }
    let Some(dot) = memchr::memrchr(b'.', name).filter(|dot| *dot > 0) else { return false };
    let (stem, extension) = name.split_at(dot);
    let middle = other.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
    middle.is_some_and(is_rotation_suffix)
}

/// The names that `name` could be a rotated part of.
pub(super) fn base_names(name: &[u8]) -> Vec<Vec<u8>> {
    let mut bases = Vec::new();
    // Nearly every name that is no rotated part is told by this alone.
    if !name.iter().any(u8::is_ascii_digit)
        && !WORDS.iter().any(|word| memchr::memmem::find(name, word).is_some())
    {
        return bases;
    }
    let ends = memchr::memrchr(b'.', name).into_iter().chain([name.len()]);
    for end in ends {
        let (rest, extension) = name.split_at(end);
        let separators = (1..rest.len()).filter(|at| b".-_".contains(&rest[*at]));
        for at in separators.filter(|at| is_rotation_suffix(&rest[*at..])) {
            bases.push([&rest[..at], extension].concat());
        }
    }
    bases
}

fn is_rotation_suffix(suffix: &[u8]) -> bool {
    let Some((separator, rest)) = suffix.split_first() else { return false };
    let is_dated = rest.first().is_some_and(u8::is_ascii_digit)
        && rest.iter().all(|byte| byte.is_ascii_digit() || b".-_:TZ".contains(byte));
    b".-_".contains(separator) && (is_dated || WORDS.contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::{base_names, is_rotated_name};

    #[test]
    fn rotated_parts_are_told_from_other_logs() {
        for (name, other, expected) in [
            ("access.log", "access.log.1", true),
            ("access.log", "access.log-20261120", true),
            ("access.log", "access.log-2026-11-20T12:00:00", true),
            ("access.log", "access-20261120.log", true),
            ("access.log", "access.1.log", true),
            ("access.log", "access.log.old", true),
            ("access.log", "access.log", false),
            ("access.log", "access.log.1.gz", false),
            ("access.log", "access.log.ssl", false),
            ("access.log", "access-api.log", false),
            ("app", "app-1", true),
            ("app", "app-errors", false),
            (".log", "x.log", false),
        ] {
            assert_eq!(is_rotated_name(name.as_bytes(), other.as_bytes()), expected, "{other}");
            let bases = base_names(other.as_bytes());
            assert_eq!(bases.contains(&name.as_bytes().to_vec()), expected, "{other}");
        }
    }
}
