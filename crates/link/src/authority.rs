//! The hub's certificate authority: one ECDSA P-256 key that signs the hub itself and its agents (X.509, RFC 5280).
//!
//! It lives in the hub's data directory as `link/authority.pem`, key and certificate in one file, so that the two can
//! never be of different age. Nobody outside of one fleet trusts it, so names of hosts play no part: who is signed by
//! it as a server is the hub, who is signed as a client is the agent whose id the certificate holds.

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

use crate::error::{Kind, LinkError};
use crate::{files, secret};

/// The name that a hub's certificate is for, whatever its address.
pub(crate) const HUB_NAME: &str = "hub.weir.internal";
/// Before the text of an agent's id in its certificate.
const AGENT_URI: &str = "weir-agent:";
/// Certificates are valid from this long before they are made: clocks differ.
const EARLIER: Duration = Duration::from_secs(86_400);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * 86_400);
/// The hub makes itself a new certificate at each start, and when a third of this is left.
const HUB_LIFETIME: Duration = Duration::from_secs(90 * 86_400);

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// Where it is kept, below the hub's data directory.
    pub fn path(link_dir: &Path) -> PathBuf {
        link_dir.join("authority.pem")
    }

    /// Reads the authority of the directory, and makes one when there is none.
    ///
    /// # Errors
    /// [`Kind::Storage`].
    pub fn open(link_dir: &Path, now: Micros) -> Result<Self, LinkError> {
        let path = Self::path(link_dir);
        if let Some(text) = files::read(&path)? {
            return Self::parse(&path, &text);
        }
        files::make_dir(link_dir)?;
        files::write_new(&path, new_authority(now)?.as_bytes())?;
        // Another process may have been first; the file says.
        let text = files::read(&path)?.unwrap_or_default();
        Self::parse(&path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, LinkError> {
        let bad = |why: String| {
            LinkError::new(Kind::Storage, format!("cannot use `{}`: {why}", path.display()))
                .hint("restore it from a backup; with a new one every agent has to join again")
        };
        let certificate = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|error| bad(format!("no certificate in it: {error}")))?;
        let key = text.find("-----BEGIN PRIVATE").map_or("", |at| &text[at..]);
        let key = KeyPair::from_pem(key).map_err(|error| bad(format!("no key in it: {error}")))?;
        let issuer =
            Issuer::from_ca_cert_der(&certificate, key).map_err(|error| bad(error.to_string()))?;
        Ok(Self { issuer, certificate })
    }

    /// SHA-256 of its certificate: what a join token names.
    pub fn fingerprint(&self) -> [u8; 32] {
        secret::sha256(&self.certificate)
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A certificate for the hub with a key that lives in memory only, and when to make the next.
    pub(crate) fn hub_key(&self, now: Micros) -> Result<(Arc<CertifiedKey>, Micros), LinkError> {
        let key = KeyPair::generate().map_err(|error| cannot_sign(&error))?;
        let mut params = params("weir hub", now, HUB_LIFETIME);
        let name = HUB_NAME.try_into().map_err(|error| cannot_sign(&error))?;
        params.subject_alt_names = vec![SanType::DnsName(name)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = self.sign(&params, &key)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let certified = certified(chain, &key)?;
        Ok((certified, now + HUB_LIFETIME / 3 * 2))
    }

    /// Signs an agent's request; of the request only its key is used, and its proof that the sender has it.
    pub(crate) fn sign_agent(
        &self,
        agent: &AgentName<'_>,
        request: &[u8],
        now: Micros,
        lifetime: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let request =
            CertificateSigningRequestParams::from_der(&request.into()).map_err(|error| {
                LinkError::protocol(format!("cannot sign: the request is none: {error}"))
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

/// Who a certificate is for.
pub(crate) struct AgentName<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: [u8; 16],
}

fn new_authority(now: Micros) -> Result<String, LinkError> {
    let key = KeyPair::generate().map_err(|error| cannot_sign(&error))?;
    // The name differs from fleet to fleet: an agent of several tells by it which certificate to show.
    let name = format!("weir fleet {}", secret::hex(&secret::random::<8>()));
    let mut params = params(&name, now, AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(|error| cannot_sign(&error))?;
    Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
}

fn params(name: &str, now: Micros, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    let at = |at: Micros| {
        let seconds = u64::try_from(at.0 / 1_000_000).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (at(now - EARLIER), at(now + lifetime));
    let mut serial = secret::random::<16>();
    serial[0] &= 0x7f; // positive
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

/// A new agent's signing request for its key.
pub(crate) fn request(key: &KeyPair) -> Result<Vec<u8>, LinkError> {
    let request = CertificateParams::default().serialize_request(key);
    Ok(request.map_err(|error| cannot_sign(&error))?.der().to_vec())
}

/// Chain and key as TLS wants them.
pub(crate) fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &KeyPair,
) -> Result<Arc<CertifiedKey>, LinkError> {
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    CertifiedKey::from_der(chain, key.into(), &crate::tls::provider())
        .map(Arc::new)
        .map_err(|error| LinkError::new(Kind::Identity, format!("cannot use the key: {error}")))
}

fn cannot_sign(error: &dyn std::fmt::Display) -> LinkError {
    LinkError::new(Kind::Storage, format!("cannot make a certificate: {error}"))
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certified {
    /// The common name.
    pub(crate) name: String,
    /// The agent's id; `None` when it is not an agent's certificate.
    pub(crate) agent: Option<[u8; 16]>,
    pub(crate) not_before: Micros,
    pub(crate) not_after: Micros,
    /// DER of the name of who signed it.
    pub(crate) issuer: Vec<u8>,
}

/// Reads a certificate whose signature TLS has checked, or that is our own.
pub(crate) fn read_certificate(certificate: &[u8]) -> Option<Certified> {
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
    let micros = |seconds: i64| Micros(seconds.saturating_mul(1_000_000));
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    Some(Certified {
        name,
        agent,
        not_before: micros(parsed.validity().not_before.timestamp()),
        not_after: micros(parsed.validity().not_after.timestamp()),
        issuer: parsed.issuer().as_raw().to_vec(),
    })
}
