//! A file of the spool: records with valid checksums and other bytes between them. Each record that is
//! read is one that was written, and numbers ascend.
//!
//! Input: for each piece one byte for its kind (0 other bytes, else by how much its number rises), one
//! for its length, then its bytes.

#![no_main]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use weir_link::Spool;

fuzz_target!(|bytes: &[u8]| {
    let mut file = [b"WSPL\x01\0\0\0", &[7; 16][..]].concat();
    let mut records = HashMap::new();
    let (mut rest, mut number) = (bytes, 0_u64);
    while let [kind, length, behind @ ..] = rest {
        let (body, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        if *kind == 0 {
            file.extend_from_slice(body);
        } else {
            file.extend(record(number, body));
            records.insert(number, body);
            number += u64::from(*kind);
        }
        rest = behind;
    }
    let dir = directory();
    std::fs::write(dir.join(format!("{:020}.spool", 0)), &file)
        .expect("room in the temporary directory");
    let mut spool = Spool::open(&dir, 1 << 20).expect("a spool");
    spool.seek(None);
    let mut last = None;
    while let Some(record) = spool.next_record().expect("a record") {
        assert!(last < Some(record.number), "{} after {last:?}", record.number);
        last = Some(record.number);
        let is_written = records.get(&record.number).is_some_and(|body| *body == record.bytes);
        // Other bytes may be a record too.
        assert!(is_written || holds(bytes, &record.bytes), "record {}", record.number);
    }
    clear(&dir);
});

fn record(number: u64, body: &[u8]) -> Vec<u8> {
    let number = number.to_le_bytes();
    let mut sum = crc32fast::Hasher::new();
    [&number[..], body].into_iter().for_each(|part| sum.update(part));
    let length = u32::try_from(body.len()).expect("at most 255 bytes").to_le_bytes();
    [&length[..], &sum.finalize().to_le_bytes(), &number, body].concat()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

fn directory() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-fuzz-spool-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("room in the temporary directory");
    clear(&dir);
    dir
}

fn clear(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("the directory").flatten() {
        std::fs::remove_file(entry.path()).expect("a file of this target");
    }
}
