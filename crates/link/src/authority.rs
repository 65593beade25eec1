//! The hub's certificate authority: one ECDSA P-256 key that signs the hub itself and its agents
//! (X.509, RFC 5280).
//!
//! It is stored in the hub's data directory as `link/authority.pem`, key and certificate in one
//! file, so that they always match. Only its own fleet trusts it, so host names do not matter: a
//! server certificate belongs to the hub, a client certificate to the agent whose id it holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use weir_tables::Micros;

use crate::error::{LinkError, LinkErrorKind};
use crate::{files, secret};

/// Subject of a hub's certificate, whatever its address.
pub(crate) const HUB_NAME: &str = "hub.weir.internal";
/// URI prefix of an agent's id in its certificate.
const AGENT_URI: &str = "weir-agent:";
/// Certificates are backdated, since clocks differ.
const BACKDATING: Duration = Duration::from_secs(86_400);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * 86_400);
/// Lifetime of the hub's certificate, which is renewed at each start and when a third is left.
const HUB_LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// A fleet's certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// Path of its file.
    pub fn path(link_dir: &Path) -> PathBuf {
        link_dir.join("authority.pem")
    }

    /// Loads the authority of a directory, or creates one.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`].
    pub fn open(link_dir: &Path, now: Micros) -> Result<Self, LinkError> {
        let path = Self::path(link_dir);
        if let Some(text) = files::read(&path)? {
            return Self::parse(&path, &text);
        }
        files::make_dir(link_dir)?;
        files::write_new(&path, new_authority(now)?.as_bytes())?;
        // Another process may have created it first: use what is in the file.
        let text = files::read(&path)?.unwrap_or_default();
        Self::parse(&path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, LinkError> {
        Self::from_pem(text).map_err(|why| {
            let text = format!("cannot use `{}`: {why}", path.display());
            LinkError::new(LinkErrorKind::Storage, text)
                .hint("restore it from a backup; with a new authority, every agent must join again")
        })
    }

    fn from_pem(text: &str) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|error| format!("no certificate in it: {error}"))?;
        let key = text.find("-----BEGIN PRIVATE").map_or("", |at| &text[at..]);
        let key = KeyPair::from_pem(key).map_err(|error| format!("no key in it: {error}"))?;
        let issuer =
            Issuer::from_ca_cert_der(&certificate, key).map_err(|error| error.to_string())?;
        Ok(Self { issuer, certificate })
    }

    /// SHA-256 of its certificate, as in join tokens.
    pub fn fingerprint(&self) -> [u8; 32] {
        secret::sha256(&self.certificate)
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Creates a certificate for the hub, with a key in memory only. Returns when to renew it.
    pub(crate) fn hub_key(&self, now: Micros) -> Result<(Arc<CertifiedKey>, Micros), LinkError> {
        let key = KeyPair::generate().map_err(|error| cannot_sign(&error))?;
        let mut params = params("weir hub", now, HUB_LIFETIME);
        let name = HUB_NAME.try_into().map_err(|error| cannot_sign(&error))?;
        params.subject_alt_names = vec![SanType::DnsName(name)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = self.sign(&params, &key)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let key = certified_key(chain, &key)?;
        Ok((key, now + HUB_LIFETIME / 3 * 2))
    }

    /// Signs an agent's request. Uses only its public key and the proof of possession.
    pub(crate) fn sign_agent(
        &self,
        agent: &AgentName<'_>,
        request: &[u8],
        now: Micros,
        lifetime: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let request =
            CertificateSigningRequestParams::from_der(&request.into()).map_err(|error| {
                LinkError::protocol(format!("cannot sign: invalid request: {error}"))
            })?;
        let mut params = params(agent.name, now, lifetime);
        let uri = format!("{AGENT_URI}{}", secret::hex(&agent.id));
        let uri = uri.try_into().map_err(|error| cannot_sign(&error))?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(self.sign(&params, &request.public_key)?.der().to_vec())
    }

    fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<Certificate, LinkError> {
        params.signed_by(key, &self.issuer).map_err(|error| cannot_sign(&error))
    }
}

/// Subject of an agent's certificate.
pub(crate) struct AgentName<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: [u8; 16],
}

fn new_authority(now: Micros) -> Result<String, LinkError> {
    let key = KeyPair::generate().map_err(|error| cannot_sign(&error))?;
    // A unique name lets an agent of several fleets choose the right certificate.
    let name = format!("weir fleet {}", secret::hex(&secret::random::<8>()));
    let mut params = params(&name, now, AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(|error| cannot_sign(&error))?;
    Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
}

fn params(name: &str, now: Micros, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(now - BACKDATING);
    params.not_after = epoch + since_epoch(now + lifetime);
    let mut serial = secret::random::<16>();
    serial[0] &= 0x7f; // positive
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

fn since_epoch(at: Micros) -> Duration {
    Duration::from_secs(u64::try_from(at.0 / 1_000_000).unwrap_or_default())
}

/// Creates a signing request for an agent's key.
pub(crate) fn signing_request(key: &KeyPair) -> Result<Vec<u8>, LinkError> {
    let request = CertificateParams::default().serialize_request(key);
    Ok(request.map_err(|error| cannot_sign(&error))?.der().to_vec())
}

/// Certificate chain and key for rustls.
pub(crate) fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
) -> Result<Arc<CertifiedKey>, LinkError> {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    CertifiedKey::from_der(chain, key.into(), &crate::tls::provider()).map(Arc::new).map_err(
        |error| LinkError::new(LinkErrorKind::Identity, format!("cannot use the key: {error}")),
    )
}

fn cannot_sign(error: &dyn std::fmt::Display) -> LinkError {
    LinkError::new(LinkErrorKind::Storage, format!("cannot create a certificate: {error}"))
}

/// Content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    /// The common name.
    pub(crate) name: String,
    /// The agent's id; `None` if it is not an agent's certificate.
    pub(crate) agent: Option<[u8; 16]>,
    pub(crate) not_before: Micros,
    pub(crate) not_after: Micros,
    /// Issuer's name in DER.
    pub(crate) issuer: Vec<u8>,
}

fn from_seconds(seconds: i64) -> Micros {
    Micros(seconds.saturating_mul(1_000_000))
}

/// Reads a certificate that TLS has verified, or that is our own.
pub(crate) fn read_certificate(certificate: &[u8]) -> Option<CertificateInfo> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()?;
    let agent = names.and_then(|names| {
        names.value.general_names.iter().find_map(|name| match name {
            x509_parser::extensions::GeneralName::URI(uri) => {
                secret::unhex(uri.strip_prefix(AGENT_URI)?)
            }
            _ => None,
        })
    });
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    Some(CertificateInfo {
        name,
        agent,
        not_before: from_seconds(parsed.validity().not_before.timestamp()),
        not_after: from_seconds(parsed.validity().not_after.timestamp()),
        issuer: parsed.issuer().as_raw().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{CertificateError, RootCertStore};

    use super::*;

    const NOW: Micros = Micros(1_795_176_000_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    fn authority() -> Authority {
        Authority::from_pem(&new_authority(NOW).unwrap()).unwrap()
    }

    fn signed(authority: &Authority, request: &[u8]) -> Vec<u8> {
        let agent = AgentName { name: "web1", id: [7; 16] };
        authority.sign_agent(&agent, request, NOW, DAY).unwrap()
    }

    /// A request that names other hosts, wildcards and NUL (CVE-2009-2408), and asks to sign others.
    #[test]
    fn a_certificate_has_none_of_the_names_that_a_request_asks_for() {
        let (authority, key) = (authority(), KeyPair::generate().unwrap());
        for name in ["db1", "WEB1", "web1\0.evil.example", "*", HUB_NAME] {
            let mut asked = CertificateParams::default();
            asked.distinguished_name.push(DnType::CommonName, name);
            let uri = format!("{AGENT_URI}{}", secret::hex(&[9; 16])).try_into().unwrap();
            asked.subject_alt_names =
                vec![SanType::DnsName(HUB_NAME.try_into().unwrap()), SanType::URI(uri)];
            asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let request = asked.serialize_request(&key).unwrap();
            let certificate = signed(&authority, request.der());
            let info = read_certificate(&certificate).unwrap();
            assert_eq!((info.name.as_str(), info.agent), ("web1", Some([7; 16])), "{name:?}");
            let (_, parsed) = x509_parser::parse_x509_certificate(&certificate).unwrap();
            let names = parsed.subject_alternative_name().unwrap().unwrap();
            assert_eq!(names.value.general_names.len(), 1, "{name:?}");
            assert_eq!(parsed.subject().iter_common_name().count(), 1, "{name:?}");
            assert!(!parsed.is_ca(), "{name:?}");
        }
    }

    #[test]
    fn an_agents_certificate_does_not_prove_a_hub() {
        let authority = authority();
        let request = signing_request(&KeyPair::generate().unwrap()).unwrap();
        let agent = CertificateDer::from(signed(&authority, &request));
        let (hub, _) = authority.hub_key(NOW).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().clone()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crate::tls::provider());
        let verifier = verifier.build().unwrap();
        let name = ServerName::try_from(HUB_NAME).unwrap();
        let now = UnixTime::since_unix_epoch(since_epoch(NOW));
        let verify = |leaf: &CertificateDer<'_>| {
            verifier.verify_server_cert(leaf, &[], &name, &[], now).map(drop)
        };
        verify(&hub.cert[0]).unwrap();
        let refused = verify(&agent).unwrap_err();
        assert!(matches!(refused, rustls::Error::InvalidCertificate(_)), "{refused}");
        let is_unknown = |error: &rustls::Error| {
            matches!(error, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
        };
        assert!(!is_unknown(&refused), "the authority is known, the purpose is wrong: {refused}");
    }
}
