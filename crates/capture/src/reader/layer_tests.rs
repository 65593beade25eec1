//! Frames of switches, overlays and mirrors, as bug reports of other programs describe them: each
//! holds the same segment.

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
