//! TLS: certificates by name, reloading, session resumption, HTTP/2 in front of HTTP/1.1.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use weir_edge::{CertificateFiles, Settings};

use crate::lab::{Lab, backend, read_all, reset, settings, wait_until};

fn write_certificate(dir: &Path, name: &str) -> CertificateFiles {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let files = CertificateFiles {
        certificate: dir.join(format!("{name}.pem")),
        key: dir.join(format!("{name}.key")),
    };
    std::fs::write(&files.certificate, made.cert.pem()).expect("a directory");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("a directory");
    files
}

fn with_tls(dir: &Path, app: std::net::SocketAddr) -> Settings {
    let mut settings = settings(&[app]);
    settings.listeners[0].is_tls = true;
    settings.certificates =
        ["a.example", "b.example"].map(|name| write_certificate(dir, name)).into();
    settings
}

/// The output of curl if it trusts `certificate`; `None` if it fails.
fn curl(lab: &Lab, name: &str, certificate: &Path, version: &str) -> Option<String> {
    let port = lab.address.port();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", version])
        .args(["--write-out", " %{http_version} %{response_code}"])
        .args(["--resolve", &format!("{name}:{port}:127.0.0.1"), "--cacert"])
        .arg(certificate)
        .arg(format!("https://{name}:{port}/x"))
        .output()
        .expect("curl is installed by `cargo xtask test`");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn names_have_their_certificates_and_http2_its_rows() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = backend(|asked| asked.ok(asked.head.lines().next().expect("a line")));
    let settings = with_tls(dir.path(), app);
    let files = settings.certificates.clone();
    let lab = Lab::start(settings);
    for (at, version) in [(0, "--http1.1"), (1, "--http2")] {
        let name = ["a.example", "b.example"][at];
        let answer = curl(&lab, name, &files[at].certificate, version);
        let shown = if at == 0 { "1.1" } else { "2" };
        assert_eq!(answer.as_deref(), Some(&*format!("GET /x HTTP/1.1 {shown} 200")));
    }
    assert_eq!(curl(&lab, "a.example", &files[1].certificate, "--http2"), None);
    let rows = lab.rows("request", 2);
    let versions: Vec<_> =
        rows.iter().map(|row| row["network_protocol_version"].as_str()).collect();
    assert_eq!(versions, ["1.1", "2"]);
    for row in &rows {
        assert_eq!(row["url_scheme"], "https");
        assert!(row["tls_handshake_seconds"].parse::<f64>().expect("a number") > 0.0);
        assert!(row["server_address"].contains(".example"), "{row:#?}");
    }
    assert_eq!(rows[0]["response_body_bytes"], "15");
    let refused = lab.rows("edge_refusal", 1);
    assert_eq!(refused[0]["reason"], "tls_handshake", "{refused:#?}");
}

/// grafana/grafana#112294, mholt/caddy-l4#302: checks of a balancer connect, and close or reset. A hello
/// that breaks off is a failed handshake.
#[test]
fn a_connection_without_a_byte_is_no_failed_handshake() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = backend(|asked| asked.ok("x"));
    let settings = with_tls(dir.path(), app);
    let certificate = settings.certificates[0].certificate.clone();
    let lab = Lab::start(settings);
    for _ in 0..3 {
        drop(lab.connect());
        reset(lab.connect());
        let mut check = lab.connect();
        check.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_all(&mut check), "");
    }
    assert!(curl(&lab, "a.example", &certificate, "--http1.1").is_some());
    let mut half = lab.connect();
    half.write_all(b"\x16\x03\x01\x02\x00\x01").expect("it is open");
    half.shutdown(Shutdown::Write).expect("it is open");
    read_all(&mut half);
    let rows = lab.end("edge_refusal");
    let reasons: Vec<_> = rows.iter().map(|row| (&*row["reason"], &*row["connections"])).collect();
    assert_eq!(reasons, [("tls_handshake", "1")], "{rows:#?}");
}

#[test]
fn a_certificate_that_changes_is_in_use_without_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = backend(|asked| asked.ok("x"));
    let settings = with_tls(dir.path(), app);
    let file = settings.certificates[0].certificate.clone();
    let old = dir.path().join("old.pem");
    std::fs::copy(&file, &old).expect("a directory");
    let lab = Lab::start(settings);
    assert!(curl(&lab, "a.example", &old, "--http1.1").is_some());
    write_certificate(dir.path(), "a.example");
    wait_until("the new certificate", || curl(&lab, "a.example", &file, "--http1.1").is_some());
    assert!(curl(&lab, "a.example", &old, "--http1.1").is_none());
}

/// The kind of handshake of one request.
fn visit(lab: &Lab, config: &Arc<ClientConfig>) -> Option<HandshakeKind> {
    let name = ServerName::try_from("a.example").expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a session");
    let socket = TcpStream::connect(lab.address).expect("it listens");
    let mut stream = StreamOwned::new(session, socket);
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("it reads");
    let _ = stream.read_to_end(&mut Vec::new());
    stream.conn.handshake_kind()
}

#[test]
fn sessions_are_resumed_at_the_edge_that_took_the_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = backend(|asked| asked.ok("x"));
    let settings = with_tls(dir.path(), app);
    let certificate = &settings.certificates[0].certificate;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let first = Lab::start(settings.clone());
    assert_eq!(visit(&first, &config), Some(HandshakeKind::Full));
    assert_eq!(visit(&first, &config), Some(HandshakeKind::Resumed));
    let other = Lab::start(settings.clone());
    assert_eq!(visit(&other, &config), Some(HandshakeKind::Full));
    // The client now holds a ticket of the other edge.
    assert_eq!(visit(&first, &config), Some(HandshakeKind::Full));
    let learnt = first.edge.as_ref().expect("it runs").learnt();
    other.edge.as_ref().expect("it runs").teach(&learnt);
    assert_eq!(visit(&other, &config), Some(HandshakeKind::Resumed));
}
