//! Connections that ask for nothing: health checks, scans, and servers that are gone.

use super::protocols::{hello, records};
use super::*;

/// Forty clients with five quick requests each.
fn visits(script: &mut TrafficScript) {
    for client in 0..40_i64 {
        let line = &mut script.open(80, client * 31, 1);
        for n in 0..5 {
            script.exchange(line, 40 + client * 31 + n * 900, "/a", 20);
        }
    }
}

/// A connection that is not opened yet, from a checker or scanner to a server.
fn probe_of(script: &mut TrafficScript, client: u8, server: u8, port: u16) -> ScriptedConnection {
    let mut line = script.line(port);
    line.ends = [Endpoint { port: line.ends[CLIENT].port, ..end(client, 0) }, end(server, port)];
    line
}

fn handshake(script: &mut TrafficScript, line: &mut ScriptedConnection, at: i64) {
    script.send(line, CLIENT, at, Flags::SYN, b"");
    script.send(line, SERVER, at, Flags::SYN | Flags::ACK, b"");
    script.ack(line, CLIENT, at + 1);
}

/// No verdict is definite but that all is smooth; where checks look like failures, nothing is.
#[track_caller]
fn check(name: &str, script: TrafficScript) {
    let (report, _) = script.run(ModelOptions::default());
    let expected = if name == "hello" { DelayVerdict::Unknown } else { DelayVerdict::Smooth };
    assert_eq!(report.verdict, expected, "{name}: {}", report.why);
    for tier in &report.tiers {
        let slices = tier.slices.iter().filter_map(|slice| slice.verdict);
        let wrong = slices
            .filter(|one| !matches!(one, DelayVerdict::Smooth | DelayVerdict::Unknown))
            .count();
        assert_eq!(wrong, 0, "{name}, port {}: {}", tier.port, tier.why);
    }
}

/// caddyserver/caddy#2800, openshift/installer#923 and kubernetes-retired/kube-aws#295: balancers that only
/// connect, and leave by FIN or by reset; HAProxy's `ssl-hello-chk` sends a hello and leaves at the answer.
#[test]
fn health_checks_are_no_failed_connections() {
    for name in ["fin", "reset", "half-open", "hello"] {
        let mut script = TrafficScript::default();
        for client in 0..40_i64 {
            let line = &mut script.open(443, client * 31, 1);
            script.data(line, CLIENT, client * 31 + 2, records(&[(22, 200)]));
            script.data(line, SERVER, client * 31 + 3, records(&[(22, 100)]));
            script.data(line, CLIENT, client * 31 + 4, records(&[(20, 1), (22, 40), (23, 90)]));
            script.data(line, SERVER, client * 31 + 8, records(&[(20, 1), (22, 40), (23, 900)]));
            script.ack(line, CLIENT, client * 31 + 9);
        }
        for n in 0..200_i64 {
            let (line, at) = (&mut probe_of(&mut script, 9, 2, 443), n * 25);
            match name {
                "half-open" => {
                    script.send(line, CLIENT, at, Flags::SYN, b"");
                    script.send(line, SERVER, at, Flags::SYN | Flags::ACK, b"");
                    script.send(line, CLIENT, at + 1, Flags::RST, b"");
                    continue;
                }
                "hello" => {
                    handshake(&mut script, line, at);
                    script.data(line, CLIENT, at + 2, hello(1, [0x13, 1], &[]));
                    script.data(line, SERVER, at + 3, hello(2, [0x13, 1], &[]));
                    script.send(line, CLIENT, at + 4, Flags::RST | Flags::ACK, b"");
                    continue;
                }
                _ => handshake(&mut script, line, at),
            }
            let flags = if name == "fin" { Flags::FIN } else { Flags::RST };
            script.send(line, CLIENT, at + 1, flags | Flags::ACK, b"");
            if name == "fin" {
                script.send(line, SERVER, at + 1, Flags::FIN | Flags::ACK, b"");
                script.ack(line, CLIENT, at + 2);
            }
        }
        check(name, script);
    }
}

/// ntop/ntopng#1765 and ntop/ntopng#5255: a scan of many addresses, whose hosts refuse or are not there.
#[test]
fn a_scan_of_a_network_is_no_failure_of_a_server() {
    for (name, is_refused) in [("refused", true), ("dropped", false)] {
        for port in [80, 23] {
            let mut script = TrafficScript::default();
            visits(&mut script);
            for host in 10..200_u8 {
                let (line, at) = (&mut probe_of(&mut script, 9, host, port), i64::from(host) * 20);
                script.send(line, CLIENT, at, Flags::SYN, b"");
                if is_refused {
                    script.send(line, SERVER, at + 1, Flags::RST | Flags::ACK, b"");
                } else {
                    script.again(1100);
                }
            }
            check(&format!("{name} on port {port}"), script);
        }
    }
}

/// ntop/ntopng#4004 and element-hq/ess-helm PR 225: a balancer still checks a server that is gone. Its
/// accept queue is not full.
#[test]
fn checks_of_a_server_that_is_gone_are_no_accept_queue() {
    let mut script = TrafficScript::default();
    visits(&mut script);
    for n in 0..8_i64 {
        let line = &mut probe_of(&mut script, 9, 7, 80);
        script.send(line, CLIENT, n * 600, Flags::SYN, b"");
        script.again(1000);
        script.again(2000);
    }
    check("a dead server", script);
}

/// acassen/keepalived#2271: SYNPROXY accepts with a window of zero, and opens it when the server has accepted.
#[test]
fn a_window_that_opens_after_the_handshake_is_no_slow_reader() {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let at = client * 31;
        let line = &mut script.line(80);
        script.send(line, CLIENT, at, Flags::SYN, b"");
        script.send(line, SERVER, at, Flags::SYN | Flags::ACK, b"");
        script.packets.last_mut().expect("it was sent").window = 0;
        script.ack(line, CLIENT, at + 1);
        script.ack(line, SERVER, at + 2);
        for n in 0..5 {
            let at = at + 10 + n * 900;
            script.data(line, CLIENT, at, post(3000));
            script.data(line, SERVER, at + 20, ok(20));
            script.ack(line, CLIENT, at + 21);
        }
    }
    check("synproxy", script);
}

fn post(length: usize) -> Vec<u8> {
    let head = format!("POST /a HTTP/1.1\r\nHost: www\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), &vec![b'x'; length]].concat()
}
