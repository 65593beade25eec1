//! Settings that `weir tune --try` may change: bounds, scope of the effect, and the counter that
//! decides.
//!
//! Each belongs to a proposal (`tune/`), which names the counter that shows its effect. A setting
//! without such a counter on this host (`net.ipv4.tcp_slow_start_after_idle`) cannot be decided and
//! is not listed. A new one is one entry of [`TRIAL_SETTINGS`].

use std::fmt::Write;

use weir_tables::Micros;

use crate::rule::literal;

/// A setting that a trial may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialSetting {
    /// The sysctl, such as `net.core.somaxconn`.
    pub name: &'static str,
    /// The proposal's rule.
    pub rule: &'static str,
    /// Count of numbers in its value.
    pub numbers: usize,
    /// Bounds of each number.
    pub range: (u64, u64),
    /// Scope of the effect, unless it is immediate for all.
    pub effect: Option<&'static str>,
    /// Events that should become fewer.
    pub aim: EventCount,
}

/// Events of one kind and their opportunities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCount {
    /// Name of the events, for display.
    pub what: &'static str,
    /// Source of the count.
    of: CountSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountSource {
    /// Protocol and name of the counters of events and opportunities, in `tcp_stat`.
    Tcp([&'static str; 2], [&'static str; 2]),
    /// A column of `softnet_stat`; packets are the opportunities.
    Softnet(&'static str),
    /// Drops of `conntrack_stat`; received packets are the opportunities.
    Conntrack,
    /// Requests with a status in these bounds, of all requests logged by a proxy of this host.
    Status(u16, u16),
}

const NEW_CONNECTIONS: Option<&str> = Some("only for new connections; open ones are not affected");

const fn tcp(
    what: &'static str,
    event: [&'static str; 2],
    chance: [&'static str; 2],
) -> EventCount {
    EventCount { what, of: CountSource::Tcp(event, chance) }
}

const SEGMENTS: [&str; 2] = ["Tcp", "InSegs"];
const RETRANSMITS: EventCount =
    tcp("segments retransmitted", ["Tcp", "RetransSegs"], ["Tcp", "OutSegs"]);
const OVERFLOWS: EventCount =
    tcp("connections dropped at a full accept queue", ["TcpExt", "ListenOverflows"], SEGMENTS);

/// A switch whose good value is the kernel's default; it affects new connections.
const fn switch(name: &'static str, most: u64, aim: EventCount) -> TrialSetting {
    let (rule, numbers, range) = ("tune.harmful", 1, (0, most));
    TrialSetting { name, rule, numbers, range, effect: NEW_CONNECTIONS, aim }
}

/// All trial settings.
pub const TRIAL_SETTINGS: &[TrialSetting] = &[
    TrialSetting {
        name: "net.core.somaxconn",
        rule: "tune.somaxconn",
        numbers: 1,
        range: (128, 65_535),
        effect: Some(
            "only when a program calls listen() again: restart the one whose queue is full now, and again after the revert",
        ),
        aim: OVERFLOWS,
    },
    TrialSetting {
        name: "net.core.netdev_max_backlog",
        rule: "tune.netdev_max_backlog",
        numbers: 1,
        range: (1000, 65_536),
        effect: None,
        aim: EventCount {
            what: "packets dropped at the CPU backlog",
            of: CountSource::Softnet("drops_total"),
        },
    },
    TrialSetting {
        name: "net.core.netdev_budget",
        rule: "tune.netdev_budget",
        numbers: 1,
        range: (64, 5000),
        effect: None,
        aim: EventCount {
            what: "receive rounds that end with packets left",
            of: CountSource::Softnet("time_squeezes_total"),
        },
    },
    TrialSetting {
        name: "net.core.rmem_max",
        rule: "tune.rmem_max",
        numbers: 1,
        range: (65_536, 67_108_864),
        effect: Some(
            "only for sockets whose program requests a buffer from now on: restart it now",
        ),
        aim: tcp(
            "datagrams dropped at full buffers",
            ["Udp", "RcvbufErrors"],
            ["Udp", "InDatagrams"],
        ),
    },
    TrialSetting {
        name: "net.ipv4.ip_local_port_range",
        rule: "tune.local_port_range",
        numbers: 2,
        range: (1024, 65_535),
        effect: NEW_CONNECTIONS,
        aim: EventCount { what: "requests answered with 502", of: CountSource::Status(502, 502) },
    },
    TrialSetting {
        name: "net.ipv4.tcp_max_tw_buckets",
        rule: "tune.max_tw_buckets",
        numbers: 1,
        range: (4096, 4_194_304),
        effect: None,
        aim: tcp("connections that skipped TIME_WAIT", ["TcpExt", "TCPTimeWaitOverflow"], SEGMENTS),
    },
    TrialSetting {
        name: "net.netfilter.nf_conntrack_max",
        rule: "tune.conntrack_max",
        numbers: 1,
        range: (4096, 16_777_216),
        effect: None,
        aim: EventCount {
            what: "packets dropped at a full conntrack table",
            of: CountSource::Conntrack,
        },
    },
    switch(
        "net.ipv4.tcp_syncookies",
        1,
        tcp("SYNs dropped at a full queue", ["TcpExt", "TCPReqQFullDrop"], SEGMENTS),
    ),
    switch("net.ipv4.tcp_timestamps", 2, RETRANSMITS),
    switch("net.ipv4.tcp_sack", 1, RETRANSMITS),
    switch("net.ipv4.tcp_window_scaling", 1, RETRANSMITS),
    switch(
        "net.ipv4.tcp_moderate_rcvbuf",
        1,
        tcp("zero windows announced at full buffers", ["TcpExt", "TCPToZeroWindowAdv"], SEGMENTS),
    ),
    switch(
        "net.ipv4.tcp_abort_on_overflow",
        1,
        tcp("connections reset at a full accept queue", ["Tcp", "OutRsts"], SEGMENTS),
    ),
];

/// What must not become more, whatever is tried.
pub const GUARDS: &[EventCount] = &[
    EventCount { what: "requests answered with an error", of: CountSource::Status(500, 599) },
    OVERFLOWS,
    RETRANSMITS,
];

/// How long requests took at the proxies of each host: `host`, `requests`, `p95_seconds`.
pub fn latency_between(from: Micros, to: Micros) -> String {
    format!(
        "select host, count(*) as requests, approx_percentile_cont(duration_seconds, 0.95) as p95_seconds \
         from request where tier in ('proxy', 'edge') and duration_seconds is not null and {} group by host",
        between(from, to)
    )
}

fn between(from: Micros, to: Micros) -> String {
    format!("ts > {} and ts <= {}", literal(from), literal(to))
}

/// The SQL condition for rows of one counter.
fn is_counter([protocol, counter]: [&str; 2]) -> String {
    format!("protocol = '{protocol}' and counter = '{counter}'")
}

impl EventCount {
    /// The query of a span, by host: `host`, `events`, `chances`.
    pub fn between(&self, from: Micros, to: Micros) -> String {
        let span = between(from, to);
        match self.of {
            CountSource::Tcp(event, chance) => {
                let (event, chance) = (is_counter(event), is_counter(chance));
                format!(
                    "select host, sum(case when {event} then increase else 0 end) as events, \
                     sum(case when {chance} then increase else 0 end) as chances from tcp_stat \
                     where netns = 'host' and ({event} or {chance}) and {span} group by host"
                )
            }
            CountSource::Softnet(column) => format!(
                "select host, sum(events) as events, sum(chances) as chances from (\
                 select host, cpu, max({column}) - min({column}) as events, \
                 max(packets_total) - min(packets_total) as chances \
                 from softnet_stat where {span} group by host, cpu) group by host"
            ),
            CountSource::Conntrack => format!(
                "select host, sum(drops_increase) as events, 0 as chances from conntrack_stat \
                 where netns = 'host' and {span} group by host"
            ),
            CountSource::Status(least, most) => format!(
                "select host, sum(case when http_response_status_code between {least} and {most} then 1 else 0 end) \
                 as events, count(*) as chances from request where tier in ('proxy', 'edge') and {span} group by host"
            ),
        }
    }
}

impl TrialSetting {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TRIAL_SETTINGS.iter().find(|tryable| tryable.name == name)
    }

    /// The reason against this value; `None` if it is within bounds.
    pub fn refusal(&self, value: &str) -> Option<String> {
        let numbers: Option<Vec<u64>> =
            value.split_whitespace().map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == self.numbers);
        let (least, most) = self.range;
        let mut must = if self.numbers == 1 {
            "it must be a whole number".to_owned()
        } else {
            format!("it must be {} whole numbers, the lesser first", self.numbers)
        };
        let _infallible = write!(must, " from {least} to {most}");
        let is_good = numbers.is_some_and(|numbers| {
            numbers.iter().all(|number| (least..=most).contains(number))
                && numbers.windows(2).all(|pair| pair[0] < pair[1])
        });
        (!is_good).then_some(must)
    }
}

/// A kernel setting and the value that someone wants it to have.
#[derive(Clone, Copy, Debug)]
pub struct WantedSetting<'a> {
    /// `net.core.somaxconn`.
    pub name: &'a str,
    /// The value.
    pub value: &'a str,
}

impl WantedSetting<'_> {
    /// The reason why this must never be set, given its current value; `None` without one.
    /// See [`crate::NEVER`].
    pub fn never(self, current: Option<&str>) -> Option<&'static str> {
        let numbers: Vec<u64> =
            self.value.split_whitespace().filter_map(|part| part.parse().ok()).collect();
        let current: Option<u64> = current.and_then(|current| current.parse().ok());
        let is_less = current.is_some_and(|current| numbers.first() < Some(&current));
        let key = match self.name {
            "net.ipv4.tcp_tw_recycle" => "net.ipv4.tcp_tw_recycle",
            "net.ipv4.tcp_mem" if numbers.windows(2).all(|pair| pair[0] == pair[1]) => {
                "net.ipv4.tcp_mem = three equal values"
            }
            "net.ipv4.tcp_syncookies" if self.value == "0" => "net.ipv4.tcp_syncookies = 0",
            "net.ipv4.tcp_abort_on_overflow" if self.value == "1" => {
                "net.ipv4.tcp_abort_on_overflow = 1"
            }
            "net.ipv4.tcp_max_tw_buckets" if is_less => {
                "net.ipv4.tcp_max_tw_buckets below its default"
            }
            "net.ipv4.tcp_timestamps" | "net.ipv4.tcp_sack" if self.value == "0" => {
                "net.ipv4.tcp_timestamps = 0, net.ipv4.tcp_sack = 0"
            }
            "net.ipv4.tcp_synack_retries" if numbers.first().is_some_and(|tries| *tries <= 2) => {
                "net.ipv4.tcp_synack_retries = 2"
            }
            "vm.drop_caches" => "vm.drop_caches in a timer",
            _ => return None,
        };
        crate::NEVER.iter().find(|(never, _)| *never == key).map(|(_, why)| *why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NEVER, tuning};

    #[test]
    fn what_may_be_tried_is_what_a_proposal_names() {
        for tryable in TRIAL_SETTINGS {
            let rules = tuning();
            let rule = rules.iter().find(|rule| rule.id == tryable.rule);
            let rule = rule.unwrap_or_else(|| panic!("{}: no rule {}", tryable.name, tryable.rule));
            assert!(rule.sql.contains(tryable.name), "{} does not name {}", rule.id, tryable.name);
        }
    }

    #[test]
    fn values_out_of_bounds_say_the_bounds() {
        let refusal = |name: &str, value: &str| {
            TrialSetting::named(name).expect("it is in the list").refusal(value)
        };
        assert_eq!(refusal("net.core.somaxconn", "4096"), None);
        let bounds = "it must be a whole number from 128 to 65535";
        for bad in ["0", "65536", "", "many", "1 2", "-1", "4096; reboot"] {
            assert_eq!(refusal("net.core.somaxconn", bad).as_deref(), Some(bounds), "{bad}");
        }
        assert_eq!(refusal("net.ipv4.ip_local_port_range", "10240 65535"), None);
        for bad in ["65535 10240", "10240", "80 65535", "10240 65536"] {
            assert!(refusal("net.ipv4.ip_local_port_range", bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn each_line_of_the_never_list_refuses_its_value_and_says_why() {
        let asked = [
            ("net.ipv4.tcp_tw_recycle", "1", None),
            ("net.ipv4.tcp_mem", "8388608 8388608 8388608", None),
            ("net.ipv4.tcp_syncookies", "0", None),
            ("net.ipv4.tcp_abort_on_overflow", "1", None),
            ("net.ipv4.tcp_max_tw_buckets", "5000", Some("131072")),
            ("net.ipv4.tcp_sack", "0", None),
            ("net.ipv4.tcp_synack_retries", "2", None),
            ("vm.drop_caches", "3", None),
        ];
        for ((name, value, current), (never_key, why)) in asked.iter().zip(NEVER) {
            assert_eq!(WantedSetting { name, value }.never(*current), Some(*why), "{never_key}");
        }
        assert_eq!(asked.len(), NEVER.len());
        assert_eq!(
            WantedSetting { name: "net.ipv4.tcp_syncookies", value: "1" }.never(Some("0")),
            None
        );
        assert_eq!(
            WantedSetting { name: "net.ipv4.tcp_max_tw_buckets", value: "262144" }
                .never(Some("131072")),
            None
        );
        assert_eq!(
            WantedSetting { name: "net.ipv4.tcp_mem", value: "100 200 300" }.never(None),
            None
        );
    }
}
