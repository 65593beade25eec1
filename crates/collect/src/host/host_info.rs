//! Machine description: kernel, distribution, CPUs, memory, boot.
//!
//! The boot time is `btime` of `/proc/stat`: whole seconds, and it moves when the clock is set.

use weir_tables::{Batch, HostInfo, HostInfoRows, Micros};

use super::route_link::RouteLink;
use super::{CollectResult, Collector, View, take, text};
use crate::CollectError;

const ADDRESS_LIMIT: usize = 256;

#[derive(Debug, Default)]
pub(super) struct HostInfoCollector {
    rows: HostInfoRows,
}

impl Collector for HostInfoCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let stat = read(view, "proc/stat")?;
        let memory = text::value_of(&read(view, "proc/meminfo")?, "MemTotal").unwrap_or(0);
        let os_release = read(view, "etc/os-release").or_else(|_| read(view, "usr/lib/os-release"));
        let boot_id = read(view, "proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = text::value_of(&stat, "btime");
        let uname = rustix::system::uname();
        let machine = read(view, "proc/sys/kernel/arch").ok();
        let addresses = if view.is_live { own_addresses() } else { None };
        self.rows.push(&HostInfo {
            ts: now,
            host: &view.host,
            boot_id: &text::trimmed(&boot_id),
            boot_ts: boot.map(|seconds| Micros(seconds.saturating_mul(1_000_000))),
            kernel_version: &text::trimmed(&read(view, "proc/sys/kernel/osrelease")?),
            os_name: os_release.ok().as_deref().and_then(pretty_name).as_deref(),
            // The file exists since 6.1.
            architecture: &machine
                .as_deref()
                .map_or_else(|| uname.machine().to_string_lossy(), text::trimmed),
            cpu_count: cpu_count(&stat),
            memory_bytes: memory.saturating_mul(1024),
            agent_version: &view.agent_version,
            addresses: addresses.as_deref(),
            role: view.role.as_deref(),
            zone: view.zone.as_deref(),
        });
        take(&mut self.rows, out);
        Ok(())
    }
}

fn read(view: &View, path: &str) -> Result<Vec<u8>, CollectError> {
    let path = view.path(path);
    std::fs::read(&path).map_err(|error| CollectError::reading(&path, &error))
}

fn own_addresses() -> Option<String> {
    let found = RouteLink::open().and_then(|mut link| link.addresses()).ok()?;
    let shown: Vec<String> = found.iter().take(ADDRESS_LIMIT).map(ToString::to_string).collect();
    Some(shown.join(" "))
}

fn cpu_count(stat: &[u8]) -> i64 {
    let cpus =
        text::lines(stat).filter(|line| line.starts_with(b"cpu") && !line.starts_with(b"cpu "));
    i64::try_from(cpus.count()).unwrap_or(i64::MAX)
}

fn pretty_name(os_release: &[u8]) -> Option<String> {
    let value = text::lines(os_release).find_map(|line| line.strip_prefix(b"PRETTY_NAME="))?;
    Some(text::trimmed(value).trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_the_distribution_is_read_with_and_without_quotes() {
        let quoted = b"ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(pretty_name(quoted).unwrap(), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(pretty_name(b"PRETTY_NAME=Arch").unwrap(), "Arch");
        assert_eq!(pretty_name(b"ID=x"), None);
    }
}
