//! Packet filter: the common subset of tcpdump's filters (pcap-filter(7)), parsed and evaluated
//! here.
//!
//! ```text
//! host 192.0.2.1 and (port 80 or 443) and not src net 10.0.0.0/8
//! tcp[tcpflags] & (tcp-syn|tcp-rst) != 0
//! ```
//! As in tcpdump, `and` and `or` bind equally from left to right, `not` binds tighter, and a value
//! without a keyword takes the previous one. Host names are refused: they resolve differently on
//! another host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::packet::{Endpoint, Flags, Packet};

/// A predicate on packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(FilterNode);

#[derive(Debug, Clone, PartialEq, Eq)]
enum FilterNode {
    And(Box<FilterNode>, Box<FilterNode>),
    Or(Box<FilterNode>, Box<FilterNode>),
    Not(Box<FilterNode>),
    End(EndpointSide, EndpointTest),
    Family(bool),
    /// Mask of flags; whether at least one of them is set (or none); or, with a value, whether
    /// exactly these are.
    Flags(u8, bool, Option<u8>),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndpointSide {
    Either,
    From,
    To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndpointTest {
    /// Addresses with this prefix.
    Net {
        address: u128,
        mask: u128,
    },
    Ports(u16, u16),
}

/// Why a filter is invalid: what, where in the text, and what would be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Description of the error.
    pub message: String,
    /// Byte offset in the text.
    pub position: usize,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.message, self.position + 1)
    }
}

impl std::error::Error for FilterError {}

/// Nested parentheses and negations.
const DEPTH_MAX: u32 = 50;
const TOKENS_MAX: usize = 1000;

impl std::str::FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let tokens = tokens(text);
        let end = text.len();
        if tokens.len() > TOKENS_MAX {
            let message = format!("a filter has at most {TOKENS_MAX} words");
            return Err(FilterError { message, position: 0 });
        }
        let mut parser = Parser { tokens, at: 0, end, kind: None, depth: 0 };
        let node = parser.expression()?;
        match parser.peek() {
            None => Ok(Self(node)),
            Some(word) => Err(parser.wrong(format!("expected `and` or `or`, found `{word}`"))),
        }
    }
}

impl Filter {
    /// Whether the packet matches.
    pub fn matches(&self, packet: &Packet<'_>) -> bool {
        self.0.matches(packet)
    }
}

impl FilterNode {
    fn matches(&self, packet: &Packet<'_>) -> bool {
        match self {
            Self::And(a, b) => a.matches(packet) && b.matches(packet),
            Self::Or(a, b) => a.matches(packet) || b.matches(packet),
            Self::Not(node) => !node.matches(packet),
            Self::End(side, test) => match side {
                EndpointSide::Either => test.matches(packet.from) || test.matches(packet.to),
                EndpointSide::From => test.matches(packet.from),
                EndpointSide::To => test.matches(packet.to),
            },
            Self::Family(is_six) => packet.from.ip().is_ipv6() == *is_six,
            Self::Flags(mask, is_set, None) => (packet.flags.0 & mask != 0) == *is_set,
            Self::Flags(mask, is_equal, Some(value)) => {
                (packet.flags.0 & mask == *value) == *is_equal
            }
            Self::All => true,
        }
    }
}

impl EndpointTest {
    fn matches(self, end: Endpoint) -> bool {
        match self {
            Self::Net { address, mask } => end.address & mask == address,
            Self::Ports(from, to) => (from..=to).contains(&end.port),
        }
    }
}

type Token<'a> = (usize, &'a str);

/// Words, numbers and signs with their offsets.
fn tokens(text: &str) -> Vec<Token<'_>> {
    const SIGNS: &[char] = &['(', ')', '!', '&', '|', '=', '[', ']'];
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(next) = text[at..].find(|c: char| !c.is_whitespace()).map(|skip| at + skip) {
        let rest = &text[next..];
        let length =
            ["&&", "||", "!=", "=="].iter().find(|sign| rest.starts_with(**sign)).map_or_else(
                || match rest.find(|c: char| c.is_whitespace() || SIGNS.contains(&c)) {
                    Some(0) => rest.chars().next().map_or(1, char::len_utf8),
                    Some(length) => length,
                    None => rest.len(),
                },
                |sign| sign.len(),
            );
        out.push((next, &rest[..length]));
        at = next + length;
    }
    out
}

/// Tests of tcpdump that are not supported.
const UNSUPPORTED: [&str; 15] = [
    "udp",
    "icmp",
    "icmp6",
    "arp",
    "sctp",
    "vlan",
    "ether",
    "proto",
    "less",
    "greater",
    "broadcast",
    "multicast",
    "gateway",
    "mpls",
    "len",
];

#[derive(Debug, Clone, Copy)]
enum ValueKind {
    Host,
    Net,
    Port,
    PortRange,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    end: usize,
    /// Qualifiers of a value without a keyword.
    kind: Option<(EndpointSide, ValueKind)>,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|(_, word)| *word)
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let is_there = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is_there);
        is_there
    }

    /// An error at the current word.
    fn wrong(&self, message: String) -> FilterError {
        let position = self.tokens.get(self.at).map_or(self.end, |(position, _)| *position);
        FilterError { message, position }
    }

    fn expression(&mut self) -> Result<FilterNode, FilterError> {
        let mut node = self.negation()?;
        loop {
            if self.take(&["and", "&&"]) {
                node = FilterNode::And(Box::new(node), Box::new(self.negation()?));
            } else if self.take(&["or", "||"]) {
                node = FilterNode::Or(Box::new(node), Box::new(self.negation()?));
            } else {
                return Ok(node);
            }
        }
    }

    fn negation(&mut self) -> Result<FilterNode, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("parentheses are nested too deeply".to_owned()));
        }
        let node = if self.take(&["not", "!"]) {
            FilterNode::Not(Box::new(self.negation()?))
        } else if self.take(&["("]) {
            let node = self.expression()?;
            if !self.take(&[")"]) {
                return Err(self.wrong("missing `)`".to_owned()));
            }
            node
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primitive(&mut self) -> Result<FilterNode, FilterError> {
        match self.peek() {
            None => return Err(self.wrong("expected a test at the end of the filter".to_owned())),
            Some(word) if UNSUPPORTED.contains(&word) => return Err(self.unknown()),
            Some("ip6") => return self.family(true),
            Some("ip") => return self.family(false),
            Some("tcp") if self.tokens.get(self.at + 1).is_some_and(|(_, word)| *word == "[") => {
                self.at += 1;
                return self.flags();
            }
            // Everything is TCP here; in `tcp port 80`, the port follows.
            Some("tcp") => {
                self.at += 1;
                if !matches!(self.peek(), Some("src" | "dst" | "port" | "portrange")) {
                    return Ok(FilterNode::All);
                }
            }
            Some(_) => {}
        }
        let side = if self.take(&["src"]) {
            // `src or dst` is the default.
            self.either(&["dst"], EndpointSide::From)
        } else if self.take(&["dst"]) {
            self.either(&["src"], EndpointSide::To)
        } else {
            EndpointSide::Either
        };
        let kind = match self.peek() {
            Some("host") => Some(ValueKind::Host),
            Some("net") => Some(ValueKind::Net),
            Some("port") => Some(ValueKind::Port),
            Some("portrange") => Some(ValueKind::PortRange),
            _ => None,
        };
        if let Some(kind) = kind {
            self.at += 1;
            self.kind = Some((side, kind));
        } else if side != EndpointSide::Either {
            // `src 192.0.2.1`
            self.kind = Some((side, ValueKind::Host));
        } else if self.peek().is_some_and(|word| word.parse::<IpAddr>().is_ok()) && !self.is_net() {
            let side = self.kind.map_or(EndpointSide::Either, |(side, _)| side);
            self.kind = Some((side, ValueKind::Host));
        }
        let Some((side, kind)) = self.kind else { return Err(self.unknown()) };
        let test = self.value(kind)?;
        Ok(FilterNode::End(side, test))
    }

    fn is_net(&self) -> bool {
        matches!(self.kind, Some((_, ValueKind::Net)))
    }

    fn either(&mut self, other: &[&str], alone: EndpointSide) -> EndpointSide {
        let follows = self.tokens.get(self.at + 1).is_some_and(|(_, word)| other.contains(word));
        if follows && matches!(self.peek(), Some("or" | "||")) {
            self.at += 2;
            return EndpointSide::Either;
        }
        alone
    }

    fn family(&mut self, is_six: bool) -> Result<FilterNode, FilterError> {
        self.at += 1;
        // `ip host 192.0.2.1` is that host; its address implies the family.
        if matches!(self.peek(), Some("host" | "net" | "src" | "dst")) {
            return self.primitive();
        }
        Ok(FilterNode::Family(is_six))
    }

    fn unknown(&self) -> FilterError {
        let word = self.peek().unwrap_or_default();
        let what = if UNSUPPORTED.contains(&word) {
            format!("`{word}` is not supported: only TCP is analysed")
        } else {
            format!("`{word}` is not a test")
        };
        self.wrong(format!(
            "{what}; tests are host, net, port, portrange, src, dst, ip, ip6, tcp and tcp[tcpflags]"
        ))
    }

    fn value(&mut self, kind: ValueKind) -> Result<EndpointTest, FilterError> {
        let Some(word) = self.peek() else {
            return Err(self.wrong("expected a value at the end of the filter".to_owned()));
        };
        let test = match kind {
            ValueKind::Host => host(word),
            ValueKind::Net => net(word),
            ValueKind::Port => word.parse().ok().map(|port| EndpointTest::Ports(port, port)),
            ValueKind::PortRange => word.split_once('-').and_then(|(from, to)| {
                let (from, to) = (from.parse().ok()?, to.parse().ok()?);
                (from <= to).then_some(EndpointTest::Ports(from, to))
            }),
        };
        let due = match kind {
            ValueKind::Host => "an address, such as 192.0.2.1",
            ValueKind::Net => "a network, such as 10.0.0.0/8",
            ValueKind::Port => "a port's number, such as 80",
            ValueKind::PortRange => "two ports, such as 8000-8099",
        };
        let Some(test) = test else {
            return Err(self.wrong(format!("expected {due}, found `{word}`")));
        };
        self.at += 1;
        Ok(test)
    }

    /// `[tcpflags] & (tcp-syn|tcp-fin) != 0`, `[tcpflags] & tcp-syn == tcp-syn`, `[13] & 2 != 0`.
    fn flags(&mut self) -> Result<FilterNode, FilterError> {
        let is_known = self.take(&["["]) && self.take(&["tcpflags", "13"]) && self.take(&["]"]);
        if !is_known {
            let message = "only `tcp[tcpflags]` is supported of `tcp[…]`".to_owned();
            return Err(self.wrong(message));
        }
        let mask = if self.take(&["&"]) { self.bits()? } else { 0xff };
        let is_equal = match self.next() {
            Some("=" | "==") => true,
            Some("!=") => false,
            _ => {
                self.at = self.at.saturating_sub(1);
                return Err(self.wrong("expected `=` or `!=`".to_owned()));
            }
        };
        Ok(match self.bits()? {
            0 => FilterNode::Flags(mask, !is_equal, None),
            value => FilterNode::Flags(mask, is_equal, Some(value)),
        })
    }

    /// Flags by name or number, joined by `|`, in parentheses or not.
    fn bits(&mut self) -> Result<u8, FilterError> {
        let is_grouped = self.take(&["("]);
        let mut bits = 0;
        loop {
            let word = self.next().unwrap_or_default();
            bits |= match flag(word) {
                Some(flag) => flag,
                None => {
                    self.at = self.at.saturating_sub(1);
                    return Err(self.wrong(format!(
                        "`{word}` is not a flag; flags are tcp-fin, tcp-syn, tcp-rst, tcp-push, tcp-ack and tcp-urg"
                    )));
                }
            };
            if !(is_grouped && self.take(&["|"])) {
                break;
            }
        }
        if is_grouped && !self.take(&[")"]) {
            return Err(self.wrong("missing `)`".to_owned()));
        }
        Ok(bits)
    }
}

fn flag(word: &str) -> Option<u8> {
    Some(match word {
        "tcp-fin" => Flags::FIN.0,
        "tcp-syn" => Flags::SYN.0,
        "tcp-rst" => Flags::RST.0,
        "tcp-push" => Flags::PSH.0,
        "tcp-ack" => Flags::ACK.0,
        "tcp-urg" => 0x20,
        hex if hex.starts_with("0x") => u8::from_str_radix(&hex[2..], 16).ok()?,
        number => number.parse().ok()?,
    })
}

fn host(word: &str) -> Option<EndpointTest> {
    let address = Endpoint::new(word.parse().ok()?, 0).address;
    Some(EndpointTest::Net { address, mask: u128::MAX })
}

/// `10.0.0.0/8`, `2001:db8::/32`, and as tcpdump has it `10.1` for `10.1.0.0/16`.
fn net(word: &str) -> Option<EndpointTest> {
    let (text, bits) = match word.split_once('/') {
        Some((text, bits)) => (text, Some(bits.parse::<u32>().ok()?)),
        None => (word, None),
    };
    let (address, width, bits) = match text.parse::<IpAddr>() {
        Ok(address @ IpAddr::V4(_)) => (address, 32, bits.unwrap_or(32)),
        Ok(address) => (address, 128, bits.unwrap_or(128)),
        Err(_) => {
            let parts: Vec<u8> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            let mut octets = [0; 4];
            octets.get_mut(..parts.len())?.copy_from_slice(&parts);
            let all = 8 * u32::try_from(parts.len()).ok()?;
            (Ipv4Addr::from(octets).into(), 32, bits.unwrap_or(all))
        }
    };
    let rest = u32::checked_sub(width, bits)?;
    let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
    let address = Endpoint::new(address, 0).address;
    (address & mask == address).then_some(EndpointTest::Net { address, mask })
}

#[cfg(test)]
mod tests {
    use super::{Filter, FilterError};
    use crate::packet::{Direction, Endpoint, Flags, Packet};

    fn packet<'a>(from: (&str, u16), to: (&str, u16), flags: Flags) -> Packet<'a> {
        let end = |(address, port): (&str, u16)| {
            Endpoint::new(address.parse().expect("an address"), port)
        };
        Packet {
            ts_ns: 0,
            from: end(from),
            to: end(to),
            seq: 0,
            ack: 0,
            is_sequence_known: true,
            flags,
            window: 0,
            window_scale: None,
            segment_bytes_max: None,
            is_join: false,
            timestamps: None,
            sack_blocks: 0,
            dsack: None,
            ip_id: None,
            payload_length: 0,
            payload: &[],
            interface: 0,
            direction: Direction::Unknown,
        }
    }

    #[test]
    fn what_people_ask_tcpdump_is_asked_here() {
        let four = packet(("10.1.2.3", 40_000), ("192.0.2.1", 80), Flags::SYN);
        let six = packet(("2001:db8::7", 443), ("2001:db8::1", 50_000), Flags::ACK | Flags::PSH);
        for (text, is_four, is_six) in [
            ("host 192.0.2.1", true, false),
            ("192.0.2.1 and port 80", true, false),
            ("src host 192.0.2.1", false, false),
            ("dst 192.0.2.1", true, false),
            ("port 80 or 443", true, true),
            ("tcp port 443", false, true),
            ("tcp", true, true),
            ("src port 443 and not net 10.0.0.0/8", false, true),
            ("net 10.1", true, false),
            ("net 2001:db8::/32", false, true),
            ("net 0.0.0.0/0", true, false),
            ("portrange 440-450 || portrange 70-80", true, true),
            ("host A".replace('A', "10.1.2.3").as_str(), true, false),
            ("not (host 10.1.2.3 or host 2001:db8::7)", false, false),
            ("! ip6", true, false),
            ("ip", true, false),
            ("src or dst port 80", true, false),
            ("tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", true, false),
            ("tcp[tcpflags] & tcp-syn == 0", false, true),
            ("tcp[13] & 0x12 = 2", true, false),
            ("tcp[tcpflags] = tcp-syn", true, false),
            // From left to right, as tcpdump does.
            ("port 80 or port 443 and ip6", false, true),
        ] {
            let filter: Filter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((filter.matches(&four), filter.matches(&six)), (is_four, is_six), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_said_with_its_place() {
        for (text, position, part) in [
            ("", 0, "expected a test"),
            ("port 80 and", 11, "expected a test"),
            ("port http", 5, "a port's number"),
            ("host example.com", 5, "an address"),
            ("port 80 port 81", 8, "`and` or `or`"),
            ("net 10.0.0.1/8", 4, "a network"),
            ("net 10.0.0.0/40", 4, "a network"),
            ("udp", 0, "not supported"),
            ("port 80 and udp", 12, "not supported"),
            ("(port 80", 8, "missing `)`"),
            ("port 80)", 7, "`and` or `or`"),
            ("tcp[0:2] = 80", 4, "only `tcp[tcpflags]`"),
            ("tcp[tcpflags] & tcp-foo != 0", 16, "not a flag"),
            ("portrange 90-80", 10, "two ports"),
        ] {
            let FilterError { message, position: found } =
                text.parse::<Filter>().expect_err("it is wrong");
            assert_eq!(found, position, "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!("!".repeat(200).parse::<Filter>().is_err());
    }

    #[test]
    fn no_filter_is_too_strange() {
        arbtest::arbtest(|u| {
            let words = [
                "host", "net", "port", "src", "dst", "and", "or", "not", "(", ")", "tcp", "[", "]",
                "tcpflags", "&", "|", "10.0.0.1", "80", "1-2", "ä", "10.0/9", "!=", "=",
            ];
            let mut text = String::new();
            while !u.is_empty() {
                text += u.choose(&words)?;
                if u.arbitrary()? {
                    text.push(' ');
                }
            }
            let _any = text.parse::<Filter>();
            Ok(())
        });
    }
}
