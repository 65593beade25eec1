//! `kmsg`: what the kernel said.

table! {
    /// Messages of the kernel, the known ones with their parts.
    Kmsg, KmsgRows = "kmsg";
    grain: "one row per kernel message";
    source: "/dev/kmsg";
    sort: [ts];
    words: [body];
    1 ts: Time = "When the kernel said it (boot time plus its stamp).";
    2 host: Text = "The host whose kernel it is.";
    3 sequence: Int = "The kernel's number of the message; with the boot id its identity.";
    4 severity: Text = "emergency, alert, critical, error, warn, notice, info or debug.";
    5 facility: Text = "Syslog facility, mostly `kern`.";
    6 kind: OptText = "What is known of it: `syn_flood`, `oom_kill`, `io_error`, `readonly_remount`, `conntrack_full`, `hung_task`, `link_down`, `orphans`, `segfault`; NULL for all others.";
    7 subject: OptText = "Whom it is about: a port, process, device; NULL when not read out.";
    8 body: Text = "The message.";
}
