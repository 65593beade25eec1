//! TLS to backends: whom to believe, and the certificate that says who the edge is (mutual TLS).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::EdgeError;
use crate::settings::BackendTlsSettings;
use crate::settings::destination::Protocol;
use crate::tls::provider;

const KEYS: &str =
    "`edge.backend_ca_file`, `edge.backend_certificate_file` and `edge.backend_key_file` are PEM";

/// What connects to backends; sessions are resumed.
pub(crate) struct BackendTls {
    http1: TlsConnector,
    h2: TlsConnector,
}

impl fmt::Debug for BackendTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendTls").finish_non_exhaustive()
    }
}

impl BackendTls {
    /// Reads authorities and the edge's own certificate.
    pub(crate) fn load(settings: &BackendTlsSettings) -> Result<Arc<Self>, EdgeError> {
        let failed = |error: rustls::Error| {
            EdgeError::new(format!("cannot use TLS to backends: {error}"))
                .hint("the key of `edge.backend_key_file` must be that of the first certificate")
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(authorities(&settings.authorities, KEYS)?);
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain = certificates(&files.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&files.key)
                    .map_err(|error| unread("private key", &files.key, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(failed)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut h2 = config.clone();
        h2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(Self { http1: Arc::new(config).into(), h2: Arc::new(h2).into() }))
    }

    /// The handshake; the backend must show a certificate for `host`.
    pub(crate) async fn connect(
        &self,
        protocol: Protocol,
        host: &str,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        let connector = if protocol.is_h2() { &self.h2 } else { &self.http1 };
        let stream = connector.connect(name, stream).await?;
        if protocol.is_h2() && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(std::io::Error::other("it does not speak HTTP/2"));
        }
        Ok(stream)
    }
}

/// The authorities in a file; `hint` names the key that names it.
pub(crate) fn authorities(path: &Path, hint: &str) -> Result<RootCertStore, EdgeError> {
    let mut roots = RootCertStore::empty();
    let failed = |error: EdgeError| EdgeError::new(error.message).hint(hint);
    let (known, _unfit) = roots.add_parsable_certificates(certificates(path).map_err(failed)?);
    if known == 0 {
        return Err(failed(unread("certificate", path, &"there is none in it")));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, EdgeError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unread("certificate", path, &error))
}

fn unread(what: &str, path: &Path, error: &dyn fmt::Display) -> EdgeError {
    EdgeError::new(format!("cannot read a {what} from `{}`: {error}", path.display())).hint(KEYS)
}
