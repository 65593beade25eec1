//! `cgroup_stat`: limits and throttling of the control groups that own a listener.

table! {
    /// CPU and memory use, limits and throttling of control groups, versions 1 and 2.
    CgroupStat, CgroupStatRows = "cgroup_stat";
    grain: "one row per second and cgroup that owns a listener or has a limit";
    source: "cgroup v2 cpu.stat, memory.*; v1 cpuacct, cpu.stat, memory.*";
    sort: [host, cgroup, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 cgroup: Text = "Path of the control group below the mount point.";
    4 cgroup_version: Int = "1 or 2.";
    5 cpu_seconds_total: OptFloat = "CPU time used; NULL when the controller is off.";
    6 cpu_periods_total: OptInt = "Quota periods that passed (nr_periods); NULL without a quota.";
    7 cpu_throttled_periods_total: OptInt = "Quota periods in which it was throttled (nr_throttled).";
    8 cpu_throttled_seconds_total: OptFloat = "Time throttled.";
    9 memory_used_bytes: OptInt = "Memory charged, page cache included; NULL when the controller is off.";
    10 memory_inactive_file_bytes: OptInt = "Page cache that can be reclaimed at once, included in `memory_used_bytes`.";
    11 memory_limit_bytes: OptInt = "The limit; NULL when there is none.";
    12 memory_limit_hits_total: OptInt = "How often the limit was hit (v1 failcnt, v2 events max).";
    13 oom_kills_total: OptInt = "Processes of the group killed by the OOM killer.";
}
