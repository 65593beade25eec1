//! Changed bytes and truncated files: each is reported, or the documents are unchanged.
//! `WEIR_SEED` reproduces a run, `WEIR_ROUNDS` makes it longer.
//!
//! Public reports: a changed byte in the log takes all later commits without an error
//! (dolthub/doltlite#1341, pmcfadin/cqlite#1424), a changed page is an answer (tursodatabase/turso#6517).

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use weir_tables::{FixedClock, Micros};

use crate::backend::{Change, Document, LedgerBackend, LedgerError};
use crate::sqlite::SqliteLedger;

const DATABASE: &str = "actions.sqlite";
const LOG: &str = "actions.sqlite-wal";

fn open(directory: &Path) -> Result<SqliteLedger, LedgerError> {
    SqliteLedger::open(directory, Arc::new(FixedClock::new(Micros(1_000))))
}

fn put(key: &str, expected: i64, due_us: Option<i64>) -> Change {
    let body = format!("{{\"from\":{expected},\"text\":\"of {key}\"}}");
    Change { kind: "notice".to_owned(), key: key.to_owned(), expected, body: Some((body, due_us)) }
}

/// Everything that the ledger answers.
fn answers(ledger: &mut SqliteLedger) -> Result<Vec<Vec<Document>>, LedgerError> {
    let due = [4, 40, i64::MAX].map(|now_us| ledger.due("notice", now_us, 1000));
    let one = ledger.get("notice", "key 7")?.into_iter().collect();
    due.into_iter().chain([ledger.all("notice"), Ok(one)]).collect()
}

/// Copies the files of a ledger, as a kill leaves them.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in [DATABASE, LOG] {
        drop(std::fs::remove_file(to.join(name)));
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// A ledger of 60 documents: `killed` has the last commits in the log, `closed` all in the database.
fn originals(dir: &Path) -> Vec<Vec<Document>> {
    let live = dir.join("live");
    std::fs::create_dir(&live).unwrap();
    let mut ledger = open(&live).unwrap();
    for number in 0..40 {
        ledger
            .apply(&[put(&format!("key {number}"), 0, (number % 3 > 0).then_some(number))])
            .unwrap();
    }
    drop(ledger);
    let mut ledger = open(&live).unwrap();
    for number in 20..60 {
        let expected = i64::from(number < 40);
        ledger.apply(&[put(&format!("key {number}"), expected, Some(number))]).unwrap();
    }
    copy(&live, &dir.join("killed"));
    let whole = answers(&mut ledger).unwrap();
    drop(ledger);
    copy(&live, &dir.join("closed"));
    whole
}

fn next(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed % (1 << 31)).unwrap()
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Changes a byte of a file; returns where.
fn change(path: &Path, seed: &mut u64) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let at = next(seed) % bytes.len();
    bytes[at] ^= 1 << (next(seed) % 8);
    std::fs::write(path, bytes).unwrap();
    at
}

/// The last commit looks the same as one that a power loss left incomplete.
fn is_without_last_commits(given: &[Vec<Document>], whole: &[Vec<Document>]) -> bool {
    let changed = whole[3].iter().filter(|document| !given[3].contains(document)).count();
    changed <= 2
}

#[test]
fn changed_byte_of_a_ledger_is_reported_or_changes_no_document() {
    let mut seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 7);
    println!("WEIR_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let whole = originals(dir.path());
    let (mut noticed, mut harmless) = (0, 0);
    for case in 0..set("WEIR_ROUNDS").unwrap_or(6) * 40 {
        let (from, name) = [("killed", DATABASE), ("killed", LOG), ("closed", DATABASE)]
            [usize::try_from(case % 3).unwrap()];
        let place = dir.path().join("case");
        copy(&dir.path().join(from), &place);
        let at = change(&place.join(name), &mut seed);
        let what = format!("case {case}: byte {at} of `{name}`, {from}");
        match open(&place).and_then(|mut ledger| Ok((ledger.trouble(), answers(&mut ledger)?))) {
            Err(_) | Ok((Some(_), _)) => noticed += 1,
            Ok((None, given)) if given == whole => harmless += 1,
            Ok((None, given)) => {
                assert!(name == LOG && is_without_last_commits(&given, &whole), "{what}");
            }
        }
    }
    println!("{noticed} were noticed, {harmless} changed no document");
    assert!(noticed > harmless / 4, "{noticed} and {harmless}");
}

#[test]
fn cut_ledger_is_reported_or_changes_no_document() {
    let dir = tempfile::tempdir().unwrap();
    let whole = originals(dir.path());
    let length = std::fs::metadata(dir.path().join("closed").join(DATABASE)).unwrap().len();
    let place = dir.path().join("case");
    for part in 1..40 {
        copy(&dir.path().join("closed"), &place);
        let file = std::fs::File::options().write(true).open(place.join(DATABASE)).unwrap();
        file.set_len(length * part / 40).unwrap();
        let given = open(&place).and_then(|mut ledger| answers(&mut ledger));
        assert!(given.is_err_and(|error| error.to_string().contains("damaged")), "{part} of 40");
    }
    assert!(open(&dir.path().join("closed")).and_then(|mut it| answers(&mut it)) == Ok(whole));
}

#[test]
fn documents_of_an_older_weir_are_read_and_get_their_checksum_at_the_next_change() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().apply(&[put("a", 0, None), put("b", 0, None)]).unwrap();
    let old = Connection::open(dir.path().join(DATABASE)).unwrap();
    // It knows nothing of the column, and changes a document.
    old.execute("UPDATE document SET version = 2, body = 'x', changed_us = 5 WHERE key = 'a'", [])
        .unwrap();
    let mut ledger = open(dir.path()).unwrap();
    assert_eq!(ledger.get("notice", "a").unwrap().unwrap().body, "x");
    old.execute_batch("ALTER TABLE document DROP COLUMN sum").unwrap();
    let mut ledger_of_old = open(dir.path()).unwrap();
    assert_eq!(ledger_of_old.all("notice").unwrap().len(), 2);
    ledger_of_old.apply(&[put("a", 2, Some(4))]).unwrap();
    for (change, is_noticed) in [
        ("UPDATE document SET body = 'y' WHERE key = 'b'", false),
        ("UPDATE document SET body = 'y' WHERE key = 'a'", true),
        (
            "UPDATE document SET due_us = 5, body = '{\"from\":2,\"text\":\"of a\"}' WHERE key = 'a'",
            true,
        ),
        ("UPDATE document SET due_us = 4, version = 7 WHERE key = 'a'", true),
        ("UPDATE document SET version = 3, changed_us = 0 WHERE key = 'a'", true),
        ("UPDATE document SET changed_us = 1000 WHERE key = 'a'", false),
    ] {
        old.execute(change, []).unwrap();
        let error = open(dir.path()).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), is_noticed, "{change}: {error:?}");
        if let Some(error) = error {
            assert!(error.contains("notice `a` changed after writing"), "{error}");
        }
    }
}
