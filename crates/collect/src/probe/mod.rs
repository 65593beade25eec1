//! What is found out by asking, not by reading: name servers and TLS servers, as their clients ask them.
//!
//! Asking may take seconds when nobody answers, so it is not done in the round of samples but on a thread of its own,
//! which the caller makes.

mod certificate;
pub mod database;
mod name;
mod resolver;
mod tls;

use std::path::PathBuf;

use weir_tables::{Batch, Micros, Rows};

use crate::logs::FoundDirective;
use certificate::CertificateTarget;

/// Seconds between two questions to the name servers.
const RESOLVER_SECONDS: f64 = 5.0;
/// Seconds between two questions for the names that are served here.
const NAME_SECONDS: f64 = 60.0;
/// Seconds between two handshakes with the same address and name.
const CERTIFICATE_SECONDS: f64 = 60.0;

/// Whom to ask, and for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    certificates: Vec<CertificateTarget>,
    names: Vec<String>,
}

/// Asks name servers and TLS servers, each at its own pace.
#[derive(Debug)]
pub struct Prober {
    root: PathBuf,
    host: String,
    asked_resolvers: Option<Micros>,
    asked_names: Option<Micros>,
    certificates: certificate::Certificates,
}

impl Prober {
    /// A prober that has asked nobody yet. Files are read below `root`; only the root `/` is asked over the network,
    /// since a recorded host cannot answer.
    pub fn new(root: PathBuf, host: String) -> Self {
        Self {
            root,
            host,
            asked_resolvers: None,
            asked_names: None,
            certificates: certificate::Certificates::default(),
        }
    }

    /// What the servers' configurations name.
    pub fn targets(directives: &[FoundDirective]) -> Targets {
        Targets { certificates: certificate::targets(directives), names: name::names(directives) }
    }

    /// Asks who is due, to be called once a second. Takes up to 2 s when a name server is silent, and 2 s for each
    /// TLS server that is. `clock` is read when a question is sent.
    pub fn probe(&mut self, targets: &Targets, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        let mut batches = Vec::new();
        if self.root.as_os_str() != "/" {
            return batches;
        }
        let now = clock();
        if is_due(&mut self.asked_resolvers, now, RESOLVER_SECONDS) {
            push(&mut resolver::probe(&self.root, &self.host, now), &mut batches);
        }
        push(&mut self.certificates.probe(&targets.certificates, &self.host, clock), &mut batches);
        if !targets.names.is_empty() && is_due(&mut self.asked_names, now, NAME_SECONDS) {
            push(&mut name::probe(&self.root, &self.host, now, &targets.names), &mut batches);
        }
        batches
    }
}

/// Whether `seconds` are over since the last time, which then is now.
fn is_due(last: &mut Option<Micros>, now: Micros, seconds: f64) -> bool {
    let age = last.map_or(f64::INFINITY, |last| now.seconds_since(last));
    let is_due = !(0.0..seconds - 0.5).contains(&age);
    if is_due {
        *last = Some(now);
    }
    is_due
}

fn push<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}
