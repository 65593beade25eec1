//! `weir wire FILE`: a capture, understood: was it us?
//!
//! Reading and judging is the room `wire`; here are the flags, the progress, and the ways in which
//! the answer is shown.

pub(crate) mod args;
mod canvas;
mod chart;
pub(crate) mod compat;
mod files;
mod html;
mod picture;
mod rows;
mod text;
mod time_zone;

use std::hash::BuildHasher;
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use weir_agent_core::capture::{TapPlace, end_at_signal, wire_failure};
use weir_hub::wire::json;
use weir_process::failure::{EXIT_USAGE, Failure, read_failure};
use weir_process::terminal::{Paint, complain, say, say_json};
use weir_process::time_args::{parse_capture_instant, parse_capture_span, parse_width};
use weir_wire::text::{LineReader, TextReader};
use weir_wire::{
    Capture, CaptureFormat, CaptureInput, FileOrder, Filter, FilterError, Model, ModelOptions,
    Report, RowSink, SkipCounts, WireError,
};

use crate::capture;
use rows::Rows;

/// Flags that select packets and the form of the answer.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// Look at what passes now instead of a file: an interface, `any`, or `NETNS/INTERFACE`.
    #[arg(long, short, value_name = "INTERFACE", conflicts_with = "files")]
    pub(crate) interface: Option<String>,
    /// For how long; Ctrl-C ends it earlier.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_capture_span, requires = "interface")]
    pub(crate) span: i64,
    /// text for a person; json, one object; csv or ndjson, the rows of one table; parquet, files of
    /// all four.
    #[arg(long, value_enum, default_value_t = WireFormat::Text)]
    pub(crate) format: WireFormat,
    /// Width of a slice of time, such as 100ms, 1s or 1m.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_width)]
    pub(crate) slice: i64,
    /// Server port to look at; may be given more than once, or as a list: 80,8080. Default: all.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
    /// Address of the server to look at.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<IpAddr>,
    /// Further condition on packets, in tcpdump's syntax: `host 192.0.2.1 and port 80 and not net
    /// 10.0.0.0/8`.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Leave out packets before: 2026-11-21T10:00:00Z, or seconds since 1970.
    #[arg(long, value_name = "TIME", value_parser = parse_capture_instant)]
    pub(crate) from: Option<i64>,
    /// Leave out packets from then on.
    #[arg(long, value_name = "TIME", value_parser = parse_capture_instant)]
    pub(crate) to: Option<i64>,
    /// Threads that read and count; the answer is the same with any number. Default: one for each
    /// core.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) threads: Option<u16>,
    /// The table whose rows csv and ndjson print.
    #[arg(long, value_enum, default_value_t = WireTable::WireSlice)]
    pub(crate) table: WireTable,
    /// The directory of the files that `--format parquet` writes.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write a page with charts that needs nothing else; what `--format` says is printed as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the charts as a picture (PNG); what `--format` says is printed as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// Keep the rows of all four tables as well: a weir's address, or the data directory of one
    /// that does not run.
    #[arg(long, value_name = "URL|DIR")]
    pub(crate) into: Option<String>,
    /// The name of the host that captured, in every row. Default: this host's.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// A file whose first line is the login of the weir that `--into` names.
    #[arg(long, value_name = "FILE", requires = "into")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Tables that a capture fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum WireTable {
    /// Requests, as every tier has them.
    Request,
    /// What only packets tell of a request.
    WireRequest,
    /// Connections.
    TcpConn,
    /// Slices of time of each server port.
    WireSlice,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireFormat {
    /// A summary with charts.
    Text,
    /// One object: verdict, why, tiers, slices, skipped.
    Json,
    /// Rows of a table, RFC 4180 with a header line.
    Csv,
    /// Rows of a table, one object a line.
    Ndjson,
    /// A Parquet file of each of the four tables, in the directory that `--out` names.
    Parquet,
}

/// Runs the command.
pub(crate) fn run(args: &ModelArgs, files: &[PathBuf]) -> Result<(), Failure> {
    if args.from.zip(args.to).is_some_and(|(from, to)| from >= to) {
        return Err(Failure::new("cannot select a time range: `--from` is not before `--to`")
            .hint("both are UTC")
            .code(EXIT_USAGE));
    }
    let filter = args.filter.as_deref().map(parse_filter).transpose()?;
    let stdin = [PathBuf::from("-")];
    let place = args.interface.as_deref().map(TapPlace::parse);
    let live = place.iter().map(|place| PathBuf::from(place.source())).collect::<Vec<_>>();
    let files = match (live.as_slice(), files) {
        ([], []) => &stdin,
        ([], files) => files,
        (live, _) => live,
    };
    let rows = Rows::new(args, files)?;
    let report = match &place {
        Some(place) => watch(args, filter, place, rows.sink())?,
        None => read(args, filter, files, rows.sink())?,
    };
    rows.finish(&report)?;
    if let Some(path) = &args.html {
        html::write(path, &json::object(&report, files))?;
    }
    if let Some(path) = &args.png {
        picture::write(path, &report, files)?;
    }
    match args.format {
        WireFormat::Json => say_json(&json::object(&report, files)),
        WireFormat::Text => say(&text::page(&report, files, Paint::for_stdout())),
        WireFormat::Csv | WireFormat::Ndjson | WireFormat::Parquet => {}
    }
    Ok(())
}

/// A filter, or what is wrong with it and where.
fn parse_filter(text: &str) -> Result<Filter, Failure> {
    text.parse().map_err(|FilterError { message, position }| {
        let place = text.get(..position).map_or(0, |before| before.chars().count());
        let mark = " ".repeat(place);
        Failure::new(format!("cannot use the filter: {message}\n  {text}\n  {mark}^"))
            .hint("such as `host 192.0.2.1 and port 80 and not net 10.0.0.0/8`")
            .code(EXIT_USAGE)
    })
}

fn model(args: &ModelArgs, filter: Option<Filter>, sink: Option<Box<dyn RowSink>>) -> Model {
    let options = ModelOptions {
        slice_ns: args.slice,
        ports: args.port.clone(),
        server: args.server,
        filter,
        from_ns: args.from,
        to_ns: args.to,
        // Who sends packets does not know it, so they cannot make all of them meet in one place.
        seed: std::hash::RandomState::new().hash_one(0),
        threads: args.threads.map_or_else(cores, usize::from),
        ..ModelOptions::default()
    };
    Model::new(options, sink)
}

/// What passes at `place` is the capture.
fn watch(
    args: &ModelArgs,
    filter: Option<Filter>,
    place: &TapPlace,
    sink: Option<Box<dyn RowSink>>,
) -> Result<Report, Failure> {
    let mut model = model(args, filter, sink);
    let is_over = end_at_signal()?;
    let span = std::time::Duration::from_nanos(args.span.cast_unsigned());
    let seen = capture::watch_for(place, &args.port, span, &is_over, &mut model)?;
    let mut report = model.report();
    report.skipped.merge(&seen.skipped);
    report.tap_drops = Some(seen.tap_drops);
    Ok(report)
}

/// All files are one capture, in the order of their first packets.
fn read(
    args: &ModelArgs,
    filter: Option<Filter>,
    files: &[PathBuf],
    sink: Option<Box<dyn RowSink>>,
) -> Result<Report, Failure> {
    let mut model = model(args, filter, sink);
    let (mut skipped, mut tap_drops) = (SkipCounts::default(), None);
    let mut newest_ns = None;
    let order = FileOrder::new(files).map_err(wire_failure)?;
    for ordered in order.files() {
        let file = ordered.path();
        ordered.check_after(newest_ns).map_err(wire_failure)?;
        let input = open(file).map_err(wire_failure)?;
        if input.format() == CaptureFormat::Text {
            skipped.merge(&read_text(input, &mut model)?);
            continue;
        }
        let mut capture = Capture::new(input).map_err(wire_failure)?;
        let mut progress = Progress::new(file);
        while capture.feed(&mut model).map_err(wire_failure)? {
            progress.show(capture.progress());
        }
        progress.clear();
        newest_ns = newest_ns.max(capture.span_ns().map(|[_, newest]| newest));
        skipped.merge(&capture.skipped());
        tap_drops = match (tap_drops, capture.tap_drops()) {
            (Some(before), Some(more)) => Some(before + more),
            (before, more) => before.or(more),
        };
    }
    let mut report = model.report();
    report.skipped.merge(&skipped);
    report.tap_drops = tap_drops;
    Ok(report)
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Text of tcpdump; what it skips. Times without a date are of the first of January 1970.
fn read_text(input: CaptureInput, model: &mut Model) -> Result<SkipCounts, Failure> {
    let name = input.name().to_owned();
    let (zone, note) = time_zone::of_environment();
    let zone = Box::new(move |minute| time_zone::begin_of(minute, &zone));
    let seed = std::hash::RandomState::new().hash_one(1);
    let mut reader = TextReader::new(zone, 0, usize::try_from(seed).unwrap_or_default());
    let mut lines = LineReader::new(b"", input);
    let mut packets = 0_u64;
    while let Some(more) =
        reader.feed(&mut lines, model).map_err(|error| read_failure(Path::new(&name), &error))?
    {
        packets += more;
    }
    if packets == 0 {
        return Err(nothing_in(&name, &reader));
    }
    note.iter().for_each(|note| complain(note));
    Ok(reader.skipped_as_captures_do())
}

/// Text without a packet: no capture, or one that names hide.
fn nothing_in(name: &str, reader: &TextReader) -> Failure {
    use weir_wire::text::TextSkip;
    if reader.skipped().any(|(skip, _)| matches!(skip, TextSkip::HostName | TextSkip::PortName)) {
        return Failure::new(format!("cannot read `{name}`: its hosts or ports are names"))
            .hint("`tcpdump -nn` prints numbers");
    }
    Failure::new(format!("cannot read `{name}`: it is neither pcap nor pcapng nor tcpdump's text"))
        .hint("make one with `tcpdump -i any -s 200 -w FILE tcp`")
}

pub(crate) fn open(file: &Path) -> Result<CaptureInput, WireError> {
    if file == Path::new("-") {
        return CaptureInput::from_stream("stdin", Box::new(std::io::stdin()));
    }
    CaptureInput::open(file)
}

/// A progress line on a terminal.
struct Progress {
    name: String,
    shown: u64,
    is_wanted: bool,
}

/// Bytes between two updates.
const STEP_BYTES: u64 = 64 << 20;

impl Progress {
    fn new(file: &Path) -> Self {
        let is_wanted = std::io::stderr().is_terminal();
        Self { name: file.display().to_string(), shown: 0, is_wanted }
    }

    fn show(&mut self, (read, total): (u64, Option<u64>)) {
        if !self.is_wanted || read < self.shown + STEP_BYTES {
            return;
        }
        self.shown = read;
        let of = match total {
            Some(total) => format!("of {} MiB ({} %)", total >> 20, read * 100 / total.max(1)),
            None => "so far".to_owned(),
        };
        let up_and_clear = if read < 2 * STEP_BYTES { "" } else { "\x1b[A\x1b[K" };
        complain(&format!("{up_and_clear}reading `{}`: {} MiB {of}", self.name, read >> 20));
    }

    fn clear(&self) {
        if self.is_wanted && self.shown > 0 {
            complain("\x1b[A\x1b[K\x1b[A");
        }
    }
}
