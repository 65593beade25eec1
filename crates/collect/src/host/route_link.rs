//! Devices, addresses and queues of one network namespace, by rtnetlink.
//!
//! Source: rtnetlink(7), `linux/rtnetlink.h`, `linux/pkt_sched.h`, `linux/gen_stats.h`. The socket
//! belongs to the namespace in which it was created.
//!
//! ```text
//! after nlmsghdr (16 bytes):  tcmsg     16 family, pad   20 ifindex i32  24 handle u32  28 parent u32  32 info u32
//!                             ifinfomsg 16 family, type  20 ifindex i32  24 flags  28 change
//!                             ifaddrmsg 16 family u8, prefix u8, flags u8, scope u8  20 ifindex u32
//! ```

use std::io;
use std::net::IpAddr;

use super::netlink::{HEADER_LENGTH, Netlink, attributes, u32_at};

const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETQDISC: u16 = 38;
const LINK_LENGTH: usize = HEADER_LENGTH + 16;
const ADDRESS_LENGTH: usize = HEADER_LENGTH + 8;
const QDISC_LENGTH: usize = HEADER_LENGTH + 20;

const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RT_SCOPE_LINK: u8 = 253;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueStats {
    pub(super) device_number: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) kind: String,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) drops: u32,
    pub(super) overlimits: u32,
    pub(super) requeues: u32,
    pub(super) backlog_bytes: u32,
    pub(super) backlog_packets: u32,
    pub(super) rate_bytes_per_second: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct RouteLink(Netlink);

impl RouteLink {
    /// Opens a socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        Netlink::open(None).map(Self)
    }

    pub(super) fn devices(&mut self) -> io::Result<Vec<(u32, String)>> {
        let mut found = Vec::new();
        self.dump(RTM_GETLINK, LINK_LENGTH, |message| {
            let name = attributes(&message[LINK_LENGTH..]).find(|(kind, _)| *kind == IFLA_IFNAME);
            if let Some((_, name)) = name {
                found.push((u32_at(message, 20), text(name)));
            }
        })?;
        Ok(found)
    }

    /// Addresses of the namespace that are reachable from outside: no loopback, no link-local ones.
    pub(super) fn addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        let mut found = Vec::new();
        self.dump(RTM_GETADDR, ADDRESS_LENGTH, |message| {
            let is_wide = message[HEADER_LENGTH + 3] < RT_SCOPE_LINK;
            let mut both = attributes(&message[ADDRESS_LENGTH..]);
            // On a point-to-point device ADDRESS is the peer; IPv6 has only ADDRESS.
            let local = both.find(|(kind, _)| *kind == IFA_LOCAL);
            let first =
                attributes(&message[ADDRESS_LENGTH..]).find(|(kind, _)| *kind == IFA_ADDRESS);
            let address = local.or(first).and_then(|(_, value)| address(value));
            found.extend(address.filter(|address| is_wide && !address.is_loopback()));
        })?;
        Ok(found)
    }

    pub(super) fn queues(&mut self) -> io::Result<Vec<QueueStats>> {
        let mut found = Vec::new();
        self.dump(RTM_GETQDISC, QDISC_LENGTH, |message| found.push(queue(message)))?;
        Ok(found)
    }

    fn dump(&mut self, kind: u16, least: usize, take: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.dump(kind, &[0; QDISC_LENGTH][HEADER_LENGTH..least], least, take)
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

fn queue(message: &[u8]) -> QueueStats {
    let mut queue = QueueStats {
        device_number: u32_at(message, 20),
        handle: u32_at(message, 24),
        parent: u32_at(message, 28),
        ..QueueStats::default()
    };
    for (kind, value) in attributes(&message[QDISC_LENGTH..]) {
        match kind {
            TCA_KIND => queue.kind = text(value),
            TCA_STATS2 => {
                attributes(value).for_each(|(kind, value)| stats(&mut queue, kind, value))
            }
            _ => {}
        }
    }
    let options = attributes(&message[QDISC_LENGTH..]).find(|(kind, _)| *kind == TCA_OPTIONS);
    if let Some((_, options)) = options.filter(|_| queue.kind == "tbf") {
        for (kind, value) in attributes(options) {
            match kind {
                // tc_ratespec comes first, its rate at byte 8; a rate of 2^32 or more is in RATE64.
                TCA_TBF_PARMS if value.len() >= 12 && queue.rate_bytes_per_second.is_none() => {
                    queue.rate_bytes_per_second = Some(u32_at(value, 8).into());
                }
                TCA_TBF_RATE64 if value.len() >= 8 => {
                    queue.rate_bytes_per_second = Some(u64_at(value, 0));
                }
                _ => {}
            }
        }
    }
    queue
}

fn stats(queue: &mut QueueStats, kind: u16, value: &[u8]) {
    match kind {
        TCA_STATS_BASIC if value.len() >= 12 => {
            queue.bytes = u64_at(value, 0);
            queue.packets = queue.packets.max(u32_at(value, 8).into());
        }
        TCA_STATS_PKT64 if value.len() >= 8 => queue.packets = u64_at(value, 0),
        TCA_STATS_QUEUE if value.len() >= 20 => {
            queue.backlog_packets = u32_at(value, 0);
            queue.backlog_bytes = u32_at(value, 4);
            queue.drops = u32_at(value, 8);
            queue.requeues = u32_at(value, 12);
            queue.overlimits = u32_at(value, 16);
        }
        _ => {}
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("the slice has eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_name_and_queues_can_be_listed() {
        let mut link = RouteLink::open().unwrap();
        assert!(link.devices().unwrap().iter().any(|(_, name)| name == "lo"));
        assert!(link.addresses().unwrap().iter().all(|address| !address.is_loopback()));
        for queue in link.queues().unwrap() {
            assert!(!queue.kind.is_empty());
        }
    }

    #[test]
    fn broken_replies_do_not_panic() {
        arbtest::arbtest(|u| {
            let mut bytes: Vec<u8> = u.arbitrary()?;
            bytes.resize(bytes.len().max(QDISC_LENGTH), 0);
            queue(&bytes);
            Ok(())
        });
    }
}
