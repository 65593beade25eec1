//! A corpus of requests whose framing or target is odd: the backend sees the request that the edge
//! has read, or none.
//!
//! The vectors are of the kinds of Watchfire (2005), Kettle (*HTTP Desync Attacks*, 2019, and
//! *Browser-Powered Desync Attacks*, 2022), the *HTTP Garden* (2024) and RFC 9112 §11.2.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lab::{Lab, connect, read_all, settings};

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

fn unescape(text: &str) -> Vec<u8> {
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
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, " | ");
        let (name, outcome, bytes) = (parts.next(), parts.next(), parts.next());
        let (Some(name), Some(outcome), Some(bytes)) = (name, outcome, bytes) else {
            panic!("not a vector: {line}")
        };
        let mut stream = connect(lab.address);
        // The edge may refuse and close before it has all.
        let _ = stream.write_all(&unescape(bytes));
        let _ = stream.shutdown(Shutdown::Write);
        let answer = read_all(&mut stream);
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
