//! What is found out by asking, not by reading: name servers and TLS servers, as their clients ask them.
//!
//! Asking may take seconds when nobody answers, so it is not done in the round of samples but on a thread of its own,
//! which the caller makes.

mod certificate;
mod resolver;
mod tls;

use std::path::PathBuf;

use weir_tables::{Batch, Micros, Rows};

use crate::logs::FoundDirective;
pub use certificate::CertificateTarget;

/// Seconds between two questions to the name servers.
const RESOLVER_SECONDS: f64 = 5.0;
/// Seconds between two handshakes with the same address and name.
const CERTIFICATE_SECONDS: f64 = 60.0;

/// Asks name servers and TLS servers, each at its own pace.
#[derive(Debug)]
pub struct Prober {
    root: PathBuf,
    host: String,
    asked_resolvers: Option<Micros>,
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
            certificates: certificate::Certificates::default(),
        }
    }

    /// The TLS addresses that the servers' configurations name.
    pub fn targets(directives: &[FoundDirective]) -> Vec<CertificateTarget> {
        certificate::targets(directives)
    }

    /// Asks who is due, to be called once a second. Takes up to 2 s when a name server is silent, and 2 s for each
    /// TLS server that is. `clock` is read when a question is sent.
    pub fn probe(
        &mut self,
        targets: &[CertificateTarget],
        clock: &dyn Fn() -> Micros,
    ) -> Vec<Batch> {
        let mut batches = Vec::new();
        if self.root.as_os_str() != "/" {
            return batches;
        }
        let now = clock();
        let age = self.asked_resolvers.map_or(f64::INFINITY, |last| now.seconds_since(last));
        if !(0.0..RESOLVER_SECONDS - 0.5).contains(&age) {
            self.asked_resolvers = Some(now);
            push(&mut resolver::probe(&self.root, &self.host, now), &mut batches);
        }
        push(&mut self.certificates.probe(targets, &self.host, clock), &mut batches);
        batches
    }
}

fn push<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}
