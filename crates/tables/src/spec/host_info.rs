//! `host_info`: what kind of machine a host is.

table! {
    /// What kind of machine a host is, and what was found on it.
    HostInfo, HostInfoRows = "host_info";
    grain: "one row at start and every hour";
    source: "rtnetlink RTM_GETADDR, uname, /proc/sys/kernel/random/boot_id, /etc/os-release, /proc/meminfo";
    sort: [host, ts];
    1 ts: Time = "When it was read.";
    2 host: Text = "The host.";
    3 boot_id: Text = "The kernel's id of this boot.";
    4 boot_ts: OptTime = "When it was booted.";
    5 kernel_version: Text = "uname -r.";
    6 os_name: OptText = "PRETTY_NAME of os-release; NULL when unreadable.";
    7 architecture: Text = "uname -m.";
    8 cpu_count: Int = "CPUs online.";
    9 memory_bytes: Int = "MemTotal.";
    10 agent_version: Text = "weir's version.";
    11 addresses: OptText = "The host's own addresses, a space between them, those of loopback and link left out; NULL when they could not be read.";
    12 role: OptText = "What the host is for (`collect.role`); NULL when it is not configured.";
    13 zone: OptText = "Where the host is (`collect.zone`); NULL when it is not configured.";
}
