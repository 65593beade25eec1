//! Small private files: written whole or not at all, readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Kind, LinkError};

/// Makes a directory (0700) and its parents.
pub(crate) fn make_dir(dir: &Path) -> Result<(), LinkError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| LinkError::storage("make the directory", dir, &error))
}

/// Replaces a file (0600); after a power loss it is the old or the new one.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), LinkError> {
    let fail = |error| LinkError::storage("write", path, &error);
    let next = written_beside(path, content)?;
    fs::rename(&next, path).map_err(fail)?;
    sync_dir_of(path).map_err(fail)
}

/// Makes a file (0600) unless it exists; whether it was made.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> Result<bool, LinkError> {
    let fail = |error| LinkError::storage("write", path, &error);
    let next = written_beside(path, content)?;
    let linked = fs::hard_link(&next, path);
    fs::remove_file(&next).map_err(fail)?;
    match linked {
        Ok(()) => sync_dir_of(path).map(|()| true).map_err(fail),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(fail(error)),
    }
}

/// The file's text; `None` when there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, LinkError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LinkError::storage("read", path, &error)),
    }
}

/// Names of the files in a directory, sorted; none when there is no directory.
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

/// The value of `key` in lines of `key = value`.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// As [`value`]; an error names the file when it is missing or is not what it has to be.
pub(crate) fn parsed<T>(
    path: &Path,
    text: &str,
    key: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, LinkError> {
    value(text, key).and_then(parse).ok_or_else(|| {
        LinkError::new(
            Kind::Storage,
            format!("cannot use `{}`: no good line `{key} = …`", path.display()),
        )
        .hint("restore the file from a backup, or remove it")
    })
}

fn written_beside(path: &Path, content: &[u8]) -> Result<std::path::PathBuf, LinkError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = crate::secret::hex(&crate::secret::random::<8>());
    let next = path.with_file_name(format!(".{name}.{own}"));
    let write = || -> std::io::Result<()> {
        let mut file: File =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(content)?;
        file.sync_all()
    };
    write().map_err(|error| LinkError::storage("write", &next, &error))?;
    Ok(next)
}

fn sync_dir_of(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
