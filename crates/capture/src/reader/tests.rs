//! Captures built byte by byte, read by this crate and by the oracles `pcap-parser` and
//! `etherparse`.

use std::io::{Cursor, Write};

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use pcap_parser::{Block, PcapBlockOwned, PcapError};

use super::{Capture, CaptureFormat, CaptureInput};
use crate::packet::{Direction, Endpoint, Flags, Packet, SackBlock, Timestamps};
use crate::skip::{SkipCounts, SkipReason};

/// Compared fields of a packet, with an owned payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodedPacket {
    pub(crate) ts_ns: i64,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) seq: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_length: u32,
    pub(crate) direction: Direction,
    pub(crate) interface: u32,
}

pub(crate) fn read(bytes: &[u8]) -> (Vec<DecodedPacket>, SkipCounts) {
    let input =
        CaptureInput::from_stream("test", Box::new(Cursor::new(bytes.to_vec()))).expect("bytes");
    let mut capture = Capture::new(input).expect("a capture");
    let mut seen = Vec::new();
    let mut each = |packet: &Packet<'_>| {
        seen.push(DecodedPacket {
            ts_ns: packet.ts_ns,
            from: packet.from.to_string(),
            to: packet.to.to_string(),
            seq: packet.seq,
            payload: packet.payload.to_vec(),
            payload_length: packet.payload_length,
            direction: packet.direction,
            interface: packet.interface,
        });
    };
    while capture.step(&mut each).expect("memory can be read") {}
    (seen, capture.skipped())
}

/// Numbers in the byte order of a file.
pub(crate) struct ByteOrder {
    pub(crate) is_big: bool,
}

impl ByteOrder {
    fn u16(&self, value: u16) -> [u8; 2] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.is_big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

pub(crate) fn pcap(
    order: &ByteOrder,
    magic: u32,
    link: u32,
    frames: &[(u32, u32, &[u8])],
) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(order.u32(magic));
    out.extend(order.u16(2));
    out.extend(order.u16(4));
    for value in [0, 0, 65_535, link] {
        out.extend(order.u32(value));
    }
    for (seconds, fraction, frame) in frames {
        let length = u32::try_from(frame.len()).expect("short");
        for value in [*seconds, *fraction, length, length] {
            out.extend(order.u32(value));
        }
        out.extend(*frame);
    }
    out
}

fn block(order: &ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = u32::try_from(padded + 12).expect("short");
    let mut out = [order.u32(kind), order.u32(total)].concat();
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(order.u32(total));
    out
}

fn section(order: &ByteOrder) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: &ByteOrder, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = order.u16(link).to_vec();
    body.extend([0; 6]);
    if let Some(resolution) = resolution {
        body.extend(order.u16(9));
        body.extend(order.u16(1));
        body.extend([resolution, 0, 0, 0, 0, 0, 0, 0]);
    }
    block(order, 1, &body)
}

fn enhanced(order: &ByteOrder, interface: u32, ticks: u64, frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).expect("short");
    let (high, low) = ((ticks >> 32) as u32, u32::try_from(ticks & 0xffff_ffff).expect("masked"));
    let mut body = Vec::new();
    for value in [interface, high, low, length, length] {
        body.extend(order.u32(value));
    }
    body.extend(frame);
    block(order, 6, &body)
}

pub(crate) const LITTLE: ByteOrder = ByteOrder { is_big: false };
const BIG: ByteOrder = ByteOrder { is_big: true };

/// An Ethernet frame with a segment of `payload`.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(40_000, 80, 7, 512)
        .ack(9)
        .write(&mut out, payload)
        .expect("memory takes all");
    out
}

#[test]
fn pcap_is_read_in_both_orders_and_units() {
    let frame = frame(b"GET / HTTP/1.1\r\n\r\n");
    for order in [LITTLE, BIG] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let (seen, skipped) =
                read(&pcap(&order, magic, 1, &[(1_700_000_000, 123_456, &frame)]));
            assert_eq!(skipped.total(), 0);
            assert_eq!(seen.len(), 1);
            assert_eq!(seen[0].ts_ns, 1_700_000_000_000_000_000 + 123_456 * unit);
            assert_eq!((&*seen[0].from, &*seen[0].to), ("192.0.2.1:40000", "192.0.2.2:80"));
            assert_eq!(seen[0].payload, b"GET / HTTP/1.1\r\n\r\n");
        }
    }
}

#[test]
fn pcapng_has_a_unit_for_each_interface_and_an_order_for_each_section() {
    let frame = frame(b"x");
    let mut file = Vec::new();
    for order in [LITTLE, BIG] {
        file.extend(section(&order));
        file.extend(interface(&order, 1, None));
        file.extend(interface(&order, 1, Some(9)));
        file.extend(interface(&order, 1, Some(0x80 | 20)));
        file.extend(enhanced(&order, 0, 1_700_000_000_000_001, &frame));
        file.extend(block(&order, 0x0bad, b"a custom block"));
        file.extend(enhanced(&order, 1, 1_700_000_000_000_000_002, &frame));
        file.extend(enhanced(&order, 2, (1_700_000_000 << 20) + (1 << 19), &frame));
        file.extend(enhanced(&order, 3, 1, &frame));
    }
    let (seen, skipped) = read(&file);
    let times: Vec<i64> =
        seen.iter().map(|packet| packet.ts_ns - 1_700_000_000_000_000_000).collect();
    assert_eq!(times, [1000, 2, 500_000_000, 1000, 2, 500_000_000]);
    assert_eq!(seen.iter().map(|packet| packet.interface).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    assert_eq!(skipped.count(SkipReason::Interface), 2);
}

/// The oracle's result: time in ns, and the frame.
fn by_pcap_parser(file: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let mut reader = pcap_parser::create_reader(65_536, Cursor::new(file)).expect("a capture");
    let (mut out, mut units) = (Vec::new(), Vec::new());
    let mut ns_per_fraction = 1000;
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        ns_per_fraction = if header.is_nanosecond_precision() { 1 } else { 1000 };
                    }
                    PcapBlockOwned::Legacy(record) => out.push((
                        i64::from(record.ts_sec) * 1_000_000_000
                            + i64::from(record.ts_usec) * ns_per_fraction,
                        record.data.to_vec(),
                    )),
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => units.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                        units.push(description.ts_resolution().expect("a resolution"));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let unit = i64::try_from(units[packet.if_id as usize]).expect("small");
                        let ticks = i64::from(packet.ts_high) << 32 | i64::from(packet.ts_low);
                        let length = packet.caplen as usize;
                        out.push((ticks * (1_000_000_000 / unit), packet.data[..length].to_vec()));
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return out,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("memory can be read"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn both_formats_hold_what_pcap_parser_finds_in_them() {
    let frames: Vec<Vec<u8>> = (0..40).map(|n| frame(&vec![b'a'; n * 7])).collect();
    let stamped: Vec<(u32, u32, &[u8])> =
        (0_u32..).zip(&frames).map(|(n, frame)| (1_700_000_000 + n, n * 11, &frame[..])).collect();
    let mut files =
        vec![pcap(&LITTLE, 0xa1b2_c3d4, 1, &stamped), pcap(&BIG, 0xa1b2_3c4d, 1, &stamped)];
    let mut file = section(&LITTLE);
    file.extend(interface(&LITTLE, 1, Some(6)));
    file.extend(interface(&LITTLE, 1, Some(9)));
    for (n, frame) in (0_u64..).zip(&frames) {
        let number = u32::from(n % 2 == 1);
        file.extend(enhanced(&LITTLE, number, 1_700_000_000_000_000 + n, frame));
    }
    files.push(file);
    for file in files {
        let oracle = by_pcap_parser(&file);
        let (seen, skipped) = read(&file);
        assert_eq!((seen.len(), skipped.total()), (40, 0));
        for (packet, (ts_ns, frame)) in seen.iter().zip(&oracle) {
            assert_eq!(packet.ts_ns, *ts_ns);
            assert!(frame.ends_with(&packet.payload));
        }
    }
}

/// NotYuSheng/TracePcap#23, the-tcpdump-group/libpcap#1078 and #1252: interfaces of one file differ in link
/// type and snapshot length. microsoft/etl2pcapng PR 28: the length before the cut may be lost.
#[test]
fn interfaces_of_one_file_may_differ_in_all() {
    let whole = frame(&[b'x'; 500]);
    let mut file = section(&LITTLE);
    for (link, length) in [(1, 0_u32), (101, 262_144), (1, 96), (276, 65_535)] {
        let mut interface = interface(&LITTLE, link, None);
        interface[12..16].copy_from_slice(&length.to_le_bytes());
        file.extend(interface);
    }
    let cooked =
        [&[8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0], &whole[14..]].concat();
    for (number, frame) in (0..).zip([&whole[..], &whole[14..], &whole[..96], &cooked]) {
        file.extend(enhanced(&LITTLE, number, 5 + u64::from(number), frame));
    }
    let (seen, skipped) = read(&file);
    assert_eq!((seen.len(), skipped.total()), (4, 0));
    for (packet, expected) in seen.iter().zip([500, 500, 96 - 54, 500]) {
        assert_eq!((packet.payload_length, packet.payload.len()), (500, expected));
    }
}

#[test]
fn packed_streams_are_unpacked_and_a_cut_one_gives_what_it_holds() {
    let frame = frame(&[b'x'; 500]);
    let plain = pcap(&LITTLE, 0xa1b2_c3d4, 1, &vec![(1, 2, &frame[..]); 5000]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).expect("memory takes all");
    let gz = gz.finish().expect("memory takes all");
    let zst = zstd::encode_all(&plain[..], 1).expect("memory takes all");
    for packed in [&gz, &zst] {
        let (seen, skipped) = read(packed);
        assert_eq!((seen.len(), skipped.total()), (5000, 0));
        let (seen, skipped) = read(&packed[..packed.len() - 9]);
        assert!(seen.len() <= 5000);
        assert_eq!(skipped.count(SkipReason::FileCut), 1);
    }
}

#[test]
fn what_is_no_capture_is_refused_with_a_hint() {
    let open =
        |bytes: &[u8]| CaptureInput::from_stream("stdin", Box::new(Cursor::new(bytes.to_vec())));
    let error = open(b"").err().expect("nothing is no capture");
    assert_eq!(error.message(), "cannot read `stdin`: it is empty");
    let input = open(b"hello, world").expect("it can be read");
    assert_eq!(input.format(), CaptureFormat::Text);
    let error = Capture::new(input).err().expect("text is no capture");
    assert!(error.hint().contains("tcpdump"), "{}", error.hint());
}

#[test]
fn a_file_cut_anywhere_gives_the_whole_records_before() {
    let frame = frame(b"GET / HTTP/1.1\r\n\r\n");
    let mut ng = section(&LITTLE);
    ng.extend(interface(&LITTLE, 1, None));
    for _ in 0..3 {
        ng.extend(enhanced(&LITTLE, 0, 5, &frame));
    }
    for file in [pcap(&LITTLE, 0xa1b2_c3d4, 1, &[(1, 2, &frame[..]); 3]), ng] {
        let whole = read(&file).0;
        for length in 4..file.len() {
            let (seen, skipped) = read(&file[..length]);
            assert_eq!(seen, whole[..seen.len()]);
            assert!(skipped.count(SkipReason::FileCut) + skipped.count(SkipReason::BadRecord) <= 1);
        }
    }
}

#[test]
fn a_length_that_cannot_be_true_ends_reading_and_is_counted() {
    let frame = frame(b"x");
    let mut file = pcap(&LITTLE, 0xa1b2_c3d4, 1, &[(1, 2, &frame), (1, 3, &frame)]);
    let second = 24 + 16 + frame.len() + 8;
    file[second..second + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let (seen, skipped) = read(&file);
    assert_eq!((seen.len(), skipped.count(SkipReason::BadRecord)), (1, 1));
}

#[test]
fn link_layers_tags_and_tunnels_lead_to_the_same_segment() {
    let ethernet = frame(b"hello");
    let ip = &ethernet[14..];
    let mut cooked = vec![0, 4, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0, 8, 0];
    cooked.extend(ip);
    let mut cooked2 = vec![8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0];
    cooked2.extend(ip);
    let loopback = [&[2, 0, 0, 0], ip].concat();
    let tagged = |tags: &[u8]| [&ethernet[..12], tags, &ethernet[12..]].concat();
    let outer = |protocol: u8, head: &[u8], body: &[u8]| {
        let body = [head, body].concat();
        let length = u16::try_from(20 + body.len()).expect("short").to_be_bytes();
        let mut out = vec![0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0];
        out.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        [out, body].concat()
    };
    let gre = outer(47, &[0x20, 0, 8, 0, 0, 0, 0, 9], ip);
    let bridged = outer(47, &[0, 0, 0x65, 0x58], &ethernet);
    let vxlan = outer(17, &[0, 9, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 5, 0], &ethernet);
    let cases: [(&str, u32, Vec<u8>); 11] = [
        ("ethernet", 1, ethernet.clone()),
        ("vlan", 1, tagged(&[0x81, 0, 0, 5])),
        ("qinq", 1, tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])),
        ("sll", 113, cooked),
        ("sll2", 276, cooked2),
        ("raw", 101, ip.to_vec()),
        ("null", 0, loopback),
        ("loop", 108, [&[0, 0, 0, 2], ip].concat()),
        ("gre", 101, gre),
        ("gre bridged", 101, bridged),
        ("vxlan", 101, vxlan),
    ];
    for (name, link, bytes) in cases {
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, link, &[(1, 2, &bytes)]));
        assert_eq!((seen.len(), skipped.total()), (1, 0), "{name}: {skipped:?}");
        assert_eq!((&*seen[0].from, &*seen[0].to), ("192.0.2.1:40000", "192.0.2.2:80"), "{name}");
        assert_eq!(seen[0].payload, b"hello", "{name}");
        let direction = match name {
            "sll" => Direction::Out,
            "sll2" => Direction::In,
            _ => Direction::Unknown,
        };
        assert_eq!(seen[0].direction, direction, "{name}");
        assert_eq!(seen[0].interface, if name == "sll2" { 7 } else { 0 }, "{name}");
    }
}

#[test]
fn fragments_are_put_together_in_any_order() {
    let whole = frame(&[b'z'; 100]);
    let piece = |from: usize, to: usize, is_last: bool| {
        let body = &whole[34 + from..34 + to];
        let length = u16::try_from(20 + body.len()).expect("short").to_be_bytes();
        let field = u16::try_from(from / 8).expect("short") | if is_last { 0 } else { 0x2000 };
        let mut out = whole[..34].to_vec();
        out[16..18].copy_from_slice(&length);
        out[20..22].copy_from_slice(&field.to_be_bytes());
        [out, body.to_vec()].concat()
    };
    let (a, b, c) = (piece(0, 48, false), piece(48, 96, false), piece(96, 120, true));
    for order in [[&a, &b, &c], [&c, &a, &b], [&b, &c, &a]] {
        let frames: Vec<(u32, u32, &[u8])> = order.iter().map(|piece| (1, 2, &piece[..])).collect();
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 1, &frames));
        assert_eq!((seen.len(), skipped.total()), (1, 0));
        assert_eq!(seen[0].payload, [b'z'; 100]);
    }
    let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 1, &[(1, 2, &a), (1, 3, &c)]));
    assert_eq!((seen.len(), skipped.count(SkipReason::Fragment)), (0, 2));
}

#[test]
fn options_say_scale_timestamps_and_duplicates() {
    let mut bytes = Vec::new();
    let dsack = etherparse::TcpOptionElement::SelectiveAcknowledgement((100, 200), [None; 3]);
    PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(40_000, 80, 7, 512)
        .syn()
        .ack(300)
        .options(&[
            etherparse::TcpOptionElement::MaximumSegmentSize(1460),
            etherparse::TcpOptionElement::WindowScale(7),
            etherparse::TcpOptionElement::Timestamp(11, 12),
            dsack,
        ])
        .expect("they fit")
        .write(&mut bytes, &[])
        .expect("memory takes all");
    let mut seen = 0;
    let mut check = |packet: &Packet<'_>| {
        seen += 1;
        assert_eq!(packet.window_scale, Some(7));
        assert_eq!(packet.timestamps, Some(Timestamps { value: 11, echo: 12 }));
        assert_eq!(packet.dsack, Some(SackBlock { left: 100, right: 200 }));
        assert!(packet.flags.has(Flags::SYN | Flags::ACK));
    };
    decode(&bytes, &mut check);
    assert_eq!(seen, 1);
}

/// Decodes a segment that begins with its IP header.
fn decode(bytes: &[u8], note: &mut impl FnMut(&Packet<'_>)) {
    let record = crate::frame::Record {
        ts_ns: 5,
        link: crate::frame::LinkType::Raw,
        interface: 0,
        wire_length: u32::try_from(bytes.len()).expect("short"),
        bytes,
    };
    let mut decoder = crate::decode::Decoder::default();
    decoder.decode(&record, &mut SkipCounts::default(), note).expect("a segment");
}

#[test]
fn a_further_path_of_multipath_tcp_says_so() {
    for (subtype, expected) in [(0, false), (1, true), (3, false)] {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
            .tcp(40_000, 80, 7, 512)
            .syn()
            .options_raw(&[2, 4, 5, 180, 30, 12, subtype << 4, 2, 1, 2, 3, 4, 5, 6, 7, 8])
            .expect("they fit")
            .write(&mut bytes, &[])
            .expect("memory takes all");
        let mut seen = Vec::new();
        let mut note = |packet: &Packet<'_>| seen.push(packet.is_join);
        decode(&bytes, &mut note);
        assert_eq!(seen, [expected], "{subtype}");
    }
}

/// One random frame of one of many shapes.
fn random_frame(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<Vec<u8>> {
    let payload: Vec<u8> = u.arbitrary()?;
    let builder = PacketBuilder::ethernet2(u.arbitrary()?, u.arbitrary()?);
    let builder = match u.int_in_range(0..=3)? {
        0 => builder.ipv4(u.arbitrary()?, u.arbitrary()?, 64),
        1 => builder.ipv6(u.arbitrary()?, u.arbitrary()?, 64),
        2 => {
            let tag = etherparse::VlanId::try_new(u.int_in_range(0..=4095)?).expect("below 4096");
            builder.single_vlan(tag).ipv4(u.arbitrary()?, u.arbitrary()?, 64)
        }
        _ => builder.double_vlan(etherparse::VlanId::ZERO, etherparse::VlanId::ZERO).ipv6(
            u.arbitrary()?,
            u.arbitrary()?,
            64,
        ),
    };
    let mut out = Vec::new();
    let builder = builder.tcp(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
    builder.ack(u.arbitrary()?).write(&mut out, &payload).expect("memory takes all");
    Ok(out)
}

#[test]
fn every_field_is_what_etherparse_says() {
    arbtest::arbtest(|u| {
        let bytes = random_frame(u)?;
        let mut decoder = crate::decode::Decoder::default();
        let record = crate::frame::Record {
            ts_ns: 5,
            link: crate::frame::LinkType::Ethernet,
            interface: 0,
            wire_length: u32::try_from(bytes.len()).expect("short"),
            bytes: &bytes,
        };
        let mut seen = 0;
        let mut check = |packet: &Packet<'_>| {
            seen += 1;
            let oracle = SlicedPacket::from_ethernet(&bytes).expect("it was built by etherparse");
            let Some(TransportSlice::Tcp(tcp)) = oracle.transport else { panic!("a segment") };
            let (from, to) = match oracle.net.expect("it has one") {
                etherparse::NetSlice::Ipv4(ip) => {
                    assert_eq!(packet.ip_id, Some(ip.header().identification()));
                    (ip.header().source_addr().into(), ip.header().destination_addr().into())
                }
                etherparse::NetSlice::Ipv6(ip) => {
                    (ip.header().source_addr().into(), ip.header().destination_addr().into())
                }
                etherparse::NetSlice::Arp(_) => panic!("no segment"),
            };
            assert_eq!(packet.from, Endpoint::new(from, tcp.source_port()));
            assert_eq!(packet.to, Endpoint::new(to, tcp.destination_port()));
            assert_eq!(
                (packet.seq, packet.ack),
                (tcp.sequence_number(), tcp.acknowledgment_number())
            );
            assert_eq!(packet.window, tcp.window_size());
            assert_eq!(packet.payload, tcp.payload());
            assert_eq!(packet.payload_length as usize, tcp.payload().len());
            assert_eq!(packet.flags.has(Flags::ACK), tcp.ack());
        };
        decoder.decode(&record, &mut SkipCounts::default(), &mut check).expect("a segment");
        assert_eq!(seen, 1);
        Ok(())
    });
}

#[test]
fn random_bytes_are_counted_and_never_panic() {
    arbtest::arbtest(|u| {
        let mut file = match u.int_in_range(0..=2)? {
            0 => pcap(&LITTLE, 0xa1b2_c3d4, *u.choose(&[0, 1, 101, 113, 276])?, &[]),
            1 => [section(&LITTLE), interface(&LITTLE, 1, u.arbitrary()?)].concat(),
            _ => Vec::from(0xa1b2_c3d4_u32.to_be_bytes()),
        };
        let count: u8 = u.int_in_range(0..=8)?;
        for _ in 0..count {
            let mut bytes = if u.arbitrary()? { random_frame(u)? } else { u.arbitrary()? };
            if !bytes.is_empty() {
                let at = u.choose_index(bytes.len())?;
                bytes[at] = u.arbitrary()?;
            }
            if file.starts_with(&LITTLE.u32(0xa1b2_c3d4)) {
                let length = u32::try_from(bytes.len()).expect("short");
                for value in [u.arbitrary()?, u.arbitrary()?, length, u.arbitrary()?] {
                    file.extend(LITTLE.u32(value));
                }
                file.extend(bytes);
            } else {
                file.extend(enhanced(&LITTLE, u.int_in_range(0..=1)?, u.arbitrary()?, &bytes));
            }
        }
        let (seen, skipped) = read(&file);
        // A record's header has sixteen bytes; bytes after a lone magic may look like more records
        // than were written.
        let records = file.len() as u64 / 16;
        assert!(seen.len() as u64 + skipped.total() <= records + 1);
        Ok(())
    });
}
