//! TLS for every protocol that has it: one certificate, and client certificates when an authority for them is named.

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

/// How long a client may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A certificate with its key, ready to serve.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Whether clients have to show a certificate of the named authority.
    pub has_client_check: bool,
}

impl Tls {
    /// Reads PEM files. With `client_authority` only clients with a certificate of it are served.
    ///
    /// # Errors
    /// What cannot be read or used, and why.
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
        // Shippers of syslog never read. An unread ticket would hide from them that the connection has been closed.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, has_client_check: client_authority.is_some() })
    }

    /// The handshake.
    ///
    /// # Errors
    /// When the client breaks it, has no certificate where one is needed, or takes too long.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let accepted = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        accepted.unwrap_or_else(|_| Err(io::Error::from(ErrorKind::TimedOut)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let refused =
        |why: String| format!("cannot read certificates from `{}`: {why}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| refused(error.to_string()))?;
    if all.is_empty() {
        return Err(refused("there is none in it".into()));
    }
    Ok(all)
}
