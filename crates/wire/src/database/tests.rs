//! Database conversations: requests, responses and errors, in one piece, byte by byte, and as
//! garbage.

use expect_test::{Expect, expect};

use super::{MessageSink, feed, recognise};
use crate::flow::{Protocol, Side};
use crate::http::Framer;

/// Logs `[` and `]` around requests, `(` and `)` around responses, with their byte counts.
#[derive(Default)]
struct EventLog {
    text: String,
    counted: u64,
    parts: u8,
    is_open: bool,
    is_answering: bool,
    is_file_wanted: bool,
    requests: u32,
}

impl MessageSink for EventLog {
    fn is_fresh(&mut self) -> bool {
        self.requests == 0
    }
    fn request(&mut self) {
        self.requests += 1;
        (self.parts, self.is_open) = (0, true);
        self.text += "[";
    }
    fn part(&mut self, bit: u8) -> u8 {
        if !self.is_open {
            self.request();
        }
        self.parts |= bit;
        self.parts
    }
    fn command(&mut self, name: &[u8]) {
        self.text += &String::from_utf8_lossy(name);
    }
    fn request_end(&mut self) {
        self.is_open = false;
        self.text += &format!(" {}] ", std::mem::take(&mut self.counted));
    }
    fn count(&mut self, bytes: u64) {
        if self.is_open || self.is_answering {
            self.counted += bytes;
        }
    }
    fn response(&mut self) {
        if !self.is_answering {
            self.text += "(";
        }
        self.is_answering = true;
    }
    fn error(&mut self, code: &[u8]) {
        self.text += &format!("!{}", String::from_utf8_lossy(code));
    }
    fn response_end(&mut self) {
        self.is_answering = false;
        self.text += &format!(" {}) ", std::mem::take(&mut self.counted));
    }
    fn is_file_wanted(&mut self) -> bool {
        self.is_file_wanted
    }
    fn set_file_wanted(&mut self, is_wanted: bool) {
        self.is_file_wanted = is_wanted;
    }
    fn hidden(&mut self, by: Protocol) {
        self.text += by.as_str();
    }
    fn lost(&mut self) {
        self.text += "?";
    }
}

fn run(protocol: Protocol, side: Side, bytes: &[u8], step: usize, log: &mut EventLog) {
    let (mut framer, mut partial) = (Framer::Idle, None);
    for piece in bytes.chunks(step) {
        let length = u32::try_from(piece.len()).expect("short");
        feed(protocol, side, &mut framer, &mut partial, piece, length, log);
    }
}

/// Checks that the messages do not depend on how the bytes are cut.
fn check(protocol: Protocol, side: Side, bytes: &[u8], expected: &Expect) {
    let text = |step| {
        let mut log = EventLog { requests: 1, ..EventLog::default() };
        run(protocol, side, bytes, step, &mut log);
        log.text
    };
    expected.assert_eq(&text(bytes.len()));
    for step in [1, 2, 3, 5, 64] {
        assert_eq!(text(step), text(bytes.len()), "in pieces of {step}");
    }
}

fn mysql(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_le_bytes();
    [&[length[0], length[1], length[2], sequence], payload].concat()
}

fn postgresql(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}

fn mongodb(answers: u32, body: &[u8]) -> Vec<u8> {
    let words = [u32::try_from(body.len() + 16).expect("short"), 7, answers, 2013];
    [words.map(u32::to_le_bytes).concat(), body.to_vec()].concat()
}

#[test]
fn commands_of_mysql_are_named_and_errors_have_their_code() {
    let asked = [
        mysql(0, b"\x03select secret from person"),
        mysql(0, b"\x19\x01\0\0\0"),
        mysql(0, b"\x17\x01\0\0\0\0\x01\0\0\0"),
        mysql(0, b"\x0e"),
        mysql(0, b"\x01"),
    ];
    check(
        Protocol::Mysql,
        Side::Client,
        &asked.concat(),
        &expect!["[COM_QUERY 30] [COM_STMT_EXECUTE 14] [COM_PING 5] "],
    );
    let refused = mysql(1, b"\xff\x28\x04#42000You have an error");
    check(Protocol::Mysql, Side::Server, &refused, &expect!["(!1064"]);
    let greeting = mysql(0, &[b"\x0a10.11.6-MariaDB\0".as_slice(), &[0; 40]].concat());
    let length = u32::try_from(greeting.len()).expect("short");
    assert_eq!(
        recognise(&greeting, length, 4000, Side::Server),
        Some((Protocol::Mysql, Side::Server))
    );
}

#[test]
fn what_mysql_hides_is_known_from_the_introduction() {
    let mut log = EventLog::default();
    let tls = mysql(1, &[&[0x05, 0x8e, 0, 0], [0; 28].as_slice()].concat());
    run(Protocol::Mysql, Side::Client, &tls, tls.len(), &mut log);
    let packed = mysql(1, &[&[0x25, 0x86, 0, 0], [0; 60].as_slice()].concat());
    run(Protocol::Mysql, Side::Client, &packed, packed.len(), &mut log);
    assert_eq!(log.text, "tlsopaque");
}

#[test]
fn queries_of_postgresql_end_with_ready_also_when_they_come_together() {
    let extended = [
        postgresql(b'P', b"s\0select $1\0\0\0"),
        postgresql(b'B', b"\0s\0\0\0\0\0\0\0"),
        postgresql(b'D', b"P\0"),
        postgresql(b'E', b"\0\0\0\0\0"),
        postgresql(b'S', b""),
    ]
    .concat();
    let asked = [postgresql(b'Q', b"select 1\0"), extended.clone(), extended].concat();
    check(
        Protocol::Postgresql,
        Side::Client,
        &asked,
        &expect!["[Query 14] [Parse/Bind/Execute 55] [Parse/Bind/Execute 55] "],
    );
    let answered = [
        postgresql(b'T', b"\0\0"),
        postgresql(b'C', b"SELECT 1\0"),
        postgresql(b'Z', b"I"),
        postgresql(b'N', b"SNOTICE\0\0"),
        postgresql(b'E', b"SERROR\0VERROR\0C42P01\0Mrelation\0\0"),
        postgresql(b'Z', b"I"),
    ];
    check(Protocol::Postgresql, Side::Server, &answered.concat(), &expect!["( 27) (!42P01 43) "]);
}

#[test]
fn tls_inside_of_postgresql_is_seen() {
    let mut log = EventLog::default();
    let ask = [8_u32.to_be_bytes(), 80_877_103_u32.to_be_bytes()].concat();
    assert_eq!(recognise(&ask, 8, 4000, Side::Client), Some((Protocol::Postgresql, Side::Client)));
    run(Protocol::Postgresql, Side::Client, &ask, 8, &mut log);
    run(Protocol::Postgresql, Side::Server, b"S", 1, &mut log);
    assert_eq!(log.text, "tls");
}

#[test]
fn pipelined_commands_of_redis_are_told_apart() {
    let asked = b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$5\r\nva\r\nl\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
    let mut log = EventLog::default();
    run(Protocol::Redis, Side::Client, asked, asked.len(), &mut log);
    assert_eq!(log.text, "[SET 31] [GET 20] [PING 14] ");
    // A command split over two packets is not reassembled.
    let mut log = EventLog::default();
    run(Protocol::Redis, Side::Client, asked, 1, &mut log);
    assert_eq!(log.text, "[(other) 31] [(other) 20] [(other) 14] ");
    let answered = b"+OK\r\n$-1\r\n*2\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n%1\r\n+a\r\n:1\r\n";
    check(Protocol::Redis, Side::Server, answered, &expect!["( 5) ( 5) ( 23) ( 12) "]);
    let mut log = EventLog::default();
    let refused = b"-WRONGTYPE Operation\r\n-ERR unknown\r\n";
    run(Protocol::Redis, Side::Server, refused, refused.len(), &mut log);
    assert_eq!(log.text, "(!WRONGTYPE 22) (!ERR 14) ");
    let pushed = b">2\r\n$1\r\na\r\n:1\r\n:5\r\n";
    check(Protocol::Redis, Side::Server, pushed, &expect!["( 4) "]);
    assert_eq!(recognise(asked, 100, 4000, Side::Client), Some((Protocol::Redis, Side::Client)));
}

#[test]
fn messages_of_mongodb_are_named_by_their_command() {
    let document = |fields: &[u8]| [&[0, 0, 0, 0, 0], [200, 0, 0, 0].as_slice(), fields].concat();
    let find = mongodb(0, &document(b"\x02find\0\x05\0\0\0shop\0 and much more about it"));
    let silent = mongodb(0, &[&[2, 0, 0, 0, 0], [0; 60].as_slice()].concat());
    check(
        Protocol::Mongodb,
        Side::Client,
        &[find.clone(), silent, find.clone()].concat(),
        &expect!["[find 63] [find 63] "],
    );
    let failed =
        mongodb(7, &document(b"\x01ok\0\0\0\0\0\0\0\0\0\x02errmsg\0 and so on, and so on"));
    let fine = mongodb(7, &document(b"\x03cursor\0 and so on, and so on, and so on"));
    check(Protocol::Mongodb, Side::Server, &[fine, failed].concat(), &expect!["( 65) (! 66) "]);
    let length = u32::try_from(find.len()).expect("short");
    assert_eq!(
        recognise(&find, length, 4000, Side::Client),
        Some((Protocol::Mongodb, Side::Client))
    );
}

#[test]
fn any_bytes_in_any_pieces_end_well() {
    arbtest::arbtest(|u| {
        let protocol = *u.choose(&[
            Protocol::Mysql,
            Protocol::Postgresql,
            Protocol::Redis,
            Protocol::Mongodb,
        ])?;
        let side = *u.choose(&[Side::Client, Side::Server])?;
        let (mut framer, mut partial, mut log) = (Framer::Idle, None, EventLog::default());
        while !u.is_empty() {
            let bytes: Vec<u8> = u.arbitrary()?;
            let more = if u.arbitrary()? { u.int_in_range(0..=50)? } else { 0 };
            let length = u32::try_from(bytes.len()).expect("short") + more;
            feed(protocol, side, &mut framer, &mut partial, &bytes, length, &mut log);
        }
        Ok(())
    });
}
