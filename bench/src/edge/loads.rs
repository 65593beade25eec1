//! Loads: wrk for HTTP/1.1 and TLS, h2load (nghttp2) for HTTP/2, each in one thread on processor 1.

use std::process::Command;

use anyhow::{Context, ensure};

use super::servers::Server;

/// A query like an analytics company's: 300 bytes.
pub(crate) const BEACON: &str = "/ping?h=example.org&p=%2Fnews%2Fstory-about-something&v=abcdef0123456789&n=12&k=ping&s=15000\
    &d=12&c=34&b=120&r=240&o=400&l=800&fp=300&lp=500&ls=0.02&ix=48&x0=value0000&x1=value0001&x2=value0002\
    &x3=value0003&x4=value0004&x5=value0005&x6=value0006&x7=value0007&x8=value0008&x9=value0009";
pub(crate) const FILE: &str = "/1k";
/// What browsers send: 700 bytes.
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

/// How a load comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Tls,
    /// HTTP/2 over TLS.
    Http2,
}

/// One kind of load.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    path: &'static str,
    way: Way,
    is_new_connection: bool,
}

pub(crate) const LOADS: [Load; 9] = [
    load("beacon, kept connections", BEACON, Way::Plain, false),
    load("beacon, a connection each", BEACON, Way::Plain, true),
    load("proxied 1 KiB, kept connections", FILE, Way::Plain, false),
    load("proxied 1 KiB, a connection each", FILE, Way::Plain, true),
    load("beacon, TLS 1.3, kept connections", BEACON, Way::Tls, false),
    load("beacon, TLS 1.3, a handshake each", BEACON, Way::Tls, true),
    load("proxied 1 KiB, TLS 1.3, kept connections", FILE, Way::Tls, false),
    load("beacon, HTTP/2 over TLS", BEACON, Way::Http2, false),
    load("proxied 1 KiB, HTTP/2 over TLS", FILE, Way::Http2, false),
];

const fn load(name: &'static str, path: &'static str, way: Way, is_new_connection: bool) -> Load {
    Load { name, path, way, is_new_connection }
}

/// What was said of a load.
pub(crate) struct Said {
    pub(crate) requests: f64,
    pub(crate) rate: f64,
    /// Milliseconds; h2load tells none.
    pub(crate) p99: Option<f64>,
}

impl Load {
    /// Whether a server speaks it.
    pub(crate) fn suits(&self, server: &Server) -> bool {
        self.way == Way::Plain || server.tls_port != 0
    }

    /// Loads a server, of which the ports without and with TLS are given.
    pub(crate) fn run(&self, port: u16, tls_port: u16, seconds: u64) -> anyhow::Result<Said> {
        let origin = match self.way {
            Way::Plain => format!("http://127.0.0.1:{port}"),
            Way::Tls | Way::Http2 => format!("https://127.0.0.1:{tls_port}"),
        };
        let url = format!("{origin}{}", self.path);
        if self.way == Way::Http2 {
            return h2load(&url, seconds);
        }
        wrk(&url, seconds, self.is_new_connection)
    }
}

/// What a program says that loads `url` with the header fields of a browser.
pub(crate) fn on_processor_1(program: &str, args: &[&str], url: &str) -> anyhow::Result<String> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1", program]).args(args);
    for header in HEADERS {
        command.args(["-H", header]);
    }
    let output = command.arg(url).output().with_context(|| format!("cannot run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wrk(url: &str, seconds: u64, is_new_connection: bool) -> anyhow::Result<Said> {
    let span = format!("-d{seconds}s");
    let mut args = vec!["-t1", "-c64", "--latency", &span];
    if is_new_connection {
        args.extend(["-H", "Connection: close"]);
    }
    let text = on_processor_1("wrk", &args, url)?;
    ensure!(!text.contains("Non-2xx"), "not every answer was good: {text}");
    let find = |what: &dyn Fn(&str) -> Option<f64>| text.lines().map(str::trim).find_map(what);
    let requests = find(&|line| line.split_once(" requests in ")?.0.parse().ok());
    let rate = find(&|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let p99 = find(&|line| milliseconds(line.strip_prefix("99%")?.trim()));
    let (requests, rate) = requests.zip(rate).with_context(|| format!("wrk said {text}"))?;
    Ok(Said { requests, rate, p99 })
}

fn milliseconds(text: &str) -> Option<f64> {
    let (text, factor) = match text {
        _ if text.ends_with("us") => (text.strip_suffix("us")?, 0.001),
        _ if text.ends_with("ms") => (text.strip_suffix("ms")?, 1.0),
        _ => (text.strip_suffix('s')?, 1000.0),
    };
    Some(text.parse::<f64>().ok()? * factor)
}

/// 16 connections with 4 streams each: as many requests under way as with wrk.
fn h2load(url: &str, seconds: u64) -> anyhow::Result<Said> {
    let span = format!("-D{seconds}");
    let text = on_processor_1("h2load", &["-t1", "-c16", "-m4", &span], url)?;
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let before = |part: &str, what: &str| {
        let number = part.split(',').find_map(|one| one.trim().strip_suffix(what));
        number.and_then(|number| number.trim().parse::<f64>().ok())
    };
    let good = line("status codes:").and_then(|rest| before(rest, "2xx"));
    let bad = line("requests:").and_then(|rest| before(rest, "failed"));
    let rate = line("finished in").and_then(|rest| before(rest, "req/s"));
    let said = good.zip(bad).zip(rate);
    let ((requests, bad), rate) = said.with_context(|| format!("h2load said {text}"))?;
    ensure!(bad == 0.0, "not every answer was good: {text}");
    ensure!(text.contains("TLSv1.3") && text.contains("h2"), "another protocol: {text}");
    Ok(Said { requests, rate, p99: None })
}
