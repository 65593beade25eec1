//! Certificates from Pebble, Let's Encrypt's test authority, which validates at the listeners.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_edge::{AcmeSettings, ListenerSettings, Settings};
use weir_tables::Micros;

use crate::lab::{Lab, backend, settings, unused_address, wait_until};
use crate::name_server::{NameServer, Reply};

/// A name that does not exist in DNS.
const NOWHERE: &str = "nowhere.example";

/// A name server where every name but [`NOWHERE`] is this host.
fn name_server() -> NameServer {
    NameServer::start("", |question| match &*question.name {
        NOWHERE => Reply::code(3),
        _ => Reply::of(question, 60, &["127.0.0.1"]),
    })
}

/// A running Pebble.
struct PebbleServer {
    dir: tempfile::TempDir,
    child: Option<Child>,
    names: NameServer,
    directory: SocketAddr,
    managed: SocketAddr,
    /// Where Pebble validates; the edge must listen there.
    http: SocketAddr,
    tls: SocketAddr,
}

impl PebbleServer {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it can");
        std::fs::write(dir.path().join("ca.pem"), made.cert.pem()).expect("room");
        std::fs::write(dir.path().join("ca.key"), made.signing_key.serialize_pem()).expect("room");
        let [directory, managed, http, tls] = std::array::from_fn(|_| unused_address());
        let mut authority =
            Self { dir, child: None, names: name_server(), directory, managed, http, tls };
        authority.run();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&mut self) {
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{}", "managementListenAddress": "{}", "certificate": "{}",
            "privateKey": "{}", "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "",
            "externalAccountBindingRequired": false}}}}"#,
            self.directory,
            self.managed,
            self.path("ca.pem").display(),
            self.path("ca.key").display(),
            self.http.port(),
            self.tls.port()
        );
        std::fs::write(self.path("pebble.json"), config).expect("room");
        let log = std::fs::File::create(self.path("pebble.log")).expect("room");
        let child = Command::new("pebble")
            .arg("-config")
            .arg(self.path("pebble.json"))
            .args(["-dnsserver", &format!("127.0.0.1:{}", self.names.resolver().port)])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("pebble is installed by `cargo xtask test`");
        self.child = Some(child);
        wait_until("pebble", || std::net::TcpStream::connect(self.managed).is_ok());
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The root of the issued certificates.
    fn root(&self) -> PathBuf {
        let path = self.path("root.pem");
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--cacert"])
            .arg(self.path("ca.pem"))
            .arg(format!("https://localhost:{}/roots/0", self.managed.port()))
            .stderr(Stdio::inherit())
            .output()
            .expect("curl is installed by `cargo xtask test`");
        std::fs::write(&path, output.stdout).expect("room");
        path
    }

    /// Settings with both kinds of listeners at the ports where Pebble validates.
    fn settings(&self, names: &[&str], challenge: &str) -> Settings {
        let app = backend(|asked| asked.ok("app"));
        let directory = format!("https://localhost:{}/dir", self.directory.port());
        Settings {
            listeners: vec![listener(self.http, false), listener(self.tls, true)],
            acme: Some(AcmeSettings {
                certificates: names.iter().map(|one| one.parse().expect("names")).collect(),
                directory: directory.parse().expect("a URL"),
                contact: vec!["mailto:web@a.example".into()],
                dir: self.path("acme"),
                authorities: self.path("ca.pem"),
                challenge: challenge.parse().expect("a challenge"),
            }),
            ..settings(&[app])
        }
    }

    /// The response that curl gets over TLS if it trusts `root`.
    fn curl(&self, name: &str, root: &Path) -> String {
        let port = self.tls.port();
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "20", "--cacert"])
            .arg(root)
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}/"))
            .output()
            .expect("curl is installed by `cargo xtask test`");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path("acme").join(format!("localhost_{}", self.directory.port())).join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("pebble.log")).expect("it writes one")
    }
}

impl Drop for PebbleServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listener(address: SocketAddr, is_tls: bool) -> ListenerSettings {
    ListenerSettings::parse(&address.to_string(), is_tls, 128).expect("an address")
}

/// The state and the failure of the certificate whose first name is `name`.
fn state(lab: &Lab, name: &str) -> (String, String) {
    let state = lab.edge.as_ref().expect("it runs").state();
    let one = state.certificates.iter().find(|one| one.names.starts_with(name));
    let one = one.unwrap_or_else(|| panic!("no {name} in {:?}", state.certificates));
    (one.state.to_owned(), one.failure.clone().unwrap_or_default())
}

fn wait_for_valid(lab: &Lab, name: &str) {
    wait_until(&format!("a certificate for {name}"), || {
        let (state, failure) = state(lab, name);
        assert_eq!(failure, "", "{name}");
        state == "valid"
    });
}

#[test]
fn certificates_are_obtained_by_either_challenge_and_served_later_without_the_authority() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let mut authority = PebbleServer::start();
        let root = authority.root();
        let settings = authority.settings(&["a.example B.example", "c.example"], challenge);
        let lab = Lab::start(settings.clone());
        wait_for_valid(&lab, "a.example");
        wait_for_valid(&lab, "c.example");
        for name in ["a.example", "b.example", "c.example"] {
            assert_eq!(authority.curl(name, &root), "app", "{challenge} {name}");
        }
        assert_eq!(authority.curl("d.example", &root), "", "{challenge}");
        let log = authority.log();
        assert_eq!(log.contains("validate w/ HTTP"), challenge == "http-01", "{log}");
        let rows = lab.rows("edge_certificate", 4);
        let last = rows.last().expect("four rows");
        assert_eq!((&*last["state"], &*last["failures"]), ("valid", "0"), "{last:#?}");
        assert_eq!(last["names"], "c.example");
        for file in ["account.json", "a.example.pem", "c.example.pem"] {
            let metadata = std::fs::metadata(authority.file(file)).expect(file);
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
        }
        // Finished challenges get no response from the edge; such paths go to the backend again.
        let http = lab.get("/.well-known/acme-challenge/x");
        assert!(http.ends_with("app"), "{http}");
        drop(lab);
        authority.stop();
        let again = Lab::start(settings);
        assert_eq!(authority.curl("b.example", &root), "app", "{challenge} from disk");
        assert_eq!(state(&again, "a.example").0, "valid");
    }
}

#[test]
fn a_failed_renewal_keeps_the_certificate_and_succeeds_when_the_authority_is_back() {
    let mut authority = PebbleServer::start();
    let root = authority.root();
    let settings = authority.settings(&["a.example"], "auto");
    let lab = Lab::start(settings.clone());
    wait_for_valid(&lab, "a.example");
    let first = std::fs::read(authority.file("a.example.pem")).expect("it is kept");
    authority.stop();
    let edge = lab.edge.as_ref().expect("it runs");
    let ends = edge.state().certificates[0].not_after.expect("it is there");
    let day = 86_400_000_000;
    lab.clock.set(Micros(ends.0 - day));
    wait_until("a failure", || !state(&lab, "a.example").1.is_empty());
    let (now, failure) = state(&lab, "a.example");
    assert_eq!(now, "due");
    assert!(failure.contains("cannot reach `https://localhost:"), "{failure}");
    assert_eq!(authority.curl("a.example", &root), "app", "the old one is served");
    let rows = lab.rows("edge_certificate", 3);
    let last = rows.last().expect("three rows");
    assert_eq!((&*last["state"], &*last["failures"]), ("due", "1"), "{last:#?}");
    // It restarts without the account, and with a new root.
    authority.run();
    assert_eq!(edge.change(&settings).expect("the same settings"), [""; 0]);
    let root = authority.root();
    wait_until("the new one", || authority.curl("a.example", &root) == "app");
    assert_ne!(std::fs::read(authority.file("a.example.pem")).expect("it is kept"), first);
    assert!(authority.file("account.unknown").exists());
    assert_eq!(state(&lab, "a.example").1, "");
}

#[test]
fn a_name_that_points_elsewhere_is_reported_and_delays_no_other() {
    let authority = PebbleServer::start();
    let root = authority.root();
    let both = format!("a.example {NOWHERE}");
    let lab = Lab::start(authority.settings(&[&both, "c.example"], "auto"));
    wait_for_valid(&lab, "c.example");
    assert_eq!(authority.curl("c.example", &root), "app");
    let (now, failure) = state(&lab, "a.example");
    assert_eq!(now, "missing");
    assert!(failure.starts_with("`nowhere.example` by http-01: "), "{failure}");
    assert!(!authority.file("a.example.pem").exists());
}
