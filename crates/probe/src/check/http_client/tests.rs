//! URLs, and responses as servers send them.

use std::io::Cursor;

use super::*;

/// Bytes that a server sends, in pieces of the given length; what is written is discarded.
struct SlowServer {
    bytes: Cursor<Vec<u8>>,
    piece: usize,
}

impl Read for SlowServer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.piece);
        self.bytes.read(&mut buffer[..length])
    }
}

impl Write for SlowServer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn request(url: &HttpUrl, body_bytes: usize) -> HttpRequest<'_> {
    let (address, host_header, ca_file) = (None, None, None);
    HttpRequest { url, address, host_header, user_agent: "x", ca_file, body_bytes }
}

/// The response, the same whatever pieces it arrives in.
fn respond(bytes: &[u8], limit: usize) -> Result<HttpResponse, String> {
    let url = HttpUrl::parse("http://a/").unwrap();
    let mut found: Option<Result<HttpResponse, String>> = None;
    for piece in [1, 3, 7, 100_000] {
        let server = SlowServer { bytes: Cursor::new(bytes.to_vec()), piece };
        let response = exchange(server, &request(&url, limit)).map_err(|fault| match fault {
            HttpFault::Io(error) => format!("{:?}", error.kind()),
            HttpFault::NotHttp => "not HTTP".to_owned(),
        });
        if let Some(before) = &found {
            assert_eq!(*before, response, "in pieces of {piece}");
        }
        found = Some(response);
    }
    found.expect("there are pieces")
}

fn body(bytes: &[u8]) -> Result<String, String> {
    respond(bytes, 100).map(|response| String::from_utf8(response.body).unwrap())
}

#[test]
fn urls_are_read_or_refused_with_the_reason() {
    for (text, shown) in [
        ("http://a", "http://a/"),
        ("https://a:443/x?y#z", "https://a/x?y"),
        ("http://[::1]:8080?q", "http://[::1]:8080/?q"),
        ("https://A-b.example:8443/", "https://A-b.example:8443/"),
    ] {
        assert_eq!(HttpUrl::parse(text).unwrap().to_string(), shown, "{text}");
    }
    for (text, why) in [
        ("a.example", "it begins with neither http:// nor https://"),
        ("http://", "it names no host"),
        ("http://u:p@a/", "it has a login, which would be shown with every result"),
        ("http://a:0/", "its port is no number up to 65535"),
        ("http://a:99999/", "its port is no number up to 65535"),
        ("http://a b/", "it names no host"),
        ("http://a/x\r\nHost: b", "its path has a space or a control character"),
    ] {
        assert_eq!(HttpUrl::parse(text).unwrap_err(), why, "{text}");
    }
}

#[test]
fn body_ends_by_length_by_chunks_or_with_the_connection() {
    assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore").unwrap(), "ok");
    assert_eq!(body(b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nok").unwrap(), "ok");
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    assert_eq!(body(chunked).unwrap(), "hello");
    assert_eq!(body(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), "");
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    assert_eq!(respond(early, 9).unwrap_err(), "UnexpectedEof");
    let both = [early, &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..]].concat();
    assert_eq!(body(&both).unwrap(), "ok");
}

/// louislam/uptime-kuma#5972, nodejs/node#43798, vibe-d/vibe.d#2362: devices and scripts end the lines
/// of the head by LF alone, or some of them; browsers and curl read that.
#[test]
fn heads_with_bare_line_feeds_are_read() {
    for head in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\n\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\n",
    ] {
        let bytes = format!("{head}ok\n\n");
        assert_eq!(body(bytes.as_bytes()).as_deref(), Ok("ok"), "{head:?}");
    }
}

#[test]
fn truncated_and_foreign_responses_are_told_apart() {
    assert_eq!(
        body(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").unwrap_err(),
        "UnexpectedEof"
    );
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok";
    assert_eq!(body(chunked).unwrap_err(), "UnexpectedEof");
    for foreign in [
        &b"SSH-2.0-OpenSSH_9.2p1\r\n"[..],
        b"-ERR wrong number of arguments for 'get' command\r\n",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 ok\r\n\r\n",
    ] {
        assert_eq!(body(foreign).unwrap_err(), "not HTTP", "{}", String::from_utf8_lossy(foreign));
    }
    assert_eq!(body(b"").unwrap_err(), "UnexpectedEof");
    assert_eq!(body(b"HTTP/1.1 200 OK\r\nServer: x").unwrap_err(), "UnexpectedEof");
}

#[test]
fn long_bodies_are_cut_and_marked() {
    let cut = respond(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 3).unwrap();
    assert_eq!((cut.body.as_slice(), cut.is_cut), (&b"hel"[..], true));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert!(respond(chunked, 3).unwrap().is_cut);
    assert!(!respond(chunked, 5).unwrap().is_cut);
    assert_eq!(respond(chunked, 0).unwrap().body, b"");
}

#[test]
fn no_response_makes_it_panic() {
    arbtest::arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        let _ = respond(&bytes, 50);
        let mut with_head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        with_head.extend(bytes);
        let _ = respond(&with_head, 50);
        Ok(())
    });
}

/// elastic/beats#28303, grafana/synthetic-monitoring-agent#124, thp/urlwatch PR 4: servers that compress for a
/// client that wants no compression.
#[test]
fn a_compressed_body_is_unpacked_or_named() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"Log in").expect("memory takes all");
    let packed = packed.finish().expect("memory takes all");
    let answer = |coding: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    };
    for coding in ["gzip", "GZIP", "x-gzip"] {
        assert_eq!(body(&answer(coding, &packed)).as_deref(), Ok("Log in"), "{coding}");
    }
    let short = respond(&answer("gzip", &packed), 30).unwrap();
    assert_eq!((short.body.as_slice(), short.is_cut), (&b"Log in"[..], false));
    let cut = respond(&answer("gzip", &packed), packed.len() - 9).unwrap();
    assert!(cut.is_cut && b"Log in".starts_with(&cut.body), "{cut:?}");
    assert_eq!(respond(&answer("gzip", b"no gzip"), 30).unwrap().body, b"");
    assert_eq!(respond(&answer("br", b"xyz"), 30).unwrap().coding.as_deref(), Some("br"));
    assert_eq!(body(&answer("identity", b"ok")).as_deref(), Ok("ok"));
}
