//! Input of a capture: a file or a stream, optionally compressed with gzip or zstd. The format is
//! detected from the first bytes, not from the name.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{foreign, pcap, pcapng};
use crate::error::WireError;

/// Format of the decompressed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureFormat {
    /// The classic libpcap format.
    Pcap,
    /// The successor of pcap and Wireshark's default.
    Pcapng,
    /// Anything else: tcpdump's text output, or an unknown format.
    Text,
}

/// Decompressed bytes of a capture.
pub struct CaptureInput {
    name: String,
    reader: Box<dyn Read + Send>,
    format: CaptureFormat,
    count: Arc<AtomicU64>,
    total: Option<u64>,
    is_cut: bool,
}

/// Refuse zstd frames with a window over 2^27 bytes: memory is bounded.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Nested compression layers; deeper nesting is not a capture.
const LAYERS_MAX: u32 = 2;

impl CaptureInput {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, WireError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| WireError::read(&name, &error))?;
        let meta = file.metadata().map_err(|error| WireError::read(&name, &error))?;
        if meta.is_dir() {
            return Err(WireError::directory(&name));
        }
        let total = Some(meta.len()).filter(|_| meta.is_file());
        Self::new(&name, Box::new(file), total)
    }

    /// Reads a stream, such as stdin; errors call it `name`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn from_stream(name: &str, stream: Box<dyn Read + Send>) -> Result<Self, WireError> {
        Self::new(name, stream, None)
    }

    fn new(
        name: &str,
        stream: Box<dyn Read + Send>,
        total: Option<u64>,
    ) -> Result<Self, WireError> {
        let count = Arc::new(AtomicU64::new(0));
        let mut reader: Box<dyn Read + Send> =
            Box::new(CountingReader { stream, count: Arc::clone(&count) });
        for layer in 0..=LAYERS_MAX {
            let first = peek(&mut reader).map_err(|error| WireError::read(name, &error))?;
            let length = first.len();
            let mut four = [0; 4];
            four[..length.min(4)].copy_from_slice(&first[..length.min(4)]);
            if length == 0 {
                return Err(WireError::empty(name));
            }
            let whole: Box<dyn Read + Send> = Box::new(Cursor::new(first).chain(reader));
            match four {
                [0x1f, 0x8b, ..] if layer < LAYERS_MAX => {
                    reader = Box::new(flate2::read::MultiGzDecoder::new(whole));
                }
                [0x28, 0xb5, 0x2f, 0xfd] if layer < LAYERS_MAX => {
                    let mut decoder =
                        zstd::Decoder::new(whole).map_err(|error| WireError::read(name, &error))?;
                    decoder
                        .window_log_max(ZSTD_WINDOW_LOG_MAX)
                        .map_err(|error| WireError::read(name, &error))?;
                    reader = Box::new(decoder);
                }
                _ => {
                    if let Some(error) = foreign::refusal(name, four) {
                        return Err(error);
                    }
                    let format = if pcap::is_magic(four) {
                        CaptureFormat::Pcap
                    } else if pcapng::is_magic(four) {
                        CaptureFormat::Pcapng
                    } else {
                        CaptureFormat::Text
                    };
                    let name = name.to_owned();
                    return Ok(Self { name, reader: whole, format, count, total, is_cut: false });
                }
            }
        }
        Err(WireError::not_a_capture(name))
    }

    /// Detected format.
    pub fn format(&self) -> CaptureFormat {
        self.format
    }

    /// Name used in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file read so far and in total, compressed.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.count.load(Ordering::Relaxed), self.total)
    }

    /// Whether a compressed input was truncated or damaged.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Fills `buffer` as far as possible and returns the count; 0 at the end. A truncated
    /// compressed file, such as one still being written, ends there.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_damage(error.kind()) => {
                    self.is_cut = true;
                    self.reader = Box::new(std::io::empty());
                    break;
                }
                Err(error) => return Err(WireError::read(&self.name, &error)),
            }
        }
        Ok(filled)
    }
}

/// Decompressed bytes, for the text readers.
impl Read for CaptureInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// Errors that decompressors return for missing or wrong bytes; others come from the disk or pipe.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof
            | ErrorKind::InvalidData
            | ErrorKind::InvalidInput
            | ErrorKind::Other
    )
}

fn peek(reader: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut first)?;
    Ok(first)
}

struct CountingReader {
    stream: Box<dyn Read + Send>,
    count: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
