//! `raid_member`: what the kernel keeps on each member of an array.

table! {
    /// State of each member of the kernel's own (md) arrays: errors and sectors that cannot be read.
    RaidMember, RaidMemberRows = "raid_member";
    grain: "one row per member of an md array and 10 s";
    source: "/sys/block/md*/md/dev-*, kernel Documentation/admin-guide/md.rst";
    sort: [host, array, device, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 array: Text = "The array's name, such as md0.";
    4 device: Text = "The member, such as sda1.";
    5 disk: Text = "The whole disk that the member is a partition of; the member itself if it is none.";
    6 slot: OptInt = "Its slot in the array; NULL for spares, journals and failed members.";
    7 state: Text = "The kernel's words, separated by commas: in_sync, faulty, spare, write_error, want_replacement, blocked, writemostly …";
    8 mirror_set: OptInt = "Members of one array with the same number hold the same data (RAID 1 and RAID 10); NULL for other levels and layouts.";
    9 errors_total: OptInt = "Read errors that were corrected from the other members, over the array's life (metadata 1.x).";
    10 bad_sectors: OptInt = "Sectors of 512 bytes in its bad block list: no longer read from this member. A floor where the list exceeds 4 KiB.";
    11 bad_sectors_unacknowledged: OptInt = "The same, not yet written to the metadata.";
    12 bad_sector_first: OptInt = "First sector of that list; NULL when it is empty.";
}
