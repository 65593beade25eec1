//! Settings that `weir tune --try` may set for a while: within which bounds, for whom they take effect, and what counts.
//!
//! Each is the setting of a proposal (`tune/`), because only a proposal says which counter would tell whether it helped. What has no
//! such counter on this host (`net.ipv4.tcp_slow_start_after_idle`) is not here: nobody could say whether to keep it.
//! A new one is one entry of [`TRYABLE`].

use std::fmt::Write;

use weir_tables::Micros;

use crate::rule::literal;

/// A setting that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tryable {
    /// Its name, such as `net.core.somaxconn`.
    pub name: &'static str,
    /// The proposal that names it.
    pub rule: &'static str,
    /// How many numbers its value has.
    pub numbers: usize,
    /// The least and the greatest that each may be.
    pub range: (u64, u64),
    /// For whom it takes effect, when not for all at once.
    pub effect: Option<&'static str>,
    /// What should become less.
    pub aim: Count,
}

/// Something that happens, and how often it could have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What happens, for a person.
    pub what: &'static str,
    /// Where it is counted.
    of: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    /// Protocol and name of the event's counter and of the one of its chances, in `tcp_stat`.
    Tcp([&'static str; 2], [&'static str; 2]),
    /// A column of `softnet_stat`; its chances are packets.
    Softnet(&'static str),
    /// Drops of `conntrack_stat`; its chances are packets that came in.
    Conntrack,
    /// Requests with a status in these bounds, of all requests that a proxy of this host logged.
    Status(u16, u16),
}

const NEW_CONNECTIONS: Option<&str> =
    Some("only for connections that are opened from now on; those that are open stay as they are");

const fn tcp(what: &'static str, event: [&'static str; 2], chance: [&'static str; 2]) -> Count {
    Count { what, of: Counter::Tcp(event, chance) }
}

const SEGMENTS: [&str; 2] = ["Tcp", "InSegs"];
const RETRANSMITS: Count = tcp("segments sent again", ["Tcp", "RetransSegs"], ["Tcp", "OutSegs"]);
const OVERFLOWS: Count =
    tcp("connections dropped at a full accept queue", ["TcpExt", "ListenOverflows"], SEGMENTS);

/// A switch whose good value the kernel has by default; it is for new connections.
const fn switch(name: &'static str, most: u64, aim: Count) -> Tryable {
    let (rule, numbers, range) = ("tune.harmful", 1, (0, most));
    Tryable { name, rule, numbers, range, effect: NEW_CONNECTIONS, aim }
}

/// Every setting that may be tried.
pub const TRYABLE: &[Tryable] = &[
    Tryable {
        name: "net.core.somaxconn",
        rule: "tune.somaxconn",
        numbers: 1,
        range: (128, 65_535),
        effect: Some(
            "only for programs that listen anew: restart the one whose queue is full now, and again when this is put back",
        ),
        aim: OVERFLOWS,
    },
    Tryable {
        name: "net.core.netdev_max_backlog",
        rule: "tune.netdev_max_backlog",
        numbers: 1,
        range: (1000, 65_536),
        effect: None,
        aim: Count {
            what: "packets dropped before a processor",
            of: Counter::Softnet("drops_total"),
        },
    },
    Tryable {
        name: "net.core.netdev_budget",
        rule: "tune.netdev_budget",
        numbers: 1,
        range: (64, 5000),
        effect: None,
        aim: Count {
            what: "rounds of receiving that end with work left",
            of: Counter::Softnet("time_squeezes_total"),
        },
    },
    Tryable {
        name: "net.core.rmem_max",
        rule: "tune.rmem_max",
        numbers: 1,
        range: (65_536, 67_108_864),
        effect: Some(
            "only for sockets whose program asks for a buffer from now on: restart it now",
        ),
        aim: tcp(
            "datagrams dropped at full buffers",
            ["Udp", "RcvbufErrors"],
            ["Udp", "InDatagrams"],
        ),
    },
    Tryable {
        name: "net.ipv4.ip_local_port_range",
        rule: "tune.local_port_range",
        numbers: 2,
        range: (1024, 65_535),
        effect: NEW_CONNECTIONS,
        aim: Count { what: "requests answered with 502", of: Counter::Status(502, 502) },
    },
    Tryable {
        name: "net.ipv4.tcp_max_tw_buckets",
        rule: "tune.max_tw_buckets",
        numbers: 1,
        range: (4096, 4_194_304),
        effect: None,
        aim: tcp(
            "connections that found no room in TIME_WAIT",
            ["TcpExt", "TCPTimeWaitOverflow"],
            SEGMENTS,
        ),
    },
    Tryable {
        name: "net.netfilter.nf_conntrack_max",
        rule: "tune.conntrack_max",
        numbers: 1,
        range: (4096, 16_777_216),
        effect: None,
        aim: Count {
            what: "packets dropped for want of room in the table of connections",
            of: Counter::Conntrack,
        },
    },
    switch(
        "net.ipv4.tcp_syncookies",
        1,
        tcp(
            "requests for a connection dropped at a full queue",
            ["TcpExt", "TCPReqQFullDrop"],
            SEGMENTS,
        ),
    ),
    switch("net.ipv4.tcp_timestamps", 2, RETRANSMITS),
    switch("net.ipv4.tcp_sack", 1, RETRANSMITS),
    switch("net.ipv4.tcp_window_scaling", 1, RETRANSMITS),
    switch(
        "net.ipv4.tcp_moderate_rcvbuf",
        1,
        tcp("windows closed because a buffer was full", ["TcpExt", "TCPToZeroWindowAdv"], SEGMENTS),
    ),
    switch(
        "net.ipv4.tcp_abort_on_overflow",
        1,
        tcp("connections reset at a full accept queue", ["Tcp", "OutRsts"], SEGMENTS),
    ),
];

/// What must not become more, whatever is tried.
pub const GUARDS: &[Count] = &[
    Count { what: "requests answered with an error", of: Counter::Status(500, 599) },
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

impl Count {
    /// Its query for a span, of each host: `host`, `events`, `chances`.
    pub fn between(&self, from: Micros, to: Micros) -> String {
        let span = between(from, to);
        match self.of {
            Counter::Tcp(event, chance) => {
                let is = |[protocol, counter]: [&str; 2]| {
                    format!("protocol = '{protocol}' and counter = '{counter}'")
                };
                let sum = |pair| format!("sum(case when {} then increase else 0 end)", is(pair));
                format!(
                    "select host, {} as events, {} as chances from tcp_stat \
                     where netns = 'host' and ({} or {}) and {span} group by host",
                    sum(event),
                    sum(chance),
                    is(event),
                    is(chance)
                )
            }
            Counter::Softnet(column) => format!(
                "select host, sum(events) as events, sum(chances) as chances from (\
                 select host, cpu, max({column}) - min({column}) as events, \
                 max(packets_total) - min(packets_total) as chances \
                 from softnet_stat where {span} group by host, cpu) group by host"
            ),
            Counter::Conntrack => format!(
                "select host, sum(drops_increase) as events, 0 as chances from conntrack_stat \
                 where netns = 'host' and {span} group by host"
            ),
            Counter::Status(least, most) => format!(
                "select host, sum(case when http_response_status_code between {least} and {most} then 1 else 0 end) \
                 as events, count(*) as chances from request where tier in ('proxy', 'edge') and {span} group by host"
            ),
        }
    }
}

impl Tryable {
    /// The setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TRYABLE.iter().find(|tryable| tryable.name == name)
    }

    /// Why this value cannot be one of the setting; `None` when it can.
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

/// Why this must never be set, with what it is now known; `None` when nothing is said against it. See [`crate::NEVER`].
pub fn never(name: &str, value: &str, current: Option<&str>) -> Option<&'static str> {
    let numbers: Vec<u64> = value.split_whitespace().filter_map(|part| part.parse().ok()).collect();
    let is_less = |current: Option<&str>| {
        current
            .and_then(|now| now.parse().ok())
            .is_some_and(|now: u64| numbers.first() < Some(&now))
    };
    let key = match name {
        "net.ipv4.tcp_tw_recycle" => "net.ipv4.tcp_tw_recycle",
        "net.ipv4.tcp_mem" if numbers.windows(2).all(|pair| pair[0] == pair[1]) => {
            "net.ipv4.tcp_mem = three equal values"
        }
        "net.ipv4.tcp_syncookies" if value == "0" => "net.ipv4.tcp_syncookies = 0",
        "net.ipv4.tcp_abort_on_overflow" if value == "1" => "net.ipv4.tcp_abort_on_overflow = 1",
        "net.ipv4.tcp_max_tw_buckets" if is_less(current) => {
            "net.ipv4.tcp_max_tw_buckets below its default"
        }
        "net.ipv4.tcp_timestamps" | "net.ipv4.tcp_sack" if value == "0" => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NEVER, tuning};

    #[test]
    fn what_may_be_tried_is_what_a_proposal_names() {
        for tryable in TRYABLE {
            let rules = tuning();
            let rule = rules.iter().find(|rule| rule.id == tryable.rule);
            let rule = rule.unwrap_or_else(|| panic!("{}: no rule {}", tryable.name, tryable.rule));
            assert!(rule.sql.contains(tryable.name), "{} does not name {}", rule.id, tryable.name);
        }
    }

    #[test]
    fn values_out_of_bounds_say_the_bounds() {
        let refusal = |name: &str, value: &str| {
            Tryable::named(name).expect("it is in the list").refusal(value)
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
            assert_eq!(never(name, value, *current), Some(*why), "{never_key}");
        }
        assert_eq!(asked.len(), NEVER.len());
        assert_eq!(never("net.ipv4.tcp_syncookies", "1", Some("0")), None);
        assert_eq!(never("net.ipv4.tcp_max_tw_buckets", "262144", Some("131072")), None);
        assert_eq!(never("net.ipv4.tcp_mem", "100 200 300", None), None);
    }
}
