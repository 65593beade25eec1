//! TLS to a database server: what is believed of its certificate, in the words of PostgreSQL's `sslmode`.
//!
//! `require` takes any certificate, so it keeps those who listen out, but not those who answer in the server's stead: a
//! password in clear is sent only where the certificate was verified.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::super::tls::Anyone;
use super::stream::Fault;

/// What must be right about a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseVerify {
    /// Nothing: the connection is only encrypted.
    Require,
    /// An authority that is trusted has signed it.
    VerifyCa,
    /// The same, and it names the server.
    VerifyFull,
}

/// What a client shows and believes; in PEM.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatabasePem<'a> {
    /// Authorities that are trusted; not needed where nothing is verified.
    pub authorities: &'a [u8],
    /// The client's certificate with what it was signed by, and its key.
    pub identity: Option<(&'a [u8], &'a [u8])>,
}

/// How connections to one server are encrypted.
#[derive(Clone, Debug)]
pub struct DatabaseTls {
    config: Arc<ClientConfig>,
    verify: DatabaseVerify,
    /// The name that the certificate must have, where it is not that of the address.
    server_name: Option<String>,
}

impl DatabaseTls {
    /// Connections with these certificates.
    ///
    /// # Errors
    /// When a PEM text has none, or they cannot be used; in words.
    pub fn new(
        verify: DatabaseVerify,
        pem: DatabasePem<'_>,
        server_name: Option<String>,
    ) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match verify {
            DatabaseVerify::Require => Arc::new(Anyone(Arc::clone(&provider))),
            DatabaseVerify::VerifyFull => authority(&provider, pem.authorities)?,
            DatabaseVerify::VerifyCa => Arc::new(AnyName(authority(&provider, pem.authorities)?)),
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
                builder.with_client_auth_cert(certificates(certificate)?, key).map_err(|error| {
                    format!("the certificate and its key cannot be used: {error}")
                })?
            }
        };
        Ok(Self { config: Arc::new(config), verify, server_name })
    }

    /// Whether who answers is known to be the server.
    pub(super) fn is_verified(&self) -> bool {
        self.verify != DatabaseVerify::Require
    }

    /// A connection to this host that has not said anything yet.
    pub(super) fn begin(&self, host: &str) -> Result<ClientConnection, Fault> {
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|_| {
            Fault::Unsupported("its address is no name that a certificate can have".to_owned())
        })?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| refusal(&error))
    }
}

/// An error of TLS, which io::Error carries.
pub(super) fn fault(error: io::Error) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(inner) => refusal(inner),
        None => Fault::Io(error),
    }
}

fn refusal(error: &Error) -> Fault {
    Fault::Refused(match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is of an authority that is not trusted; set `ca_file`".to_owned()
        }
        Error::InvalidCertificate(why) => format!("its certificate is not accepted: {why}"),
        Error::AlertReceived(alert) => {
            format!("it broke TLS off: {alert:?}; does it want a certificate (`cert_file`)?")
        }
        other => format!("TLS failed: {other}"),
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("a certificate cannot be read: {error}"))?;
    if all.is_empty() { Err("there is no certificate (PEM)".to_owned()) } else { Ok(all) }
}

fn authority(
    provider: &Arc<CryptoProvider>,
    pem: &[u8],
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    // A system's bundle may have some of an old kind, which nobody can use.
    let (known, _unknown) = roots.add_parsable_certificates(certificates(pem)?);
    if known == 0 {
        return Err("there is no authority that can be used".to_owned());
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| error.to_string())
}

/// Takes the certificates of an authority whatever server they name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last, when all else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
