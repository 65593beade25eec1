//! `block_device`: what lies on which disk.

table! {
    /// Block devices, what they are made of, and the arrays, volumes and file systems on them.
    BlockDevice, BlockDeviceRows = "block_device";
    grain: "one row per disk, partition, array and volume every minute";
    source: "/sys/block, /proc/self/mountinfo";
    sort: [host, device, ts];
    1 ts: Time = "When it was read.";
    2 host: Text = "The host that it was read on.";
    3 device: Text = "Kernel name, such as sda, nvme0n1p1, md0 or dm-2.";
    4 kind: Text = "disk, partition, raid, volume (device mapper) or loop.";
    5 name: OptText = "Name of a device mapper volume, such as vg-data; NULL for others.";
    6 parents: OptText = "What it is made of: the disk of a partition, the members of an array, separated by spaces; NULL for disks.";
    7 disks: Text = "The whole disks below it, separated by spaces; itself for a disk.";
    8 arrays: OptText = "md arrays on it, directly or through partitions and volumes, separated by spaces; NULL without any.";
    9 volumes: OptText = "Names of device mapper volumes on it, separated by spaces; NULL without any.";
    10 mount_points: OptText = "Where it and what is on it is mounted, separated by spaces (at most 8); NULL when nowhere.";
    11 filesystem_type: OptText = "Type of the first of these file systems; NULL when nothing is mounted.";
    12 size_bytes: OptInt = "Its size.";
    13 serial: OptText = "Serial number or volume id of a disk; NULL when sysfs shows none.";
}
