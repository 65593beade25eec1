//! Frames of switches, overlays and mirrors, as bug reports of other programs describe them: each
//! holds the same segment.

use super::CaptureInput;
use super::order::FileOrder;
use super::tests::{LITTLE, frame, pcap, read};
use crate::skip::SkipReason;

/// An IPv4 datagram around `body`.
fn datagram(protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + body.len()).expect("short").to_be_bytes();
    let mut out = vec![0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0];
    out.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    [&out, body].concat()
}

fn udp(port: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).expect("short").to_be_bytes();
    let port = port.to_be_bytes();
    let head = [0xc3, 0x50, port[0], port[1], length[0], length[1], 0, 0];
    datagram(17, &[&head, body].concat())
}

fn gre(head: &[u8], body: &[u8]) -> Vec<u8> {
    datagram(47, &[head, body].concat())
}

fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ethertype.to_be_bytes(), body].concat()
}

#[track_caller]
fn check(name: &str, link: u32, bytes: &[u8]) {
    let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, link, &[(1, 2, bytes)]));
    assert_eq!((seen.len(), skipped.total()), (1, 0), "{name}: {skipped:?}");
    assert_eq!((&*seen[0].from, &*seen[0].to), ("192.0.2.1:40000", "192.0.2.2:80"), "{name}");
    assert_eq!((&seen[0].payload[..], seen[0].payload_length), (&b"hello"[..], 5), "{name}");
}

/// elastic/beats#34977, ntop/ntopng#5008 and #6653, sipcapture/heplify#211, irontec/sngrep#275, and
/// the VN tag of sipcapture/heplify#120.
#[test]
fn tags_labels_and_ppp_are_looked_through() {
    let frame = frame(b"hello");
    let ip = &frame[14..];
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    let length = u16::try_from(ip.len() + 2).expect("short").to_be_bytes();
    let pppoe = with(&[0x11, 0, 0, 1, length[0], length[1], 0, 0x21], ip);
    let label = [0, 0x3e, 0x81, 64];
    let stack = [[0, 0x3e, 0x80, 64], label].concat();
    check("mpls", 1, &ethernet(0x8847, &with(&label, ip)));
    check("two labels", 1, &ethernet(0x8847, &with(&stack, ip)));
    check("pseudowire", 1, &ethernet(0x8847, &with(&label, &frame)));
    let control_word = [label, [0; 4]].concat();
    check("pseudowire with control word", 1, &ethernet(0x8848, &with(&control_word, &frame)));
    check("pppoe", 1, &ethernet(0x8864, &pppoe));
    check("pppoe in a vlan", 1, &ethernet(0x8100, &with(&[0, 7, 0x88, 0x64], &pppoe)));
    check("pppoe, padded", 1, &ethernet(0x8864, &with(&pppoe, &[0; 9])));
    check(
        "three tags",
        1,
        &ethernet(0x88a8, &with(&[0, 5, 0x91, 0, 0, 6, 0x81, 0, 0, 7, 8, 0], ip)),
    );
    check("vn tag", 1, &ethernet(0x8926, &with(&[0x80, 1, 0, 2, 8, 0], ip)));
    check("provider backbone", 1, &ethernet(0x88e7, &with(&[0, 0, 0, 1], &frame)));
    check("snap", 1, &ethernet(60, &with(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip)));
    check("ppp", 9, &with(&[0xff, 3, 0, 0x21], ip));
    check("ppp, compressed", 9, &with(&[0x21], ip));
    check("hdlc", 104, &with(&[0x0f, 0, 8, 0], ip));
    let attribute = u16::try_from(4 + ip.len()).expect("short").to_le_bytes();
    let nflog = [&[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 1, 0][..], &attribute, &[9, 0], ip].concat();
    check("nflog", 239, &nflog);
}

/// OISF/suricata#4475 and zeek/zeek#1445 (ERSPAN I), zeek/zeek#887 (ERSPAN with a tag inside),
/// sipcapture/heplify#120 (ERSPAN III), zeek/zeek#1764 (GENEVE in VXLAN), ntop/nProbe#614 (GTP),
/// lpefferkorn/ipdecap#6 (TZSP).
#[test]
fn tunnels_and_mirrors_are_looked_through() {
    let frame = frame(b"hello");
    let ip = &frame[14..];
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    let sequence = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 9];
    check("erspan i", 101, &gre(&[0, 0, 0x88, 0xbe], &frame));
    check("erspan ii", 101, &gre(&sequence, &with(&[0x10, 0, 0, 1, 0, 0, 0, 0], &frame)));
    check(
        "erspan ii with a tag",
        101,
        &gre(&sequence, &with(&[0x10, 0, 0, 1, 0, 0, 0, 0], &tagged)),
    );
    let third = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 9];
    let plain = [0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    check("erspan iii", 101, &gre(&third, &with(&plain, &frame)));
    let long = [0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    check("erspan iii with a subheader", 101, &gre(&third, &with(&long, &frame)));
    let of_ip = [0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x08, 0];
    check("erspan iii of ip", 101, &gre(&third, &with(&of_ip, ip)));
    check("gre with key and sequence", 101, &gre(&[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2], ip));
    check("mpls in gre", 101, &gre(&[0, 0, 0x88, 0x47, 0, 0x3e, 0x81, 64], ip));
    check("pptp", 101, &gre(&[0x30, 1, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 3, 0xff, 3, 0, 0x21], ip));
    let geneve = udp(6081, &with(&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4], &frame));
    check("geneve with an option", 101, &geneve);
    let geneve_of_ip = udp(6081, &with(&[0, 0, 8, 0, 0, 0, 7, 0], ip));
    check("geneve of ip", 101, &geneve_of_ip);
    let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
    check("geneve in vxlan", 101, &udp(4789, &with(&vxlan, &ethernet(0x0800, &geneve_of_ip))));
    check("vxlan-gpe", 101, &udp(4790, &with(&[0x0c, 0, 0, 3, 0, 0, 7, 0], &frame)));
    check("gtp", 101, &udp(2152, &with(&[0x30, 0xff, 0, 0, 0, 0, 0, 1], ip)));
    let extended = [0x34, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0];
    check("gtp with an extension", 101, &udp(2152, &with(&extended, ip)));
    check("tzsp", 101, &udp(37_008, &with(&[1, 0, 0, 1, 10, 1, 9, 0, 1], &frame)));
    check("mpls in udp", 101, &udp(6635, &with(&[0, 0x3e, 0x81, 64], ip)));
    check("etherip", 101, &datagram(97, &with(&[0x30, 0], &frame)));
    check("ip in ip in gre", 101, &gre(&[0, 0, 8, 0], &datagram(4, ip)));
    for (name, other) in [("esp", datagram(50, ip)), ("unknown in gre", gre(&[0, 0, 9, 9], ip))] {
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 101, &[(1, 2, &other)]));
        assert_eq!((seen.len(), skipped.count(SkipReason::Tunnel)), (0, 1), "{name}");
    }
}

/// pmacct/pmacct#226 and OISF/suricata PR 2194 (FabricPath), OISF/suricata PR 5304 and
/// the-tcpdump-group/tcpdump PR 595 (NSH); TRILL, HSR and SRv6 as well.
#[test]
fn fabrics_and_service_chains_are_looked_through() {
    let frame = frame(b"hello");
    let ip = &frame[14..];
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    check("fabricpath", 1, &ethernet(0x8903, &with(&[0x04, 0x20], &frame)));
    let tagged = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    check("fabricpath with a tag", 1, &ethernet(0x8903, &with(&[0x04, 0x20], &tagged)));
    check("trill", 1, &ethernet(0x22f3, &with(&[0, 0x3f, 0, 1, 0, 2], &frame)));
    let options = [0, 0x7f, 0, 1, 0, 2, 9, 9, 9, 9];
    check("trill with an option", 1, &ethernet(0x22f3, &with(&options, &frame)));
    check("hsr", 1, &ethernet(0x892f, &with(&[0x10, 0x40, 0, 7, 8, 0], ip)));
    for (next, inner) in [(1, ip), (3, &frame[..])] {
        let fixed = with(&[0x0f, 0xc6, 1, next, 0, 0, 1, 255], &with(&[7; 16], inner));
        check("nsh", 1, &ethernet(0x894f, &fixed));
        let short = with(&[0x0f, 0xc2, 2, next, 0, 0, 1, 255], inner);
        check("nsh in vxlan-gpe", 101, &udp(4790, &with(&[0x0c, 0, 0, 4, 0, 0, 7, 0], &short)));
        let nested = with(&[0x0f, 0xc2, 2, 4, 0, 0, 1, 255], &short);
        check("nsh in nsh in gre", 101, &gre(&[0, 0, 0x89, 0x4f], &nested));
    }
    check("ethernet in srv6", 101, &datagram(143, &frame));
}

/// seladb/PcapPlusPlus#239, moby/libnetwork#358 (46354), elastiflow/elastiflow_for_elasticsearch#7: the port
/// of a tunnel is configured. Other UDP is no tunnel.
#[test]
fn tunnels_to_configured_ports_are_known_by_what_they_hold() {
    let frame = frame(b"hello");
    let ip = &frame[14..];
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    let vxlan = with(&[8, 0, 0, 0, 0, 0, 7, 0], &frame);
    let cases = [
        ("vxlan", vxlan.clone()),
        ("geneve", with(&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4], &frame)),
        ("lisp", with(&[0x80, 1, 2, 3, 0, 0, 0, 1], ip)),
        ("gue", with(&[2, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], ip)),
        ("fou", ip.to_vec()),
    ];
    for (name, bytes) in &cases {
        for port in [46_354, 9886, 19_523] {
            check(name, 101, &udp(port, bytes));
        }
    }
    let mut damaged = vxlan;
    damaged[8 + 14 + 8] ^= 1;
    let names: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\0\0\x01\0\x01";
    for bytes in [&damaged[..], names, &[0x45; 60], &[0; 60], b""] {
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 101, &[(1, 2, &udp(53, bytes))]));
        assert_eq!((seen.len(), skipped.count(SkipReason::NotTcp)), (0, 1), "{bytes:?}");
    }
}

/// appneta/tcpreplay#777, ahobson/ruby-pcap#8 and hgn/captcp#46 (radiotap), hgn/captcp#16 (802.11),
/// kbandla/dpkt#72 (PPI), appneta/tcpreplay#799 (IPsec of the BSDs), the-tcpdump-group/libpcap PR 813
/// and PR 804 (tags of switches); macOS' taps and the BSDs' firewall log as well.
#[test]
fn frames_of_radio_firewalls_and_switches_are_looked_through() {
    let frame = frame(b"hello");
    let ip = &frame[14..];
    let with = |parts: &[&[u8]]| parts.concat();
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let plain = with(&[&[0x08, 0x01], &[0; 22], &snap, ip]);
    check("802.11", 105, &plain);
    check("802.11 with quality", 105, &with(&[&[0x88, 0x02], &[0; 24], &snap, ip]));
    check("802.11 of a bridge", 105, &with(&[&[0x88, 0x83], &[0; 34], &snap, ip]));
    check("radiotap", 127, &with(&[&[0, 0, 12, 0, 4, 0, 0, 0, 2, 0, 0, 0], &plain]));
    check("ppi", 192, &with(&[&[0, 0, 8, 0, 105, 0, 0, 0], &plain]));
    let pktap = with(&[&[108, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], &[0; 96]]);
    check("pktap", 258, &with(&[&pktap, &frame]));
    check("enc", 109, &with(&[&[2, 0, 0, 0], &[0; 8], ip]));
    check("pflog", 117, &with(&[&[61, 2, 0, 0], &[0; 60], ip]));
    check("dsa", 284, &with(&[&frame[..12], &[0x40, 0, 0, 0], &frame[12..]]));
    check("edsa", 285, &with(&[&frame[..12], &[0xda, 0xda, 0, 0, 0x40, 0, 0, 0], &frame[12..]]));
    check("broadcom, in front", 282, &with(&[&[0; 4], &frame]));
    let of = |link: u32, bytes: &[u8]| read(&pcap(&LITTLE, 0xa1b2_c3d4, link, &[(1, 2, bytes)])).1;
    let encrypted = with(&[&[0x08, 0x41], &[0; 60]]);
    assert_eq!(of(105, &encrypted).count(SkipReason::Tunnel), 1);
    let beacon = with(&[&[0x80, 0], &[0; 60]]);
    assert_eq!(of(105, &beacon).count(SkipReason::NotIp), 1);
    let nested = with(&[&[0, 0, 8, 0, 192, 0, 0, 0], &[0, 0, 8, 0, 192, 0, 0, 0], &frame]);
    assert_eq!(of(192, &nested).count(SkipReason::Nesting), 1);
}

/// ntop/nProbe#286 and dotpcap/packetnet PR 151 (L2TP), zeek/zeek#2007 (CAPWAP), kbandla/dpkt#596 and
/// google/gopacket PR 75 (AH in IPv4, in transport and tunnel mode), appneta/tcpreplay PR 637 and
/// the-tcpdump-group/tcpdump#658 (Juniper).
#[test]
fn tunnels_of_providers_and_their_routers_are_looked_through() {
    let frame = frame(b"hello");
    let (ip, tcp) = (&frame[14..], &frame[34..]);
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    let from = |port: u16, mut packet: Vec<u8>| {
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet[22..24].copy_from_slice(&50_000_u16.to_be_bytes());
        packet
    };
    let ppp = with(&[0xff, 3, 0, 0x21], ip);
    let l2tp = udp(1701, &with(&[0, 2, 0, 7, 0, 9], &ppp));
    check("l2tp", 101, &l2tp);
    check("l2tp, from the server", 101, &from(1701, l2tp));
    let all = [0x4a, 2, 0, 90, 0, 7, 0, 9, 0, 1, 0, 1, 0, 3, 0, 0, 0];
    check("l2tp with all fields", 101, &udp(1701, &with(&all, &with(&[0x21], ip))));
    let bridged = [0, 0x10, 0, 0, 0, 0, 0, 0];
    check("capwap of ethernet", 101, &udp(5247, &with(&bridged, &frame)));
    let wireless = [&[0x08, 0x01][..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip].concat();
    let native = [0, 0x10, 0x03, 0, 0, 0, 0, 0];
    check("capwap of 802.11", 101, &from(5247, udp(5247, &with(&native, &wireless))));
    let authenticated =
        |next: u8| [next, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    let transport = with(&authenticated(6), tcp);
    let mut outer = datagram(51, &transport);
    outer[12..20].copy_from_slice(&ip[12..20]);
    check("ah", 101, &outer);
    check("ah in tunnel mode", 101, &datagram(51, &with(&authenticated(4), ip)));
    check("juniper", 178, &with(b"MGC\0", &frame));
    check("juniper with extensions", 178, &with(b"MGC\x81\0\x05\x01\x01\x02\x03\x04", &frame));
    check("juniper, sent by the router", 178, &with(b"MGC\x02\0\0\0\x02", ip));
    let of = |link: u32, bytes: &[u8]| read(&pcap(&LITTLE, 0xa1b2_c3d4, link, &[(1, 2, bytes)])).1;
    for (name, packet) in [
        ("fragment", udp(5247, &with(&[0, 0x10, 0, 0x80, 0, 0, 0, 0], &frame))),
        ("encrypted", udp(5247, &[1, 0, 0, 0, 22, 254, 255])),
        ("ipsec", udp(4500, &[0, 0, 1, 0, 0, 0, 0, 1])),
    ] {
        assert_eq!(of(101, &packet).count(SkipReason::Tunnel), 1, "{name}");
    }
    // theclam/stripe#5: a client of DNS that happens to have the port.
    let dns = from(53, udp(1701, b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0"));
    assert_eq!(of(101, &dns).count(SkipReason::NotTcp), 1);
    assert_eq!(of(101, &udp(1701, &[0xc8, 2, 0, 12, 0, 0])).count(SkipReason::NotTcp), 1);
    assert_eq!(of(178, &frame).count(SkipReason::Malformed), 1);
}

/// the-tcpdump-group/tcpdump PR 1329 and PR 1404 (no length at all), IETF-OPSAWG-WG/draft-ietf-opsawg-pcap
/// PR 144, PcapDotNet/Pcap.Net#44 (a fragment).
#[test]
fn segments_may_be_longer_than_ip_can_say() {
    let payload = vec![b'x'; 150_000];
    let whole = frame(b"");
    let (ethernet_head, ip, tcp) = (&whole[..12], &whole[14..34], &whole[34..]);
    let mut four = ip.to_vec();
    four[2..4].fill(0);
    let six = |next: u8, more: &[u8]| {
        let head = [0x60, 0, 0, 0, 0, 0, next, 64];
        [&head[..], &[0x20; 16], &[0x30; 16], more].concat()
    };
    let jumbo = [6, 0, 0xc2, 4, 0, 2, 0x49, 0xfc];
    for (name, ethertype, head) in [
        ("IPv4", [8, 0], four.clone()),
        ("IPv6", [0x86, 0xdd], six(6, &[])),
        ("IPv6 with a jumbo option", [0x86, 0xdd], six(0, &jumbo)),
    ] {
        let bytes = [ethernet_head, &ethertype, &head, tcp, &payload].concat();
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 1, &[(1, 2, &bytes)]));
        assert_eq!((seen.len(), skipped.total()), (1, 0), "{name}: {skipped:?}");
        assert_eq!(seen[0].payload_length, 150_000, "{name}");
    }
}

/// irontec/sngrep#421, tstack/lnav PR 1482 (snoop), kaitoy/pcap4j#114 (text that a shell has saved).
#[test]
fn files_of_other_programs_are_named_with_what_to_do() {
    let files: [(&[u8], &str, &str); 8] = [
        (b"snoop\0\0\0\0\0\0\x02", "snoop", "editcap -F pcap"),
        (b"GMBU\0\x02\x01\0", "Network Monitor", "editcap"),
        (b"\xfd7zXZ\0\0\x04", "xz", "xz -dc"),
        (b"BZh91AY&SY", "bzip2", "bzip2 -dc"),
        (b"\x04\x22\x4d\x18\x64\x40", "lz4", "lz4 -dc"),
        (b"PK\x03\x04\x14\0", "zip", "unpack"),
        (b"\xff\xfe1\x000\0:\0", "UTF-16", "tcpdump -w"),
        (b"<!DOCTYPE html>", "web page", "login page"),
    ];
    for (first, what, hint) in files {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, first).expect("memory takes all");
        for bytes in [first.to_vec(), packed.finish().expect("memory takes all")] {
            let input =
                CaptureInput::from_stream("web.pcap", Box::new(std::io::Cursor::new(bytes)));
            let error = input.err().expect("it is no capture");
            assert!(error.message().contains(what), "{error}");
            assert!(error.hint().contains(hint), "{}", error.hint());
        }
    }
}

/// ntop/ntopng#5728: nanoseconds behind the magic of microseconds.
#[test]
fn fractions_of_more_than_a_second_are_nanoseconds() {
    let frame = frame(b"x");
    let times = |fractions: &[u32]| -> Vec<i64> {
        let records: Vec<(u32, u32, &[u8])> =
            fractions.iter().map(|fraction| (1, *fraction, &frame[..])).collect();
        let (seen, _) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 1, &records));
        seen.iter().map(|packet| packet.ts_ns - 1_000_000_000).collect()
    };
    let nanoseconds = [900, 118_831_273, 500_000_000, 999_999_999];
    assert_eq!(times(&nanoseconds), nanoseconds.map(i64::from));
    // OISF/suricata PR 7198: a damaged one changes no other.
    let damaged = [1, 538_976_288, 3, 4];
    assert_eq!(times(&damaged), damaged.map(|fraction| i64::from(fraction) * 1000));
}

/// simsong/tcpflow#142 and kbandla/dpkt#127 (length 0), cisco-system-traffic-generator/trex-core#975
/// (length of the header alone), and files cut by tools that forget the first length.
#[test]
fn the_ip_header_says_how_long_a_segment_is() {
    let whole = frame(&[b'x'; 1000]);
    let of = |bytes: &[u8]| {
        let (seen, skipped) = read(&pcap(&LITTLE, 0xa1b2_c3d4, 1, &[(1, 2, bytes)]));
        assert_eq!((seen.len(), skipped.total()), (1, 0), "{skipped:?}");
        (seen[0].payload.len(), seen[0].payload_length)
    };
    assert_eq!(of(&[&whole[..], &[0; 40]].concat()), (1000, 1000));
    assert_eq!(of(&whole[..154]), (100, 1000));
    for length in [[0, 0], [0, 20]] {
        let mut offloaded = whole.clone();
        offloaded[16..18].copy_from_slice(&length);
        assert_eq!(of(&offloaded), (1000, 1000));
    }
    let short = frame(b"");
    assert_eq!(of(&[&short[..], &[0; 6]].concat()), (0, 0));
}

/// tcpdump(1) -C, pocc/tshark.dev#45, shadow/shadow#1585.
#[test]
fn files_are_read_in_the_order_of_their_packets_and_may_not_overlap() {
    let dir = tempfile::tempdir().expect("a directory");
    let frame = frame(b"x");
    let write = |name: &str, seconds: &[u32]| {
        let records: Vec<(u32, u32, &[u8])> =
            seconds.iter().map(|at| (*at, 0, &frame[..])).collect();
        let path = dir.path().join(name);
        std::fs::write(&path, pcap(&LITTLE, 0xa1b2_c3d4, 1, &records)).expect("there is space");
        path
    };
    let (first, second, tenth) =
        (write("web.pcap", &[10, 20]), write("web.pcap2", &[20, 29]), write("web.pcap10", &[30]));
    let order = FileOrder::new(&[first.clone(), tenth.clone(), second.clone()]).expect("files");
    let paths: Vec<_> = order.files().iter().map(|file| file.path().to_owned()).collect();
    assert_eq!(paths, [first.clone(), second, tenth]);
    order.files()[1].check_after(Some(20_000_000_000)).expect("it follows");
    let other = write("tap2.pcap", &[11, 21]);
    let order = FileOrder::new(&[other, first.clone()]).expect("files");
    let error = order.files()[1].check_after(Some(20_000_000_000)).expect_err("they overlap");
    assert!(error.message().contains("tap2.pcap`: it begins 9.000 s before"), "{error}");
    assert!(error.hint().contains("mergecap"), "{}", error.hint());
    // Text and streams stay where they are.
    let text = dir.path().join("a.txt");
    std::fs::write(&text, "2026-11-21 10:00:00.000000 IP a > b").expect("there is space");
    let order = FileOrder::new(&[text.clone(), first.clone()]).expect("files");
    assert_eq!(order.files()[0].path(), text);
    assert!(FileOrder::new(&[first, dir.path().join("absent")]).is_ok());
}
