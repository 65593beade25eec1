//! Completes a TLS handshake and judges the certificate as a client of this host would.

use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use weir_tables::Micros;

use super::deadline::{Deadline, TimedStream, resolve};
use super::http_client::host_and_port;
use super::tls_client::authorities;
use super::{CheckOutcome, CheckState};
use crate::certificate;
use crate::tls::Handshaker;
use crate::trust::TrustJudge;

const DAY_SECONDS: f64 = 86_400.0;

/// A TLS server whose certificate must be trusted, and valid for some more days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCheck {
    /// The address as it is configured: `www.example.org:443`.
    pub address: String,
    host: String,
    port: u16,
    server_name: String,
    /// Days that the certificate must still be valid; fewer are a warning.
    pub certificate_days: u64,
    /// An authority (PEM) beside the system's.
    pub ca_file: Option<PathBuf>,
}

impl TlsCheck {
    /// A check of `host` or `host:port`; the certificate must name `server_name`, else the host.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(address: &str, server_name: Option<&str>) -> Result<Self, String> {
        let (host, port) = host_and_port(address, Some(443))?;
        let server_name = server_name.unwrap_or(&host).to_owned();
        let address = address.to_owned();
        Ok(Self { address, host, port, server_name, certificate_days: 14, ca_file: None })
    }

    pub(super) fn run(&self, timeout: Duration, now: Micros) -> CheckOutcome {
        let deadline = Deadline::after(timeout);
        let judge = match &self.ca_file {
            None => TrustJudge::of_system(),
            Some(path) => match authorities(path) {
                Ok(own) => TrustJudge::of_system_and(own),
                Err(error) => return CheckOutcome::new(CheckState::Unknown, error.to_string()),
            },
        };
        let chain = resolve(&self.host, self.port)
            .and_then(|addresses| deadline.connect(&addresses))
            .and_then(|stream| {
                let mut stream = TimedStream::new(stream, deadline);
                Handshaker::new()?.complete(&mut stream, &self.server_name)
            });
        let summary = chain.and_then(|chain| Ok((certificate::summary(&chain)?, chain)));
        let (summary, chain) = match summary {
            Ok(summary) => summary,
            Err(error) => return CheckOutcome::new(CheckState::Critical, deadline.reason(&error)),
        };
        let seconds = u64::try_from(now.0 / 1_000_000).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let trust = judge.judge(&chain, &self.server_name, at);
        let summary = summary.with_trust_end(judge.trusted_until(&chain, &self.server_name, at));
        let ends =
            summary.chain_not_after.map_or(summary.not_after, |chain| chain.min(summary.not_after));
        let days = ends.seconds_since(now) / DAY_SECONDS;
        self.outcome(trust, days, &summary)
    }

    fn outcome(
        &self,
        trust: Option<&str>,
        days: f64,
        summary: &certificate::CertificateSummary,
    ) -> CheckOutcome {
        let names = &summary.names;
        let (state, text) = match trust {
            _ if days <= 0.0 => {
                (CheckState::Critical, format!("the certificate expired {:.1} days ago", -days))
            }
            Some("wrong_name") => {
                let text = format!("the certificate names {names}, not {}", self.server_name);
                (CheckState::Critical, text)
            }
            Some("trusted") => {
                let is_short =
                    days < f64::from(u32::try_from(self.certificate_days).unwrap_or(u32::MAX));
                let state = if is_short { CheckState::Warning } else { CheckState::Ok };
                (state, format!("the certificate is valid for {days:.1} days"))
            }
            Some(word) => {
                let text = format!(
                    "clients do not trust the certificate: {} (issuer {})",
                    word.replace('_', " "),
                    summary.issuer
                );
                (CheckState::Critical, text)
            }
            None => (CheckState::Unknown, "this host has no authorities to judge by".to_owned()),
        };
        let threshold = Some(self.certificate_days.to_string());
        CheckOutcome { threshold, ..CheckOutcome::new(state, text).with_value(days, "d") }
    }
}
