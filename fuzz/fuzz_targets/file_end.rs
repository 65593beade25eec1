//! The end of a data file, with or without its length and marks: no bytes panic, what is read stays
//! in the file, and a changed byte of what has checksums is noticed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_datafile::{FileChecksums, SlowLocation, TailReading};

/// Reads the checksums of a file as a tier does.
fn checksums(file: &[u8]) -> Option<FileChecksums> {
    let length = file.len() as u64;
    let mut from = file.len();
    loop {
        match FileChecksums::of_tail(&file[from..], length).ok()? {
            TailReading::Known(sums) => return sums,
            TailReading::From(start) => {
                let start = usize::try_from(start).expect("a place in the file");
                assert!(start < from, "from {start} after {from}");
                from = start;
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = SlowLocation::parse(text);
    }
    let Some(sums) = checksums(bytes) else { return };
    let length = bytes.len() as u64;
    for (start, end) in [(0, 1), (0, length), (length / 2, length), (length - 1, length)] {
        let range = sums.covering(&(start..end));
        assert!(range.end <= length && (range.is_empty() || range.start <= start), "{range:?}");
        let at = [range.start, range.end].map(|at| usize::try_from(at).expect("in the file"));
        let _ = sums.verify(&bytes[at[0]..at[1]], range.start);
    }
});
