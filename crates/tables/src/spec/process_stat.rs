//! `process_stat`: what the processes behind listening sockets hold, and what they wait for.

table! {
    /// Descriptors and their limit, state, processor time and memory of each process that holds a listening socket.
    ProcessStat, ProcessStatRows = "process_stat";
    grain: "one row per process that holds a listening socket and 5 s, at most 64 processes; one more when its descriptors pass 80 or 98 % of those that it may have";
    source: "/proc/PID/stat, fd, limits, wchan, io";
    sort: [host, process_name, process_id, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 process_id: Int = "The process.";
    4 process_name: Text = "Its name, at most 15 bytes, from `/proc/PID/comm`.";
    5 cgroup: OptText = "Its control group, such as `/system.slice/nginx.service`; NULL when it could not be read.";
    6 start_seconds: Float = "When it was started, in seconds since boot: another value for the same name is a restart.";
    7 state: Text = "The kernel's letter at this sample: R running, S sleeping, D blocked in the kernel, T stopped, Z dead.";
    8 samples: Int = "Looks since the row before, one a second.";
    9 blocked_samples: Int = "Of these, how many saw it in state D (waiting for a disk, mostly).";
    10 stopped_samples: Int = "Of these, how many saw it in state T (stopped by a signal or a debugger).";
    11 wait_channel: OptText = "The kernel's function that it was blocked in when it was last seen in state D, such as `folio_wait_bit`; NULL when it was not, or when the kernel does not tell.";
    12 cpu_seconds_total: Float = "Processor time so far, user and system.";
    13 threads: Int = "Its threads.";
    14 resident_bytes: Int = "Memory in use.";
    15 open_files: OptInt = "Open descriptors; NULL when they could not be read.";
    16 open_files_limit: OptInt = "Soft limit of open descriptors; NULL when there is none or it could not be read.";
}
