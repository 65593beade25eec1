//! Certificates as they are served, compared with the file that the configuration names:
//! `ssl_certificate` of nginx, `crt` of HAProxy.
//!
//! The date in the file is not what clients see: after a renewal the old certificate is served
//! until the server reloads. So the server is queried with each configured name, and the file is
//! read too.

use std::collections::HashMap;
use std::hash::Hasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use siphasher::sip128::{Hasher128, SipHasher24};
use weir_tables::{Certificate, CertificateRows, Micros, Program};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CERTIFICATE_SECONDS;
use super::tls::Handshaker;
use super::trust::TrustJudge;
use weir_collect::logs::FoundDirective;

const TARGET_LIMIT: usize = 256;
/// Seconds between two handshakes while another certificate than the file's is served.
const DIFFERING_SECONDS: f64 = 3.0;
/// Handshakes per round; the others follow in the next.
const PER_ROUND: usize = 8;
const FILE_LIMIT_BYTES: u64 = 1 << 20;

/// An address and name to query, and the file that should be served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CertificateTarget {
    program: Program,
    process_id: Option<i64>,
    address: String,
    port: u16,
    server_name: String,
    config_file: String,
    config_line: i64,
    path: PathBuf,
}

#[derive(Debug, Default)]
pub(super) struct CertificateProber {
    handshaker: Option<Handshaker>,
    trust: Option<TrustJudge>,
    probed: HashMap<CertificateTarget, LastProbe>,
}

/// The last probe of a target.
#[derive(Clone, Copy, Debug)]
struct LastProbe {
    at: Micros,
    /// When the file was written.
    modified: Option<Micros>,
    /// Whether the file's certificate was served.
    is_served: bool,
}

/// TLS addresses in the configurations of nginx and HAProxy.
pub(super) fn targets(directives: &[FoundDirective]) -> Vec<CertificateTarget> {
    let mut found = Vec::new();
    for directive in directives {
        match directive.program {
            Program::Nginx if directive.directive == "listen" => {
                of_nginx(directive, directives, &mut found);
            }
            Program::Haproxy if directive.directive == "bind" => of_haproxy(directive, &mut found),
            _ => {}
        }
    }
    found.truncate(TARGET_LIMIT);
    found
}

fn of_nginx(
    listen: &FoundDirective,
    directives: &[FoundDirective],
    found: &mut Vec<CertificateTarget>,
) {
    if !listen.arguments.split(' ').any(|word| word == "ssl") {
        return;
    }
    let in_server = |name| find_in_block(directives, listen, (name, listen.server_block));
    // A `server` block inherits from `http` what it does not set.
    let certificate = in_server("ssl_certificate")
        .or_else(|| find_in_block(directives, listen, ("ssl_certificate", None)));
    let Some(certificate) = certificate else { return };
    let names = in_server("server_name").map_or("", |names| &names.arguments);
    let named: Vec<&str> = names.split(' ').filter(|name| is_plain_name(name)).collect();
    // A path with variables depends on the request.
    if certificate.arguments.contains('$') {
        return;
    }
    for name in if named.is_empty() { &[""][..] } else { &named } {
        found.extend(target(listen, certificate, name, Path::new(&certificate.arguments)));
    }
}

/// The directive in the given block, of the same nginx as `listen`.
fn find_in_block<'a>(
    directives: &'a [FoundDirective],
    listen: &FoundDirective,
    (name, block): (&str, Option<u32>),
) -> Option<&'a FoundDirective> {
    directives.iter().find(|directive| {
        directive.program == Program::Nginx
            && directive.process_id == listen.process_id
            && directive.directive == name
            && directive.server_block == block
    })
}

fn of_haproxy(bind: &FoundDirective, found: &mut Vec<CertificateTarget>) {
    let words: Vec<&str> = bind.arguments.split(' ').collect();
    let Some(at) = words.iter().position(|word| *word == "crt") else { return };
    if !words.contains(&"ssl") {
        return;
    }
    if let Some(path) = words.get(at + 1) {
        found.extend(target(bind, bind, "", Path::new(path)));
    }
}

/// Whether a name can be queried: no pattern, no expression, no catch-all.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "_" && name != "\"\"" && !name.contains(['*', '~', '$', '"'])
}

fn target(
    listen: &FoundDirective,
    certificate: &FoundDirective,
    server_name: &str,
    path: &Path,
) -> Option<CertificateTarget> {
    Some(CertificateTarget {
        program: listen.program,
        process_id: listen.process_id,
        address: listen.server_address.clone()?,
        port: u16::try_from(listen.server_port?).ok()?,
        server_name: server_name.to_owned(),
        config_file: certificate.file.display().to_string(),
        config_line: certificate.line,
        path: certificate.base.join(path),
    })
}

impl CertificateProber {
    /// Probes targets whose last probe is a minute old, or whose file was written since.
    pub(super) fn probe(
        &mut self,
        targets: &[CertificateTarget],
        host: &str,
        clock: &dyn Fn() -> Micros,
    ) -> CertificateRows {
        let mut rows = CertificateRows::default();
        self.probed.retain(|known, _| targets.contains(known));
        let now = clock();
        let due = targets.iter().filter(|target| self.is_due(target, now)).take(PER_ROUND);
        let due: Vec<&CertificateTarget> = due.collect();
        for target in due {
            let now = clock();
            let modified = modified(&path_of(target));
            let served = self.served(target, now);
            let file = read_file(target);
            let is_served = match (&served, &file) {
                (Ok(served), Ok((file, _))) => served.digest == file.digest,
                _ => true,
            };
            self.probed.insert(target.clone(), LastProbe { at: now, modified, is_served });
            push(&mut rows, target, (host, now), served, file);
        }
        rows
    }

    fn is_due(&self, target: &CertificateTarget, now: Micros) -> bool {
        let Some(last) = self.probed.get(target) else { return true };
        // A reload may load the file's certificate at any moment.
        let seconds = if last.is_served { CERTIFICATE_SECONDS } else { DIFFERING_SECONDS };
        let is_old = !(0.0..seconds).contains(&now.seconds_since(last.at));
        is_old || modified(&path_of(target)) != last.modified
    }

    fn served(
        &mut self,
        target: &CertificateTarget,
        now: Micros,
    ) -> io::Result<CertificateSummary> {
        let handshaker = match &self.handshaker {
            Some(handshaker) => handshaker,
            None => self.handshaker.insert(Handshaker::new()?),
        };
        let address = SocketAddr::new(reachable(&target.address)?, target.port);
        let entrance = target.process_id.map(|id| PathBuf::from(format!("/proc/{id}/ns/net")));
        let own = std::fs::read_link("/proc/self/ns/net").ok();
        let theirs = entrance.as_deref().and_then(|path| std::fs::read_link(path).ok());
        // A server in a container is queried from inside its network namespace.
        let chain = match entrance {
            Some(entrance) if theirs.is_some() && theirs != own => {
                weir_collect::host::inside_netns(&entrance, || {
                    handshaker.certificates(address, &target.server_name)
                })??
            }
            _ => handshaker.certificates(address, &target.server_name)?,
        };
        let trust = self.trust.get_or_insert_with(TrustJudge::of_system);
        let seconds = u64::try_from(now.0 / 1_000_000).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let end = trust.trusted_until(&chain, &target.server_name, now);
        let trust = trust.judge(&chain, &target.server_name, now);
        Ok(CertificateSummary { trust, ..summary(&chain)?.with_trust_end(end) })
    }
}

/// The wildcard addresses `0.0.0.0` and `::` are queried on the loopback.
fn reachable(address: &str) -> io::Result<IpAddr> {
    let address: IpAddr = address.trim_matches(['[', ']']).parse().map_err(io::Error::other)?;
    Ok(match address {
        IpAddr::V4(address) if address.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        address => address,
    })
}

/// Fields of a certificate, and the earliest expiry of the rest of its chain.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSummary {
    not_before: Micros,
    pub(crate) not_after: Micros,
    subject: String,
    pub(crate) issuer: String,
    digest: String,
    /// Ends of the other certificates that the server sent.
    chain_ends: Vec<Micros>,
    /// The earliest of them; of a trusted chain the earliest that it needs.
    pub(crate) chain_not_after: Option<Micros>,
    pub(crate) names: String,
    chain_length: i64,
    trust: Option<&'static str>,
}

impl CertificateSummary {
    /// Without the ends of certificates that a trusted chain does not need; `end` in seconds since
    /// 1970.
    pub(crate) fn with_trust_end(mut self, end: Option<i64>) -> Self {
        if let Some(end) = end.map(micros) {
            let needed = self.chain_ends.iter().filter(|at| **at >= end.min(self.not_after));
            self.chain_not_after = needed.min().copied();
        }
        self
    }
}

pub(crate) fn summary(chain: &[CertificateDer<'_>]) -> io::Result<CertificateSummary> {
    let [first, rest @ ..] = chain else {
        return Err(io::Error::other("the server sent no certificate"));
    };
    let certificate = parsed(first)?;
    let ends = rest.iter().filter_map(|der| Some(ends(&parsed(der).ok()?)));
    let chain_ends: Vec<Micros> = ends.collect();
    let mut digest = SipHasher24::new();
    digest.write(first);
    Ok(CertificateSummary {
        not_before: micros(certificate.validity().not_before.timestamp()),
        not_after: self::ends(&certificate),
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        digest: format!("{:032x}", digest.finish128().as_u128()),
        chain_not_after: chain_ends.iter().min().copied(),
        chain_ends,
        names: crate::trust::names(&certificate),
        chain_length: i64::try_from(chain.len()).unwrap_or(i64::MAX),
        trust: None,
    })
}

fn parsed<'a>(der: &'a CertificateDer<'_>) -> io::Result<X509Certificate<'a>> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(io::Error::other)?;
    Ok(certificate)
}

fn ends(certificate: &X509Certificate<'_>) -> Micros {
    micros(certificate.validity().not_after.timestamp())
}

fn micros(seconds: i64) -> Micros {
    Micros(seconds.saturating_mul(1_000_000))
}

/// Reads the first certificate of the file, and when the file was written.
fn read_file(target: &CertificateTarget) -> io::Result<(CertificateSummary, Option<Micros>)> {
    let path = path_of(target);
    let bytes = weir_access::read(&path, FILE_LIMIT_BYTES)?;
    let first = CertificateDer::pem_slice_iter(&bytes).next();
    let first = first.ok_or_else(|| io::Error::other("it contains no certificate"))?;
    let first = first.map_err(|error| io::Error::other(error.to_string()))?;
    Ok((summary(&[first])?, modified(&path)))
}

/// Path of the file as seen by weir, also for a server in a container.
fn path_of(target: &CertificateTarget) -> PathBuf {
    let base = match target.process_id {
        Some(id) => PathBuf::from(format!("/proc/{id}/root")),
        None => "/".into(),
    };
    base.join(target.path.strip_prefix("/").unwrap_or(&target.path))
}

fn modified(path: &Path) -> Option<Micros> {
    let at = std::fs::metadata(path).ok()?.modified().ok()?;
    let age = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(age.as_micros()).ok().map(Micros)
}

fn push(
    rows: &mut CertificateRows,
    target: &CertificateTarget,
    (host, now): (&str, Micros),
    served: io::Result<CertificateSummary>,
    file: io::Result<(CertificateSummary, Option<Micros>)>,
) {
    let address = format!("{}:{}", target.address, target.port);
    let path = target.path.display().to_string();
    let of_served = served.as_ref().err().map(|error| {
        format!(
            "cannot complete a TLS handshake with `{address}`: {}",
            error.to_string().to_lowercase()
        )
    });
    let of_file = file
        .as_ref()
        .err()
        .map(|error| format!("cannot read `{path}`: {}", error.to_string().to_lowercase()));
    let error = of_served.into_iter().chain(of_file).collect::<Vec<_>>().join("; ");
    let (served, file) = (served.ok(), file.ok());
    rows.push(&Certificate {
        ts: now,
        host,
        program: target.program.as_str(),
        server_address: &target.address,
        server_port: target.port.into(),
        server_name: &target.server_name,
        config_file: &target.config_file,
        config_line: target.config_line,
        path: &path,
        served_not_after: served.as_ref().map(|summary| summary.not_after),
        served_not_before: served.as_ref().map(|summary| summary.not_before),
        served_subject: served.as_ref().map(|summary| summary.subject.as_str()),
        served_issuer: served.as_ref().map(|summary| summary.issuer.as_str()),
        served_digest: served.as_ref().map(|summary| summary.digest.as_str()),
        chain_not_after: served.as_ref().and_then(|summary| summary.chain_not_after),
        file_not_after: file.as_ref().map(|(summary, _)| summary.not_after),
        file_digest: file.as_ref().map(|(summary, _)| summary.digest.as_str()),
        file_modified_ts: file.as_ref().and_then(|(_, modified)| *modified),
        error: (!error.is_empty()).then_some(error.as_str()),
        served_trust: served.as_ref().and_then(|summary| summary.trust),
        served_names: served.as_ref().map(|summary| summary.names.as_str()),
        chain_length: served.as_ref().map(|summary| summary.chain_length),
    });
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_server_is_queried_for_its_own_names_and_file() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "etc/nginx/nginx.conf",
            "events {}
             http {
               ssl_certificate /etc/ssl/all.pem;
               server { listen 443 ssl; server_name a.example www.a.example; include tls/a.inc; }
               server { listen 10.0.0.1:8443 ssl; server_name *.b.example; }
               server { listen 80; server_name c.example; ssl_certificate /etc/ssl/c.pem; }
               server { listen 444 ssl; server_name d.example; ssl_certificate $ssl_server_name.pem; }
             }",
        );
        // Paths are relative to the directory of nginx.conf, not to that of the included file.
        write("etc/nginx/tls/a.inc", "ssl_certificate a.pem;");
        write(
            "etc/haproxy/haproxy.cfg",
            "frontend f\n  bind :9443 ssl crt /etc/haproxy/h.pem alpn h2\n  bind :9080\n",
        );
        let found = weir_collect::logs::discover(root.path());
        let summary: String = targets(&found.directives)
            .iter()
            .map(|target| {
                let CertificateTarget { address, port, server_name, config_line, .. } = target;
                let path = target.path.display();
                format!("{address}:{port} `{server_name}` {path} (line {config_line})\n")
            })
            .collect();
        expect![[r#"
            0.0.0.0:443 `a.example` /etc/nginx/a.pem (line 1)
            0.0.0.0:443 `www.a.example` /etc/nginx/a.pem (line 1)
            10.0.0.1:8443 `` /etc/ssl/all.pem (line 3)
            0.0.0.0:9443 `` /etc/haproxy/h.pem (line 2)
        "#]]
        .assert_eq(&summary);
    }

    #[test]
    fn wildcard_address_is_queried_on_the_loopback() {
        assert_eq!(reachable("0.0.0.0").unwrap().to_string(), "127.0.0.1");
        assert_eq!(reachable("[::]").unwrap().to_string(), "::1");
        assert_eq!(reachable("192.0.2.1").unwrap().to_string(), "192.0.2.1");
        assert!(reachable("*").is_err());
    }
}
