//! Where each HAProxy can be asked: `stats socket` and `stats enable` of its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use weir_collect::logs::FoundDirective;
use weir_tables::Program;

use super::stat::StatEntry;

const TARGET_LIMIT: usize = 16;
/// The page of `stats enable` without `stats uri`.
const DEFAULT_PAGE: &str = "/haproxy?stats";

/// A running HAProxy and the places where it can be asked, the best first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StatTarget {
    pub(super) process_id: Option<i64>,
    pub(super) sources: Vec<StatSource>,
    /// Addresses of its servers, by backend and name.
    addresses: BTreeMap<(String, String), String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StatSource {
    Socket(PathBuf),
    Tcp(SocketAddr),
    Page { address: SocketAddr, path: String },
}

impl fmt::Display for StatSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Page { address, path } => write!(f, "http://{address}{path}"),
        }
    }
}

#[cfg(test)]
impl StatTarget {
    pub(super) fn of_socket(path: PathBuf) -> Self {
        let sources = vec![StatSource::Socket(path)];
        Self { process_id: None, sources, addresses: BTreeMap::new() }
    }
}

/// Every HAProxy whose configuration names a place to ask it.
pub(crate) fn targets(directives: &[FoundDirective]) -> Vec<StatTarget> {
    let own: Vec<&FoundDirective> =
        directives.iter().filter(|line| line.program == Program::Haproxy).collect();
    let mut processes: Vec<Option<i64>> = own.iter().map(|line| line.process_id).collect();
    processes.sort_unstable();
    processes.dedup();
    let of_process = |process_id: Option<i64>| {
        let lines: Vec<&FoundDirective> =
            own.iter().copied().filter(|line| line.process_id == process_id).collect();
        let sockets = lines.iter().filter(|line| line.directive == "stats socket");
        let mut sources: Vec<StatSource> =
            sockets.filter_map(|line| socket(line)).chain(pages(&lines)).collect();
        sources.dedup();
        let addresses = addresses(&lines);
        (!sources.is_empty()).then_some(StatTarget { process_id, sources, addresses })
    };
    processes.into_iter().filter_map(of_process).take(TARGET_LIMIT).collect()
}

/// The address of a server, as the configuration has it.
pub(super) fn server_address(target: &StatTarget, entry: &StatEntry) -> Option<String> {
    let server = entry.server.clone()?;
    target.addresses.get(&(entry.proxy.clone(), server)).cloned()
}

/// `stats socket ADDRESS …`: a path, or an address with its family (configuration manual §3.1).
fn socket(line: &FoundDirective) -> Option<StatSource> {
    let address = line.arguments.split(' ').next()?;
    let (family, rest) = address.split_once('@').unwrap_or(("", address));
    if rest.starts_with('/') || family == "unix" {
        return Some(StatSource::Socket(line.base.join(rest)));
    }
    match family {
        "" | "ipv4" | "ipv6" | "tcp" | "tcp4" | "tcp6" => {
            Some(StatSource::Tcp(socket_address(rest, family.ends_with('6'))?))
        }
        _ => None,
    }
}

/// `HOST:PORT`; a wildcard address is queried on the loopback.
fn socket_address(text: &str, is_v6: bool) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    Some(SocketAddr::new(reachable(host, is_v6)?, port.parse().ok()?))
}

fn reachable(host: &str, is_v6: bool) -> Option<IpAddr> {
    match host.trim_matches(['[', ']']) {
        "" | "*" if is_v6 => Some(Ipv6Addr::LOCALHOST.into()),
        "" | "*" | "0.0.0.0" | "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        "::" => Some(Ipv6Addr::LOCALHOST.into()),
        other => other.parse().ok(),
    }
}

/// Statistics pages without a password, on addresses without TLS.
fn pages<'a>(lines: &'a [&FoundDirective]) -> impl Iterator<Item = StatSource> + 'a {
    let of_section = move |context: &'a str, name: &'static str| {
        lines.iter().filter(move |line| line.context == context && line.directive == name)
    };
    let is_page = |line: &&&FoundDirective| {
        matches!(line.directive.as_str(), "stats enable" | "stats uri")
            && !line.context.starts_with("defaults")
    };
    lines.iter().filter(is_page).filter_map(move |line| {
        if of_section(&line.context, "stats auth").next().is_some() {
            return None;
        }
        let bind = of_section(&line.context, "bind")
            .find(|bind| !bind.arguments.split(' ').any(|word| word == "ssl"))?;
        let page = of_section(&line.context, "stats uri").next();
        let path = page.map_or(DEFAULT_PAGE, |page| page.arguments.as_str()).to_owned();
        let address = reachable(bind.server_address.as_deref()?, false)?;
        let port = u16::try_from(bind.server_port?).ok()?;
        Some(StatSource::Page { address: SocketAddr::new(address, port), path })
    })
}

fn addresses(lines: &[&FoundDirective]) -> BTreeMap<(String, String), String> {
    let servers = lines.iter().filter(|line| line.directive == "server");
    let of_line = |line: &&&FoundDirective| {
        let backend = line.context.split(' ').nth(1)?;
        let mut words = line.arguments.split(' ');
        let (name, address) = (words.next()?, words.next()?);
        Some(((backend.to_owned(), name.to_owned()), address.to_owned()))
    };
    servers.filter_map(|line| of_line(&line)).collect()
}
