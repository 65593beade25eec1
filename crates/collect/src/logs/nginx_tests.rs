//! A real nginx: its log is found and followed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use weir_tables::{LogSource, Micros};

use super::{FoundDirective, TailOptions, Tailer, discover};

struct Nginx {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = format!(
            "daemon off; error_log logs/e.log; pid nginx.pid;\nevents {{ worker_connections 64; }}\nhttp {{\n\
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             log_format j escape=json '{{\"uri\":\"$request_uri\",' '\"status\":$status}}';\n\
             server {{\n listen 127.0.0.1:{port} backlog=77;\n access_log logs/a.log j;\n location / {{ return 204; }} }}\n}}\n"
        );
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        std::fs::write(dir.path().join("n.conf"), text).unwrap();
        let child = Command::new("nginx")
            .args(["-c", "n.conf", "-e", "logs/e.log", "-p"])
            .arg(dir.path())
            .spawn()
            .expect("nginx is installed");
        let nginx = Self { child, dir, port };
        nginx.request("/ready");
        nginx
    }

    fn request(&self, path: &str) {
        for _ in 0..500 {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.contains(" 204 "), "{answer}");
                return;
            }
            pause();
        }
        panic!("nginx does not respond");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for another process, with a limit")]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

fn log_line(path: &str) -> String {
    format!("{{\"uri\":\"{path}\",\"status\":204}}\n")
}

#[test]
fn running_nginx_is_found_and_its_log_is_followed_over_its_own_rotation() {
    let nginx = Nginx::start();
    let found = discover(Path::new("/"));
    let id = i64::from(nginx.child.id());
    let listen: Vec<&FoundDirective> = found
        .directives
        .iter()
        .filter(|found| found.process_id == Some(id) && found.directive == "listen")
        .collect();
    assert_eq!(listen.len(), 1);
    assert_eq!(listen[0].server_port, Some(i64::from(nginx.port)));
    assert_eq!(listen[0].line, 7);

    let log = nginx.dir.path().join("logs/a.log");
    let sources = found.sources.into_iter().filter(|source| source.path == log);
    let sources: Vec<LogSource> = sources.collect();
    let template = r#"{"uri":"$request_uri","status":$status}"#.to_owned();
    let escape = weir_tables::JsonEscape::Json;
    assert_eq!(sources[0].format, weir_tables::LogFormat::NginxTemplate { template, escape });

    let mut tailer = Tailer::new(TailOptions::default());
    tailer.set_sources(sources);
    nginx.request("/one");
    let mut now = Micros(0);
    let mut read = |count: usize| {
        let mut text = String::new();
        for _ in 0..500 {
            now = now + Duration::from_millis(500);
            for new in tailer.scan(now) {
                tailer.start(new.stream, None);
            }
            while let Some(chunk) = tailer.read(now) {
                tailer.acknowledge(chunk.stream, chunk.to);
                text.push_str(&String::from_utf8(chunk.bytes).unwrap());
            }
            if text.lines().count() >= count {
                break;
            }
            pause();
        }
        text
    };
    assert_eq!(read(2), log_line("/ready") + &log_line("/one"));
    std::fs::rename(&log, log.with_extension("log.1")).unwrap();
    nginx.request("/two");
    let id = rustix::process::Pid::from_child(&nginx.child);
    rustix::process::kill_process(id, rustix::process::Signal::USR1).unwrap();
    for _ in 0..500 {
        if log.exists() {
            break;
        }
        pause();
    }
    nginx.request("/three");
    let text = read(2);
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, [log_line("/three"), log_line("/two")]);
}
