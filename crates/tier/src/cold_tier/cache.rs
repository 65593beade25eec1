//! Local cache of the indexes of files in a bucket: footers, page indexes and text indexes, up to a
//! size limit.
//!
//! Entries are filled before a file moves, or from the bucket after a cache miss. Each block of an
//! entry has a checksum that every read verifies, since a corrupt index would hide rows. Layout:
//! `docs/formats/data-file.md`.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use weir_datafile::text_index::{METADATA_KEY, TextIndex};
use weir_datafile::{FOOTER_BYTES_HINT, FileSource, checksums_at, space};

const MAGIC: &[u8] = b"weir index 1\n";
const END: &str = "index";
/// Sanity limit for the piece count of an entry.
const PIECES_MAX: u64 = 1 << 20;
/// Size of an entry's block, and of the content in it.
const BLOCK: u64 = 4096;
const CONTENT: u64 = BLOCK - 4;
/// Copy buffer size.
const COPY_BYTES: u64 = 1 << 20;

/// Limits of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLimits {
    pub(crate) bytes_max: u64,
    /// Free disk space to leave for new rows.
    pub(crate) reserve: u64,
}

/// The cache directory and its contents.
#[derive(Debug)]
pub(crate) struct IndexCache {
    dir: PathBuf,
    bytes_max: u64,
    /// Free disk space to leave for new rows.
    reserve: u64,
    state: Mutex<CacheState>,
    /// Serializes writers.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<String, CacheEntry>,
    bytes: u64,
    /// Logical clock of uses, for LRU eviction.
    clock: u64,
    /// Files that did not fit; cleared when an entry is removed.
    refused: HashSet<String>,
    failure: Option<String>,
}

#[derive(Debug)]
struct CacheEntry {
    bytes: u64,
    used: u64,
    /// Header, loaded on first use.
    head: Option<EntryHeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryHeader {
    /// Size of the whole file.
    size: u64,
    /// Pieces of the file, each with its offset in the entry's content.
    pieces: Vec<(Range<u64>, u64)>,
}

/// Whether to evict other entries for a new one: yes for a file being moved (`Made`), no after a
/// cache miss (`Found`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpaceUse {
    Made,
    Found,
}

impl IndexCache {
    /// Opens the cache with the entries of earlier runs.
    pub(crate) fn open(dir: PathBuf, limits: CacheLimits) -> Self {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, meta) = (entry.path(), entry.metadata());
            let is_entry = path.extension().is_some_and(|end| end == END);
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            match (meta, name) {
                (Ok(meta), Some(name)) if is_entry => {
                    found.push((meta.modified().ok(), name, meta.len()));
                }
                // Left over from an interrupted write.
                _ => drop(std::fs::remove_file(path)),
            }
        }
        found.sort();
        let mut state = CacheState::default();
        for (_, name, bytes) in found {
            state.clock += 1;
            state.bytes += bytes;
            state.entries.insert(name, CacheEntry { bytes, used: state.clock, head: None });
        }
        let (state, writing) = (Mutex::new(state), Mutex::default());
        let CacheLimits { bytes_max, reserve } = limits;
        let cache = Self { dir, bytes_max, reserve, state, writing };
        cache.make_room(0);
        cache
    }

    /// Whether the file at `path` is not cached and may fit.
    pub(crate) fn wants(&self, path: &str) -> bool {
        let (state, name) = (self.state.lock(), name_of(path));
        !state.entries.contains_key(name) && !state.refused.contains(name)
    }

    /// Removes all entries except those of these files.
    pub(crate) fn retain(&self, known: &HashSet<String>) {
        let known: HashSet<&str> = known.iter().map(|path| name_of(path)).collect();
        let names: Vec<String> = self.state.lock().entries.keys().cloned().collect();
        names
            .iter()
            .filter(|name| !known.contains(name.as_str()))
            .for_each(|name| self.forget(name));
    }

    /// Reads `range` of the file at `path`; also returns the size of the whole file.
    pub(crate) fn read(&self, path: &str, range: &Range<u64>) -> Option<(Bytes, u64)> {
        let name = name_of(path);
        let head = {
            let mut state = self.state.lock();
            state.clock += 1;
            let now = state.clock;
            let entry = state.entries.get_mut(name)?;
            entry.used = now;
            entry.head.clone()
        };
        match self.read_entry(name, head, range) {
            Ok(found) => found,
            Err(_) => {
                self.forget(name);
                None
            }
        }
    }

    fn read_entry(
        &self,
        name: &str,
        head: Option<EntryHeader>,
        range: &Range<u64>,
    ) -> std::io::Result<Option<(Bytes, u64)>> {
        let file = File::open(self.place(name))?;
        let head = match head {
            Some(head) => head,
            None => {
                let head = EntryHeader::read(&file)?;
                let mut state = self.state.lock();
                if let Some(entry) = state.entries.get_mut(name) {
                    entry.head = Some(head.clone());
                }
                head
            }
        };
        let holds = |piece: &&(Range<u64>, u64)| {
            piece.0.start <= range.start && range.end <= piece.0.end && range.start < range.end
        };
        let Some((piece, at)) = head.pieces.iter().find(holds) else { return Ok(None) };
        let start = at + (range.start - piece.start);
        let bytes = read_content(&file, start..start + (range.end - range.start))?;
        Ok(Some((bytes.into(), head.size)))
    }

    /// Caches the index of a file with path `path` in the bucket; skipped if it does not fit.
    pub(crate) fn add(&self, path: &str, from: &FileSource) {
        self.put(path, from, SpaceUse::Made);
    }

    /// Caches the index of a file after a cache miss, without evicting other entries.
    pub(crate) fn fill(&self, path: &str, from: &FileSource) {
        self.put(path, from, SpaceUse::Found);
    }

    fn put(&self, path: &str, from: &FileSource, room: SpaceUse) {
        let _writing = self.writing.lock();
        let name = name_of(path);
        self.forget(name);
        let outcome = self.write(name, from, room);
        if outcome.is_err() {
            drop(std::fs::remove_file(self.draft(name)));
        }
        let failure = outcome.err().map(|error| error.to_string());
        let mut state = self.state.lock();
        if let Some(why) = failure.as_ref().filter(|why| state.failure.as_ref() != Some(*why)) {
            let dir = self.dir.display();
            tracing::warn!(
                "cannot keep text indexes in `{dir}`, they are read from the bucket: {why}"
            );
        }
        state.failure = failure;
        if !state.entries.contains_key(name) {
            state.refused.insert(name.to_owned());
        }
    }

    fn write(&self, name: &str, from: &FileSource, room: SpaceUse) -> Result<(), ParquetError> {
        let pieces = pieces_of(from)?;
        let head = EntryHeader::new(from.length(), &pieces);
        let content = head.pieces.last().map_or(0, |(piece, at)| at + (piece.end - piece.start));
        let bytes = content.div_ceil(CONTENT) * BLOCK;
        if !self.has_room(bytes, room) {
            return Ok(());
        }
        std::fs::create_dir_all(&self.dir)?;
        let mut entry = BlockWriter::new(File::create(self.draft(name))?);
        entry.write(&head.bytes(&pieces))?;
        for piece in &pieces {
            let mut at = piece.start;
            while at < piece.end {
                let length = (piece.end - at).min(COPY_BYTES);
                let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
                from.read_exact_at(&mut bytes, at)?;
                entry.write(&bytes)?;
                at += length;
            }
        }
        let bytes = entry.finish()?;
        std::fs::rename(self.draft(name), self.place(name))?;
        let mut state = self.state.lock();
        state.clock += 1;
        state.bytes += bytes;
        let entry = CacheEntry { bytes, used: state.clock, head: Some(head) };
        state.entries.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Removes the entry of a deleted file.
    pub(crate) fn remove(&self, path: &str) {
        self.forget(name_of(path));
    }

    fn forget(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.remove(name) {
            state.bytes -= entry.bytes;
            state.refused.clear();
            drop(std::fs::remove_file(self.place(name)));
        }
    }

    fn has_room(&self, bytes: u64, room: SpaceUse) -> bool {
        let free = self.dir.ancestors().find_map(space).map_or(u64::MAX, |(free, _)| free);
        if bytes > self.bytes_max || free < self.reserve.saturating_add(bytes) {
            return false;
        }
        if room == SpaceUse::Made {
            self.make_room(bytes);
        }
        self.state.lock().bytes + bytes <= self.bytes_max
    }

    /// Evicts least recently used entries until `bytes` more fit.
    fn make_room(&self, bytes: u64) {
        loop {
            let oldest = {
                let state = self.state.lock();
                if state.bytes + bytes <= self.bytes_max {
                    return;
                }
                let oldest = state.entries.iter().min_by_key(|entry| entry.1.used);
                oldest.map(|entry| entry.0.clone())
            };
            let Some(oldest) = oldest else { return };
            self.forget(&oldest);
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.dir.join(name).with_extension(END)
    }

    fn draft(&self, name: &str) -> PathBuf {
        self.dir.join(name).with_extension("new")
    }
}

/// Writes content in checksummed blocks.
struct BlockWriter {
    file: BufWriter<File>,
    block: Vec<u8>,
    count: u64,
    bytes: u64,
}

impl BlockWriter {
    fn new(file: File) -> Self {
        Self { file: BufWriter::new(file), block: Vec::new(), count: 0, bytes: 0 }
    }

    fn write(&mut self, mut content: &[u8]) -> std::io::Result<()> {
        while !content.is_empty() {
            let room = usize::try_from(CONTENT).unwrap_or_default() - self.block.len();
            let (part, rest) = content.split_at(room.min(content.len()));
            self.block.extend_from_slice(part);
            content = rest;
            if part.len() == room {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> std::io::Result<()> {
        let sum = checksum(self.count, &self.block);
        self.file.write_all(&self.block)?;
        self.file.write_all(&sum)?;
        self.bytes += self.block.len() as u64 + 4;
        self.count += 1;
        self.block.clear();
        Ok(())
    }

    /// Syncs the file and returns its size.
    fn finish(mut self) -> std::io::Result<u64> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        Ok(self.bytes)
    }
}

fn checksum(number: u64, content: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&number.to_le_bytes());
    sum.update(content);
    sum.finalize().to_le_bytes()
}

/// Reads a range of an entry's content and verifies the checksums.
fn read_content(file: &File, range: Range<u64>) -> std::io::Result<Vec<u8>> {
    let (first, last) = (range.start / CONTENT, range.end.saturating_sub(1) / CONTENT);
    let (start, end) = (first * BLOCK, ((last + 1) * BLOCK).min(file.metadata()?.len()));
    let length = usize::try_from(end.saturating_sub(start)).map_err(std::io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, start)?;
    let mut content = Vec::with_capacity(length);
    for (number, block) in (first..).zip(bytes.chunks(usize::try_from(BLOCK).unwrap_or_default())) {
        match block.split_last_chunk::<4>() {
            Some((part, sum)) if checksum(number, part) == *sum => content.extend_from_slice(part),
            _ => return Err(damaged()),
        }
    }
    let at = |place: u64| usize::try_from(place - first * CONTENT).unwrap_or(usize::MAX);
    content.get(at(range.start)..at(range.end)).map(<[u8]>::to_vec).ok_or_else(damaged)
}

fn damaged() -> std::io::Error {
    std::io::Error::other("it is damaged")
}

/// Entry name of a file: its number, which is never reused.
fn name_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".parquet").unwrap_or(name)
}

impl EntryHeader {
    fn new(size: u64, pieces: &[Range<u64>]) -> Self {
        let mut at = Self::byte_count(pieces.len() as u64);
        let placed = pieces.iter().map(|piece| {
            let place = at;
            at += piece.end - piece.start;
            (piece.clone(), place)
        });
        Self { size, pieces: placed.collect() }
    }

    fn byte_count(pieces: u64) -> u64 {
        MAGIC.len() as u64 + 8 + 8 + pieces * 16
    }

    fn bytes(&self, pieces: &[Range<u64>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.size.to_le_bytes());
        bytes.extend((pieces.len() as u64).to_le_bytes());
        for piece in pieces {
            bytes.extend(piece.start.to_le_bytes());
            bytes.extend((piece.end - piece.start).to_le_bytes());
        }
        bytes
    }

    fn read(file: &File) -> std::io::Result<Self> {
        let start = read_content(file, 0..Self::byte_count(0))?;
        let count = number_at(&start, MAGIC.len() + 8).filter(|count| *count < PIECES_MAX);
        let count = count.filter(|_| start.starts_with(MAGIC)).ok_or_else(damaged)?;
        let content = read_content(file, 0..Self::byte_count(count))?;
        let size = number_at(&content, MAGIC.len()).ok_or_else(damaged)?;
        let pairs = (0..usize::try_from(count).unwrap_or_default()).map(|at| {
            let at = MAGIC.len() + 16 + at * 16;
            let (start, length) = (number_at(&content, at)?, number_at(&content, at + 8)?);
            Some(start..start.checked_add(length)?)
        });
        let pieces: Vec<Range<u64>> = pairs.collect::<Option<_>>().ok_or_else(damaged)?;
        Ok(Self::new(size, &pieces))
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map(u64::from_le_bytes)
}

/// Byte ranges of the footer, page indexes and text index; adjacent ranges are joined.
fn pieces_of(source: &FileSource) -> Result<Vec<Range<u64>>, ParquetError> {
    let footer = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .parse_and_finish(source)?;
    let size = source.length();
    let mut pieces = text_index_pieces(&footer);
    let tail = size.saturating_sub(FOOTER_BYTES_HINT as u64);
    let pages = footer.row_groups().iter().flat_map(|group| group.columns()).flat_map(|column| {
        [
            (column.column_index_offset(), column.column_index_length()),
            (column.offset_index_offset(), column.offset_index_length()),
        ]
    });
    let pages = pages.filter_map(|(offset, length)| {
        let start = u64::try_from(offset?).ok()?;
        Some(start..start + u64::try_from(length?).ok()?)
    });
    // The footer follows the page indexes; it may exceed the tail that readers fetch first.
    let mut last = size.saturating_sub(8);
    let mut length = [0; 4];
    source.read_exact_at(&mut length, last)?;
    last = last.saturating_sub(u32::from_le_bytes(length).into());
    pieces.extend(pages);
    let sums = checksums_at(source)?.unwrap_or(size);
    pieces.push(last.min(tail).min(sums)..size);
    pieces.sort_by_key(|piece| piece.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
            _ => joined.push(piece),
        }
    }
    Ok(joined)
}

fn text_index_pieces(footer: &ParquetMetaData) -> Vec<Range<u64>> {
    let rows = footer.file_metadata().num_rows().cast_unsigned();
    let pairs = footer.file_metadata().key_value_metadata().into_iter().flatten();
    let text = pairs.filter(|pair| pair.key == METADATA_KEY).find_map(|pair| pair.value.as_ref());
    let Some(index) = text.and_then(|text| TextIndex::from_text(text, rows)) else {
        return Vec::new();
    };
    index.sheets().map(|sheet| sheet.offset..sheet.offset + sheet.byte_count()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_datafile::FileMaker;
    use weir_tables::{Log, LogRows, Micros, Rows};

    use super::*;

    /// Writes a file with a text index and returns its path.
    fn file(root: &Path, id: i64) -> PathBuf {
        let mut rows = LogRows::default();
        for number in 0..20_000 {
            let body = format!("line {number} of {}", number * 7919 % 10_007);
            rows.push(&Log { ts: Micros(number), host: "web1", body: &body, ..Default::default() });
        }
        let maker = FileMaker::new(root.to_owned(), id);
        let files = maker.write(&Log::SPEC, &[rows.finish()], Micros(5)).unwrap();
        root.join(&files[0].path)
    }

    #[test]
    fn footers_and_text_indexes_are_kept_and_rows_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), 1);
        let open = || {
            IndexCache::open(
                dir.path().join("cache"),
                CacheLimits { bytes_max: 10 << 20, reserve: 0 },
            )
        };
        let source = FileSource::of_file(File::open(&path).unwrap()).unwrap();
        let cache = open();
        cache.add("data/log/1970-01-01/000000000001.parquet", &source);
        let (bytes, name) = (std::fs::read(&path).unwrap(), "000000000001.parquet");
        let size = bytes.len() as u64;
        // A second run reuses the entries of the first.
        let again = open();
        for cache in [&cache, &again] {
            let start = bytes.len() - FOOTER_BYTES_HINT.min(bytes.len());
            let (end, whole) = cache.read(name, &(start as u64..size)).expect("the footer");
            assert_eq!((&end[..], whole), (&bytes[start..], size));
            let pieces = pieces_of(&source).unwrap();
            assert!(!pieces.is_empty());
            for piece in &pieces {
                let (found, _) = cache.read(name, piece).expect("a piece");
                let range =
                    usize::try_from(piece.start).unwrap()..usize::try_from(piece.end).unwrap();
                assert_eq!(found, bytes[range]);
            }
            assert_eq!(cache.read(name, &(0..100)), None, "rows");
            assert_eq!(cache.read("000000000002.parquet", &(size - 8..size)), None);
        }
        again.retain(&["data/000000000001.parquet".to_owned()].into());
        assert!(again.read(name, &(size - 8..size)).is_some());
        again.retain(&HashSet::new());
        assert!(again.wants(name) && open().state.lock().entries.is_empty());
    }

    #[test]
    fn oldest_entries_go_and_damaged_or_deleted_ones_are_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, root) = (file(dir.path(), 1), dir.path().join("cache"));
        let open =
            |bytes_max| IndexCache::open(root.clone(), CacheLimits { bytes_max, reserve: 0 });
        let source = FileSource::of_file(File::open(&path).unwrap()).unwrap();
        let size = source.length();
        let cache = open(10 << 20);
        cache.add("1.parquet", &source);
        let one = cache.state.lock().bytes;
        let cache = open(one * 5 / 2);
        let end = size - 8..size;
        cache.add("2.parquet", &source);
        assert!(cache.read("1.parquet", &end).is_some());
        cache.fill("3.parquet", &source);
        assert!(
            !cache.wants("3.parquet") && cache.read("3.parquet", &end).is_none(),
            "none goes for one that was only read"
        );
        cache.add("3.parquet", &source);
        let has = |name: &str| cache.read(name, &end).is_some();
        assert!(has("1.parquet") && !has("2.parquet") && has("3.parquet"));
        // A single flipped bit is detected on reading its block.
        let entry = root.join("1.index");
        let mut bytes = std::fs::read(&entry).unwrap();
        let at = bytes.len() - 9;
        bytes[at] ^= 1;
        std::fs::write(&entry, bytes).unwrap();
        assert!(!has("1.parquet") && !entry.exists());
        std::fs::write(root.join("9.index"), [MAGIC, &[0; 90]].concat()).unwrap();
        let again = open(one * 3);
        assert!(again.read("9.parquet", &end).is_none() && !root.join("9.index").exists());
        std::fs::remove_dir_all(&root).unwrap();
        assert!(!has("3.parquet"));
        cache.fill("4.parquet", &source);
        assert!(has("4.parquet"), "the directory is made again");
        cache.add("4.parquet", &source);
        assert_eq!(cache.state.lock().bytes, one);
        cache.remove("data/4.parquet");
        assert!(!has("4.parquet") && cache.state.lock().bytes == 0);
    }

    #[test]
    fn entries_leave_the_disk_the_room_that_rows_need() {
        let dir = tempfile::tempdir().unwrap();
        let source = FileSource::of_file(File::open(file(dir.path(), 1)).unwrap()).unwrap();
        let cache = IndexCache::open(
            dir.path().join("cache/slow"),
            CacheLimits { bytes_max: 10 << 20, reserve: u64::MAX },
        );
        cache.add("1.parquet", &source);
        assert!(cache.read("1.parquet", &(0..8)).is_none() && !dir.path().join("cache").exists());
    }
}
