//! How a client with this host's authorities judges a served chain: RFC 5280 §6, RFC 6125.
//!
//! A browser fetches a missing intermediate certificate or has it cached; programs do not. Only
//! the certificates that were sent count here, so a chain that "works in the browser" can fail.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Names of a certificate that are shown.
const NAMES_SHOWN: usize = 4;

/// Judges chains by the authorities of the system.
#[derive(Debug)]
pub(super) struct TrustJudge {
    verifier: Option<Arc<WebPkiServerVerifier>>,
}

impl TrustJudge {
    /// With the system's authorities; without any, nothing is judged.
    pub(super) fn of_system() -> Self {
        Self::new(rustls_native_certs::load_native_certs().certs)
    }

    /// With the system's authorities and these.
    pub(super) fn of_system_and(own: Vec<CertificateDer<'static>>) -> Self {
        Self::new([rustls_native_certs::load_native_certs().certs, own].concat())
    }

    fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        let _ = roots.add_parsable_certificates(authorities);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Self { verifier: builder.build().ok() }
    }

    /// Value of the column `served_trust`; `None` when it cannot be judged. An empty
    /// `server_name` fits every certificate.
    pub(super) fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        server_name: &str,
        now: UnixTime,
    ) -> Option<&'static str> {
        let verifier = self.verifier.as_ref()?;
        let (first, rest) = chain.split_first()?;
        let shown = parsed(first)?;
        // The verifier needs a name: without one to check, a name of the certificate itself.
        let own = dns_names(&shown).into_iter().find(|name| !name.contains('*'));
        let name = if server_name.is_empty() {
            own.as_deref().unwrap_or("x.invalid")
        } else {
            server_name
        };
        let name = ServerName::try_from(name.to_owned()).ok()?;
        let result = verifier.verify_server_cert(first, rest, &name, &[], now);
        let Err(error) = result else { return Some("trusted") };
        Some(match error {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) if server_name.is_empty() => "trusted",
            Error::InvalidCertificate(error) => word(&error, &shown, rest, now),
            _ => "invalid",
        })
    }
}

impl TrustJudge {
    /// When a chain that is trusted now is no longer, in seconds since 1970: certificates that were
    /// sent without need, such as a cross-signed root whose issuer expired, do not end it. `None` for
    /// a chain that is not trusted.
    pub(super) fn trusted_until(
        &self,
        chain: &[CertificateDer<'_>],
        server_name: &str,
        now: UnixTime,
    ) -> Option<i64> {
        let is_trusted = |at| self.judge(chain, server_name, at) == Some("trusted");
        if !is_trusted(now) {
            return None;
        }
        let ends = chain.iter().filter_map(parsed);
        let mut ends: Vec<i64> = ends.map(|one| one.validity().not_after.timestamp()).collect();
        ends.sort_unstable();
        let later = ends.into_iter().filter_map(|end| Some((end, u64::try_from(end).ok()?)));
        let mut later = later.filter(|(_, seconds)| *seconds >= now.as_secs());
        let after = |seconds: u64| UnixTime::since_unix_epoch(Duration::from_secs(seconds + 1));
        later.find(|(_, seconds)| !is_trusted(after(*seconds))).map(|(end, _)| end)
    }
}

fn word(
    error: &CertificateError,
    shown: &X509Certificate<'_>,
    rest: &[CertificateDer<'_>],
    now: UnixTime,
) -> &'static str {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let is_over = |one: &X509Certificate<'_>| one.validity().not_after.timestamp() < seconds;
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "wrong_name"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "not_yet_valid"
        }
        _ if is_over(shown) => "expired",
        // `openssl req -x509` makes authorities, which are rejected for that first.
        _ if shown.subject().as_raw() == shown.issuer().as_raw() => "self_signed",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "intermediate_expired"
        }
        CertificateError::UnknownIssuer => {
            let others: Vec<X509Certificate<'_>> = rest.iter().filter_map(parsed).collect();
            if others.iter().any(is_over) {
                return "intermediate_expired";
            }
            // A public authority names where its own certificate can be fetched.
            let last = last_of_chain(shown, &others);
            if last.subject().as_raw() != last.issuer().as_raw() && names_its_issuer(last) {
                "intermediate_missing"
            } else {
                "unknown_issuer"
            }
        }
        _ => "invalid",
    }
}

/// The certificate from which on the sent ones lead no further; unrelated ones are passed over.
fn last_of_chain<'a, 'b>(
    shown: &'b X509Certificate<'a>,
    others: &'b [X509Certificate<'a>],
) -> &'b X509Certificate<'a> {
    let mut last = shown;
    for _ in 0..others.len() {
        let issuer = others.iter().find(|one| {
            one.subject().as_raw() == last.issuer().as_raw()
                && one.subject().as_raw() != last.subject().as_raw()
        });
        let Some(issuer) = issuer else { break };
        last = issuer;
    }
    last
}

/// Whether Authority Information Access has the address of the issuer's certificate.
fn names_its_issuer(certificate: &X509Certificate<'_>) -> bool {
    const CA_ISSUERS: &str = "1.3.6.1.5.5.7.48.2";
    certificate.extensions().iter().any(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityInfoAccess(access) => access.accessdescs.iter().any(|one| {
            one.access_method.to_id_string() == CA_ISSUERS
                && matches!(one.access_location, GeneralName::URI(uri) if uri.starts_with("http"))
        }),
        _ => false,
    })
}

fn parsed<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

fn dns_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let dns = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    dns.collect()
}

/// The first DNS names of a certificate, joined by `, `.
pub(super) fn names(certificate: &X509Certificate<'_>) -> String {
    let all = dns_names(certificate);
    let more = all.len().saturating_sub(NAMES_SHOWN);
    let mut shown = all.into_iter().take(NAMES_SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// A root, an intermediate and a certificate for `shop.example`, as a public authority makes
    /// them; another root that signed nothing.
    const SCRIPT: &str = r#"
        set -e
        key() { openssl ecparam -name prime256v1 -genkey -noout -out $1.key; }
        for name in root other mid leaf own; do key $name; done
        for name in root other; do
          openssl req -x509 -new -key $name.key -subj /CN=$name -days 30 -out $name.pem \
            -addext basicConstraints=critical,CA:TRUE
        done
        openssl req -x509 -new -key own.key -subj /CN=shop.example -days 30 -out own.pem \
          -addext subjectAltName=DNS:shop.example
        printf 'basicConstraints=critical,CA:TRUE\nauthorityInfoAccess=caIssuers;URI:http://a.example/root.crt\n' > mid.ext
        printf 'subjectAltName=DNS:shop.example\nauthorityInfoAccess=caIssuers;URI:http://a.example/mid.crt\n' > leaf.ext
        sign() { openssl req -new -key $1.key -subj /CN=$1 | openssl x509 -req -CA $2.pem -CAkey $2.key -days $3 \
          -set_serial $4 -extfile $1.ext -out $1.pem; }
        sign mid root 20 7
        sign leaf mid 10 8
        # The root's key, signed by another root as well: valid for a day.
        printf 'basicConstraints=critical,CA:TRUE\n' > cross.ext
        openssl req -new -key root.key -subj /CN=root | openssl x509 -req -CA other.pem -CAkey other.key \
          -days 1 -set_serial 9 -extfile cross.ext -out cross.pem
    "#;

    fn pem(dir: &Path, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(dir.join(format!("{name}.pem"))).unwrap()
    }

    /// A directory with the certificates of [`SCRIPT`], and a time a minute after they were made.
    fn made() -> Option<(tempfile::TempDir, Duration)> {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("sh").args(["-c", SCRIPT]).current_dir(dir.path()).output();
        let Ok(made) = made else {
            eprintln!("skipped: openssl is missing (apt-get install openssl)");
            return None;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let now = std::fs::metadata(dir.path().join("leaf.pem")).unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        Some((dir, now))
    }

    /// ipxe/ipxe#606, xmpp-observatory/xmppoke#10: a server sends a cross-signed root whose other
    /// issuer expired, and a monitor reports a certificate that all clients trust.
    #[test]
    fn certificate_that_no_client_needs_does_not_end_the_trust() {
        let Some((dir, now)) = made() else { return };
        let judge = TrustJudge::new(vec![pem(dir.path(), "root")]);
        let chain = |names: &[&str]| -> Vec<CertificateDer<'static>> {
            names.iter().map(|name| pem(dir.path(), name)).collect()
        };
        let day = Duration::from_secs(86_400);
        let until = |names: &[&str], later: Duration| {
            let at = UnixTime::since_unix_epoch(now + later);
            let end = judge.trusted_until(&chain(names), "shop.example", at)?;
            let left = u64::try_from(end).unwrap() - now.as_secs();
            Some((left + 43_200) / 86_400)
        };
        assert_eq!(until(&["leaf", "mid"], Duration::ZERO), Some(10));
        assert_eq!(until(&["leaf", "mid", "cross"], Duration::ZERO), Some(10));
        assert_eq!(until(&["leaf", "mid", "cross"], 2 * day), Some(10));
        assert_eq!(until(&["leaf", "mid"], 11 * day), None);
        // A client that has only the other root needs the cross-signed one.
        let judge = TrustJudge::new(vec![pem(dir.path(), "other")]);
        let full = chain(&["leaf", "mid", "cross"]);
        let at = UnixTime::since_unix_epoch(now);
        let end = judge.trusted_until(&full, "shop.example", at).unwrap();
        assert!(u64::try_from(end).unwrap() < now.as_secs() + 2 * 86_400);
        let summary = crate::certificate::summary(&full).unwrap();
        let kept = |end| summary.clone().with_trust_end(end).chain_not_after.map(|at| at.0);
        assert_eq!(kept(Some(end)), Some(end * 1_000_000), "it is what ends the trust");
        let leaf_end = summary.not_after.0 / 1_000_000;
        let later = kept(Some(leaf_end)).unwrap();
        assert!(later > summary.not_after.0, "the intermediate's, not the cross-signed root's");
    }

    #[test]
    fn chain_is_judged_by_what_was_sent() {
        let Some((dir, now)) = made() else { return };
        let judge = TrustJudge::new(vec![pem(dir.path(), "root")]);
        let day = Duration::from_secs(86_400);
        let check = |names: &[&str], server_name: &str, later: Duration| {
            let chain: Vec<_> = names.iter().map(|name| pem(dir.path(), name)).collect();
            judge.judge(&chain, server_name, UnixTime::since_unix_epoch(now + later)).unwrap()
        };
        let none = Duration::ZERO;
        assert_eq!(check(&["leaf", "mid"], "shop.example", none), "trusted");
        assert_eq!(check(&["leaf", "mid"], "", none), "trusted");
        assert_eq!(check(&["leaf", "mid"], "www.shop.example", none), "wrong_name");
        assert_eq!(check(&["leaf"], "shop.example", none), "intermediate_missing");
        // An unrelated root in the place of the intermediate.
        assert_eq!(check(&["leaf", "other"], "shop.example", none), "intermediate_missing");
        assert_eq!(check(&["own"], "shop.example", none), "self_signed");
        assert_eq!(check(&["leaf", "mid"], "shop.example", 11 * day), "expired");
        let stranger = TrustJudge::new(vec![pem(dir.path(), "other")]);
        let full: Vec<_> = ["leaf", "mid", "root"].map(|name| pem(dir.path(), name)).to_vec();
        let at = UnixTime::since_unix_epoch(now);
        assert_eq!(stranger.judge(&full, "shop.example", at), Some("unknown_issuer"));
        assert_eq!(TrustJudge::new(Vec::new()).judge(&full, "shop.example", at), None);
    }
}
