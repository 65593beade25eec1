//! `kmsg`: messages of the kernel.

table! {
    /// Kernel messages, the known ones parsed.
    Kmsg, KmsgRows = "kmsg";
    grain: "one row per kernel message";
    source: "/dev/kmsg";
    sort: [ts];
    words: [body];
    1 ts: Time = "When the kernel logged it (boot time plus its stamp).";
    2 host: Text = "The host whose kernel it is.";
    3 sequence: Int = "The kernel's sequence number of the message; unique within a boot.";
    4 severity: Text = "emergency, alert, critical, error, warn, notice, info or debug.";
    5 facility: Text = "Syslog facility, mostly `kern`.";
    6 kind: OptText = "Known kind: `syn_flood`, `oom_kill`, `io_error`, `readonly_remount`, `conntrack_full`, `hung_task`, `link_down`, `orphans`, `segfault`; NULL for all others.";
    7 subject: OptText = "Its subject: a port, process or device; NULL when not parsed.";
    8 body: Text = "The message.";
    9 is_backlog: OptFlag = "Whether it was logged before weir started: it tells nothing of now. NULL from older agents.";
}
