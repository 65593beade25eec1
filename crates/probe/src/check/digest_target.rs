//! Local addresses where an application may report its health: only those that speak HTTP.
//!
//! A GET at another kind of port does harm: Redis logs an attack, a database counts a failed
//! connection and locks the host out. So a listener is queried only with evidence that it speaks
//! HTTP:
//!
//! - a proxy of this host sends HTTP to its address (`proxy_pass http://…`, HAProxy's servers in
//!   `mode http`, `ProxyPass … http://…`), or
//! - its process was started as a server of HTTP applications (gunicorn, uvicorn, puma, …).
//!
//! A process name such as `java` or `node` is no evidence. Proxies are not queried either: what they
//! answer is of another host, perhaps. The surprising thing: the header `Host` matters, since
//! frameworks log a request for an unknown name as an attack; so it is one of the proxy's names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use weir_collect::host::ListenerSummary;
use weir_collect::logs::FoundDirective;
use weir_tables::Program;

/// Targets of one host; further ones are left out.
const TARGETS_MAX: usize = 200;
/// The name of this host's namespace in [`ListenerSummary::netns`].
const OWN_NETNS: &str = "host";
/// Programs and Python modules that serve applications over HTTP and nothing else.
const HTTP_SERVERS: [&str; 16] = [
    "daphne",
    "django-admin",
    "flask",
    "granian",
    "gunicorn",
    "http.server",
    "hypercorn",
    "pserve",
    "puma",
    "rackup",
    "thin",
    "unicorn",
    "uvicorn",
    "waitress",
    "waitress-serve",
    "webpack-dev-server",
];
/// Programs whose answers may be those of others.
const PROXIES: [&str; 11] = [
    "nginx",
    "haproxy",
    "apache2",
    "httpd",
    "envoy",
    "traefik",
    "caddy",
    "varnishd",
    "squid",
    "weir",
    "weir-agent",
];

/// An address of this host that a proxy sends HTTP to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpUpstream {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// A name that the proxy serves.
    pub server_name: Option<String>,
}

/// An address to query, and the name to query it by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DigestTarget {
    /// The address on the loopback.
    pub address: SocketAddr,
    /// The value of the header `Host`.
    pub host_header: String,
    /// The process that listens: another one is another application.
    pub process_id: Option<u32>,
}

/// The addresses on the loopback to which proxies of this host send HTTP.
pub fn http_upstreams(directives: &[FoundDirective]) -> Vec<HttpUpstream> {
    let here: Vec<&FoundDirective> = directives
        .iter()
        .filter(|line| crate::lookup::is_in_this_network(line.process_id))
        .collect();
    let mut found = BTreeSet::new();
    for line in &here {
        let names = match (line.program, line.directive.to_ascii_lowercase().as_str()) {
            (Program::Nginx, "proxy_pass") => of_nginx(line, &here),
            (Program::Haproxy, "server") if is_http_backend(line, &here) => {
                line.arguments.split(' ').nth(1).map(str::to_owned).into_iter().collect()
            }
            (Program::Apache, "proxypass") => line
                .arguments
                .split(' ')
                .filter_map(|word| Some(authority(word.strip_prefix("http://")?).to_owned()))
                .collect(),
            _ => Vec::new(),
        };
        let server_name = server_name(line, &here);
        found.extend(names.iter().filter_map(|name| {
            let (address, port) = loopback(name)?;
            Some(HttpUpstream { address, port, server_name: server_name.clone() })
        }));
    }
    found.into_iter().take(TARGETS_MAX).collect()
}

/// The servers of a `proxy_pass http://NAME`: those of the `upstream` block, or the name itself.
fn of_nginx(line: &FoundDirective, all: &[&FoundDirective]) -> Vec<String> {
    let Some(rest) = line.arguments.strip_prefix("http://") else { return Vec::new() };
    let name = authority(rest);
    let block = format!("upstream {name}");
    let servers: Vec<String> = all
        .iter()
        .filter(|other| {
            other.program == Program::Nginx
                && other.process_id == line.process_id
                && other.directive == "server"
                && other.context.rsplit('/').next() == Some(block.as_str())
        })
        .filter_map(|server| Some(server.arguments.split(' ').next()?.to_owned()))
        .collect();
    if servers.is_empty() { vec![name.to_owned()] } else { servers }
}

/// `name:port` of `name:port/path`.
fn authority(text: &str) -> &str {
    text.split(['/', '?']).next().unwrap_or_default()
}

/// Whether the section of a server has `mode http`, or `defaults` has.
fn is_http_backend(line: &FoundDirective, all: &[&FoundDirective]) -> bool {
    let modes = all.iter().filter(|other| {
        other.program == Program::Haproxy
            && other.process_id == line.process_id
            && other.directive == "mode"
    });
    let modes: BTreeMap<&str, &str> =
        modes.map(|mode| (mode.context.as_str(), mode.arguments.as_str())).collect();
    modes.get(line.context.as_str()).or_else(|| modes.get("defaults")) == Some(&"http")
}

/// A plain name of the same `server` block of nginx.
fn server_name(line: &FoundDirective, all: &[&FoundDirective]) -> Option<String> {
    let block = line.server_block.filter(|_| line.program == Program::Nginx)?;
    let names = all.iter().find(|other| {
        other.program == Program::Nginx
            && other.process_id == line.process_id
            && other.server_block == Some(block)
            && other.directive == "server_name"
    })?;
    let mut names = names.arguments.split(' ');
    names.find(|name| name.split('.').all(crate::name::is_label) && *name != "_").map(str::to_owned)
}

/// Address and port on the loopback; nginx' port is 80 where none is written.
fn loopback(name: &str) -> Option<(IpAddr, u16)> {
    let (host, port) = super::http_client::host_and_port(name, Some(80)).ok()?;
    let address = match host.as_str() {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().ok()?,
    };
    address.is_loopback().then_some((address, port))
}

/// The listeners of this host that may be queried, with the names to query them by.
pub fn digest_targets(
    listeners: &[ListenerSummary],
    upstreams: &[HttpUpstream],
    procfs: &Path,
) -> Vec<DigestTarget> {
    let mut found: BTreeMap<SocketAddr, DigestTarget> = BTreeMap::new();
    let own = std::process::id();
    for listener in listeners {
        let is_proxy = listener.process_name.as_deref().is_none_or(|name| PROXIES.contains(&name));
        if listener.netns != OWN_NETNS || is_proxy || listener.process_id == Some(own) {
            continue;
        }
        let Some(address) = reachable(&listener.address) else { continue };
        let upstream = upstreams.iter().find(|upstream| {
            upstream.port == listener.port && reaches(&listener.address, upstream.address)
        });
        let name = upstream.and_then(|upstream| upstream.server_name.clone());
        let is_http =
            upstream.is_some() || listener.process_id.is_some_and(|id| is_http_server(procfs, id));
        if is_http && found.len() < TARGETS_MAX {
            let address = SocketAddr::new(address, listener.port);
            found.entry(address).or_insert_with(|| DigestTarget {
                address,
                host_header: name.unwrap_or_else(|| format!("localhost:{}", listener.port)),
                process_id: listener.process_id,
            });
        }
    }
    // A server of both families is one application.
    let plain: BTreeSet<(u16, Option<u32>)> = found
        .values()
        .filter(|target| target.address.is_ipv4())
        .map(|target| (target.address.port(), target.process_id))
        .collect();
    found
        .into_values()
        .filter(|target| {
            target.address.is_ipv4() || !plain.contains(&(target.address.port(), target.process_id))
        })
        .collect()
}

/// The loopback address of a listener; `None` if it listens on another one.
fn reachable(listener: &str) -> Option<IpAddr> {
    match listener.parse().ok()? {
        IpAddr::V4(address) if address.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(address) if address.is_unspecified() => Some(Ipv6Addr::LOCALHOST.into()),
        address => address.is_loopback().then_some(address),
    }
}

/// Whether a connection to `address` arrives at a listener; one of IPv6 may take both families.
fn reaches(listener: &str, address: IpAddr) -> bool {
    match listener.parse() {
        Ok(IpAddr::V4(own)) if own.is_unspecified() => address.is_ipv4(),
        Ok(IpAddr::V6(own)) if own.is_unspecified() => true,
        Ok(own) => own == address,
        Err(_) => false,
    }
}

/// Whether the words that a process was started with name a server of HTTP applications.
fn is_http_server(procfs: &Path, process_id: u32) -> bool {
    let path = procfs.join(process_id.to_string()).join("cmdline");
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 << 10)]);
    // Interpreter, its options and script: what follows are arguments of the application. Puma and
    // gunicorn rewrite the whole line: `gunicorn: master [app]`, `puma 6.4 (tcp://…)`.
    let words: Vec<&str> =
        text.split(['\0', ' ']).filter(|word| !word.is_empty()).take(6).collect();
    if words.first().is_some_and(|first| is_server_word(first)) {
        return true;
    }
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match *word {
            "-m" => return words.next().is_some_and(|module| is_server_word(module)),
            option if option.starts_with('-') => {}
            "manage.py" => return words.next() == Some(&"runserver"),
            script => return is_server_word(script),
        }
    }
    false
}

fn is_server_word(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default().trim_end_matches(':');
    HTTP_SERVERS.contains(&name.trim_end_matches(".py"))
}

#[cfg(test)]
mod tests;
