//! Packets that a capture has twice: they are no retransmits.

use super::*;

/// Identifications and timestamps as different senders set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderKind {
    /// Linux: counted.
    Counted,
    /// IPv6, or the identification 0.
    Stamped,
    /// macOS and the BSDs.
    Random,
    /// Windows without timestamps over IPv6.
    Bare,
}

const KINDS: [SenderKind; 4] =
    [SenderKind::Counted, SenderKind::Stamped, SenderKind::Random, SenderKind::Bare];

/// Twenty clients with answers of three segments; every `lossy`-th answer is lost behind the tap and
/// sent again after 250 ms.
fn site(kind: SenderKind, lossy: i64) -> TrafficScript {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let line = &mut script.open(80, client * 7, 10);
        for n in 0..10 {
            let at = 100 + n * 500 + client * 23;
            script.data(line, CLIENT, at, get("/item"));
            let answer = ok(2000);
            for part in answer.chunks(700) {
                script.data(line, SERVER, at + 20, part);
            }
            if lossy > 0 && (client * 10 + n) % lossy == 0 {
                line.ids[SERVER] += 1;
                script.again(250);
            }
            script.ack(line, CLIENT, at + 290);
        }
    }
    for (number, packet) in (1_u16..).zip(&mut script.packets) {
        match kind {
            SenderKind::Counted => {}
            SenderKind::Stamped => packet.ip_id = 0,
            SenderKind::Random => packet.ip_id = number.wrapping_mul(40_503).max(1),
            SenderKind::Bare => (packet.ip_id, packet.tick_us) = (0, 0),
        }
    }
    script.packets.sort_by_key(|packet| packet.ts);
    script
}

/// Copies each packet that `is_copied` selects, each time later by one of `delays` (µs).
fn copied(
    mut script: TrafficScript,
    delays: &[i64],
    is_copied: impl Fn(&OwnedPacket) -> bool,
) -> TrafficScript {
    let copies: Vec<OwnedPacket> = script
        .packets
        .iter()
        .filter(|packet| is_copied(packet))
        .flat_map(|packet| delays.iter().map(|delay| packet.copy(*delay)))
        .collect();
    script.packets.extend(copies);
    script
}

#[track_caller]
fn check_smooth(name: &str, script: TrafficScript) {
    let plain = script.packets.len();
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{name}: {}", report.why);
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.connections), (200, 200, 20), "{name}");
    assert_eq!(tier.evidence.syns, 20, "{name}");
    let sent_again: u32 = rows.connections.iter().flat_map(|one| one.retransmits).sum();
    assert_eq!(sent_again, 0, "{name}");
    assert!(report.skipped.count(SkipReason::Duplicate) > 0, "{name}: {plain} packets");
}

/// Bonded interfaces of node-pcap/node_pcap#100, outbound packets of nmap/npcap#745, and
/// both directions of loopback of zeek/zeek#4954.
#[test]
fn a_mirror_that_shows_packets_twice_loses_nothing() {
    for kind in KINDS {
        check_smooth(&format!("{kind:?}"), copied(site(kind, 0), &[4], |_| true));
        let from_server = |packet: &OwnedPacket| packet.from.port == 80;
        check_smooth(&format!("{kind:?}, one way"), copied(site(kind, 0), &[30], from_server));
        check_smooth(
            &format!("{kind:?}, four times"),
            copied(site(kind, 0), &[4, 11, 90], |_| true),
        );
    }
}

/// Each interface of a host that forwards shows a burst before the next one does: docker/for-mac#7363
/// and microsoft/retina#312. Segments of one answer come at once here, so their copies come after
/// all of them.
#[test]
fn a_burst_may_pass_one_interface_before_the_next() {
    for kind in KINDS {
        let mut script = copied(site(kind, 0), &[150], |_| true);
        for packet in script.packets.iter_mut().filter(|packet| packet.ts % MS != 0) {
            packet.ts += i64::from(packet.to.port == 80) * 20_000;
        }
        check_smooth(&format!("{kind:?}"), script);
    }
}

/// Taps on both sides of a firewall, 3 ms apart: identifications or timestamps tell.
#[test]
fn two_taps_in_one_file_show_one_connection() {
    for kind in [SenderKind::Counted, SenderKind::Stamped, SenderKind::Random] {
        check_smooth(&format!("{kind:?}"), copied(site(kind, 0), &[3000], |_| true));
    }
}

#[test]
fn losses_are_still_seen_among_copies() {
    for kind in KINDS {
        let (report, _) = copied(site(kind, 20), &[4], |_| true).run(ModelOptions::default());
        assert_eq!(report.verdict, DelayVerdict::PathLoss, "{kind:?}: {}", report.why);
        assert_eq!(report.tiers[0].evidence.retransmits, 10, "{kind:?}");
    }
}

/// Identifications may be skipped by a host that sends other packets between.
#[test]
fn a_skipped_identification_alone_is_no_loss() {
    let mut script = site(SenderKind::Counted, 0);
    let mut sent = std::collections::HashMap::new();
    for packet in script.packets.iter_mut().filter(|packet| packet.to.port == 80) {
        let count: &mut u16 = sent.entry(packet.from.port).or_default();
        *count += 1;
        packet.ip_id = packet.ip_id.wrapping_add(*count / 15);
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
    assert!(report.why.contains("without a hole"), "{}", report.why);
}
