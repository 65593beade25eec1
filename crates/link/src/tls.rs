//! TLS 1.3 with certificates on both sides (RFC 8446), with rustls and ring.
//!
//! A connection without a client certificate is a stranger, which may only redeem a join token. The
//! clock is an argument, so that tests control the time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    ServerConfig, SignatureScheme,
};
use weir_tables::{Clock, Micros};

use crate::authority::{Authority, HUB_NAME};
use crate::error::{LinkError, LinkErrorKind};
use crate::identity::Identity;
use crate::secret::{self, SecretBytes};

/// Protocol name in the handshake (ALPN, RFC 7301), so that a stray browser fails at once.
const PROTOCOL: &[u8] = b"weir-link";

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn hub_name() -> ServerName<'static> {
    HUB_NAME.try_into().expect("it is a DNS name")
}

#[derive(Clone)]
struct TlsClock(Arc<dyn Clock>);

impl fmt::Debug for TlsClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClock")
    }
}

impl TimeProvider for TlsClock {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(self.0.now().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}

fn cannot(error: &dyn fmt::Display) -> LinkError {
    LinkError::new(LinkErrorKind::Identity, format!("cannot set up TLS: {error}"))
}

/// TLS configuration of a hub.
pub(crate) fn server(
    authority: Arc<Authority>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<ServerConfig>, LinkError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate().clone()).map_err(|error| cannot(&error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| cannot(&error))?;
    let resolver = HubKey { authority, clock: Arc::clone(clock), current: Mutex::default() };
    let time = Arc::new(TlsClock(Arc::clone(clock)));
    let mut config = ServerConfig::builder_with_details(provider(), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| cannot(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Disable tickets: every connection presents its certificate, so that none outlives a
    // revocation.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The hub's certificate, renewed before it expires.
struct HubKey {
    authority: Arc<Authority>,
    clock: Arc<dyn Clock>,
    current: Mutex<Option<(Arc<CertifiedKey>, Micros)>>,
}

impl fmt::Debug for HubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubKey")
    }
}

impl ResolvesServerCert for HubKey {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(_, until)| now >= *until) {
            match self.authority.hub_key(now) {
                Ok(renewed) => *current = Some(renewed),
                Err(error) => tracing::error!("{error}"),
            }
        }
        current.as_ref().map(|(key, _)| Arc::clone(key))
    }
}

/// TLS configuration of an agent. It trusts the hubs it joined, and presents to each the
/// certificate from that hub.
pub(crate) fn client(
    identities: &[Identity],
    clock: &Arc<dyn Clock>,
) -> Result<Arc<ClientConfig>, LinkError> {
    let mut roots = RootCertStore::empty();
    let mut keys = Vec::new();
    for identity in identities {
        roots.add(identity.authority.clone()).map_err(|error| cannot(&error))?;
        keys.push((identity.issuer.clone(), identity.certified_key()?));
    }
    let builder = client_builder(clock)?.with_root_certificates(roots);
    let mut config = builder.with_client_cert_resolver(Arc::new(AgentKeys(keys)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn client_builder(
    clock: &Arc<dyn Clock>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, LinkError> {
    ClientConfig::builder_with_details(provider(), Arc::new(TlsClock(Arc::clone(clock))))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| cannot(&error))
}

struct AgentKeys(Vec<(Vec<u8>, Arc<CertifiedKey>)>);

impl fmt::Debug for AgentKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKeys")
    }
}

impl ResolvesClientCert for AgentKeys {
    fn resolve(&self, hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let mut keys = self.0.iter();
        let found = keys.find(|(issuer, _)| hints.is_empty() || hints.contains(&issuer.as_slice()));
        found.map(|(_, key)| Arc::clone(key))
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

/// TLS configuration of a stranger with a join token. It trusts only the authority with the token's
/// fingerprint, and keeps the authority's certificate from the handshake.
pub(crate) fn stranger(
    fingerprint: [u8; 32],
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<ClientConfig>, Arc<PinnedVerifier>), LinkError> {
    let pinned = Arc::new(PinnedVerifier { fingerprint, found: Mutex::default() });
    let builder = client_builder(clock)?.dangerous();
    let mut config = builder
        .with_custom_certificate_verifier(Arc::clone(&pinned) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok((Arc::new(config), pinned))
}

/// Trusts the authority with one fingerprint.
pub(crate) struct PinnedVerifier {
    fingerprint: [u8; 32],
    found: Mutex<Option<CertificateDer<'static>>>,
}

impl PinnedVerifier {
    /// The authority's certificate, after a handshake.
    pub(crate) fn authority(&self) -> Option<CertificateDer<'static>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for PinnedVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinnedVerifier")
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authority = intermediates
            .iter()
            .find(|certificate| {
                SecretBytes(&self.fingerprint).is_same(&secret::sha256(certificate))
            })
            .ok_or(CertificateError::UnknownIssuer)?
            .clone()
            .into_owned();
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            provider(),
        )
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
        let verified =
            verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(authority);
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn untrusted(address: &str, why: impl fmt::Display) -> LinkError {
    LinkError::new(LinkErrorKind::Identity, format!("cannot trust the hub at `{address}`: {why}"))
}

/// Explains a failed handshake, or a later TLS alert.
pub(crate) fn explain(address: &str, now: Micros, error: &std::io::Error) -> LinkError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        let text = format!("the connection to `{address}` was closed during the handshake");
        return LinkError::new(LinkErrorKind::Unreachable, text);
    }
    let Some(inner) = inner else {
        return LinkError::new(
            LinkErrorKind::Unreachable,
            format!("cannot reach the hub at `{address}`: {error}"),
        )
        .hint("use the hub's address for agents (`link.listen`), not that of its page");
    };
    let clock = "set this host's clock, or the hub's: `timedatectl`; then it reconnects by itself";
    match inner {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            untrusted(address, "its CA is not that of the token or certificate: it belongs to another fleet")
                .hint("`weir hub invite` on that hub prints a token of its fleet; `weir agent join TOKEN` here joins it")
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        }) => {
            let from = Micros(0) + Duration::from_secs(not_before.as_secs());
            let why = format!("its certificate is valid from {from}, but here it is {now}");
            untrusted(address, why).hint(clock)
        }
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            let until = Micros(0) + Duration::from_secs(not_after.as_secs());
            let why = format!("its certificate expired at {until}, and here it is {now}");
            untrusted(address, why).hint(clock)
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => LinkError::new(
            LinkErrorKind::Identity,
            format!("the hub at `{address}` reports that this agent's certificate has expired or is not valid yet"),
        )
        .hint("set the clock that is wrong; after a long time offline: `weir hub invite --name NAME`, `weir agent join TOKEN`"),
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => LinkError::new(
            LinkErrorKind::Identity,
            format!("the hub at `{address}` does not know this agent's certificate"),
        )
        .hint("join its fleet: `weir hub invite` there, `weir agent join TOKEN` here"),
        other => LinkError::new(
            LinkErrorKind::Identity,
            format!("TLS handshake with the hub at `{address}` failed: {other}"),
        )
        .hint("use the hub's address for agents (`link.listen`), not that of its page"),
    }
}
