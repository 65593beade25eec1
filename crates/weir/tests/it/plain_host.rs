//! A plain host with nginx badly set up, as a new user has it: `weir doctor` names what is wrong
//! and nothing else, and following its fixes word by word clears it.
//!
//! The host is made of namespaces (mounts, processes, network) around Debian's nginx, so that
//! doctor sees no other processes, logs and disks. The kernel's own figures (pressure, memory,
//! processors) are the whole machine's.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::harness::{WEIR, can_run, is_root, pause, text, wait_for};
use super::netns::Netns;
use super::wire_databases::{ServerProgram, is_there};

const LONG: Duration = Duration::from_secs(60);

const WRONG: [&str; 4] = [
    "disk.log_shares_data",
    "proxy.backlog_below_somaxconn",
    "proxy.keepalive_mismatch",
    "tls.cert_expiring",
];

/// What stays: the format `combined` has no times, and the certificate is self-signed.
const NOTED: [&str; 2] = ["log.format_without_times", "tls.cert_untrusted"];

const FRONT: &str = "user root;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { worker_connections 1024; }
http {
  upstream app {
    server 127.0.0.1:9001;
    keepalive 16;
  }
  include sites/*.conf;
}
";

/// The certificate's path is relative: to nginx.conf's directory, not to this file's.
const SITE: &str = "server {
  listen 8080;
  listen 8443 ssl;
  server_name shop.example;
  ssl_certificate tls/shop.pem;
  ssl_certificate_key tls/shop.key;
  root /srv/data/www;
  access_log /srv/data/log/shop.log combined;
  location /app {
    proxy_pass http://app;
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
  }
}
";

const APP: &str = "user root;
pid /run/app.pid;
error_log /var/log/nginx/app-error.log;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_timeout 5s;
  server {
    listen 127.0.0.1:9001;
    location / { return 200 \"well\\n\"; }
  }
}
";

/// The namespaces, held by a process in them.
struct PlainHost {
    // In the order in which they go.
    _holder: ServerProgram,
    inside: u32,
    netns: Netns,
    _dir: tempfile::TempDir,
}

impl Drop for PlainHost {
    fn drop(&mut self) {
        // The first process of its namespace takes all others with it; unshare itself does not
        // listen to SIGTERM.
        let first = i32::try_from(self.inside).ok().and_then(Pid::from_raw);
        let _ = first.map(|first| kill_process(first, Signal::KILL));
    }
}

impl PlainHost {
    /// `name` is that of its network namespace.
    fn make(name: &str) -> Self {
        let netns = Netns::make(name).expect("root may, and iproute2 is there");
        let dir = tempfile::tempdir().expect("a directory");
        let disk = dir.path().join("disk");
        let file = fs::File::create(&disk).expect("it can be written");
        file.set_len(64 << 20).expect("it can be as long as that");
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 is there");
        // Its own configuration, logs and runtime files, a disk for the data, no name server.
        let script = format!(
            "set -e; for dir in /etc/nginx /var/log /run; do mount -t tmpfs -o size=64m none $dir; done; \
             mkdir -p /var/log/nginx /etc/nginx/sites /etc/nginx/tls; mount -t tmpfs -o size=64m none /srv; \
             mkdir /srv/data; mount -o loop {} /srv/data; mkdir /srv/data/www /srv/data/log; echo well > /srv/data/www/index.html; \
             : > /etc/nginx/resolv.conf; mount --bind /etc/nginx/resolv.conf /etc/resolv.conf; \
             : > /run/ready; exec sleep 600",
            disk.display()
        );
        let mut command = netns.command("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            &script,
        ]);
        let holder =
            ServerProgram(command.stdin(Stdio::null()).spawn().expect("util-linux is there"));
        let inside = wait_for("the namespaces", LONG, || {
            let child = child_of(holder.0.id())?;
            root_of(child).join("run/ready").exists().then_some(child)
        });
        Self { _holder: holder, inside, netns, _dir: dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        root_of(self.inside).join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: &str) {
        fs::write(self.path(path), content).expect("it can be written");
    }

    fn run(&self, command: &str) -> Output {
        let target = self.inside.to_string();
        let mut outer = Command::new("nsenter");
        outer.args(["-t", &target, "--mount", "--pid", "--net", "--", "sh", "-c", command]);
        outer.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
        outer.output().expect("util-linux is there")
    }

    /// A command that must succeed.
    fn must(&self, command: &str) {
        let output = self.run(command);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    }

    fn certify(&self, days: u32) {
        self.must(&format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=shop.example -days {days} \
             -keyout /etc/nginx/tls/shop.key -out /etc/nginx/tls/shop.pem 2>/dev/null"
        ));
    }

    /// What doctor finds while visitors come, of whom each of some threads is several.
    fn findings(&self, threads: u32, come: fn(&AtomicBool), seconds: u32) -> Vec<Value> {
        let end = Arc::new(AtomicBool::new(false));
        let coming: Vec<JoinHandle<()>> = (0..threads)
            .map(|_| {
                let end = Arc::clone(&end);
                self.netns.spawn(move || come(&end))
            })
            .collect();
        let output = self.run(&format!("{WEIR} doctor --seconds {seconds} --format json"));
        end.store(true, Ordering::Relaxed);
        coming.into_iter().for_each(|visits| visits.join().expect("it does not panic"));
        let answer = text(&output.stdout);
        serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("{error}: {answer}{}", text(&output.stderr)))
    }
}

/// 500 clients a second, each with its own connection.
fn visit(end: &AtomicBool) {
    let begin = Instant::now();
    let mut count = 0_u64;
    while !end.load(Ordering::Relaxed) {
        let due = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX) / 2;
        // What a busy machine could not do in time is not made up for in one go.
        count = count.max(due.saturating_sub(200));
        while count < due {
            count += 1;
            get("/");
        }
        pause(Duration::from_millis(5));
    }
}

/// A request every 6 s.
fn visit_now_and_then(end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        get("/app");
        for _ in 0..60 {
            pause(Duration::from_millis(if end.load(Ordering::Relaxed) { 0 } else { 100 }));
        }
    }
}

fn get(path: &str) {
    let Ok(mut stream) = TcpStream::connect("127.0.0.1:8080") else { return };
    let _ = stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    let _ = stream.read_to_end(&mut Vec::new());
}

/// The directory that is `/` for a process.
fn root_of(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}")).join("root")
}

/// The process that `unshare` forked, through `ip netns exec`, which becomes it.
fn child_of(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Whether a rule is about the whole machine and not this host.
fn is_of_the_machine(rule: &str) -> bool {
    let families = [
        "cpu.",
        "mem.",
        "clock.",
        "softirq.",
        "nic.",
        "conntrack.",
        "host.",
        "disk.slow",
        "disk.full",
    ];
    families.iter().any(|family| rule.starts_with(family))
}

fn rules(findings: &[Value]) -> BTreeSet<&str> {
    let rules = findings.iter().filter_map(|finding| finding["rule"].as_str());
    rules.filter(|rule| !is_of_the_machine(rule)).collect()
}

/// `FILE:LINE: DIRECTIVE;` anywhere in a fix.
fn line_to_change(fix: &str) -> Option<(&str, usize, &str)> {
    fix.match_indices(": ").find_map(|(at, _)| {
        let place = fix[..at].rsplit(' ').next()?;
        let (file, line) = place.rsplit_once(':')?;
        let rest = &fix[at + 2..];
        let directive = &rest[..=rest.find(';')?];
        Some((file, line.parse().ok()?, directive)).filter(|_| file.starts_with('/'))
    })
}

/// Node.js, whose own default is to keep idle connections for 5 s.
const PROGRAM: &str = "const server = require('http').createServer((request, response) => setTimeout(() => response.end('well'), 100));
SETTINGS;
server.listen(9001, '127.0.0.1');
";

#[test]
fn a_program_is_seen_to_close_idle_connections_before_nginx_does() {
    let name = "a_program_is_seen_to_close_idle_connections_before_nginx_does";
    let is_ready = has("nginx") && has("node") && is_there("unshare") && is_root();
    if !can_run(name, "nginx, node, e2fsprogs and root", is_ready) {
        return;
    }
    let host = PlainHost::make("seen");
    host.write("/etc/nginx/nginx.conf", FRONT);
    host.write(
        "/etc/nginx/sites/shop.conf",
        "server { listen 8080; location /app { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; } }",
    );
    host.must("nginx");
    let mismatch = || {
        let findings = host.findings(4, visit_now_and_then, 13);
        findings.into_iter().find(|finding| finding["rule"] == "proxy.keepalive_mismatch")
    };
    start_program(&host, "");
    let finding = wait_for("it is seen", LONG, mismatch);
    // Some versions of it wait for a second more.
    let texts = [5, 6].map(|seconds| format!("after {seconds} s (seen "));
    assert!(texts.iter().any(|text| text_of(&finding, "summary").contains(text)), "{finding:#}");
    let fix = text_of(&finding, "fix")
        .split_once("In the program: ")
        .and_then(|(_, fix)| fix.split_once(", "));
    let settings = fix.unwrap_or_else(|| panic!("{finding:#}")).0;
    host.must("kill $(cat /run/app.pid)");
    start_program(&host, settings);
    assert_eq!(mismatch(), None);
}

fn text_of<'a>(finding: &'a Value, key: &str) -> &'a str {
    finding[key].as_str().unwrap_or_default()
}

fn start_program(host: &PlainHost, settings: &str) {
    host.write("/run/app.js", &PROGRAM.replace("SETTINGS", settings));
    host.must("node /run/app.js > /run/app.log 2>&1 & echo $! > /run/app.pid");
}

fn has(program: &str) -> bool {
    Command::new(program).arg("-v").output().is_ok()
}

#[test]
fn what_is_wrong_with_a_plain_nginx_is_named_and_following_the_fixes_clears_it() {
    let name = "what_is_wrong_with_a_plain_nginx_is_named_and_following_the_fixes_clears_it";
    let has_nginx = Command::new("nginx").arg("-v").output().is_ok();
    let has_openssl = Command::new("openssl").arg("version").output().is_ok();
    let is_ready = has_nginx && has_openssl && is_there("unshare") && is_root();
    if !can_run(name, "nginx, openssl, e2fsprogs and root", is_ready) {
        return;
    }
    let host = PlainHost::make("plain");
    for (path, content) in [
        ("/etc/nginx/nginx.conf", FRONT),
        ("/etc/nginx/sites/shop.conf", SITE),
        ("/etc/nginx/app.conf", APP),
    ] {
        host.write(path, content);
    }
    host.certify(5);
    host.must("nginx -c /etc/nginx/app.conf");
    host.must("nginx");
    let findings = host.findings(3, visit, 8);
    assert_eq!(rules(&findings), WRONG.into_iter().chain(NOTED).collect(), "{findings:#?}");

    for finding in &findings {
        let fix = finding["fix"].as_str().unwrap_or_default();
        match finding["rule"].as_str() {
            Some("tls.cert_expiring") => {
                assert!(fix.contains("so that /etc/nginx/tls/shop.pem"), "{fix}");
                assert!(fix.contains("`nginx -t && nginx -s reload`"), "{fix}");
                host.certify(90);
            }
            Some(rule) if WRONG.contains(&rule) => {
                let (file, line, directive) =
                    line_to_change(fix).unwrap_or_else(|| panic!("no line to change: {fix}"));
                let text = fs::read_to_string(host.path(file)).expect("it is there");
                let mut lines: Vec<&str> = text.lines().collect();
                lines[line - 1] = directive;
                host.write(file, &(lines.join("\n") + "\n"));
            }
            _ => {}
        }
    }
    host.must("nginx -t && nginx -s reload");
    // "… and restart it".
    host.must("nginx -c /etc/nginx/app.conf -s quit");
    wait_for("it ends", LONG, || (!host.path("/run/app.pid").exists()).then_some(()));
    host.must("nginx -c /etc/nginx/app.conf");
    // Old workers of the front go when their connections have ended, and with them the old queue.
    wait_for("nothing is wrong any more", LONG, || {
        let findings = host.findings(3, visit, 8);
        rules(&findings).iter().all(|rule| NOTED.contains(rule)).then_some(())
    });
}
