//! Skipped packets, counted by reason so that nothing disappears silently.

/// Why a packet, or a stretch of a file, was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum SkipReason {
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
    /// A tunnel that is encrypted or not supported.
    Tunnel,
    /// A pcapng packet of an undescribed interface.
    Interface,
    /// A record or block with an impossible length; what follows is not read.
    BadRecord,
    /// The file ends inside a record.
    FileCut,
    /// A line of text without a packet.
    Text,
    /// A copy of a packet, made by the capture.
    Duplicate,
    /// A time too far from the first packet.
    Time,
    /// Excluded by the options: another port, server or time.
    Filter,
}

const REASONS: [(SkipReason, &str, &str); 15] = [
    (SkipReason::NotIp, "not_ip", "neither IPv4 nor IPv6, such as ARP"),
    (SkipReason::NotTcp, "not_tcp", "other protocols, such as UDP and ICMP"),
    (SkipReason::LinkType, "link_type", "an unsupported link type"),
    (SkipReason::HeaderCut, "header_cut", "the snap length cuts the headers"),
    (SkipReason::Malformed, "malformed", "header fields contradict each other"),
    (SkipReason::Fragment, "fragment", "a fragment of an incomplete IP datagram"),
    (SkipReason::Nesting, "nesting", "too many nested tunnels"),
    (SkipReason::Tunnel, "tunnel", "an encrypted or unsupported tunnel, such as ESP or MACsec"),
    (SkipReason::Interface, "interface", "a packet of an undescribed interface"),
    (
        SkipReason::BadRecord,
        "bad_record",
        "a record with an impossible length; the rest was not read",
    ),
    (SkipReason::FileCut, "file_cut", "the file ends inside a record"),
    (SkipReason::Text, "text", "a line without a TCP packet"),
    (
        SkipReason::Duplicate,
        "duplicate",
        "a copy made by the capture, as by a mirror port or a second interface",
    ),
    (SkipReason::Time, "time", "a time too far from the first packet for this slice width"),
    (SkipReason::Filter, "filter", "excluded by the filter: another port, server or time"),
];

impl SkipReason {
    /// Name in output and explanation.
    pub fn describe(self) -> (&'static str, &'static str) {
        let (_, name, why) = REASONS[self as usize];
        (name, why)
    }
}

/// Number of skipped packets by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkipCounts([u64; REASONS.len()]);

impl SkipCounts {
    /// Counts one packet.
    pub fn add(&mut self, reason: SkipReason) {
        self.add_many(reason, 1);
    }

    /// Counts several packets.
    pub fn add_many(&mut self, reason: SkipReason, count: u64) {
        self.0[reason as usize] += count;
    }

    /// Count of one reason.
    pub fn count(&self, reason: SkipReason) -> u64 {
        self.0[reason as usize]
    }

    /// Sum over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &SkipCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
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
