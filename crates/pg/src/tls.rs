//! TLS for clients that request it before the startup message.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A server certificate with its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Loads PEM files.
    ///
    /// # Errors
    /// What cannot be read or used, and why.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, String> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unreadable("certificates", certificate, &error))?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| unreadable("a private key", key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| {
                format!("cannot use `{}` with `{}`: {error}", certificate.display(), key.display())
            })?;
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let accepted = tokio::time::timeout(HANDSHAKE, self.0.accept(stream)).await;
        accepted.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    }
}

fn unreadable(what: &str, path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("cannot read {what} from `{}`: {why}", path.display())
}
