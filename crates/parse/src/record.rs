//! One line in pieces: formats put named texts into a [`Record`], and it alone decides which columns they become.
//!
//! Nothing is lost on the way: a text that does not fit its column (a status that is no number, a column already
//! taken by another text) stays an attribute under its own name. All texts live as long as the chunk of lines.

use bumpalo::Bump;
use weir_tables::{Log, Request};

use crate::field::Field;
use crate::time::TimeReader;
use crate::{number, request_line, severity, upstream_list};

/// Most attributes of one row; what is above goes into one attribute as JSON.
pub(crate) const MAX_ATTRS: usize = 256;

/// The table that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Log,
}

/// Why a line was not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn no_match(detail: impl Into<String>) -> Self {
        Self { reason: "no_match", detail: detail.into() }
    }
}

/// What was mended to read a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) hex_escape: bool,
    pub(crate) invalid_utf8: bool,
    pub(crate) loose_json: bool,
}

impl Repair {
    /// The column `repair`.
    pub(crate) fn as_str(self) -> Option<&'static str> {
        match (self.hex_escape, self.invalid_utf8, self.loose_json) {
            (false, false, false) => None,
            (true, false, false) => Some("hex_escape"),
            (false, true, false) => Some("invalid_utf8"),
            (true, true, false) => Some("hex_escape,invalid_utf8"),
            (false, false, true) => Some("loose_json"),
            (true, false, true) => Some("hex_escape,loose_json"),
            (false, true, true) => Some("invalid_utf8,loose_json"),
            (true, true, true) => Some("hex_escape,invalid_utf8,loose_json"),
        }
    }
}

/// A text with its name and meaning.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
    field: Field,
}

/// The pieces of one line; used again for the next.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) times: TimeReader,
    pub(crate) arena: &'a Bump,
    pub(crate) repair: Repair,
    /// When the line says it happened.
    pub(crate) ts: Option<weir_tables::Micros>,
    pub(crate) request: Request<'a>,
    pub(crate) log: Log<'a>,
    /// Names of the template's values, in their order.
    pub(crate) names: &'a [&'a str],
    pairs: Vec<Pair<'a>>,
    attrs: Vec<(&'a str, &'a str)>,
    seen: u64,
    /// Address and configured name of the server, for when no host was asked for.
    server_name: Option<&'a str>,
    server_address: Option<&'a str>,
}

impl<'a> Record<'a> {
    pub(crate) fn new(arena: &'a Bump, times: TimeReader) -> Self {
        Self {
            times,
            arena,
            repair: Repair::default(),
            ts: None,
            request: Request::default(),
            log: Log::default(),
            names: &[],
            pairs: Vec::with_capacity(64),
            attrs: Vec::with_capacity(64),
            seen: 0,
            server_name: None,
            server_address: None,
        }
    }

    /// Forgets the line before.
    pub(crate) fn clear(&mut self) {
        self.repair = Repair::default();
        self.clear_texts();
    }

    /// Forgets what a format put in that turned out to be the wrong one.
    pub(crate) fn clear_texts(&mut self) {
        self.ts = None;
        self.request = Request::default();
        self.log = Log::default();
        self.pairs.clear();
        self.attrs.clear();
        self.seen = 0;
        (self.server_name, self.server_address) = (None, None);
    }

    /// Takes the names and texts out again, for a format that gives them a meaning of its own.
    pub(crate) fn take_pairs(&mut self) -> Vec<(&'a str, &'a str)> {
        self.seen = 0;
        self.pairs.drain(..).map(|pair| (pair.key, pair.value)).collect()
    }

    /// Puts in a text with its name and meaning.
    #[inline]
    pub(crate) fn put(&mut self, key: &'a str, value: &'a str, field: Field) {
        self.seen |= field.bit();
        self.pairs.push(Pair { key, value, field });
    }

    /// Puts in an attribute; empty texts are left out.
    pub(crate) fn attr(&mut self, key: &'a str, value: &'a str) {
        if !value.is_empty() {
            self.put(key, value, Field::Attr);
        }
    }

    /// Whether the line is a request, told by the meanings of its texts alone.
    ///
    /// A line with a message is a program's own account and needs method, target and status to count as one.
    pub(crate) fn guess_kind(&self) -> Kind {
        let has = |fields: &[Field]| fields.iter().any(|field| self.seen & field.bit() != 0);
        let groups = [
            has(&[Field::Method, Field::RequestLine]),
            has(&[Field::Target, Field::RequestLine]),
            has(&[Field::Status]),
        ];
        let needed = if has(&[Field::Message]) { 3 } else { 2 };
        let found = groups.iter().filter(|group| **group).count();
        if found >= needed { Kind::Request } else { Kind::Log }
    }

    /// Turns the texts into columns; what has no column becomes an attribute.
    pub(crate) fn settle(&mut self, kind: Kind) {
        let pairs = std::mem::take(&mut self.pairs);
        for pair in &pairs {
            let is_taken = match kind {
                Kind::Request => self.take_request(pair),
                Kind::Log => self.take_log(pair),
            };
            if !is_taken {
                self.keep_attr(pair.key, pair.value);
            }
        }
        self.pairs = pairs;
        if kind == Kind::Request {
            self.settle_server();
        }
        self.settle_budget();
    }

    /// The attributes, at most [`MAX_ATTRS`] and two that tell of the rest.
    pub(crate) fn attrs(&self) -> &[(&'a str, &'a str)] {
        &self.attrs
    }

    fn take_log(&mut self, pair: &Pair<'a>) -> bool {
        let value = pair.value;
        match pair.field {
            Field::Time => self.take_time(value),
            Field::Message if self.log.body.is_empty() => {
                self.log.body = value;
                true
            }
            Field::Severity => set(&mut self.log.severity, severity::of_word(value)),
            Field::Program => set(&mut self.log.program, Some(value)),
            Field::ProcessId => set(&mut self.log.process_id, number::integer(value)),
            Field::Facility => set(&mut self.log.facility, Some(value)),
            _ => false,
        }
    }

    /// True when the text is in a column now, or says nothing (`-` or empty).
    fn take_request(&mut self, pair: &Pair<'a>) -> bool {
        let value = pair.value;
        if value.is_empty() || value == "-" {
            return self.take_nothing(pair.field);
        }
        let row = &mut self.request;
        match pair.field {
            Field::Attr | Field::Message | Field::Severity | Field::ProcessId | Field::Facility => {
                false
            }
            Field::Time => self.take_time(value),
            Field::ClientAddress => set(&mut row.client_address, Some(value)),
            Field::ClientPort => set(&mut row.client_port, number::integer(value)),
            Field::Host => self.take_host(value),
            Field::ServerName => value == "_" || set(&mut self.server_name, Some(value)),
            Field::ServerAddress => set(&mut self.server_address, Some(value)),
            Field::ServerPort => set(&mut row.server_port, number::integer(value)),
            Field::Scheme => set(&mut row.url_scheme, Some(value)),
            Field::RequestLine => self.take_request_line(value),
            Field::Method => set(&mut row.http_request_method, Some(value)),
            Field::Target => self.take_target(&request_line::split_target(value)),
            Field::Query => set(&mut row.url_query, Some(value.strip_prefix('?').unwrap_or(value))),
            Field::Protocol => set(&mut row.network_protocol_version, request_line::version(value)),
            Field::Status => set(&mut row.http_response_status_code, number::integer(value)),
            Field::RequestBytes => set(&mut row.request_bytes, number::integer(value)),
            Field::ResponseBytes => set(&mut row.response_bytes, number::integer(value)),
            Field::ResponseBodyBytes | Field::ResponseBodyBytesOrDash => {
                set(&mut row.response_body_bytes, number::integer(value))
            }
            Field::UserAgent => set(&mut row.user_agent_original, Some(value)),
            Field::Referer => set(&mut row.http_request_header_referer, Some(value)),
            Field::RequestId => set(&mut row.request_id, Some(value)),
            Field::Program => set(&mut row.program, Some(value)),
            Field::UpstreamName => set(&mut row.proxy_backend, Some(value)),
            _ => self.take_measure(pair.field, value),
        }
    }

    fn take_measure(&mut self, field: Field, value: &'a str) -> bool {
        let row = &mut self.request;
        match field {
            Field::DurationSeconds => set(&mut row.duration_seconds, number::seconds(value)),
            Field::DurationMillis => {
                set(&mut row.duration_seconds, number::seconds(value).map(|span| span / 1e3))
            }
            Field::DurationMicros => {
                set(&mut row.duration_seconds, number::seconds(value).map(|span| span / 1e6))
            }
            Field::UpstreamConnect => {
                set(&mut row.upstream_connect_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamHeader => {
                set(&mut row.upstream_header_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamResponse => {
                set(&mut row.upstream_response_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamStatus => {
                let last = upstream_list::last(value).and_then(number::integer);
                set(&mut row.upstream_status_code, last)
            }
            Field::UpstreamAddress => {
                row.upstream_tries = Some(upstream_list::count(value));
                set(&mut row.upstream_address, upstream_list::last(value))
            }
            Field::ConnectionRequests => set(&mut row.connection_requests, number::integer(value)),
            Field::EarlierRequests => {
                set(&mut row.connection_requests, number::integer(value).map(|count| count + 1))
            }
            _ => false,
        }
    }

    /// A `-` is NULL, but two of them are measured zeros: no byte of body, no upstream tried.
    fn take_nothing(&mut self, field: Field) -> bool {
        match field {
            Field::UpstreamAddress => set(&mut self.request.upstream_tries, Some(0)),
            Field::ResponseBodyBytesOrDash => set(&mut self.request.response_body_bytes, Some(0)),
            _ => true,
        };
        true
    }

    fn take_time(&mut self, value: &str) -> bool {
        let value =
            value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(value);
        self.ts.is_none() && {
            self.ts = self.times.read(value);
            self.ts.is_some()
        }
    }

    fn take_request_line(&mut self, line: &'a str) -> bool {
        let Some(parts) = request_line::parse(line) else { return false };
        let is_method = set(&mut self.request.http_request_method, Some(parts.method));
        let is_target = self.take_target(&parts.target);
        if parts.version.is_some() {
            set(&mut self.request.network_protocol_version, parts.version);
        }
        is_method && is_target
    }

    fn take_target(&mut self, target: &request_line::Target<'a>) -> bool {
        if let Some(host) = target.authority {
            self.take_host(host);
        }
        let is_path = set(&mut self.request.url_path, Some(target.path));
        let is_query = target.query.is_none() || set(&mut self.request.url_query, target.query);
        is_path && is_query
    }

    /// `example.com:8080`: the port is kept when the line has no better one.
    fn take_host(&mut self, host: &'a str) -> bool {
        match host.rsplit_once(':') {
            Some((name, port)) if !name.ends_with(':') && number::integer(port).is_some() => {
                set(&mut self.request.server_port, number::integer(port));
                set(&mut self.request.server_address, Some(name))
            }
            _ => set(&mut self.request.server_address, Some(host)),
        }
    }

    fn settle_server(&mut self) {
        for (key, value) in
            [("server_name", self.server_name), ("server_addr", self.server_address)]
        {
            if let Some(value) = value
                && !set(&mut self.request.server_address, Some(value))
            {
                self.keep_attr(key, value);
            }
        }
    }

    /// Attribute keys stay unique: the second `a` becomes `a#2`, since readers of maps refuse equal keys.
    fn keep_attr(&mut self, key: &'a str, value: &'a str) {
        let is_known = |name: &str| self.attrs.iter().any(|(other, _)| *other == name);
        if self.attrs.len() >= MAX_ATTRS || !is_known(key) {
            return self.attrs.push((key, value));
        }
        let is_numbered =
            |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('#'));
        let earlier = self.attrs.iter().filter(|(other, _)| is_numbered(other)).count();
        let mut names = (earlier + 2..).map(|number| format!("{key}#{number}"));
        let name = names.find(|name| !is_known(name)).expect("numbers go on");
        self.attrs.push((self.arena.alloc_str(&name), value));
    }

    /// Attributes past the budget become one JSON text and a count.
    fn settle_budget(&mut self) {
        if self.attrs.len() <= MAX_ATTRS {
            return;
        }
        let mut json = String::from("{");
        for (key, value) in &self.attrs[MAX_ATTRS..] {
            if json.len() > 1 {
                json.push(',');
            }
            push_json_text(&mut json, key);
            json.push(':');
            push_json_text(&mut json, value);
        }
        json.push('}');
        let count = (self.attrs.len() - MAX_ATTRS).to_string();
        self.attrs.truncate(MAX_ATTRS);
        self.attrs.push(("weir.more", self.arena.alloc_str(&json)));
        self.attrs.push(("weir.more_count", self.arena.alloc_str(&count)));
    }
}

/// Sets a column that is free; true when the column holds `value` now.
#[inline]
fn set<T: PartialEq + Copy>(column: &mut Option<T>, value: Option<T>) -> bool {
    if value.is_some() && column.is_none() {
        *column = value;
        return true;
    }
    value.is_some() && *column == value
}

fn push_json_text(out: &mut String, text: &str) {
    use std::fmt::Write as _;
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control))
                    .expect("writing to a String does not fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
