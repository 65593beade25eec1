//! HTTP as other programs' reports show it: streams, tunnels, and decrypted copies.

use super::*;

/// Forty clients; each has its connection to the port.
fn site(
    port: u16,
    mut speak: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64),
) -> (Report, ObservedRows) {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let line = &mut script.open(port, client * 31, 1);
        speak(&mut script, line, client * 31 + 5);
    }
    script.run(ModelOptions::default())
}

fn close(script: &mut TrafficScript, line: &mut ScriptedConnection, by: usize, at: i64) {
    script.send(line, by, at, Flags::FIN | Flags::ACK, b"");
    script.send(line, 1 - by, at + 1, Flags::FIN | Flags::ACK, b"");
    script.ack(line, by, at + 2);
}

/// curl/curl PR 191, espressif/arduino-esp32#4454, JRpersonal/streborn PR 458: old radio servers begin a
/// response with `ICY`.
#[test]
fn a_radio_that_answers_with_icy_has_answered() {
    let (report, rows) = site(8000, |script, line, at| {
        script.data(line, CLIENT, at, get("/stream"));
        script.data(line, SERVER, at + 20, b"ICY 200 OK\r\ncontent-type:audio/mpeg\r\n\r\n");
        for n in 0..20 {
            script.data(line, SERVER, at + 30 + n * 200, [7; 1200]);
            script.ack(line, CLIENT, at + 31 + n * 200);
        }
        close(script, line, CLIENT, at + 5000);
    });
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (40, 40, 0), "{}", report.why);
    assert_eq!((rows.requests[0].1, rows.requests[0].2), (Some(200), 20));
    assert_ne!(report.verdict, DelayVerdict::Failing, "{}", report.why);
    assert_ne!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
}

/// bombadil/mod_proxy_msrpc#14, FreeRDP/FreeRDP PR 4991: two requests carry a tunnel, one the bytes of each
/// direction, and announce a gigabyte that never comes.
#[test]
fn requests_that_carry_a_tunnel_are_no_slow_application() {
    for word in ["RPC", "RDG"] {
        let (report, _) = site(80, |script, line, at| {
            let head = |kind: &str| {
                format!("{word}_{kind}_DATA /rpc/rpcproxy.dll HTTP/1.1\r\nHost: mail\r\n")
            };
            script.data(line, CLIENT, at, head("IN") + "Content-Length: 1073741824\r\n\r\n");
            let down = &mut script.open(80, at, 1);
            script.data(down, CLIENT, at + 2, head("OUT") + "Content-Length: 0\r\n\r\n");
            let answer = "HTTP/1.1 200 Success\r\nContent-Length: 1073741824\r\n\r\n";
            script.data(down, SERVER, at + 10, answer);
            for n in 0..10 {
                script.data(line, CLIENT, at + 20 + n * 2000, [7; 300]);
                script.ack(line, SERVER, at + 21 + n * 2000);
                script.data(down, SERVER, at + 30 + n * 2000, [7; 500]);
                script.ack(down, CLIENT, at + 31 + n * 2000);
            }
            close(script, line, CLIENT, at + 25_000);
            close(script, down, CLIENT, at + 25_000);
        });
        let is_definite = !matches!(report.verdict, DelayVerdict::Smooth | DelayVerdict::Unknown);
        assert!(!is_definite, "{word}: {:?}: {}", report.verdict, report.why);
    }
}

/// droe/sslsplit#272, droe/sslsplit PR 149: a proxy writes decrypted traffic as synthetic packets,
/// without pure acknowledgements, stamps, identifications or a real clock.
#[test]
pub(super) fn a_decrypted_copy_is_read_like_the_original() {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let line = &mut script.open(443, client * 31, 0);
        for n in 0..5 {
            let at = 40 + client * 31 + n * 900;
            script.data(line, CLIENT, at, get("/a"));
            for part in ok(3000).chunks(1400) {
                script.data(line, SERVER, at + 20, part);
            }
        }
        close(&mut script, line, SERVER, 6000);
    }
    for packet in &mut script.packets {
        (packet.tick_us, packet.ip_id, packet.window) = (0, 0, 32_767);
    }
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
    let tier = &report.tiers[0];
    assert_eq!((tier.protocol, tier.requests, tier.responses), ("http", 200, 200));
    assert_eq!(rows.requests[0], row("/a", [20, 20]));
}

/// elastic/beats#4454 and #64: the interim response is not the response, and its time is not the request's,
/// also when the client waits long before it sends the body.
#[test]
fn an_interim_response_is_not_the_response() {
    for interim in
        ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"]
    {
        let (report, rows) = site(8083, |script, line, at| {
            let head = "POST /Foo HTTP/1.1\r\nHost: www\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n";
            for n in 0..5 {
                let at = at + n * 900;
                script.data(line, CLIENT, at, head);
                script.data(line, SERVER, at + 1, interim);
                script.data(line, CLIENT, at + 300, b"12345678");
                script.data(line, SERVER, at + 438, ok(20));
                script.ack(line, CLIENT, at + 439);
            }
        });
        assert_eq!(report.tiers[0].responses, 200, "{}", report.why);
        let is_right = |row: &RequestRow| row.1 == Some(200) && row.2 == 138;
        assert!(rows.requests.iter().all(is_right), "{interim}: {:?}", rows.requests);
    }
}
