//! The combined log format of nginx and Apache, and `common`, which lacks its last two values.
//!
//! `addr - user [time] "request" status bytes "referer" "user agent"`; the rest is kept as `rest`,
//! unless it is Traefik's, HAProxy's, Ingress-NGINX's or APISIX's, and a leading `host:port` (Apache's
//! `vhost_combined`) is accepted, as are a host before the request and numbers before the referer.

use weir_tables::Micros;
use weir_values::{number, peer_address};

use crate::bare_access::METHODS;
use crate::field::{self, Field};
use crate::format::{LineFormat, NamedFormat};
use crate::record::{LineFault, Record, RowKind};
use crate::{gorouter, haproxy_clf, logfmt, nginx_gateways, request_line, text, traefik};

/// Most words before the time.
const MAX_HEAD_WORDS: usize = 10;
/// Most bytes between the time and the request.
const MAX_WORDS_BYTES: usize = 200;
/// Most quotes that are tried as the end of a value.
const MAX_QUOTES: usize = 16;

pub(crate) const FORMAT: NamedFormat =
    NamedFormat { name: "combined", new: || Box::new(LineFormat { name: "combined", parse }) };

/// Reads a line.
fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
    match fields(line, record) {
        Some(()) => Ok(RowKind::Request),
        None => Err(LineFault::no_match("not `address - user [time] \"request\" status bytes`")),
    }
}

/// Reads a line that is in this format; leaves the record empty if it is not.
pub(crate) fn detect<'a>(
    line: &'a str,
    record: &mut Record<'a>,
) -> Option<Result<RowKind, LineFault>> {
    if is_likely(line) && parse(line, record).is_ok() {
        return Some(Ok(RowKind::Request));
    }
    record.clear_texts();
    None
}

/// Whether a line has the bracketed time and the quoted request of the format.
pub(crate) fn is_likely(line: &str) -> bool {
    time_start(line).is_some_and(|at| {
        let is_request = line[at..].split_once(']').map_or("", |(_, rest)| rest.trim_ascii_start());
        let (_, request) = words_before_request(is_request);
        request.starts_with('"') && line[..at].split(' ').count() <= MAX_HEAD_WORDS
    })
}

/// Where the bracket of the time opens; an address before it may have brackets as well.
fn time_start(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    memchr::memchr_iter(b'[', bytes).take(4).find(|at| {
        let is_word = *at == 0 || bytes[at - 1] == b' ';
        is_word && (bytes.get(at + 3) == Some(&b'/') || *at > 0 && is_other_time(&bytes[at + 1..]))
    })
}

/// Whether `2026-11-20T12:00:00Z] "` follows a bracket (nginx' `$time_iso8601` and others; at the start
/// of a line it is Envoy's), `1795176000.123] "` or `Fri Nov 20 12:00:00 2026] "`.
fn is_other_time(bytes: &[u8]) -> bool {
    let is_iso = bytes.get(4) == Some(&b'-') && bytes.get(10).is_some_and(|b| b"T ".contains(b));
    let is_epoch = bytes.len() > 10 && bytes[..10].iter().all(u8::is_ascii_digit);
    let is_named = bytes.get(3) == Some(&b' ') && bytes.get(7) == Some(&b' ');
    (is_iso || is_epoch || is_named)
        && memchr::memchr(b']', bytes).is_some_and(|end| bytes[end + 1..].starts_with(b" \""))
}

fn fields<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (head, rest) = line.split_at(time_start(line)?);
    let (time, rest) = rest[1..].split_once(']')?;
    let (words, rest) = words_before_request(rest.trim_start_matches(' '));
    let (request, rest) = request_end(rest.strip_prefix('"')?)?;
    let rest = rest.strip_prefix(' ')?.trim_start_matches(' ');
    let (upstream, rest) = rest.strip_prefix("to: ").map_or(("", rest), text::word);
    let (status, behind_status) = text::word(rest);
    let (bytes, rest) = text::word(behind_status);
    // A format without the length.
    let (bytes, rest) = if bytes.starts_with('"') { ("", behind_status) } else { (bytes, rest) };
    // `morgan`'s duration, before the length.
    let span = rest.strip_prefix("ms - ").filter(|_| number::float(bytes).is_some());
    let (span, (bytes, rest)) = match span {
        Some(behind) => (bytes, text::word(behind)),
        None => ("", (bytes, rest)),
    };
    let (status, bytes) = (traefik::known(status), traefik::known(bytes));
    let values = TailValues::new(rest);
    record.ts = Some(read_time(time, record)?);
    let is_whole = request.rsplit(' ').next().is_some_and(|last| last.starts_with("HTTP/"));
    // Varnish writes `-` for what it piped, and Puma `HIJACKED`.
    let is_unknown = is_whole
        && matches!((status, bytes), ("-", "-") | ("HIJACKED", _))
        && (values.rest.is_empty() || status != "-")
        || status == "-" && traefik::is_end(values.rest)
        || is_whole
            && status == "-"
            && number::integer(bytes).is_some()
            && values.user_agent.is_some();
    if number::integer(status).is_none() && !is_unknown {
        return None;
    }
    if gorouter::is_end(values.rest) {
        gorouter::put_head(head.trim_ascii(), [bytes, values.numbers], record);
    } else {
        head_fields(head.trim_ascii(), record);
        put_words(words, record);
        if !bytes.is_empty() {
            record.put(["body_bytes_sent", bytes], Field::ResponseBodyBytesOrDash);
        }
    }
    record.put(["request", text::unescape(request, record.arena)], Field::RequestLine);
    record.put(["status", status], Field::Status);
    if !upstream.is_empty() {
        record.put(["upstream_addr", upstream], Field::UpstreamAddress);
    }
    if !span.is_empty() {
        record.put(["response_time", span], Field::DurationMillis);
    }
    tail_fields(&values, record);
    // A torn line has no whole status.
    Some(()).filter(|()| !bytes.is_empty() || is_whole && status.len() == 3)
}

/// Reads the bracketed time; WEBrick writes the name of its host's zone, which may be any.
fn read_time(time: &str, record: &mut Record<'_>) -> Option<Micros> {
    record.times.read(time).or_else(|| {
        let (clock, zone) = time.rsplit_once(' ')?;
        let is_name = zone.bytes().all(|byte| byte.is_ascii_uppercase());
        record.times.read(clock).filter(|_| is_name)
    })
}

/// What some formats have between the time and the request, and the request: the host that APISIX
/// writes, a number, or where the line begins with the time, the client as well.
fn words_before_request(text: &str) -> (&str, &str) {
    // Words in quotes, such as the host (`"URL: a.example"`): a request has its status behind it.
    let mut at = 0;
    while let Some(rest) = text[at..].strip_prefix('"')
        && let Some(end) = rest.find('"').filter(|end| rest[*end..].starts_with("\" \""))
        && !METHODS.contains(&text::word(rest).0)
        && at < MAX_WORDS_BYTES
    {
        at += end + 3;
    }
    if at > 0 {
        return (&text[..at - 1], &text[at..]);
    }
    let head = &text.as_bytes()[..text.len().min(MAX_WORDS_BYTES)];
    let words = memchr::memchr(b'"', head).and_then(|at| text[..at].strip_suffix(' '));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_[](), ".contains(&byte);
    // Apache's `%T/%D`.
    let is_duration = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/');
    let is_word = |word: &str| word.bytes().all(is_plain) || is_duration(word);
    match words.filter(|words| words.split(' ').all(is_word)) {
        Some(words) => (words, &text[words.len() + 1..]),
        None => ("", text),
    }
}

fn put_words<'a>(words: &'a str, record: &mut Record<'a>) {
    let words = words.split(' ').map(|word| word.trim_matches('"'));
    for word in words.filter(|word| !matches!(*word, "" | "-" | "[client")) {
        let bare = word.strip_prefix('[').unwrap_or(word).trim_end_matches([']', ',']);
        if peer_address::is_peer(bare) && record.is_free(Field::ClientAddress) {
            record.put(["remote_addr", bare], Field::ClientAddress);
        } else if is_host(bare) && record.is_free(Field::Host) {
            record.put(["http_host", bare], Field::Host);
        } else if word.contains('.')
            && number::float(word).is_some()
            && record.is_free(Field::DurationSeconds)
        {
            record.put(["request_time", word], Field::DurationSeconds);
        } else {
            record.attr(["before_request", word]);
        }
    }
}

/// Whether a word is a host: `a.example`, `localhost`, `apisix:9080`.
fn is_host(word: &str) -> bool {
    let (name, port) = word.rsplit_once(':').unwrap_or((word, "80"));
    let is_port = number::integer(port).is_some_and(|port| (1..=65_535).contains(&port));
    is_port
        && number::float(word).is_none()
        && !word.starts_with('/')
        && (name.contains('.') || name.bytes().any(|byte| byte.is_ascii_lowercase()))
}

/// The request and what follows its closing quote: the first quote with a status behind it, since
/// some servers (Werkzeug, Daphne) escape no quote in it.
pub(crate) fn request_end(text: &str) -> Option<(&str, &str)> {
    let first = text::quoted_end(text)?;
    let is_whole = first.0.rsplit(' ').next().is_some_and(|last| last.starts_with("HTTP/"));
    let is_method = |text: &str| request_line::is_method(text::word(text).0);
    if is_whole || has_status(first.1) || !is_method(first.0) {
        return Some(first);
    }
    let later = memchr::memchr_iter(b'"', text.as_bytes()).take(MAX_QUOTES);
    let later = later.map(|at| (&text[..at], &text[at + 1..]));
    let with_status =
        later.skip_while(|end| end.0.len() <= first.0.len()).find(|end| has_status(end.1));
    Some(with_status.unwrap_or(first))
}

fn has_status(behind: &str) -> bool {
    let Some(behind) = behind.strip_prefix(' ') else { return false };
    let status = text::word(behind.trim_start_matches(' ')).0;
    status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words that a logger writes before the line (`[time] [pid] [INFO] `), and the rest of the head.
fn behind_logger(head: &str) -> (&str, &str) {
    // Python's `INFO:aiohttp.access:`.
    if let Some((level, rest)) = head.split_once(':')
        && matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR")
        && let Some((name, rest)) = rest.split_once(':')
    {
        return (&head[..level.len() + 1 + name.len()], rest);
    }
    let Some(before) = head.strip_suffix(" - -") else { return ("", head) };
    let Some((words, address)) = before.rsplit_once(' ') else { return ("", head) };
    let is_logger = words.starts_with('[') || words.contains(' ');
    let begins_with_peer = || peer_address::is_peer(text::word(words).0.trim_end_matches(','));
    if is_logger && !words.ends_with(',') && peer_address::is_peer(address) && !begins_with_peer() {
        return (words, &head[words.len() + 1..]);
    }
    ("", head)
}

/// `[vhost:port] address logname user`; a user name may hold spaces, a logname is nearly always
/// `-`. The address is a list where `X-Forwarded-For` is logged in its place, and may be missing.
fn head_fields<'a>(head: &'a str, record: &mut Record<'a>) {
    let (logger, head) = behind_logger(head);
    // `id host address`, without a port or with one.
    let named = logger
        .rsplit_once(' ')
        .filter(|(words, host)| !words.starts_with('[') && host.contains('.') && is_host(host));
    record.attr(["logger_prefix", named.map_or(logger, |(words, _)| words)]);
    if let Some((_, host)) = named {
        record.put(["vhost", host], Field::Host);
    }
    let (first, behind) = text::word(head);
    let (second, third) = text::word(behind);
    let is_name =
        |word: &str| word.contains('.') && !word.ends_with(',') && !peer_address::is_address(word);
    let has_port = first.rsplit_once(':').is_some_and(|(_, port)| number::integer(port).is_some());
    // Without a port: Apache's `%v %h %l %u`, with the client's address or its name. With three words,
    // lighttpd's `%h %V %u` has the host second.
    let has_vhost = second != "-"
        && behind.contains(' ')
        && (has_port && (!peer_address::is_peer(first) || peer_address::is_peer(second))
            || !peer_address::is_address(first.trim_end_matches(','))
                && peer_address::is_address(second)
            || is_name(first) && is_name(second) && third.starts_with("- "));
    let rest = if has_vhost { behind } else { head };
    if has_vhost {
        record.put(["vhost", first], Field::Host);
    }
    let (addresses, rest) = rest.split_at(list_length(rest));
    if addresses.contains(',') {
        record.put(["http_x_forwarded_for", addresses], Field::ForwardedFor);
    } else if !addresses.is_empty() {
        // Amazon S3 has the ID of the bucket's owner in this place.
        let field = if is_account(addresses) { Field::Attr } else { Field::ClientAddress };
        record.put(["remote_addr", addresses.trim_matches('"')], field);
    }
    let rest = put_further_addresses(addresses, rest, record);
    let (logname, user) = text::word(rest.strip_prefix(' ').unwrap_or(rest));
    // Ingress-NGINX before 0.22.
    let user = user
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] - "))
        .map_or(user, |(_, user)| user);
    let (logname, user) = (logname.trim_matches('"'), user.trim_matches([' ', '"']));
    // BunkerWeb's `$remote_addr - $remote_user $server_name`.
    let host_behind = user.strip_prefix("- ").filter(|host| host.contains('.') && is_host(host));
    // Virtualmin's `%l %v %V %u`.
    let named = user.split_once(' ').and_then(|(host, rest)| Some((host, rest.split_once(' ')?)));
    let named = named.filter(|(host, (other, _))| {
        [host, other].iter().all(|name| name.contains('.') && is_host(name))
    });
    let user = named.map_or(user, |(_, (_, user))| user);
    let host_behind = host_behind.or(named.map(|(host, _)| host));
    let user = if host_behind.is_some() && named.is_none() { "" } else { user };
    if let Some(host) = host_behind {
        record.put(["server_name", host], Field::Host);
    }
    // lighttpd's own format has the requested host in this place.
    // Linkerd has the client's identity there.
    let is_host = logname.contains('.') && !logname.contains('@') && !is_identity(logname);
    let field = if is_host { Field::Host } else { Field::Attr };
    if !logname.is_empty() {
        let host = logname.split_once("://").filter(|_| is_host).map(|(_, host)| host);
        record.put(["remote_logname", host.unwrap_or(logname)], field);
    }
    record.attr(["remote_user", text::unescape(user, record.arena)]);
}

/// Takes the peer behind a list of `X-Forwarded-For`, or a list behind the peer, and returns the rest.
fn put_further_addresses<'a>(first: &str, rest: &'a str, record: &mut Record<'a>) -> &'a str {
    let text = rest.strip_prefix(' ').unwrap_or(rest);
    let (words, behind) = text.split_at(list_length(text));
    let list = words.trim_matches(['(', ')']);
    if words == "(-)" {
        return behind;
    }
    if !peer_address::is_peer(list.split(',').next().unwrap_or_default()) {
        return rest;
    }
    if first.contains(',') && !list.contains(',') {
        record.put(["remote_addr", list], Field::ClientAddress);
    } else if list.contains(',') || list.len() < words.len() {
        record.put(["http_x_forwarded_for", list], Field::ForwardedFor);
    } else {
        return rest;
    }
    behind
}

fn is_identity(word: &str) -> bool {
    memchr::memmem::find(word.as_bytes(), b".serviceaccount.").is_some()
}

fn is_account(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The length of words that end in commas, and one more.
fn list_length(text: &str) -> usize {
    let mut length = 0;
    for word in text.split(' ') {
        length += word.len();
        if !word.ends_with(',') {
            break;
        }
        length += 1;
    }
    length.min(text.len())
}

/// The values behind the bytes.
struct TailValues<'a> {
    /// Host before the referer (IONOS).
    host: &'a str,
    /// Numbers before the referer.
    numbers: &'a str,
    referer: Option<&'a str>,
    user_agent: Option<&'a str>,
    rest: &'a str,
}

impl<'a> TailValues<'a> {
    fn new(text: &'a str) -> Self {
        let (word, behind) = text::word(text);
        // Or Apache's `%U`.
        let is_named = behind.starts_with('"')
            && (word.contains('.') && is_host(word) || word.starts_with('/'));
        let (host, text) = if is_named { (word, behind) } else { ("", text) };
        let (numbers, text) = leading_numbers(text);
        let (referer, rest) = tail_value(text);
        let (user_agent, rest) = if referer.is_some() { tail_value(rest) } else { (None, rest) };
        // A format with one of the two: a referer has a scheme.
        let is_agent = |value: &&str| {
            let product = text::word(value).0;
            !product.contains(':') && !product.starts_with('/') && product.contains('/')
        };
        let (referer, user_agent) = match user_agent {
            None if referer.as_ref().is_some_and(is_agent) => (None, referer),
            _ => (referer, user_agent),
        };
        Self { host, numbers, referer, user_agent, rest }
    }
}

/// Numbers before a quoted value, which are times mostly; none if something else follows.
fn leading_numbers(text: &str) -> (&str, &str) {
    let at =
        if text.starts_with(|mark: char| mark.is_ascii_digit()) { text.find(" \"") } else { None };
    let Some((numbers, rest)) = at.map(|at| (text[..at].trim_end(), &text[at + 1..])) else {
        return ("", text);
    };
    let is_all = numbers.split(' ').all(|word| word == "-" || number::float(word).is_some());
    if is_all { (numbers, rest) } else { ("", text) }
}

/// A value and what follows its closing quote: the quote before a blank or the end behind which all
/// quotes are paired, since some servers (Hypercorn) escape none; otherwise the first quote.
fn value_end(text: &str) -> Option<(&str, &str)> {
    let first = text::quoted_end(text)?;
    if is_balanced(first.1) {
        return Some(first);
    }
    let later = memchr::memchr_iter(b'"', text.as_bytes()).take(MAX_QUOTES);
    let later = later.map(|at| (&text[..at], &text[at + 1..]));
    let whole = later.skip_while(|end| end.0.len() <= first.0.len()).find(|end| is_balanced(end.1));
    Some(whole.unwrap_or(first))
}

/// Whether a text is empty, or begins with a blank and has an even number of quotes.
fn is_balanced(behind: &str) -> bool {
    let mut rest = behind;
    let mut count = 0;
    while let Some((_, more)) = text::quoted_end(rest) {
        (rest, count) = (more, count + 1);
    }
    behind.is_empty() || behind.starts_with(' ') && count % 2 == 0
}

/// A value in quotes, or the `-` that Traefik wrote without, and the text behind it.
fn tail_value(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix('"').and_then(value_end) {
        Some((value, behind)) => (Some(value), behind.strip_prefix(' ').unwrap_or(behind)),
        None => text.strip_prefix("- ").map_or((None, text), |behind| (Some("-"), behind)),
    }
}

fn tail_fields<'a>(values: &TailValues<'a>, record: &mut Record<'a>) {
    match values.host.strip_prefix('/') {
        Some(_) => record.attr(["uri", values.host]),
        None if values.host.is_empty() => {}
        None => record.put(["http_host", values.host], Field::Host),
    }
    if let Some(referer) = values.referer {
        record.put(["http_referer", text::unescape(referer, record.arena)], Field::Referer);
    }
    if let Some(agent) = values.user_agent {
        record.put(["http_user_agent", text::unescape(agent, record.arena)], Field::UserAgent);
    }
    if gorouter::is_end(values.rest) {
        return gorouter::put_end(values.rest, record);
    }
    let is_apisix = !record.is_free(Field::Host)
        && !values.numbers.is_empty()
        && nginx_gateways::parse_apisix_end(values.rest, record).is_some();
    let field = if is_apisix { Field::DurationSeconds } else { Field::Attr };
    if !values.numbers.is_empty() {
        record.put(["request_time", values.numbers], field);
    }
    if !is_apisix
        && traefik::parse_end(values.rest, record).is_none()
        && haproxy_clf::parse_end(values.rest, record).is_none()
        && nginx_gateways::parse_end(values.rest, record).is_none()
        && put_pairs(values.rest, record).is_none()
    {
        // Rack's logger, and so Puma and Sinatra, ends its line with the duration.
        let is_duration = values.referer.is_none() && is_rack_duration(values.rest);
        let field = if is_duration { Field::DurationSeconds } else { Field::Attr };
        record.put(["rest", values.rest], field);
    }
}

/// Pairs behind the user agent, or behind one more value: variables of nginx under their names, or under
/// those of its documentation (`rt=0.005 uct="0.001"`). `None`, with the record unchanged, if another
/// name is among them: a client must not make keys.
fn put_pairs<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    memchr::memchr(b'=', rest.as_bytes())?;
    let (forwarded, text) = tail_value(rest);
    let mut pairs = Vec::new();
    for [key, value] in logfmt::whole_pairs(text)? {
        let field = match key {
            "rt" => Field::DurationSeconds,
            "uct" => Field::UpstreamConnect,
            "uht" => Field::UpstreamHeader,
            "urt" | "ut" => Field::UpstreamResponse,
            "ua" => Field::UpstreamAddress,
            "us" => Field::UpstreamStatus,
            "ul" | "cs" => Field::Attr,
            _ => Some(field::of_nginx(key)).filter(|field| *field != Field::Attr)?,
        };
        pairs.push(([key, value], field));
    }
    record.attr(["rest", forwarded.unwrap_or_default()]);
    for (pair, field) in pairs {
        record.put(pair, field);
    }
    Some(())
}

/// Whether a text is seconds with four digits or more behind the point.
fn is_rack_duration(text: &str) -> bool {
    let decimals = text.split_once('.').map_or("", |(_, decimals)| decimals);
    decimals.len() >= 4 && number::seconds(text).is_some()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use weir_tables::LogFormat;

    use crate::check::check_format;

    #[test]
    fn combined_common_and_vhost_lines_are_read() {
        check_format(
            LogFormat::Combined,
            r#"1.2.3.4 - bob [20/Nov/2026:12:00:00 +0100] "GET /a?b=\x22c HTTP/1.1" 200 612 "https://r.example/" "a \"b\" c" "9.9.9.9"
::1 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.0" 304 -
1.2.3.4 - John Doe [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.0" 304 -
www.example.com:443 1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "-" 408 0 "-" "-"
"#,
            expect![[r#"
                request
                  ts: 2026-11-20T11:00:00Z
                  client_address: 1.2.3.4
                  http_request_method: GET
                  url_path: /a
                  url_query: b="c
                  network_protocol_version: 1.1
                  http_response_status_code: 200
                  response_body_bytes: 612
                  user_agent_original: a "b" c
                  http_request_header_referer: https://r.example/
                  attrs: {remote_user: bob, rest: "9.9.9.9"}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: ::1
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.0
                  http_response_status_code: 304
                  response_body_bytes: 0
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 1.2.3.4
                  http_request_method: GET
                  url_path: /
                  network_protocol_version: 1.0
                  http_response_status_code: 304
                  response_body_bytes: 0
                  attrs: {remote_user: John Doe}
                request
                  ts: 2026-11-20T12:00:00Z
                  client_address: 1.2.3.4
                  server_address: www.example.com
                  server_port: 443
                  http_response_status_code: 408
                  response_body_bytes: 0
            "#]],
        );
    }

    #[test]
    fn torn_and_foreign_lines_are_rejected() {
        check_format(
            LogFormat::Combined,
            "1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTT\n1.2.3.4 - - [noon] \"GET / HTTP/1.1\" 200 1\nhello\n",
            expect![[r#"
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: 1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTT
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: 1.2.3.4 - - [noon] "GET / HTTP/1.1" 200 1
                reject
                  ts: 2026-11-20T12:00:00Z
                  reason: no_match
                  detail: not `address - user [time] "request" status bytes`
                  raw: hello
            "#]],
        );
    }
}
