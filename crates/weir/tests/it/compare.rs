//! `weir compare` on the field note: a balancer comes in front of a real nginx, whose times fall,
//! and that is no gain.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

use super::harness::{
    EndedProcess, Weir, can_run, is_root, pause, quiet, serve, text, wait_for, weir,
};
use super::netns::{Manner, Netns, Nginx, application};

const PATIENCE: Duration = Duration::from_secs(60);
const VISITORS: u8 = 40;
/// Between the first byte of a request and the rest, as on a slow way.
const SLOW_WAY: Duration = Duration::from_millis(60);

/// HAProxy on port 8090 in front of nginx.
fn balancer(netns: &Netns, dir: &Path) -> EndedProcess {
    let config = dir.join("haproxy.cfg");
    let text = "defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n\n\
        listen shop\n  bind 127.0.0.1:8090\n  server web1 127.0.0.1:8080\n";
    std::fs::write(&config, text).expect("there is room");
    let mut command = netns.command("haproxy");
    command.args(["-db", "-f"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    EndedProcess(command.spawn().expect("it is installed"))
}

/// One request of a client with its own address.
fn visit(number: u8, port: u16) -> std::io::Result<()> {
    let own = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 9, number)), 0);
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &own)?;
    connect(&fd, &SocketAddr::from(([127, 0, 0, 1], port)))?;
    let mut stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"G")?;
    pause(SLOW_WAY);
    stream.write_all(b"ET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")?;
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

/// All visitors come once.
fn rush(netns: &Netns, port: u16) {
    let visits: Vec<_> =
        (1..=VISITORS).map(|number| netns.spawn(move || visit(number, port))).collect();
    for visit in visits {
        visit.join().expect("no panic").expect("it is answered");
    }
}

#[test]
fn a_balancer_in_front_is_not_taken_for_a_gain() {
    let is_there = ["/usr/sbin/nginx", "/usr/sbin/haproxy"].iter().all(|p| Path::new(p).exists());
    let netns = if is_root() && is_there { Netns::make("compare") } else { None };
    if !can_run("comparing", "root, nginx, HAProxy and iproute2", netns.is_some()) {
        return;
    }
    let netns = netns.expect("it was made");
    let dir = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("it is ours");
    let manner = Manner::default();
    let app = application(&netns, 128, &manner);
    let _nginx = Nginx::start(&netns, dir.path());
    let _haproxy = balancer(&netns, dir.path());
    for port in [8080, 8090] {
        wait_for("the servers listen", PATIENCE, || listening(&netns, port));
    }
    // It reads what the fields of nginx's log are called from nginx's own configuration.
    let server = Weir::start(serve("up", &dir.path().join("data")));
    let ours = format!("source like '%{}/access.log'", dir.path().display());

    rush(&netns, 8080);
    // nginx writes whole seconds.
    pause(Duration::from_millis(1100));
    let change = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let change = text(&change.expect("date is there").stdout).trim().to_owned();
    rush(&netns, 8090);
    wait_for("all requests have rows", PATIENCE, || {
        let count = server.number(&format!("select count(*) from request where {ours}"));
        (count >= 2 * i64::from(VISITORS)).then_some(())
    });

    let compare = |more: &[&str]| {
        let args = [
            "compare",
            "--url",
            &server.url,
            "--around",
            &change,
            "--for",
            "10m",
            "--where",
            &ours,
        ];
        weir(&[&args[..], more].concat())
    };
    let refused = compare(&[]);
    let said = text(&refused.stdout);
    assert_eq!(refused.status.code(), Some(3), "{said}{}", text(&refused.stderr));
    assert!(said.starts_with("Not compared of duration_seconds: A is by the clock of tier `proxy`, answering 40 peers"), "{said}");
    assert!(
        said.contains("B is by the clock of tier `proxy`, answering one peer, 127.0.0.1"),
        "{said}"
    );
    assert!(said.contains("These can be compared instead:"), "{said}");
    let hint = text(&refused.stderr);
    assert!(hint.contains("hint: --measure upstream_"), "{hint}");

    // The way from nginx to the application is what it was.
    let same = compare(&["--measure", "upstream_header_seconds", "--format", "json"]);
    assert!(same.status.success(), "{}", text(&same.stderr));
    let same: Value = serde_json::from_slice(&same.stdout).expect("JSON");
    assert_eq!(same["compared"][0]["a"]["values"], VISITORS, "{same}");
    assert_eq!(same["compared"][0]["b"]["values"], VISITORS, "{same}");
    assert_eq!(same["refused"], serde_json::json!([]), "{same}");
    // What would have been shown: the slow way is no more in nginx's time, and each visitor still
    // waits for it.
    let p50 = format!(
        "select approx_percentile_cont(duration_seconds, 0.5) from request where {ours} and ts"
    );
    let median = |when: &str| {
        let row = server.rows(&format!("{p50} {when} timestamp '{change}'")).remove(0);
        row[0].as_f64().unwrap_or_else(|| panic!("{row:?}"))
    };
    let (before, after) = (median("<"), median(">="));
    assert!(before >= 0.055 && after < before, "{before} s, then {after} s");
    manner.is_ended.store(true, std::sync::atomic::Ordering::Relaxed);
    app.join().expect("no panic");
}

fn listening(netns: &Netns, port: u16) -> Option<()> {
    let sport = format!(":{port}");
    let found = netns.command("ss").args(["-Htln", "sport", "=", &sport]).output();
    (!found.expect("iproute2 is there").stdout.is_empty()).then_some(())
}

#[test]
fn a_comparison_that_makes_no_sense_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    let hub = Weir::start(command);
    for (args, code, part) in [
        (&["tier = 'edge'"][..], 64, "two conditions are needed"),
        (&["--around", "2026-11-21T14:00:00Z", "true", "false"], 64, "replaces A and B"),
        (&["--around", "2026-11-21T14:00:00Z", "--for", "soon"], 64, "`soon` is not a duration"),
        (&["--around", "yesterday"], 64, "`yesterday` is not a time"),
        (
            &["--around", "20m", "--for", "5m"],
            1,
            "A has no request (`ts >= (now() - interval '1200 seconds')",
        ),
        (
            &["--around", "2026-11-21 14:00+02:00"],
            1,
            "A has no request (`ts >= timestamp '2026-11-21T12:00:00Z'",
        ),
        (
            &["--around", "2026-11-21 14:00"],
            1,
            "A has no request (`ts >= timestamp '2026-11-21T14:00:00Z'",
        ),
        (&["true", "true"], 1, "A has no request (`true`)"),
        (&["tier = edge", "true"], 1, "edge"),
        (&["true", "true", "--measure", "duration"], 1, "`duration` is no time of `request`"),
    ] {
        let output = weir(&[&["compare", "--url", &hub.url], args].concat());
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
        assert!(complaint.contains(part), "{args:?}: {complaint}");
    }
}
