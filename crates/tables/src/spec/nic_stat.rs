//! `nic_stat`: what network drivers count by themselves.

table! {
    /// Counters of a network device's driver that tell of loss, errors or a limit: what `ethtool -S` prints.
    NicStat, NicStatRows = "nic_stat";
    grain: "one row per counter and 10 s in which it moved, all once in 10 minutes";
    source: "ethtool -S (ioctl SIOCETHTOOL, ETHTOOL_GSTATS), own namespace only";
    sort: [host, device, counter, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 device: Text = "The device, such as eth0.";
    4 driver: Text = "Its driver, such as ena; empty when it does not say.";
    5 counter: Text = "The driver's own name for it, such as rx_missed_errors or bw_in_allowance_exceeded.";
    6 value_total: Int = "The counter, as the driver has it.";
    7 increase: OptInt = "Rise since the look before; NULL at the first, and when it fell (the driver began anew).";
}
