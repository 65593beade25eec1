//! Paths with `*`, `?` and `[…]`, as in glob(7).
//!
//! Written here because it is one matcher and one directory walk. A leading dot is matched only by
//! a dot, and a walk returns at most 10,000 paths.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Named in the file's documentation too.
pub(crate) const MATCH_LIMIT: usize = 10_000;

/// Whether a path has a wildcard.
pub fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Existing paths that match `pattern`, sorted; without wildcards, `pattern` if it exists.
pub fn expand(pattern: &Path) -> Vec<PathBuf> {
    weir_access::as_owner_of(pattern, || expand_here(pattern)).unwrap_or_default()
}

fn expand_here(pattern: &Path) -> Vec<PathBuf> {
    if !is_pattern(pattern) {
        return if pattern.exists() { vec![pattern.to_owned()] } else { Vec::new() };
    }
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        found = match component {
            Component::Normal(name) if is_pattern(Path::new(name)) => {
                found.iter().flat_map(|directory| children(directory, name)).collect()
            }
            other => found.into_iter().map(|path| path.join(other)).collect(),
        };
        found.truncate(MATCH_LIMIT);
    }
    // Listed names exist; only literal last components need a check.
    if !pattern.file_name().is_some_and(|name| is_pattern(Path::new(name))) {
        found.retain(|path| path.exists());
    }
    found
}

/// Whether `pattern` matches `path`, component by component.
pub fn path_matches(pattern: &Path, path: &Path) -> bool {
    pattern.components().count() == path.components().count()
        && pattern.components().zip(path.components()).all(|(pattern, part)| {
            let (pattern, part) = (pattern.as_os_str(), part.as_os_str());
            pattern == part || NamePattern(pattern).matches_name(part)
        })
}

fn children(directory: &Path, pattern: &OsStr) -> Vec<PathBuf> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = listed.read_dir() else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| NamePattern(pattern).matches_name(name))
        .map(|name| directory.join(name))
        .collect();
    found.sort();
    found
}

/// A file name with wildcards.
struct NamePattern<'a>(&'a OsStr);

impl NamePattern<'_> {
    fn matches_name(&self, name: &OsStr) -> bool {
        let [name, pattern] = [name, self.0].map(OsStr::as_encoded_bytes);
        (name.first() != Some(&b'.') || pattern.first() == Some(&b'.')) && self.matches(name)
    }

    /// Wildcard match in linear memory: on a mismatch the last `*` takes one byte more.
    fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.0.as_encoded_bytes();
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while t < text.len() {
            if pattern.get(p) == Some(&b'*') {
                star = Some((p + 1, t));
                p += 1;
            } else if let Some(length) = one_matches(&pattern[p..], text[t]) {
                p += length;
                t += 1;
            } else if let Some((after_star, taken)) = star {
                p = after_star;
                t = taken + 1;
                star = Some((after_star, t));
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

/// Number of pattern bytes that match one byte of text, or `None` for a mismatch.
fn one_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => class_matches(pattern, byte).unwrap_or((byte == b'[').then_some(1)),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

/// `None`: the bracket is never closed, so it is a literal. `Some(None)`: no match.
fn class_matches(pattern: &[u8], byte: u8) -> Option<Option<usize>> {
    let is_negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if is_negated { 2 } else { 1 };
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    let mut is_member = false;
    let mut at = start;
    while at < end {
        if at + 2 < end && pattern[at + 1] == b'-' {
            is_member |= (pattern[at]..=pattern[at + 2]).contains(&byte);
            at += 3;
        } else {
            is_member |= pattern[at] == byte;
            at += 1;
        }
    }
    Some((is_member != is_negated).then_some(end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_the_shell_does() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", ".hidden.conf", false),
            (".*", ".hidden", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("access?.log", "access1.log", true),
            ("access?.log", "access.log", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[x", "[x", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(
                NamePattern(pattern.as_ref()).matches_name(name.as_ref()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn matching_never_panics_and_a_star_matches_all() {
        arbtest::arbtest(|u| {
            let [pattern, name]: [&OsStr; 2] =
                [u.arbitrary()?, u.arbitrary()?].map(std::os::unix::ffi::OsStrExt::from_bytes);
            NamePattern(pattern).matches_name(name);
            assert!(NamePattern("*".as_ref()).matches(name.as_encoded_bytes()));
            Ok(())
        });
    }

    #[test]
    fn paths_are_matched_by_component() {
        for (pattern, path, expected) in [
            ("/srv/*.log", "/srv/a.log", true),
            ("/srv/*.log", "/srv/x/a.log", false),
            ("/srv/*/a.log", "/srv/x/a.log", true),
            ("/srv/.a", "/srv/.a", true),
        ] {
            assert_eq!(path_matches(Path::new(pattern), Path::new(path)), expected, "{pattern}");
        }
    }

    #[test]
    fn wildcards_in_directories_are_walked() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["x1/a.log", "x2/b.log", "y/c.log"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = expand(&dir.path().join("x*/*.log"));
        assert_eq!(found, [dir.path().join("x1/a.log"), dir.path().join("x2/b.log")]);
        assert!(expand(&dir.path().join("none*/x")).is_empty());
    }
}
