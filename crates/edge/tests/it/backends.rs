//! A real nginx as backend: HTTP/1.1 and HTTP/2, plain, TLS and mutual TLS; pools by route.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use weir_edge::{BackendSettings, CertificateFiles, RouteSettings, Settings};

use crate::lab::{Lab, backend, h2c_settings, settings, wait_until};

/// A CA, with a server certificate for `localhost` and a client certificate.
struct CertificateSet {
    authority: std::path::PathBuf,
    server: CertificateFiles,
    client: CertificateFiles,
}

fn papers(dir: &Path, prefix: &str) -> CertificateSet {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    // Not rcgen's default name: a certificate with the name of its issuer looks self-signed.
    params.distinguished_name.push(DnType::CommonName, format!("{prefix} authority"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
    let authority = dir.join(format!("{prefix}-ca.pem"));
    std::fs::write(&authority, issuer.pem()).expect("a directory");
    let [server, client] = ["localhost", "edge.example"].map(|name| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let files = CertificateFiles {
            certificate: dir.join(format!("{prefix}-{name}.pem")),
            key: dir.join(format!("{prefix}-{name}.key")),
        };
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        std::fs::write(&files.certificate, certificate.pem()).expect("a directory");
        std::fs::write(&files.key, key.serialize_pem()).expect("a directory");
        files
    });
    CertificateSet { server, client, authority }
}

/// An nginx with a different protocol on each port; killed when dropped.
struct Nginx {
    child: Child,
    ports: Vec<u16>,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts nginx with HTTP/1.1, h2c, TLS, HTTP/2 over TLS, and mutual TLS. `/echo` is proxied to
/// `echo`.
fn nginx(dir: &Path, papers: &CertificateSet, echo: SocketAddr) -> Nginx {
    let held: Vec<_> =
        (0..5).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let ports: Vec<u16> =
        held.iter().map(|one| one.local_addr().expect("it is bound").port()).collect();
    drop(held);
    let here = dir.display();
    let (certificate, key) = (papers.server.certificate.display(), papers.server.key.display());
    let tls = format!("ssl_certificate {certificate}; ssl_certificate_key {key};");
    let ask = format!(
        "{tls} ssl_verify_client on; ssl_client_certificate {};",
        papers.authority.display()
    );
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {here}/{name};"))
        .concat();
    let servers: String = [
        (ports[0], "", ""),
        (ports[1], "http2", ""),
        (ports[2], "ssl", &tls),
        (ports[3], "ssl http2", &tls),
        (ports[4], "ssl", &ask),
    ]
    .map(|(port, protocol, more)| {
        format!(
            "server {{ listen 127.0.0.1:{port} {protocol}; {more} location /echo {{ proxy_pass http://{echo}; }}\n\
             location / {{ return 200 \"$server_protocol $host $http_x_forwarded_proto $ssl_client_verify $request_uri\"; }} }}\n"
        )
    })
    .concat();
    let config = format!(
        "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;\nevents {{}}\n\
         http {{ access_log off; {temporary}\n{servers} }}\n"
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, config).expect("a directory");
    let child = Command::new("/usr/sbin/nginx")
        .arg("-c")
        .arg(&file)
        .arg("-e")
        .arg(dir.join("start.log"))
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is installed by `cargo xtask test`");
    let nginx = Nginx { child, ports };
    wait_until("nginx", || std::net::TcpStream::connect(("127.0.0.1", nginx.ports[0])).is_ok());
    nginx
}

fn to(papers: &CertificateSet, backends: &[&str]) -> Settings {
    let mut settings = settings(&[]);
    let parsed = backends.iter().map(|text| BackendSettings::parse(text));
    settings.backends = parsed.collect::<Result<_, _>>().expect("backends");
    settings.backend_tls.authorities.clone_from(&papers.authority);
    settings
}

#[test]
fn each_backend_protocol_works_and_reuses_connections() {
    let dir = tempfile::tempdir().expect("a directory");
    let papers = papers(dir.path(), "own");
    let echo = backend(|asked| {
        let text = asked.head.to_ascii_lowercase();
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        std::io::Read::read_exact(asked.stream, &mut body).expect("a body");
        asked.ok(&String::from_utf8_lossy(&body))
    });
    let nginx = nginx(dir.path(), &papers, echo);
    let p = &nginx.ports;
    let client = Some(papers.client.clone());
    for (backend, certificate, said) in [
        (format!("http://localhost:{}", p[0]), None, "HTTP/1.1 a http "),
        (format!("h2c://localhost:{}", p[1]), None, "HTTP/2.0 a http "),
        (format!("https://localhost:{}", p[2]), None, "HTTP/1.1 a http NONE"),
        (format!("h2://localhost:{}", p[3]), None, "HTTP/2.0 a http NONE"),
        (format!("https://localhost:{}", p[4]), client, "HTTP/1.1 a http SUCCESS"),
    ] {
        let mut settings = to(&papers, &[&backend]);
        settings.backend_tls.certificate = certificate;
        let lab = Lab::start(settings);
        for _ in 0..3 {
            let answer = lab.get("/x?y=1");
            assert!(answer.starts_with("HTTP/1.1 200"), "{backend}: {answer}");
            assert!(answer.ends_with(&format!("{said} /x?y=1")), "{backend}: {answer}");
        }
        let body = "0123456789".repeat(20_000);
        let answer = lab.say(&format!(
            "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert!(answer.ends_with(&body), "{backend}: {} bytes", answer.len());
        let rows = lab.rows("request", 4);
        assert!(rows.iter().all(|row| row["upstream_status_code"] == "200"), "{rows:#?}");
        let connected: Vec<f64> = rows
            .iter()
            .map(|row| row["upstream_connect_seconds"].parse().expect("seconds"))
            .collect();
        assert!(connected[0] > 0.0, "{connected:?}");
        assert_eq!(connected[1..], [0.0; 3], "{backend}: the connection is used again");
    }
}

#[test]
fn a_backend_with_a_wrong_certificate_gets_no_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let (own, other) = (papers(dir.path(), "own"), papers(dir.path(), "other"));
    let nginx = nginx(dir.path(), &own, "127.0.0.1:9".parse().expect("an address"));
    let p = &nginx.ports;
    for (backend, papers) in [
        // Another authority; a name that the certificate does not have; plain HTTP; HTTP/1.1 only.
        (format!("https://localhost:{}", p[2]), &other),
        (format!("https://127.0.0.1:{}", p[2]), &own),
        (format!("https://localhost:{}", p[0]), &own),
        (format!("h2://localhost:{}", p[2]), &own),
    ] {
        let lab = Lab::start(to(papers, &[&backend]));
        assert!(lab.get("/").starts_with("HTTP/1.1 502"), "{backend}");
        assert_eq!(lab.request()["failure"], "connect_tls", "{backend}");
    }
    // Mutual TLS without a certificate: TLS 1.3 reports it only after the handshake.
    let lab = Lab::start(to(&own, &[&format!("https://localhost:{}", p[4])]));
    assert!(!lab.get("/").starts_with("HTTP/1.1 200"));
}

fn routes(texts: &[&str]) -> Vec<RouteSettings> {
    texts.iter().map(|text| RouteSettings::parse(text).expect("a route")).collect()
}

/// The body of the response to `HOST/PATH`.
fn get(lab: &Lab, url: &str) -> String {
    let (host, path) = url.split_once('/').expect("a path");
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    lab.say(&request).rsplit("\r\n").next().unwrap_or_default().to_owned()
}

#[test]
fn routes_choose_the_pool_and_change_while_it_runs() {
    let [rest, api, files] =
        ["rest", "api", "files"].map(|name| backend(move |asked| asked.ok(name)).to_string());
    let mut settings = settings(&[]);
    settings.backends = [rest.clone(), format!("api={api}"), format!("files={files}")]
        .map(|text| BackendSettings::parse(&text).expect("a backend"))
        .into();
    settings.routes = routes(&["/static/=files", "*.api.example=api"]);
    let lab = Lab::start(settings.clone());
    assert_eq!(get(&lab, "a/"), "rest");
    assert_eq!(get(&lab, "v1.API.example:80/"), "api");
    assert_eq!(get(&lab, "v1.api.example/static/x"), "files");
    assert_eq!(get(&lab, "a/static"), "rest");
    settings.routes = routes(&["/static/=api", "*.api.example=files"]);
    settings.backends.remove(0);
    let lines = lab.edge.as_ref().expect("it runs").change(&settings).expect("good settings");
    assert_eq!(lines.len(), 5, "{lines:?}");
    wait_until("the new routes", || get(&lab, "v1.api.example/") == "files");
    assert_eq!(get(&lab, "a/static/x"), "api");
    assert!(get(&lab, "a/").starts_with("404 no backend"), "the default pool is empty");
    settings.routes.clear();
    let error = lab.edge.as_ref().expect("it runs").change(&settings).expect_err("pools unused");
    assert!(error.to_string().contains("no route leads to its pool"), "{error}");
}

#[test]
fn trailers_pass_through_two_edges_with_http2_between_them() {
    let app = backend(|asked| {
        asked.answer(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: grpc-status\r\n\r\n\
             2\r\nok\r\n0\r\ngrpc-status: 7\r\n\r\n",
        );
        true
    });
    let inner = Lab::start(h2c_settings(&[app]));
    let mut between = h2c_settings(&[]);
    let text = format!("h2c://{}", inner.address);
    between.backends = vec![BackendSettings::parse(&text).expect("a backend")];
    let outer = Lab::start(between);
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--http2-prior-knowledge", "--dump-header", "-"])
        .args(["--header", "TE: trailers", &format!("http://{}/x", outer.address)])
        .output()
        .expect("curl is installed by `cargo xtask test`");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("HTTP/2 200") && said.contains("grpc-status: 7"), "{said}");
    let (inner, outer) = (inner.request(), outer.request());
    assert_eq!(inner["request_id"], outer["request_id"]);
    assert_eq!((&*inner["network_protocol_version"], &*outer["response_body_bytes"]), ("2", "2"));
}

#[test]
fn a_client_may_speak_http2_without_tls() {
    let app = backend(|asked| asked.ok(asked.head.lines().next().expect("a line")));
    let lab = Lab::start(h2c_settings(&[app]));
    let output = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--http2-prior-knowledge"])
        .args(["--write-out", " %{http_version}", &format!("http://{}/x", lab.address)])
        .output()
        .expect("curl is installed by `cargo xtask test`");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "GET /x HTTP/1.1 2");
    let row = lab.request();
    assert_eq!((&*row["network_protocol_version"], &*row["url_scheme"]), ("2", "http"));
}
