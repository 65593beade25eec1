//! Changed bytes and cut files of the cold tier and of backups: each is noticed, or no answer differs.
//! `WEIR_SEED` reproduces a run, `WEIR_ROUNDS` makes it longer.
//!
//! As in public reports: objects that were overwritten (ClickHouse/ClickHouse#107934), cut
//! (restic/restic#3023) or are gone (orioledb/orioledb#351, ClickHouse/ClickHouse#114023).

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_store::{SlowRule, Store, StoreOptions, backup, inspect, restore, verify_backup};

use crate::rot::{answers_of, copy, damage};
use crate::slow::{files, place};
use crate::tool::{Chance, NOON, eventually, options, parcel, set};

/// Cases of one round.
const CASES: u64 = 40;

/// How the files of a directory changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A byte, or the end.
    Bytes,
    /// The bytes of another file.
    Exchanged,
    Emptied,
    Removed,
}

const CHANGES: [Change; 8] = [
    Change::Bytes,
    Change::Bytes,
    Change::Bytes,
    Change::Bytes,
    Change::Bytes,
    Change::Exchanged,
    Change::Emptied,
    Change::Removed,
];

fn change(path: &Path, other: &Path, kind: Change, chance: &mut Chance) {
    match kind {
        Change::Bytes => drop(damage(path, chance)),
        Change::Exchanged => {
            std::fs::copy(other, path).unwrap();
        }
        Change::Emptied => std::fs::write(path, "").unwrap(),
        Change::Removed => std::fs::remove_file(path).unwrap(),
    }
}

/// A data directory whose files are all in `slow`.
async fn fill(data: &Path, slow: &Path) {
    let rule = SlowRule { after: Duration::ZERO, ..SlowRule::default() };
    let moving = StoreOptions {
        maintenance_interval: Duration::from_millis(1),
        gc_grace: Duration::ZERO,
        slow: Some(weir_store::SlowOptions { rule, ..place(slow) }),
        ..options(data)
    };
    let store = Store::open(options(data)).unwrap();
    for rows in [0..700, 700..1100] {
        store.append(parcel(1, rows)).await.unwrap();
        store.flush().await.unwrap();
    }
    store.close().await.unwrap();
    let store = Store::open(moving).unwrap();
    eventually(async || files(slow).len() == 2 && files(data).is_empty()).await;
    store.close().await.unwrap();
}

fn resting(data: &Path, slow: &Path) -> StoreOptions {
    StoreOptions { slow: Some(place(slow)), query_threads: 1, ..options(data) }
}

#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
fn seeded() -> (u64, Chance) {
    let seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 9);
    println!("WEIR_SEED={seed}");
    (seed, Chance::new(seed))
}

#[tokio::test]
async fn damage_of_files_in_the_cold_tier_is_noticed_by_queries_and_checks() {
    let (seed, mut chance) = seeded();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fill(&at("data"), &at("slow")).await;
    let whole = answers_of(resting(&at("data"), &at("slow"))).await.unwrap();
    for case in 0..set("WEIR_ROUNDS").unwrap_or(2) * CASES {
        copy(&at("data"), &at("case"));
        copy(&at("slow"), &at("case-slow"));
        let cold = files(&at("case-slow"));
        let one = usize::try_from(chance.below(2)).unwrap();
        let kind = CHANGES[usize::try_from(chance.below(8)).unwrap()];
        change(&cold[one], &cold[1 - one], kind, &mut chance);
        let what = format!("seed {seed}, case {case}: {kind:?} of `{}`", cold[one].display());
        let found = inspect(&at("case"), Some(&place(&at("case-slow"))), true).unwrap();
        assert!(!found.problems.is_empty(), "{what}");
        let given = answers_of(resting(&at("case"), &at("case-slow"))).await;
        // A changed byte may be in a part that no query reads.
        let is_harmless = kind == Change::Bytes && given.as_ref() == Ok(&whole);
        assert!(given.is_err() || is_harmless, "{what}: {given:?}");
        std::fs::remove_dir_all(at("case")).unwrap();
        std::fs::remove_dir_all(at("case-slow")).unwrap();
    }
}

/// All files of a backup, in order.
fn backup_files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = crate::disk::walk(root).into_iter().map(PathBuf::from).collect();
    files.retain(|path| std::fs::metadata(path).unwrap().len() > 0);
    files.sort();
    files
}

#[tokio::test]
async fn damage_of_a_backup_is_noticed_by_its_check_and_never_restored() {
    let (seed, mut chance) = seeded();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let store = Store::open(options(&at("data"))).unwrap();
    for rows in [0..700, 700..1100] {
        store.append(parcel(1, rows)).await.unwrap();
        store.flush().await.unwrap();
    }
    backup(&at("data"), None, &at("copy"), NOON, None).unwrap();
    store.close().await.unwrap();
    restore(&at("copy"), None, &at("whole")).unwrap();
    let whole = answers_of(options(&at("whole"))).await.unwrap();
    for case in 0..set("WEIR_ROUNDS").unwrap_or(2) * CASES {
        copy(&at("copy"), &at("case"));
        let files = backup_files(&at("case"));
        let one = usize::try_from(chance.below(files.len() as u64)).unwrap();
        let kind = CHANGES[usize::try_from(chance.below(8)).unwrap()];
        change(&files[one], &files[(one + 1) % files.len()], kind, &mut chance);
        let what = format!("seed {seed}, case {case}: {kind:?} of `{}`", files[one].display());
        let verified = verify_backup(&at("case"));
        let is_found = verified.is_err() || verified.is_ok_and(|found| !found.problems.is_empty());
        if restore(&at("case"), None, &at("back")).is_ok() {
            let given = answers_of(options(&at("back"))).await;
            assert_eq!(given.as_ref(), Ok(&whole), "{what}");
            // The version alone holds no rows.
            assert!(is_found || files[one].ends_with("VERSION"), "{what}");
        }
        drop(std::fs::remove_dir_all(at("back")));
        std::fs::remove_dir_all(at("case")).unwrap();
    }
}
