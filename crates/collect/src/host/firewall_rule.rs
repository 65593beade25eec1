//! The host's own firewall: rules that drop or reject, and how many packets they did.
//!
//! A host of a cluster has tens of thousands of rules, so sampling is paced. Where nf_tables is a
//! module that is not loaded there are no rules, and a query would load it.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, FirewallRule, FirewallRuleRows, Micros};

use super::netns::Netns;
use super::nf_tables::{BaseChain, DropRule};
use super::run::{DutyCycle, Stopwatch};
use super::{CollectResult, Collector, View, take};
use crate::CollectError;

const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.0005, pause_seconds: (4.5, 600.0) };
/// Maximum number of dropping rules per namespace.
const RULE_LIMIT: usize = 2000;

/// Packets by family, table, chain and handle.
type PacketCounts = HashMap<(u8, String, String, u64), u64>;

#[derive(Debug, Default)]
pub(super) struct FirewallRuleCollector {
    rows: FirewallRuleRows,
    previous: HashMap<Arc<str>, PacketCounts>,
    next: Option<Micros>,
}

impl Collector for FirewallRuleCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live || !DUTY_CYCLE.is_due(self.next, now) || !has_tables(view) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let mut result = Ok(());
        let previous = std::mem::take(&mut self.previous);
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            match read(netns) {
                Ok((chains, rules)) => {
                    let before = previous.get(&netns.name);
                    for rule in &rules {
                        self.push((&view.host, &netns.name, now), rule, &chains, before);
                    }
                    let counts = rules.into_iter().map(|rule| (identity(&rule), rule.packets));
                    self.previous.insert(Arc::clone(&netns.name), counts.collect());
                }
                Err(error) => {
                    netns.nf_tables = None;
                    if netns.is_own() || netns.entrance.exists() {
                        let what =
                            format_args!("read firewall of network namespace `{}`", netns.name);
                        result = Err(CollectError::new(what, error));
                    }
                }
            }
        }
        take(&mut self.rows, out);
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        result
    }
}

impl FirewallRuleCollector {
    fn push(
        &mut self,
        (host, netns, ts): (&str, &str, Micros),
        rule: &DropRule,
        chains: &[BaseChain],
        previous: Option<&PacketCounts>,
    ) {
        // A rule that was not there before counts from 0.
        let before = previous.map(|counts| counts.get(&identity(rule)).copied().unwrap_or(0));
        let increase = before.map(|before| rule.packets.saturating_sub(before));
        if increase == Some(0) {
            return;
        }
        let base = chains.iter().find(|chain| {
            chain.family == rule.family && chain.table == rule.table && chain.name == rule.chain
        });
        let others = rule.others.join(",");
        let protocol = rule.protocol.map(protocol_name);
        self.rows.push(&FirewallRule {
            ts,
            host,
            netns,
            family: family_name(rule.family),
            table_name: &rule.table,
            chain: &rule.chain,
            rule_handle: integer(rule.handle),
            verdict: if rule.is_reject { "reject" } else { "drop" },
            protocol: protocol.as_deref(),
            source_address: rule.source.address.as_deref(),
            source_port: rule.source.port.map(i64::from),
            destination_address: rule.destination.address.as_deref(),
            destination_port: rule.destination.port.map(i64::from),
            other_conditions: (!others.is_empty()).then_some(&*others),
            hook: base.map(|base| hook_name(base.family, base.hook)),
            packets_total: integer(rule.packets),
            packets_increase: increase.map(integer),
        });
    }
}

/// Whether nf_tables is loaded or built in. A kernel without modules has an empty list of them.
fn has_tables(view: &View) -> bool {
    let modules = std::fs::read(view.path("proc/modules")).unwrap_or_default();
    modules.is_empty() || super::text::lines(&modules).any(|line| line.starts_with(b"nf_tables "))
}

fn read(netns: &mut Netns) -> std::io::Result<(Vec<BaseChain>, Vec<DropRule>)> {
    let tables = netns.nf_tables()?;
    let mut rules = Vec::new();
    let chains = tables.chains(&mut rules);
    let chains = match chains {
        // A kernel without nf_tables.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Vec::new(),
        chains => {
            let chains = chains?;
            tables.rules(RULE_LIMIT, &mut rules)?;
            chains
        }
    };
    Ok((chains, rules))
}

fn identity(rule: &DropRule) -> (u8, String, String, u64) {
    (rule.family, rule.table.clone(), rule.chain.clone(), rule.handle)
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn family_name(family: u8) -> &'static str {
    match family {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "unknown",
    }
}

fn hook_name(family: u8, hook: u32) -> &'static str {
    match (family_name(family), hook) {
        ("netdev", 0) => "ingress",
        ("netdev", _) => "egress",
        ("arp", 0) | (_, 1) => "input",
        ("arp", _) | (_, 3) => "output",
        (_, 0) => "prerouting",
        (_, 2) => "forward",
        (_, 4) => "postrouting",
        _ => "ingress",
    }
}

fn protocol_name(protocol: u8) -> String {
    match protocol {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}
