//! How many lines a second one core turns into rows: `cargo run -p weir-parse --example rate [--]
//! [format] [lines]`.
//!
//! Formats: `json` (keys as they come), `json-template`, `combined`, `combined-template`,
//! `haproxy`, `auto`; through pipelines `grok` (`%{COMBINEDAPACHELOG}`), `grok-classic` (the same
//! lines by a pattern in which a byte may go several ways), `grok-redacted`, `key-value`. `hostile`
//! tells what the lines cost that are made to cost most. The lines are of the 15-field nginx format
//! of `docs/bench`, 589 bytes on average, made here from a fixed seed. The same lines are read by
//! sonic-rs into its lazy members, as a measure of what the row building costs. Times are those on
//! the CPU (`/proc/self/schedstat`), so that a busy machine does not change them much.
#![expect(clippy::print_stdout, reason = "a command that prints its figures")]

use std::fmt::Write as _;

use fastrand::Rng;
use weir_parse::{LineParser, ParsedRows, ParserFile, Parsers, Redaction, StreamName};
use weir_tables::{JsonEscape, LogFormat, LogSource, Micros, Program, Rows};

/// As in weir itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.6099.71 Safari/537.36",
    "Googlebot/2.1 (+http://www.google.example/bot.html)",
    "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
    "Mozilla/5.0 (Linux; Android 14; SM-G991) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36",
];

const KEYS: &str = r#"{"@timestamp":"$time_iso8601","@version":"1","remote_addr":"$remote_addr","body_bytes_sent":"$body_bytes_sent","request_time":"$request_time","upstream_addr":"$upstream_addr","upstream_response_time":"$upstream_response_time","status":"$status","uri":"$uri","query_strings":"$query_string","request_method":"$request_method","http_referrer":"$http_referer","http_host":"$http_host","scheme":"$scheme","http_user_agent":"$http_user_agent","request_id":"$request_id"}"#;
const COMBINED: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;

fn json_line(out: &mut String, r: &mut Rng, second: u64) {
    let (minute, second) = (second / 60 % 60, second % 60);
    let (a, b, c, d) = (r.u64(..223) + 1, r.u64(..256), r.u64(..256), r.u64(..256));
    let agent = AGENTS[r.usize(..AGENTS.len())];
    let (time, upstream) = (r.u64(..900), r.u64(..12));
    let referer = format!(
        "https://news.example.com/section/article-about-{:05}/page/{}",
        r.u64(..50_000),
        r.u64(..90)
    );
    writeln!(
        out,
        r#"{{"@timestamp":"2026-11-20T12:{minute:02}:{second:02}+00:00","@version":"1","remote_addr":"{a}.{b}.{c}.{d}","body_bytes_sent":{},"request_time":0.{time:03},"upstream_addr":"10.20.{upstream}.1{upstream}:8080","upstream_response_time":"0.{:03}","status":{},"uri":"/world/{}.html","query_strings":"utm_source=news&sid={:016x}","request_method":"GET","http_referrer":"{referer}","http_host":"www.n{}.example","scheme":"https","http_user_agent":"{agent}","request_id":"{:016x}{:016x}"}}"#,
        r.u64(..90_000), time * 9 / 10, 200 + r.u64(..4) * 100, r.u64(..50_000), r.u64(..1 << 31), r.u64(..200), r.u64(..1 << 31), r.u64(..1 << 31),
    )
    .expect("writing to a String does not fail");
}

fn combined_line(out: &mut String, r: &mut Rng, second: u64) {
    let (minute, second) = (second / 60 % 60, second % 60);
    let agent = AGENTS[r.usize(..AGENTS.len())];
    writeln!(
        out,
        r#"{}.{}.1.2 - - [20/Nov/2026:12:{minute:02}:{second:02} +0000] "GET /world/politics-{}.html?sid={} HTTP/1.1" 200 {} "https://news.example.com/{}" "{agent}""#,
        r.u64(..223) + 1, r.u64(..256), r.u64(..50_000), r.u64(..1 << 31), r.u64(..90_000), r.u64(..50_000),
    )
    .expect("writing to a String does not fail");
}

fn haproxy_line(out: &mut String, r: &mut Rng, second: u64) {
    let (minute, second) = (second / 60 % 60, second % 60);
    writeln!(
        out,
        r#"Nov 20 12:{minute:02}:{second:02} lb1 haproxy[812]: {}.1.2.3:{} [20/Nov/2026:12:{minute:02}:{second:02}.{:03}] web~ app/app{} 0/0/1/{}/{} 200 {} - - ---- 12/11/5/2/0 0/0 "GET /world/politics-{}.html HTTP/1.1""#,
        r.u64(..223) + 1, 1024 + r.u64(..60_000), r.u64(..1000), r.u64(..9), r.u64(..90), 90 + r.u64(..90), r.u64(..90_000), r.u64(..50_000),
    )
    .expect("writing to a String does not fail");
}

const CLASSIC: &str = r#"%{IPORHOST:clientip} %{USER:ident} %{USER:auth} \[%{HTTPDATE:timestamp}\] "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" %{NUMBER:response} (?:%{NUMBER:bytes}|-) %{QS:referrer} %{QS:agent}"#;

fn pair_line(out: &mut String, r: &mut Rng, second: u64) {
    let (minute, second) = (second / 60 % 60, second % 60);
    writeln!(
        out,
        r#"time=2026-11-20T12:{minute:02}:{second:02}Z level=warn src={}.2.3.4 dst=10.0.0.{} proto=tcp spt={} dpt=443 action=drop msg="denied by rule {}""#,
        r.u64(..223) + 1, r.u64(..256), r.u64(..65_536), r.u64(..900),
    )
    .expect("writing to a String does not fail");
}

/// The pipeline of a format that is none by itself.
fn pipeline_of(name: &str) -> Option<String> {
    let grok = |pattern: &str| format!("[parse]\nformat = \"grok\"\npattern = '{pattern}'\n");
    match name {
        "grok" | "grok-redacted" => Some(grok("%{COMBINEDAPACHELOG}")),
        "grok-classic" => Some(grok(CLASSIC)),
        "key-value" => Some("[parse]\nformat = \"key_value\"\n".into()),
        _ => None,
    }
}

fn parser(name: &str) -> LineParser {
    let source = LogSource {
        path: "/var/log/nginx/access.log".into(),
        program: Program::Nginx,
        format: format_of(name),
        found_in: "example".into(),
    };
    let stream = StreamName { path: "/var/log/nginx/access.log", host: "web1" };
    let Some(text) = pipeline_of(name) else { return LineParser::new(&source, stream) };
    let parsers = Parsers::built_in();
    let file = ParserFile { origin: name, text: &text };
    let pipeline = parsers.pipeline_of(file).expect("a good pipeline");
    let parser = parsers.line_parser_with(Some(&pipeline), &source, stream);
    if name != "grok-redacted" {
        return parser;
    }
    let all = Redaction::of_kinds(["email", "card", "token", "client_address"]);
    parser.with_redaction(all.expect("known kinds"))
}

/// Lines per measurement: the kernel counts a thread's time in milliseconds.
const HOSTILE_ROUNDS: u32 = 1_000;

/// Patterns and lines with the highest cost: CPU time per line.
fn hostile() {
    let many = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    for (pattern, line) in [
        ("(a+)+$", many("a", 60_000) + "b"),
        ("(.*a){20}!", many("a", 60_000)),
        ("%{DATA:a} %{DATA:b} %{DATA:c} %{DATA:d} %{DATA:e}x", many("a ", 60_000)),
        ("(?:%{GREEDYDATA}=%{GREEDYDATA}){9}!", many("=", 60_000)),
        ("%{COMBINEDAPACHELOG}", many("1", 60_000)),
        (
            "%{COMBINEDAPACHELOG}",
            format!("1 - - [20/Nov/2026:12:00:00 +0000] \"{}", many("\\\"", 60_000)),
        ),
        (
            CLASSIC,
            format!("1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"{}", many("GET /a ", 60_000)),
        ),
        ("%{HAPROXYHTTP}", many("Nov 20 12:00:00 a b: ", 60_000)),
    ] {
        let parsers = Parsers::built_in();
        let text = format!("[parse]\nformat = \"grok\"\npattern = '{pattern}'\n");
        let file = ParserFile { origin: "hostile", text: &text };
        let pipeline = parsers.pipeline_of(file).expect("a good pipeline");
        let source = LogSource {
            path: "/a".into(),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: "example".into(),
        };
        let stream = StreamName { path: "/a", host: "web1" };
        let mut parser = parsers.line_parser_with(Some(&pipeline), &source, stream);
        let mut out = ParsedRows::default();
        let start = cpu_seconds();
        for _ in 0..HOSTILE_ROUNDS {
            parser.parse(line.as_bytes(), 0, Micros(1_795_176_000_000_000), &mut out);
            out.finish();
        }
        let micros = (cpu_seconds() - start) * 1e6 / f64::from(HOSTILE_ROUNDS);
        println!("{micros:>6.0} µs  {pattern:.60}  on {} bytes", line.len());
    }
}

fn format_of(name: &str) -> LogFormat {
    let template = |text: &str| LogFormat::NginxTemplate {
        template: text.into(),
        escape: JsonEscape::Default,
    };
    match name {
        "json" => LogFormat::Json,
        "json-template" => template(KEYS),
        "combined" => LogFormat::Combined,
        "combined-template" => template(COMBINED),
        "haproxy" => LogFormat::HaproxyHttp,
        _ => LogFormat::Auto,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "json".into());
    if name == "hostile" {
        return hostile();
    }
    let count: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let (mut text, mut random) = (String::new(), Rng::with_seed(42));
    for line in 0..count {
        match name.as_str() {
            "key-value" => pair_line(&mut text, &mut random, line / 500),
            "combined" | "combined-template" | "grok" | "grok-classic" | "grok-redacted" => {
                combined_line(&mut text, &mut random, line / 500)
            }
            "haproxy" => haproxy_line(&mut text, &mut random, line / 500),
            _ => json_line(&mut text, &mut random, line / 500),
        }
    }
    println!("{name}: {count} lines, {} bytes a line", text.len() as u64 / count);
    for _ in 0..5 {
        println!("  into rows  {}", rate(count, || rows(&name, &text)));
    }
    if name.contains("json") {
        println!("  sonic-rs lazy members only  {}", rate(count, || lazy_members(&text)));
    }
}

/// Chunks of about 1 MiB, as the tailer gives them; rows leave as record batches after each.
fn rows(name: &str, text: &str) -> usize {
    let mut parser = parser(name);
    let mut out = ParsedRows::default();
    let (mut at, mut sum) = (0, 0);
    while at < text.len() {
        let end = (at + (1 << 20)).min(text.len());
        let end = text[end..].find('\n').map_or(text.len(), |more| end + more + 1);
        parser.parse(&text.as_bytes()[at..end], at as u64, Micros(1_795_176_000_000_000), &mut out);
        assert!(Rows::is_empty(&out.reject));
        sum += out.row_count();
        out.finish();
        at = end;
    }
    sum
}

fn lazy_members(text: &str) -> usize {
    let members =
        |line: &str| sonic_rs::to_object_iter(line).filter(|member| member.is_ok()).count();
    text.lines().map(members).sum()
}

fn rate(count: u64, work: impl FnOnce() -> usize) -> String {
    let start = cpu_seconds();
    let sum = work();
    let seconds = cpu_seconds() - start;
    let (per_second, nanos) = (count as f64 / seconds, seconds * 1e9 / count as f64);
    format!("{per_second:>9.0} lines/s, {nanos:>5.0} ns a line ({sum})")
}

/// Time that this thread was on a CPU.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.expect("the first number is nanoseconds on the CPU") / 1e9
}
