//! `inspect` on intact and on damaged files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use weir_store::{Store, inspect};
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows, Sysctl, SysctlRows};

use crate::tool::{NOON, options, parcel};

/// Files of three tables with different sort orders, one of them merged from four.
async fn stored(dir: &Path) -> Vec<PathBuf> {
    let opened = weir_store::StoreOptions {
        maintenance_interval: std::time::Duration::from_millis(20),
        small_file_count: 3,
        gc_grace: std::time::Duration::ZERO,
        ..options(dir)
    };
    let store = Store::open(opened).unwrap();
    for round in 0..4_u64 {
        store.append(parcel(1, round * 100..round * 100 + 100)).await.unwrap();
        store.flush().await.unwrap();
    }
    let (mut requests, mut settings) = (RequestRows::default(), SysctlRows::default());
    for number in 0..20_000_i64 {
        let (ts, id) = (Micros(NOON.0 + number % 500), format!("{number:032x}"));
        requests.push(&Request { ts, request_id: Some(&id), ..Default::default() });
        settings.push(&Sysctl {
            ts,
            host: ["b", "a"][usize::from(number % 2 == 0)],
            ..Default::default()
        });
    }
    let batches = vec![
        Batch { table: RequestRows::SPEC, rows: requests.finish() },
        Batch { table: SysctlRows::SPEC, rows: settings.finish() },
    ];
    store.append(Parcel { range: None, batches }).await.unwrap();
    store.flush().await.unwrap();
    crate::tool::eventually(async || store.stats().file_count == 3).await;
    store.close().await.unwrap();
    let found = inspect(dir, None, true).unwrap();
    assert_eq!(found.problems, [], "good files");
    let rows: Vec<_> = found.tables.iter().map(|(name, cost)| (*name, cost.row_count)).collect();
    assert_eq!(rows, [("log", 400), ("request", 20_000), ("sysctl", 20_000)]);
    let request = &found.tables["request"];
    assert!(request.index_bytes > 20_000 && request.column_bytes["request_id"] > 10_000);
    let columns: u64 = request.column_bytes.values().sum();
    assert!(columns + request.index_bytes < request.byte_count);
    ["request", "sysctl"]
        .iter()
        .map(|table| {
            let day = dir.join("data").join(table).join("2026-11-20");
            std::fs::read_dir(day).unwrap().next().unwrap().unwrap().path()
        })
        .collect()
}

/// Offset of the text index, which lies between the row group and the page index; the metadata
/// holds the offset of its words.
pub(crate) fn text_index_of(file: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(file);
    let value = text.rsplit("weir.text_index").next().unwrap();
    value
        .split(';')
        .filter_map(|text| text.split(':').next().and_then(|number| number.parse().ok()))
        .next_back()
        .expect("it has an index of words")
}

/// Ranges of the page index of `ts` according to the footer: its times, and its pages.
fn page_index_of(file: &Path) -> [std::ops::Range<u64>; 2] {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let group = reader.metadata().row_group(0);
    let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == "ts").unwrap();
    [
        page_range(chunk.column_index_offset(), chunk.column_index_length()),
        page_range(chunk.offset_index_offset(), chunk.offset_index_length()),
    ]
}

fn page_range(begin: Option<i64>, length: Option<i32>) -> std::ops::Range<u64> {
    let begin = begin.unwrap().cast_unsigned();
    begin..begin + u64::from(length.unwrap().cast_unsigned())
}

/// The file as a weir wrote it that knew no checksums.
fn without_checksums(mut file: Vec<u8>) -> Vec<u8> {
    for mark in [&b"weir.checksums"[..], b"weir-checksums-1:"] {
        let at = file.windows(mark.len()).rposition(|window| window == mark).unwrap();
        file[at] = b'x';
    }
    file
}

#[tokio::test]
async fn damaged_files_are_told_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let files = stored(dir.path()).await;
    let problem = || {
        let found = inspect(dir.path(), None, true).unwrap();
        let all = found.problems.iter().map(|(path, why)| format!("{path}: {why}"));
        all.collect::<Vec<_>>().join("; ")
    };
    let sealed = std::fs::read(&files[0]).unwrap();
    let middle = sealed.len() / 2;
    let changed = [&sealed[..middle], &[sealed[middle] ^ 1], &sealed[middle + 1..]].concat();
    std::fs::write(&files[0], changed).unwrap();
    assert!(problem().contains("changed after writing: the checksum differs"), "{}", problem());

    // What follows is found in files without checksums as well.
    let whole = without_checksums(sealed);
    std::fs::write(&files[0], &whole).unwrap();
    assert!(problem().contains("the file is not the one that was written"), "{}", problem());
    let manifest = rusqlite::Connection::open(dir.path().join("manifest.sqlite")).unwrap();
    manifest.execute("UPDATE data_file SET checksum = NULL", []).unwrap();
    drop(manifest);
    assert_eq!(problem(), "");
    let open = || std::fs::OpenOptions::new().write(true).open(&files[0]).unwrap();

    open().set_len(whole.len() as u64 - 1).unwrap();
    assert!(problem().contains("bytes, not"), "{}", problem());
    std::fs::write(&files[0], &whole).unwrap();

    let (at, last) = (whole.len() as u64 - 20, whole.len() as u64 - 4);
    open().write_all_at(&[0xff; 20], at).unwrap();
    assert!(problem().contains("cannot be read"), "{}", problem());
    open().write_all_at(b"PAR1", last).unwrap();
    assert!(problem().contains("cannot be read"), "{}", problem());
    std::fs::write(&files[0], &whole).unwrap();

    let place = text_index_of(&whole);
    let flipped = whole[usize::try_from(place).unwrap()] ^ 1;
    open().write_all_at(&[flipped], place).unwrap();
    assert!(problem().contains("a text index that does not match its rows"), "{}", problem());
    std::fs::write(&files[0], &whole).unwrap();

    let [times, pages] = page_index_of(&files[0]);
    for (place, words) in
        [(times, "with other times"), (pages, "that does not match its column `ts`")]
    {
        let told = |at: u64| {
            let byte = whole[usize::try_from(at).unwrap()];
            open().write_all_at(&[byte ^ 1], at).unwrap();
            let told = problem();
            open().write_all_at(&[byte], at).unwrap();
            told
        };
        let told: Vec<String> = place.map(told).collect();
        let of_it = told.iter().filter(|why| why.contains(words)).count();
        assert!(of_it > 1, "{words}: {told:?}");
    }
    assert_eq!(problem(), "");

    std::fs::rename(&files[1], files[1].with_file_name("999999999999.parquet")).unwrap();
    let found = inspect(dir.path(), None, true).unwrap();
    assert!(problem().contains("No such file"), "{}", problem());
    assert_eq!(found.unknown_files, ["data/sysctl/2026-11-20/999999999999.parquet"]);
    let error = inspect(&dir.path().join("data"), None, true).expect_err("there is no manifest");
    assert!(error.to_string().contains("manifest.sqlite"), "{error}");
}
