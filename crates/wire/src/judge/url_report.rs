//! Times of one URL template of one tier.

/// One URL template of one tier.
#[derive(Debug, Clone, PartialEq)]
pub struct UrlReport {
    /// The path with ids replaced.
    pub template: String,
    /// Requests with a response, and those without one after a second or more.
    pub requests: u64,
    /// Those without a response; their wait counts as think time.
    pub given_up: u64,
    /// Responses with status 5xx.
    pub errors_5xx: u64,
    /// Responses that are streams of events or of messages.
    pub streams: u64,
    /// 25th percentile of the think time: the fast case.
    pub think_ms_p25: f64,
    /// Median of the think time.
    pub think_ms_p50: f64,
    /// 95th percentile of the think time: the slow case.
    pub think_ms_p95: f64,
    /// p95 from first request byte to last response byte.
    pub total_ms_p95: f64,
    /// Total time of all requests, seconds.
    pub total_seconds: f64,
}
