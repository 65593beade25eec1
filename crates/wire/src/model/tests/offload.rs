//! Segments that a NIC merges and splits: what the tap shows is not what the network carried.

use super::*;

/// Bytes of a full segment with timestamps, by what both ends announce.
#[derive(Clone, Copy)]
struct SegmentSize(u16);

impl SegmentSize {
    fn payload(self) -> usize {
        usize::from(self.0) - 12
    }
}

/// Twenty connections with responses of `segments` full segments; `answer` sends each one.
fn site(
    size: SegmentSize,
    segments: usize,
    mut answer: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64, &[u8]),
) -> TrafficScript {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let line = &mut script.open(80, client * 7, 10);
        let length = script.packets.len();
        script.packets[length - 3..].iter_mut().for_each(|packet| {
            packet.segment_bytes_max = Some(size.0).filter(|_| packet.flags.has(Flags::SYN));
        });
        for n in 0..3 {
            // Small ones first: identifications count by one.
            script.exchange(line, 50 + n * 20 + client * 23, "/small", 5);
        }
        for n in 0..10 {
            let at = 200 + n * 500 + client * 23;
            script.data(line, CLIENT, at, get("/large"));
            let length = size.payload() * segments;
            let head = ok(length).len() - length;
            answer(&mut script, line, at + 20, &ok(length - head));
            script.ack(line, CLIENT, at + 290);
        }
    }
    script
}

/// Sends segments as one packet that the NIC splits, and takes an identification for each.
fn merged(
    script: &mut TrafficScript,
    line: &mut ScriptedConnection,
    at: i64,
    [bytes, size]: [&[u8]; 2],
) {
    script.data(line, SERVER, at, bytes);
    let count = bytes.len().div_ceil(size.len());
    line.ids[SERVER] += u16::try_from(count - 1).expect("few");
}

/// ucsb-seclab/CVEX#6 and cilium/cilium#5535: `-i any` shows a packet as the virtual interface has it,
/// merged, and as the physical one does, in segments that are smaller than those of Ethernet.
#[test]
fn segments_of_a_merged_packet_are_its_copies() {
    for announced in [536, 1220, 1410, 1460, 8960] {
        let size = SegmentSize(announced);
        for is_split_first in [false, true] {
            let full = vec![0; size.payload()];
            let mut script = site(size, 65_000 / size.payload(), |script, line, at, bytes| {
                merged(script, line, at, [bytes, &full]);
            });
            let mut segments = Vec::new();
            for packet in script.packets.iter_mut().filter(|one| one.payload.len() > full.len()) {
                for (n, part) in (0_u16..).zip(packet.payload.chunks(full.len())) {
                    let offset = u32::from(n) * u32::try_from(full.len()).expect("short");
                    segments.push(OwnedPacket {
                        seq: packet.seq.wrapping_add(offset),
                        ip_id: packet.ip_id.wrapping_add(n),
                        payload: part.to_vec(),
                        ..packet.copy(40 + i64::from(n))
                    });
                }
                if is_split_first {
                    packet.ts += 200_000;
                }
            }
            script.packets.extend(segments);
            let (report, rows) = script.run(ModelOptions::default());
            let name = format!("{announced} bytes, {is_split_first}: {}", report.why);
            assert_eq!(report.verdict, DelayVerdict::Smooth, "{name}");
            assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (260, 260), "{name}");
            assert!(rows.connections.iter().all(|one| one.retransmits == [0, 0]), "{name}");
            assert!(rows.connections.iter().all(|one| one.missing[1] == Some(0)), "{name}");
        }
    }
}

/// NetFPGA/P4-NetFPGA-public#21: frames of 9,000 bytes take one identification each, and a packet that
/// is sent again takes the next one.
#[test]
fn losses_of_jumbo_frames_are_seen() {
    let mut count = 0;
    let script = site(SegmentSize(8960), 1, |script, line, at, bytes| {
        script.data(line, SERVER, at, bytes);
        count += 1;
        if count % 20 == 0 {
            line.ids[SERVER] += 1;
            script.again(210);
        }
    });
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.tiers[0].evidence.retransmits, 10);
    assert_eq!(report.verdict, DelayVerdict::PathLoss, "{}", report.why);
}

/// Reports of duplicates are copied as other packets are: a retransmit is spurious once.
#[test]
fn a_copied_report_of_a_duplicate_counts_once() {
    let mut script = TrafficScript::default();
    for client in 0..20_i64 {
        let line = &mut script.open(80, client * 7, 10);
        for n in 0..10 {
            let at = 100 + n * 500 + client * 23;
            script.data(line, CLIENT, at, get("/item"));
            script.data(line, SERVER, at + 20, ok(900));
            script.again(250);
            let right = line.next[SERVER];
            let is_spurious = n % 2 == 0;
            script.ack(line, CLIENT, at + 290);
            script.packets.last_mut().expect("it was pushed").dsack =
                is_spurious.then_some(SackBlock { left: right.wrapping_sub(900), right });
        }
    }
    script.packets.iter_mut().for_each(|packet| packet.ip_id = 0);
    let copies: Vec<OwnedPacket> = script.packets.iter().map(|packet| packet.copy(30)).collect();
    script.packets.extend(copies);
    let (report, _) = script.run(ModelOptions::default());
    let evidence = &report.tiers[0].evidence;
    assert_eq!((evidence.retransmits, evidence.spurious), (200, 100));
    assert_eq!(report.verdict, DelayVerdict::PathLoss, "{}", report.why);
}
