//! `kmsg`: messages of the kernel.

table! {
    /// Kernel messages, the known ones parsed.
    Kmsg, KmsgRows = "kmsg";
    grain: "one row per kernel message";
    source: "/dev/kmsg; for hosts without an agent, messages of known kinds received by syslog or from another shipper";
    sort: [ts];
    words: [body];
    1 ts: Time = "When the kernel logged it (boot time plus its stamp).";
    2 host: Text = "The host whose kernel it is.";
    3 sequence: Int = "The kernel's sequence number of the message; unique within a boot. 0 for messages received by syslog.";
    4 severity: Text = "emergency, alert, critical, error, warn, notice, info or debug.";
    5 facility: Text = "Syslog facility, mostly `kern`.";
    6 kind: OptText = "Known kind: `syn_flood`, `oom_kill`, `io_error`, `disk_timeout`, `fs_error`, `fs_down`, `readonly_remount`, `directory_full`, `pool_full`, `server_silent`, `server_back` (NFS, SMB), `conntrack_full`, `neighbor_full`, `files_full`, `tcp_memory_full`, `fork_rejected`, `orphans`, `allocation_failed`, `hung_task`, `cpu_stalled`, `segfault`, `link_down`, `nic_timeout`, `memory_corrected`, `memory_lost`, `machine_corrected`, `machine_check`, `overheated`; NULL for all others.";
    7 subject: OptText = "Its subject: a port, process, device, server or table; NULL when not parsed.";
    8 body: Text = "The message.";
    9 is_backlog: OptFlag = "Whether it was logged before weir started: it tells nothing of now. NULL from older agents.";
}
