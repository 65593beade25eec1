//! TLS to a database server: how its certificate is verified, named after PostgreSQL's `sslmode`.
//!
//! `require` accepts any certificate, so it stops eavesdropping but not impersonation: a cleartext
//! password is sent only where the certificate was verified.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};

use super::stream::ProbeError;
use crate::tls::LenientVerifier;

/// How a server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseVerify {
    /// No verification: the connection is only encrypted.
    Require,
    /// A trusted authority has signed it.
    VerifyCa,
    /// A trusted authority has signed it, and it names the server.
    VerifyFull,
}

/// Certificates of a client and its trusted authorities, in PEM.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabasePem<'a> {
    /// Trusted authorities; not needed where nothing is verified.
    pub authorities: &'a [u8],
    /// Client certificate with its chain, and its key.
    pub identity: Option<(&'a [u8], &'a [u8])>,
}

/// TLS settings for one server.
#[derive(Clone, Debug)]
pub struct DatabaseTls {
    config: Arc<ClientConfig>,
    verify: DatabaseVerify,
    /// Name that the certificate must have, if it differs from the address.
    server_name: Option<String>,
}

impl DatabaseTls {
    /// Builds the settings from certificates.
    ///
    /// # Errors
    /// When a PEM text contains none, or they are unusable; as text.
    pub fn new(
        verify: DatabaseVerify,
        pem: DatabasePem<'_>,
        server_name: Option<String>,
    ) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match verify {
            DatabaseVerify::Require => Arc::new(LenientVerifier::Any(Arc::clone(&provider))),
            DatabaseVerify::VerifyFull => authority(&provider, pem.authorities)?,
            DatabaseVerify::VerifyCa => {
                Arc::new(LenientVerifier::AnyName(authority(&provider, pem.authorities)?))
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match pem.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| format!("the key cannot be read: {error}"))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|error| format!("the certificate and its key are unusable: {error}"))?
            }
        };
        Ok(Self { config: Arc::new(config), verify, server_name })
    }

    pub(super) fn is_verified(&self) -> bool {
        self.verify != DatabaseVerify::Require
    }

    pub(super) fn begin(&self, host: &str) -> Result<ClientConnection, ProbeError> {
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|_| {
            ProbeError::Unsupported(
                "its address is not a name that a certificate can contain".to_owned(),
            )
        })?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| refusal(&error))
    }
}

pub(super) fn fault(error: io::Error) -> ProbeError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(inner) => refusal(inner),
        None => ProbeError::Io(error),
    }
}

fn refusal(error: &Error) -> ProbeError {
    ProbeError::Refused(match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is signed by an untrusted authority; set `ca_file`".to_owned()
        }
        Error::InvalidCertificate(why) => format!("its certificate is not accepted: {why}"),
        Error::AlertReceived(alert) => {
            format!(
                "it aborted TLS: {alert:?}; does it require a client certificate (`cert_file`)?"
            )
        }
        other => format!("TLS failed: {other}"),
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("a certificate cannot be read: {error}"))?;
    if all.is_empty() { Err("it contains no certificate (PEM)".to_owned()) } else { Ok(all) }
}

fn authority(
    provider: &Arc<CryptoProvider>,
    pem: &[u8],
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    // Skip certificates of obsolete kinds, which system bundles may contain.
    let (known, _unknown) = roots.add_parsable_certificates(certificates(pem)?);
    if known == 0 {
        return Err("it contains no usable authority".to_owned());
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| error.to_string())
}
