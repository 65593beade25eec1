//! Checks that SQLite does not make: checksums of documents, and what a changed byte of its log hides.
//!
//! SQLite has no checksums of pages, so a changed byte of a text is another text. Its log has
//! checksums (<https://www.sqlite.org/fileformat2.html#walformat>), but a frame that differs ends the
//! log without an error: all later commits are gone, as after a power loss.

use crate::backend::Document;

const WAL_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// First bytes of a log, without the last bit, which has the order of bytes in checksums.
const WAL_MAGIC: u32 = 0x377f_0682;
const CRC_BITS: u32 = 32;

/// The column `sum` of a document: its version and a CRC-32 of all columns.
///
/// An older weir changes documents and leaves the column. So the version in it tells which state of
/// the document it is of.
pub(crate) fn document_sum(document: &Document, changed_us: i64) -> i64 {
    let version = document.version & i64::from(u32::MAX >> 1);
    version << CRC_BITS | i64::from(crc_of(document, document.version, changed_us))
}

/// Whether a document is as it was written; also if an older weir wrote it, or changed it since.
pub(crate) fn is_as_written(document: &Document, changed_us: i64, sum: Option<i64>) -> bool {
    let Some(sum) = sum else { return true };
    if sum == document_sum(document, changed_us) {
        return true;
    }
    let version = sum >> CRC_BITS;
    // An older weir would have changed more than the version.
    let is_only_version = i64::from(crc_of(document, version, changed_us)) == sum & 0xffff_ffff;
    version != document.version && !is_only_version
}

fn crc_of(document: &Document, version: i64, changed_us: i64) -> u32 {
    let Document { kind, key, body, due_us, .. } = document;
    let mut crc = crc32fast::Hasher::new();
    for text in [kind, key, body] {
        crc.update(&(text.len() as u64).to_le_bytes());
        crc.update(text.as_bytes());
    }
    for number in [version, due_us.unwrap_or(i64::MIN), changed_us] {
        crc.update(&number.to_le_bytes());
    }
    crc.finalize()
}

/// Whether commits behind a changed byte of SQLite's log are lost.
///
/// A power loss leaves at most one commit incomplete, since each is on the disk before the next
/// begins. So two whole commits behind a frame that differs were acknowledged.
pub(crate) fn has_lost_commits(wal: &[u8]) -> bool {
    let Some((header, frames)) = wal.split_at_checked(WAL_HEADER_BYTES) else { return false };
    let [magic, _, page, ..] = numbers(header);
    let frame_bytes = FRAME_HEADER_BYTES.saturating_add(page as usize);
    let sizes = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
    let (magic, frame_bytes) = match (magic & !1 == WAL_MAGIC, sizes.contains(&page)) {
        (true, true) => (magic, frame_bytes),
        // weir's databases have SQLite's default size of pages.
        _ => (WAL_MAGIC, FRAME_HEADER_BYTES + 4096),
    };
    let is_big_endian = magic & 1 == 1;
    let header_sum = WalSum::new(is_big_endian, (0, 0)).of(&header[..24]);
    let is_header_whole = header_sum == sum_at(header, 24);
    let salts = if is_header_whole {
        sum_at(header, 16)
    } else {
        frames.get(..FRAME_HEADER_BYTES).map_or((0, 0), |frame| sum_at(frame, 8))
    };
    let (mut before, mut is_broken, mut commits) = (sum_at(header, 24), !is_header_whole, 0);
    for frame in frames.chunks_exact(frame_bytes) {
        let (head, page) = frame.split_at(FRAME_HEADER_BYTES);
        let sum = WalSum::new(is_big_endian, before).of(&head[..8]);
        let sum = WalSum::new(is_big_endian, sum).of(page);
        before = sum_at(head, 16);
        if sum != before || sum_at(head, 8) != salts {
            is_broken = true;
        } else if is_broken && numbers(head)[1] != 0 {
            commits += 1;
        }
    }
    commits > 1
}

/// SQLite's checksum of pairs of numbers.
struct WalSum {
    is_big_endian: bool,
    sum: (u32, u32),
}

impl WalSum {
    fn new(is_big_endian: bool, sum: (u32, u32)) -> Self {
        Self { is_big_endian, sum }
    }

    fn of(self, bytes: &[u8]) -> (u32, u32) {
        let (mut first, mut second) = self.sum;
        for pair in bytes.as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            let [x, y] = match self.is_big_endian {
                true => [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])],
                false => [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])],
            };
            first = first.wrapping_add(x).wrapping_add(second);
            second = second.wrapping_add(y).wrapping_add(first);
        }
        (first, second)
    }
}

/// The first numbers of a header, big endian.
fn numbers(header: &[u8]) -> [u32; 3] {
    [0, 4, 8].map(|at| sum_at(header, at).0)
}

/// Two numbers at an offset, big endian; zeros where there are none.
fn sum_at(bytes: &[u8], at: usize) -> (u32, u32) {
    let pair = bytes.get(at..at + 8).and_then(|pair| pair.first_chunk::<8>()).copied();
    let [a, b, c, d, e, f, g, h] = pair.unwrap_or_default();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}
