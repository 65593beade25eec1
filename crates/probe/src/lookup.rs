//! The names that this host's proxies send requests to, queried as the C library would:
//! resolv.conf(5) with `search` and `ndots`, hosts(5).
//!
//! A name server can answer for the root and fail for one zone, so each name is queried for itself,
//! at every name server. The surprising thing: nginx and HAProxy resolve most names only when they
//! start, so a broken zone may be noticed at the next reload.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use weir_collect::logs::FoundDirective;
use weir_resolver::{ResolverConfig, SERVERS_MAX, code_name};
use weir_tables::{Micros, NameLookup, NameLookupRows, Program};

use crate::name::{self, TimedAnswer};

const NAME_LIMIT: usize = 24;
const OWN_RESOLVER_LIMIT: usize = 3;
const WAIT: Duration = Duration::from_secs(2);
const FILE_LIMIT_BYTES: usize = 1 << 20;
const NXDOMAIN: u8 = 3;

/// A name, and the line that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupName {
    name: String,
    program: Program,
    file: String,
    line: i64,
}

/// Names to look up, and name servers beside those of `/etc/resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LookupTargets {
    names: Vec<LookupName>,
    /// Addresses of nginx' `resolver`.
    resolvers: Vec<IpAddr>,
}

/// Host names of upstreams, without addresses, variables and names of `upstream` blocks.
pub(super) fn targets(directives: &[FoundDirective]) -> LookupTargets {
    let blocks: BTreeSet<&str> = directives
        .iter()
        .filter_map(|line| line.context.rsplit('/').next()?.strip_prefix("upstream "))
        .collect();
    let mut found: BTreeMap<String, LookupName> = BTreeMap::new();
    for line in directives.iter().filter(|line| is_in_this_network(line.process_id)) {
        let Some(name) = host_of(line).and_then(host_name) else { continue };
        if !blocks.contains(name.as_str()) && found.len() < NAME_LIMIT {
            found.entry(name.clone()).or_insert_with(|| LookupName {
                name,
                program: line.program,
                file: line.file.display().to_string(),
                line: line.line,
            });
        }
    }
    let resolvers = directives
        .iter()
        .filter(|line| line.program == Program::Nginx && line.directive == "resolver")
        .flat_map(|line| line.arguments.split(' '))
        .filter_map(|word| word.trim_end_matches(":53").trim_matches(['[', ']']).parse().ok());
    let resolvers: BTreeSet<IpAddr> = resolvers.collect();
    LookupTargets {
        names: found.into_values().collect(),
        resolvers: resolvers.into_iter().take(OWN_RESOLVER_LIMIT).collect(),
    }
}

/// A container has its own name servers, which this host cannot query as the container does.
pub(crate) fn is_in_this_network(process_id: Option<i64>) -> bool {
    let Some(id) = process_id else { return true };
    let theirs = std::fs::read_link(format!("/proc/{id}/ns/net")).ok();
    theirs.is_none() || theirs == std::fs::read_link("/proc/self/ns/net").ok()
}

/// The word of a directive that names an upstream.
fn host_of(line: &FoundDirective) -> Option<&str> {
    let mut words = line.arguments.split(' ');
    match (line.program, line.directive.to_ascii_lowercase().as_str()) {
        (Program::Nginx, "server") if line.context.contains("upstream ") => words.next(),
        (
            Program::Nginx,
            "proxy_pass" | "fastcgi_pass" | "uwsgi_pass" | "grpc_pass" | "scgi_pass",
        ) => words.next(),
        (Program::Haproxy, "server") => words.nth(1).filter(|word| !word.starts_with("abns@")),
        (Program::Haproxy, "server-template") => words.nth(2),
        // What follows the path of a Unix socket is a name for logs.
        (Program::Apache, "proxypass" | "balancermember") => words
            .map(|word| word.trim_matches('"'))
            .find(|word| word.contains("://"))
            .filter(|word| !word.starts_with("balancer:") && !word.starts_with("unix:")),
        _ => None,
    }
}

/// `http://name:port/path` and `name:port` to the name.
fn host_name(text: &str) -> Option<String> {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let host = text.split(['/', '?', ';']).next()?;
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_end_matches('.');
    let is_name = !host.is_empty()
        && host.len() < 254
        && host.bytes().any(|byte| byte.is_ascii_alphabetic())
        && host != "unix"
        && host != "localhost"
        && !host.ends_with(".localhost")
        && host.split('.').all(name::is_label);
    is_name.then(|| host.to_ascii_lowercase())
}

/// Queries every name at every name server; no rows without names or servers.
pub(super) fn probe(
    root: &Path,
    host: &str,
    now: Micros,
    targets: &LookupTargets,
) -> NameLookupRows {
    let mut rows = NameLookupRows::default();
    let Some(config) = ResolverConfig::read(root) else { return rows };
    let known = names_in_hosts(root);
    let names: Vec<&LookupName> =
        targets.names.iter().filter(|target| !known.contains(&target.name)).collect();
    if names.is_empty() {
        return rows;
    }
    let own = targets.resolvers.iter().map(|server| (0, *server));
    let servers: Vec<(i64, IpAddr)> =
        (1..).zip(config.servers.iter().copied().take(SERVERS_MAX)).chain(own).collect();
    let (names, config) = (names.as_slice(), &config);
    let answers: Vec<Vec<FoundName>> = std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|&(_, server)| {
                let server = SocketAddr::new(server, 53);
                scope.spawn(move || look_up(server, now.0, names, config))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let server_count = i64::try_from(config.servers.len()).unwrap_or(i64::MAX);
    for ((position, server), found) in servers.iter().zip(answers) {
        for (target, found) in names.iter().zip(found) {
            rows.push(&NameLookup {
                ts: now,
                host,
                name: &target.name,
                query_name: &found.query_name,
                server_address: &server.to_string(),
                position: *position,
                program: target.program.as_str(),
                config_file: &target.file,
                config_line: target.line,
                addresses: &found.addresses.join(", "),
                duration_seconds: found.duration_seconds,
                response_code: found.code.map(code_name),
                server_count,
            });
        }
    }
    rows
}

#[derive(Clone, Debug, Default)]
struct FoundName {
    query_name: String,
    addresses: Vec<String>,
    duration_seconds: Option<f64>,
    code: Option<u8>,
}

/// Tries the candidates of each name in order, as long as the server answers that there is none.
fn look_up(
    server: SocketAddr,
    seed: i64,
    names: &[&LookupName],
    config: &ResolverConfig,
) -> Vec<FoundName> {
    let candidates: Vec<Vec<String>> =
        names.iter().map(|target| config.candidates(&target.name)).collect();
    let mut found = vec![FoundName::default(); names.len()];
    let longest = candidates.iter().map(Vec::len).max().unwrap_or_default();
    let mut open: Vec<usize> = (0..names.len()).collect();
    for round in 0..longest {
        open.retain(|at| candidates[*at].len() > round);
        let asked: Vec<String> = open.iter().map(|at| candidates[*at][round].clone()).collect();
        if asked.is_empty() {
            break;
        }
        let answers = name::ask_timed(server, seed, &asked, WAIT).unwrap_or_default();
        let next = open.iter().zip(&asked).enumerate().filter_map(|(place, (at, query))| {
            let of_name = answers.get(2 * place..2 * place + 2).unwrap_or_default();
            found[*at] = summary(query, of_name);
            let is_absent =
                found[*at].addresses.is_empty() && matches!(found[*at].code, Some(0 | NXDOMAIN));
            is_absent.then_some(*at)
        });
        open = next.collect();
    }
    found
}

/// Of two answers, one with addresses counts before an error, and an error before silence.
fn summary(query: &str, answers: &[Option<TimedAnswer>]) -> FoundName {
    let come: Vec<&TimedAnswer> = answers.iter().flatten().collect();
    let addresses: BTreeSet<String> = come
        .iter()
        .flat_map(|timed| timed.answer.addresses.iter().map(IpAddr::to_string))
        .collect();
    let slowest = come.iter().map(|timed| timed.duration).max();
    let is_whole = come.len() == answers.len();
    // Some servers answer AAAA with an error where A exists: the C library ignores that.
    let with_addresses = come.iter().find(|timed| !timed.answer.addresses.is_empty());
    let code = with_addresses.or(come.first()).map(|timed| timed.answer.code);
    FoundName {
        query_name: query.to_owned(),
        addresses: addresses.into_iter().collect(),
        duration_seconds: slowest.filter(|_| is_whole).map(|slowest| slowest.as_secs_f64()),
        code,
    }
}

/// Names that `/etc/hosts` answers.
fn names_in_hosts(root: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(root.join("etc/hosts")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_LIMIT_BYTES)]).into_owned();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(|line| line.split_whitespace().skip(1)).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_names_of_all_proxies_are_found_without_blocks_and_addresses() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "etc/nginx/nginx.conf",
            "http { resolver 10.0.0.2 [::1]:53 valid=10s; upstream app { server App1.internal:8080; server 10.0.0.1:80; \
             server unix:/run/a.sock; }\n server { location / { proxy_pass http://app; } \
             location /b { proxy_pass https://api.internal/x; } location /c { proxy_pass http://$host; } \
             location /d { proxy_pass http://localhost:3000; } } }",
        );
        write(
            "etc/haproxy/haproxy.cfg",
            "backend be\n  server s1 10.0.0.9:80 check\n  server s2 web.internal:80 check\n  server s3 abns@worker\n",
        );
        write(
            "etc/apache2/apache2.conf",
            "ServerRoot /etc/apache2\n<Proxy balancer://pool>\nBalancerMember \"http://shop.internal:8080\" route=1\n</Proxy>\n\
             ProxyPass /a balancer://pool/\nProxyPass /b unix:/run/php.sock|fcgi://pool/srv\nProxyPass /c http://old.internal/\n",
        );
        let found = targets(&weir_collect::logs::discover(root.path()).directives);
        let names: Vec<&str> = found.names.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(
            names,
            ["api.internal", "app1.internal", "old.internal", "shop.internal", "web.internal"]
        );
        assert_eq!(found.resolvers.len(), 2);
    }
}
