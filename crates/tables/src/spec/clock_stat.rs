//! `clock_stat`: whether somebody keeps the host's clock right.

table! {
    /// The kernel's opinion of its clock: offset, error and whether a time daemon steers it.
    ClockStat, ClockStatRows = "clock_stat";
    grain: "one row per 10 s, and at once when the clock was set";
    source: "adjtimex(2), clock_gettime(2)";
    sort: [host, ts];
    1 ts: Time = "When the sample was taken.";
    2 host: Text = "The host that it was taken on.";
    3 is_synchronized: Flag = "Whether a time daemon says that the clock is right (STA_UNSYNC is not set).";
    4 offset_seconds: Float = "What is still to be slewed.";
    5 max_error_seconds: Float = "The largest error that the kernel counts with; 16 s when nobody steers.";
    6 estimated_error_seconds: Float = "The time daemon's own estimate of the error.";
    7 step_seconds: OptFloat = "How far the clock was set since the sample before, where that was more than 0.1 s; NULL otherwise.";
}
