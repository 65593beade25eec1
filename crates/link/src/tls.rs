//! TLS 1.3 with certificates on both sides (RFC 8446), by rustls and ring.
//!
//! A connection without a client certificate is let in as a stranger: it may redeem a join token and nothing else. Time
//! comes from the clock that was handed in, so tests can be early and late.

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
use crate::error::{Kind, LinkError};
use crate::identity::Identity;
use crate::secret;

/// What the protocol is called in the handshake (ALPN, RFC 7301), so that a browser that strays here is told at once.
const PROTOCOL: &[u8] = b"weir-link";

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn hub_name() -> ServerName<'static> {
    HUB_NAME.try_into().expect("it is a DNS name")
}

#[derive(Clone)]
struct Time(Arc<dyn Clock>);

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Time")
    }
}

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(self.0.now().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}

fn cannot(error: &dyn fmt::Display) -> LinkError {
    LinkError::new(Kind::Identity, format!("cannot set up TLS: {error}"))
}

/// A hub's side.
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
    let own = HubKey { authority, clock: Arc::clone(clock), current: Mutex::default() };
    let time = Arc::new(Time(Arc::clone(clock)));
    let mut config = ServerConfig::builder_with_details(provider(), time)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| cannot(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Without tickets each connection shows its certificate anew, so that a revocation cannot be slept through.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The hub's own certificate; a new one in time before the old one ends.
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
                Ok(made) => *current = Some(made),
                Err(error) => tracing::error!("{error}"),
            }
        }
        current.as_ref().map(|(key, _)| Arc::clone(key))
    }
}

/// An agent's side; it trusts the hubs that it joined, and shows each the certificate that it got there.
pub(crate) fn client(
    identities: &[Identity],
    clock: &Arc<dyn Clock>,
) -> Result<Arc<ClientConfig>, LinkError> {
    let mut roots = RootCertStore::empty();
    let mut keys = Vec::new();
    for identity in identities {
        roots.add(identity.authority.clone()).map_err(|error| cannot(&error))?;
        keys.push((identity.issuer.clone(), identity.certified()?));
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
    ClientConfig::builder_with_details(provider(), Arc::new(Time(Arc::clone(clock))))
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
        let signed = |issuer: &[u8]| hints.is_empty() || hints.contains(&issuer);
        self.0.iter().find(|(issuer, _)| signed(issuer)).map(|(_, key)| Arc::clone(key))
    }

    fn has_certs(&self) -> bool {
        !self.0.is_empty()
    }
}

/// The side of somebody who has a join token: it trusts the one authority whose fingerprint the token has. What the hub
/// sent as its authority is kept for later.
pub(crate) fn stranger(
    fingerprint: [u8; 32],
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<ClientConfig>, Arc<Pinned>), LinkError> {
    let pinned = Arc::new(Pinned { fingerprint, found: Mutex::default() });
    let builder = client_builder(clock)?.dangerous();
    let mut config = builder
        .with_custom_certificate_verifier(Arc::clone(&pinned) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok((Arc::new(config), pinned))
}

/// Trusts one fingerprint.
pub(crate) struct Pinned {
    fingerprint: [u8; 32],
    found: Mutex<Option<CertificateDer<'static>>>,
}

impl Pinned {
    /// The authority of the fingerprint, once a hub has shown it.
    pub(crate) fn authority(&self) -> Option<CertificateDer<'static>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}

impl ServerCertVerifier for Pinned {
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
            .find(|certificate| secret::is_same(&secret::sha256(certificate), &self.fingerprint))
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

/// A failed handshake, or what TLS said later, in words.
pub(crate) fn explain(address: &str, now: Micros, error: &std::io::Error) -> LinkError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        let text = format!("the connection to `{address}` was cut before it was made");
        return LinkError::new(Kind::Unreachable, text);
    }
    let Some(inner) = inner else {
        return LinkError::new(
            Kind::Unreachable,
            format!("cannot reach the hub at `{address}`: {error}"),
        )
        .hint("is it a hub's address for agents (`link.listen`), and not that of its page?");
    };
    let cannot = |why: String| {
        LinkError::new(Kind::Identity, format!("cannot trust the hub at `{address}`: {why}"))
    };
    let clock = "set this host's clock, or the hub's: `timedatectl`; then it goes on by itself";
    match inner {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            cannot("it belongs to another fleet than the token or the certificate: its CA is another one".into())
                .hint("`weir hub invite` on that hub prints a token of its fleet; `weir agent join TOKEN` here joins it")
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        }) => {
            let from = Micros(0) + Duration::from_secs(not_before.as_secs());
            cannot(format!("here it is {now}, and its certificate begins at {from}")).hint(clock)
        }
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            let until = Micros(0) + Duration::from_secs(not_after.as_secs());
            cannot(format!("here it is {now}, and its certificate ended at {until}")).hint(clock)
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => LinkError::new(
            Kind::Identity,
            format!("the hub at `{address}` says that this agent's certificate is over, or not valid yet"),
        )
        .hint("set the clock that is wrong; after a long time off: `weir hub invite --name NAME`, `weir agent join TOKEN`"),
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => LinkError::new(
            Kind::Identity,
            format!("the hub at `{address}` does not know this agent's certificate"),
        )
        .hint("join it: `weir hub invite` there, `weir agent join TOKEN` here"),
        other => LinkError::new(
            Kind::Identity,
            format!("cannot talk to the hub at `{address}`: {other}"),
        )
        .hint("is it a hub's address for agents (`link.listen`), and not that of its page?"),
    }
}
