//! Several files of one capture, in the order of their packets.
//!
//! A shell lists `web.pcap10` before `web.pcap2`, and tcpdump numbers its files that way (`-C`). So
//! files are sorted by their first packet. Files that overlap, such as those of two taps, are
//! refused: packets must come in the order of time.

use std::path::{Path, PathBuf};

use super::{Capture, CaptureFormat, CaptureInput};
use crate::error::WireError;

/// Files in the order in which they must be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOrder {
    files: Vec<OrderedFile>,
}

/// A file and when its capture begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedFile {
    path: PathBuf,
    first_ns: Option<i64>,
}

/// Several CPUs write one capture, so the first packet of a file may be slightly older than the
/// last of the file before.
const DISORDER_NS: i64 = 1_000_000_000;

impl FileOrder {
    /// Sorts files by their first packets. The given order stays where there is only one file, or
    /// where one of them is text, a stream or empty.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn new(paths: &[PathBuf]) -> Result<Self, WireError> {
        let is_one = paths.len() < 2;
        let files = paths.iter().map(|path| {
            let first_ns = if is_one || !path.is_file() { None } else { first_packet(path)? };
            Ok(OrderedFile { path: path.clone(), first_ns })
        });
        let mut files: Vec<OrderedFile> = files.collect::<Result<_, WireError>>()?;
        if files.iter().all(|file| file.first_ns.is_some()) {
            files.sort_by_key(|file| file.first_ns);
        }
        Ok(Self { files })
    }

    /// Returns the files in their order.
    pub fn files(&self) -> &[OrderedFile] {
        &self.files
    }
}

impl OrderedFile {
    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the file does not begin before the files read so far end at `newest_ns`.
    ///
    /// # Errors
    /// When it overlaps them.
    pub fn check_after(&self, newest_ns: Option<i64>) -> Result<(), WireError> {
        let (Some(first), Some(newest)) = (self.first_ns, newest_ns) else { return Ok(()) };
        let overlap_ms = (newest - first) / 1_000_000;
        if newest - first <= DISORDER_NS {
            return Ok(());
        }
        Err(WireError::new(
            format!(
                "cannot read `{}`: it begins {}.{:03} s before the files before it end",
                self.path.display(),
                overlap_ms / 1000,
                overlap_ms % 1000
            ),
            "files of several taps must be merged by time: `mergecap -w all.pcapng FILE...`",
        ))
    }
}

/// Time of the first packet; `None` for text and for a file without packets.
fn first_packet(path: &Path) -> Result<Option<i64>, WireError> {
    let input = match CaptureInput::open(path) {
        Err(error) if error.is_empty() => return Ok(None),
        input => input?,
    };
    if input.format() == CaptureFormat::Text {
        return Ok(None);
    }
    let mut capture = Capture::new(input)?;
    while capture.span_ns().is_none() && capture.step(&mut |_| {})? {}
    Ok(capture.span_ns().map(|[first, _]| first))
}
