//! Changed bytes and cut files of every kind: each is noticed, or no answer differs. `WEIR_SEED`
//! reproduces a run, `WEIR_ROUNDS` makes it longer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_store::{Store, StoreOptions, inspect};

use crate::disk::walk;
use crate::tool::{Chance, ask, numbered, options, parcel, set};

/// Cases of one round.
const CASES: u64 = 55;
/// What is asked: statistics of the manifest, page indexes, the text index, every text.
const QUESTIONS: [&str; 6] = [
    "select count(*), min(ts), max(ts) from log",
    "select count(*), sum(source_offset), count(distinct body) from log",
    "select count(*) from log where ts >= to_timestamp_micros(1795176000100000) and ts < to_timestamp_micros(1795176000250000)",
    "select count(*) from log where body like '%17%'",
    "select count(*) from log where body = '333'",
    "select ts, host, source, source_offset, body, attrs from log order by source_offset, ts",
];

fn settings(dir: &Path) -> StoreOptions {
    StoreOptions {
        wal_segment_bytes: 3000,
        gc_grace: Duration::from_secs(1_000_000),
        query_threads: 1,
        ..options(dir)
    }
}

/// A directory as a kill leaves it, and one as a close leaves it; both have rows in the log.
async fn originals(dir: &Path) -> [PathBuf; 2] {
    let (live, killed, closed) = (dir.join("live"), dir.join("killed"), dir.join("closed"));
    let store = Store::open(settings(&live)).unwrap();
    store.append(parcel(1, 0..400)).await.unwrap();
    store.flush().await.unwrap();
    let tomorrow =
        weir_tables::Parcel { range: None, batches: vec![numbered(86_400_000..86_400_200)] };
    store.append(tomorrow).await.unwrap();
    store.flush().await.unwrap();
    for part in 0..8 {
        store.append(parcel(1, 400 + part * 20..420 + part * 20)).await.unwrap();
    }
    copy(&live, &killed);
    drop(store);
    copy(&live, &closed);
    [killed, closed]
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for path in walk(from) {
        let place = to.join(Path::new(&path).strip_prefix(from).unwrap());
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(&path, place).unwrap();
    }
}

async fn answers(dir: &Path) -> Result<Vec<String>, String> {
    answers_of(settings(dir)).await
}

/// The answers of a directory; an error when a start, a query or the status reports damage.
pub(crate) async fn answers_of(options: StoreOptions) -> Result<Vec<String>, String> {
    let store = Store::open(options).map_err(|error| error.to_string())?;
    let mut answers = Vec::new();
    for question in QUESTIONS {
        let answer = ask(&store, question).await;
        if !answer.starts_with('+') {
            return Err(answer);
        }
        answers.push(answer);
    }
    match store.stats().message {
        Some(message) => Err(message),
        None => Ok(answers),
    }
}

fn kind_of(path: &str) -> &'static str {
    match path {
        path if path.ends_with(".parquet") => "data file",
        path if path.ends_with(".wal") => "log",
        path if path.contains("manifest.sqlite") => "manifest",
        _ => "other",
    }
}

/// Changes one byte of a file, or cuts it; returns what was done, and whether it was cut.
pub(crate) fn damage(path: &Path, chance: &mut Chance) -> (String, bool) {
    let mut bytes = std::fs::read(path).unwrap();
    let is_cut = chance.below(10) == 0;
    let at = usize::try_from(chance.below(bytes.len() as u64)).unwrap();
    if is_cut {
        bytes.truncate(at);
    } else {
        bytes[at] ^= 1 << chance.below(8);
    }
    std::fs::write(path, &bytes).unwrap();
    (format!("{} `{}` at {at}", if is_cut { "cut" } else { "changed" }, path.display()), is_cut)
}

#[tokio::test]
async fn damage_of_any_file_is_noticed_or_changes_no_answer() {
    let seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 7);
    println!("WEIR_SEED={seed}");
    let mut chance = Chance::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let originals = originals(dir.path()).await;
    let whole = answers(&dir.path().join("live")).await.unwrap();
    let (mut noticed, mut harmless) = (0, 0);
    for case in 0..set("WEIR_ROUNDS").unwrap_or(6) * CASES {
        let original = &originals[usize::try_from(case % 2).unwrap()];
        let place = dir.path().join("case");
        copy(original, &place);
        let kind =
            ["data file", "log", "manifest", "other"][usize::try_from(case / 2 % 4).unwrap()];
        let files: Vec<String> = walk(&place)
            .into_iter()
            .filter(|path| kind_of(path) == kind)
            .filter(|path| std::fs::metadata(path).unwrap().len() > 0)
            .collect();
        if let Some(path) =
            files.get(usize::try_from(chance.below(files.len().max(1) as u64)).unwrap())
        {
            let (what, is_cut) = damage(Path::new(path), &mut chance);
            let mut logs: Vec<&String> = files.iter().collect();
            logs.sort();
            let is_end_of_log = kind == "log" && logs.last() == Some(&path) && is_cut;
            let found = inspect(&place, None, true);
            let is_found = found.is_err() || found.is_ok_and(|found| !found.problems.is_empty());
            match answers(&place).await {
                Err(_) => noticed += 1,
                // The end of a log looks the same as one whose last write was not acknowledged.
                Ok(_) if is_end_of_log => {}
                Ok(given) => {
                    assert_eq!(given, whole, "seed {seed}, case {case}: {what}");
                    let is_content = kind == "data file" || kind == "log";
                    assert!(!is_content || is_found, "seed {seed}, case {case}: {what}");
                    harmless += 1;
                }
            }
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
    println!("{noticed} were noticed by a start or an answer, {harmless} changed no answer");
    assert!(noticed > harmless / 4, "{noticed} and {harmless}");
}

#[tokio::test]
async fn log_that_is_gone_is_said_and_one_of_a_restored_backup_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        || StoreOptions { maintenance_interval: Duration::from_millis(1), ..settings(dir.path()) };
    let store = Store::open(settings()).unwrap();
    store.append(parcel(1, 0..40)).await.unwrap();
    store.flush().await.unwrap();
    let clock = dir.path().join("retention-clock");
    crate::tool::eventually(async || clock.exists()).await;
    store.append(parcel(1, 40..50)).await.unwrap();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    let store = Store::open(settings()).unwrap();
    let message = store.stats().message.unwrap();
    assert!(message.contains("wal` is empty, although weir wrote a log there"), "{message}");
    drop(store);
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    std::fs::remove_file(&clock).unwrap();
    assert_eq!(Store::open(settings()).unwrap().stats().message, None);
}
