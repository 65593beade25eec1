//! `[[databases]]` with `tls`: real servers that speak TLS, and weir's errors about certificates
//! that must be refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::databases::{holds, run, start, watch};
use super::harness::{can_run, free_port, is_root, text, wait_for, weir as run_weir};
use super::wire_databases::{ServerProgram, ids_of, is_there, postgresql};

const LONG: Duration = Duration::from_secs(60);

/// An authority, its certificates for `db.example` and for a client, and an unknown authority.
struct ServerCertificates(PathBuf);

impl ServerCertificates {
    fn make(dir: &Path) -> Self {
        let script = "set -e
            for ca in ca other; do openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=$ca -keyout $ca.key -out $ca.pem; done
            echo 'subjectAltName=DNS:db.example' > san
            for name in server client; do
              openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name.key -out $name.csr
              openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile san -out $name.pem
            done";
        run(Command::new("sh").args(["-c", script]).current_dir(dir));
        Self(dir.to_owned())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// An entry of the configuration; `more` decides what is believed.
    fn entry(&self, system: &str, port: u16, more: &str) -> String {
        let password = self.path("password");
        let user = match system {
            "postgresql" => "user = \"postgres\"\n",
            _ => "",
        };
        format!(
            "[[databases]]\nsystem = \"{system}\"\naddress = \"127.0.0.1:{port}\"\npassword_file = \"{password}\"\n{user}{more}\n"
        )
    }

    /// The settings to try, and the expected `db_server`: NULL, or a part of the error.
    fn ways(&self, more: &str) -> [(String, Option<&'static str>); 5] {
        let ca = format!("ca_file = \"{}\"\n", self.path("ca.pem"));
        let other = format!("ca_file = \"{}\"\n", self.path("other.pem"));
        let name = "server_name = \"db.example\"\n";
        [
            (format!("tls = \"verify-full\"\n{ca}{name}{more}"), None),
            (format!("tls = \"verify-full\"\n{ca}{more}"), Some("its certificate is not accepted")),
            (format!("tls = \"verify-ca\"\n{ca}{more}"), None),
            (format!("tls = \"verify-ca\"\n{other}{more}"), Some("untrusted authority")),
            (format!("tls = \"require\"\n{more}"), None),
        ]
    }
}

/// weir asks the server in each way, over addresses that tell the ways apart.
fn is_asked(dir: &Path, certificates: &ServerCertificates, system: &str, port: u16, more: &str) {
    for (number, (way, error)) in certificates.ways(more).into_iter().enumerate() {
        let own = dir.join(format!("{system}{number}"));
        std::fs::create_dir(&own).expect("a directory of ours");
        let weir = watch(&own, &certificates.entry(system, port, &way));
        let says = match error {
            None => "error is null and version is not null".to_owned(),
            Some(part) => format!("error like '%{part}%'"),
        };
        holds(&weir, &format!("select count(*) > 0 from db_server where {says}"));
    }
}

fn prepared(
    name: &str,
    what: &str,
    is_ready: bool,
) -> Option<(tempfile::TempDir, ServerCertificates)> {
    if !can_run(name, what, is_ready && Path::new("/usr/bin/openssl").exists()) {
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let certificates = ServerCertificates::make(dir.path());
    std::fs::write(certificates.path("password"), "sesame\n").expect("it can be written");
    Some((dir, certificates))
}

#[test]
fn redis_is_asked_over_tls_with_a_certificate_of_its_own() {
    let name = "redis_is_asked_over_tls_with_a_certificate_of_its_own";
    let Some((dir, certificates)) = prepared(name, "Redis and openssl", is_there("redis-server"))
    else {
        return;
    };
    let port = free_port();
    let mut server = Command::new("redis-server");
    server.args([
        "--port",
        "0",
        "--tls-port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
    ]);
    server.args(["--requirepass", "sesame", "--tls-cert-file", &certificates.path("server.pem")]);
    server.args(["--tls-key-file", &certificates.path("server.key")]);
    server.args(["--tls-ca-cert-file", &certificates.path("ca.pem"), "--dir"]).arg(dir.path());
    let _server = start(&mut server);
    let identity = format!(
        "cert_file = \"{}\"\nkey_file = \"{}\"\n",
        certificates.path("client.pem"),
        certificates.path("client.key")
    );
    is_asked(dir.path(), &certificates, "redis", port, &identity);
    // It wants a certificate of its clients.
    let weir = watch(dir.path(), &certificates.entry("redis", port, "tls = \"require\""));
    holds(
        &weir,
        "select count(*) > 0 from db_server where error like '%does it require a client certificate%'",
    );
}

#[test]
fn postgresql_that_takes_only_tls_is_asked() {
    let name = "postgresql_that_takes_only_tls_is_asked";
    let bin = postgresql().filter(|_| is_root());
    let Some((dir, certificates)) = prepared(name, "PostgreSQL, openssl and root", bin.is_some())
    else {
        return;
    };
    let bin = bin.expect("it was looked for");
    let (user, group) = ids_of("postgres");
    for entry in std::fs::read_dir(dir.path()).expect("it is ours").flatten() {
        std::os::unix::fs::chown(entry.path(), Some(user), Some(group)).expect("root may");
    }
    std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).expect("root may");
    let as_postgres = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
        command.arg(bin.join(program)).current_dir(dir.path());
        command
    };
    let data = dir.path().join("data");
    let mut init = as_postgres("initdb");
    init.args(["-A", "scram-sha-256", "--no-sync", "-D"]).arg(&data);
    run(init.arg(format!("--pwfile={}", certificates.path("password"))));
    let only = "hostssl all all 127.0.0.1/32 scram-sha-256\nlocal all all trust\n";
    std::fs::write(data.join("pg_hba.conf"), only).expect("root may");
    let port = free_port();
    let mut server = as_postgres("postgres");
    server.args([
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "fsync=off",
        "-c",
        "ssl=on",
        "-p",
        &port.to_string(),
    ]);
    for (setting, file) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        server.arg("-c").arg(format!("{setting}={}", certificates.path(file)));
    }
    let _server = start(server.arg("-k").arg(dir.path()).arg("-D").arg(&data));
    is_asked(dir.path(), &certificates, "postgresql", port, "");
    let own = dir.path().join("clear");
    std::fs::create_dir(&own).expect("a directory of ours");
    let weir = watch(&own, &certificates.entry("postgresql", port, ""));
    holds(&weir, "select count(*) > 0 from db_server where error like '%no encryption%'");
}

#[test]
fn mariadb_that_takes_only_tls_is_asked() {
    let name = "mariadb_that_takes_only_tls_is_asked";
    let is_ready = is_there("mariadbd") && is_there("mariadb") && is_root();
    let Some((dir, certificates)) = prepared(name, "MariaDB, openssl and root", is_ready) else {
        return;
    };
    let (user, group) = ids_of("mysql");
    for path in [dir.path().to_owned(), dir.path().join("server.key")] {
        std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may");
    }
    let own = dir.path().join("own");
    let data = format!("--datadir={}", own.display());
    let mut init = Command::new("mariadb-install-db");
    init.args(["--no-defaults", "--user=mysql", "--skip-test-db", &data]);
    run(init.arg("--auth-root-authentication-method=normal"));
    let port = free_port();
    let mut server = Command::new("mariadbd");
    server.args(["--no-defaults", "--user=mysql", "--bind-address=127.0.0.1", &data]);
    server.args(["--port", &port.to_string(), "--require-secure-transport=on"]);
    server.arg(format!("--ssl-cert={}", certificates.path("server.pem")));
    server.arg(format!("--ssl-key={}", certificates.path("server.key")));
    server.arg(format!("--socket={}", own.join("socket").display()));
    let _server: ServerProgram =
        start(server.arg(format!("--pid-file={}", own.join("pid").display())));
    let grants = "create user weir@'127.0.0.1' identified by 'sesame'; \
        grant replication client, replica monitor on *.* to weir@'127.0.0.1'";
    wait_for("MariaDB takes queries", LONG, || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-u", "root", "-e", grants]).stdin(Stdio::null());
        client.arg(format!("--socket={}", own.join("socket").display()));
        client.output().is_ok_and(|output| output.status.success()).then_some(())
    });
    is_asked(dir.path(), &certificates, "mysql", port, "");
}

#[test]
fn tls_that_cannot_be_is_refused_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("weir.toml");
    for (entry, why) in [
        (
            "address = \"db1\"\ntls = \"on\"",
            "`on` is no way to connect\nhint: off, require, verify-ca or verify-full",
        ),
        ("address = \"/run/x\"\ntls = \"require\"", "a server's socket has no TLS"),
        ("address = \"db1\"\nca_file = \"/x\"", "`ca_file` says nothing without `tls`"),
        ("address = \"db1\"\ntls = \"require\"\ncert_file = \"/x\"", "it needs its key"),
        (
            "address = \"db1\"\ntls = \"verify-ca\"\nca_file = \"/nonexistent\"",
            "cannot read `/nonexistent`",
        ),
    ] {
        std::fs::write(&config, format!("[[databases]]\nsystem = \"redis\"\n{entry}\n"))
            .expect("it can be written");
        let (config, data) =
            (config.display().to_string(), dir.path().join("data").display().to_string());
        let output =
            run_weir(&["up", "--config", &config, "--data", &data, "--listen", "127.0.0.1:0"]);
        assert!(text(&output.stderr).contains(why), "{entry}: {}", text(&output.stderr));
        assert!(!output.status.success());
    }
}
