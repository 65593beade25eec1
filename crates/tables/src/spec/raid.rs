//! `raid`: the arrays of `/proc/mdstat`.

table! {
    /// State of the kernel's own (md) arrays: members present, members failed, resync.
    Raid, RaidRows = "raid";
    grain: "one row per md array and 10 s";
    source: "/proc/mdstat, /sys/block/md*/md/{array_state,sync_action}, md(4)";
    sort: [host, array, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 array: Text = "Its name, such as md0.";
    4 is_active: Flag = "Whether it runs. An inactive array cannot be read; an inactive container (`metadata` external:imsm or external:ddf) is normal.";
    5 level: OptText = "raid1, raid10, raid5 …; NULL when inactive.";
    6 members_wanted: OptInt = "Members that it should have; NULL where there is no such number (raid0, linear).";
    7 members_present: OptInt = "Working members; NULL as above.";
    8 members: Text = "All members, such as `sda1 sdb1(F)`: (F) failed, (S) spare, (R) replacement, (W) write-mostly.";
    9 failed_members: OptText = "Members marked (F), separated by spaces; NULL without any.";
    10 sync_action: OptText = "resync, recovery, check or reshape while one runs or waits; NULL otherwise. One that waits has no `sync_ratio`.";
    11 sync_ratio: OptFloat = "Progress of the sync, 0 to 1; NULL while none runs.";
    12 sync_finish_seconds: OptFloat = "The kernel's estimate of the time left; NULL while none runs.";
    13 sync_bytes_per_second: OptFloat = "Speed of the sync; NULL while none runs.";
    14 metadata: OptText = "Format of the metadata: `1.2`; `external:imsm` or `external:ddf` for a container of arrays; `external:/md127/0` for array 0 of the container md127; NULL for format 0.90.";
    15 array_state: OptText = "The kernel's word: clean, active, readonly, inactive, broken (raid0 or linear lost a member) …; NULL when sysfs does not show it.";
    16 slots: OptText = "State of the slots in order: `U` in use and in sync, `_` empty or not in sync, such as `U_UU`; NULL where there are none.";
    17 failures_left: OptInt = "Disks that can still fail without data loss, whichever they are; below 0 when data is missing already; NULL when inactive, or for levels without such a number.";
}
