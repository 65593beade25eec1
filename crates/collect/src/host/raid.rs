//! Linux software RAID (md): arrays from `/proc/mdstat`, their members from sysfs.

use weir_tables::{Batch, Micros, Raid, RaidMemberRows, RaidRows};

use super::file::KeptFile;
use super::mdstat::parse;
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
            let state = view.path("sys/block").join(&array.name).join("md/array_state");
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
                sync_action: array.action.as_deref(),
                sync_ratio: array.ratio,
                sync_finish_seconds: array.finish_seconds,
                sync_bytes_per_second: array.bytes_per_second,
                metadata: array.metadata.as_deref(),
                array_state: read(&state).as_deref(),
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
