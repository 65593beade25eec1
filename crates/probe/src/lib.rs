//! Active probes: name servers, TLS servers, proxies' statistics and databases, queried as their
//! clients query them; and checks: plugins of Nagios, targets from outside, applications' health.
//!
//! A probe can take seconds when a server does not reply, so it runs on its own thread, which the
//! caller creates, and not in the sampling round.

mod certificate;
pub mod check;
pub mod database;
mod haproxy;
mod lookup;
mod name;
pub mod plugin;
mod resolver;
mod tls;
mod trust;

use std::path::PathBuf;

use weir_tables::{Batch, Micros, Rows};

use certificate::CertificateTarget;
use weir_collect::logs::FoundDirective;

/// Seconds between two queries to the name servers.
const RESOLVER_SECONDS: f64 = 5.0;
/// Seconds between two queries for the names served here.
const NAME_SECONDS: f64 = 60.0;
/// Seconds between two queries for the names of upstreams.
const LOOKUP_SECONDS: f64 = 10.0;
/// Seconds between two handshakes with the same address and name.
const CERTIFICATE_SECONDS: f64 = 60.0;

/// Servers and names to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    certificates: Vec<CertificateTarget>,
    /// Local addresses that a proxy of this host sends HTTP to.
    pub http_upstreams: Vec<check::HttpUpstream>,
    names: Vec<String>,
    lookups: lookup::LookupTargets,
    proxies: Vec<haproxy::StatTarget>,
}

/// Probes name servers and TLS servers, each at its own interval.
#[derive(Debug)]
pub struct Prober {
    root: PathBuf,
    host: String,
    resolvers_probed_at: Option<Micros>,
    names_probed_at: Option<Micros>,
    looked_up_at: Option<Micros>,
    certificates: certificate::CertificateProber,
    proxies: haproxy::HaproxyProber,
}

impl Prober {
    /// Creates a prober of files below `root`; only the root `/` is probed over the network.
    pub fn new(root: PathBuf, host: String) -> Self {
        Self {
            root,
            host,
            resolvers_probed_at: None,
            names_probed_at: None,
            looked_up_at: None,
            certificates: certificate::CertificateProber::default(),
            proxies: haproxy::HaproxyProber::default(),
        }
    }

    /// Extracts the targets from the configurations of servers.
    pub fn targets(directives: &[FoundDirective]) -> Targets {
        Targets {
            certificates: certificate::targets(directives),
            http_upstreams: check::http_upstreams(directives),
            names: name::names(directives),
            lookups: lookup::targets(directives),
            proxies: haproxy::targets(directives),
        }
    }

    /// Runs the due probes, to be called once a second. Takes up to 2 s when a name server does not
    /// reply, and 2 s for each TLS server that does not. `clock` is read when a query is sent.
    pub fn probe(&mut self, targets: &Targets, clock: &dyn Fn() -> Micros) -> Vec<Batch> {
        let mut batches = Vec::new();
        if self.root.as_os_str() != "/" {
            return batches;
        }
        push(&mut self.proxies.probe(&targets.proxies, &self.host, clock), &mut batches);
        let now = clock();
        if is_due(&mut self.resolvers_probed_at, now, RESOLVER_SECONDS) {
            push(&mut resolver::probe(&self.root, &self.host, now), &mut batches);
        }
        push(&mut self.certificates.probe(&targets.certificates, &self.host, clock), &mut batches);
        if is_due(&mut self.looked_up_at, now, LOOKUP_SECONDS) {
            push(&mut lookup::probe(&self.root, &self.host, now, &targets.lookups), &mut batches);
        }
        if !targets.names.is_empty() && is_due(&mut self.names_probed_at, now, NAME_SECONDS) {
            push(&mut name::probe(&self.root, &self.host, now, &targets.names), &mut batches);
        }
        batches
    }
}

/// Whether `seconds` have passed since `last`, which is then set to `now`.
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
