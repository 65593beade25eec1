//! TLS to backends: which authorities to trust, and the edge's own certificate for mutual TLS.

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
use crate::tls::crypto::provider;

const KEYS: &str =
    "`edge.backend_ca_file`, `edge.backend_certificate_file` and `edge.backend_key_file` are PEM";

/// TLS connectors for backends, with session resumption.
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
    /// Reads the trusted authorities and the edge's own certificate.
    pub(crate) fn load(settings: &BackendTlsSettings) -> Result<Arc<Self>, EdgeError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| cannot_use(&error))?
            .with_root_certificates(authorities(&settings.authorities, KEYS)?);
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain = certificates(&files.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&files.key)
                    .map_err(|error| cannot_read("private key", &files.key, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| cannot_use(&error))?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut h2 = config.clone();
        h2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(Self { http1: Arc::new(config).into(), h2: Arc::new(h2).into() }))
    }

    /// Completes the handshake; the backend must present a certificate for `host`.
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
            return Err(std::io::Error::other("the backend does not support HTTP/2"));
        }
        Ok(stream)
    }
}

/// The authorities in a file; `hint` names the configuration key of the file.
pub(crate) fn authorities(path: &Path, hint: &str) -> Result<RootCertStore, EdgeError> {
    let mut roots = RootCertStore::empty();
    let all = certificates(path).map_err(|error| EdgeError::new(error.message).hint(hint))?;
    let (known, _invalid) = roots.add_parsable_certificates(all);
    if known == 0 {
        return Err(cannot_read("certificate", path, &"the file contains none").hint(hint));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, EdgeError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| cannot_read("certificate", path, &error))
}

fn cannot_use(error: &rustls::Error) -> EdgeError {
    EdgeError::new(format!("cannot use TLS to backends: {error}"))
        .hint("the key in `edge.backend_key_file` must belong to the first certificate")
}

fn cannot_read(what: &str, path: &Path, error: &dyn fmt::Display) -> EdgeError {
    EdgeError::new(format!("cannot read a {what} from `{}`: {error}", path.display())).hint(KEYS)
}
