//! TLS for all protocols: one certificate, and client certificates if an authority is configured.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A TLS server with its certificate and key.
#[derive(Clone)]
pub struct TlsServer {
    acceptor: TlsAcceptor,
    /// Whether clients must have a certificate of the configured authority.
    pub has_client_check: bool,
}

impl TlsServer {
    /// Reads PEM files. With `client_authority`, only clients with its certificates are accepted.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub fn load(
        certificate: &Path,
        key: &Path,
        client_authority: Option<&Path>,
    ) -> Result<Self, String> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
            format!("cannot read a private key from `{}`: {error}", key.display())
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("cannot use TLS: {error}"))?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(path)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| {
                            format!("cannot use `{}` as client authority: {error}", path.display())
                        })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(|error| {
            format!("cannot use `{}` with `{}`: {error}", certificate.display(), key.display())
        })?;
        // Syslog shippers never read, and an unread ticket would hide a closed connection from
        // them.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, has_client_check: client_authority.is_some() })
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// When the client fails it, lacks a required certificate, or takes too long.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let accepted = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        accepted.unwrap_or_else(|_| Err(io::Error::from(ErrorKind::TimedOut)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let problem = match all {
        Ok(all) if !all.is_empty() => return Ok(all),
        Ok(_) => "it holds none".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("cannot read certificates from `{}`: {problem}", path.display()))
}
