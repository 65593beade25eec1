//! Bytes with a valid checksum as a parcel: what decodes, encodes to the same rows again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_tables::Parcel;

// Arrow's reader panics on some false lengths, and `Parcel::decode` catches that; libFuzzer's hook
// would abort before. A panic that leaves the target still aborts.
fuzz_target!(
    init: std::panic::set_hook(Box::new(|info| {
        if info.location().is_some_and(|at| at.file().contains("fuzz_targets")) {
            eprintln!("{info}");
        }
    })),
    |body: &[u8]| {
        let bytes = [body, &crc32fast::hash(body).to_le_bytes()].concat();
        let Ok(parcel) = Parcel::decode(&bytes) else { return };
        for again in [parcel.encode(false), parcel.encode(true), parcel.encode_version_1()] {
            let again = Parcel::decode(&again).expect("own bytes decode");
            assert_eq!(again.range, parcel.range);
            assert_eq!(again.batches.len(), parcel.batches.len());
            for (one, other) in again.batches.iter().zip(&parcel.batches) {
                assert_eq!(one.table.name, other.table.name);
                assert_eq!(one.rows, other.rows);
            }
        }
    }
);
