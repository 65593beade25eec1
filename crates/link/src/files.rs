//! Small private files: written atomically, readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{LinkError, LinkErrorKind};

/// Begins the first line of a file whose lines have a checksum.
const CHECKSUM: &str = "checksum = ";

/// Creates a directory (0700) and its parents.
pub(crate) fn make_dir(dir: &Path) -> Result<(), LinkError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| LinkError::storage("make the directory", dir, &error))
}

/// Replaces a file (0600). After a power loss it has the old or the new content.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), LinkError> {
    let next = write_temporary(path, content)?;
    fs::rename(&next, path)
        .and_then(|()| sync_dir_of(path))
        .map_err(|error| LinkError::storage("write", path, &error))
}

/// Creates a file (0600) unless it exists, and returns whether it did.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> Result<bool, LinkError> {
    let next = write_temporary(path, content)?;
    link_new(&next, path).map_err(|error| LinkError::storage("write", path, &error))
}

/// Links `next` to `path` unless that exists, and removes `next`.
fn link_new(next: &Path, path: &Path) -> std::io::Result<bool> {
    let linked = fs::hard_link(next, path);
    fs::remove_file(next)?;
    match linked {
        Ok(()) => sync_dir_of(path).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, LinkError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LinkError::storage("read", path, &error)),
    }
}

/// Replaces a file with lines of `key = value`, with their checksum before them.
pub(crate) fn write_lines(path: &Path, lines: &str) -> Result<(), LinkError> {
    let sum = crc32fast::hash(lines.as_bytes());
    write(path, format!("{CHECKSUM}{sum:08x}\n{lines}").as_bytes())
}

/// Reads what [`write_lines`] wrote; `None` if it does not exist. The file of an older weir has no
/// checksum, and no key beside `keys`: a changed key must not undo a revocation.
pub(crate) fn read_lines(path: &Path, keys: &[&str]) -> Result<Option<String>, LinkError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let intact = match text.strip_prefix(CHECKSUM).and_then(|rest| rest.split_once('\n')) {
        Some((sum, lines)) => {
            (sum == format!("{:08x}", crc32fast::hash(lines.as_bytes()))).then_some(lines)
        }
        None => {
            let is_known = |(key, _): (&str, &str)| keys.contains(&key.trim());
            let are_known = text.lines().all(|line| line.split_once('=').is_some_and(is_known));
            are_known.then_some(text.as_str())
        }
    };
    let intact = intact.map(str::to_owned).ok_or_else(|| {
        let text = format!("cannot use `{}`: it changed after writing", path.display());
        LinkError::new(LinkErrorKind::Storage, text)
            .hint("restore the file from a backup, or remove it")
    });
    intact.map(Some)
}

/// Sorted names of the files in a directory; empty if it does not exist.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, LinkError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LinkError::storage("read", dir, &error)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

/// Lines of `key = value`.
#[derive(Clone, Copy)]
pub(crate) struct KeyValueLines<'a>(pub(crate) &'a str);

impl<'a> KeyValueLines<'a> {
    /// The value of `key`.
    pub(crate) fn value(self, key: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim())
        })
    }
}

/// Like [`KeyValueLines::value`], with an error that names the file if the value is missing or
/// invalid.
pub(crate) fn parsed<T>(
    text: &str,
    path: &Path,
    key: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, LinkError> {
    KeyValueLines(text).value(key).and_then(parse).ok_or_else(|| {
        LinkError::new(
            LinkErrorKind::Storage,
            format!("cannot use `{}`: no valid line `{key} = …`", path.display()),
        )
        .hint("restore the file from a backup, or remove it")
    })
}

/// Writes a temporary file next to `path`.
fn write_temporary(path: &Path, content: &[u8]) -> Result<std::path::PathBuf, LinkError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let suffix = crate::secret::hex(&crate::secret::random::<8>());
    let next = path.with_file_name(format!(".{name}.{suffix}"));
    write_synced(&next, content).map_err(|error| LinkError::storage("write", &next, &error))?;
    Ok(next)
}

fn write_synced(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync_dir_of(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
