//! Ports whose protocol is not read: nothing definite but what TCP alone shows. And commands whose
//! responses wait for news, in protocols that are read.

use super::*;

/// Bytes that clients and servers of protocols that are not read begin with.
const SPOKEN: [(&str, u16, &[u8], &[u8]); 10] = [
    ("memcached", 11_211, b"get user:1\r\n", b"VALUE user:1 0 2\r\nok\r\nEND\r\n"),
    ("AMQP", 5672, b"AMQP\0\0\x09\x01", b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce"),
    (
        "DNS",
        53,
        b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01",
        b"\0\x2d\x12\x34\x81\x80\0\x01",
    ),
    ("Kafka", 9092, b"\0\0\0\x1a\0\x12\0\x03\0\0\0\x01\0\x04kcat", b"\0\0\0\x10\0\0\0\x01\0\0\0\0"),
    ("Cassandra", 9042, b"\x04\0\0\0\x05\0\0\0\0", b"\x84\0\0\0\x06\0\0\0\x02\0\0"),
    ("SMTP", 25, b"EHLO mail.example\r\n", b"250 mx.example\r\n"),
    (
        "LDAP",
        389,
        b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0",
        b"\x30\x0c\x02\x01\x01\x61\x07",
    ),
    ("MQTT", 1883, b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0", b"\x20\x02\0\0"),
    ("TDS", 1433, b"\x12\x01\0\x2f\0\0\x01\0", b"\x04\x01\0\x25\0\0\x01\0"),
    ("FastCGI", 9000, b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0", b"\x01\x06\0\x01\0\x04\0\0"),
];

/// Twenty connections to each port in turn; the report for each.
fn each(speak: impl Fn(&mut TrafficScript, &mut ScriptedConnection, i64, [&[u8]; 2])) {
    for (name, port, ask, answer) in SPOKEN {
        let mut script = TrafficScript::default();
        for client in 0..20_i64 {
            let line = &mut script.open(port, client * 37, 1);
            speak(&mut script, line, client * 37 + 5, [ask, answer]);
        }
        let (report, _) = script.run(ModelOptions::default());
        let tier = &report.tiers[0];
        assert_eq!((tier.protocol, tier.port), ("opaque", port), "{name}");
        assert_eq!(tier.verdict, DelayVerdict::Unknown, "{name}: {}", tier.why);
        assert!(tier.why.contains("not read"), "{name}: {}", tier.why);
        let slices = tier.slices.iter().filter_map(|slice| slice.verdict);
        let definite = slices.filter(|verdict| verdict.needs_protocol()).count();
        assert_eq!(definite, 0, "{name}");
    }
}

/// linkedin/kafka#418, apache/kafka#10674, confluentinc/confluent-kafka-dotnet#1412: a fetch waits for
/// data; how long says nothing about the broker.
#[test]
fn answers_that_wait_for_news_are_not_called_slow() {
    each(|script, line, at, [ask, answer]| {
        for n in 0..6 {
            script.data(line, CLIENT, at + n * 1500, ask);
            script.data(line, SERVER, at + n * 1500 + 500 + n * 80, answer);
            script.ack(line, CLIENT, at + n * 1500 + 501 + n * 80);
        }
    });
}

/// zulip/zulip#20243, rabbitmq/rabbitmq-dotnet-client#301, datastax/starlight-for-rabbitmq#34: a
/// consumer that takes no more messages for a while closes its window on purpose.
#[test]
fn consumers_that_close_their_window_are_not_called_slow_readers() {
    each(|script, line, at, [ask, answer]| {
        script.data(line, CLIENT, at, ask);
        for n in 0..4 {
            let at = at + 20 + n * 600;
            script.data(line, SERVER, at, answer);
            script.data(line, SERVER, at, [7; 1400]);
            line.window = 0;
            script.ack(line, CLIENT, at + 1);
            line.window = 500;
            script.ack(line, CLIENT, at + 590);
        }
    });
}

/// A farewell that crosses the server's close is no request: QUIT, an AMQP close, a TDS attention.
#[test]
fn farewells_after_the_close_are_no_requests_that_crossed_it() {
    each(|script, line, at, [ask, answer]| {
        script.data(line, CLIENT, at, ask);
        script.data(line, SERVER, at + 5, answer);
        script.ack(line, CLIENT, at + 6);
        script.send(line, SERVER, at + 50, Flags::FIN | Flags::ACK, b"");
        script.data(line, CLIENT, at + 50, ask);
        script.send(line, SERVER, at + 51, Flags::RST, b"");
    });
}

/// What TCP alone shows stays definite: lost segments, and SYNs without an answer.
#[test]
fn losses_are_definite_whatever_is_spoken() {
    for (name, port, ask, answer) in SPOKEN {
        let mut script = TrafficScript::default();
        for client in 0..40_i64 {
            let line = &mut script.open(port, client * 37, 1);
            let at = client * 37 + 5;
            script.data(line, CLIENT, at, ask);
            script.data(line, SERVER, at + 5, answer);
            if client % 2 == 0 {
                script.again(210);
            }
            script.ack(line, CLIENT, at + 216);
        }
        let (report, _) = script.run(ModelOptions::default());
        assert_eq!(report.verdict, DelayVerdict::PathLoss, "{name}: {}", report.why);
    }
}

/// A cache whose protocol is not read may be why the application before it is slow.
#[test]
fn a_slow_unread_port_behind_an_application_is_named() {
    let mut script = TrafficScript::default();
    for client in 0..40_i64 {
        let app = &mut script.open(80, client * 7, 1);
        let mut cache = script.line(11_211);
        cache.ends = [Endpoint { port: cache.ends[CLIENT].port, ..end(2, 0) }, end(9, 11_211)];
        script.send(&mut cache, CLIENT, client * 7, Flags::SYN, b"");
        script.send(&mut cache, SERVER, client * 7, Flags::SYN | Flags::ACK, b"");
        script.ack(&mut cache, CLIENT, client * 7);
        for n in 0..3 {
            let at = 400 + client * 11 + n * 3000;
            script.data(app, CLIENT, at, get("/list"));
            script.data(&mut cache, CLIENT, at + 1, b"get user:1\r\n");
            script.data(&mut cache, SERVER, at + 1301, b"VALUE user:1 0 2\r\nok\r\nEND\r\n");
            script.ack(&mut cache, CLIENT, at + 1301);
            script.data(app, SERVER, at + 1303, ok(20));
            script.ack(app, CLIENT, at + 1304);
        }
    }
    let (report, _) = script.run(ModelOptions::default());
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
    assert!(report.why.contains("port 11211 behind it"), "{}", report.why);
}

/// sidekiq/sidekiq#2581, redis/redis#7491 (blocking reads are not slow), mongodb/mongo#1015 and
/// typegoose/mongodb-memory-server#531 (`hello` is awaited for ten seconds).
#[test]
fn commands_that_wait_for_news_make_no_database_slow() {
    let queue = |command: &str, think: i64| {
        let mut script = TrafficScript::default();
        for client in 0..20_i64 {
            let line = &mut script.open(6379, client * 37, 1);
            let ask = format!("*3\r\n${}\r\n{command}\r\n$1\r\nq\r\n$1\r\n2\r\n", command.len());
            for n in 0..5 {
                let at = client * 37 + 5 + n * 2500;
                script.data(line, CLIENT, at, &ask);
                script.data(line, SERVER, at + think, b"*-1\r\n");
                script.ack(line, CLIENT, at + think + 1);
            }
        }
        script.run(ModelOptions::default()).0
    };
    for command in ["BRPOP", "blpop", "XREADGROUP"] {
        let report = queue(command, 2000);
        assert_eq!(report.verdict, DelayVerdict::Smooth, "{command}: {}", report.why);
        assert_eq!(report.tiers[0].requests, 100);
    }
    assert_eq!(queue("GETRANGE", 2000).verdict, DelayVerdict::SlowApp);

    let mut script = TrafficScript::default();
    for client in 0..10_i64 {
        let line = &mut script.open(27_017, client * 37, 1);
        for n in 0..5 {
            let at = client * 37 + 5 + n * 10_050;
            let message = |answers: u8| {
                let head = [37, 0, 0, 0, 7, 0, 0, 0, answers, 0, 0, 0, 0xdd, 7, 0, 0];
                let body = b"\0\0\0\0\0\x10\0\0\0\x10hello\0\x01\0\0\0\0";
                [&head[..], body].concat()
            };
            script.data(line, CLIENT, at, message(0));
            script.data(line, SERVER, at + 10_000, message(7));
            script.ack(line, CLIENT, at + 10_001);
        }
    }
    let (report, rows) = script.run(ModelOptions::default());
    assert_eq!((report.tiers[0].protocol, report.tiers[0].responses), ("mongodb", 50));
    assert_eq!(rows.databases[0].0, "hello");
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
}
