//! Rules of nftables that drop or reject packets, with their counters, of one network namespace.
//!
//! Source: `linux/netfilter/nf_tables.h`, `net/netfilter/nf_tables_api.c`. iptables-nft, ufw,
//! firewalld and Docker write into the same tables. Numbers in attributes are big-endian. A rule is
//! a list of expressions for a small register machine:
//!
//! ```text
//! tcp dport 81 counter drop
//!   meta load l4proto => reg 1        payload load 2b @ transport header + 2 => reg 1
//!   cmp eq reg 1 0x06                 cmp eq reg 1 0x0051
//!   counter pkts 7 bytes 420          immediate reg 0 drop
//! ```
//!
//! A counter in front of a condition counts packets that are not dropped, so only one behind the
//! last condition is used.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netlink::{HEADER_LENGTH, Netlink, attributes};

const SUBSYSTEM: u16 = 10 << 8;
const GET_CHAIN: u16 = SUBSYSTEM | 4;
const GET_RULE: u16 = SUBSYSTEM | 7;
/// `nfgenmsg`: family u8, version u8, resource be16.
const BODY: [u8; 4] = [0; 4];
const MESSAGE_LENGTH: usize = HEADER_LENGTH + BODY.len();

const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_COUNTERS: u16 = 8;
const HOOK_NUMBER: u16 = 1;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const RULE_EXPRESSIONS: u16 = 4;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const COUNTER_PACKETS: u16 = 2;
const META_KEY: u16 = 2;
const META_PROTOCOL: u32 = 16;
const META_FAMILY: u32 = 15;
const PAYLOAD_BASE: u16 = 2;
const PAYLOAD_OFFSET: u16 = 3;
const PAYLOAD_LENGTH: u16 = 4;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const COMPARE_OPERATION: u16 = 2;
const COMPARE_DATA: u16 = 3;
const EQUAL: u32 = 0;
const BITWISE_MASK: u16 = 4;
const TARGET_NAME: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const DROP: u32 = 0;
const IPV6: u8 = 10;

/// A rule or chain policy that drops and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DropRule {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) chain: String,
    /// 0 for the policy of the chain.
    pub(super) handle: u64,
    pub(super) is_reject: bool,
    pub(super) protocol: Option<u8>,
    pub(super) source: MatchedEnd,
    pub(super) destination: MatchedEnd,
    /// Kinds of conditions that are not read.
    pub(super) others: Vec<String>,
    pub(super) packets: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MatchedEnd {
    /// Address, or network with its prefix length.
    pub(super) address: Option<String>,
    pub(super) port: Option<u16>,
}

/// Place of a chain in the path of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseChain {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) name: String,
    pub(super) hook: u32,
}

#[derive(Debug)]
pub(crate) struct NfTables(Netlink);

impl NfTables {
    /// Opens a socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open(Some(rustix::net::netlink::NETFILTER)).map(Self)
    }

    /// Returns the base chains, and appends policies that drop and count to `rules`.
    pub(super) fn chains(&mut self, rules: &mut Vec<DropRule>) -> io::Result<Vec<BaseChain>> {
        let mut chains = Vec::new();
        self.0.dump(GET_CHAIN, &BODY, MESSAGE_LENGTH, |message| {
            chain(message, &mut chains, rules);
        })?;
        Ok(chains)
    }

    /// Appends rules that drop and count, at most `limit`.
    pub(super) fn rules(&mut self, limit: usize, rules: &mut Vec<DropRule>) -> io::Result<()> {
        self.0.dump(GET_RULE, &BODY, MESSAGE_LENGTH, |message| {
            if rules.len() < limit {
                rules.extend(rule(message));
            }
        })
    }
}

fn chain(message: &[u8], chains: &mut Vec<BaseChain>, rules: &mut Vec<DropRule>) {
    let Some(body) = message.get(MESSAGE_LENGTH..) else { return };
    let hook = attribute(body, CHAIN_HOOK).and_then(|hook| number(hook, HOOK_NUMBER));
    let names = (attribute(body, CHAIN_TABLE), attribute(body, CHAIN_NAME));
    let (Some(hook), (Some(table), Some(name))) = (hook, names) else { return };
    let family = message[HEADER_LENGTH];
    let (table, name) = (text(table), text(name));
    let counters = attribute(body, CHAIN_COUNTERS);
    let packets = counters.and_then(|counters| wide(counters, COUNTER_PACKETS));
    if number(body, CHAIN_POLICY) == Some(DROP)
        && let Some(packets) = packets
    {
        rules.push(DropRule {
            family,
            table: table.clone(),
            chain: name.clone(),
            packets,
            ..DropRule::default()
        });
    }
    chains.push(BaseChain { family, table, name, hook });
}

fn rule(message: &[u8]) -> Option<DropRule> {
    let body = message.get(MESSAGE_LENGTH..)?;
    let mut reader = RuleReader::new(*message.get(HEADER_LENGTH)?);
    for (kind, value) in attributes(body) {
        match kind {
            RULE_TABLE => reader.rule.table = text(value),
            RULE_CHAIN => reader.rule.chain = text(value),
            RULE_HANDLE => reader.rule.handle = big_endian_wide(value).unwrap_or(0),
            RULE_EXPRESSIONS => {
                for (_, expression) in attributes(value) {
                    reader.read(expression);
                }
            }
            _ => {}
        }
    }
    let packets = reader.packets.filter(|_| reader.is_drop)?;
    Some(DropRule { packets, ..reader.rule })
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterContent {
    Protocol,
    Family,
    /// Address, and its bytes in a header: 4 or 16.
    Source(usize),
    Destination(usize),
    SourcePort,
    DestinationPort,
    Ports,
    Other,
}

#[derive(Debug)]
struct RuleReader {
    rule: DropRule,
    loaded: RegisterContent,
    /// Name of the expression that loaded it.
    loader: String,
    mask: Option<Vec<u8>>,
    packets: Option<u64>,
    is_drop: bool,
}

impl RuleReader {
    fn new(family: u8) -> Self {
        Self {
            rule: DropRule { family, ..DropRule::default() },
            loaded: RegisterContent::Other,
            loader: String::new(),
            mask: None,
            packets: None,
            is_drop: false,
        }
    }

    fn read(&mut self, expression: &[u8]) {
        let name = attribute(expression, EXPRESSION_NAME).map(text).unwrap_or_default();
        let data = attribute(expression, EXPRESSION_DATA).unwrap_or_default();
        match name.as_str() {
            "counter" => self.packets = wide(data, COUNTER_PACKETS),
            "immediate" => self.is_drop |= verdict(data) == Some(DROP),
            "reject" => self.reject(),
            "target" if attribute(data, TARGET_NAME).map(text).as_deref() == Some("REJECT") => {
                self.reject();
            }
            "log" | "target" => {}
            "meta" => self.load(meta(data), name),
            "payload" => self.load(payload(data, self.rule.family), name),
            "bitwise" => {
                let mask = attribute(data, BITWISE_MASK).and_then(value);
                self.mask = mask.map(<[u8]>::to_vec);
            }
            "cmp" => self.compare(data),
            "ct" | "fib" | "rt" | "exthdr" | "socket" | "numgen" | "hash" => {
                self.load(RegisterContent::Other, name);
            }
            _ => self.other(name),
        }
    }

    fn reject(&mut self) {
        self.is_drop = true;
        self.rule.is_reject = true;
    }

    fn load(&mut self, loaded: RegisterContent, loader: String) {
        self.loaded = loaded;
        self.loader = loader;
        self.mask = None;
        self.packets = None;
    }

    fn other(&mut self, name: String) {
        self.packets = None;
        if !self.rule.others.contains(&name) {
            self.rule.others.push(name);
        }
    }

    fn compare(&mut self, data: &[u8]) {
        self.packets = None;
        let operand = attribute(data, COMPARE_DATA).and_then(value).unwrap_or_default();
        let is_equal = number(data, COMPARE_OPERATION) == Some(EQUAL);
        if !(is_equal && self.note(operand)) {
            self.other(self.loader.clone());
        }
    }

    /// Notes that a packet must have this value; false when it means nothing here.
    fn note(&mut self, operand: &[u8]) -> bool {
        let mask = self.mask.as_deref();
        let rule = &mut self.rule;
        match self.loaded {
            RegisterContent::Family => {}
            RegisterContent::Protocol if operand.len() == 1 => rule.protocol = Some(operand[0]),
            RegisterContent::Source(width) => rule.source.address = network(operand, mask, width),
            RegisterContent::Destination(width) => {
                rule.destination.address = network(operand, mask, width)
            }
            RegisterContent::SourcePort if mask.is_none() => rule.source.port = port(operand, 0),
            RegisterContent::DestinationPort if mask.is_none() => {
                rule.destination.port = port(operand, 0)
            }
            RegisterContent::Ports if mask.is_none() => {
                (rule.source.port, rule.destination.port) = (port(operand, 0), port(operand, 2));
            }
            _ => return false,
        }
        true
    }
}

fn meta(data: &[u8]) -> RegisterContent {
    match number(data, META_KEY) {
        Some(META_PROTOCOL) => RegisterContent::Protocol,
        Some(META_FAMILY) => RegisterContent::Family,
        _ => RegisterContent::Other,
    }
}

/// Header fields by offset and length. nft loads fewer bytes of an address for a short prefix.
fn payload(data: &[u8], family: u8) -> RegisterContent {
    let at = [PAYLOAD_BASE, PAYLOAD_OFFSET, PAYLOAD_LENGTH].map(|kind| number(data, kind));
    let [Some(base), Some(offset), Some(length)] = at else { return RegisterContent::Other };
    match (base, offset, length) {
        (TRANSPORT_HEADER, 0, 2) => RegisterContent::SourcePort,
        (TRANSPORT_HEADER, 2, 2) => RegisterContent::DestinationPort,
        (TRANSPORT_HEADER, 0, 4) => RegisterContent::Ports,
        (NETWORK_HEADER, 8, 1..=16) => RegisterContent::Source(16),
        (NETWORK_HEADER, 24, 1..=16) => RegisterContent::Destination(16),
        (NETWORK_HEADER, 12, 1..=4) if family != IPV6 => RegisterContent::Source(4),
        (NETWORK_HEADER, 16, 1..=4) if family != IPV6 => RegisterContent::Destination(4),
        (NETWORK_HEADER, 9, 1) if family != IPV6 => RegisterContent::Protocol,
        (NETWORK_HEADER, 6, 1) if family == IPV6 => RegisterContent::Protocol,
        _ => RegisterContent::Other,
    }
}

/// Address, or network when the mask or the number of bytes leaves some of it open.
fn network(operand: &[u8], mask: Option<&[u8]>, width: usize) -> Option<String> {
    let mut bytes = [0; 16];
    bytes.get_mut(..operand.len())?.copy_from_slice(operand);
    let address: IpAddr = if width == 16 {
        Ipv6Addr::from(bytes).into()
    } else {
        Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
    };
    let prefix = mask.map_or(operand.len() * 8, one_bits);
    Some(if prefix == width * 8 { address.to_string() } else { format!("{address}/{prefix}") })
}

fn one_bits(mask: &[u8]) -> usize {
    mask.iter().map(|byte| byte.count_ones() as usize).sum()
}

fn port(operand: &[u8], at: usize) -> Option<u16> {
    operand.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn verdict(data: &[u8]) -> Option<u32> {
    let verdict = attribute(attribute(data, IMMEDIATE_DATA)?, DATA_VERDICT)?;
    number(verdict, VERDICT_CODE)
}

fn value(data: &[u8]) -> Option<&[u8]> {
    attribute(data, DATA_VALUE)
}

fn number(data: &[u8], kind: u16) -> Option<u32> {
    attribute(data, kind).and_then(big_endian)
}

fn wide(data: &[u8], kind: u16) -> Option<u64> {
    attribute(data, kind).and_then(big_endian_wide)
}

fn attribute(data: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(data).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn big_endian(value: &[u8]) -> Option<u32> {
    value.get(..4)?.try_into().ok().map(u32::from_be_bytes)
}

fn big_endian_wide(value: &[u8]) -> Option<u64> {
    value.get(..8)?.try_into().ok().map(u64::from_be_bytes)
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::super::netlink::walk;
    use super::*;

    /// A namespace with these rules, and what is read of them; `None` where nft is missing.
    fn read(ruleset: &str) -> Option<(Vec<BaseChain>, Vec<DropRule>)> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "nft -f - && echo ready && exec sleep 60"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        io::Write::write_all(&mut holder.stdin.take().unwrap(), ruleset.as_bytes()).unwrap();
        let mut line = String::new();
        let mut output = io::BufReader::new(holder.stdout.take().unwrap());
        io::BufRead::read_line(&mut output, &mut line).unwrap();
        let found = (line.trim() == "ready").then(|| {
            let entrance = format!("/proc/{}/ns/net", holder.id());
            super::super::netns::inside(entrance.as_ref(), || {
                let mut tables = NfTables::open().unwrap();
                let mut rules = Vec::new();
                let chains = tables.chains(&mut rules).unwrap();
                tables.rules(1000, &mut rules).unwrap();
                (chains, rules)
            })
            .unwrap()
        });
        holder.kill().unwrap();
        holder.wait().unwrap();
        if found.is_none() {
            eprintln!("skipped: no nftables here (apt install nftables, run as root)");
        }
        found
    }

    #[test]
    fn rules_that_drop_and_count_are_read_with_their_conditions() {
        let found = read(
            "table inet t {
              chain in {
                type filter hook input priority 0; policy accept;
                tcp dport 81 counter drop
                tcp dport 82 drop
                tcp dport 83 counter accept
                counter tcp dport 84 drop
                ip saddr 10.0.0.0/8 tcp dport 85 counter reject with tcp reset
                ip saddr 10.1.2.0/23 counter drop
                tcp dport { 86, 87 } counter drop
                ip6 daddr fd00::/16 counter drop
                ct state invalid counter drop
                tcp dport 88 limit rate over 10/second counter drop
              }
              chain out {
                type filter hook output priority 0; policy accept;
                ip daddr 10.9.0.2 tcp dport 5432 counter drop
              }
            }
            table ip f {
              chain p { type filter hook forward priority 0; policy drop; }
            }
            ",
        );
        let Some((chains, rules)) = found else { return };
        assert_eq!(chains.iter().map(|chain| chain.hook).collect::<Vec<_>>(), [1, 3, 2]);
        let shown: Vec<String> = rules
            .iter()
            .map(|rule| {
                let end = |end: &MatchedEnd| format!("{:?}:{:?}", end.address, end.port);
                let (source, destination) = (end(&rule.source), end(&rule.destination));
                let text = format!(
                    "{} {:?} {source} > {destination} {:?} {}",
                    rule.chain, rule.protocol, rule.others, rule.is_reject
                );
                text.replace("Some(", "").replace(')', "").replace("None", "-")
            })
            .collect();
        expect_test::expect![[r#"
            in 6 -:- > -:81 [] false
            in 6 "10.0.0.0/8":- > -:85 [] true
            in - "10.1.2.0/23":- > -:- [] false
            in 6 -:- > -:- ["lookup"] false
            in - -:- > "fd00::/16":- [] false
            in - -:- > -:- ["ct"] false
            in 6 -:- > -:88 ["limit"] false
            out 6 -:- > "10.9.0.2":5432 [] false"#]]
        .assert_eq(&shown.join("\n"));
        assert!(rules.iter().all(|rule| rule.packets == 0 && rule.handle > 0));
    }

    #[test]
    fn broken_replies_do_not_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = walk(&bytes, 0, MESSAGE_LENGTH, &mut |message| {
                let _ = rule(message);
                chain(message, &mut Vec::new(), &mut Vec::new());
            });
            let mut reader = RuleReader::new(u.arbitrary()?);
            reader.read(&bytes);
            reader.compare(&bytes);
            Ok(())
        });
    }
}
