//! Load generators: wrk for HTTP/1.1 and TLS, h2load (nghttp2) for HTTP/2, each in one thread on
//! CPU 1.

use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::servers::Server;

/// A typical query of web analytics, of 300 bytes.
pub(crate) const BEACON: &str = "/ping?h=example.org&p=%2Fnews%2Fstory-about-something&v=abcdef0123456789&n=12&k=ping&s=15000\
    &d=12&c=34&b=120&r=240&o=400&l=800&fp=300&lp=500&ls=0.02&ix=48&x0=value0000&x1=value0001&x2=value0002\
    &x3=value0003&x4=value0004&x5=value0005&x6=value0006&x7=value0007&x8=value0008&x9=value0009";
pub(crate) const FILE: &str = "/1k";
/// Typical header fields of browsers, of 700 bytes.
const HEADERS: &[&str] = &[
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Language: en-US,en;q=0.9",
    "Referer: https://example.org/news/story-about-something",
    "Sec-Fetch-Dest: image",
    "Sec-Fetch-Mode: no-cors",
    "Sec-Fetch-Site: cross-site",
    "sec-ch-ua: \"Chromium\";v=\"130\", \"Google Chrome\";v=\"130\"",
    "sec-ch-ua-mobile: ?0",
    "sec-ch-ua-platform: \"Linux\"",
];

/// Protocol of a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadProtocol {
    Plain,
    Tls,
    /// HTTP/2 over TLS.
    Http2,
}

/// A kind of load.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    path: &'static str,
    way: LoadProtocol,
    is_new_connection: bool,
}

pub(crate) const LOADS: [Load; 9] = [
    load("beacon, kept connections", LoadProtocol::Plain, BEACON, false),
    load("beacon, a connection each", LoadProtocol::Plain, BEACON, true),
    load("proxied 1 KiB, kept connections", LoadProtocol::Plain, FILE, false),
    load("proxied 1 KiB, a connection each", LoadProtocol::Plain, FILE, true),
    load("beacon, TLS 1.3, kept connections", LoadProtocol::Tls, BEACON, false),
    load("beacon, TLS 1.3, a handshake each", LoadProtocol::Tls, BEACON, true),
    load("proxied 1 KiB, TLS 1.3, kept connections", LoadProtocol::Tls, FILE, false),
    load("beacon, HTTP/2 over TLS", LoadProtocol::Http2, BEACON, false),
    load("proxied 1 KiB, HTTP/2 over TLS", LoadProtocol::Http2, FILE, false),
];

const fn load(
    name: &'static str,
    way: LoadProtocol,
    path: &'static str,
    is_new_connection: bool,
) -> Load {
    Load { name, path, way, is_new_connection }
}

/// Result of a load.
pub(crate) struct LoadResult {
    pub(crate) requests: f64,
    pub(crate) rate: f64,
    /// Milliseconds; h2load has none.
    pub(crate) p99: Option<f64>,
}

impl Load {
    /// Whether a server supports the protocol.
    pub(crate) fn suits(&self, server: &Server) -> bool {
        self.way == LoadProtocol::Plain || server.tls_port != 0
    }

    /// Loads a server for `seconds`.
    pub(crate) fn run(&self, server: &Server, seconds: u64) -> anyhow::Result<LoadResult> {
        let origin = match self.way {
            LoadProtocol::Plain => format!("http://127.0.0.1:{}", server.port),
            LoadProtocol::Tls | LoadProtocol::Http2 => {
                format!("https://127.0.0.1:{}", server.tls_port)
            }
        };
        let url = format!("{origin}{}", self.path);
        if self.way == LoadProtocol::Http2 {
            return h2load(&url, seconds);
        }
        wrk(&url, seconds, self.is_new_connection)
    }
}

/// Runs a load generator on CPU 1 with a browser's header fields, and returns its output.
pub(crate) fn on_processor_1(program: &str, args: &[&str], url: &str) -> anyhow::Result<String> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1", program]).args(args);
    for header in HEADERS {
        command.args(["-H", header]);
    }
    let output = command
        .arg(url)
        .output()
        .with_context(|| format!("cannot run `taskset -c 1 {program}`"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wrk(url: &str, seconds: u64, is_new_connection: bool) -> anyhow::Result<LoadResult> {
    let span = format!("-d{seconds}s");
    let mut args = vec!["-t1", "-c64", "--latency", &span];
    if is_new_connection {
        args.extend(["-H", "Connection: close"]);
    }
    let text = on_processor_1("wrk", &args, url)?;
    ensure!(!text.contains("Non-2xx"), "some requests failed: {text}");
    let mut lines = text.lines().map(str::trim);
    let p99 = lines.clone().find_map(|line| milliseconds(line.strip_prefix("99%")?.trim()));
    let requests = lines.clone().find_map(|line| line.split_once(" requests in ")?.0.parse().ok());
    let rate = lines.find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let (requests, rate) =
        requests.zip(rate).with_context(|| format!("cannot read the output of wrk: {text}"))?;
    Ok(LoadResult { requests, rate, p99 })
}

fn milliseconds(text: &str) -> Option<f64> {
    let (text, factor) = match text {
        _ if text.ends_with("us") => (text.strip_suffix("us")?, 0.001),
        _ if text.ends_with("ms") => (text.strip_suffix("ms")?, 1.0),
        _ => (text.strip_suffix('s')?, 1000.0),
    };
    Some(text.parse::<f64>().ok()? * factor)
}

/// Runs h2load with 16 connections of 4 streams: as many requests in flight as with wrk.
fn h2load(url: &str, seconds: u64) -> anyhow::Result<LoadResult> {
    let span = format!("-D{seconds}");
    let text = on_processor_1("h2load", &["-t1", "-c16", "-m4", &span], url)?;
    let figures = [("status codes:", "2xx"), ("requests:", "failed"), ("finished in", "req/s")]
        .map(|names| {
            let line = text.lines().find_map(|line| line.strip_prefix(names.0))?;
            let number = line.split(',').find_map(|one| one.trim().strip_suffix(names.1))?;
            number.trim().parse::<f64>().ok()
        });
    let [Some(requests), Some(bad), Some(rate)] = figures else {
        bail!("cannot read the output of h2load: {text}");
    };
    ensure!(bad == 0.0, "some requests failed: {text}");
    ensure!(text.contains("TLSv1.3") && text.contains("h2"), "unexpected protocol: {text}");
    Ok(LoadResult { requests, rate, p99: None })
}
