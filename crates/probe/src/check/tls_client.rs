//! TLS of probes: verified as a client of this host would, with its authorities and a named one.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::deadline::TimedStream;

/// The system's authorities are read once: there are 140 of them.
static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();

/// The authorities in a PEM file.
pub(super) fn authorities(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    all.map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("cannot read `{}`: {why}", path.display()))
}

fn config(own: Vec<CertificateDer<'static>>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let _ = roots.add_parsable_certificates(own);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A probe measures the whole handshake.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Completes a handshake over a connection.
pub(super) fn secure(
    mut stream: TimedStream,
    server_name: &str,
    ca_file: Option<&Path>,
) -> io::Result<StreamOwned<ClientConnection, TimedStream>> {
    let config = match ca_file {
        Some(path) => config(authorities(path)?)?,
        None => match SYSTEM.get() {
            Some(config) => Arc::clone(config),
            None => Arc::clone(SYSTEM.get_or_init(|| {
                config(Vec::new()).expect("ring supports the default protocol versions")
            })),
        },
    };
    let name = ServerName::try_from(server_name.to_owned())
        .map_err(|_| io::Error::other(format!("`{server_name}` is not a name for TLS")))?;
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}
