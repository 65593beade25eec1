//! The list of a backup, or paths of one: what is read is what was written, a changed byte is refused,
//! and no path leaves the directory that it is restored into.
//!
//! Input: the number of a byte (two bytes), how it changes (one), then a list, or paths.

#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use weir_datafile::{BackupObject, ListEntry, SnapshotList, file_number, is_inside};

fuzz_target!(|bytes: &[u8]| {
    let [low, high, change, text @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(list) = SnapshotList::read("list", text) {
        check(&list, text);
    }
    let mut list = SnapshotList::new(object(1));
    for (number, path) in (2..).zip(text.split('\n')) {
        let modified = i64::MIN + number as i64;
        list.entries.push(ListEntry {
            object: object(number),
            mode: u32::from(*change),
            modified,
            path: path.to_owned(),
        });
    }
    let written = list.text().expect("no name has a line's end");
    let are_inside = text.split('\n').all(is_inside);
    match SnapshotList::read("list", &written) {
        Ok(read) => {
            assert!(are_inside && read == list);
            check(&read, &written);
        }
        Err(_) => assert!(!are_inside),
    }
    let at = usize::from(u16::from_le_bytes([*low, *high])) % written.len();
    let mut changed = written.into_bytes();
    changed[at] ^= change;
    if let Ok(changed) = String::from_utf8(changed) {
        assert!(*change == 0 || SnapshotList::read("list", &changed).is_err(), "byte {at}");
    }
});

fn object(number: u64) -> BackupObject {
    BackupObject::new(&format!("{number:064x}"), u64::MAX - number).expect("64 digits")
}

fn check(list: &SnapshotList, text: &str) {
    assert_eq!(list.text().expect("it was read"), text);
    let _ = list.byte_count();
    for entry in &list.entries {
        assert!(is_inside(&entry.path) && BackupObject::is_path(&entry.object.path()));
        let parts = Path::new(&entry.path).components();
        assert!(parts.clone().all(|part| matches!(part, Component::Normal(_))), "{}", entry.path);
        if file_number(&entry.path).is_some() {
            assert_eq!(parts.count(), 4, "{}", entry.path);
        }
    }
}
