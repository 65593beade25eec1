//! Assigns named texts to columns, and detects texts that do not fit.
//!
//! The first text that fits a column is used. `-` and the empty text are NULL, as proxies write
//! them.

use weir_values::{number, peer_address, severity};

use super::{FieldValue, NamedText, Record, RowKind};
use crate::field::Field;
use crate::{request_line, upstream_list};

impl<'a> Record<'a> {
    /// Assigns the texts to columns; the others become attributes.
    pub(crate) fn settle(&mut self, kind: RowKind) {
        self.join_time("");
        let duration = self.bare_duration();
        let pairs = std::mem::take(&mut self.pairs);
        let late = pairs.iter().filter(|pair| pair.field.is_late());
        for pair in pairs.iter().filter(|pair| !pair.field.is_late()).chain(late) {
            let is_taken = match kind {
                RowKind::Request => match duration {
                    Some((key, field)) if key == pair.key => {
                        self.take_request(&NamedText { field, ..*pair })
                    }
                    _ => self.take_request(pair),
                },
                RowKind::Log => self.take_log(pair),
            };
            if pair.field == Field::Unlisted {
                self.keep_unlisted([pair.key, pair.value]);
            } else if !is_taken {
                self.keep_attr([pair.key, pair.value]);
            }
        }
        self.pairs = pairs;
        if kind == RowKind::Request {
            self.settle_server();
        }
        self.settle_envelope(kind);
    }

    /// Joins a date and a clock that are apart: `"date":"2026-11-20","time":"12:00:00"`.
    pub(crate) fn join_time(&mut self, zone: &str) {
        let first = self.pairs.iter().find(|pair| pair.field == Field::Time);
        if self.ts.is_some() || first.is_none_or(|pair| !matches!(pair.key, "date" | "time")) {
            return;
        }
        let [date, clock] = ["date", "time"].map(|key| self.text(key).unwrap_or_default());
        if date.len() == 10 && clock.as_bytes().get(2) == Some(&b':') {
            self.ts = self.times.read(&format!("{date} {clock}{zone}"));
            self.pairs.retain(|pair| self.ts.is_none() || !matches!(pair.key, "date" | "time"));
        }
    }

    /// The key and unit of a duration without its unit: Lograge's, in Rails, is in milliseconds, and
    /// Echo's in nanoseconds.
    fn bare_duration(&self) -> Option<(&'a str, Field)> {
        let pair = self.pairs.iter().find(|pair| pair.field == Field::DurationText)?;
        let has = |keys: [&str; 2]| keys.iter().all(|key| self.text(key).is_some());
        if has(["controller", "action"]) {
            return Some((pair.key, Field::DurationMillis));
        }
        // Its version 4 writes the unit as well.
        let is_echo = pair.key == "latency"
            && has(["remote_ip", "bytes_in"])
            && self.text("latency_human").is_none();
        (is_echo && number::integer(pair.value).is_some())
            .then_some((pair.key, Field::DurationNanos))
    }

    fn take_log(&mut self, pair: &NamedText<'a>) -> bool {
        let value = pair.value;
        match pair.field {
            Field::Time | Field::MongoTime => self.take_time(value),
            Field::TimeOtherwise => self.ts.is_some() || self.take_time(value),
            Field::TimeNanos => self.take_nanos(value),
            Field::Message => self.take_message(value),
            Field::MessageOtherwise if self.seen & Field::Message.bit() == 0 => {
                self.take_message(value)
            }
            Field::Severity => set(&mut self.log.severity, level_of(value)),
            // Datadog's name of it.
            Field::Status if self.seen & Field::Severity.bit() == 0 => {
                set(&mut self.log.severity, severity::of_word(value))
            }
            Field::SeverityNumber => {
                let number = number::integer(value).and_then(severity::of_opentelemetry);
                set(&mut self.log.severity, number)
            }
            Field::Program => set(&mut self.log.program, Some(value)),
            Field::ProcessId => set(&mut self.log.process_id, number::integer(value)),
            Field::Facility => {
                let named = number::integer(value).and_then(severity::facility);
                set(&mut self.log.facility, named.or(Some(value)))
            }
            Field::Column => self.take_column(RowKind::Log, pair),
            _ => false,
        }
    }

    /// Strips the newline that container logs keep in the message.
    fn take_message(&mut self, value: &'a str) -> bool {
        let is_free = self.log.body.is_empty();
        if is_free {
            let value = value.strip_prefix('\u{feff}').unwrap_or(value);
            self.log.body = value.trim_end_matches(['\n', '\r']);
        }
        is_free
    }

    /// True if the text is now in a column, or is NULL (`-` or empty).
    pub(super) fn take_request(&mut self, pair: &NamedText<'a>) -> bool {
        let value = pair.value;
        if value.is_empty() || value == "-" {
            return self.take_nothing(pair.field);
        }
        let row = &mut self.request;
        match pair.field {
            Field::Attr
            | Field::Unlisted
            | Field::Message
            | Field::MessageOtherwise
            | Field::Severity
            | Field::ProcessId
            | Field::Facility => false,
            Field::Time => self.take_time(value),
            Field::TimeOtherwise => self.ts.is_some() || self.take_time(value),
            Field::TimeNanos => self.take_nanos(value),
            Field::ClientAddress => self.take_client(value),
            Field::PeerAddress => peer_address::is_peer(value) && self.take_client(value),
            Field::ForwardedFor => self.take_forwarded(value),
            Field::ClientPort => set(&mut row.client_port, number::integer(value)),
            Field::Host => {
                self.take_host(value) || pair.key == "http_host" && self.replace_host(value)
            }
            Field::ServerName => value == "_" || set(&mut self.server_name, Some(value)),
            Field::ServerAddress => set(&mut self.server_address, Some(value)),
            Field::ServerPort => set(&mut row.server_port, number::integer(value)),
            Field::Scheme => set(&mut row.url_scheme, Some(value)),
            Field::RequestLine => self.take_request_line(value),
            Field::Method => {
                let method = Some(value).filter(|value| request_line::is_method(value));
                set(&mut row.http_request_method, method)
            }
            // HAProxy's `<BADREQ>`.
            Field::Target if value.starts_with('<') => false,
            Field::Target => {
                let scheme = value.split_once("://").map(|(scheme, _)| scheme);
                set(
                    &mut row.url_scheme,
                    scheme.filter(|scheme| matches!(*scheme, "http" | "https")),
                );
                self.take_target(&request_line::split_target(value))
            }
            Field::AuthorityTarget => self.take_authority_target(value),
            Field::Query => set(&mut row.url_query, Some(value.strip_prefix('?').unwrap_or(value))),
            Field::Protocol => set(&mut row.network_protocol_version, request_line::version(value)),
            Field::Status | Field::StatusOtherwise => {
                set(&mut row.http_response_status_code, number::whole(value))
            }
            Field::RequestBytes => set(&mut row.request_bytes, number::whole(value)),
            Field::ResponseBytes => set(&mut row.response_bytes, number::whole(value)),
            Field::ResponseBodyBytes | Field::ResponseBodyBytesOrDash => {
                set(&mut row.response_body_bytes, number::whole(value))
            }
            Field::UserAgent => set(&mut row.user_agent_original, Some(value)),
            Field::Referer => set(&mut row.http_request_header_referer, Some(value)),
            Field::RequestId => set(&mut row.request_id, Some(value)),
            Field::Program => set(&mut row.program, Some(value)),
            Field::UpstreamName => set(&mut row.proxy_backend, Some(value)),
            Field::Column => self.take_column(RowKind::Request, pair),
            _ => self.take_measure(pair.field, value),
        }
    }

    fn take_measure(&mut self, field: Field, value: &'a str) -> bool {
        let row = &mut self.request;
        match field {
            Field::DurationSeconds => set(&mut row.duration_seconds, number::seconds(value)),
            Field::DurationOtherwise => {
                let seconds = number::seconds(value);
                seconds.is_some() && row.duration_seconds.is_some()
                    || set(&mut row.duration_seconds, seconds)
            }
            Field::DurationMillis => {
                set(&mut row.duration_seconds, number::seconds(value).map(|span| span / 1e3))
            }
            Field::DurationMicros => {
                let seconds = number::seconds(value).map(|span| span / 1e6);
                let coarse = row.duration_seconds.zip(seconds);
                // The same span in milliseconds is less exact.
                if coarse.is_some_and(|(held, span)| (0.0..1e-3).contains(&(span - held))) {
                    row.duration_seconds = None;
                }
                set(&mut row.duration_seconds, seconds)
            }
            Field::DurationNanos => {
                set(&mut row.duration_seconds, number::seconds(value).map(|span| span / 1e9))
            }
            Field::DurationText => set(&mut row.duration_seconds, number::span_seconds(value)),
            Field::UpstreamConnect => {
                set(&mut row.upstream_connect_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamHeader => {
                set(&mut row.upstream_header_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamResponse => {
                set(&mut row.upstream_response_seconds, upstream_list::sum_seconds(value))
            }
            Field::UpstreamResponseMillis => set(
                &mut row.upstream_response_seconds,
                number::seconds(value).map(|span| span / 1e3),
            ),
            Field::UpstreamResponseNanos => set(
                &mut row.upstream_response_seconds,
                number::seconds(value).map(|span| span / 1e9),
            ),
            Field::UpstreamStatus => {
                let last = upstream_list::last(value).and_then(number::whole);
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

    /// A `-` is NULL, except for two measured zeros: no body bytes, no upstream tried.
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

    /// Adds nanoseconds to a time in whole seconds.
    fn take_nanos(&mut self, value: &str) -> bool {
        let nanos = number::integer(value).filter(|nanos| (0..1_000_000_000).contains(nanos));
        match (self.ts, nanos) {
            (Some(ts), Some(nanos)) if ts.0 % 1_000_000 == 0 => {
                self.ts = Some(weir_tables::Micros(ts.0 + nanos / 1000));
                true
            }
            _ => false,
        }
    }

    /// `192.0.2.1`, also with a port, or a list, which stays an attribute.
    fn take_client(&mut self, value: &'a str) -> bool {
        if memchr::memchr(b',', value.as_bytes()).is_some() {
            return self.take_forwarded(value);
        }
        let (address, port) = peer_address::split_port(value);
        let is_set = set(&mut self.request.client_address, Some(address));
        if is_set && port.is_some() {
            set(&mut self.request.client_port, port);
        }
        is_set
    }

    /// The first address of a list; the list stays an attribute.
    fn take_forwarded(&mut self, list: &'a str) -> bool {
        if self.request.client_address.is_some() {
            return false;
        }
        let first = peer_address::first_of_list(list);
        let (address, port) = peer_address::split_port(first);
        let is_set = set(&mut self.request.client_address, Some(address));
        if is_set && port.is_some() {
            set(&mut self.request.client_port, port);
        }
        is_set && first.len() == list.len()
    }

    fn take_request_line(&mut self, line: &'a str) -> bool {
        let Some(parts) = request_line::parse(line) else {
            // The classic grok patterns call the target `request`.
            return line.starts_with('/') && self.take_target(&request_line::split_target(line));
        };
        let is_method = set(&mut self.request.http_request_method, Some(parts.method));
        let is_target = self.take_target(&parts.target);
        if parts.version.is_some() {
            set(&mut self.request.network_protocol_version, parts.version);
        }
        is_method && is_target
    }

    fn take_target(&mut self, target: &request_line::RequestTarget<'a>) -> bool {
        if let Some(host) = target.authority {
            self.take_host(host);
        }
        let path = Some(target.path).filter(|path| !path.is_empty());
        let is_path = set(&mut self.request.url_path, path);
        let is_query = target.query.is_none() || set(&mut self.request.url_query, target.query);
        is_path && is_query
    }

    /// `example.com/a?b`, `8080/a`; a target that was not sent is `-` or empty.
    fn take_authority_target(&mut self, value: &'a str) -> bool {
        let (authority, target) = match value.find('/') {
            Some(at) => value.split_at(at),
            None => (value.strip_suffix('-').unwrap_or(value), ""),
        };
        let is_taken = match number::integer(authority) {
            Some(port) => set(&mut self.request.server_port, Some(port)),
            None => authority.is_empty() || self.take_host(authority),
        };
        let target = Some(target).filter(|target| !target.is_empty());
        is_taken
            && target.is_none_or(|target| self.take_target(&request_line::split_target(target)))
    }

    /// Splits `example.com:8080`; the port is used if the line has no other.
    fn take_host(&mut self, host: &'a str) -> bool {
        match host.rsplit_once(':') {
            Some((name, port))
                if !peer_address::is_address(host) && number::integer(port).is_some() =>
            {
                set(&mut self.request.server_port, number::integer(port));
                set(&mut self.request.server_address, Some(name))
            }
            _ => set(&mut self.request.server_address, Some(host)),
        }
    }

    /// Takes the requested host where `host` before it was the server's address.
    fn replace_host(&mut self, host: &'a str) -> bool {
        let Some(held) = self.request.server_address.filter(|held| peer_address::is_address(held))
        else {
            return false;
        };
        self.request.server_address = None;
        set(&mut self.server_address, Some(held)) && self.take_host(host)
    }

    /// Sets the column of the same name; the first text is used.
    fn take_column(&mut self, kind: RowKind, pair: &NamedText<'a>) -> bool {
        let name = pair.key;
        if self.value(kind, name).is_some_and(|held| held != FieldValue::Text("")) {
            return false;
        }
        let is_column = self.has_column(kind, name);
        if is_column {
            self.set_value(kind, [name, pair.value]);
        }
        is_column
    }

    fn settle_server(&mut self) {
        for (key, value) in
            [("server_name", self.server_name), ("server_addr", self.server_address)]
        {
            if let Some(value) = value
                && !set(&mut self.request.server_address, Some(value))
            {
                self.keep_attr([key, value]);
            }
        }
    }
}

/// Sets a column that is NULL; true if the column now holds `value`.
#[inline]
fn set<T: PartialEq + Copy>(column: &mut Option<T>, value: Option<T>) -> bool {
    if value.is_some() && column.is_none() {
        *column = value;
        return true;
    }
    value.is_some() && *column == value
}

/// The severity of a word or, as some loggers write it, of its first letter.
fn level_of(text: &str) -> Option<&'static str> {
    let word = text.trim_ascii();
    severity::of_word(word).or_else(|| severity::of_mongodb(word))
}
