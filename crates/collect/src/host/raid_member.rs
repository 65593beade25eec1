//! Members of md arrays: `/sys/block/md*/md/dev-*` (kernel `Documentation/admin-guide/md.rst`).
//!
//! An array with a sector that cannot be read looks healthy in `/proc/mdstat`, and its `errors` may
//! be 0: only `bad_blocks` and the words in `state` tell.

use std::path::Path;

use weir_tables::{Micros, RaidMember, RaidMemberRows};

use super::mdstat::RaidArray;
use super::{View, text};

const MEMBER_LIMIT: usize = 256;

/// Sum and first sector of a list of bad blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct BadBlocks {
    sectors: i64,
    first: Option<i64>,
}

pub(super) fn collect_members(
    view: &View,
    array: &RaidArray,
    now: Micros,
    rows: &mut RaidMemberRows,
) {
    let directory = view.path("sys/block").join(&array.name).join("md");
    let Ok(entries) = std::fs::read_dir(&directory) else { return };
    let mut members: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    members.sort_unstable();
    let names = members.iter().filter_map(|name| name.to_str()?.strip_prefix("dev-"));
    for name in names.take(MEMBER_LIMIT) {
        let member = directory.join(format!("dev-{name}"));
        let Some(state) = read(&member.join("state")) else { continue };
        let slot = read(&member.join("slot")).and_then(|slot| slot.parse::<i64>().ok());
        let bad = bad_blocks(&member.join("bad_blocks"));
        let unacknowledged = bad_blocks(&member.join("unacknowledged_bad_blocks"));
        // sysfs writes `!` for the `/` in names such as cciss/c0d0p1.
        let device = name.replace('!', "/");
        rows.push(&RaidMember {
            ts: now,
            host: &view.host,
            array: &array.name,
            device: &device,
            disk: &disk_of(&view.path("sys/block"), name).unwrap_or_else(|| device.clone()),
            slot,
            state: &state,
            mirror_set: slot.and_then(|slot| array.mirror_set(slot)),
            errors_total: read(&member.join("errors")).and_then(|count| count.parse().ok()),
            bad_sectors: bad.map(|bad| bad.sectors),
            bad_sectors_unacknowledged: unacknowledged.map(|bad| bad.sectors),
            bad_sector_first: bad.and_then(|bad| bad.first),
        });
    }
}

pub(super) fn read(path: &Path) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| text::trimmed(&bytes).into_owned())
}

/// Lines of first sector and length; the file is cut at one page, so the sum is a floor.
fn bad_blocks(path: &Path) -> Option<BadBlocks> {
    let bytes = std::fs::read(path).ok()?;
    let mut bad = BadBlocks::default();
    for line in text::lines(&bytes) {
        let mut numbers = text::fields(line).map(text::int);
        if let (Some(Some(first)), Some(Some(length))) = (numbers.next(), numbers.next()) {
            bad.sectors = bad.sectors.saturating_add(length);
            bad.first = bad.first.or(Some(first));
        }
    }
    Some(bad)
}

/// Name of the disk that `device` is a partition of; `None` if it is a whole disk.
fn disk_of(block: &Path, device: &str) -> Option<String> {
    if block.join(device).exists() {
        return None;
    }
    let mut disks = std::fs::read_dir(block).ok()?.flatten().map(|entry| entry.file_name());
    let disk = disks.find(|disk| block.join(disk).join(device).join("partition").exists())?;
    Some(disk.to_string_lossy().replace('!', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_blocks_are_summed_and_a_missing_list_is_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad_blocks");
        assert_eq!(bad_blocks(&path), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(bad_blocks(&path), Some(BadBlocks::default()));
        std::fs::write(&path, "40960 8\n50000 16\nbroken\n").unwrap();
        assert_eq!(bad_blocks(&path), Some(BadBlocks { sectors: 24, first: Some(40_960) }));
    }

    #[test]
    fn disk_of_a_partition_is_found_and_a_whole_device_has_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("nvme0n1/nvme0n1p3")).unwrap();
        std::fs::write(dir.path().join("nvme0n1/nvme0n1p3/partition"), "3").unwrap();
        assert_eq!(disk_of(dir.path(), "nvme0n1p3").as_deref(), Some("nvme0n1"));
        assert_eq!(disk_of(dir.path(), "nvme0n1"), None);
        assert_eq!(disk_of(dir.path(), "gone"), None);
    }
}
