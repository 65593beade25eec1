//! Answers to no request, and requests whose body the client keeps.

use super::*;

const TIMEOUT: &[u8] =
    b"HTTP/1.1 408 Request Time-out\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BAD: &[u8] = b"HTTP/1.1 400 Bad request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// haproxy/haproxy#897: browsers preconnect, and the server closes connections that stay
/// silent with a 408. haproxy/haproxy#1934: a 400 for a client that left without a word.
#[test]
fn a_server_that_says_why_it_closes_answers_no_request() {
    for (reason, is_used_before) in [(TIMEOUT, false), (TIMEOUT, true), (BAD, false)] {
        let mut script = TrafficScript::default();
        for client in 0..60_i64 {
            let line = &mut script.open(80, client * 50, 1);
            if client % 2 == 0 || is_used_before {
                script.exchange(line, client * 50 + 3, "/a", 20);
            }
            if client % 2 == 1 {
                script.data(line, SERVER, client * 50 + 5000, reason);
                script.send(line, SERVER, client * 50 + 5000, Flags::FIN | Flags::ACK, b"");
                script.send(line, CLIENT, client * 50 + 5002, Flags::FIN | Flags::ACK, b"");
            }
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        let requests = if is_used_before { 60 } else { 30 };
        assert_eq!((tier.requests, tier.responses, tier.unasked), (requests, requests, 0));
        assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
    }
}

/// lysine-dev/okhttp#3252: after a final answer to `Expect: 100-continue`, the client does not send the body
/// and uses the connection for its next request, with credentials for example.
#[test]
fn a_body_that_the_server_refused_may_never_come() {
    for body in ["Content-Length: 5000", "Transfer-Encoding: chunked"] {
        for is_sent in [false, true] {
            let mut script = TrafficScript::default();
            for client in 0..40_i64 {
                let line = &mut script.open(80, client * 50, 1);
                let head = |expects: &str| {
                    format!("PUT /up HTTP/1.1\r\nHost: www\r\n{body}\r\n{expects}\r\n")
                };
                let at = client * 50 + 3;
                script.data(line, CLIENT, at, head("Expect: 100-Continue\r\n"));
                let refusal = "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno";
                script.data(line, SERVER, at + 20, refusal);
                script.ack(line, CLIENT, at + 21);
                if is_sent {
                    script.data(line, CLIENT, at + 22, [b'x'; 1400]);
                    script.data(line, CLIENT, at + 22, [b'x'; 1400]);
                }
                for n in 0..3 {
                    script.exchange(line, at + 40 + n * 50, "/next", 10);
                }
            }
            let (report, rows) = script.run(ModelOptions::default());
            let tier = &report.tiers[0];
            let counts = (tier.requests, tier.responses, tier.unasked, tier.unanswered);
            assert_eq!(counts, (160, 160, 0, 0), "{body}, {is_sent}");
            assert_eq!(rows.requests.iter().filter(|one| one.0 == "/next").count(), 120);
            assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
        }
    }
}

/// Clients that close their side behind the request still want the answer.
#[test]
fn an_answer_after_the_clients_fin_is_an_answer() {
    let mut script = TrafficScript::default();
    for client in 0..60_i64 {
        let (line, at) = (&mut script.open(80, client * 50, 1), client * 50 + 3);
        script.data(line, CLIENT, at, get("/check"));
        script.send(line, CLIENT, at, Flags::FIN | Flags::ACK, b"");
        script.ack(line, SERVER, at + 1);
        script.data(line, SERVER, at + 600, ok(300));
        script.send(line, SERVER, at + 600, Flags::FIN | Flags::ACK, b"");
        script.ack(line, CLIENT, at + 601);
    }
    for client in 60..90_i64 {
        let line = &mut script.open(80, client * 50, 1);
        script.exchange(line, client * 50 + 3, "/fast", 5);
    }
    let (report, _) = script.run(ModelOptions::default());
    let tier = &report.tiers[0];
    assert_eq!((tier.requests, tier.responses, tier.unanswered), (90, 90, 0));
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    assert!(report.why.contains("/check"), "{}", report.why);
}
