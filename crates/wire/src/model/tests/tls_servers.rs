//! Servers and clients that put their records together differently: which are requests and answers.

use super::protocols::{VERSION, hello, records};
use super::*;

/// A connection over TLS 1.3; `flight` are the lengths of the client's records after its hello, the
/// last of them its first request.
fn open(script: &mut TrafficScript, at: i64, flight: &[u16]) -> ScriptedConnection {
    let mut line = script.open(443, at, 1);
    script.data(&mut line, CLIENT, at + 2, records(&[(22, 250)]));
    script.data(&mut line, SERVER, at + 3, records(&[(22, 122), (20, 1), (23, 2100)]));
    let flight: Vec<_> = flight.iter().map(|length| (23, *length)).collect();
    let change = records(&[(20, 1)]);
    script.data(&mut line, CLIENT, at + 5, [change, records(&flight)].concat());
    line
}

/// rustls/rustls PR 2120, tlsfuzzer/tlsfuzzer#202, drogue-iot/embedded-tls PR 118: certificate, proof and
/// Finished share a record, whose length says nothing.
#[test]
fn a_client_certificate_in_one_record_with_its_finished_hides_no_request() {
    for has_certificate in [true, false] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let (at, slow) = (client * 50, if client % 3 == 0 { 800 } else { 5 });
            let flight = if has_certificate { [1490, 150] } else { [69, 150] };
            let line = &mut open(&mut script, at, &flight);
            script.data(line, SERVER, at + 6, records(&[(23, 1010)]));
            script.data(line, SERVER, at + 5 + slow, records(&[(23, 900)]));
            for n in 0..2 {
                let at = at + 1000 + n * 1000;
                script.data(line, CLIENT, at, records(&[(23, 140)]));
                script.data(line, SERVER, at + slow, records(&[(23, 900)]));
                script.ack(line, CLIENT, at + slow + 1);
            }
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses), (180, 180), "{has_certificate}");
        assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
        let think = tier.think.expect("there are answers");
        assert!((795_000..806_000).contains(&think.p95), "{has_certificate}: {think:?}");
    }
}

/// Captured from Java 17's client: each record has 16 bytes of padding, the Finished and the alerts that
/// close the connection included.
#[test]
fn padded_records_of_java_are_told_apart() {
    // Without and with a certificate, which shares a record with the Finished.
    for (flight, closing) in [([85, 82], 35), ([1137, 82], 35)] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let (at, slow) = (client * 50, if client % 3 == 0 { 800 } else { 5 });
            let mut line = script.open(443, at, 1);
            script.data(&mut line, CLIENT, at + 2, records(&[(22, 435)]));
            let answer = [hello(2, [0x13, 2], &VERSION), records(&[(20, 1), (23, 1200)])].concat();
            script.data(&mut line, SERVER, at + 3, answer);
            script.data(&mut line, CLIENT, at + 5, records(&[(20, 1), (23, flight[0])]));
            script.data(&mut line, CLIENT, at + 6, records(&[(23, flight[1])]));
            script.data(&mut line, SERVER, at + 7, records(&[(23, 274)]));
            script.data(&mut line, SERVER, at + 7, records(&[(23, 274)]));
            script.data(&mut line, SERVER, at + 6 + slow, records(&[(23, 381)]));
            script.data(&mut line, CLIENT, at + 1500, records(&[(23, 90)]));
            script.data(&mut line, SERVER, at + 1500 + slow, records(&[(23, 381)]));
            script.ack(&mut line, CLIENT, at + 1501 + slow);
            script.data(&mut line, CLIENT, at + 2900, records(&[(23, closing)]));
            script.data(&mut line, CLIENT, at + 2900, records(&[(23, closing)]));
            script.send(&mut line, CLIENT, at + 2900, Flags::FIN | Flags::ACK, b"");
            script.send(&mut line, SERVER, at + 2901, Flags::FIN | Flags::ACK, b"");
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (120, 120, 0), "{flight:?}");
        assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    }
}

/// Captured from Python's server: the second ticket waits for the client's acknowledgement, which is
/// delayed by 40 ms, and the head comes apart from the body.
#[test]
fn a_ticket_that_waits_for_an_acknowledgement_is_no_answer() {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let (at, think) = (client * 50, if client % 3 == 0 { 900 } else { 60 });
        let line = &mut open(&mut script, at, &[69, 100]);
        script.data(line, SERVER, at + 7, records(&[(23, 250)]));
        script.data(line, SERVER, at + 48, records(&[(23, 250)]));
        script.data(line, SERVER, at + 5 + think, records(&[(23, 130)]));
        script.data(line, SERVER, at + 9 + think, records(&[(23, 217)]));
        script.send(line, CLIENT, at + 12 + think, Flags::FIN | Flags::ACK, b"");
        script.data(line, SERVER, at + 12 + think, records(&[(23, 19)]));
        script.send(line, CLIENT, at + 12 + think, Flags::RST, b"");
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!((report.tiers[0].requests, report.tiers[0].responses), (60, 60));
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    let think = report.tiers[0].think.expect("there are answers");
    assert!((898_000..907_000).contains(&think.p95), "{think:?}");
}

/// caddyserver/caddy#5145, and nginx with `ssl_conf_command RecordPadding 4096`: all records of the server
/// have one length.
#[test]
fn padded_tickets_are_no_answers() {
    for padded in [528, 4112] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let (at, think) = (client * 50, if client % 3 == 0 { 900 } else { 5 });
            let line = &mut open(&mut script, at, &[69, 90]);
            script.data(line, SERVER, at + 6, records(&[(23, padded), (23, padded)]));
            script.data(line, SERVER, at + 5 + think, records(&[(23, padded)]));
            script.send(line, CLIENT, at + 12 + think, Flags::FIN | Flags::ACK, b"");
            script.send(line, SERVER, at + 13 + think, Flags::FIN | Flags::ACK, b"");
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (60, 60, 0), "{padded}");
        assert_eq!(report.verdict, DelayVerdict::SlowApp, "{padded}: {}", report.why);
    }
}

/// Connections on which the server sends `answer`, and `later` after the client's settings. The client
/// closes after 3 s, or keeps its connection.
fn settings_of(answer: &[u16], later: &[u16], is_kept: bool) -> Report {
    let [answer, later] = [answer, later]
        .map(|lengths| records(&lengths.iter().map(|length| (23, *length)).collect::<Vec<_>>()));
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let at = client * 50;
        let line = &mut open(&mut script, at, &[53, 81]);
        script.data(line, SERVER, at + 6, &answer);
        script.data(line, CLIENT, at + 7, records(&[(23, 26)]));
        script.data(line, SERVER, at + 27, &later);
        script.ack(line, CLIENT, at + 30);
        if !is_kept {
            script.send(line, CLIENT, at + 3000, Flags::FIN | Flags::ACK, b"");
            script.send(line, SERVER, at + 3001, Flags::FIN | Flags::ACK, b"");
        }
    }
    // Another port is busy until the end.
    let line = &mut script.open(80, 0, 1);
    script.exchange(line, 9000, "/", 1);
    script.run(ModelOptions::default()).0
}

/// Captured from Go's server over HTTP/2 and from Java's: an application that answers nothing sends a
/// ticket and settings. A record behind settings and their acknowledgement is an answer.
#[test]
fn a_ticket_and_settings_alone_are_no_answer() {
    const ACK: &[u16] = &[39];
    for is_kept in [false, true] {
        for (alone, later) in [(&[139, 56][..], ACK), (&[56], ACK), (&[250, 250, 66], &[26])] {
            let tier = settings_of(alone, later, is_kept).tiers.remove(0);
            let expected = if is_kept { DelayVerdict::Unknown } else { DelayVerdict::Failing };
            assert_eq!((tier.verdict, tier.unanswered), (expected, 60), "{alone:?}: {}", tier.why);
        }
        for (alone, later) in [(&[1125][..], ACK), (&[250, 250, 66], &[]), (&[250, 60], &[])] {
            let tier = settings_of(alone, later, is_kept).tiers.remove(0);
            assert_eq!(tier.verdict, DelayVerdict::Unknown, "{alone:?}: {}", tier.why);
            assert!(tier.why.contains("tickets only"), "{alone:?}: {}", tier.why);
        }
        for (answered, later) in [
            (&[139, 56, 381][..], ACK),
            (&[250, 250, 66, 5000], ACK),
            (&[56, 88], ACK),
            (&[56], &[39, 51]),
        ] {
            let tier = settings_of(answered, later, is_kept).tiers.remove(0);
            assert_eq!(tier.verdict, DelayVerdict::Smooth, "{answered:?}: {}", tier.why);
        }
    }
}

/// Captured from Go's client, which takes no tickets: a short answer is none. OpenSSL sends two all the same.
#[test]
fn an_answer_to_a_client_without_tickets_is_one() {
    const MODES: [u8; 6] = [0, 0x2d, 0, 2, 1, 1];
    for (extension, answer, expected) in [
        (VERSION, &[(23, 138)][..], DelayVerdict::Smooth),
        (MODES, &[(23, 138)], DelayVerdict::Unknown),
        (VERSION, &[(23, 250), (23, 250), (23, 138)], DelayVerdict::Smooth),
        (VERSION, &[(23, 250), (23, 250)], DelayVerdict::Unknown),
    ] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let at = client * 50;
            let line = &mut script.open(443, at, 1);
            script.data(line, CLIENT, at + 2, hello(1, [0x13, 1], &extension));
            script.data(line, SERVER, at + 3, records(&[(22, 122), (20, 1), (23, 2100)]));
            script.data(line, CLIENT, at + 5, records(&[(20, 1), (23, 53), (23, 114)]));
            script.data(line, SERVER, at + 7, records(answer));
            script.ack(line, CLIENT, at + 8);
        }
        let (report, _) = script.run(ModelOptions::default());
        assert_eq!(report.verdict, expected, "{}", report.why);
    }
}

/// redis/redis#7595 and memcached/memcached#441: replies such as `+OK` and short values are as long as key
/// updates and the control frames of HTTP/2.
#[test]
fn short_replies_of_a_cache_are_answers() {
    for length in [22, 26, 30, 34] {
        let mut script = TrafficScript::default();
        for client in 0..20_i64 {
            let at = client * 50;
            let line = &mut open(&mut script, at, &[69]);
            script.data(line, SERVER, at + 6, records(&[(23, 250), (23, 250)]));
            for n in 0..10 {
                let think = if (client + n) % 10 == 4 { 700 } else { 2 };
                let at = at + 10 + n * 900;
                script.data(line, CLIENT, at, records(&[(23, 60)]));
                script.data(line, SERVER, at + think, records(&[(23, length)]));
                script.ack(line, CLIENT, at + think + 1);
            }
            script.data(line, CLIENT, at + 9500, records(&[(23, 19)]));
            script.send(line, CLIENT, at + 9501, Flags::FIN | Flags::ACK, b"");
            script.data(line, SERVER, at + 9502, records(&[(23, 19)]));
            script.send(line, SERVER, at + 9503, Flags::FIN | Flags::ACK, b"");
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (200, 200, 0), "{length}");
        assert_eq!(report.verdict, DelayVerdict::SlowApp, "{length}: {}", report.why);
    }
}

/// A server of HTTP/2 acknowledges settings, opens windows and sends pings while the request waits:
/// none of them is an answer.
#[test]
fn control_frames_of_http2_are_no_answers() {
    let site = |is_answered: bool| {
        let mut script = TrafficScript::default();
        for client in 0..20_i64 {
            let at = client * 50;
            let line = &mut open(&mut script, at, &[69, 180]);
            script.data(line, SERVER, at + 6, records(&[(23, 250), (23, 250), (23, 44)]));
            script.data(line, CLIENT, at + 7, records(&[(23, 26)]));
            script.data(line, SERVER, at + 12, records(&[(23, 300)]));
            for n in 0..4 {
                let at = at + 500 + n * 900;
                script.data(line, CLIENT, at, records(&[(23, 90)]));
                script.data(line, SERVER, at + 1, records(&[(23, 30)]));
                script.data(line, SERVER, at + 2, records(&[(23, 34)]));
                script.data(line, CLIENT, at + 3, records(&[(23, 34)]));
                if is_answered || n < 3 {
                    script.data(line, SERVER, at + 400, records(&[(23, 120), (23, 3000)]));
                    script.ack(line, CLIENT, at + 401);
                }
            }
            script.send(line, CLIENT, at + 9000, Flags::FIN | Flags::ACK, b"");
            script.send(line, SERVER, at + 9001, Flags::FIN | Flags::ACK, b"");
        }
        script.run(ModelOptions::default()).0
    };
    let report = site(true);
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (100, 100, 0));
    let think = tier.think.expect("there are answers");
    assert!((399_000..404_000).contains(&think.p95), "{think:?}");
    let report = site(false);
    assert_eq!((report.tiers[0].requests, report.tiers[0].unanswered), (100, 20));
    assert_eq!(report.verdict, DelayVerdict::Failing, "{}", report.why);
}

/// An application that answers nothing is not healthy because the server's tickets come at once.
#[test]
fn two_tickets_of_one_length_are_no_answer() {
    for end in [Flags::FIN | Flags::ACK, Flags::RST] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let at = client * 50;
            let line = &mut open(&mut script, at, &[69, 150]);
            if client % 2 == 0 {
                script.data(line, SERVER, at + 6, records(&[(23, 250)]));
                script.data(line, SERVER, at + 6, records(&[(23, 250)]));
            } else {
                script.data(line, SERVER, at + 6, records(&[(23, 250), (23, 250)]));
            }
            if client % 4 == 0 {
                script.data(line, SERVER, at + 40, records(&[(23, 300)]));
            }
            script.data(line, CLIENT, at + 3000, records(&[(23, 19)]));
            script.send(line, CLIENT, at + 3000, end, b"");
            script.send(line, SERVER, at + 3001, Flags::FIN | Flags::ACK, b"");
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.requests, tier.responses, tier.unanswered), (60, 15, 45));
        assert_eq!(report.verdict, DelayVerdict::Failing, "{}", report.why);
    }
}
