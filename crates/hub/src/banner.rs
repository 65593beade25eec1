//! The first lines of `weir up`: where the page is, and what was found to watch. After them weir
//! stays quiet.

use std::net::SocketAddr;
use std::path::Path;

use weir_agent_core::watch::{WatchStatus, format_name, format_notes};
use weir_config::Values;
use weir_config::buckets::NamedBucket;
use weir_config::place::{LOGIN_FILE, is_root};

use crate::rule_runner::RuleRunner;

/// Lines of one kind that are listed; the rest is counted.
const MAX_LINES: usize = 12;

/// The text for a person.
pub(crate) fn text(
    values: &Values,
    (address, agents, pg): (SocketAddr, Option<SocketAddr>, Option<SocketAddr>),
    judge: &RuleRunner,
    watch: Option<&WatchStatus>,
    (taken, copied, balanced, receivers): (&[String], &[String], &[String], &[String]),
) -> String {
    let scheme = if values.api.tls_certificate_file.is_some() { "https" } else { "http" };
    let mut out = format!(
        "weir {} is up: {scheme}://{address}/\n  data    {}\n  rules   {} loaded",
        env!("CARGO_PKG_VERSION"),
        values.store.dir.display(),
        judge.rules.iter().len(),
    );
    if !judge.broken.is_empty() {
        out += &format!(", {} could not be loaded (see above)", judge.broken.len());
    }
    if let Some(agents) = agents {
        out += &format!("\n  agents  {agents}");
    }
    if let Some(pg) = pg {
        out += &format!("\n  pg      {pg}");
    }
    if values.api.token_file.is_none() {
        let file = values.store.dir.join(LOGIN_FILE);
        out += &format!("\n  login   {}  (for other users and browsers)", file.display());
    }
    if !balanced.is_empty() {
        out += &listed("edge", balanced.to_vec(), "");
    }
    if !taken.is_empty() {
        out += &listed("intake", taken.to_vec(), "");
    }
    if !copied.is_empty() {
        out += &listed("outputs", copied.to_vec(), "");
    }
    if !receivers.is_empty() {
        out += &listed("notices", receivers.to_vec(), "");
    }
    let Some(watch) = watch else { return out };
    if values.heal.enabled {
        out += &repairs(&values.act.socket);
    }
    out += &listed("logs", sources(watch), "none found; name one: --tail '/path/*.log'");
    if !values.buckets.is_empty() {
        let every =
            |one: &NamedBucket| format!("{}  (every {} s)", one.url(), one.interval.as_secs());
        out += &listed("buckets", values.buckets.iter().map(every).collect(), "");
    }
    let no_listener = match (values.collect.sample_host, watch.has_sampled_listeners()) {
        (false, _) => "not read: collect.sample_host is false",
        (true, true) => "no listener, or none visible",
        (true, false) => "not read yet; the page shows them soon",
    };
    out += &listed("listen", listeners(watch), no_listener);
    out += &format!("\n  kernel  {}", kernel());
    if !is_root() {
        out += "\n  note    not root: owners of other users' sockets, kernel messages and some logs cannot be read";
    }
    for note in crate::unmonitored::notes(&watch.listeners(), &values.databases) {
        out += &format!("\n  note    {note}");
    }
    let notes = format_notes(&watch.sources());
    for note in watch.problems().iter().chain(&notes).take(MAX_LINES) {
        out += &format!("\n  note    {}", note.replace('\n', "\n          "));
    }
    out
}

/// Where repairs of this host are ordered, and whether anything is there.
fn repairs(socket: &Path) -> String {
    let absent = if socket.exists() { "" } else { "  (not there: docs/act.md sets it up)" };
    format!("\n  heal    orders of this host go to {}{absent}", socket.display())
}

fn listed(title: &str, mut lines: Vec<String>, none: &str) -> String {
    if lines.is_empty() {
        lines.push(none.to_owned());
    }
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let mut out = format!("\n  {title:<8}");
    out += &lines.join("\n          ");
    out
}

fn sources(watch: &WatchStatus) -> Vec<String> {
    watch
        .sources()
        .iter()
        .map(|source| {
            format!(
                "{}  {} {}  ({})",
                source.path.display(),
                source.program.as_str(),
                format_name(&source.format),
                source.found_in
            )
        })
        .collect()
}

fn listeners(watch: &WatchStatus) -> Vec<String> {
    let mut lines: Vec<String> = watch
        .listeners()
        .iter()
        .map(|listener| {
            let name = listener.process_name.as_deref().unwrap_or("unknown process");
            let netns = match listener.netns.as_str() {
                "host" => String::new(),
                other => format!("  in network namespace {other}"),
            };
            let address = match listener.address.contains(':') {
                true => format!("[{}]", listener.address),
                false => listener.address.clone(),
            };
            format!("{address}:{}  {name}{netns}", listener.port)
        })
        .collect();
    lines.dedup();
    lines
}

fn kernel() -> String {
    let name = rustix::system::uname();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let somaxconn = somaxconn.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    format!(
        "{} {}, {cpus} processors, net.core.somaxconn {somaxconn}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}
