//! Listeners that may serve a digest although nothing shows that they speak HTTP: an application in
//! a language runtime that opened a port for it. Each start of a process is tried once.
//!
//! A runtime may as well speak another protocol at its port, and a GET there is an error in a log:
//! Kafka takes the four letters for the size of a message, a debugger of Java for a bad handshake.
//! So a listener is left out if its port is one of another protocol, if the kernel chose the port
//! (RMI, ZeroMQ and debuggers listen on such), if the command line names a known server, or if the
//! process has many ports, as brokers and members of clusters have.

use std::path::Path;

use weir_collect::host::ListenerSummary;

/// Runtimes that run applications, without their versions.
const RUNTIMES: [&str; 10] =
    ["bun", "deno", "dotnet", "java", "jruby", "node", "nodejs", "php", "python", "ruby"];
/// Maximum listeners of an application; a process with more is taken for a broker or a member of a
/// cluster.
const PORTS_MAX: usize = 4;
/// Ports of protocols that are not HTTP: remote shells, mail, names, directories, files, databases,
/// caches, queues, clusters, debuggers, printers.
const OTHER_PORTS: [u16; 98] = [
    20, 21, 22, 23, 25, 53, 69, 79, 88, 110, 111, 113, 119, 135, 137, 138, 139, 143, 161, 162, 179,
    389, 427, 445, 464, 465, 502, 513, 514, 515, 543, 544, 548, 554, 563, 587, 601, 636, 783, 853,
    873, 989, 990, 993, 995, 1080, 1099, 1433, 1434, 1521, 1883, 2003, 2004, 2049, 2181, 2525,
    2888, 3050, 3260, 3306, 3310, 3389, 3888, 4190, 4222, 4369, 4505, 4506, 5005, 5037, 5060, 5222,
    5269, 5432, 5433, 5671, 5672, 5678, 5900, 6222, 6379, 6380, 6432, 6514, 7000, 7001, 7199, 8024,
    8125, 8883, 9042, 9100, 9160, 9229, 9300, 10_024, 11_211, 26_379,
];
/// More of them, from the first to the last.
const OTHER_RANGES: [(u16, u16); 8] = [
    (9092, 9098),
    (9101, 9107),
    (10_020, 10_030),
    (16_379, 16_400),
    (25_670, 25_680),
    (27_017, 27_020),
    (33_060, 33_062),
    (61_610, 61_620),
];
/// Servers of other protocols that runtimes run, as they are named in command lines.
const OTHER_SERVERS: [&str; 34] = [
    "activemq",
    "aedes",
    "aiosmtpd",
    "artemis",
    "bookkeeper",
    "cassandra",
    "corosync",
    "elasticsearch",
    "ftpd",
    "hadoop",
    "hazelcast",
    "hbase",
    "ignite",
    "ipykernel",
    "kafka",
    "ldap",
    "logstash",
    "lmtp",
    "mailman",
    "memcache",
    "mongo",
    "mosca",
    "mqtt",
    "mysql",
    "neo4j",
    "opensearch",
    "policyd",
    "postgres",
    "pulsar",
    "redis",
    "salt-",
    "smtpd",
    "sshd",
    "zookeeper",
];
/// Words of a command line that open a port for a debugger or for JMX.
const DEBUGGERS: [&str; 5] = ["jdwp", "jmxremote", "--inspect", "debugpy", "pydevd"];
/// Ports that the kernel chooses, unless it is configured otherwise.
const CHOSEN_PORTS: (u16, u16) = (32_768, 60_999);
/// Bytes of a command line that are read.
const COMMAND_BYTES: usize = 32 << 10;

/// Where processes are listed, and what is known of all listeners.
pub(super) struct TrialSearch<'a> {
    procfs: &'a Path,
    listeners: &'a [ListenerSummary],
    chosen: (u16, u16),
}

impl<'a> TrialSearch<'a> {
    pub(super) fn new(listeners: &'a [ListenerSummary], procfs: &'a Path) -> Self {
        let chosen = std::fs::read_to_string(procfs.join("sys/net/ipv4/ip_local_port_range"));
        let chosen = chosen.ok().and_then(|text| {
            let mut numbers = text.split_whitespace().map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
        Self { procfs, listeners, chosen: chosen.unwrap_or(CHOSEN_PORTS) }
    }

    /// Whether one GET may be sent to a listener.
    pub(super) fn may_try(&self, listener: &ListenerSummary) -> bool {
        let port = listener.port;
        let Some(id) = listener.process_id else { return false };
        let is_other = OTHER_PORTS.binary_search(&port).is_ok()
            || OTHER_RANGES.iter().any(|(first, last)| (*first..=*last).contains(&port))
            || (self.chosen.0..=self.chosen.1).contains(&port);
        !is_other && self.port_count(listener) <= PORTS_MAX && self.is_application(id, port)
    }

    /// Ports of the process of a listener.
    fn port_count(&self, listener: &ListenerSummary) -> usize {
        let own = self.listeners.iter().filter(|other| {
            other.process_id == listener.process_id && other.netns == listener.netns
        });
        let mut ports: Vec<u16> = own.map(|other| other.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports.len()
    }

    /// Whether a process is a runtime whose command line names no server of another protocol, and
    /// the port for no debugger.
    fn is_application(&self, process_id: u32, port: u16) -> bool {
        let dir = self.procfs.join(process_id.to_string());
        let bytes = std::fs::read(dir.join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(COMMAND_BYTES)]);
        let text = text.to_lowercase();
        let program = std::fs::read_link(dir.join("exe")).ok();
        let program = program.as_deref().and_then(|path| path.to_str());
        let first = text.split('\0').next().unwrap_or_default();
        if !is_runtime(program.unwrap_or(first)) {
            return false;
        }
        let has_debugger = DEBUGGERS.iter().any(|word| text.contains(word));
        let is_debugged = has_debugger && numbers(&text).any(|number| number == port);
        !is_debugged && !OTHER_SERVERS.iter().any(|word| text.contains(word))
    }
}

/// `python` of `/usr/bin/python3.11`.
fn is_runtime(program: &str) -> bool {
    let name = program.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    RUNTIMES.contains(&name)
}

/// Numbers of a command line that may be ports.
fn numbers(text: &str) -> impl Iterator<Item = u16> {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    words.filter_map(|word| word.parse().ok())
}

/// When a process began, in ticks since the kernel did; a reused id has another time.
pub(super) fn process_start(procfs: &Path, process_id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(procfs.join(process_id.to_string()).join("stat")).ok()?;
    // The name of the process may have spaces and parentheses; the time is field 22.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_sorted_for_the_search() {
        assert!(OTHER_PORTS.is_sorted());
    }

    #[test]
    fn versions_of_runtimes_are_the_same_runtime() {
        for name in ["/usr/bin/python3.11", "node", "/usr/bin/php8.2", "java", "/x/ruby (deleted)"]
        {
            assert!(is_runtime(name), "{name}");
        }
        for name in ["/usr/sbin/php-fpm8.2", "redis-server", "", "/usr/bin/pythonic", "beam.smp"] {
            assert!(!is_runtime(name), "{name}");
        }
    }

    #[test]
    fn start_of_a_process_is_read_past_its_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let text = format!("7 (a ) 1 (x) S {}", fields.join(" "));
        std::fs::write(dir.path().join("7/stat"), text).unwrap();
        assert_eq!(process_start(dir.path(), 7), Some(22));
        assert_eq!(process_start(dir.path(), 8), None);
    }
}
