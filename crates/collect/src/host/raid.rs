//! Linux software RAID (md): arrays from `/proc/mdstat`, their members from sysfs.

use std::path::Path;

use weir_tables::{Batch, Micros, Raid, RaidMemberRows, RaidRows};

use super::file::KeptFile;
use super::mdstat::{RaidArray, parse};
use super::raid_member::{collect_members, read};
use super::{CollectResult, Collector, View, take};

const ARRAY_LIMIT: usize = 256;

#[derive(Debug)]
pub(super) struct RaidCollector {
    file: KeptFile,
    rows: RaidRows,
    members: RaidMemberRows,
}

impl RaidCollector {
    pub(super) fn new(view: &View) -> Self {
        let file = KeptFile::new(view.path("proc/mdstat"));
        Self { file, rows: RaidRows::default(), members: RaidMemberRows::default() }
    }
}

impl Collector for RaidCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        // A kernel without md has no such file.
        let Some(bytes) = self.file.read_if_any() else { return Ok(()) };
        for array in parse(bytes).iter().take(ARRAY_LIMIT) {
            let directory = view.path("sys/block").join(&array.name).join("md");
            self.rows.push(&Raid {
                ts: now,
                host: &view.host,
                array: &array.name,
                is_active: array.is_active,
                level: array.level.as_deref(),
                members_wanted: array.wanted,
                members_present: array.present,
                members: &array.members,
                failed_members: array.failed.as_deref(),
                sync_action: sync_action(array, &directory),
                sync_ratio: array.ratio,
                sync_finish_seconds: array.finish_seconds,
                sync_bytes_per_second: array.bytes_per_second,
                metadata: array.metadata.as_deref(),
                array_state: read(&directory.join("array_state")).as_deref(),
                slots: array.slots.as_deref(),
                failures_left: array.failures_left(),
            });
            collect_members(view, array, now, &mut self.members);
        }
        take(&mut self.rows, out);
        take(&mut self.members, out);
        Ok(())
    }
}

/// The action that runs or waits. `/proc/mdstat` has `resync=DELAYED` for whatever waits until a sync
/// of the same disks ends, a rebuild included; sysfs tells which it is.
fn sync_action<'a>(array: &'a RaidArray, directory: &Path) -> Option<&'a str> {
    let shown = array.action.as_deref()?;
    if array.ratio.is_some() {
        return Some(shown);
    }
    Some(match read(&directory.join("sync_action")).as_deref() {
        Some("recover") => "recovery",
        Some("check") => "check",
        Some("reshape") => "reshape",
        _ => shown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(progress: &str) -> RaidArray {
        let head = "md1 : active raid5 sdd2[3] sdc2[1] sdb2[0]\n      45056 blocks [3/2] [UU_]\n";
        parse(format!("{head}{progress}").as_bytes()).remove(0)
    }

    #[test]
    fn what_waits_is_named_by_sysfs_and_what_runs_by_mdstat() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let waiting = array("        \tresync=DELAYED\n");
        assert_eq!(sync_action(&waiting, path), Some("resync"));
        for (word, expected) in
            [("recover", "recovery"), ("check", "check"), ("resync", "resync"), ("idle", "resync")]
        {
            std::fs::write(path.join("sync_action"), format!("{word}\n")).unwrap();
            assert_eq!(sync_action(&waiting, path), Some(expected), "{word}");
        }
        let running =
            array("      [>...]  recovery =  4.4% (1152/22528) finish=0.3min speed=1152K/sec\n");
        assert_eq!(sync_action(&running, path), Some("recovery"));
        assert_eq!(sync_action(&array(""), path), None);
    }
}
