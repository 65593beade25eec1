//! A real HAProxy without a log: its counters come from the `stats socket` of its configuration.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::databases::{holds, start};
use super::harness::{Weir, can_run, free_port, serve, wait_for};

const PROGRAM: &str = "/usr/sbin/haproxy";

#[test]
fn haproxy_without_a_log_is_judged_by_its_counters() {
    let what = "haproxy (apt-get install haproxy)";
    if !can_run("haproxy_stat", what, Path::new(PROGRAM).is_file()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (port, socket) = (free_port(), dir.path().join("s"));
    let config = format!(
        "global\n  stats socket {} level user\ndefaults\n  mode http\n  timeout client 5s\n  \
         timeout server 5s\n  timeout connect 1s\nfrontend web\n  bind 127.0.0.1:{port}\n  \
         default_backend app\nbackend app\n  server one 127.0.0.1:9 check inter 500ms\n",
        socket.display()
    );
    let path = dir.path().join("haproxy.cfg");
    std::fs::write(&path, config).expect("it can be written");
    let _haproxy = start(Command::new(PROGRAM).args(["-db", "-f"]).arg(&path));
    wait_for("haproxy", Duration::from_secs(30), || socket.exists().then_some(()));
    let weir = Weir::start(serve("up", &dir.path().join("weir")));
    let socket = socket.display();
    // The socket's level does not show addresses: that of the server comes from the configuration.
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from proxy_stat where source = '{socket}' and kind = 'server' \
             and state like 'DOWN%' and check_status = 'L4CON' and upstream_address = '127.0.0.1:9'"
        ),
    );
    let found = wait_for("a finding", Duration::from_secs(60), || {
        visit(port);
        let found = weir.findings("proxy.backend_down");
        found.into_iter().find(|found| found["state"] == "firing" && found["class"] == "page")
    });
    let summary = found["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("0 of 1 servers of backend app are up; one: L4CON"), "{found}");
}

/// One request, whose response is 503.
fn visit(port: u16) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    if stream.write_all(request).is_ok() {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}
