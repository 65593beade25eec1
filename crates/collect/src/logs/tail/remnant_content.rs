//! Content of a remnant: blocks of unread lines, read by their offset in the log.
//!
//! ```text
//! block  0 packed length u32, 4 checksum u32, 8 offset in the log u64, 16 length u32, 20 zstd bytes
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::content::read_full;

/// Length, checksum, offset, decompressed length.
pub(super) const BLOCK_HEAD_BYTES: usize = 20;
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// A larger read continues in another block next time, so no block is cached for it.
const SMALL_READ_BYTES: usize = 64 << 10;

/// Position of a range of the log in the remnant file.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEntry {
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) at: u64,
    pub(super) packed_length: usize,
}

#[derive(Debug)]
pub(super) struct RemnantContent {
    pub(super) path: PathBuf,
    pub(super) file: File,
    blocks: Vec<BlockEntry>,
    size: u64,
    pub(super) stored_bytes: u64,
    /// Last decompressed block, by its offset.
    unpacked: Option<(u64, Vec<u8>)>,
}

impl RemnantContent {
    pub(super) fn new(
        (path, file): (PathBuf, File),
        size: u64,
        blocks: Vec<BlockEntry>,
        stored_bytes: u64,
    ) -> Self {
        Self { path, file, blocks, size, stored_bytes, unpacked: None }
    }

    /// Finds the consecutive blocks from `at` on, up to the first incomplete one.
    pub(super) fn open(mut at: u64, (path, file): (PathBuf, File), size: u64) -> io::Result<Self> {
        let mut blocks: Vec<BlockEntry> = Vec::new();
        while let Some(block) = next_block(&file, at)? {
            let end = blocks.last().map(|last| last.offset + last.length as u64);
            if end.is_some_and(|end| end != block.offset) {
                break;
            }
            at = block.at + block.packed_length as u64;
            blocks.push(block);
        }
        Ok(Self::new((path, file), size, blocks, at))
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// End of the missing range at `offset`; `None` if that byte is present, or behind the log.
    pub(super) fn missing_until(&self, offset: u64) -> Option<u64> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return (offset < self.size).then_some(self.size);
        };
        let end = last.offset + last.length as u64;
        if offset < first.offset {
            Some(first.offset)
        } else {
            (offset >= end && offset < self.size).then_some(self.size)
        }
    }

    /// Reads until `bytes` is full or the remnant ends; returns the count.
    pub(super) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            let at = offset + filled as u64;
            let found = self.blocks.partition_point(|block| block.offset <= at).checked_sub(1);
            let Some(block) = found.map(|found| self.blocks[found]) else { break };
            let within = usize::try_from(at - block.offset).unwrap_or(usize::MAX);
            if within >= block.length {
                break;
            }
            let unpacked = self.unpack(&block)?;
            let count = (block.length - within).min(bytes.len() - filled);
            bytes[filled..filled + count].copy_from_slice(&unpacked[within..within + count]);
            filled += count;
        }
        if bytes.len() > SMALL_READ_BYTES {
            self.unpacked = None;
        }
        Ok(filled)
    }

    fn unpack(&mut self, block: &BlockEntry) -> io::Result<&[u8]> {
        if self.unpacked.as_ref().is_none_or(|(offset, _)| *offset != block.offset) {
            let mut packed = vec![0; block.packed_length];
            self.file.read_exact_at(&mut packed, block.at)?;
            let bytes = zstd::bulk::decompress(&packed, block.length)?;
            if bytes.len() != block.length {
                return Err(io::Error::other("a block of a remnant has another length"));
            }
            self.unpacked = Some((block.offset, bytes));
        }
        Ok(self.unpacked.as_ref().map_or(&[][..], |(_, bytes)| bytes))
    }

    /// Removes the file; the hub has all of it.
    pub(super) fn remove(self) {
        let _found_again_at_the_next_start = fs::remove_file(&self.path);
    }
}

/// Reads a block; `None` at the end, and where a block is incomplete.
fn next_block(file: &File, at: u64) -> io::Result<Option<BlockEntry>> {
    let mut head = [0; BLOCK_HEAD_BYTES];
    if read_full(file, &mut head, at)? < head.len() {
        return Ok(None);
    }
    let [packed_length, sum, length] = [0, 4, 16].map(|at| u32_at(&head, at));
    let offset = u64::from(u32_at(&head, 12)) << 32 | u64::from(u32_at(&head, 8));
    let (packed_length, length) = (packed_length as usize, length as usize);
    if packed_length > 2 * BLOCK_BYTES || length > BLOCK_BYTES {
        return Ok(None);
    }
    let at = at + BLOCK_HEAD_BYTES as u64;
    let mut packed = vec![0; packed_length];
    let is_whole =
        read_full(file, &mut packed, at)? == packed_length && checksum(offset, &packed) == sum;
    Ok(is_whole.then_some(BlockEntry { offset, length, at, packed_length }))
}

fn u32_at(head: &[u8; BLOCK_HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

pub(super) fn checksum(offset: u64, bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(&offset.to_le_bytes());
    crc.update(bytes);
    crc.sum()
}
