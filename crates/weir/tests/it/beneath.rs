//! What lies beneath a server, seen on real kernel objects: its certificate, its processes, the
//! queue of its device, a file that it holds open although it is deleted.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::harness::{Weir, can_run, is_root, serve, wait_for};
use super::netns::{Netns, Nginx, NginxSite};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct HostScene {
    netns: Netns,
    weir: Weir,
    _nginx: Nginx,
    dir: tempfile::TempDir,
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect("it is installed");
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
}

/// A certificate that is valid for `days`, where the server looks for it.
fn issue(dir: &Path, days: u32) {
    let [key, cert] = ["key.pem", "cert.pem"].map(|name| dir.join(name).display().to_string());
    let kind = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example"];
    run(
        "openssl",
        &[&kind[..], &["-days", &days.to_string(), "-keyout", &key, "-out", &cert]].concat(),
    );
}

impl HostScene {
    /// nginx with TLS in a namespace, and weir that finds both by itself.
    fn set(purpose: &str, days: u32) -> Option<Self> {
        let is_there =
            ["/usr/sbin/nginx", "/usr/bin/openssl"].iter().all(|p| Path::new(p).exists());
        let netns = if is_root() && is_there { Netns::make(purpose) } else { None };
        if !can_run(purpose, "root, nginx, openssl and iproute2", netns.is_some()) {
            return None;
        }
        let netns = netns?;
        let dir = tempfile::tempdir().expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(dir.path(), open).expect("it is ours");
        issue(dir.path(), days);
        let path = dir.path().display();
        let tls = format!(
            "listen 127.0.0.1:8443 ssl; server_name shop.example _; \
             ssl_certificate {path}/cert.pem; ssl_certificate_key {path}/key.pem;"
        );
        let site = NginxSite { listen: &tls, locations: "location / { return 200 hello; }" };
        let nginx = Nginx::serve(&netns, dir.path(), site);
        let weir = Weir::start(serve("up", &dir.path().join("data")));
        Some(Self { netns, weir, _nginx: nginx, dir })
    }

    fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.weir.rows(&sql.replace("$netns", &self.netns.name))
    }
}

#[test]
fn certificate_that_is_served_is_told_apart_from_the_one_on_disk() {
    let Some(scene) = HostScene::set("cert", 5) else { return };
    let path = scene.dir.path().join("cert.pem").display().to_string();
    let newest = format!(
        "select served_digest = file_digest, served_not_after = file_not_after, error from certificate \
         where server_name = 'shop.example' and path = '{path}' order by ts desc limit 1"
    );
    let row = wait_for("a handshake", PATIENCE, || scene.rows(&newest).pop());
    assert_eq!(row, [Value::Bool(true), Value::Bool(true), Value::Null]);
    // Another test's server may have the same name and port; the file tells them apart.
    let firing = |rule: &str| {
        scene.weir.findings(rule).into_iter().find(|finding: &Value| {
            finding["state"] == "firing" && finding["summary"].to_string().contains(&path)
        })
    };
    let finding = wait_for("tls.cert_expiring", PATIENCE, || firing("tls.cert_expiring"));
    assert_eq!(finding["class"], "mail", "{finding}");
    assert!(
        finding["summary"].as_str().is_some_and(|s| s.contains("expires in 4 days")),
        "{finding}"
    );

    issue(scene.dir.path(), 90);
    let finding = wait_for("tls.cert_not_reloaded", PATIENCE, || firing("tls.cert_not_reloaded"));
    assert!(finding["fix"].as_str().is_some_and(|fix| fix.contains("nginx -s reload")));
    // What is not loaded explains what ends: one root, one symptom.
    wait_for("the symptom has its root", PATIENCE, || {
        let found = firing("tls.cert_expiring")?;
        (found["cause_rule"] == "tls.cert_not_reloaded").then_some(())
    });
    let verdict = scene.weir.get("/api/findings")["verdict"].clone();
    assert!(verdict.as_str().is_some_and(|words| words.contains("tls.cert_expiring")), "{verdict}");
}

#[test]
fn processes_queues_and_deleted_files_of_a_real_server_are_rows() {
    let Some(scene) = HostScene::set("beneath", 90) else { return };
    let tbf = ["qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "8mbit"];
    let tbf =
        [&["-n", &scene.netns.name], &tbf[..], &["burst", "16kb", "latency", "50ms"]].concat();
    run("tc", &tbf);
    let queue = wait_for("the queue", PATIENCE, || {
        let sql = "select device, parent, rate_bytes_per_second from qdisc \
            where netns = '$netns' and kind = 'tbf' limit 1";
        scene.rows(sql).pop()
    });
    assert_eq!(queue, [Value::from("lo"), Value::from("root"), Value::from(1_000_000)]);

    let sql = "select count(distinct process_id), min(open_files), min(open_files_limit), min(samples) \
        from process_stat where process_name = 'nginx' and cpu_seconds_total < 3600";
    let processes = wait_for("nginx's processes", PATIENCE, || {
        let row = scene.rows(sql).pop()?;
        (row[0].as_i64()? >= 2 && row[1].as_i64()? > 3).then_some(row)
    });
    assert!(processes[2].as_i64() > processes[1].as_i64(), "{processes:?}");

    let path = scene.dir.path().join("removed.log");
    let file = fs::File::create(&path).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![b'x'; 2 << 20], 0).expect("room");
    file.sync_all().expect("room");
    fs::remove_file(&path).expect("it is there");
    let sql = format!(
        "select used_bytes, process_id from deleted_file where path = '{}'",
        path.display()
    );
    // A file system in memory holds it in this test on some machines; then it takes room there.
    let row = wait_for("the deleted file", PATIENCE * 2, || scene.rows(&sql).pop());
    assert!(row[0].as_i64().is_some_and(|bytes| bytes >= 2 << 20), "{row:?}");
    assert_eq!(row[1], Value::from(std::process::id()));
}
