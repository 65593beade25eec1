//! `sysctl`: kernel settings that affect traffic.

table! {
    /// Kernel settings that affect traffic, with the kernel's default where it is a constant.
    Sysctl, SysctlRows = "sysctl";
    grain: "one row per setting at start, at each change and every hour";
    source: "/proc/sys/net, /proc/sys/vm, /proc/sys/fs";
    sort: [host, netns, name, ts];
    1 ts: Time = "When it was read.";
    2 host: Text = "The host that it was read on.";
    3 netns: Text = "Network namespace, as in `listener`; `host` for settings of the whole host.";
    4 name: Text = "Dotted name, such as net.core.somaxconn.";
    5 value: Text = "The value, fields separated by one space.";
    6 default_value: OptText = "The kernel's own default; NULL when it depends on memory or version.";
    7 set_in: OptText = "File and line that sets it, such as /etc/sysctl.d/90-web.conf:12; NULL when none does.";
}
