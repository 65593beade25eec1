//! `file_lock_wait`: processes that wait for a lock on a file.

table! {
    /// Processes that wait for a lock on a file (`flock`, `fcntl`) while another holds it, such as
    /// requests of one PHP session.
    FileLockWait, FileLockWaitRows = "file_lock_wait";
    grain: "one row per name of waiting processes, directory and sample, every 2 s while a process waits; at most 50 per sample, those with the most first";
    source: "/proc/locks; the paths from /proc/PID/fd";
    sort: [host, process_name, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 process_name: Text = "Name of the processes that wait.";
    4 directory: OptText = "Directory of the files; NULL when they were not found.";
    5 path: OptText = "The file that most of them wait for.";
    6 lock_kind: Text = "Kind of its lock: `flock`, `posix` (fcntl) or `ofd` (fcntl, of open files).";
    7 waiting: Int = "Processes that wait.";
    8 longest_seconds: Float = "The longest wait among them, at least since it was first seen.";
    9 process_id: Int = "The process that waits the longest.";
    10 holder_process_id: OptInt = "A process that holds the lock of the file, or took it before it forked; NULL when it is gone or in another namespace.";
    11 holder_process_name: OptText = "Its name.";
}
