//! What databases send besides one response to one request.

use super::*;

/// Twenty connections to a database port, one request of each client after the other.
fn clients(
    script: &mut TrafficScript,
    port: u16,
    mut speak: impl FnMut(&mut TrafficScript, &mut ScriptedConnection, i64),
) {
    for client in 0..20_i64 {
        let line = &mut script.open(port, client * 37, 1);
        speak(script, line, client * 37 + 5);
    }
}

/// Five quick requests on each of twenty connections to Redis.
fn gets(script: &mut TrafficScript) {
    clients(script, 6379, |script, line, at| {
        for n in 0..5 {
            let at = at + n * 900;
            script.data(line, CLIENT, at, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
            script.data(line, SERVER, at + 2, b"$1\r\nv\r\n");
            script.ack(line, CLIENT, at + 3);
        }
    });
}

fn judge(script: TrafficScript) -> Report {
    script.run(ModelOptions::default()).0
}

#[track_caller]
fn check_counts(name: &str, report: &Report, requests: u64) {
    let tier = &report.tiers[0];
    let counts = (tier.requests, tier.responses, tier.unanswered, tier.unasked);
    assert_eq!(counts, (requests, requests, 0, 0), "{name}: {}", report.why);
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{name}: {}", report.why);
}

/// A packet of MySQL.
fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
    [&length[..3], &[sequence], payload].concat()
}

/// The greeting, the client's response with its capabilities, and the server's consent.
fn log_in(script: &mut TrafficScript, line: &mut ScriptedConnection, at: i64, capabilities: u32) {
    let greeting = [&b"\x0a8.0.35\0"[..], &[7; 40]].concat();
    script.data(line, SERVER, at, packet(0, &greeting));
    let response = [&capabilities.to_le_bytes()[..], &[7; 60]].concat();
    script.data(line, CLIENT, at + 1, packet(1, &response));
    script.data(line, SERVER, at + 2, packet(2, b"\0\0\0\x02\0\0\0"));
}

/// sysown/proxysql#4204, bung87/amysql#6: packets have three more bytes with zstd as well.
#[test]
fn a_connection_to_mysql_compressed_with_zstd_is_not_read() {
    const PLAIN: u32 = 0x00ff_a685;
    const ZLIB: u32 = 0x20;
    const ZSTD: u32 = 0x0400_0000;
    let run = |capabilities: u32, think: i64| {
        let mut script = TrafficScript::default();
        clients(&mut script, 3306, |script, line, at| {
            log_in(script, line, at, capabilities);
            let envelope = |sequence: u8, inner: &[u8]| match capabilities {
                PLAIN => inner.to_vec(),
                _ => {
                    let length = u8::try_from(inner.len()).expect("short");
                    [&[length, 0, 0, sequence, 0, 0, 0][..], inner].concat()
                }
            };
            for n in 0..5 {
                let at = at + 10 + n * 2000;
                script.data(line, CLIENT, at, envelope(0, &packet(0, b"\x03select 1")));
                script.data(line, SERVER, at + think, envelope(1, &packet(1, b"\0\0\0\x02\0\0\0")));
                script.ack(line, CLIENT, at + think + 1);
            }
        });
        judge(script)
    };
    check_counts("plain", &run(PLAIN, 20), 100);
    for capabilities in [PLAIN | ZLIB, PLAIN | ZSTD] {
        let quick = run(capabilities, 20);
        assert_eq!(quick.verdict, DelayVerdict::Smooth, "{}", quick.why);
        assert_eq!((quick.tiers[0].protocol, quick.tiers[0].responses), ("opaque", 100));
        let slow = run(capabilities, 1200);
        assert_eq!(slow.verdict, DelayVerdict::Unknown, "{}", slow.why);
    }
}

/// hoterran/tcpcollect#37, actiontech/dble#1397: the client sends a file in packets whose numbers wrap
/// around. None of them is a command.
#[test]
fn the_packets_of_a_file_are_no_commands() {
    let mut script = TrafficScript::default();
    clients(&mut script, 3306, |script, line, at| {
        log_in(script, line, at, 0x00ff_a685);
        script.data(
            line,
            CLIENT,
            at + 10,
            packet(0, b"\x03load data local infile 'x' into table t"),
        );
        script.data(line, SERVER, at + 11, packet(1, b"\xfbx"));
        let mut sequence = 1_u8;
        for n in 0..600 {
            sequence = sequence.wrapping_add(1);
            script.data(line, CLIENT, at + 12 + n / 100, packet(sequence, &[b'7'; 1000]));
        }
        script.data(line, CLIENT, at + 20, packet(sequence.wrapping_add(1), b""));
        let end = sequence.wrapping_add(2);
        script.data(line, SERVER, at + 30, packet(end, b"\0\0\0\x02\0\0\0"));
        script.data(line, CLIENT, at + 50, packet(0, b"\x03select 1"));
        script.data(line, SERVER, at + 60, packet(1, b"\0\0\0\x02\0\0\0"));
        script.ack(line, CLIENT, at + 61);
    });
    check_counts("load data", &judge(script), 40);
}

/// opensearch-project/data-prepper#5921, PeerDB-io/peerdb PR 3669: a change stream asks every second, and
/// the answer waits for that second when nothing changes. Compression hides the command.
#[test]
fn a_compressed_change_stream_makes_no_database_slow() {
    let run = |think: i64| {
        let message = |id: u8, answers: u8| {
            let head = [46, 0, 0, 0, id, 0, 0, 0, answers, 0, 0, 0, 0xdc, 7, 0, 0];
            [&head[..], &[0xdd, 7, 0, 0, 90, 0, 0, 0, 2], &[7; 21]].concat()
        };
        let mut script = TrafficScript::default();
        clients(&mut script, 27_017, |script, line, at| {
            for n in 0..5 {
                let at = at + n * 1300;
                script.data(line, CLIENT, at, message(7, 0));
                script.data(line, SERVER, at + think, message(8, 7));
                script.ack(line, CLIENT, at + think + 1);
            }
        });
        judge(script)
    };
    check_counts("quick", &run(20), 100);
    let waiting = run(1000);
    assert_eq!(waiting.verdict, DelayVerdict::Unknown, "{}", waiting.why);
}

/// zeek/zeek#4504 and zeek/zeek PR 4570: messages of a channel come without a request, and RESP2 has no
/// mark for them.
#[test]
fn messages_of_a_channel_are_no_responses() {
    for (kind, confirms) in [("subscribe", "message"), ("psubscribe", "pmessage")] {
        let mut script = TrafficScript::default();
        gets(&mut script);
        for client in 0..4_i64 {
            let line = &mut script.open(6379, client * 11, 1);
            let word = kind.to_uppercase();
            let ask = format!("*2\r\n${}\r\n{word}\r\n$1\r\nc\r\n", word.len());
            script.data(line, CLIENT, client * 11 + 5, &ask);
            let confirmed = format!("*3\r\n${}\r\n{kind}\r\n$1\r\nc\r\n:1\r\n", kind.len());
            script.data(line, SERVER, client * 11 + 6, &confirmed);
            for n in 0..60 {
                let at = 100 + client * 11 + n * 70;
                let items = if kind == "subscribe" { 3 } else { 4 };
                let head = format!("*{items}\r\n${}\r\n{confirms}\r\n", confirms.len());
                let rest = "$1\r\nc\r\n".repeat(items - 1);
                script.data(line, SERVER, at, head + &rest);
                script.ack(line, CLIENT, at + 1);
            }
        }
        check_counts(kind, &judge(script), 104);
    }
}

/// redis/redis PR 3612, codecrafters-io/build-your-own-redis PR 423: a replica acknowledges every second
/// and gets no reply; what the primary sends are commands.
#[test]
fn replication_is_neither_requests_nor_responses() {
    let acknowledgement = b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$2\r\n31\r\n";
    let mut script = TrafficScript::default();
    gets(&mut script);
    for replica in 0..3_i64 {
        let line = &mut script.open(6379, replica, 1);
        script.data(line, CLIENT, replica + 5, b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
        script.data(
            line,
            SERVER,
            replica + 6,
            b"+FULLRESYNC 8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb 0\r\n",
        );
        script.data(line, SERVER, replica + 20, b"$88\r\n");
        script.data(line, SERVER, replica + 20, [0x52; 88]);
        for n in 0..60 {
            let at = 100 + replica + n * 1000;
            if n % 5 > 0 {
                script.data(line, CLIENT, at + 5, acknowledgement);
                continue;
            }
            script.data(line, SERVER, at, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
            script.data(line, CLIENT, at + 5, acknowledgement);
        }
        script.send(line, CLIENT, 70_000 + replica, Flags::FIN | Flags::ACK, b"");
    }
    check_counts("replication", &judge(script), 103);
}

/// laixintao/iredis#300: a client that wants no replies.
#[test]
fn a_client_without_replies_is_no_failure() {
    let mut script = TrafficScript::default();
    gets(&mut script);
    for client in 0..4_i64 {
        let line = &mut script.open(6379, client * 11, 1);
        let at = client * 11 + 5;
        script.data(line, CLIENT, at, b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n");
        for n in 0..60 {
            script.data(line, CLIENT, at + n * 70, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
            script.ack(line, SERVER, at + n * 70 + 1);
        }
        script.send(line, CLIENT, 5000 + at, Flags::FIN | Flags::ACK, b"");
        script.send(line, SERVER, 5001 + at, Flags::FIN | Flags::ACK, b"");
    }
    let report = judge(script);
    assert_ne!(report.verdict, DelayVerdict::Failing, "{}", report.why);
}

/// A message of PostgreSQL.
fn letter(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// pgbouncer/pgbouncer PR 1007, cockroachdb/cockroach#153163: the server of a client that asks for protocol
/// 3.2 names the version it speaks. porsager/postgres#234: a request to cancel has its own connection and no
/// response.
#[test]
fn versions_and_cancelled_queries_of_postgresql_are_no_failures() {
    let mut script = TrafficScript::default();
    clients(&mut script, 5432, |script, line, at| {
        script.data(
            line,
            CLIENT,
            at,
            [&[0, 0, 0, 20, 0, 3, 0, 2][..], b"user\0ada\0\0\0\0"].concat(),
        );
        let (ready, idle) = (letter(b'Z', b"I"), letter(b'R', &[0; 4]));
        let version = letter(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]);
        let settings = letter(b'S', b"TimeZone\0UTC\0");
        script.data(line, SERVER, at + 2, [version, idle, settings, ready.clone()].concat());
        for n in 0..5 {
            let at = at + 10 + n * 900;
            script.data(line, CLIENT, at, letter(b'Q', b"select 1\0"));
            script.data(
                line,
                SERVER,
                at + 20,
                [letter(b'C', b"SELECT 1\0"), ready.clone()].concat(),
            );
            script.ack(line, CLIENT, at + 21);
        }
        let cancel = &mut script.open(5432, at + 5000, 1);
        let message = [0, 0, 0, 16, 4, 0xd2, 0x16, 0x2e, 0, 0, 0, 7, 1, 2, 3, 4];
        script.data(cancel, CLIENT, at + 5002, message);
        script.send(cancel, SERVER, at + 5003, Flags::FIN | Flags::ACK, b"");
        script.send(cancel, CLIENT, at + 5004, Flags::FIN | Flags::ACK, b"");
    });
    check_counts("postgresql", &judge(script), 100);
}

/// rq/rq#2079, redis/redis-py#599: workers that wait for a job are restarted; their last command has no reply.
#[test]
fn a_blocked_command_that_ends_with_its_connection_is_no_failure() {
    let mut script = TrafficScript::default();
    clients(&mut script, 6379, |script, line, at| {
        script.data(line, CLIENT, at, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        script.data(line, SERVER, at + 2, b"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n");
        script.data(line, CLIENT, at + 5, b"*3\r\n$5\r\nBRPOP\r\n$1\r\nq\r\n$1\r\n0\r\n");
        script.ack(line, SERVER, at + 6);
        script.send(line, CLIENT, at + 9000, Flags::FIN | Flags::ACK, b"");
        script.send(line, SERVER, at + 9001, Flags::FIN | Flags::ACK, b"");
    });
    let report = judge(script);
    assert_eq!(report.tiers[0].requests, 40);
    assert_eq!(report.verdict, DelayVerdict::Smooth, "{}", report.why);
}
