//! `cpu_stat`: CPU time by kind, steal included.

table! {
    /// CPU time by kind, steal included, and how many processes run or are blocked.
    CpuStat, CpuStatRows = "cpu_stat";
    grain: "one row for all CPUs (`cpu` = all) each second, one per CPU every 10 s";
    source: "/proc/stat";
    sort: [host, cpu, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 cpu: Text = "`all`, or the CPU's number.";
    4 user_seconds_total: Float = "Time in user mode, nice and guest included.";
    5 system_seconds_total: Float = "Time in kernel mode.";
    6 idle_seconds_total: Float = "Time idle.";
    7 iowait_seconds_total: Float = "Time idle with I/O outstanding; can be 0 while processes are blocked.";
    8 irq_seconds_total: Float = "Time in hard interrupts.";
    9 softirq_seconds_total: Float = "Time in soft interrupts.";
    10 steal_seconds_total: Float = "Time that the hypervisor gave to other guests.";
    11 cpu_count: OptInt = "CPUs online; NULL in rows of a single CPU.";
    12 processes_running: OptInt = "Runnable threads; NULL in rows of a single CPU.";
    13 processes_blocked: OptInt = "Threads in uninterruptible sleep; NULL in rows of a single CPU.";
    14 context_switches_total: OptInt = "Context switches since boot; NULL in rows of a single CPU.";
    15 processes_created_total: OptInt = "Forks since boot; NULL in rows of a single CPU.";
}
