//! Lines of every style of tcpdump 3.9, 4.9 and 4.99, and the packets parsed from them.

use expect_test::{Expect, expect};

use super::*;

fn reader() -> TextReader {
    let zone = |at: LocalMinute| {
        let minutes = i64::from(at.hour) * 60 + i64::from(at.minute);
        Some((i64::from(at.day) - 1) * 86_400 + minutes * 60)
    };
    TextReader::new(Box::new(zone), 0, 1)
}

fn shown(packet: &Packet<'_>) -> String {
    let flags = ["F", "S", "R", "P", ".", "U", "E", "W"];
    let flags: String =
        (0..8).filter(|bit| packet.flags.0 >> bit & 1 == 1).map(|bit| flags[bit]).collect();
    let mut out = format!(
        "{}.{:09} {} > {} [{flags}] length {}",
        packet.ts_ns / 1_000_000_000,
        packet.ts_ns % 1_000_000_000,
        packet.from,
        packet.to,
        packet.payload_length
    );
    if packet.is_sequence_known {
        out += &format!(" seq {} ack {}", packet.seq, packet.ack);
    }
    if packet.window > 0 {
        out += &format!(" win {}", packet.window);
    }
    if packet.is_join {
        out += " join";
    }
    if let Some(scale) = packet.window_scale {
        out += &format!(" scale {scale}");
    }
    if let Some(Timestamps { value, echo }) = packet.timestamps {
        out += &format!(" ts {value} {echo}");
    }
    if packet.sack_blocks > 0 {
        out += &format!(" sack {}", packet.sack_blocks);
    }
    if let Some(SackBlock { left, right }) = packet.dsack {
        out += &format!(" dsack {left}:{right}");
    }
    if let Some(id) = packet.ip_id {
        out += &format!(" id {id}");
    }
    if packet.interface > 0 || packet.direction != crate::packet::Direction::Unknown {
        out += &format!(" interface {} {:?}", packet.interface, packet.direction);
    }
    if !packet.payload.is_empty() {
        out += &format!(" `{}`", String::from_utf8_lossy(packet.payload));
    }
    out
}

use crate::packet::Timestamps;

#[track_caller]
fn check(text: &str, expect: Expect) {
    let mut reader = reader();
    let mut out = String::new();
    for line in text.lines() {
        if let Some(packet) = reader.line(line.as_bytes()) {
            out += &shown(&packet);
            out.push('\n');
        }
    }
    for (skip, count) in reader.skipped() {
        out += &format!("{} {count}\n", skip.as_str());
    }
    expect.assert_eq(&out);
}

#[test]
fn a_conversation_of_today_is_read_with_all_its_numbers() {
    check(
        "\
10:00:00.000001 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [S], seq 3000000000, win 64240, options [mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7], length 0
10:00:00.000002 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [S.], seq 500000000, ack 3000000001, win 65160, options [mss 1460,sackOK,TS val 900 ecr 100,nop,wscale 7], length 0
10:00:00.000003 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [.], ack 1, win 502, options [nop,nop,TS val 101 ecr 900], length 0
10:00:00.000004 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, options [nop,nop,TS val 101 ecr 900], length 77: HTTP: GET / HTTP/1.1
10:00:00.000005 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, length 77: HTTP: GET / HTTP/1.1
10:00:00.000006 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [.], ack 78, win 509, options [nop,nop,TS val 901 ecr 101,nop,nop,sack 1 {1:78}], length 0
10:00:00.000007 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [F.], seq 1, ack 78, win 509, length 0
10:00:00.000008 IP 10.0.0.1.40001 > 10.0.0.2.80: Flags [S], seq 7, win 64240, options [mss 1460,nop,wscale 7,mptcp 12 join backup id 2 token 0x1 nonce 0x2], length 0
10:00:00.000009 IP 10.0.0.1.40002 > 10.0.0.2.80: Flags [S], seq 7, win 64240, options [mss 1460,nop,wscale 7,mptcp 4 capable v1], length 0
",
        expect![[r#"
            36000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [S] length 0 seq 3000000000 ack 0 win 64240 scale 7 ts 100 0
            36000.000002000 10.0.0.2:80 > 10.0.0.1:40000 [S.] length 0 seq 500000000 ack 3000000001 win 65160 scale 7 ts 900 100
            36000.000003000 10.0.0.1:40000 > 10.0.0.2:80 [.] length 0 seq 3000000001 ack 500000001 win 502 ts 101 900
            36000.000004000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 3000000001 ack 500000001 win 502 ts 101 900 `GET / HTTP/1.1`
            36000.000005000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 3000000001 ack 500000001 win 502 `GET / HTTP/1.1`
            36000.000006000 10.0.0.2:80 > 10.0.0.1:40000 [.] length 0 seq 500000001 ack 3000000078 win 509 ts 901 101 sack 1 dsack 3000000001:3000000078
            36000.000007000 10.0.0.2:80 > 10.0.0.1:40000 [F.] length 0 seq 500000001 ack 3000000078 win 509
            36000.000008000 10.0.0.1:40001 > 10.0.0.2:80 [S] length 0 seq 7 ack 0 win 64240 join scale 7
            36000.000009000 10.0.0.1:40002 > 10.0.0.2:80 [S] length 0 seq 7 ack 0 win 64240 scale 7
        "#]],
    );
}

#[test]
fn interface_and_direction_of_any_are_read() {
    check(
        "\
2026-11-21 10:00:00.000001 eth0  In  IP 10.0.0.1.40000 > 10.0.0.2.80: tcp 77
2026-11-21 10:00:00.000002 lo    Out IP6 ::1.40000 > ::1.80: tcp 5
2026-11-21 10:00:00.000003 eth0  Out IP 10.0.0.2.80 > 10.0.0.1.40000: tcp 0
2026-11-21 10:00:00.000004 eth0  B   ARP, Request who-has 10.0.0.9 tell 10.0.0.1, length 28
1301957863.820001 veth123456 M   IP 10.0.0.1.40000 > 10.0.0.2.http: tcp 77
",
        expect![[r#"
            1764000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [] length 77 interface 1 In
            1764000.000002000 [::1]:40000 > [::1]:80 [] length 5 interface 2 Out
            1764000.000003000 10.0.0.2:80 > 10.0.0.1:40000 [] length 0 interface 1 Out
            1301957863.820001000 10.0.0.1:40000 > 10.0.0.2:80 [] length 77 interface 3 In
            not_ip 1
        "#]],
    );
}

#[test]
fn link_headers_and_vlans_are_passed_over() {
    check(
        "\
10:00:00.000001 02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype IPv4 (0x0800), length 131: 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, length 77
10:00:00.000002 02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 802.1Q (0x8100), length 135: vlan 5, p 0, ethertype IPv4 (0x0800), 10.0.0.1.40001 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, length 77
10:00:00.000003 02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 802.1Q-QinQ (0x88a8), length 135: vlan 5, p 0, ethertype 802.1Q (0x8100), vlan 6, p 0, ethertype IPv6, 2001:db8::1.40001 > 2001:db8::2.80: tcp 7
10:00:00.000004 eth0  In  ifindex 2 02:00:00:00:00:01 ethertype IPv4 (0x0800), length 133: 10.0.0.1.40002 > 10.0.0.2.80: tcp 9
10:00:00.000005  Out 02:00:00:00:00:01 ethertype IPv4 (0x0800), length 133: 10.0.0.1.40003 > 10.0.0.2.80: tcp 9
10:00:00.000006 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: Request who-has 10.0.0.9 tell 10.0.0.1, length 28
10:00:00.000007 AF IPv4 (2), length 60: 127.0.0.1.40004 > 127.0.0.1.80: tcp 4
10:00:00.000008 ifb0  In  ifindex 2 02:00:00:00:00:02 10.0.0.1.40005 > 10.0.0.2.80: tcp 82
10:00:00.000009 02:00:00:00:00:01 > 02:00:00:00:00:02, 802.1Q, length 78: vlan 5, p 0, DEI, IPv4, 10.0.0.1.40006 > 10.0.0.2.80: tcp 3
",
        expect![[r#"
            36000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 1 ack 1 win 502
            36000.000002000 10.0.0.1:40001 > 10.0.0.2:80 [P.] length 77 seq 1 ack 1 win 502
            36000.000003000 [2001:db8::1]:40001 > [2001:db8::2]:80 [] length 7
            36000.000004000 10.0.0.1:40002 > 10.0.0.2:80 [] length 9 interface 1 In
            36000.000005000 10.0.0.1:40003 > 10.0.0.2:80 [] length 9 interface 0 Out
            36000.000007000 127.0.0.1:40004 > 127.0.0.1:80 [] length 4
            36000.000008000 10.0.0.1:40005 > 10.0.0.2:80 [] length 82 interface 2 In
            36000.000009000 10.0.0.1:40006 > 10.0.0.2:80 [] length 3
            not_ip 1
        "#]],
    );
}

#[test]
fn verbose_lines_come_in_two() {
    check(
        "\
10:00:00.000001 IP (tos 0x0, ttl 64, id 4711, offset 0, flags [DF], proto TCP (6), length 129)
    10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], cksum 0x1470 (incorrect -> 0x9a3b), seq 1:78, ack 1, win 502, options [nop,nop,TS val 1 ecr 2], length 77: HTTP, length: 77
\tGET / HTTP/1.1
\tHost: shop.example
\t
10:00:00.000002 IP6 (flowlabel 0x31337, hlim 64, next-header TCP (6) payload length: 25) ::1.40000 > ::1.80: Flags [P.], cksum 0x0021 (correct), seq 9:14, ack 1, win 502, length 5
10:00:00.000003 IP (tos 0x0, ttl 1, id 0, offset 0, flags [DF], proto IGMP (2), length 40, options (RA))
    10.0.0.1 > 224.0.0.22: igmp v3 report, 1 group record(s)
10:00:00.000004 IP (tos 0x0, ttl 64, id 12, offset 1480, flags [none], proto TCP (6), length 1500)
    10.0.0.1 > 10.0.0.2: tcp
10:00:00.000005 IP (tos 0x0, ttl 64, id 13, offset 0, flags [DF], proto TCP (6), length 52) 10.0.0.3.9 > 10.0.0.2.80: ., cksum 0x1234 (correct), ack 8 win 5
",
        expect![[r#"
            36000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 1 ack 1 win 502 ts 1 2 id 4711
            36000.000002000 [::1]:40000 > [::1]:80 [P.] length 5 seq 9 ack 1 win 502
            36000.000005000 10.0.0.3:9 > 10.0.0.2:80 [.] length 0 seq 0 ack 8 win 5 id 13
            no_stamp 4
            not_tcp 1
            fragment 1
        "#]],
    );
}

#[test]
fn sizes_and_options_of_tcpdump_3_are_read() {
    check(
        "\
10:00:00.000001 IP 10.0.0.1.40000 > 10.0.0.2.80: S 3000000000:3000000000(0) win 5840 <mss 1460,sackOK,timestamp 100 0,nop,wscale 7> (DF)
10:00:00.000002 IP 10.0.0.2.80 > 10.0.0.1.40000: S 500000000:500000000(0) ack 3000000001 win 5792 <mss 1460,sackOK,timestamp 900 100,nop,wscale 7>
10:00:00.000003 IP 10.0.0.1.40000 > 10.0.0.2.80: . ack 1 win 46 <nop,nop,timestamp 101 900>
10:00:00.000004 IP 10.0.0.1.40000 > 10.0.0.2.80: P 1:78(77) ack 1 win 46 <nop,nop,timestamp 101 900>
10:00:00.000005 IP 10.0.0.2.80 > 10.0.0.1.40000: FP 1:6(5) ack 78 win 46 <nop,nop,sack sack 1 {1:78} >
10:00:00.000006 IP 10.0.0.1.40000 > 10.0.0.2.80: R 3000000078:3000000078(0) win 0 [tos 0x10]
",
        expect![[r#"
            36000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [S] length 0 seq 3000000000 ack 0 win 5840 scale 7 ts 100 0
            36000.000002000 10.0.0.2:80 > 10.0.0.1:40000 [S.] length 0 seq 500000000 ack 3000000001 win 5792 scale 7 ts 900 100
            36000.000003000 10.0.0.1:40000 > 10.0.0.2:80 [.] length 0 seq 3000000001 ack 500000001 win 46 ts 101 900
            36000.000004000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 3000000001 ack 500000001 win 46 ts 101 900
            36000.000005000 10.0.0.2:80 > 10.0.0.1:40000 [FP.] length 5 seq 500000001 ack 3000000078 win 46 sack 1 dsack 3000000001:3000000078
            36000.000006000 10.0.0.1:40000 > 10.0.0.2:80 [R] length 0 seq 3000000078 ack 0
        "#]],
    );
}

#[test]
fn what_is_no_packet_is_counted_by_reason() {
    check(
        "\
tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
10:00:00.000001 IP 10.0.0.1.53 > 10.0.0.2.9999: 12345+ A? shop.example. (30)
10:00:00.000002 IP 10.0.0.1.9 > 10.0.0.2.9999: UDP, length 4
10:00:00.000003 IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 1, seq 1, length 64
10:00:00.000004 IP6 fe80::1 > ff02::1: ICMP6, router advertisement, length 64
10:00:00.000005 ARP, Request who-has 10.0.0.9 tell 10.0.0.1, length 28
10:00:00.000006 IP web-1.example.com.40000 > shop.http: Flags [.], ack 1, win 5, length 0
10:00:00.000007 IP 10.0.0.1.40000 > 10.0.0.2.strange: Flags [.], ack 1, win 5, length 0
10:00:00.000008 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, options [nop,nop,[|tcp]>
10:00:00.000009 IP 10.0.0.1.40000 > 10.0.0.2.80:  [|tcp]
10:00:00.000010 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq x:78, ack 1, win 502, length 77
10:00:00.000011 IP 10.0.0.1.40000 > 10.0.0.2.80
\t0x0000:  4500 003c 1c46 4000 4006 b1e6 ac10 0a63
",
        expect![[r#"
            no_stamp 2
            not_ip 1
            not_tcp 4
            cut 2
            host_name 1
            port_name 1
            malformed 2
        "#]],
    );
}

#[test]
fn packets_inside_of_tunnels_are_read() {
    check(
        "\
10:00:00.000001 IP 192.0.2.1 > 192.0.2.2: GREv0, length 85: IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, length 77
10:00:00.000002 IP 192.0.2.1 > 192.0.2.2: IP 10.0.0.1.40001 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, length 77
",
        expect![[r#"
            36000.000001000 10.0.0.1:40000 > 10.0.0.2:80 [P.] length 77 seq 1 ack 1 win 502
            36000.000002000 10.0.0.1:40001 > 10.0.0.2:80 [P.] length 77 seq 1 ack 1 win 502
        "#]],
    );
}

#[test]
fn no_line_is_too_strange() {
    let lines = [
        "2026-11-21 10:00:00.000001 eth0  In  IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, options [nop,nop,TS val 1 ecr 2,nop,nop,sack 2 {1:5}{7:9}], length 77: HTTP: GET / HTTP/1.1",
        "10:00:00.000002 02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 802.1Q (0x8100), length 135: vlan 5, p 0, ethertype IPv4 (0x0800), (tos 0x0, ttl 64, id 7, offset 0) 10.0.0.1.40001 > 10.0.0.2.80: P 1:5(4) ack 1 win 5 <nop,sack sack 1 {1:2}>",
        "1.5 IP6 2001:db8::1.443 > 2001:db8::2.80: tcp 99",
    ];
    arbtest::arbtest(|u| {
        let mut line = u.choose(&lines)?.as_bytes().to_vec();
        for _ in 0..u.int_in_range(0..=4)? {
            let at = u.choose_index(line.len().max(1))?;
            match u.int_in_range(0..=3)? {
                0 => line.truncate(at),
                1 if at < line.len() => line[at] = u.arbitrary()?,
                2 => line.insert(at.min(line.len()), *u.choose(b"0 .:[](){}<>,-9")?),
                _ if at < line.len() => drop(line.remove(at)),
                _ => {}
            }
        }
        let mut reader = reader();
        let is_packet = reader.line(&line).is_some();
        let skipped: u64 = reader.skipped().map(|(_, count)| count).sum();
        assert!(skipped <= 1 && !(is_packet && skipped == 1));
        assert!(!is_packet || TextReader::is_text(&line));
        Ok(())
    });
}
