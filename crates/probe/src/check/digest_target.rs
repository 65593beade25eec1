//! Local addresses where an application may report its health.
//!
//! A GET at a port of another protocol does harm: Redis logs an attack, a database counts a failed
//! connection and locks the host out. So a listener is queried again and again only with evidence
//! that it speaks HTTP:
//!
//! - a proxy of this host sends HTTP to its address (`proxy_pass http://…`, HAProxy's servers in
//!   `mode http`, `ProxyPass … http://…`), or
//! - its process was started as a server of HTTP applications (gunicorn, uvicorn, puma, …).
//!
//! A process name such as `java` or `node` is no evidence, only a reason to try once (`digest_trial`).
//! Proxies are not queried: what they answer is of another host, perhaps. The surprising thing: the header `Host` matters, since
//! frameworks log a request for an unknown name as an attack; so it is one of the proxy's names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_collect::host::ListenerSummary;
use weir_collect::logs::FoundDirective;
use weir_tables::Program;

use super::digest_trial::{TrialSearch, process_start};

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
    /// When it began, in the kernel's ticks: ids are reused.
    pub process_start: Option<u64>,
    /// Whether nothing shows that it speaks HTTP: one query, unless it answers with a digest.
    pub is_trial: bool,
}

/// Where digests are searched, and where not.
#[derive(Clone, Debug)]
pub struct DigestSearch {
    /// Where processes are listed: `/proc`.
    pub procfs: PathBuf,
    /// Ports and names of processes that are not queried; a name may end with `*`.
    pub exclude: Vec<String>,
}

impl DigestSearch {
    fn excludes(&self, listener: &ListenerSummary) -> bool {
        let name = listener.process_name.as_deref().unwrap_or_default();
        self.exclude.iter().any(|text| match text.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => text == name || text.parse() == Ok(listener.port),
        })
    }
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

/// The listeners of this host that may be queried, with the names to query them by. Those with
/// evidence of HTTP come first, up to the limit.
pub fn digest_targets(
    listeners: &[ListenerSummary],
    upstreams: &[HttpUpstream],
    search: &DigestSearch,
) -> Vec<DigestTarget> {
    let trials = TrialSearch::new(listeners, &search.procfs);
    let (mut known, mut tried) = (BTreeMap::new(), BTreeMap::new());
    // Of several processes with one address the first one is its owner, whatever their order.
    let mut searched: Vec<&ListenerSummary> =
        listeners.iter().filter(|listener| is_searched(listener, search)).collect();
    searched.sort_by_key(|listener| listener.process_id);
    for listener in searched {
        let Some(address) = reachable(&listener.address) else { continue };
        let upstream = upstreams.iter().find(|upstream| {
            upstream.port == listener.port && reaches(&listener.address, upstream.address)
        });
        let is_http = upstream.is_some()
            || listener.process_id.is_some_and(|id| is_http_server(&search.procfs, id));
        let found = match is_http {
            true => &mut known,
            false if trials.may_try(listener) => &mut tried,
            false => continue,
        };
        let address = SocketAddr::new(address, listener.port);
        let name = upstream.and_then(|upstream| upstream.server_name.clone());
        found.entry(address).or_insert_with(|| DigestTarget {
            address,
            host_header: name.unwrap_or_else(|| format!("localhost:{}", listener.port)),
            process_id: listener.process_id,
            process_start: listener.process_id.and_then(|id| process_start(&search.procfs, id)),
            is_trial: !is_http,
        });
    }
    tried.retain(|address, _| !known.contains_key(address));
    let mut targets = one_family(known);
    targets.extend(one_family(tried));
    targets.truncate(TARGETS_MAX);
    targets
}

/// Whether a listener is of this host, of no proxy, and not excluded.
fn is_searched(listener: &ListenerSummary, search: &DigestSearch) -> bool {
    let is_proxy = listener.process_name.as_deref().is_none_or(|name| PROXIES.contains(&name));
    let is_own = listener.process_id == Some(std::process::id());
    listener.netns == OWN_NETNS && !is_proxy && !is_own && !search.excludes(listener)
}

/// A server of both families is one application: its address of IPv4 is enough.
fn one_family(found: BTreeMap<SocketAddr, DigestTarget>) -> Vec<DigestTarget> {
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
