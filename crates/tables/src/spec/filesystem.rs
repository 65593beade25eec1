//! `filesystem`: free space, in bytes and inodes.

table! {
    /// Free space on every file system that holds data, in bytes and inodes.
    Filesystem, FilesystemRows = "filesystem";
    grain: "one row per mounted file system every 10 s, and when free space changed by 1 % of the size (checked every 2 s)";
    source: "/proc/self/mounts, statvfs";
    sort: [host, mount_point, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 mount_point: Text = "Where it is mounted; the shortest path when it is mounted more than once.";
    4 device: Text = "What is mounted.";
    5 filesystem_type: Text = "ext4, xfs, …";
    6 is_read_only: Flag = "Whether it is mounted read-only.";
    7 size_bytes: Int = "Size.";
    8 free_bytes: Int = "Free, including the root reserve.";
    9 available_bytes: Int = "Free for ordinary users (bavail).";
    10 inodes_total: Int = "Inodes in total; 0 when the file system allocates them on demand.";
    11 inodes_free: Int = "Inodes free.";
}
