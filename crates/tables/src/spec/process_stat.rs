//! `process_stat`: descriptors, memory and waits of processes behind listening sockets.

table! {
    /// Descriptors and their limit, state, CPU time and memory of each process with a listening
    /// socket.
    ProcessStat, ProcessStatRows = "process_stat";
    grain: "one row per process with a listening socket and 5 s, at most 64 processes; one more when its descriptors pass 80 or 98 % of the limit";
    source: "/proc/PID/stat, fd, limits, wchan, io";
    sort: [host, process_name, process_id, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 process_id: Int = "The process.";
    4 process_name: Text = "Its name, at most 15 bytes, from `/proc/PID/comm`.";
    5 cgroup: OptText = "Its control group, such as `/system.slice/nginx.service`; NULL when it could not be read.";
    6 start_seconds: Float = "Start time in seconds since boot: another value for the same name is a restart.";
    7 state: Text = "The kernel's letter at this sample: R running, S sleeping, D blocked in the kernel, T stopped, Z dead.";
    8 samples: Int = "Samples since the previous row, one per second.";
    9 blocked_samples: Int = "Samples among them in state D (mostly waiting for a disk).";
    10 stopped_samples: Int = "Samples among them in state T (stopped by a signal or a debugger).";
    11 wait_channel: OptText = "Kernel function it was blocked in when last seen in state D, such as `folio_wait_bit`; NULL when it was not, or when the kernel hides it.";
    12 cpu_seconds_total: Float = "CPU time so far, user and system.";
    13 threads: Int = "Its threads.";
    14 resident_bytes: Int = "Memory in use.";
    15 open_files: OptInt = "Open descriptors; NULL when they could not be read.";
    16 open_files_limit: OptInt = "Soft limit of open descriptors; NULL when there is none or it could not be read.";
}
