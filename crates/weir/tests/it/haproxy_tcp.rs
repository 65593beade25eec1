//! A real HAProxy in TCP mode: found by its configuration, its `option tcplog` records become rows
//! with what it measured.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::harness::{EndedProcess, Weir, can_run, free_address, serve, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// What a syslog daemon does: datagrams to lines of a file.
fn write_log(socket: &UdpSocket, log: &Path) {
    let mut file = std::fs::File::create(log).expect("there is room");
    let socket = socket.try_clone().expect("a socket");
    std::thread::spawn(move || {
        let mut datagram = [0; 8192];
        while let Ok(length) = socket.recv(&mut datagram) {
            let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
            // The priority is for the daemon; the file has the rest.
            let line = text.split_once('>').map_or(&*text, |(_, line)| line).trim_end();
            if writeln!(file, "{line}").is_err() {
                return;
            }
        }
    });
}

/// Answers each connection with what it sent.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 1000];
            let length = stream.read(&mut bytes).unwrap_or_default();
            let _ = stream.write_all(&bytes[..length]);
        }
    });
    address
}

#[test]
fn tcp_sessions_of_a_real_haproxy_are_found_and_have_columns() {
    if !can_run("HAProxy in TCP mode", "haproxy", Path::new("/usr/sbin/haproxy").exists()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("root");
    for name in ["etc/haproxy", "var/log"] {
        std::fs::create_dir_all(root.join(name)).expect("there is room");
    }
    let log = root.join("var/log/haproxy.log");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let syslog = socket.local_addr().expect("it is bound");
    write_log(&socket, &log);
    let (front, dead, nobody) = (free_address(), free_address(), free_address());
    let config = root.join("etc/haproxy/haproxy.cfg");
    let text = format!(
        "global\n  log {syslog} local0\n\ndefaults\n  log global\n  mode tcp\n  option tcplog\n  retries 0\n\
         \x20 timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n\n\
         frontend db\n  bind {front}\n  default_backend postgres\n\nbackend postgres\n  server pg1 {}\n\n\
         listen broken\n  bind {dead}\n  server gone {nobody}\n",
        echo()
    );
    std::fs::write(&config, text).expect("there is room");
    let mut command = Command::new("/usr/sbin/haproxy");
    command.args(["-db", "-f"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let _haproxy = EndedProcess(command.spawn().expect("it is installed"));
    let mut command = serve("up", &dir.path().join("data"));
    command.env("WEIR_COLLECT_ROOT", &root).env("WEIR_COLLECT_SAMPLE_HOST", "false");
    let weir = Weir::start(command);
    let mut stream = wait_for("HAProxy", PATIENCE, || TcpStream::connect(front).ok());
    stream.write_all(&[7; 300]).expect("it is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is connected");
    assert_eq!(answer.len(), 300);
    drop(stream);
    let mut refused = TcpStream::connect(dead).expect("HAProxy listens");
    let _reset_or_closed = refused.read(&mut [0]);
    let sql = "select attrs['proxy_frontend'], attrs['proxy_backend'], attrs['proxy_server'], attrs['response_bytes'], \
        attrs['termination_state'], severity, attrs['client_address'], \
        cast(attrs['duration_seconds'] as double) >= 0 and attrs['queue_seconds'] is not null from log \
        where program = 'haproxy' and attrs['termination_state'] is not null order by attrs['proxy_frontend']";
    let rows = wait_for("two sessions", PATIENCE, || {
        let rows = weir.rows(sql);
        (rows.len() >= 2).then_some(rows)
    });
    let expected = serde_json::json!([
        ["broken", "broken", "gone", "0", "SC", "warn", "127.0.0.1", true],
        ["db", "postgres", "pg1", "300", "--", "info", "127.0.0.1", true]
    ]);
    assert_eq!(serde_json::json!(rows), expected);
    assert_eq!(weir.number("select count(*) from reject"), 0);
    assert_eq!(weir.terminate(), Some(0));
}
