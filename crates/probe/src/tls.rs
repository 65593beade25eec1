//! One TLS handshake that accepts any certificate, to read it: RFC 8446, RFC 6066 §3 (SNI).
//!
//! Nothing is trusted: the connection is closed as soon as the certificates are known.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
};

/// Timeout for connecting, and for each read and write of the handshake.
const WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(super) struct Handshaker {
    config: Arc<ClientConfig>,
}

impl Handshaker {
    pub(super) fn new() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(LenientVerifier::Any(Arc::clone(&provider)));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Certificates sent for `server_name` (no SNI when it is empty), the server's own first.
    pub(super) fn certificates(
        &self,
        address: SocketAddr,
        server_name: &str,
    ) -> io::Result<Vec<CertificateDer<'static>>> {
        let mut socket = TcpStream::connect_timeout(&address, WAIT)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        let name =
            if server_name.is_empty() { address.ip().to_string() } else { server_name.to_owned() };
        self.complete(&mut socket, &name)
    }

    /// Certificates sent over a connection for a name; an address is no SNI.
    pub(super) fn complete(
        &self,
        socket: &mut (impl Read + Write),
        server_name: &str,
    ) -> io::Result<Vec<CertificateDer<'static>>> {
        let mut config = Arc::clone(&self.config);
        let name = match ServerName::try_from(server_name.to_owned()) {
            Ok(name @ ServerName::DnsName(_)) => name,
            other => {
                Arc::make_mut(&mut config).enable_sni = false;
                other.unwrap_or_else(|_| ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)))
            }
        };
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(socket)?;
        }
        connection.send_close_notify();
        let _ = connection.write_tls(socket);
        let shown = connection.peer_certificates().unwrap_or_default();
        Ok(shown.iter().map(|certificate| certificate.clone().into_owned()).collect())
    }
}

/// Accepts certificates that rustls would reject.
#[derive(Debug)]
pub(super) enum LenientVerifier {
    /// Accepts every certificate: weir only reads it.
    Any(Arc<CryptoProvider>),
    /// Accepts certificates of an authority whatever server they name.
    AnyName(Arc<WebPkiServerVerifier>),
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Self::AnyName(inner) = self else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked last, when everything else is valid.
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
        match self {
            Self::Any(_) => Ok(HandshakeSignatureValid::assertion()),
            Self::AnyName(inner) => inner.verify_tls12_signature(message, cert, dss),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self {
            Self::Any(_) => Ok(HandshakeSignatureValid::assertion()),
            Self::AnyName(inner) => inner.verify_tls13_signature(message, cert, dss),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self {
            Self::Any(provider) => provider.signature_verification_algorithms.supported_schemes(),
            Self::AnyName(inner) => inner.supported_verify_schemes(),
        }
    }
}
