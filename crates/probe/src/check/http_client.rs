//! One GET over HTTP/1.1, with a deadline and bounds: RFC 9112.
//!
//! The surprising thing: a body can end by its length, by its chunks or by the end of the
//! connection, and a server that promises more than it sends is only noticed in the first two. And
//! servers compress bodies for clients that do not want it: gzip is unpacked.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::deadline::{Deadline, TimedStream, resolve};
use super::tls_client;

const HEAD_BYTES_MAX: usize = 64 << 10;

/// A URL of `http` or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The host, an address of IPv6 without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query; begins with `/`.
    pub path: String,
}

impl HttpUrl {
    /// Parses a URL; the error is what is wrong with it.
    ///
    /// # Errors
    /// When it is no URL of `http` or `https`, or has a login in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err("it begins with neither http:// nor https://".to_owned()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("it has a login, which would be shown with every result".to_owned());
        }
        let port = if is_tls { 443 } else { 80 };
        let (host, port) = host_and_port(authority, Some(port))?;
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("its path has a space or a control character".to_owned());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { is_tls, host, port, path })
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", authority(self), self.path)
    }
}

/// Host and port as in the header `Host`: without the scheme's own port.
fn authority(url: &HttpUrl) -> String {
    let HttpUrl { host, port, .. } = url;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let usual = if url.is_tls { 443 } else { 80 };
    if *port == usual { host } else { format!("{host}:{port}") }
}

/// `name:port`, `[::1]:port`, or without a port if there is a usual one.
///
/// # Errors
/// What is wrong with it.
pub(super) fn host_and_port(text: &str, usual: Option<u16>) -> Result<(String, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(port) => {
            port.parse().ok().filter(|port| *port > 0).ok_or("its port is no number up to 65535")?
        }
        None => usual.ok_or("it has no port")?,
    };
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or("its `[` does not end")?,
        None => host,
    };
    let is_host = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte));
    if is_host { Ok((host.to_owned(), port)) } else { Err("it names no host".to_owned()) }
}

/// A request: the URL, and where it differs from what the URL says.
#[derive(Clone, Copy, Debug)]
pub(super) struct HttpRequest<'a> {
    pub(super) url: &'a HttpUrl,
    /// The address to connect to, instead of those of the name.
    pub(super) address: Option<SocketAddr>,
    /// The value of the header `Host`, instead of that of the URL.
    pub(super) host_header: Option<&'a str>,
    pub(super) user_agent: &'a str,
    pub(super) ca_file: Option<&'a Path>,
    /// Bytes of the body that are read; further ones are left.
    pub(super) body_bytes: usize,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Another coding of the body than gzip, which is not unpacked.
    pub(super) coding: Option<String>,
    /// Whether the body is longer than what was read.
    pub(super) is_cut: bool,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum HttpFault {
    /// The connection failed.
    Io(io::Error),
    /// The server sent something that is not HTTP.
    NotHttp,
}

impl From<io::Error> for HttpFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl HttpFault {
    pub(super) fn reason(&self, deadline: Deadline) -> String {
        match self {
            Self::Io(error) => deadline.reason(error),
            Self::NotHttp => "the response is not HTTP".to_owned(),
        }
    }
}

/// Sends the request on a connection of its own and reads the response.
pub(super) fn get(
    request: &HttpRequest<'_>,
    deadline: Deadline,
) -> Result<HttpResponse, HttpFault> {
    let HttpUrl { is_tls, host, port, .. } = request.url;
    let addresses = match request.address {
        Some(address) => vec![address],
        None => resolve(host, *port)?,
    };
    let stream = TimedStream::new(deadline.connect(&addresses)?, deadline);
    if *is_tls {
        exchange(tls_client::secure(stream, host, request.ca_file)?, request)
    } else {
        exchange(stream, request)
    }
}

fn exchange(
    mut stream: impl Read + Write,
    request: &HttpRequest<'_>,
) -> Result<HttpResponse, HttpFault> {
    let own = authority(request.url);
    let (host, agent) = (request.host_header.unwrap_or(&own), request.user_agent);
    let text = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        request.url.path
    );
    stream.write_all(text.as_bytes())?;
    stream.flush()?;
    let (mut head, mut rest) = read_head(&mut stream, Vec::new())?;
    // 100 and 103 come before the response itself.
    while head.status < 200 && head.status != 101 {
        (head, rest) = read_head(&mut stream, rest)?;
    }
    let response = read_body(stream, &head, rest, request.body_bytes)?;
    Ok(match head.coding.as_str() {
        "" | "identity" => response,
        "gzip" | "x-gzip" => unpacked(response, request.body_bytes),
        _ => HttpResponse { coding: Some(head.coding), ..response },
    })
}

/// The body without gzip, as far as it is whole and within the limit.
fn unpacked(response: HttpResponse, limit: usize) -> HttpResponse {
    let mut decoder = MultiGzDecoder::new(response.body.as_slice());
    let (mut body, mut buffer) = (Vec::new(), [0; 8 << 10]);
    while body.len() <= limit {
        match read_some(&mut decoder, &mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => body.extend_from_slice(&buffer[..count]),
        }
    }
    let is_cut = response.is_cut || body.len() > limit;
    body.truncate(limit);
    HttpResponse { body, is_cut, ..response }
}

/// What is needed of a response's header.
struct ResponseHead {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    /// Of the content, in lower case; empty for none.
    coding: String,
}

/// Reads up to the empty line; `bytes` were read before, and those after the line are returned.
fn read_head(
    stream: &mut impl Read,
    mut bytes: Vec<u8>,
) -> Result<(ResponseHead, Vec<u8>), HttpFault> {
    let mut buffer = [0; 4 << 10];
    let end = loop {
        if let Some(end) = head_end(&bytes) {
            break end;
        }
        let known = bytes.len().min(5);
        if bytes[..known] != b"HTTP/"[..known] || bytes.len() > HEAD_BYTES_MAX {
            return Err(HttpFault::NotHttp);
        }
        match read_some(stream, &mut buffer)? {
            0 => return Err(HttpFault::Io(io::ErrorKind::UnexpectedEof.into())),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    };
    let rest = bytes.split_off(end);
    Ok((parse_head(&bytes).ok_or(HttpFault::NotHttp)?, rest))
}

/// Length of the head with its empty line. Devices end lines by LF alone, or mix both: RFC 9112 §2.2.
fn head_end(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match &bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// A connection that ends without TLS' `close_notify` has ended all the same.
fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            other => return other,
        }
    }
}

fn parse_head(bytes: &[u8]) -> Option<ResponseHead> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let version = words.next()?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    let status = words.next()?.parse().ok().filter(|status| (100..1000).contains(status))?;
    let mut head = ResponseHead { status, length: None, is_chunked: false, coding: String::new() };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.trim().parse().ok(),
            "content-encoding" => head.coding = value.trim().to_ascii_lowercase(),
            "transfer-encoding" => {
                head.is_chunked = value.trim().to_ascii_lowercase().ends_with("chunked");
            }
            _ => {}
        }
    }
    Some(head)
}

fn read_body(
    mut stream: impl Read,
    head: &ResponseHead,
    rest: Vec<u8>,
    limit: usize,
) -> Result<HttpResponse, HttpFault> {
    let mut response =
        HttpResponse { status: head.status, body: Vec::new(), coding: None, is_cut: false };
    if matches!(head.status, 101 | 204 | 304) || limit == 0 {
        return Ok(response);
    }
    if head.is_chunked {
        let mut chunks = ChunkReader { stream, buffer: rest };
        response.is_cut = chunks.read(&mut response.body, limit)?;
        return Ok(response);
    }
    let length =
        head.length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
    let wanted = length.min(limit);
    response.body = rest;
    let mut buffer = [0; 8 << 10];
    while response.body.len() < wanted {
        match read_some(&mut stream, &mut buffer)? {
            0 if head.length.is_some() => {
                return Err(HttpFault::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            0 => return Ok(response),
            count => response.body.extend_from_slice(&buffer[..count]),
        }
    }
    response.is_cut = length > wanted;
    response.body.truncate(wanted);
    Ok(response)
}

/// Reads chunks (RFC 9112 §7.1).
struct ChunkReader<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: Read> ChunkReader<S> {
    /// Appends the chunks to `body`; true if there are more than `limit` bytes of them.
    fn read(&mut self, body: &mut Vec<u8>, limit: usize) -> Result<bool, HttpFault> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| HttpFault::NotHttp)?;
            if size == 0 {
                return Ok(false);
            }
            let kept = size.min(limit - body.len());
            while self.buffer.len() < kept {
                self.fill()?;
            }
            body.extend(self.buffer.drain(..kept));
            if kept < size {
                return Ok(true);
            }
            self.line()?;
        }
    }

    fn line(&mut self) -> Result<String, HttpFault> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(HttpFault::NotHttp);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), HttpFault> {
        let mut buffer = [0; 8 << 10];
        match read_some(&mut self.stream, &mut buffer)? {
            0 => Err(HttpFault::Io(io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.buffer.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
