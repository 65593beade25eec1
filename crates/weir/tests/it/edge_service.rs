//! An edge under systemd: ready when it serves, another program in its place at SIGUSR2; and an
//! edge whose address was withdrawn.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::edge::{BackendServers, address_of, edge};
use crate::harness::{WEIR, Weir, can_run, free_address, pause, request, text, wait_for};
use crate::netns::Netns;

const PATIENCE: Duration = Duration::from_secs(60);

fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).expect("systemd is told in time");
    text(&buffer[..length])
}

/// A process that is no child of this one; killed when dropped.
struct Stranger(Pid);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn sigusr2_puts_another_weir_in_the_place_and_systemd_is_told_which() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 1);
    if !can_run("edge service", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let path = dir.path().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("room");
    systemd.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let listen = free_address();
    let config = dir.path().join("weir.toml");
    let write = |text: &str| std::fs::write(&config, text).expect("room");
    let good = format!(
        "[edge]\nlisten = [\"{listen}\"]\nbackends = [\"127.0.0.1:{}\"]\n",
        backends.ports[0]
    );
    write(&good);
    let mut command = edge(&dir.path().join("data"), &["--config"]);
    command.arg(&config).env("NOTIFY_SOCKET", &path);
    let weir = Weir::start(command);
    assert_eq!(told(&systemd), "READY=1");
    let old = Pid::from_raw(i32::try_from(weir.id()).expect("a pid")).expect("not 0");
    let url = format!("http://{listen}");
    // One that cannot start leaves everything as it is.
    write("[edge]\nlisten = [\"nowhere\"]\n");
    kill_process(old, Signal::USR2).expect("it runs");
    pause(Duration::from_secs(2));
    assert_eq!(status_of(&url), 200, "the edge still serves");
    write(&good);
    let load = Command::new("wrk")
        .args(["--threads", "1", "--duration", "6s", "--connections", "4", &url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("wrk is installed by `cargo xtask test`");
    kill_process(old, Signal::USR2).expect("it runs");
    let main = told(&systemd);
    let new =
        main.strip_prefix("MAINPID=").and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let new = Stranger(new.unwrap_or_else(|| panic!("{main}")));
    assert_ne!(new.0, old);
    assert_eq!(told(&systemd), "READY=1");
    assert_eq!(weir.wait(), Some(0), "the old one ends by itself");
    let said = text(&load.wait_with_output().expect("it ends").stdout);
    let errors = said.lines().find(|line| line.trim().starts_with("Socket errors"));
    // A machine that is slow is no failure.
    let is_whole = errors.is_none_or(|line| line.contains("connect 0, read 0, write 0"));
    assert!(is_whole && !said.contains("Non-2xx"), "{said}");
    assert_eq!(status_of(&url), 200, "the new one serves");
    kill_process(new.0, Signal::TERM).expect("it runs");
    wait_for("its end", PATIENCE, || (status_of(&url) == 0).then_some(()));
}

fn status_of(url: &str) -> u16 {
    request(url, "GET", "/", &[], "").0
}

const NAME: &str = "shop.example";
const OLD: [u8; 4] = [127, 0, 0, 2];
const NEW: [u8; 4] = [127, 0, 0, 3];

/// DNS (RFC 1035) that leads every name to the old address, or to the new one.
fn answer_names(is_moved: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:53").expect("it is our own namespace");
    let mut query = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut query) {
        let mut answer = query[..length].to_vec();
        answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(if is_moved.load(Relaxed) { NEW } else { OLD });
        let _ = socket.send_to(&answer, from);
    }
}

/// Asks it.
fn look_up() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split('.') {
        query.push(u8::try_from(label.len()).expect("short"));
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send_to(&query, "127.0.0.1:53").expect("it listens");
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).expect("an answer");
    let address: [u8; 4] = answer[length - 4..length].try_into().expect("four bytes");
    (address, 8080).into()
}

/// Requests a page from a client address.
fn visit(from: [u8; 4], to: SocketAddr) -> Result<(), String> {
    match fetch(from, to) {
        Ok(answer) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(answer) => Err(format!("{to} answered {answer:?}")),
        Err(error) => Err(format!("{to}: {error}")),
    }
}

fn fetch(from: [u8; 4], to: SocketAddr) -> std::io::Result<String> {
    use std::io::{Read, Write};

    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &to)?;
    let mut stream = std::net::TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// What stands behind both addresses.
fn serve_pages() {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.3:8080").expect("it is our own namespace");
    for mut stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        });
    }
}

#[test]
fn a_withdrawn_address_can_be_ended_when_those_without_fresh_dns_are_gone() {
    let netns = Netns::make("leaving");
    if !can_run("edge leaving", "root and iproute2", netns.is_some()) {
        return;
    }
    let netns = netns.expect("it is made");
    let dir = tempfile::tempdir().expect("a directory");
    let is_moved = Arc::new(AtomicBool::new(false));
    let for_names = Arc::clone(&is_moved);
    netns.spawn(move || answer_names(&for_names));
    netns.spawn(serve_pages);
    let mut command = netns.command(WEIR);
    command.arg("edge").arg("--data").arg(dir.path().join("data"));
    command.args([
        "--page",
        "127.0.0.1:0",
        "--listen",
        "127.0.0.2:8080",
        "--backend",
        "127.0.0.3:8080",
    ]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_COLLECT_HOST", "edge1");
    let weir = Weir::start(command);
    assert_eq!(address_of(&weir), "127.0.0.2:8080");
    // Eight look the name up each time, two did it once: their program keeps what it got.
    let staying = Arc::new(AtomicU32::new(2));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let visitors: Vec<_> = (0..10_u8)
        .map(|at| {
            let (staying, failed, is_over) =
                (Arc::clone(&staying), Arc::clone(&failed), Arc::clone(&is_over));
            netns.spawn(move || {
                let first = look_up();
                let stays = |kept: u32| at >= 2 || u32::from(at) < kept;
                while !is_over.load(Relaxed) && stays(staying.load(Relaxed)) {
                    let to = if at < 2 { first } else { look_up() };
                    if let Err(why) = visit([127, 0, 1, at + 1], to) {
                        failed.lock().expect("no panic").push(why);
                    }
                    pause(Duration::from_millis(50));
                }
            })
        })
        .collect();
    pause(Duration::from_secs(4));
    is_moved.store(true, Relaxed);
    let moved = Instant::now();
    let left = ["127.0.1.1", "127.0.1.2"];
    let (code, answer) = wait_for("the fresh ones are gone", PATIENCE, || {
        let (code, answer, _) = safe_to_end(&netns, &weir, moved, "edge1");
        let mut clients_of = clients_of(&answer);
        clients_of.sort();
        (clients_of == left).then_some((code, answer))
    });
    assert_eq!((code, answer["is_safe"].as_bool()), (Some(3), Some(false)), "{answer}");
    let requests = answer["requests"].as_f64().expect("a number");
    assert!(
        requests > 0.0 && requests < answer["requests_of_all"].as_f64().expect("one"),
        "{answer}"
    );
    staying.store(0, Relaxed);
    let (code, answer) = wait_for("nobody comes", PATIENCE, || {
        let (code, answer, _) = safe_to_end(&netns, &weir, moved, "edge1");
        (code == Some(0)).then_some((code, answer))
    });
    assert_eq!((code, answer["is_safe"].as_bool()), (Some(0), Some(true)), "{answer}");
    assert_eq!(clients_of(&answer), [""; 0]);
    // A host of which nothing is known is not safe.
    let (code, _, said) = safe_to_end(&netns, &weir, moved, "edge2");
    assert_eq!(code, Some(1));
    assert!(said.contains("it has reported nothing within a day"), "{said}");
    is_over.store(true, Relaxed);
    visitors.into_iter().for_each(|one| one.join().expect("it visits"));
    assert_eq!(weir.terminate(), Some(0));
    assert_eq!(
        *failed.lock().expect("no panic"),
        [""; 0],
        "who was served until then saw no failure"
    );
}

fn safe_to_end(
    netns: &Netns,
    weir: &Weir,
    moved: Instant,
    host: &str,
) -> (Option<i32>, Value, String) {
    let mut command = netns.command(WEIR);
    command.args(["edge", "safe-to-end", host, "--window", "2s", "--format", "json"]);
    command.args(["--withdrawn", &format!("{}s", moved.elapsed().as_secs() + 1)]);
    command.args(["--url", &weir.url]).env("XDG_CONFIG_HOME", "/nonexistent");
    let output = command.output().expect("weir can be started");
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), answer, text(&output.stderr))
}

fn clients_of(answer: &Value) -> Vec<String> {
    let all = answer["clients"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["client_address"].as_str().unwrap_or_default().to_owned()).collect()
}
