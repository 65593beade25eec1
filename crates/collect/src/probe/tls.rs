//! One TLS handshake that accepts every certificate, to see which one is served: RFC 8446, RFC 6066
//! §3 (SNI).
//!
//! Nothing is sent after the handshake and nothing is trusted: the connection is closed as soon as
//! the certificates are known.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

/// Timeout for connecting, and for each read and write of the handshake.
const WAIT: Duration = Duration::from_secs(2);

/// Performs handshakes with any server.
#[derive(Clone, Debug)]
pub(super) struct Handshaker {
    config: Arc<ClientConfig>,
}

impl Handshaker {
    pub(super) fn new() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(AcceptAnyCertificate(Arc::clone(&provider)));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Certificates that the server at `address` sends for `server_name` (no SNI when it is empty),
    /// its own first.
    pub(super) fn certificates(
        &self,
        address: SocketAddr,
        server_name: &str,
    ) -> io::Result<Vec<CertificateDer<'static>>> {
        let mut config = Arc::clone(&self.config);
        let name = match ServerName::try_from(server_name.to_owned()) {
            Ok(name) if !server_name.is_empty() => name,
            _ => {
                Arc::make_mut(&mut config).enable_sni = false;
                ServerName::from(address.ip())
            }
        };
        let mut socket = TcpStream::connect_timeout(&address, WAIT)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        connection.send_close_notify();
        let _ = connection.write_tls(&mut socket);
        let shown = connection.peer_certificates().unwrap_or_default();
        Ok(shown.iter().map(|certificate| certificate.clone().into_owned()).collect())
    }
}

/// Accepts every certificate: weir only reads it.
#[derive(Debug)]
pub(super) struct AcceptAnyCertificate(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
