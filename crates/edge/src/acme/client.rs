//! HTTPS to an ACME authority: one connection per request, with the TLS stack of the edge.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderValue, Request, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::EdgeError;
use crate::tls::backend_tls::authorities;
use crate::tls::crypto::provider;

/// Limit for one request and its response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest response; a certificate chain has a few KiB.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// The HTTP client of instant-acme.
#[derive(Clone)]
pub(crate) struct AuthorityClient(TlsConnector);

impl AuthorityClient {
    /// Trusts the certificate authorities (PEM) in `path`.
    pub(crate) fn new(path: &Path) -> Result<Self, EdgeError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| EdgeError::new(format!("cannot use TLS: {error}")))?
            .with_root_certificates(authorities(path, "`edge.acme_ca_file` must be PEM")?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config).into()))
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let connector = self.0.clone();
        Box::pin(async move {
            let url = request.uri().to_string();
            let response = tokio::time::timeout(TIMEOUT, send(connector, request)).await;
            let response = response.unwrap_or_else(|_| Err(other("no response within 30 s")));
            response.map_err(|error| other(format!("cannot reach `{url}`: {error}")))
        })
    }
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Other(error.into())
}

async fn send(
    connector: TlsConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<BytesResponse, Error> {
    let uri = request.uri().clone();
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
    let authority = authority.ok_or_else(|| other("not an https URL"))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host.clone()).map_err(other)?;
    let stream =
        TcpStream::connect((host, authority.port_u16().unwrap_or(443))).await.map_err(other)?;
    let stream = connector.connect(name, stream).await.map_err(other)?;
    let value = HeaderValue::try_from(authority.as_str()).map_err(other)?;
    request.headers_mut().insert(HOST, value);
    *request.uri_mut() = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(other)?;
    let (parts, body) = response.into_parts();
    let body = read(body).await?;
    driver.abort();
    Ok(BytesResponse { parts, body: Box::new(body) })
}

async fn read(mut body: Incoming) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame.map_err(other)?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            return Err(other("the response exceeds 1 MiB"));
        }
    }
    Ok(bytes.freeze())
}
