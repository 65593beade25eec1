//! Probes of real servers on the loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use weir_tables::Micros;

use super::deadline::Deadline;
use super::*;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A root and a certificate of it for `shop.example` that is valid for five days.
const CERTIFICATES: &str = r#"
    set -e
    for name in root leaf; do openssl ecparam -name prime256v1 -genkey -noout -out $name.key; done
    openssl req -x509 -new -key root.key -subj /CN=root -days 30 -out root.pem \
      -addext basicConstraints=critical,CA:TRUE
    printf 'subjectAltName=DNS:shop.example,IP:127.0.0.1\n' > leaf.ext
    openssl req -new -key leaf.key -subj /CN=leaf | openssl x509 -req -CA root.pem -CAkey root.key \
      -days 5 -set_serial 7 -extfile leaf.ext -out leaf.pem
"#;

/// A process that is killed at the end of a test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spec(work: CheckWork) -> CheckSpec {
    let (name, service, interval) = ("x".to_owned(), None, Duration::from_secs(60));
    CheckSpec { name, service, interval, timeout: PATIENCE, work }
}

fn run_at(work: CheckWork, now: Micros) -> CheckOutcome {
    run_check(&spec(work), &CheckHost { now, control: &PluginControl::default() })
}

fn run(work: CheckWork) -> CheckOutcome {
    run_at(work, Micros(0))
}

fn http(url: &str) -> HttpCheck {
    HttpCheck { url: HttpUrl::parse(url).unwrap(), statuses: vec![], body: None, ca_file: None }
}

/// Starts nginx with a certificate; `None` if a program is missing.
fn nginx(dir: &Path, plain: u16, tls: u16) -> Option<Server> {
    let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(dir).output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = format!(
        "daemon off; master_process off; pid {dir}/pid; error_log stderr; events {{}}
         http {{ access_log off; client_body_temp_path {dir}/a; proxy_temp_path {dir}/b;
           fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
           server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl;
             ssl_certificate {dir}/leaf.pem; ssl_certificate_key {dir}/leaf.key;
             location / {{ return 200 \"welcome to the shop\"; }}
             location /gone {{ return 404; }} location /moved {{ return 301 /; }} }} }}",
        dir = dir.display(),
    );
    std::fs::write(dir.join("nginx.conf"), config).unwrap();
    let child = Command::new("nginx")
        .arg("-c")
        .arg(dir.join("nginx.conf"))
        .arg("-p")
        .arg(dir)
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let server = Server(child);
    let connect = Deadline::after(PATIENCE);
    while std::net::TcpStream::connect(("127.0.0.1", tls)).is_err() {
        assert!(connect.left().is_ok(), "nginx does not listen");
        thread::park_timeout(Duration::from_millis(5));
    }
    Some(server)
}

#[test]
fn nginx_is_probed_over_http_and_tls() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, tls) = (free_port(), free_port());
    let Some(_server) = nginx(dir.path(), plain, tls) else {
        println!("skipped: nginx or openssl is missing (cargo xtask setup)");
        return;
    };
    let base = format!("http://127.0.0.1:{plain}");
    let body = |text: &str| Some(text.to_owned());
    for (check, state, output) in [
        (http(&base), CheckState::Ok, "status 200".to_owned()),
        (http(&format!("{base}/moved")), CheckState::Ok, "status 301".into()),
        (
            http(&format!("{base}/gone")),
            CheckState::Critical,
            "status 404, expected below 400".into(),
        ),
        (
            HttpCheck { body: body("the shop"), ..http(&base) },
            CheckState::Ok,
            "status 200, text found".into(),
        ),
        (
            HttpCheck { body: body("the bank"), ..http(&base) },
            CheckState::Critical,
            "status 200, but the body lacks `the bank`".into(),
        ),
        (
            HttpCheck {
                statuses: vec![StatusRange::parse("404").unwrap()],
                ..http(&format!("{base}/gone"))
            },
            CheckState::Ok,
            "status 404".into(),
        ),
        (
            HttpCheck {
                ca_file: Some(dir.path().join("root.pem")),
                ..http(&format!("https://127.0.0.1:{tls}/"))
            },
            CheckState::Ok,
            "status 200".into(),
        ),
    ] {
        let outcome = run(CheckWork::Http(check));
        assert_eq!((outcome.state, &outcome.output), (state, &output), "{outcome:?}");
    }
    let untrusted = run(CheckWork::Http(http(&format!("https://127.0.0.1:{tls}/"))));
    assert_eq!(untrusted.state, CheckState::Critical);
    assert!(untrusted.output.contains("certificate"), "{untrusted:?}");
    certificates_are_judged(dir.path(), &format!("127.0.0.1:{tls}"));
}

fn certificates_are_judged(dir: &Path, address: &str) {
    let made = std::fs::metadata(dir.join("leaf.pem")).unwrap().modified().unwrap();
    let made = made.duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Micros(0) + made + Duration::from_secs(60);
    let check = |name: &str, days: u64| {
        let mut check = TlsCheck::new(address, Some(name)).unwrap();
        check.certificate_days = days;
        check.ca_file = Some(dir.join("root.pem"));
        check
    };
    for (check, now, state, output) in [
        (
            check("shop.example", 14),
            now,
            CheckState::Warning,
            "the certificate is valid for 5.0 days",
        ),
        (check("127.0.0.1", 3), now, CheckState::Ok, "the certificate is valid for 5.0 days"),
        (
            check("bank.example", 3),
            now,
            CheckState::Critical,
            "the certificate names shop.example, not bank.example",
        ),
        (
            check("shop.example", 3),
            now + Duration::from_secs(6 * 86_400),
            CheckState::Critical,
            "the certificate expired 1.0 days ago",
        ),
        (
            TlsCheck::new(address, Some("shop.example")).unwrap(),
            now,
            CheckState::Critical,
            "clients do not trust the certificate: unknown issuer (issuer CN=root)",
        ),
    ] {
        let outcome = run_at(CheckWork::Tls(check), now);
        assert_eq!((outcome.state, outcome.output.as_str()), (state, output), "{outcome:?}");
    }
}

/// louislam/uptime-kuma#7691: a reset after the greeting is a failed connection for MySQL, which
/// then locks the host out.
#[test]
fn server_that_greets_sees_an_orderly_end_and_no_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, seen) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"J\0\0\0\n8.0.36\0 a greeting").unwrap();
        let mut buffer = [0; 16];
        sender.send(stream.read(&mut buffer).map_err(|error| error.kind())).unwrap();
        let late = stream.write_all(b"more").and_then(|()| stream.read(&mut buffer));
        sender.send(late.map_err(|error| error.kind())).unwrap();
    });
    let outcome = run(CheckWork::Tcp(TcpCheck::new(&address).unwrap()));
    assert_eq!(outcome.state, CheckState::Ok, "{outcome:?}");
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), Ok(0));
    assert_eq!(seen.recv_timeout(PATIENCE).unwrap(), Ok(0));
}

#[test]
fn refused_connections_and_unknown_names_are_failures_with_the_reason() {
    let address = format!("127.0.0.1:{}", free_port());
    let outcome = run(CheckWork::Tcp(TcpCheck::new(&address).unwrap()));
    assert_eq!(outcome, CheckOutcome::new(CheckState::Critical, "connection refused"));
    let outcome = run(CheckWork::Http(http("http://no-such-name.invalid/")));
    assert_eq!(outcome.state, CheckState::Critical);
    assert!(outcome.output.starts_with("cannot resolve `no-such-name.invalid`: "), "{outcome:?}");
}

#[test]
fn server_that_sends_a_byte_at_a_time_is_left_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Ends when the probe has left.
        while stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\n").is_ok() {
            thread::park_timeout(Duration::from_millis(20));
        }
    });
    let timeout = Duration::from_millis(300);
    let slow = CheckSpec { timeout, ..spec(CheckWork::Http(http(&url))) };
    let host = CheckHost { now: Micros(0), control: &PluginControl::default() };
    let outcome = run_check(&slow, &host);
    assert_eq!(outcome, CheckOutcome::new(CheckState::Critical, "no response within 0.3 s"));
}

/// Answers queries for A with the address 192.0.2.10 and for AAAA with none; other names with
/// NXDOMAIN.
fn name_server() -> SocketAddr {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, from)) = server.recv_from(&mut bytes) {
            let mut answer = bytes[..length].to_vec();
            answer[2] |= 0x80;
            let is_known = answer[12..].starts_with(b"\x03www\x07example\x03org\0");
            if !is_known {
                answer[3] = 3;
            } else if answer[length - 3] == 1 {
                answer[7] = 1;
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 10]);
            }
            server.send_to(&answer, from).unwrap();
        }
    });
    address
}

#[test]
fn names_are_resolved_at_the_given_server_and_addresses_compared() {
    let resolver = Some(name_server());
    let expected: Vec<IpAddr> = vec!["192.0.2.10".parse().unwrap()];
    let other: Vec<IpAddr> = vec!["192.0.2.11".parse().unwrap()];
    let check = |name: &str, addresses: &[IpAddr]| DnsCheck {
        resolver,
        addresses: addresses.to_vec(),
        ..DnsCheck::new(name).unwrap()
    };
    let outcome = run(CheckWork::Dns(check("www.example.org", &expected)));
    assert_eq!((outcome.state, outcome.output.as_str()), (CheckState::Ok, "192.0.2.10"));
    let outcome = run(CheckWork::Dns(check("WWW.example.org.", &other)));
    assert_eq!(outcome.state, CheckState::Critical);
    assert!(outcome.output.ends_with("answers 192.0.2.10, without 192.0.2.11"), "{outcome:?}");
    let outcome = run(CheckWork::Dns(check("no.example.org", &[])));
    assert!(outcome.output.ends_with("has no address of the name (NXDOMAIN)"), "{outcome:?}");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let resolver = Some(silent.local_addr().unwrap());
    let work = CheckWork::Dns(DnsCheck { resolver, ..DnsCheck::new("www.example.org").unwrap() });
    let hasty = CheckSpec { timeout: Duration::from_millis(100), ..spec(work) };
    let host = CheckHost { now: Micros(0), control: &PluginControl::default() };
    let outcome = run_check(&hasty, &host);
    assert!(outcome.output.starts_with("no answer from 127.0.0.1:"), "{outcome:?}");
}
