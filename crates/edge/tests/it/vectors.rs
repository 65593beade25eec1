//! A corpus of requests whose framing or target is odd: the backend sees the request that the edge
//! has read, or none.
//!
//! The vectors are of the kinds of Watchfire (2005), Kettle (*HTTP Desync Attacks*, 2019, and
//! *Browser-Powered Desync Attacks*, 2022), the *HTTP Garden* (2024) and RFC 9112 §11.2.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lab::{Lab, connect, read_all, settings, wait_until};

const VECTORS: &str = include_str!("vectors/requests.txt");

/// Requests as the backend has read them: method, target and length of the body.
pub(crate) type SeenRequests = Arc<Mutex<Vec<String>>>;

/// A backend that reads strictly, so that what it reads has one meaning only.
pub(crate) fn strict_backend(seen: &SeenRequests) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let seen = Arc::clone(seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(request) = read_request(&mut stream) {
                    let is_head = request.starts_with("HEAD ");
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                    let body = if is_head { "" } else { "ok" };
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
                    let _ = stream.get_mut().write_all(answer.as_bytes());
                }
            });
        }
    });
    address
}

fn read_line(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).ok()?;
    if line.is_empty() {
        return None;
    }
    assert!(line.ends_with(b"\r\n"), "a line without its end: {line:?}");
    line.truncate(line.len() - 2);
    Some(line)
}

/// Reads a request; fails on everything that another server could read in another way.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let line = String::from_utf8(read_line(stream)?).expect("a target is ASCII");
    let words: Vec<&str> = line.split(' ').collect();
    let &[method, target, "HTTP/1.1"] = &words[..] else { panic!("odd request line: {line}") };
    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), 0);
    loop {
        let field = read_line(stream)?;
        if field.is_empty() {
            break;
        }
        let at = field.iter().position(|byte| *byte == b':').expect("a colon");
        let name = String::from_utf8(field[..at].to_vec()).expect("a name is ASCII");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{name:?}");
        assert!(!field.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')), "{field:?}");
        let value = String::from_utf8_lossy(&field[at + 1..]).trim().to_owned();
        match name.replace('_', "-").to_ascii_lowercase().as_str() {
            "host" => hosts += 1,
            "content-length" => lengths.push(value.parse::<usize>().expect("a number")),
            "transfer-encoding" => {
                assert_eq!(value, "chunked");
                codings += 1;
            }
            "upgrade" | "http2-settings" => panic!("a hop-by-hop field passed: {name}"),
            _ => {}
        }
    }
    assert_eq!(hosts, 1, "hosts");
    assert!(lengths.len() + codings <= 1, "framed twice: {lengths:?} {codings}");
    let length = match (lengths.first(), codings) {
        (Some(length), _) => read_exactly(stream, *length)?,
        (None, 1) => read_chunks(stream)?,
        (None, _) => 0,
    };
    Some(format!("{method} {target} {length}"))
}

fn read_exactly(stream: &mut BufReader<TcpStream>, length: usize) -> Option<usize> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(length)
}

fn read_chunks(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut total = 0;
    loop {
        let size = String::from_utf8(read_line(stream)?).expect("a size is ASCII");
        let size = usize::from_str_radix(&size, 16).expect("a size");
        if size == 0 {
            while !read_line(stream)?.is_empty() {}
            return Some(total);
        }
        total += read_exactly(stream, size)?;
        assert!(read_line(stream)?.is_empty(), "data after a chunk");
    }
}

pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                out.push(u8::from_str_radix(digits, 16).expect("a byte"));
                rest = tail;
            }
            (b'\\', [escaped, tail @ ..]) => {
                out.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest = tail;
            }
            (b'{', [byte, b'*', tail @ ..]) => {
                let end = tail.iter().position(|one| *one == b'}').expect("a closing brace");
                let count = std::str::from_utf8(&tail[..end]).expect("a number");
                let count = out.len() + count.parse::<usize>().expect("a number");
                out.resize(count, *byte);
                rest = &tail[end + 1..];
            }
            _ => out.push(*first),
        }
    }
    out
}

/// What is wrong with the outcome of a vector.
fn complaint(outcome: &str, seen: &[String], answer: &str) -> Option<&'static str> {
    let (kind, expected) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let is_expected = seen.join("; ") == expected;
    let is_refused = seen.is_empty() && !answer.contains("HTTP/1.1 2");
    let is_harmless = seen.iter().all(|one| {
        ["/p", "/x", "/next"].iter().any(|target| one.split(' ').nth(1) == Some(target))
    });
    let is_fine = match kind {
        "pass" => is_expected,
        "refuse" => is_refused && (answer.is_empty() || answer.contains(" 400 ")),
        "either" => is_expected || is_refused,
        "incomplete" => is_refused,
        "any" => is_harmless,
        _ => panic!("unknown outcome `{outcome}`"),
    };
    (!is_fine).then_some("not as expected")
}

#[test]
fn edge_and_backend_read_the_same_request_or_it_is_refused() {
    let seen = SeenRequests::default();
    let lab = Lab::start(settings(&[strict_backend(&seen)]));
    let (mut count, mut wrong) = (0, Vec::new());
    for [name, outcome, bytes] in vectors() {
        let answer = send(&lab, bytes);
        let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(why) = complaint(outcome, &seen, &answer) {
            let answer = answer.lines().next().unwrap_or_default().to_owned();
            wrong.push(format!("{name}: {why}: {outcome}, but {seen:?} and `{answer}`"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 100, "{count}");
}

/// Name, outcome and bytes of each vector.
fn vectors() -> impl Iterator<Item = [&'static str; 3]> {
    VECTORS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut parts = line.splitn(3, " | ");
        [(); 3].map(|()| parts.next().unwrap_or_else(|| panic!("not a vector: {line}")))
    })
}

/// Sends a vector on a new connection; returns all that the edge answers.
fn send(lab: &Lab, bytes: &str) -> String {
    let mut stream = connect(lab.address);
    // The edge may refuse and close before it has all.
    let _ = stream.write_all(&unescape(bytes));
    let _ = stream.shutdown(Shutdown::Write);
    read_all(&mut stream)
}

/// A real server whose answers have the method and target of their request as their body.
struct RealServer {
    child: Child,
    port: u16,
}

impl RealServer {
    /// Starts `program` with a configuration for a port; the arguments end with the file's name.
    fn start(dir: &Path, program: &[&str], config: impl Fn(u16) -> String) -> Self {
        let port = free_port();
        let file = dir.join("config");
        std::fs::write(&file, config(port)).expect("a directory");
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("`cargo xtask setup` installs it");
        let server = Self { child, port };
        wait_until("a listener", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port below the ephemeral range, which no outgoing connection can take meanwhile.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 16_000 + u16::try_from(std::process::id() % 4000).expect("it is below 4000");
    loop {
        let port = first + NEXT.fetch_add(1, Relaxed) % 4000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Checks that a server behind the edge reads nothing that the edge has not read.
fn check_behind_the_edge(name: &str, server: &RealServer) {
    let lab = Lab::start(settings(&[SocketAddr::from(([127, 0, 0, 1], server.port))]));
    let (mut same, mut wrong) = (0, Vec::new());
    for [vector, outcome, bytes] in vectors() {
        let (kind, expected) = outcome.split_once(' ').unwrap_or((outcome, ""));
        if kind == "any" || expected.contains("HEAD ") {
            continue;
        }
        let answer = send(&lab, bytes);
        let seen: Vec<&str> = answer.lines().filter(|line| line.starts_with("read ")).collect();
        let mut expected: Vec<String> = expected
            .split("; ")
            .filter_map(|request| Some(format!("read {}", request.rsplit_once(' ')?.0)))
            .collect();
        if kind == "incomplete" {
            // The head is whole, and a server may answer before it has the body.
            let head: Vec<&str> = bytes.splitn(3, ' ').take(2).collect();
            expected = vec![format!("read {}", head.join(" "))];
        }
        // A server may refuse what is valid: then it answers less, but nothing else.
        let mut rest = expected.iter();
        if seen.iter().all(|one| rest.any(|other| other == one)) {
            same += usize::from(
                kind != "incomplete" && !seen.is_empty() && seen.len() == expected.len(),
            );
        } else {
            wrong.push(format!("{vector}: {expected:?}, but {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    assert!(same >= 60, "{name}: only {same} vectors were answered");
}

#[test]
fn nginx_behind_the_edge_reads_the_same_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let here = dir.path().display().to_string();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {here}/{name};"))
        .concat();
    let server = RealServer::start(dir.path(), &["/usr/sbin/nginx", "-c"], |port| {
        format!(
            "daemon off; master_process off; pid {here}/pid; error_log {here}/errors;\n\
             events {{}}\nhttp {{ access_log off; {temporary}\n\
             server {{ listen 127.0.0.1:{port}; location / {{\n\
             return 200 \"read $request_method $request_uri\\n\"; }} }} }}\n"
        )
    });
    check_behind_the_edge("nginx", &server);
}

#[test]
fn haproxy_behind_the_edge_reads_the_same_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = RealServer::start(dir.path(), &["/usr/sbin/haproxy", "-db", "-f"], |port| {
        format!(
            "defaults\n mode http\n timeout client 30s\n timeout http-keep-alive 30s\n\
             frontend all\n bind 127.0.0.1:{port}\n http-request return status 200 content-type \
             text/plain lf-string \"read %[method] %[url]\\n\"\n"
        )
    });
    check_behind_the_edge("haproxy", &server);
}
