//! `clock_stat`: whether the host's clock is synchronized.

table! {
    /// The kernel's estimate of its clock: offset, error and whether a time daemon disciplines it.
    ClockStat, ClockStatRows = "clock_stat";
    grain: "one row per 10 s, and at once after a clock step";
    source: "adjtimex(2), clock_gettime(2)";
    sort: [host, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 is_synchronized: Flag = "Whether a time daemon reports the clock as synchronized (STA_UNSYNC is not set).";
    4 offset_seconds: Float = "Offset that is still to be slewed.";
    5 max_error_seconds: Float = "Maximum error that the kernel assumes; 16 s without a time daemon.";
    6 estimated_error_seconds: Float = "The time daemon's own estimate of the error.";
    7 step_seconds: OptFloat = "Clock step since the previous sample, if larger than 0.1 s; NULL otherwise.";
}
