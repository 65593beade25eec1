//! Destinations of requests as users write them: backends, and routes that choose a pool.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::EdgeError;

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSettings {
    /// The pool; empty for the default pool, which takes requests that match no route.
    pub pool: String,
    /// `HOST:PORT` as written.
    pub name: String,
    /// Its address; `None` for a name, which the edge looks up while it runs.
    pub address: Option<SocketAddr>,
    /// Addresses of another family that lead to the same server.
    pub alternates: Vec<SocketAddr>,
    /// The protocol.
    pub protocol: Protocol,
    /// Share of requests relative to the other backends; 0 drains the backend.
    pub weight: u32,
    /// The zone; empty if not given.
    pub zone: String,
}

/// The protocol of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 from the first byte (RFC 9113 §3.3).
    H2c,
    /// HTTP/1.1 over TLS.
    AuthorityClient,
    /// HTTP/2 over TLS.
    H2,
}

impl Protocol {
    const ALL: [Self; 4] = [Self::Http1, Self::H2c, Self::AuthorityClient, Self::H2];

    /// The scheme before `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http",
            Self::H2c => "h2c",
            Self::AuthorityClient => "https",
            Self::H2 => "h2",
        }
    }

    /// Whether the protocol uses TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::AuthorityClient | Self::H2)
    }

    /// Whether the protocol is HTTP/2.
    pub fn is_h2(self) -> bool {
        matches!(self, Self::H2c | Self::H2)
    }
}

impl BackendSettings {
    /// Parses `[POOL=][PROTOCOL://]HOST:PORT[*WEIGHT][@ZONE]`.
    ///
    /// # Errors
    /// If it is not a host and a port, the weight is not from 0 to 1000, or the protocol is none of
    /// `http`, `https`, `h2`, `h2c`.
    pub fn parse(text: &str) -> Result<Self, EdgeError> {
        Self::try_parse(text).map_err(|(why, hint)| {
            EdgeError::new(format!("cannot use the backend `{text}`: {why}")).hint(hint)
        })
    }

    /// The error is a reason and a hint.
    fn try_parse(text: &str) -> Result<Self, (String, &'static str)> {
        let (pool, rest) = text.split_once('=').unwrap_or(("", text));
        let (protocol, rest) = match rest.trim().split_once("://") {
            None => (Protocol::Http1, rest),
            Some((name, rest)) => {
                let known = Protocol::ALL.into_iter().find(|one| one.as_str() == name);
                let hint = "use http, https, h2 (HTTP/2 over TLS) or h2c (HTTP/2 without)";
                (known.ok_or_else(|| ("unknown protocol".to_owned(), hint))?, rest)
            }
        };
        let (rest, zone) = rest.rsplit_once('@').unwrap_or((rest, ""));
        let zone = zone.trim().to_owned();
        if zone.is_empty() && text.contains('@') {
            return Err(("the zone has no name".into(), "write it as 10.0.0.5:8080@eu-1a"));
        }
        let (name, weight) = match rest.split_once('*') {
            Some((name, weight)) => (name.trim(), weight.trim().parse().ok()),
            None => (rest.trim(), Some(1)),
        };
        let weight = weight.filter(|weight| *weight <= 1000).ok_or_else(|| {
            ("the weight is not from 0 to 1000".to_owned(), "write it as 10.0.0.5:8080*3")
        })?;
        let address = name.parse::<SocketAddr>().ok();
        if address.is_none() && !is_name_with_port(name) {
            return Err((NO_ADDRESS.into(), SYNTAX));
        }
        let (pool, name) = (pool.trim().to_owned(), name.to_owned());
        Ok(Self { pool, name, address, alternates: Vec::new(), protocol, weight, zone })
    }

    /// The host of the name, which the backend's certificate must have: without the dot of DNS' root.
    pub fn host(&self) -> &str {
        let host = self.name.rsplit_once(':').map_or(self.name.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.strip_suffix('.').unwrap_or(host)
    }

    /// The value of `Host` that names this backend: the port is left out where it is the usual one.
    pub(crate) fn authority(&self) -> &str {
        let usual = if self.protocol.is_tls() { ":443" } else { ":80" };
        self.name.strip_suffix(usual).unwrap_or(&self.name)
    }
}

impl fmt::Display for BackendSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pool.is_empty() {
            write!(f, "{}=", self.pool)?;
        }
        if self.protocol != Protocol::Http1 {
            write!(f, "{}://", self.protocol.as_str())?;
        }
        write!(f, "{} weight {}", self.name, self.weight)?;
        if self.zone.is_empty() { Ok(()) } else { write!(f, " zone {}", self.zone) }
    }
}

const NO_ADDRESS: &str = "not an address and a port";
const SYNTAX: &str =
    "write it as 10.0.0.5:8080, app.example.net:8080, [2001:db8::5]:8080 or https://app:8443";

fn is_name_with_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    !host.is_empty()
        && port.parse::<u16>().is_ok_and(|port| port > 0)
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The first address of `HOST:PORT`.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, String> {
    if text.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(NO_ADDRESS.into());
    }
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "the name has no address".into())
}

/// A route: requests for a host, a path, or both go to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// The host in lower case, without port; `*.example.net` matches all subdomains; empty for all
    /// hosts.
    pub host: String,
    /// The path prefix. Unless it ends with `/`, it matches whole path segments only.
    pub path: String,
    /// The pool that takes the requests.
    pub pool: String,
}

impl RouteSettings {
    /// Parses `HOST=POOL`, `/PATH=POOL` or `HOST/PATH=POOL`.
    ///
    /// # Errors
    /// If the pool, or the part before it, is missing.
    pub fn parse(text: &str) -> Result<Self, EdgeError> {
        let parts = text.split_once('=').map(|(from, pool)| (from.trim(), pool.trim()));
        let (from, pool) =
            parts.filter(|(from, pool)| !from.is_empty() && !pool.is_empty()).ok_or_else(|| {
                EdgeError::new(format!(
                    "cannot use the route `{text}`: it needs a host or path, and a pool"
                ))
                .hint("write it as api.example.net=api, /static/=files or *.example.net/img/=files")
            })?;
        let at = from.find('/').unwrap_or(from.len());
        let path = if at < from.len() { &from[at..] } else { "/" };
        let host = from[..at].trim_end_matches('.').to_ascii_lowercase();
        Ok(Self { host, path: path.to_owned(), pool: pool.to_owned() })
    }

    /// Whether a request matches. `host` may include a port.
    pub fn matches(&self, host: Option<&str>, path: &str) -> bool {
        self.matches_host(host.unwrap_or("")) && self.matches_path(path)
    }

    fn matches_host(&self, host: &str) -> bool {
        if self.host.is_empty() {
            return true;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        // The dot of DNS' root makes no other host.
        let name = name.strip_suffix('.').unwrap_or(name);
        match self.host.strip_prefix('*') {
            None => name.eq_ignore_ascii_case(&self.host),
            Some(below) => {
                let at = name.len().checked_sub(below.len()).filter(|at| *at > 0);
                at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(below))
            }
        }
    }

    fn matches_path(&self, path: &str) -> bool {
        // `OPTIONS *` is about the host as a whole.
        if path == "*" {
            return self.path == "/";
        }
        path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
            self.path.ends_with('/') || rest.is_empty() || rest.starts_with('/')
        })
    }
}

impl fmt::Display for RouteSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}={}", self.host, self.path, self.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_have_pools_protocols_and_weights() {
        let backend = BackendSettings::parse("127.0.0.1:80*3").unwrap();
        assert_eq!(backend.weight, 3);
        assert_eq!(backend.address, "127.0.0.1:80".parse().ok());
        assert_eq!(BackendSettings::parse("[::1]:8080").unwrap().host(), "::1");
        let backend = BackendSettings::parse("api=h2://localhost:8443*0").unwrap();
        assert_eq!((backend.pool.as_str(), backend.protocol), ("api", Protocol::H2));
        assert_eq!((backend.host(), backend.weight), ("localhost", 0));
        assert_eq!(backend.address, None, "a name is looked up later");
        for (text, host, authority) in [
            ("https://app.example.net.:443", "app.example.net", "app.example.net."),
            ("http://app.example.net:443", "app.example.net", "app.example.net:443"),
            ("[::1]:80", "::1", "[::1]"),
            ("10.0.0.5:8080", "10.0.0.5", "10.0.0.5:8080"),
        ] {
            let backend = BackendSettings::parse(text).unwrap();
            assert_eq!((backend.host(), backend.authority()), (host, authority));
        }
        let backend = BackendSettings::parse("127.0.0.1:80*3@eu-1a").unwrap();
        assert_eq!((backend.weight, backend.zone.as_str()), (3, "eu-1a"));
        for wrong in [
            "127.0.0.1",
            "127.0.0.1:80*x",
            "127.0.0.1:80*1001",
            ":",
            "127.0.0.1:99999",
            "ftp://127.0.0.1:80",
            "a=b=127.0.0.1:80",
            "127.0.0.1:80@",
        ] {
            assert!(BackendSettings::parse(wrong).is_err(), "{wrong}");
        }
    }

    fn fits(route: &str, request: (&str, &str)) -> bool {
        RouteSettings::parse(route).unwrap().matches(Some(request.0), request.1)
    }

    #[test]
    fn routes_match_hosts_and_whole_path_segments() {
        assert!(fits("api.example.net=a", ("API.example.net:80", "/x")));
        assert!(!fits("api.example.net=a", ("example.net", "/x")));
        assert!(fits("api.example.net=a", ("api.example.net.:80", "/x")));
        assert!(fits("api.example.net=a", ("api.example.net.", "*")));
        assert!(!fits("api.example.net/v1=a", ("api.example.net", "*")));
        assert!(fits("*.example.net=a", ("x.y.example.net", "/")));
        assert!(!fits("*.example.net=a", ("example.net", "/")));
        assert!(!fits("*.example.net=a", (".example.net", "/")));
        assert!(fits("/img=a", ("any", "/img")) && fits("/img=a", ("any", "/img/1")));
        assert!(!fits("/img=a", ("any", "/imgs")));
        assert!(fits("/img/=a", ("any", "/img/1")) && !fits("/img/=a", ("any", "/img")));
        assert!(fits("h/v1=a", ("h", "/v1/x")) && !fits("h/v1=a", ("g", "/v1/x")));
        for wrong in ["", "x", "=a", "/x="] {
            assert!(RouteSettings::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_text_makes_them_panic() {
        arbtest::arbtest(|u| {
            let (text, host) = (u.arbitrary::<&str>()?, u.arbitrary::<&str>()?);
            if let Ok(route) = RouteSettings::parse(text) {
                route.matches(Some(host), u.arbitrary::<&str>()?);
                assert_eq!(RouteSettings::parse(&route.to_string()).unwrap(), route);
            }
            let _ = BackendSettings::parse(text);
            Ok(())
        });
    }
}
