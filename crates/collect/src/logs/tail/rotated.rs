//! Which files beside a log are its rotated older parts: `access.log.1`, `access.log-20261120`, `app-20261120.log`, each
//! also packed (`.gz`, `.zst`).
//!
//! Source: logrotate(8) (`dateext`, `dateformat`, `extension`, `compress`). The surprising thing: where the log is a
//! symbolic link (`current`), the older parts lie beside its target and differ from it in their digits only.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::content::{Content, split_packing};
use super::identity::Place;
use crate::logs::glob::path_matches;

/// Older parts of one log that are looked at, newest first.
const SIBLING_LIMIT: usize = 12;

/// Suffixes that mean an older part and are no number.
const WORDS: &[&[u8]] = &[b"old", b"bak", b"save", b"prev"];

/// A file that is named like an older part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) content: Content,
    pub(super) place: Place,
}

/// Directories that were listed, by the names that their files could be parts of. Good for one look at everything.
#[derive(Debug, Default)]
pub(super) struct Listings(HashMap<PathBuf, HashMap<Vec<u8>, Vec<OsString>>>);

impl Listings {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Files that are named like older parts of `path`, newest first, at most `limit` (or 12).
    pub(super) fn siblings(&mut self, path: &Path, limit: Option<usize>) -> Vec<Part> {
        self.siblings_but(path, limit, |_| false)
    }

    /// The same without those for which `is_left_out` says so.
    pub(super) fn siblings_but(
        &mut self,
        path: &Path,
        limit: Option<usize>,
        is_left_out: impl Fn(&Path) -> bool,
    ) -> Vec<Part> {
        let mut paths = self.named_like(path);
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
        {
            paths.extend(self.named_like(&target));
            paths.extend(alike_but_for_digits(&target));
        }
        paths.retain(|path| !is_left_out(path));
        paths.sort();
        paths.dedup();
        let mut found: Vec<Part> = paths.iter().filter_map(|path| open_regular(path)).collect();
        found.sort_by_key(|part| std::cmp::Reverse(part.place.age()));
        found.truncate(limit.unwrap_or(SIBLING_LIMIT));
        found
    }

    fn named_like(&mut self, path: &Path) -> Vec<PathBuf> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Vec::new();
        };
        let listing = self.0.entry(directory.to_owned()).or_insert_with(|| list(directory));
        let names = listing.get(name.as_encoded_bytes()).map_or(&[][..], Vec::as_slice);
        names.iter().map(|name| directory.join(name)).collect()
    }
}

fn list(directory: &Path) -> HashMap<Vec<u8>, Vec<OsString>> {
    let mut listing: HashMap<Vec<u8>, Vec<OsString>> = HashMap::new();
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        for base in base_names(name.as_encoded_bytes()) {
            listing.entry(base).or_default().push(name.clone());
        }
    }
    listing
}

/// Files beside `target` whose names differ from its name in their digits only.
fn alike_but_for_digits(target: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Vec::new();
    };
    let shape = without_digits(name.as_encoded_bytes());
    if shape.len() == name.len() {
        return Vec::new();
    }
    let names = directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
    names
        .filter(|other| {
            other != name && without_digits(split_packing(other.as_encoded_bytes()).0) == shape
        })
        .map(|name| directory.join(name))
        .collect()
}

fn without_digits(name: &[u8]) -> Vec<u8> {
    name.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect()
}

fn open_regular(path: &Path) -> Option<Part> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let content = Content::open(path).ok()?;
    let place = Place::of(&content).ok()?;
    Some(Part { content, place })
}

/// Whether `path` is named like an older part of a log that is among the names for which `is_log` says so.
pub(super) fn is_part_of_another(path: &Path, is_log: impl Fn(&Path) -> bool) -> bool {
    let Some(name) = path.file_name() else { return false };
    let bases = base_names(name.as_encoded_bytes());
    bases.iter().any(|base| is_log(&path.with_file_name(OsStr::from_bytes(base))))
}

/// Whether `path` matches `pattern`, or is named like a rotated part, packed or not, of what does.
pub fn is_log_or_part(pattern: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_its =
        |base: &Vec<u8>| path_matches(pattern, &path.with_file_name(OsStr::from_bytes(base)));
    path_matches(pattern, path) || base_names(name).iter().any(is_its)
}

/// The names that `name` could be a rotated part of.
fn base_names(name: &[u8]) -> Vec<Vec<u8>> {
    let mut bases = Vec::new();
    let (name, packing) = split_packing(name);
    if packing.is_some() {
        bases.push(name.to_vec());
    }
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
    use super::base_names;

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
            ("access.log", "access.log.1.gz", true),
            ("access.log", "access-20261120.log.zst", true),
            ("access.log", "access.log.gz", true),
            ("access.log", "access.log.1.bz2", false),
            ("access.log", "access.log.ssl", false),
            ("access.log", "access-api.log", false),
            ("app", "app-1", true),
            ("app", "app-errors", false),
            (".log", "x.log", false),
        ] {
            let bases = base_names(other.as_bytes());
            assert_eq!(bases.contains(&name.as_bytes().to_vec()), expected, "{other}");
        }
    }
}
