//! `pressure`: pressure stall information.

table! {
    /// Share of time in which work waited for CPU, memory or I/O (PSI).
    Pressure, PressureRows = "pressure";
    grain: "one row per resource and second for the host, and per cgroup that owns a listener";
    source: "/proc/pressure/*, cgroup v2 *.pressure";
    sort: [host, cgroup, resource, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 cgroup: Text = "The cgroup, `/` for the host.";
    4 resource: Text = "cpu, memory or io.";
    5 some_avg10_ratio: Float = "Share of the last 10 s in which at least one task waited, 0 to 1.";
    6 some_avg60_ratio: Float = "Share of the last 60 s in which at least one task waited, 0 to 1.";
    7 some_seconds_total: Float = "Time in which at least one task waited, since boot.";
    8 full_avg10_ratio: OptFloat = "Share of the last 10 s in which all tasks waited; NULL when the kernel does not report it.";
    9 full_avg60_ratio: OptFloat = "Share of the last 60 s in which all tasks waited; NULL when the kernel does not report it.";
    10 full_seconds_total: OptFloat = "Time in which all tasks waited, since boot.";
}
