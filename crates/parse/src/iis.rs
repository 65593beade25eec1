//! Columns of IIS' logs whose `#Fields:` is missing.
//!
//! Source: Microsoft, "Select W3C fields to log". An administrator chooses the columns, IIS keeps
//! their order, so the values of one line show which were chosen.

/// Default columns since IIS 8.
pub(crate) const DEFAULT: [&str; 15] = [
    "date",
    "time",
    "s-ip",
    "cs-method",
    "cs-uri-stem",
    "cs-uri-query",
    "s-port",
    "cs-username",
    "c-ip",
    "cs(User-Agent)",
    "cs(Referer)",
    "sc-status",
    "sc-substatus",
    "sc-win32-status",
    "time-taken",
];
/// Default columns of IIS 5.
const OLD: [&str; 11] = [
    "date",
    "time",
    "c-ip",
    "cs-username",
    "s-ip",
    "s-port",
    "cs-method",
    "cs-uri-stem",
    "cs-uri-query",
    "sc-status",
    "cs(User-Agent)",
];
/// Columns from the method to the client.
const REQUEST: [&str; 6] =
    ["cs-method", "cs-uri-stem", "cs-uri-query", "s-port", "cs-username", "c-ip"];

/// First columns of http.sys' log of refused connections, which all versions have.
const REFUSED: [&str; 9] =
    ["date", "time", "c-ip", "c-port", "s-ip", "s-port", "cs-version", "cs-method", "cs-uri"];
/// Its columns from the status.
const REASON: [&str; 4] = ["sc-status", "s-siteid", "s-reason", "s-queuename"];

/// The columns that a line has; `None` if its values do not show them.
pub(crate) fn columns(values: &[&str]) -> Option<Vec<&'static str>> {
    if is_refused(values) {
        let streams: &[_] = match values.len() {
            13 => &[],
            14 => &["streamid"],
            _ => &["streamid", "streamid_ex"],
        };
        let transport: &[_] = if values.len() == 16 { &["transport"] } else { &[] };
        return Some([&REFUSED[..], streams, &REASON, transport].concat());
    }
    // A further column that an administrator added, of a proxy in front.
    let (last, others) = values.split_last()?;
    if last.contains(['.', ':']) && last.split(',').all(is_address) {
        return Some([columns(others)?, vec!["X-Forwarded-For"]].concat());
    }
    let method =
        values.windows(2).position(|pair| is_method(pair[0]) && pair[1].starts_with('/'))?;
    if values.len() == OLD.len() && method == 6 {
        return Some(OLD.to_vec());
    }
    let front = values.get(2..method)?;
    let request = values.get(method..method + REQUEST.len())?;
    if !is_number(request[3]) || !is_address(request[5]) {
        return None;
    }
    let behind = &values[method + REQUEST.len()..];
    let version = usize::from(behind.first().is_some_and(|value| value.starts_with("HTTP/")));
    let behind = &behind[version..];
    let number_count = behind.iter().rev().take_while(|value| is_number(value)).count();
    let (texts, numbers) = behind.split_at(behind.len() - number_count);
    let parts: [&[&'static str]; 6] = [
        &["date", "time"],
        servers(front)?,
        &REQUEST,
        if version == 1 { &["cs-version"] } else { &[] },
        headers(texts)?,
        counts(numbers)?,
    ];
    Some(parts.concat())
}

/// What names the server, before the method.
fn servers(values: &[&str]) -> Option<&'static [&'static str]> {
    Some(match values {
        [] => &[],
        [one] if is_address(one) => &["s-ip"],
        [_] => &["s-sitename"],
        [site, address] if is_address(address) && site.starts_with("W3SVC") => {
            &["s-sitename", "s-ip"]
        }
        [_, address] if is_address(address) => &["s-computername", "s-ip"],
        [_, _] => &["s-sitename", "s-computername"],
        [_, _, _] => &["s-sitename", "s-computername", "s-ip"],
        _ => return None,
    })
}

/// Headers of the request, between the client and the status.
fn headers(values: &[&str]) -> Option<&'static [&'static str]> {
    Some(match values {
        [] => &[],
        [_] => &["cs(User-Agent)"],
        [_, cookie] if is_cookie(cookie) => &["cs(User-Agent)", "cs(Cookie)"],
        [_, referer] if *referer == "-" || referer.contains("://") => {
            &["cs(User-Agent)", "cs(Referer)"]
        }
        [_, _] => &["cs(User-Agent)", "cs-host"],
        [_, cookie, _] if is_cookie(cookie) => &["cs(User-Agent)", "cs(Cookie)", "cs(Referer)"],
        [_, _, referer] if referer.contains("://") => {
            &["cs(User-Agent)", "cs(Cookie)", "cs(Referer)"]
        }
        [_, _, _] => &["cs(User-Agent)", "cs(Referer)", "cs-host"],
        [_, _, _, _] => &["cs(User-Agent)", "cs(Cookie)", "cs(Referer)", "cs-host"],
        _ => return None,
    })
}

/// The status and what follows it.
fn counts(values: &[&str]) -> Option<&'static [&'static str]> {
    values.first().filter(|status| status.len() == 3)?;
    Some(match values.len() {
        1 => &["sc-status"],
        2 => &["sc-status", "time-taken"],
        3 => &["sc-status", "sc-substatus", "sc-win32-status"],
        4 => &["sc-status", "sc-substatus", "sc-win32-status", "time-taken"],
        6 => {
            &["sc-status", "sc-substatus", "sc-win32-status", "sc-bytes", "cs-bytes", "time-taken"]
        }
        _ => return None,
    })
}

fn is_refused(values: &[&str]) -> bool {
    let is_peer = |at: usize| is_address(values[at]) && is_number(values[at + 1]);
    let is_version = |value: &str| value == "-" || value.starts_with("HTTP/");
    (13..=16).contains(&values.len()) && is_peer(2) && is_peer(4) && is_version(values[6])
}

fn is_method(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_address(value: &str) -> bool {
    // IIS writes the zone of a link-local address.
    let address = value.split('%').next().unwrap_or(value);
    address.parse::<std::net::IpAddr>().is_ok()
}

fn is_cookie(value: &str) -> bool {
    value.contains('=') && !value.contains("://")
}
