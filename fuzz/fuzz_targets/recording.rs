//! A recording: its samples as they are, or one sample with these bytes as its parcel. It replays up to
//! its damage; a whole one has no error.

#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use weir_collect::recording::replay;
use weir_tables::Parcel;

const META: &str = "version = 2\nhost = \"web1\"\nagent_version = \"0\"\nstarted_micros = 5\n";

// As for parcels: panics of Arrow's reader are caught.
fuzz_target!(
    init: std::panic::set_hook(Box::new(|info| {
        if info.location().is_some_and(|at| at.file().contains("fuzz_targets")) {
            eprintln!("{info}");
        }
    })),
    |bytes: &[u8]| {
        let Some((version, content)) = bytes.split_first() else { return };
        let version = version % 2 + 1;
        let as_is = [b"WREC", &[version][..], content].concat();
        let (count, _) = samples(&as_is);
        assert!(count <= content.len());
        let parcel = [content, &crc32fast::hash(content).to_le_bytes()].concat();
        let length = u32::try_from(parcel.len()).expect("inputs are short");
        let end = head(1, u32::MAX);
        let whole = [b"WREC\x02", &head(7, length)[..], &parcel, &end].concat();
        let is_parcel = Parcel::decode(&parcel).is_ok();
        assert_eq!(samples(&whole), (usize::from(is_parcel), is_parcel));
    }
);

fn head(time: i64, length: u32) -> Vec<u8> {
    let head = [&time.to_le_bytes()[..], &length.to_le_bytes()].concat();
    let sum = crc32fast::hash(&head).to_le_bytes();
    [head, sum.to_vec()].concat()
}

/// Samples of a recording, and whether it is whole.
fn samples(bytes: &[u8]) -> (usize, bool) {
    let dir = directory();
    std::fs::write(dir.join("meta.toml"), META).expect("room in the temporary directory");
    std::fs::write(dir.join("samples.weir"), bytes).expect("room in the temporary directory");
    let mut replay = replay(&dir).expect("a recording");
    let count = replay.by_ref().count();
    (count, replay.error().is_none())
}

fn directory() -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-fuzz-recording-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("room in the temporary directory");
    dir
}
