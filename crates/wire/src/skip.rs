//! Skipped packets, counted by reason so that nothing disappears silently.

/// Why a packet, or a stretch of a file, was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Skip {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Other protocols, such as UDP and ICMP.
    NotTcp,
    /// An unsupported link type.
    LinkType,
    /// The snap length cuts the headers.
    HeaderCut,
    /// Header fields contradict each other.
    Malformed,
    /// A fragment of an incomplete datagram.
    Fragment,
    /// Too many nested tunnels.
    Nesting,
    /// A pcapng packet of an undescribed interface.
    Interface,
    /// A record or block with an impossible length; what follows is not read.
    BadRecord,
    /// The file ends inside a record.
    FileCut,
    /// A line of text without a packet.
    Text,
    /// A duplicate, captured on another interface.
    Duplicate,
    /// A time too far from the first packet.
    Time,
    /// Excluded by the options: another port, server or time.
    Filter,
}

const REASONS: [(Skip, &str, &str); 14] = [
    (Skip::NotIp, "not_ip", "neither IPv4 nor IPv6, such as ARP"),
    (Skip::NotTcp, "not_tcp", "UDP, ICMP and other protocols than TCP"),
    (Skip::LinkType, "link_type", "a link type that weir does not read"),
    (Skip::HeaderCut, "header_cut", "the snap length cuts the headers"),
    (Skip::Malformed, "malformed", "header fields contradict each other"),
    (Skip::Fragment, "fragment", "an IP fragment whose siblings are not in the capture"),
    (Skip::Nesting, "nesting", "more tunnels in each other than weir follows"),
    (Skip::Interface, "interface", "a packet of an interface that the file does not describe"),
    (Skip::BadRecord, "bad_record", "a record's length cannot be true, so the rest was not read"),
    (Skip::FileCut, "file_cut", "the file ends inside of a record"),
    (Skip::Text, "text", "a line that describes no TCP packet"),
    (Skip::Duplicate, "duplicate", "the same packet again, seen on a second interface"),
    (Skip::Time, "time", "a time too far from the first packet's for slices of this width"),
    (Skip::Filter, "filter", "not asked for: another port, server or time"),
];

impl Skip {
    /// Name in output and explanation.
    pub fn describe(self) -> (&'static str, &'static str) {
        let (_, name, why) = REASONS[self as usize];
        (name, why)
    }
}

/// Number of skipped packets by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped([u64; REASONS.len()]);

impl Skipped {
    /// Counts one packet.
    pub fn add(&mut self, reason: Skip) {
        self.add_many(reason, 1);
    }

    /// Counts several packets.
    pub fn add_many(&mut self, reason: Skip, count: u64) {
        self.0[reason as usize] += count;
    }

    /// Count of one reason.
    pub fn count(&self, reason: Skip) -> u64 {
        self.0[reason as usize]
    }

    /// Sum over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Skipped) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64)> + '_ {
        REASONS.iter().map(|(reason, _, _)| (*reason, self.count(*reason))).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::REASONS;

    #[test]
    fn every_reason_stands_at_its_own_place() {
        for (at, (reason, name, _)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, at, "{name}");
        }
    }
}
