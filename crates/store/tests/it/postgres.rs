//! A real PostgreSQL server for one test.
#![expect(clippy::print_stdout, reason = "a test that cannot run says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "a server that starts can only be asked again and again"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server for this test alone; stopped on drop.
pub(crate) struct PostgresServer {
    dir: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
    child: Option<Child>,
    /// Whether it accepts only TLS connections.
    is_encrypted: bool,
}

impl PostgresServer {
    /// Starts it; `None`, with a message, when the host has no PostgreSQL.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
        let bin = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
        let Some(bin) = bin.into_iter().find(|bin| bin.join("initdb").is_file()) else {
            let text = format!("{test}: PostgreSQL is missing (apt-get install postgresql)");
            assert!(std::env::var_os("CI").is_none(), "{text}");
            println!("skipped: {text}");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let port = crate::s3::free_port();
        let mut server = Self { dir, bin, port, child: None, is_encrypted: false };
        if rustix::process::getuid().is_root() {
            let owned = Command::new("chown").arg("postgres:").arg(server.dir.path()).status();
            assert!(owned.unwrap().success());
        }
        let made = server
            .command("initdb")
            .args(["-A", "trust", "-U", "weir", "--no-sync", "-D"])
            .arg(server.dir.path().join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        Some(server)
    }

    /// Starts a server that accepts only TLS connections: its certificate is for 127.0.0.1, issued
    /// by the CA in the returned file, and weir's password is `secret`.
    pub(crate) fn start_encrypted(test: &str) -> Option<(Self, PathBuf)> {
        let mut server = Self::start(test)?;
        server.sql("alter user weir password 'secret'").unwrap();
        server.stop();
        let data = server.dir.path().join("data");
        let key = rcgen::KeyPair::generate().unwrap();
        let mut authority = rcgen::CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = server.dir.path().join("ca.pem");
        std::fs::write(&ca, authority.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = rcgen::Issuer::new(authority, key);
        let own_key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = own.signed_by(&own_key, &issuer).unwrap();
        std::fs::write(data.join("server.crt"), certificate.pem()).unwrap();
        std::fs::write(data.join("server.key"), own_key.serialize_pem()).unwrap();
        let rules = "hostssl all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
        let settings = "ssl = on\n";
        std::fs::write(data.join("postgresql.auto.conf"), settings).unwrap();
        let kept = Command::new("chmod").arg("600").arg(data.join("server.key")).status();
        assert!(kept.unwrap().success());
        if rustix::process::getuid().is_root() {
            let owned = Command::new("chown").args(["-R", "postgres:"]).arg(&data).status();
            assert!(owned.unwrap().success());
        }
        server.is_encrypted = true;
        server.run();
        Some((server, ca))
    }

    /// PostgreSQL refuses to run as root.
    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = if rustix::process::getuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.dir.path());
        command
    }

    fn run(&mut self) {
        let port = self.port.to_string();
        let mut command = self.command("postgres");
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-p", &port, "-k"]);
        command.arg(self.dir.path()).arg("-D").arg(self.dir.path().join("data"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.child = Some(child);
        let began = Instant::now();
        while self.sql("select 1").is_none() {
            assert!(began.elapsed() < Duration::from_secs(30), "PostgreSQL does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Output of `psql`; `None` when it fails.
    pub(crate) fn sql(&self, sql: &str) -> Option<String> {
        let port = self.port.to_string();
        let mut command = Command::new(self.bin.join("psql"));
        if self.is_encrypted {
            command.env("PGPASSWORD", "secret").env("PGSSLMODE", "require");
        }
        command.args([
            "-h",
            "127.0.0.1",
            "-U",
            "weir",
            "-d",
            "postgres",
            "-qAt",
            "-p",
            &port,
            "-c",
        ]);
        let output = command.arg(sql).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// URL for `ClusterOptions::manifest`.
    pub(crate) fn url(&self) -> String {
        format!("postgresql://weir@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills it at once, without closing connections.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let data: &Path = &self.dir.path().join("data");
            let stop =
                self.command("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(data).output();
            assert!(stop.unwrap().status.success());
            child.wait().unwrap();
        }
    }

    pub(crate) fn go_on(&mut self) {
        self.run();
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}
