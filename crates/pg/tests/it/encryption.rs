//! TLS before the login: nothing that arrived in plain text counts behind it.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_pg::{ServerOptions, Tls};

use crate::kit::{TestServer, query, startup};

/// A request for TLS: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A server with a certificate for `localhost`.
async fn encrypted() -> (TestServer, CertificateDer<'static>) {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (dir.path().join("certificate"), dir.path().join("key"));
    std::fs::write(&certificate, made.cert.pem()).expect("room");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("room");
    let tls = Some(Tls::load(&certificate, &key).expect("a certificate with its key"));
    let options = ServerOptions { tls, is_tls_needed: true, ..ServerOptions::default() };
    (TestServer::start(options).await, made.cert.der().clone())
}

/// Everything up to the end of a connection, whichever way it ends.
async fn rest(mut from: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes).await;
    bytes
}

/// CVE-2021-23214 (a server keeps what came before the handshake), CVE-2021-23222,
/// CVE-2021-3935 of PgBouncer.
#[tokio::test]
async fn plain_text_behind_a_request_for_tls_is_never_run() {
    let (server, _) = encrypted().await;
    let hello = startup(&["user", "weir", "database", "weir"]);
    for injected in [hello.clone(), [hello, query("caller")].concat(), query("caller")] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(&[&SSL_REQUEST[..], &injected].concat()).await.unwrap();
        let reply = rest(client).await;
        assert_eq!(reply[0], b'S');
        let text = String::from_utf8_lossy(&reply[1..]);
        assert!(!text.contains("weir at") && !text.contains("server_version"), "{text}");
    }
}

#[tokio::test]
async fn what_comes_behind_the_handshake_is_run_and_a_second_request_for_tls_is_refused() {
    let (server, certificate) = encrypted().await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let hello = startup(&["user", "weir", "database", "weir"]);
    for (first, expected) in [
        ([&hello[..], &query("caller")].concat(), "weir at 127.0.0.1"),
        ([&SSL_REQUEST[..], &hello].concat(), "protocol version 1234 is not supported"),
    ] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(&SSL_REQUEST).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'S');
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = connector.connect(name, client).await.unwrap();
        client.write_all(&first).await.unwrap();
        let mut reply = Vec::new();
        while !String::from_utf8_lossy(&reply).contains(expected) {
            let count = client.read_buf(&mut reply).await.unwrap_or(0);
            assert!(count > 0, "{}", String::from_utf8_lossy(&reply));
        }
    }
}
