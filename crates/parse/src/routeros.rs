//! Messages of MikroTik's RouterOS, which begin with their topics: `firewall,info drop input: in:ether1 …`.
//!
//! Source: MikroTik's manual, "Log". One of the topics is the severity. The surprising thing: without
//! `remote-log-format=bsd-syslog`, a datagram has the topics first, and neither priority nor time.

use weir_values::{peer_address, severity};

use crate::record::Record;
use crate::text;

/// Longest list of topics.
const MAX_TOPICS_BYTES: usize = 64;
/// Topics that are no severity.
const TOPICS: &str = "account acme amt async backup bfd bgp bridge calc caps certificate clock container \
    ddns dhcp disk dns dot1x dude e-mail event evpn fetch firewall gps gsm health hotspot igmp-proxy interface \
    iot ipsec iscsi isdn isis kvm l2tp ldp lora lte manager mme mpls mqtt mvrp natpmp netinstall netwatch ntp \
    ospf ovpn packet pim poe-out ppp pppoe pptp ptp queue radius radvd raw read rip route rpki rsvp script \
    sertcp simulator smb snmp ssh sstp state store stp system telephony tftp timer tr069 update upnp ups vpls \
    vrrp watchdog web-proxy wireguard wireless write zerotier";

/// Reads a line or a message; `None`, with the record unchanged, without topics.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (list, message) = topics(line)?;
    let mut topics = list.split(',');
    record.log.severity = topics.clone().find_map(severity_of);
    record.log.program = topics.find(|topic| severity_of(topic).is_none());
    record.log.body = message;
    record.attr(["topics", list]);
    if record.log.program == Some("firewall") {
        packet(message, record);
    }
    Some(())
}

/// Splits the topics off: lower-case words with commas between them, one of them a severity.
pub(crate) fn topics(line: &str) -> Option<(&str, &str)> {
    let head = &line.as_bytes()[..line.len().min(MAX_TOPICS_BYTES)];
    if !matches!(head.first(), Some(b'a'..=b'z')) {
        return None;
    }
    let letters =
        head.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b",-".contains(byte));
    let length = letters.count();
    let (list, rest) = line.split_at(length);
    let message = rest.strip_prefix(' ')?;
    let has_severity =
        list.contains(',') && list.split(',').any(|topic| severity_of(topic).is_some());
    (has_severity && list.split(',').all(is_topic)).then_some((list, message))
}

fn is_topic(word: &str) -> bool {
    severity_of(word).is_some() || TOPICS.split(' ').any(|topic| topic == word)
}

fn severity_of(topic: &str) -> Option<&'static str> {
    let is_level = matches!(topic, "debug" | "info" | "warning" | "error" | "critical");
    if is_level { severity::of_word(topic) } else { None }
}

/// `drop input: in:ether1 out:(unknown 0), src-mac …, proto TCP (SYN), 192.0.2.1:59388->10.0.0.1:37, len 40`.
fn packet<'a>(message: &'a str, record: &mut Record<'a>) {
    let word_behind = |mark: &str| {
        let (_, behind) = message.split_once(mark)?;
        Some(text::word(behind).0.trim_end_matches(','))
    };
    for (name, mark) in
        [("in_interface", " in:"), ("out_interface", " out:"), ("protocol", ", proto ")]
    {
        let known = word_behind(mark).filter(|word| !word.starts_with('('));
        record.attr([name, known.unwrap_or_default()]);
    }
    let Some((before, behind)) = message.split_once("->") else { return };
    let source = before.rsplit(' ').next().unwrap_or_default();
    let destination = behind.split([',', ' ']).next().unwrap_or_default();
    for (names, peer) in [
        (["source_address", "source_port"], source),
        (["destination_address", "destination_port"], destination),
    ] {
        let (address, port) = peer_address::split_port(peer);
        if peer_address::is_address(address) {
            record.attr([names[0], address]);
            let port = port.map(|port| &*record.arena.alloc_str(&port.to_string()));
            record.attr([names[1], port.unwrap_or_default()]);
        }
    }
}
