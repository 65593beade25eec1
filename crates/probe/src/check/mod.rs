//! Checks: plugins of Nagios, probes of targets from outside, and the health that applications
//! report about themselves, to rows of `check_result`.
//!
//! ```text
//!   [[checks]]  ─► plugin ───────────────┐
//!   [[probes]]  ─► http tcp tls dns icmp ┼─► check_loop ─► check_result
//!   listeners   ─► digest ───────────────┘   (a thread per running check)
//! ```
//! The surprising thing: a check that could not be done is `unknown` and never `critical`, so a
//! plugin that is missing is not an alarm of what it would check.

mod check_loop;
mod check_row;
mod deadline;
mod digest_poll;
mod digest_target;
mod digest_trial;
mod dns_check;
mod http_check;
mod http_client;
mod icmp_check;
mod plugin_check;
mod polled_digest;
mod tcp_check;
mod tls_check;
mod tls_client;

use std::time::Duration;

pub use check_loop::CheckLoop;
pub use check_row::CheckOrigin;
pub use digest_target::{DigestSearch, DigestTarget, HttpUpstream, digest_targets, http_upstreams};
pub use dns_check::DnsCheck;
pub use http_check::{HttpCheck, StatusRange};
pub use http_client::HttpUrl;
pub use icmp_check::IcmpCheck;
pub use plugin_check::{PluginCheck, PluginUser};
pub use tcp_check::TcpCheck;
pub use tls_check::TlsCheck;

pub use crate::plugin::{CheckState, PluginControl};

/// What weir calls itself in requests of probes.
const PROBE_AGENT: &str = concat!("weir-probe/", env!("CARGO_PKG_VERSION"));
/// Longer outputs are cut.
const OUTPUT_CHARS_MAX: usize = 1_000;

/// One configured check: what, how often, how long.
#[derive(Clone, Debug)]
pub struct CheckSpec {
    /// The name in the column `check`.
    pub name: String,
    /// The service that it belongs to.
    pub service: Option<String>,
    /// The pause between the starts of two runs.
    pub interval: Duration,
    /// A run that takes longer has failed.
    pub timeout: Duration,
    /// The work.
    pub work: CheckWork,
}

/// What a check does.
#[derive(Clone, Debug)]
pub enum CheckWork {
    /// Runs a plugin of Nagios.
    Plugin(PluginCheck),
    /// Fetches a URL.
    Http(HttpCheck),
    /// Connects.
    Tcp(TcpCheck),
    /// Completes a TLS handshake and reads the certificate.
    Tls(TlsCheck),
    /// Resolves a name.
    Dns(DnsCheck),
    /// Sends echo requests.
    Icmp(IcmpCheck),
}

impl CheckWork {
    /// The word in the column `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Plugin(_) => "plugin",
            Self::Http(_) => "http",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Dns(_) => "dns",
            Self::Icmp(_) => "icmp",
        }
    }

    /// The text in the column `target`; empty for plugins.
    pub fn target(&self) -> String {
        match self {
            Self::Plugin(_) => String::new(),
            Self::Http(check) => check.url.to_string(),
            Self::Tcp(check) => check.address.clone(),
            Self::Tls(check) => check.address.clone(),
            Self::Dns(check) => check.name.clone(),
            Self::Icmp(check) => check.address.clone(),
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOutcome {
    /// The state.
    pub state: CheckState,
    /// One line for people.
    pub output: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Option<String>,
    /// The bound of the value.
    pub threshold: Option<String>,
    /// Further figures.
    pub figures: Vec<(String, String)>,
}

impl CheckOutcome {
    /// A result without figures.
    pub fn new(state: CheckState, output: impl Into<String>) -> Self {
        let output = one_line(&output.into());
        Self { state, output, value: None, unit: None, threshold: None, figures: Vec::new() }
    }

    fn with_value(mut self, value: f64, unit: &str) -> Self {
        self.value = Some(value);
        self.unit = (!unit.is_empty()).then(|| unit.to_owned());
        self
    }
}

/// Runs a check now, and waits for it: at most a second longer than its timeout, unless the
/// system's resolver of names takes longer.
pub fn run_check(spec: &CheckSpec, host: &CheckHost<'_>) -> CheckOutcome {
    match &spec.work {
        CheckWork::Plugin(check) => check.run(spec.timeout, host.control),
        CheckWork::Http(check) => check.run(spec.timeout),
        CheckWork::Tcp(check) => check.run(spec.timeout),
        CheckWork::Tls(check) => check.run(spec.timeout, host.now),
        CheckWork::Dns(check) => check.run(spec.timeout, host.now),
        CheckWork::Icmp(check) => check.run(spec.timeout),
    }
}

/// What a check needs of the program that runs it.
#[derive(Clone, Copy, Debug)]
pub struct CheckHost<'a> {
    /// The time at its start.
    pub now: weir_tables::Micros,
    /// Ends plugins, and prevents that killed ones pile up.
    pub control: &'a PluginControl,
}

/// The text on one line, without control characters, cut where it is very long.
fn one_line(text: &str) -> String {
    let mut chars = text.trim().chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut line: String = chars.by_ref().take(OUTPUT_CHARS_MAX).collect();
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests;
