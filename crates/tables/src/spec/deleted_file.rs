//! `deleted_file`: deleted files that still use space because a process holds them open.

table! {
    /// Deleted files that processes hold open, the largest first.
    DeletedFile, DeletedFileRows = "deleted_file";
    grain: "one row per deleted file of 1 MiB and more that is held open and sample (at most every 10 s), at most 100";
    source: "/proc/PID/fd";
    sort: [host, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 process_id: Int = "Lowest process id that holds it.";
    4 process_name: Text = "Its name.";
    5 descriptor: Int = "The descriptor's number in that process.";
    6 path: Text = "Where the file was.";
    7 mount_point: OptText = "Where its file system is mounted; NULL when not found.";
    8 used_bytes: Int = "Disk space that it uses.";
}
