//! Damage of files in the cold tier, in a directory and in a bucket: every read of other bytes than
//! were written ends with an error.
//!
//! As in public reports: another object under the name (juicedata/juicefs#4210), a check that finds
//! nothing (facebook/rocksdb#6840), empty objects (ClickHouse/ClickHouse#33008,
//! trinodb/trino#11964), a local cache that hides it (risingwavelabs/risingwave#24508).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use weir_datafile::{DataFile, FileCheck, FileMaker, FileOpener, Inspection, Tier};
use weir_tables::{Log, LogRows, Micros, Rows as _};

use super::{CacheSpace, FileLocations, TieredStore};
use crate::objects::BucketOptions;
use crate::options::{SlowBucketOptions, SlowOptions, SlowPlace};

type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// A service that answers `GET` and `HEAD`, as S3 does; returns its port.
fn serve(objects: &Objects) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let objects = Arc::clone(objects);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(&stream, &objects);
        }
    });
    port
}

fn answer(mut stream: &TcpStream, objects: &Objects) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut range = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if let Some((from, to)) =
            line.strip_prefix("range: bytes=").and_then(|range| range.split_once('-'))
        {
            range = Some((from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap()));
        }
        if line.is_empty() {
            break;
        }
    }
    let mut words = request.split(' ');
    let (method, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let found = objects.lock().unwrap().get(name.trim_start_matches('/')).cloned();
    let (status, part, extra) = match (&found, range) {
        (None, _) => ("404 Not Found", &[][..], String::new()),
        (Some(bytes), None) => ("200 OK", &bytes[..], String::new()),
        (Some(bytes), Some((from, _))) if from >= bytes.len() => {
            ("416 Range Not Satisfiable", &[][..], String::new())
        }
        (Some(bytes), Some((from, to))) => {
            let to = to.min(bytes.len() - 1);
            let extra = format!("content-range: bytes {from}-{to}/{}\r\n", bytes.len());
            ("206 Partial Content", &bytes[from..=to], extra)
        }
    };
    let length = part.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{extra}etag: \"a\"\r\n\
         last-modified: Fri, 20 Nov 2026 12:00:00 GMT\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(if method == "HEAD" { &[] } else { part })
}

/// Where a test's files are.
enum Storage {
    Directory(PathBuf),
    Bucket(Objects),
}

impl Storage {
    fn put(&self, path: &str, bytes: Option<&[u8]>) {
        match (self, bytes) {
            (Self::Directory(root), Some(bytes)) => {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            (Self::Directory(root), None) => drop(std::fs::remove_file(root.join(path))),
            (Self::Bucket(objects), bytes) => {
                let (name, mut objects) = (format!("rows/w/{path}"), objects.lock().unwrap());
                objects.remove(&name);
                objects.extend(bytes.map(|bytes| (name, bytes.to_vec())));
            }
        }
    }
}

fn bucket(objects: &Objects, cache_bytes: u64) -> SlowPlace {
    let bucket = BucketOptions {
        bucket: "rows".into(),
        endpoint: Some(format!("http://127.0.0.1:{}", serve(objects))),
        region: Some("us-east-1".into()),
        keys: Some(("key".into(), "secret".into())),
        timeout: Duration::from_secs(20),
        ..BucketOptions::default()
    };
    let options = SlowBucketOptions::new(bucket);
    SlowPlace::Bucket(Box::new(SlowBucketOptions { prefix: "w".into(), cache_bytes, ..options }))
}

/// Writes a file as one of the cold tier; returns its entry and its bytes.
fn file(dir: &FilePath, id: i64, rows: i64) -> (DataFile, Vec<u8>) {
    let mut builder = LogRows::default();
    for number in 0..rows {
        let body = format!("line {number} of {} in {id}", number * 7919 % 10_007);
        builder.push(&Log { ts: Micros(number), host: "web1", body: &body, ..Default::default() });
    }
    let maker = FileMaker::new(dir.to_owned(), id);
    let written = maker.write(&Log::SPEC, &[builder.finish()], Micros(5)).unwrap().remove(0);
    let bytes = std::fs::read(dir.join(&written.path)).unwrap();
    (DataFile { tier: Tier::Slow, ..(*written).clone() }, bytes)
}

/// The kinds of damage: what changed, and the content; `None` is a missing file.
fn damages(whole: &[u8], other: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let length = whole.len();
    let places = (0..40).map(|part| part * length / 40).chain((1..12).map(|back| length - back));
    let mut all: Vec<_> = places
        .map(|at| {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1 << (at % 8);
            (format!("byte {at} of {length} changed"), Some(bytes))
        })
        .collect();
    for end in [0, 1, 8, length / 2, length - 9, length - 1] {
        all.push((format!("cut to {end} bytes"), Some(whole[..end].to_vec())));
    }
    let mut zeros = whole.to_vec();
    zeros[length / 3..length / 2].fill(0);
    all.push(("zeros in it".into(), Some(zeros)));
    all.push(("begins later".into(), Some(whole[16_384..].to_vec())));
    all.push(("is another file".into(), Some(other.to_vec())));
    all.push(("is twice there".into(), Some([whole, whole].concat())));
    all.push(("is missing".into(), None));
    all
}

/// Reads a file in all ways; each read gives the bytes that were written, or fails. Returns whether
/// the file was read whole.
async fn read(places: &FileLocations, file: &DataFile, whole: &[u8], what: &str) -> bool {
    let mut is_whole = true;
    if let Ok(source) = places.open_file(file) {
        for (at, expected) in whole.chunks(40_000).enumerate() {
            let mut bytes = vec![0; expected.len()];
            match source.read_exact_at(&mut bytes, at as u64 * 40_000) {
                Ok(()) => assert!(bytes == expected, "{what}: bytes of a file"),
                Err(_) => is_whole = false,
            }
        }
    } else {
        is_whole = false;
    }
    let local = Arc::new(LocalFileSystem::new_with_prefix(&places.root).unwrap());
    let store = TieredStore::new(local, places.clone());
    let (location, length) = (Path::from(file.location()), whole.len() as u64);
    let ranges: Vec<_> =
        (0..length).step_by(50_000).map(|from| from..(from + 45_000).min(length)).collect();
    for ranges in ranges.iter().map(std::slice::from_ref).chain([&ranges[..]]) {
        match store.get_ranges(&location, ranges).await {
            Ok(parts) => {
                for (range, part) in ranges.iter().zip(parts) {
                    let range =
                        usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                    assert!(part == whole[range], "{what}: a range of a query");
                }
            }
            Err(_) => is_whole = false,
        }
    }
    let tail = GetOptions { range: Some(GetRange::Suffix(5000)), ..GetOptions::default() };
    match store.get_opts(&location, tail).await {
        Ok(found) => {
            let bytes = found.bytes().await.unwrap();
            assert!(bytes == whole[whole.len() - 5000..], "{what}: the end");
        }
        Err(_) => is_whole = false,
    }
    is_whole
}

async fn try_all(options: SlowOptions, storage: &Storage, dir: &FilePath) {
    let (entry, whole) = file(&dir.join("made"), 7, 20_000);
    let (_, other) = file(&dir.join("made"), 8, 20_000);
    for (what, content) in damages(&whole, &other) {
        storage.put(&entry.path, content.as_deref());
        let space = CacheSpace { dir: &dir.join("cache"), reserve: 0 };
        let places = FileLocations::new(dir, Some(&options), Some(1), Some(&space)).unwrap();
        assert!(!read(&places, &entry, &whole, &what).await, "{what}");
        let check = FileCheck { places: &places, file: &entry, is_thorough: true };
        let found = tokio::task::block_in_place(|| check.look(&mut Inspection::default()));
        assert!(found.is_err(), "{what}");
    }
    // Another file of the expected size: only its checksum tells.
    storage.put(&entry.path, Some(&other));
    let places = FileLocations::new(dir, Some(&options), Some(1), None).unwrap();
    let entry_of_size = DataFile { byte_count: other.len() as u64, ..entry.clone() };
    assert!(!read(&places, &entry_of_size, &other, "another file of this size").await);
    storage.put(&entry.path, Some(&whole));
    // An older weir kept no checksum of the file in the manifest.
    for seal in [entry.seal, None] {
        let places = FileLocations::new(dir, Some(&options), Some(1), None).unwrap();
        let entry = DataFile { seal, ..entry.clone() };
        assert!(read(&places, &entry, &whole, "whole").await);
        let check = FileCheck { places: &places, file: &entry, is_thorough: true };
        tokio::task::block_in_place(|| check.look(&mut Inspection::default())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_damage_in_a_directory_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("slow");
    std::fs::create_dir_all(&root).unwrap();
    let options = SlowOptions::new(SlowPlace::Directory(root.clone()));
    try_all(options, &Storage::Directory(root), dir.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_damage_in_a_bucket_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::default();
    let options = SlowOptions::new(bucket(&objects, 0));
    try_all(options, &Storage::Bucket(objects), dir.path()).await;
}

/// A file that changes after its checksums were read: what is cached here does not hide it.
#[tokio::test(flavor = "multi_thread")]
async fn damage_after_the_first_read_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::default();
    let options = SlowOptions::new(bucket(&objects, 1 << 20));
    let storage = Storage::Bucket(objects);
    let (entry, whole) = file(&dir.path().join("made"), 7, 20_000);
    let space = CacheSpace { dir: &dir.path().join("cache"), reserve: 0 };
    let places = FileLocations::new(dir.path(), Some(&options), Some(1), Some(&space)).unwrap();
    storage.put(&entry.path, Some(&whole));
    assert!(read(&places, &entry, &whole, "whole").await);
    let (_, other) = file(&dir.path().join("made"), 8, 20_000);
    for (what, content) in damages(&whole, &other) {
        storage.put(&entry.path, content.as_deref());
        // Reads of cached parts succeed, with the bytes that were written.
        read(&places, &entry, &whole, &what).await;
    }
}

/// Gets without hedged ones, which depend on the time that a request takes, and the bytes of all.
fn requests(places: &FileLocations) -> (u64, u64, u64) {
    let stats = places.slow().unwrap().stats().unwrap();
    (stats.gets - stats.hedged - stats.failed, stats.bytes, stats.hedged)
}

/// Checks send no extra requests: the query reads the same bytes next.
#[tokio::test(flavor = "multi_thread")]
async fn checked_reads_are_the_requests_that_a_forecast_names() {
    let dir = tempfile::tempdir().unwrap();
    let objects = Objects::default();
    let options = SlowOptions::new(bucket(&objects, 0));
    let (entry, whole) = file(&dir.path().join("made"), 7, 20_000);
    Storage::Bucket(objects).put(&entry.path, Some(&whole));
    let places = FileLocations::new(dir.path(), Some(&options), Some(1), None).unwrap();
    let local = Arc::new(LocalFileSystem::new_with_prefix(&places.root).unwrap());
    let store = TieredStore::new(local, places.clone());
    let (location, length) = (Path::from(entry.location()), whole.len() as u64);
    // A query begins with the end, then come the indexes in it.
    store.get_ranges(&location, std::slice::from_ref(&(length - 8..length))).await.unwrap();
    let first = requests(&places).0;
    store.get_ranges(&location, std::slice::from_ref(&(length - 3000..length - 8))).await.unwrap();
    assert!(first <= 2 && requests(&places).0 == first, "{first} requests for the end");
    let (small, joined) = (100..200, 20_000..20_010);
    for ranges in [vec![small], vec![5..10, joined], vec![16_000..17_000, 90_000..90_001]] {
        let expected = places.slow().unwrap().reads(&entry, ranges.clone());
        let before = requests(&places);
        let found = store.get_ranges(&location, &ranges).await.unwrap();
        for (range, found) in ranges.iter().zip(found) {
            let place = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            assert_eq!(found, whole[place]);
        }
        let after = requests(&places);
        assert_eq!(after.0 - before.0, expected.len() as u64, "{ranges:?}");
        let bytes = expected.iter().map(|range| range.end - range.start).sum::<u64>();
        assert!(after.2 > before.2 || after.1 - before.1 == bytes, "{ranges:?}");
    }
}
