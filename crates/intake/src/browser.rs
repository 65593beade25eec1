//! Requests that a page of another site can make a browser send: by its own name (DNS rebinding),
//! or without reading the answer (forms, `text/plain`, images).
//!
//! Browsers mark them: `Origin` with each POST, `Sec-Fetch-Site` where the target is HTTPS or
//! loopback (Fetch, Fetch Metadata). Shippers and scripts send neither, and only browsers can be
//! tricked.

use std::net::IpAddr;

use http::{HeaderMap, header};

/// Whether the header `Host` is an address, `localhost` or one of weir's own names. Its absence is
/// fine: browsers always send it. Of two, a proxy may have checked the other one.
pub fn is_own_host(headers: &HeaderMap, own: &[String]) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else { return true };
    if hosts.next().is_some() {
        return false;
    }
    let Ok(host) = host.to_str() else { return false };
    let name = without_port(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || is_own(name, own)
}

/// Whether a page of another site caused the request. Without `Sec-Fetch-Site`, the header `Origin`
/// decides: it must equal `Host`, or be an own name in front of a proxy.
pub fn is_from_foreign_page(headers: &HeaderMap, own: &[String]) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let Some((_, authority)) = origin.to_str().ok().and_then(|text| text.split_once("://")) else {
        return true;
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_asked = host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
    !is_asked && !is_own(without_port(authority), own)
}

/// Whether a browser sent the request.
pub fn is_from_browser(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    headers.contains_key("sec-fetch-site")
        || headers.contains_key("sec-fetch-mode")
        || headers.contains_key(header::ORIGIN)
        || headers.contains_key(header::REFERER)
        || agent.is_some_and(|agent| agent.starts_with("Mozilla/"))
}

fn is_own(name: &str, own: &[String]) -> bool {
    own.iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a header value"));
        }
        headers
    }

    #[test]
    fn only_own_names_and_addresses_are_hosts() {
        let own = ["weir.example.net".to_owned()];
        let check = |host: &str| is_own_host(&headers(&[("host", host)]), &own);
        for good in [
            "localhost:4770",
            "127.0.0.1:1",
            "[::1]:4770",
            "[::1]",
            "10.0.0.5",
            "WEIR.example.net:80",
        ] {
            assert!(check(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:4770", "localhost.evil.example", "", "a:b"] {
            assert!(!check(bad), "{bad}");
        }
        assert!(is_own_host(&headers(&[]), &own));
        let mut two = headers(&[("host", "127.0.0.1:4770")]);
        two.append(header::HOST, "evil.example".parse().expect("a header value"));
        assert!(!is_own_host(&two, &own), "RFC 9112 §3.2 allows one");
    }

    #[test]
    fn pages_of_other_sites_and_ports_are_foreign() {
        let own = ["weir.example.net".to_owned()];
        let host = ("host", "127.0.0.1:9200");
        for pairs in [
            [host, ("sec-fetch-site", "cross-site")],
            [host, ("sec-fetch-site", "same-site")],
            [host, ("origin", "https://evil.example")],
            [host, ("origin", "http://127.0.0.1:8000")],
            [host, ("origin", "null")],
            [host, ("origin", "http://weir.example.net.evil.example")],
        ] {
            assert!(is_from_foreign_page(&headers(&pairs), &own), "{pairs:?}");
        }
        for pairs in [
            [host, ("sec-fetch-site", "same-origin")],
            [host, ("sec-fetch-site", "none")],
            [host, ("origin", "http://127.0.0.1:9200")],
            [host, ("origin", "https://weir.example.net")],
            [host, ("accept", "*/*")],
        ] {
            assert!(!is_from_foreign_page(&headers(&pairs), &own), "{pairs:?}");
        }
    }
}
