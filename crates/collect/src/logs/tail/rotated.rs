//! Rotated older parts of a log: `access.log.1`, `access.log-20261120`, `app-20261120.log`, each
//! possibly compressed (`.gz`, `.zst`).
//!
//! Source: logrotate(8) (`dateext`, `dateformat`, `extension`, `compress`). The surprising thing:
//! where the log is a symbolic link (`current`), the older parts are beside its target and their
//! names differ from it only in digits.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::content::{Content, split_compression};
use super::fingerprint::FileIdentity;
use weir_discover::glob::path_matches;

/// Number of older parts of a log that are opened at first, newest first.
pub(super) const SIBLING_LIMIT: usize = 12;

/// A change of a name shows in the directory's time only after a clock tick, every 4 ms or so.
const QUIET: Duration = Duration::from_millis(20);
/// Maximum number of listings of a directory whose names change.
const LISTING_TRIES: u32 = 20;

const WORDS: &[&[u8]] = &[b"old", b"bak", b"save", b"prev"];

#[derive(Debug)]
pub(super) struct RotatedPart {
    pub(super) content: Content,
    pub(super) identity: FileIdentity,
}

#[derive(Debug, Default)]
pub(super) struct DirectoryListings(HashMap<PathBuf, DirectoryListing>);

#[derive(Debug)]
struct DirectoryListing {
    /// File names by the names of logs that they could be parts of.
    names: HashMap<Vec<u8>, Vec<OsString>>,
    /// Time of the last change of a name, if that was well before the listing.
    quiet_since: Option<SystemTime>,
}

impl DirectoryListings {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Opens older parts of `path`, newest first, at most [`SIBLING_LIMIT`].
    pub(super) fn siblings(&mut self, path: &Path) -> Vec<RotatedPart> {
        self.siblings_except(path, SIBLING_LIMIT, |_| false)
    }

    /// Opens at most `limit` older parts of `path` that are not excluded, newest first.
    pub(super) fn siblings_except(
        &mut self,
        path: &Path,
        limit: usize,
        is_excluded: impl Fn(&Path) -> bool,
    ) -> Vec<RotatedPart> {
        let mut found = self.open_parts(path, &is_excluded);
        // While names are shifted, a file can have one name when the directory is listed and
        // another when it is opened. The result is complete once it is the same twice.
        for _ in 0..LISTING_TRIES {
            if self.is_quiet(path) {
                break;
            }
            self.0.clear();
            let before = std::mem::replace(&mut found, self.open_parts(path, &is_excluded));
            let mut pairs = before.iter().zip(&found);
            let is_same = pairs.all(|((path, part), (new_path, new_part))| {
                path == new_path && part.identity.is_same_file(&new_part.identity)
            });
            if before.len() == found.len() && is_same {
                break;
            }
        }
        let mut found: Vec<RotatedPart> = found.into_iter().map(|(_, part)| part).collect();
        found.sort_by_key(|part| std::cmp::Reverse(part.identity.age()));
        found.truncate(limit);
        found
    }

    fn open_parts(
        &mut self,
        path: &Path,
        is_excluded: impl Fn(&Path) -> bool,
    ) -> Vec<(PathBuf, RotatedPart)> {
        let mut paths = self.named_like(path);
        if path.is_symlink()
            && weir_access::is_operators(path)
            && let Ok(target) = path.canonicalize()
        {
            paths.extend(self.named_like(&target));
            paths.extend(differing_in_digits(&target));
        }
        paths.retain(|path| !is_excluded(path));
        paths.sort();
        paths.dedup();
        paths.into_iter().filter_map(|path| open_regular(&path).map(|part| (path, part))).collect()
    }

    /// Whether no name beside `path` has changed since shortly before the listing.
    fn is_quiet(&self, path: &Path) -> bool {
        let Some(directory) = path.parent().filter(|_| !path.is_symlink()) else { return false };
        let since = self.0.get(directory).and_then(|listing| listing.quiet_since);
        since.is_some() && since == directory.metadata().and_then(|now| now.modified()).ok()
    }

    fn named_like(&mut self, path: &Path) -> Vec<PathBuf> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Vec::new();
        };
        let listing = self.0.entry(directory.to_owned()).or_insert_with(|| list(directory));
        let names = listing.names.get(name.as_encoded_bytes()).map_or(&[][..], Vec::as_slice);
        names.iter().map(|name| directory.join(name)).collect()
    }
}

fn list(directory: &Path) -> DirectoryListing {
    let modified = directory.metadata().and_then(|metadata| metadata.modified());
    let quiet_since = modified.ok().filter(|at| at.elapsed().is_ok_and(|age| age > QUIET));
    let mut names: HashMap<Vec<u8>, Vec<OsString>> = HashMap::new();
    for entry in directory.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        for base in base_names(name.as_encoded_bytes()) {
            names.entry(base).or_default().push(name.clone());
        }
    }
    DirectoryListing { names, quiet_since }
}

/// Files beside `target` whose names differ from it only in digits.
fn differing_in_digits(target: &Path) -> Vec<PathBuf> {
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
            other != name && without_digits(split_compression(other.as_encoded_bytes()).0) == shape
        })
        .map(|name| directory.join(name))
        .collect()
}

fn without_digits(name: &[u8]) -> Vec<u8> {
    name.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect()
}

fn open_regular(path: &Path) -> Option<RotatedPart> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let content = Content::open(path).ok()?;
    let identity = FileIdentity::of(&content).ok()?;
    Some(RotatedPart { content, identity })
}

/// Whether `path` is named like an older part of a log for which `is_log` holds.
pub(super) fn is_part_of_another(path: &Path, is_log: impl Fn(&Path) -> bool) -> bool {
    let Some(name) = path.file_name() else { return false };
    let bases = base_names(name.as_encoded_bytes());
    bases.iter().any(|base| is_log(&path.with_file_name(OsStr::from_bytes(base))))
}

/// Whether `path` matches `pattern`, or is named like an older part of a matching log.
pub fn is_log_or_part(pattern: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    path_matches(pattern, path)
        || base_names(name)
            .iter()
            .any(|base| path_matches(pattern, &path.with_file_name(OsStr::from_bytes(base))))
}

/// Names of logs that `name` could be an older part of.
fn base_names(name: &[u8]) -> Vec<Vec<u8>> {
    let mut bases = Vec::new();
    let (name, compression) = split_compression(name);
    if compression.is_some() {
        bases.push(name.to_vec());
    }
    // This test alone excludes nearly every other name.
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
    fn rotated_parts_are_distinguished_from_other_logs() {
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
