//! Multi-line events: stack traces of Java, Python, Go, Ruby, .NET, PHP and Node.js, records of CSV
//! and pieces of containers' messages by name, or a custom rule.
//!
//! Sources: `Throwable.printStackTrace`, Python's `traceback`, Go's `runtime.panic`, Ruby's
//! `Exception#full_message`, .NET's `Exception.ToString`, PHP's `Exception::__toString`, V8's
//! `Error.stack`. An event is split from its own lines alone, beginning with its first,
//! so that a reader that restarts at an event's start finds the same events. The surprising thing:
//! `logger.error("…", exception)` writes its own line and then the trace, so a trace joins the line
//! before it if that line mentions an error.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use regex::bytes::Regex;
use weir_tables::{ContainerPiece, ContainerStream};

/// Rule and limits for joining lines into events.
#[derive(Clone, Debug)]
pub struct Multiline {
    rule: EventRule,
    /// Whether the log's parser splits the events, so that the rule only says where a
    /// reader may stop.
    is_for_reader: bool,
    /// An event that has not grown for this long is complete: 2 s.
    pub timeout: Duration,
    /// Maximum lines per event; the rest becomes the next event: 500.
    pub max_lines: usize,
    /// Maximum bytes per event, as above; a single line may be longer: 256 KiB.
    pub max_bytes: usize,
}

#[derive(Clone, Debug)]
enum EventRule {
    Start(Regex),
    Continuation(Regex),
    Indent,
    Java,
    Python,
    Go,
    Ruby,
    Dotnet,
    Php,
    Node,
    /// Records whose quoted values have line ends.
    Csv,
    /// Pieces of a container's messages, until no message of either stream is open.
    Container,
}

/// Names of the rules without a pattern.
pub const PRESETS: [&str; 10] =
    ["java", "python", "go", "ruby", "dotnet", "php", "node", "indent", "csv", "container"];

/// Bytes between the values of CSV.
const CSV_DELIMITERS: &[u8] = b",;\t|";
/// Maximum bytes of the pieces of containers' messages that are joined.
const MAX_CONTAINER_BYTES: usize = 1 << 20;

impl Multiline {
    fn new(rule: EventRule) -> Self {
        let (timeout, max_lines, max_bytes) = (Duration::from_secs(2), 500, 256 << 10);
        Self { rule, is_for_reader: false, timeout, max_lines, max_bytes }
    }

    /// The rule for records of CSV whose parser joins lines: a reader stops between
    /// records.
    pub fn of_records() -> Self {
        Self { is_for_reader: true, ..Self::new(EventRule::Csv) }
    }

    /// Returns one of [`PRESETS`]; `indent` joins lines that begin with a space or tab.
    pub fn preset(name: &str) -> Option<Self> {
        Some(Self::new(match name {
            "java" => EventRule::Java,
            "python" => EventRule::Python,
            "go" => EventRule::Go,
            "ruby" => EventRule::Ruby,
            "dotnet" => EventRule::Dotnet,
            "php" => EventRule::Php,
            "node" => EventRule::Node,
            "indent" => EventRule::Indent,
            "csv" => EventRule::Csv,
            "container" => return Some(Self::container()),
            _ => return None,
        }))
    }

    fn container() -> Self {
        let max_bytes = MAX_CONTAINER_BYTES;
        Self { max_bytes, is_for_reader: true, ..Self::new(EventRule::Container) }
    }

    /// The rule for a log that begins with `head`, if a container runtime writes it,
    /// `journalctl -o export` or `-o verbose`, or `varnishlog`, or events of Windows in XML.
    pub fn of_head(head: &[u8]) -> Option<Self> {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let has = |text: &[u8], word: &[u8]| memchr::memmem::find(text, word).is_some();
        // The rest of a long line may be missing: then each event is a line.
        if line.starts_with(b"<Event") && line.len() < head.len() && !has(line, b"</Event>")
            || line.starts_with(b"<?xml") && has(head, b"<Event")
        {
            return Self::with_start(r"^\s*<Event[ >]").ok();
        }
        if line.starts_with(b"__CURSOR=") {
            return Self::with_start("^__CURSOR=").ok();
        }
        // `journalctl -o verbose`: `Fri 2026-11-20 12:00:00.123456 UTC [s=1;i=2]`.
        if line.get(8) == Some(&b'-') && memchr::memmem::find(line, b" [s=").is_some() {
            return Self::preset("indent");
        }
        // A transaction of `varnishlog`.
        if line.starts_with(b"*   << ") {
            return Self::with_start(r"^\*+ +<< ").ok();
        }
        // The end of a long line may be missing.
        let is_docker = line.starts_with(br#"{"log":""#);
        (is_docker || ContainerPiece::of(line).is_some()).then(Self::container)
    }

    /// Whether the log's parser splits the events.
    pub fn is_for_reader(&self) -> bool {
        self.is_for_reader
    }

    /// Whether events are messages in pieces, so that each is one line of text.
    pub fn joins_pieces(&self) -> bool {
        matches!(self.rule, EventRule::Container)
    }

    /// Matching lines begin an event, all others belong to the event before.
    ///
    /// # Errors
    /// The regex error.
    pub fn with_start(pattern: &str) -> Result<Self, String> {
        pattern_of(pattern).map(|pattern| Self::new(EventRule::Start(pattern)))
    }

    /// Matching lines belong to the event before, all others begin one.
    ///
    /// # Errors
    /// The regex error.
    pub fn with_continuation(pattern: &str) -> Result<Self, String> {
        pattern_of(pattern).map(|pattern| Self::new(EventRule::Continuation(pattern)))
    }

    /// Creates a splitter that starts at the first line of an event.
    pub fn splitter(&self) -> Splitter<'_> {
        Splitter { multiline: self, event: EventState::default(), bytes: 0 }
    }

    /// Offsets at which events end in `bytes`, which are complete lines and begin with an event.
    /// The last event may continue after them.
    pub fn ends(&self, bytes: &[u8]) -> Vec<usize> {
        self.ends_and_state(bytes).0
    }

    /// As [`Multiline::ends`], and whether the last event is complete without a look at what
    /// follows.
    pub fn ends_and_state(&self, bytes: &[u8]) -> (Vec<usize>, bool) {
        let (mut ends, mut splitter, mut at) = (Vec::new(), self.splitter(), 0);
        while at < bytes.len() {
            let length = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len() - at, |n| n + 1);
            if splitter.begins_group(&bytes[at..at + length]) && at > 0 {
                ends.push(at);
            }
            at += length;
        }
        ends.push(bytes.len());
        let is_closed = match self.rule {
            EventRule::Container => splitter.event.open == OpenStreams::default(),
            EventRule::Csv => !splitter.event.is_quoted,
            _ => false,
        };
        (ends, is_closed)
    }
}

/// Classifies the lines of a log, one after the other.
#[derive(Debug)]
pub struct Splitter<'a> {
    multiline: &'a Multiline,
    event: EventState,
    bytes: usize,
}

impl Splitter<'_> {
    /// Whether this line (including its newline) begins an event that becomes a row.
    pub fn begins_event(&mut self, line: &[u8]) -> bool {
        let before = self.event.open;
        let is_first = self.begins_group(line);
        // Messages of two streams that alternate are one group and several rows.
        let is_piece = self.multiline.joins_pieces() && !is_first;
        let stream = is_piece.then(|| ContainerPiece::of(line.trim_ascii_end())).flatten();
        is_first || is_piece && stream.is_none_or(|piece| !before.has(piece.stream))
    }

    /// Whether this line (including its newline) begins lines that are read together.
    fn begins_group(&mut self, line: &[u8]) -> bool {
        let (length, line) = (line.len(), line.trim_ascii_end());
        let piece = ContainerPiece::of(line);
        let text = piece.as_ref().map_or(Cow::Borrowed(line), |piece| inner_text(line, piece));
        let Multiline { rule, max_lines, max_bytes, .. } = self.multiline;
        let is_full =
            self.event.lines >= *max_lines || self.bytes + length > (*max_bytes).max(length);
        let is_next_piece = piece.as_ref().is_some_and(|piece| self.event.open.has(piece.stream));
        let is_first = self.event.lines == 0
            || is_full
            || !is_next_piece && !rule.continues(&mut self.event, &text);
        if is_first {
            (self.event, self.bytes) = (EventState::begun_with(&text, rule), 0);
        }
        if let Some(piece) = piece {
            self.event.open.note(&piece);
        }
        if matches!(rule, EventRule::Csv) {
            self.event.is_quoted = is_quote_open(&text, self.event.is_quoted);
        }
        self.event.lines += 1;
        self.bytes += length;
        is_first
    }
}

/// Whether a quoted value continues on the next line. A quote opens a value only at the value's start;
/// inside of a value, two quotes stand for one.
fn is_quote_open(line: &[u8], is_open_before: bool) -> bool {
    let (mut is_open, mut at) = (is_open_before, 0);
    while let Some(found) = memchr::memchr(b'"', &line[at..]) {
        let quote = at + found;
        at = quote + 1;
        if !is_open {
            let before = quote.checked_sub(1).and_then(|before| line.get(before));
            is_open = before.is_none_or(|byte| CSV_DELIMITERS.contains(byte));
        } else if line.get(at) == Some(&b'"') {
            at += 1;
        } else {
            is_open = false;
        }
    }
    is_open
}

/// What the program in a container wrote, without its line end.
fn inner_text<'a>(line: &'a [u8], piece: &ContainerPiece) -> Cow<'a, [u8]> {
    let text = &line[piece.text.clone()];
    let is_escaped = line.first() == Some(&b'{') && memchr::memchr(b'\\', text).is_some();
    if !is_escaped {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match (byte, byte == &b'\\') {
            (byte, false) => out.push(*byte),
            (_, true) => match bytes.next() {
                Some(b't') => out.push(b'\t'),
                Some(b'n' | b'r') | None => {}
                Some(other) => out.push(*other),
            },
        }
    }
    Cow::Owned(out)
}

fn pattern_of(pattern: &str) -> Result<Regex, String> {
    regex::bytes::RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

#[derive(Debug, Default)]
struct EventState {
    lines: usize,
    /// Whether the first line mentions an error.
    is_error: bool,
    is_trace: bool,
    /// Python and Node.js: whether the line with the exception name has come.
    is_named: bool,
    is_after_blank: bool,
    /// CSV: whether a quote is open.
    is_quoted: bool,
    open: OpenStreams,
}

/// Streams of a container whose message is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OpenStreams {
    stdout: bool,
    stderr: bool,
}

impl OpenStreams {
    fn has(self, stream: ContainerStream) -> bool {
        match stream {
            ContainerStream::Stdout => self.stdout,
            ContainerStream::Stderr => self.stderr,
        }
    }

    fn note(&mut self, piece: &ContainerPiece) {
        match piece.stream {
            ContainerStream::Stdout => self.stdout = piece.is_partial,
            ContainerStream::Stderr => self.stderr = piece.is_partial,
        }
    }
}

macro_rules! pattern {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("a pattern that a test uses"));
    };
}

pattern!(ERROR, r"(?i)error|exception|critical|fatal|severe|warn|panic|fail");
pattern!(JAVA_CLASS, r"^[\w$]+(?:\.[\w$]+)*\.[\w$]*(?:Exception|Error|Throwable|Failure|Fault)\b");
pattern!(PYTHON_NAME, r"^[A-Za-z_][\w.]*(?::|$)");
pattern!(
    GO_LINE,
    r"^(?:goroutine \d+ .*\[|created by |\[signal |runtime stack:|exit status |\.\.\.|[\w./*()\-\[\]{}·]+\(.*\)$)"
);
pattern!(RUBY_CLASS, r"^[A-Z]\w*(?:::\w+)*(?:Error|Exception|Interrupt)\b");
pattern!(RUBY_FRAME, r"^\S+:\d+:in ");
pattern!(DOTNET_CLASS, r"^(?:Unhandled [Ee]xception[.:] )?[\w`.+]*Exception\b");
// PHP-FPM writes each line of its children behind a time and in quotes.
pattern!(
    PHP_MORE,
    r#"^(?:\[.* said into std(?:out|err): " ?)?(?:#\d+ |Stack trace:|\[(?:stacktrace|previous exception)\]|Next \S+: |"\}(?: |$))"#
);
pattern!(NODE_PLACE, r"^(?:file://)?/\S+:\d+$");
pattern!(NODE_CLASS, r"^(?:Uncaught )?[\w.]*(?:Error|Exception)\b");

impl EventState {
    fn begun_with(line: &[u8], rule: &EventRule) -> Self {
        let is_trace = match rule {
            EventRule::Java => {
                JAVA_CLASS.is_match(line) || line.starts_with(b"Exception in thread ")
            }
            EventRule::Python => begins_python_trace(line),
            EventRule::Go => [&b"panic: "[..], b"fatal error: ", b"goroutine "]
                .iter()
                .any(|start| line.starts_with(start)),
            EventRule::Ruby => RUBY_FRAME.is_match(line) || RUBY_CLASS.is_match(line),
            EventRule::Dotnet => DOTNET_CLASS.is_match(line),
            EventRule::Node => NODE_CLASS.is_match(line) || NODE_PLACE.is_match(line),
            EventRule::Start(_)
            | EventRule::Continuation(_)
            | EventRule::Indent
            | EventRule::Php
            | EventRule::Csv
            | EventRule::Container => false,
        };
        let is_error = !is_trace && ERROR.is_match(line);
        let is_named = matches!(rule, EventRule::Node) && NODE_CLASS.is_match(line);
        Self { is_trace, is_error, is_named, ..Self::default() }
    }
}

impl EventRule {
    /// Whether `line`, without trailing white space, belongs to the event.
    fn continues(&self, event: &mut EventState, line: &[u8]) -> bool {
        let is_indented = line.first().is_some_and(|byte| b" \t".contains(byte));
        match self {
            Self::Start(pattern) => !pattern.is_match(line),
            Self::Continuation(pattern) => pattern.is_match(line),
            Self::Indent => is_indented,
            Self::Java => java(event, line, is_indented),
            Self::Python => python(event, line, is_indented),
            Self::Go => go(event, line, is_indented),
            Self::Ruby => ruby(event, line, is_indented),
            Self::Dotnet => dotnet(event, line, is_indented),
            Self::Php => php(event, line, is_indented),
            Self::Node => node(event, line, is_indented),
            Self::Csv => event.is_quoted,
            Self::Container => event.open != OpenStreams::default(),
        }
    }
}

/// Lines before a further exception of a trace; logback's `%rEx` begins with the innermost.
const JAVA_CAUSES: [&[u8]; 3] = [b"Caused by: ", b"Suppressed: ", b"Wrapped by: "];

fn java(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    if is_indented || JAVA_CAUSES.iter().any(|cause| line.starts_with(cause)) {
        event.is_trace = true;
        return true;
    }
    let is_trace_of_it = event.is_error && !event.is_trace && JAVA_CLASS.is_match(line);
    event.is_trace |= is_trace_of_it;
    is_trace_of_it
}

fn python(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_after_blank = std::mem::replace(&mut event.is_after_blank, line.is_empty());
    if begins_python_trace(line) && !(event.is_trace && is_indented) {
        let is_its = (event.is_error && !event.is_trace) || (event.is_named && is_after_blank);
        (event.is_trace, event.is_named) = (true, false);
        return is_its;
    }
    if !event.is_trace {
        // A message may end with a blank line before its trace.
        return event.is_error && line.is_empty();
    }
    // The frame of a group ends it: no line with a name follows.
    event.is_named |= is_indented && is_frame_end(line.trim_ascii_start());
    let is_chained = line.starts_with(b"During handling of the above exception")
        || line.starts_with(b"The above exception was the direct cause");
    if is_indented || line.is_empty() || is_chained {
        return true;
    }
    let is_name = !event.is_named && PYTHON_NAME.is_match(line);
    event.is_named |= is_name;
    is_name
}

/// `Traceback (…`, and `  + Exception Group Traceback (…` (PEP 654), whose lines are all indented.
fn begins_python_trace(line: &[u8]) -> bool {
    line.starts_with(b"Traceback (")
        || line.trim_ascii_start().starts_with(b"+ Exception Group Traceback (")
}

/// `+------------------------------------`
fn is_frame_end(line: &[u8]) -> bool {
    line.starts_with(b"+---") && line.iter().all(|byte| b"+-".contains(byte))
}

fn go(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_goroutine = line.starts_with(b"goroutine ") && line.ends_with(b":");
    if is_goroutine && (event.is_error || event.is_trace) {
        event.is_trace = true;
        return true;
    }
    event.is_trace && (line.is_empty() || is_indented || GO_LINE.is_match(line))
}

fn ruby(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_frame = RUBY_FRAME.is_match(line);
    if is_indented || (event.is_trace && line.is_empty()) {
        return true;
    }
    let is_class = event.is_error && !event.is_trace && RUBY_CLASS.is_match(line);
    let is_its = is_class || (is_frame && event.is_trace) || (is_frame && event.is_error);
    event.is_trace |= is_its;
    is_its
}

fn dotnet(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_its = event.is_error && !event.is_trace && DOTNET_CLASS.is_match(line);
    event.is_trace |= is_its || is_indented;
    // The parts of an `AggregateException` follow unindented.
    is_its || is_indented || [&b"--- "[..], b"---> "].iter().any(|mark| line.starts_with(mark))
}

fn php(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_more = PHP_MORE.is_match(line);
    event.is_trace |= is_more;
    // A blank line is before the next exception of a chain.
    is_more || event.is_trace && (is_indented || line.is_empty())
}

fn node(event: &mut EventState, line: &[u8], is_indented: bool) -> bool {
    let is_its = !event.is_named && NODE_CLASS.is_match(line);
    event.is_named |= is_its;
    if is_its && (event.is_error || event.is_trace) || is_indented {
        event.is_trace = true;
        return true;
    }
    // Properties of an error end with a brace.
    event.is_trace && (line.is_empty() || line.starts_with(b"}") || line.starts_with(b"Node.js v"))
}
