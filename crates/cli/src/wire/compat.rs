//! `weir wire --compat pt-tcp-model`: the old tool's two stages, byte for byte, on stdout; what it
//! says besides, on stderr.
//!
//! Several files are one stream, in the order that is given.

use std::hash::BuildHasher;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_agent_core::capture::wire_failure;
use weir_process::failure::{EXIT_USAGE, Failure, read_failure};
use weir_process::terminal::complain;
use weir_wire::compat::{
    CompatError, EndStamp, RequestCounts, RequestExtractor, RequestOptions, SliceAggregator,
    SliceOptions, StartStamp,
};
use weir_wire::packet::Packet;
use weir_wire::text::LineReader;
use weir_wire::{Capture, CaptureFormat, CaptureInput};

use super::open;
use super::time_zone;

/// Flags of the old tool.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of --compat")]
pub(crate) struct CompatArgs {
    /// Compute and print what this tool did, to the byte.
    #[arg(long, value_enum, value_name = "TOOL")]
    pub(crate) compat: Option<CompatTool>,
    /// tcpdump: packets to requests; requests: those, sorted, to slices of time. Default: tcpdump.
    #[arg(long = "type", value_enum, value_name = "TYPE", requires = "compat")]
    kind: Option<CompatKind>,
    /// The server; only the port counts. Default: 10.10.10.10:3306.
    #[arg(long, value_name = "HOST:PORT", requires = "compat")]
    watch_server: Option<String>,
    /// What begins and ends a request: ts0 or ts (its first or last packet), end or end1 (the
    /// answer's first or last). Default: ts,end.
    #[arg(long, value_name = "START,END", requires = "compat")]
    start_end: Option<String>,
    /// Seconds of a slice, fractions allowed. Default: 1.
    #[arg(long, value_name = "SECONDS", requires = "compat")]
    run_time: Option<f64>,
    /// The quantile of the response time, 0 to 1. Default: 0.99.
    #[arg(long, value_name = "SHARE", requires = "compat")]
    quantile: Option<f64>,
}

/// Tools whose output can be produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatTool {
    /// pt-tcp-model of Percona Toolkit, 2.1.10.
    PtTcpModel,
}

/// The two stages of the tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CompatKind {
    /// Text of `tcpdump -tttt`, or a capture, to requests.
    #[default]
    Tcpdump,
    /// Requests to slices.
    Requests,
}

/// Bytes of output that are gathered before they are written.
const WRITE_BYTES: usize = 1 << 16;

/// Runs the command.
pub(crate) fn run(args: &CompatArgs, files: &[PathBuf]) -> Result<(), Failure> {
    let mut out = Output { bytes: Vec::with_capacity(2 * WRITE_BYTES), is_wanted: true };
    let inputs = inputs(files)?;
    match args.kind.unwrap_or_default() {
        CompatKind::Tcpdump => requests(args, inputs, &mut out),
        CompatKind::Requests => slices(args, inputs, &mut out),
    }
}

fn requests(args: &CompatArgs, inputs: Vec<CaptureInput>, out: &mut Output) -> Result<(), Failure> {
    let options = request_options(args)?;
    let (zone, note) = time_zone::of_environment();
    if let Some(note) = note {
        complain(&note);
    }
    let seed = std::hash::RandomState::new().hash_one(0);
    let zone = Box::new(move |minute| time_zone::begin_of(minute, &zone));
    let mut requests =
        RequestExtractor::new(options.clone(), zone, usize::try_from(seed).unwrap_or_default());
    for input in inputs {
        match input.format() {
            CaptureFormat::Text => each_line(input, out, |line, bytes| requests.line(line, bytes))?,
            CaptureFormat::Pcap | CaptureFormat::Pcapng => each_packet(input, out, &mut requests)?,
        }
    }
    let busiest = requests.busiest_port();
    let counts = requests.finish(&mut out.bytes);
    out.write();
    remark(&counts, &options.port, busiest.as_deref());
    Ok(())
}

fn slices(args: &CompatArgs, inputs: Vec<CaptureInput>, out: &mut Output) -> Result<(), Failure> {
    let mut slices = SliceAggregator::new(slice_options(args)?);
    for input in inputs {
        if input.format() != CaptureFormat::Text {
            let failure = format!("cannot read `{}`: it is a capture, not requests", input.name());
            return Err(Failure::new(failure)
                .hint("`--type tcpdump` makes requests of it; sort them by their id"));
        }
        each_line(input, out, |line, bytes| slices.line(line, bytes))?;
    }
    slices.finish(&mut out.bytes);
    out.write();
    if let (count @ 1.., first) = slices.unreadable() {
        complain(&format!(
            "note: {count} lines are no requests, the first is line {first}\nhint: the input is what `--type tcpdump` \
             prints: id, start, end, elapsed, client"
        ));
    }
    Ok(())
}

/// Hands every line to `take`, and writes what it appends. Ends early when the reader goes away.
fn each_line(
    input: CaptureInput,
    out: &mut Output,
    mut take: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CompatError>,
) -> Result<(), Failure> {
    let name = input.name().to_owned();
    let mut lines = LineReader::new(b"", input);
    while let Some(line) =
        lines.next_line().map_err(|error| read_failure(Path::new(&name), &error))?
    {
        take(line, &mut out.bytes).map_err(|error| cannot_go_on(&name, error))?;
        if !out.is_wanted_after_writing() {
            break;
        }
    }
    Ok(())
}

/// Hands every packet of a capture to `take`, and writes what it appends.
fn each_packet(
    input: CaptureInput,
    out: &mut Output,
    requests: &mut RequestExtractor,
) -> Result<(), Failure> {
    let name = input.name().to_owned();
    let mut capture = Capture::new(input).map_err(wire_failure)?;
    let mut taken = Ok(());
    let mut take = |packet: &Packet<'_>, bytes: &mut Vec<u8>| {
        if taken.is_ok() {
            taken = requests.packet(packet, bytes);
        }
    };
    while capture.step(&mut |packet| take(packet, &mut out.bytes)).map_err(wire_failure)? {
        if !out.is_wanted_after_writing() {
            break;
        }
    }
    taken.map_err(|error| cannot_go_on(&name, error))
}

fn cannot_go_on(name: &str, error: CompatError) -> Failure {
    let hint = match error {
        CompatError::TooManySessions => "split the capture by time, or by client with a filter",
        CompatError::TooManyRequests => "shorten the slices with `--run-time`",
    };
    Failure::new(format!("cannot continue reading `{name}`: {error}")).hint(hint)
}

/// What the old tool kept to itself.
fn remark(counts: &RequestCounts, port: &str, busiest: Option<&str>) {
    let passed_over = [
        (
            counts.with_interface,
            "lines with an interface and a direction (`tcpdump -i any`) are passed over, as the old tool did",
            "take the two words out, or give the capture itself",
        ),
        (
            counts.ipv6,
            "IPv6 packets are passed over, as the old tool did",
            "`weir wire` without --compat reads them",
        ),
        (
            counts.undated,
            "lines without a date are passed over, as the old tool did",
            "run tcpdump with `-tttt`",
        ),
    ];
    for (count, what, hint) in passed_over {
        if count > 0 {
            complain(&format!("note: {count} {what}\nhint: {hint}"));
        }
    }
    if counts.requests == 0 && counts.counted > 0 {
        let hint = busiest.map_or_else(String::new, |busiest| {
            format!("\nhint: most packets went to port {busiest}: `--watch-server :{busiest}`")
        });
        complain(&format!("note: no request to port {port} was answered{hint}"));
    } else if counts.counted == 0 {
        complain(&format!(
            "note: none of {} lines is a packet of `tcpdump -nnq -tttt`",
            counts.seen
        ));
    }
}

/// Standard output, and whether anybody still reads it.
struct Output {
    bytes: Vec<u8>,
    is_wanted: bool,
}

impl Output {
    /// Writes when there is enough; whether anybody still reads.
    fn is_wanted_after_writing(&mut self) -> bool {
        if self.bytes.len() >= WRITE_BYTES {
            self.write();
        }
        self.is_wanted
    }

    /// A reader that went away (`… | head`) is no failure.
    fn write(&mut self) {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&self.bytes).and_then(|()| stdout.flush());
        self.is_wanted &= written.is_ok();
        self.bytes.clear();
    }
}

/// Opens all files before anything is printed; `-` and no file at all are stdin. What is empty is
/// left out: no requests make no slices.
fn inputs(files: &[PathBuf]) -> Result<Vec<CaptureInput>, Failure> {
    if files.is_empty() && std::io::stdin().is_terminal() {
        return Err(Failure::new("cannot read from the terminal: nothing is piped in")
            .hint("name a file, or pipe what `tcpdump -nnq -tttt` prints")
            .code(EXIT_USAGE));
    }
    let stdin = [PathBuf::from("-")];
    let files = if files.is_empty() { &stdin } else { files };
    let opened = files.iter().map(|file| match open(file) {
        Err(error) if error.is_empty() => Ok(None),
        other => other.map(Some).map_err(wire_failure),
    });
    opened.filter_map(Result::transpose).collect()
}

fn request_options(args: &CompatArgs) -> Result<RequestOptions, Failure> {
    let server = args.watch_server.as_deref().unwrap_or("10.10.10.10:3306");
    let port = server.rsplit(':').next().unwrap_or_default();
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(Failure::new(format!("cannot watch `{server}`: it names no port"))
            .hint("`--watch-server 10.0.0.1:80`; only the port counts, so `:80` will do")
            .code(EXIT_USAGE));
    }
    let (start, end) = stamps(args.start_end.as_deref().unwrap_or("ts,end"))?;
    Ok(RequestOptions { port: port.to_owned(), start, end })
}

fn stamps(text: &str) -> Result<(StartStamp, EndStamp), Failure> {
    let (start, end) = text.split_once(',').unwrap_or((text, ""));
    let start = match start.trim() {
        "ts0" => Some(StartStamp::First),
        "ts" => Some(StartStamp::Last),
        _ => None,
    };
    let end = match end.trim() {
        "end" => Some(EndStamp::First),
        "end1" => Some(EndStamp::Last),
        _ => None,
    };
    start.zip(end).ok_or_else(|| {
        Failure::new(format!("cannot take `--start-end {text}`: it is not two stamps"))
            .hint("`ts0` or `ts`, a comma, `end` or `end1`; default `ts,end`")
            .code(EXIT_USAGE)
    })
}

fn slice_options(args: &CompatArgs) -> Result<SliceOptions, Failure> {
    let run_time_seconds = args.run_time.unwrap_or(1.0);
    let quantile = args.quantile.unwrap_or(0.99);
    let refuse = |what: &str, value: f64, hint: &str| {
        Err(Failure::new(format!("cannot take `--{what} {value}`")).hint(hint).code(EXIT_USAGE))
    };
    if !(1e-6..=1e9).contains(&run_time_seconds) {
        return refuse("run-time", run_time_seconds, "seconds of a slice: 0.000001 to 1000000000");
    }
    if !(0.0..=1.0).contains(&quantile) {
        return refuse("quantile", quantile, "a share from 0 to 1, such as 0.99");
    }
    Ok(SliceOptions { run_time_seconds, quantile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_two_words() {
        assert_eq!(stamps("ts,end").ok(), Some((StartStamp::Last, EndStamp::First)));
        assert_eq!(stamps("ts0, end1").ok(), Some((StartStamp::First, EndStamp::Last)));
        for wrong in ["", "ts", "end,ts", "ts,end,x", "ts1,end"] {
            assert!(stamps(wrong).is_err(), "{wrong}");
        }
    }
}
