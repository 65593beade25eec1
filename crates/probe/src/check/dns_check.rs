//! Resolves a name at one name server, and compares its addresses: RFC 1035 over UDP.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use weir_tables::Micros;

use super::{CheckOutcome, CheckState};
use crate::name::{self, TimedAnswer};
use crate::resolver;

/// A name that must have addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsCheck {
    /// The name.
    pub name: String,
    /// The name server; `None` is the first of `/etc/resolv.conf`.
    pub resolver: Option<SocketAddr>,
    /// Addresses that the answer must contain; empty: any address will do.
    pub addresses: Vec<IpAddr>,
}

impl DnsCheck {
    /// A check of a name.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn new(name: &str) -> Result<Self, String> {
        let plain = name.trim_end_matches('.');
        let is_name = plain.len() < 254 && plain.split('.').all(name::is_label);
        if !is_name {
            return Err("it is not a DNS name".to_owned());
        }
        Ok(Self { name: plain.to_ascii_lowercase(), resolver: None, addresses: Vec::new() })
    }

    pub(super) fn run(&self, timeout: Duration, now: Micros) -> CheckOutcome {
        let Some(server) = self.resolver.or_else(first_resolver) else {
            let text = "cannot query a name server: `/etc/resolv.conf` names none";
            return CheckOutcome::new(CheckState::Unknown, text);
        };
        let names = [self.name.clone()];
        let answers = match name::ask_timed(server, now.0, &names, timeout) {
            Ok(answers) => answers,
            Err(error) => {
                let text = format!("cannot query {server}: {error}");
                return CheckOutcome::new(CheckState::Critical, text);
            }
        };
        let answers: Vec<&TimedAnswer> = answers.iter().flatten().collect();
        self.judge(&answers, server, timeout)
    }

    fn judge(
        &self,
        answers: &[&TimedAnswer],
        server: SocketAddr,
        timeout: Duration,
    ) -> CheckOutcome {
        let found: BTreeSet<IpAddr> =
            answers.iter().flat_map(|timed| timed.answer.addresses.iter().copied()).collect();
        let shown = found.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        let missing: Vec<String> = self
            .addresses
            .iter()
            .filter(|address| !found.contains(address))
            .map(IpAddr::to_string)
            .collect();
        let (state, text) = if answers.is_empty() {
            let seconds = timeout.as_secs_f64();
            (CheckState::Critical, format!("no answer from {server} within {seconds} s"))
        } else if found.is_empty() {
            // Some servers answer one kind with an error where the other one exists.
            let code = answers.iter().map(|timed| timed.answer.code).max().unwrap_or_default();
            let code = weir_resolver::code_name(code);
            (CheckState::Critical, format!("{server} has no address of the name ({code})"))
        } else if missing.is_empty() {
            (CheckState::Ok, shown)
        } else {
            let text = format!("{server} answers {shown}, without {}", missing.join(", "));
            (CheckState::Critical, text)
        };
        let expected = self.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        let threshold = (!expected.is_empty()).then_some(expected);
        CheckOutcome { threshold, ..CheckOutcome::new(state, text) }
    }
}

/// The name server that this host queries first.
fn first_resolver() -> Option<SocketAddr> {
    Some(SocketAddr::new(resolver::first_server(Path::new("/"))?, 53))
}
