//! A manifest that others wrote, such as the one of a backup: a start refuses it or queries end, and no
//! file outside of the data directory is changed. `WEIR_SEED` reproduces a run, `WEIR_ROUNDS` makes it
//! longer.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use weir_store::{ErrorKind, FileRepair, Store, StoreError, StoreOptions, inspect, repair};

use crate::rot::copy;
use crate::tool::{Chance, ask, number, options, parcel, set};

/// Cases of one round.
const CASES: u64 = 60;
/// Tables, and their columns.
const PLACES: [(&str, &str); 5] = [
    (
        "data_file",
        "id table_name path tier day row_count byte_count min_ts max_ts arrival_ts checksum begin_snapshot end_snapshot",
    ),
    ("stream_position", "stream position snapshot"),
    ("setting", "name value"),
    ("gc_queue", "file path queued_ts"),
    ("snapshot", "id made_ts reason"),
];
const VALUES: &str = "NULL 0 1 -1 9223372036854775807 -9223372036854775808 4294967296 1.5 '' 'log' 'request' 'slow' \
    '../outside.parquet' 'data/log/2026-11-20/../../../../outside.parquet' '/etc/passwd' \
    'data/log/2026-11-20/000000000001.parquet' x'00ff' zeroblob(100000)";
const QUESTIONS: [&str; 3] = [
    "select count(*), min(ts), max(ts) from log",
    "select * from log where body = '17' order by ts",
    "select date_trunc('minute', ts), count(*) from log group by 1",
];

fn eager(dir: &Path) -> StoreOptions {
    StoreOptions {
        maintenance_interval: Duration::from_millis(1),
        gc_grace: Duration::ZERO,
        query_threads: 1,
        ..options(dir)
    }
}

/// A repair starts its own runtime, like the command.
async fn mend(dir: &Path) -> Result<Vec<FileRepair>, StoreError> {
    let options = eager(dir);
    tokio::task::spawn_blocking(move || repair(&options)).await.unwrap()
}

/// Two live files, two that wait to be deleted, and rows in the log.
async fn fill(dir: &Path) {
    let store = Store::open(options(dir)).unwrap();
    for part in 0..4 {
        store.append(parcel(1, part * 50..part * 50 + 50)).await.unwrap();
        store.flush().await.unwrap();
    }
    store.append(parcel(1, 200..250)).await.unwrap();
    drop(store);
    let manifest = Connection::open(dir.join("manifest.sqlite")).unwrap();
    let queue = "UPDATE data_file SET end_snapshot = begin_snapshot WHERE id IN (1, 2);
                 INSERT INTO gc_queue SELECT id, path, 0 FROM data_file WHERE id IN (1, 2);
                 DELETE FROM setting WHERE name LIKE 'digest%'";
    manifest.execute_batch(queue).unwrap();
}

/// Changes a value as who forges a manifest would: without a wrong checksum.
fn forge(dir: &Path, chance: &mut Chance) -> String {
    let mut draw = |count: usize| usize::try_from(chance.below(count as u64)).unwrap();
    let (table, columns) = PLACES[draw(PLACES.len())];
    let [columns, values]: [Vec<&str>; 2] =
        [columns, VALUES].map(|text| text.split_whitespace().collect());
    let (column, value) = (columns[draw(columns.len())], values[draw(values.len())]);
    let has_rowid = !["setting", "stream_position"].contains(&table);
    let which = if has_rowid && draw(2) == 1 { "rowid % 2 = 1" } else { "1 = 1" };
    let sql = format!("UPDATE OR REPLACE {table} SET {column} = {value} WHERE {which}");
    let manifest = Connection::open(dir.join("manifest.sqlite")).unwrap();
    manifest.pragma_update(None, "foreign_keys", "OFF").unwrap();
    let outcome = manifest.execute(&sql, []);
    manifest.execute("DELETE FROM setting WHERE name LIKE 'digest%'", []).unwrap();
    format!("{sql}: {outcome:?}")
}

#[tokio::test]
async fn forged_rows_of_a_manifest_end_no_process_and_touch_no_other_file() {
    let seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 11);
    println!("WEIR_SEED={seed}");
    let mut chance = Chance::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let (original, case) = (dir.path().join("original"), dir.path().join("case"));
    let outside = dir.path().join("outside.parquet");
    std::fs::write(&outside, "another file").unwrap();
    fill(&original).await;
    let mut started = 0;
    for case_number in 0..set("WEIR_ROUNDS").unwrap_or(1) * CASES {
        copy(&original, &case);
        let what = forge(&case, &mut chance);
        let what = format!("seed {seed}, case {case_number}: {what}");
        drop(inspect(&case, None, true));
        if let Ok(store) = Store::open(eager(&case)) {
            started += 1;
            for question in QUESTIONS {
                ask(&store, question).await;
            }
            store.append(parcel(2, 0..10)).await.unwrap();
            drop(store.flush().await);
            drop(store.close().await);
        }
        drop(mend(&case).await);
        drop(Store::open(eager(&case)));
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "another file", "{what}");
        std::fs::remove_dir_all(&case).unwrap();
    }
    println!("{started} started");
}

#[tokio::test]
async fn path_outside_of_the_data_directory_is_refused_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let (original, case) = (dir.path().join("original"), dir.path().join("case"));
    let outside = dir.path().join("outside.parquet");
    fill(&original).await;
    std::fs::copy(original.join("data/log/2026-11-20/000000000003.parquet"), &outside).unwrap();
    let path = "path = '../outside.parquet'";
    let later = "table_name = 'later', path = 'data/log/2026-11-20/../../../../outside.parquet'";
    for (change, rows) in [
        (format!("UPDATE data_file SET {path} WHERE id = 3"), Some(150)),
        // File 1 is no longer to be deleted, so its rows are taken up.
        (
            format!(
                "UPDATE data_file SET {path} WHERE id = 1; UPDATE gc_queue SET {path} WHERE file = 1"
            ),
            Some(200),
        ),
        ("UPDATE data_file SET id = 5 WHERE id = 4".to_owned(), Some(150)),
        // Of a table of a newer weir.
        (format!("UPDATE data_file SET {later} WHERE id = 3"), None),
    ] {
        copy(&original, &case);
        let manifest = Connection::open(case.join("manifest.sqlite")).unwrap();
        manifest.execute_batch(&change).unwrap();
        drop(manifest);
        let found = inspect(&case, None, true).unwrap();
        let is_odd = |(file, why): &(String, String)| {
            file == "manifest.sqlite" && why.ends_with("is no path of its file")
        };
        assert!(found.problems.iter().any(is_odd), "{change}: {:?}", found.problems);
        let error = Store::open(eager(&case)).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{change}: {error}");
        assert!(error.message.contains("is no path of its file"), "{change}: {error}");
        let mended = mend(&case).await;
        assert!(outside.exists() && mended.is_ok() == rows.is_some(), "{change}");
        if let Some(rows) = rows {
            let store = Store::open(eager(&case)).unwrap();
            assert_eq!(number(&store, "select count(*) from log").await, rows, "{change}");
        }
        std::fs::remove_dir_all(&case).unwrap();
    }
}
