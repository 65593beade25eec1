//! Hostile input: reading ends, memory stays bounded, skipped data is counted, and threads change
//! nothing.
//!
//! Inputs are built layer by layer (container, link, tags, IP, tunnel, TCP options, conversation)
//! and then damaged, so that the damage reaches every parser. `ARBTEST_BUDGET_MS=3600000 cargo test
//! -p weir-wire --test traffic hostile` runs each test for an hour. The whole process is limited to
//! [`MEMORY_BYTES`]: a false length must not be trusted.

#![expect(clippy::cast_possible_truncation, reason = "what is built here is short")]

use std::io::{Cursor, Write};

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_wire::compat::{
    EndStamp, RequestExtractor, RequestOptions, SliceAggregator, SliceOptions, StartStamp,
};
use weir_wire::text::{LineReader, TextReader};
use weir_wire::{
    Capture, CaptureFormat, CaptureInput, Model, ModelOptions, ObservedConnection, ObservedRequest,
    Report, RowSink, SkipReason,
};

/// Address space of the process, including its threads' stacks and the allocator's reserves.
const MEMORY_BYTES: u64 = 3 << 30;

fn bound_memory() {
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    let current = Some(maximum.map_or(MEMORY_BYTES, |most| most.min(MEMORY_BYTES)));
    setrlimit(Resource::As, Rlimit { current, maximum }).expect("a limit can be lowered");
}

fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// A conversation: the server's port, and payloads with whether the server sent them.
type ConversationScript = (u16, Vec<(bool, Vec<u8>)>);

fn mysql(sequence: u8, payload: &[u8]) -> Vec<u8> {
    [&[payload.len() as u8, 0, 0, sequence], payload].concat()
}

fn postgresql(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, body.len() as u8 + 4], body].concat()
}

fn mongodb(answers: u8, body: &[u8]) -> Vec<u8> {
    let head = [body.len() as u8 + 16, 0, 0, 0, 7, 0, 0, 0, answers, 0, 0, 0, 0xdd, 7, 0, 0];
    [&head, body].concat()
}

fn talks() -> Vec<ConversationScript> {
    let said = |is_answer: bool, text: &[u8]| (is_answer, text.to_vec());
    let greeting = b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x21\x02\0\xff\xc1\x15abcdefghijklm\0";
    let find = b"\0\0\0\0\0\x1a\0\0\0\x02find\0\x06\0\0\0items\0\x00";
    vec![
        (80, vec![
            said(false, b"GET /item/7?a=1 HTTP/1.1\r\nHost: shop\r\nX-Request-Id: 77\r\n\r\nHEAD /h HTTP/1.1\r\n\r\n"),
            said(true, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 304 Not Modified\r\n\r\n"),
            said(false, b"POST /p HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"),
            said(true, b"HTTP/1.1 100 Continue\r\n\r\n"),
            said(false, b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"),
            said(true, b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n"),
            said(false, b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
            said(true, b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x02hi"),
        ]),
        (50051, vec![
            said(false, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x08\
                \0\0\x07\x01\x04\0\0\0\x01\x83\x86\x44\x03/ab\0\0\x05\0\x01\0\0\0\x01hello"),
            said(true, b"\0\0\0\x04\0\0\0\0\0\0\0\x07\x01\x04\0\0\0\x01\x88\x5f\x04abcd\
                \0\0\x08\0\0\0\0\0\x01\0\0\0\0\x03abc"),
            said(false, b"\0\0\x04\x08\0\0\0\0\x01\0\0\x01\0\0\0\x02\x01\x05\0\0\0\x03\x82\x84"),
            said(true, b"\0\0\x10\x01\x05\0\0\0\x01\x40\x0bgrpc-status\x0214\0\0\x04\x03\0\0\0\0\x03\0\0\0\x07\
                \0\0\x08\x07\0\0\0\0\0\0\0\0\x03\0\0\0\0"),
        ]),
        (443, vec![
            said(false, b"\x16\x03\x01\0\x04\x01\0\0\0"),
            said(true, b"\x16\x03\x03\0\x04\x02\0\0\0\x17\x03\x03\0\x01x"),
        ]),
        (3306, vec![
            (true, mysql(0, greeting)),
            (false, mysql(1, b"\x85\xa6\xff\x01\0\0\0\x01\x21")),
            (true, mysql(2, b"\0\0\0\x02\0\0\0")),
            (false, mysql(0, b"\x03select 1")),
            (true, mysql(1, b"\xff\x28\x04#42000no")),
        ]),
        (5432, vec![
            said(false, b"\0\0\0\x08\x04\xd2\x16\x2f"),
            said(true, b"N"),
            said(false, b"\0\0\0\x0c\0\x03\0\0user\0\0\0"),
            (true, [postgresql(b'R', b"\0\0\0\0"), postgresql(b'Z', b"I")].concat()),
            (false, [postgresql(b'P', b"\0q\0\0\0"), postgresql(b'S', b"")].concat()),
            (true, [postgresql(b'E', b"C42P01\0\0"), postgresql(b'Z', b"I")].concat()),
        ]),
        (6379, vec![
            said(false, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n"),
            said(true, b"$-1\r\n-WRONGTYPE no\r\n*2\r\n:1\r\n%1\r\n+a\r\n_\r\n"),
        ]),
        (27017, vec![(false, mongodb(0, find)), (true, mongodb(7, find))]),
    ]
}

struct Segment {
    is_answer: bool,
    bytes: Vec<u8>,
}

fn options(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let own = match u.int_in_range(0..=4)? {
        0 => vec![],
        1 => [&[1, 1, 8, 10], u.bytes(8)?].concat(),
        2 => [&[2, 4, 5, 0xb4, 4, 2, 8, 10], u.bytes(8)?, &[1, 3, 3, 7]].concat(),
        3 => [&[1, 1, 5, 18], u.bytes(16)?].concat(),
        _ => {
            let words = u.int_in_range(0..=10)?;
            u.bytes(4 * words)?.to_vec()
        }
    };
    Ok(own)
}

/// The handshake, the payloads, and the close; some of it repeated and out of order.
fn segments(u: &mut Unstructured<'_>, (port, said): &ConversationScript) -> Result<Vec<Segment>> {
    let client: u16 = u.int_in_range(1024..=1028)?;
    let (mut numbers, mut out) = ([u.arbitrary::<u32>()?, u.arbitrary()?], Vec::new());
    let mut send = |u: &mut Unstructured<'_>, is_answer: bool, flags: u8, payload: &[u8]| {
        let (own, other) = (usize::from(is_answer), usize::from(!is_answer));
        let options = options(u)?;
        let mut bytes = Vec::new();
        let ports = if is_answer { [*port, client] } else { [client, *port] };
        ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
        numbers.into_iter().enumerate().for_each(|(at, _)| {
            bytes.extend(numbers[if at == 0 { own } else { other }].to_be_bytes());
        });
        bytes.extend([(5 + options.len() as u8 / 4) << 4, flags]);
        bytes.extend(u.int_in_range(0..=600_u16)?.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.extend(payload);
        let length = payload.len() as u32 + u32::from(flags & 3 != 0);
        numbers[own] = numbers[own].wrapping_add(length);
        out.push(Segment { is_answer, bytes });
        Ok(())
    };
    if u.arbitrary()? {
        send(u, false, 2, b"")?;
        send(u, true, 0x12, b"")?;
        send(u, false, 0x10, b"")?;
    }
    for (is_answer, payload) in said {
        let at = u.int_in_range(0..=payload.len())?;
        send(u, *is_answer, 0x18, &payload[..at])?;
        send(u, *is_answer, 0x18, &payload[at..])?;
        if u.ratio(1, 4)? {
            send(u, !is_answer, 0x10, b"")?;
        }
    }
    match u.int_in_range(0..=3)? {
        0 => send(u, true, 0x14, b"")?,
        1 => send(u, false, 0x11, b"")?,
        _ => {}
    }
    for _ in 0..u.int_in_range(0..=2)? {
        let (a, b) = (u.choose_index(out.len())?, u.choose_index(out.len())?);
        out.swap(a, b);
        let Segment { is_answer, bytes } = &out[a];
        let again = Segment { is_answer: *is_answer, bytes: bytes.clone() };
        out.insert(b, again);
    }
    Ok(out)
}

/// IP datagrams of a segment: IPv4 with options, IPv6 with extension headers, fragmented, in a
/// tunnel.
fn datagrams(u: &mut Unstructured<'_>, segment: &Segment) -> Result<Vec<(u16, Vec<u8>)>> {
    let is_answer = segment.is_answer;
    let cut = if u.ratio(1, 6)? { 8 * u.int_in_range(1..=4)? } else { usize::MAX };
    let cut = cut.min(segment.bytes.len());
    let pieces = [(0, &segment.bytes[..cut]), (cut, &segment.bytes[cut..])];
    let count = if cut < segment.bytes.len() { 2 } else { 1 };
    let is_six = u.arbitrary()?;
    let id: u16 = u.arbitrary()?;
    let mut out = Vec::new();
    for (number, (offset, piece)) in pieces.into_iter().take(count).enumerate() {
        let has_more = number + 1 < count;
        let datagram = if is_six {
            six(u, is_answer, piece, (count > 1).then_some((id, offset, has_more)))?
        } else {
            four(u, 6, is_answer, piece, (id, offset, has_more))?
        };
        let kind = if is_six { 0x86dd } else { 0x0800 };
        out.push(if u.ratio(1, 4)? { tunnel(u, kind, &datagram)? } else { (kind, datagram) });
    }
    Ok(out)
}

fn four(
    u: &mut Unstructured<'_>,
    protocol: u8,
    is_answer: bool,
    body: &[u8],
    (id, offset, has_more): (u16, usize, bool),
) -> Result<Vec<u8>> {
    let words = u.int_in_range(0..=2)?;
    let options = u.bytes(4 * words)?.to_vec();
    let length = 20 + options.len() + body.len();
    let mut out = vec![0x45 + options.len() as u8 / 4, 0];
    out.extend(short(length).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend((short(offset / 8) | if has_more { 0x2000 } else { 0 }).to_be_bytes());
    out.extend([64, protocol, 0, 0]);
    let last = if is_answer { [2, 1] } else { [1, 2] };
    last.iter().for_each(|last| out.extend([192, 0, 2, *last]));
    out.extend(options);
    out.extend(body);
    Ok(out)
}

fn six(
    u: &mut Unstructured<'_>,
    is_answer: bool,
    body: &[u8],
    piece: Option<(u16, usize, bool)>,
) -> Result<Vec<u8>> {
    let (mut next, mut headers) = (6, Vec::new());
    if let Some((id, offset, has_more)) = piece {
        let field = short(offset) & 0xfff8 | u16::from(has_more);
        headers = [&[next, 0], &field.to_be_bytes()[..], &[0, 0], &id.to_be_bytes()].concat();
        next = 44;
    }
    for _ in 0..u.int_in_range(0..=2)? {
        let kind = *u.choose(&[0, 43, 60, 135, 51])?;
        headers =
            [&[next, if kind == 51 { 1 } else { 0 }, 0, 0, 0, 0, 0, 0], &headers[..]].concat();
        if kind == 51 {
            headers.splice(8..8, [0; 4]);
        }
        next = kind;
    }
    let mut out = vec![0x60, 0, 0, 0];
    out.extend(short(headers.len() + body.len()).to_be_bytes());
    out.extend([next, 64]);
    let last = if is_answer { [2, 1] } else { [1, 2] };
    last.iter()
        .for_each(|last| out.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *last]));
    out.extend(headers);
    out.extend(body);
    Ok(out)
}

/// IP in IP, GRE with a key, VXLAN.
fn tunnel(u: &mut Unstructured<'_>, kind: u16, datagram: &[u8]) -> Result<(u16, Vec<u8>)> {
    let (protocol, head) = match u.int_in_range(0..=2)? {
        0 => (if kind == 0x0800 { 4 } else { 41 }, vec![]),
        1 => (47, [&[0x20, 0][..], &kind.to_be_bytes(), &[0, 0, 0, 9]].concat()),
        _ => {
            let length = short(datagram.len() + 30).to_be_bytes();
            let udp = [&[0x30, 0x39, 0x12, 0xb5][..], &length, &[0, 0]].concat();
            let inner = [&[2; 12][..], &kind.to_be_bytes()].concat();
            (17, [&udp[..], &[8, 0, 0, 0, 0, 0, 5, 0], &inner].concat())
        }
    };
    let body = [head, datagram.to_vec()].concat();
    Ok((0x0800, four(u, protocol, false, &body, (1, 0, false))?))
}

/// Link types by their number in files: loopback in both orders, Ethernet, raw, SLL, SLL2, and an
/// unsupported one.
const LINKS: [u16; 7] = [0, 1, 101, 108, 113, 276, 147];

fn frame(u: &mut Unstructured<'_>, link: u16, kind: u16, datagram: &[u8]) -> Result<Vec<u8>> {
    let tags = if u.ratio(1, 4)? { u.int_in_range(1..=5)? } else { 0 };
    let mut tagged = kind.to_be_bytes().to_vec();
    for _ in 0..tags {
        tagged = [&[0x81, 0, 0, 5], &tagged[..]].concat();
    }
    let head = match link {
        0 => vec![2, 0, 0, 0],
        108 => vec![0, 0, 0, 24],
        1 => [&[2; 12], &tagged[..]].concat(),
        113 => [&[0, 4, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0], &tagged[..]].concat(),
        276 => {
            let head = [&kind.to_be_bytes()[..], &[0, 0, 0, 0, 0, 3, 0, 1, 4, 6]].concat();
            [&head[..], &[2, 2, 2, 2, 2, 2, 0, 0]].concat()
        }
        _ => vec![],
    };
    Ok([&head, datagram].concat())
}

/// A number in the byte order of a file.
fn word(is_big: bool, value: u32) -> [u8; 4] {
    if is_big { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn block(is_big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = word(is_big, padded as u32 + 12);
    let mut out = [word(is_big, kind), total].concat();
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(total);
    out
}

/// Any kind of pcap, or pcapng with interfaces of different clock resolutions.
fn capture(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (is_big, link, talks) = (u.arbitrary()?, *u.choose(&LINKS)?, talks());
    let magic = *u.choose(&[0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34, 0x0a0d_0d0a])?;
    let is_next = magic == 0x0a0d_0d0a;
    let half = |value: u16| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = Vec::new();
    if is_next {
        let section = [&word(is_big, 0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
        out.extend(block(is_big, magic, &section));
        for _ in 0..2 {
            let resolution = [u.arbitrary()?, 0, 0, 0, 0, 0, 0, 0];
            let head = [&half(link)[..], &[0; 6], &half(9), &half(1), &resolution].concat();
            out.extend(block(is_big, 1, &head));
        }
    } else {
        out.extend(
            [magic, 0x0004_0002, 0, 0, 65_535, link.into()].map(|w| word(is_big, w)).concat(),
        );
    }
    let mut at: u32 = 0;
    for _ in 0..u.int_in_range(1..=3)? {
        let talk = u.choose(&talks)?;
        for segment in segments(u, talk)? {
            for (kind, datagram) in datagrams(u, &segment)? {
                let whole = frame(u, link, kind, &datagram)?;
                let cut =
                    if u.ratio(1, 8)? { u.int_in_range(0..=whole.len())? } else { whole.len() };
                let lengths = [cut as u32, whole.len() as u32].map(|w| word(is_big, w)).concat();
                at = at.wrapping_add(u.int_in_range(0..=300_000)?);
                if is_next {
                    let stamp = [u.int_in_range(0..=1)?, 0, at].map(|w| word(is_big, w)).concat();
                    out.extend(block(is_big, 6, &[&stamp, &lengths, &whole[..cut]].concat()));
                } else {
                    let stamp = [1_700_000_000, at].map(|w| word(is_big, w)).concat();
                    let more = if magic == 0xa1b2_cd34 { 8 } else { 0 };
                    out.extend([&stamp, &lengths, &[0; 8][..more], &whole[..cut]].concat());
                }
            }
        }
    }
    Ok(out)
}

/// Changes bytes, truncates, repeats and removes parts.
fn damage(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>, most: u32) -> Result<()> {
    for _ in 0..u.int_in_range(0..=most)? {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = u.choose_index(bytes.len())?;
        let end = (at + u.int_in_range(0..=40)?).min(bytes.len());
        match u.int_in_range(0..=6)? {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, u.arbitrary::<[u8; 8]>()?)),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.extend_from_within(at..end),
            4 => bytes[at..end].fill(u.arbitrary()?),
            _ => bytes[at] = u.arbitrary()?,
        }
    }
    Ok(())
}

/// Compresses like a file, or not at all.
fn pack(u: &mut Unstructured<'_>, bytes: Vec<u8>) -> Result<Vec<u8>> {
    Ok(match u.int_in_range(0..=9)? {
        0 => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&bytes).expect("memory takes all");
            encoder.finish().expect("memory takes all")
        }
        1 => zstd::encode_all(bytes.as_slice(), 1).expect("memory takes all"),
        _ => bytes,
    })
}

/// Requests rows and checks their times.
struct CheckingSink;

impl RowSink for CheckingSink {
    fn request(&mut self, request: &ObservedRequest<'_>) {
        assert!(request.answered.is_none_or(|[first, last]| first <= last || last == 0));
    }

    fn connection(&mut self, connection: &ObservedConnection) {
        assert!(connection.first_ts <= connection.last_ts);
    }
}

/// Result of bytes that are a capture or text, with the number of records or lines; `None` when
/// refused.
fn read(bytes: Vec<u8>, threads: usize) -> Option<(Report, u64, u64)> {
    let input = CaptureInput::from_stream("test", Box::new(Cursor::new(bytes))).ok()?;
    let options = ModelOptions { threads, ..ModelOptions::default() };
    let mut model = Model::new(options, Some(Box::new(CheckingSink)));
    if input.format() == CaptureFormat::Text {
        let mut reader = TextReader::new(Box::new(|_| Some(0)), 0, 1);
        let mut lines = LineReader::new(b"", input);
        let mut count = 0;
        while let Some(packets) = reader.feed(&mut lines, &mut model).ok()? {
            count += packets;
        }
        let skipped = reader.skipped_as_captures_do().total();
        return Some((model.report(), count + skipped, skipped));
    }
    let mut capture = Capture::new(input).ok()?;
    while capture.feed(&mut model).expect("memory can be read") {}
    // A packet of an undescribed interface is not a record.
    let skipped = capture.skipped().total() - capture.skipped().count(SkipReason::Interface);
    Some((model.report(), capture.records(), skipped))
}

fn check(bytes: &[u8]) {
    let Some((report, records, skipped)) = read(bytes.to_vec(), 1) else { return };
    let of_model = report.packets + report.skipped.total();
    assert!(of_model <= records, "{of_model} packets of {records} records");
    // One more for where reading ended; several fragments make one packet.
    assert!(of_model + skipped <= records + 1, "{of_model} and {skipped} of {records}");
    for tier in &report.tiers {
        assert!(tier.responses <= tier.requests, "{} of {}", tier.responses, tier.requests);
    }
    let (again, ..) = read(bytes.to_vec(), 2).expect("it was read before");
    assert_eq!(format!("{report:?}"), format!("{again:?}"));
}

#[test]
fn hostile_captures_are_read_to_their_end() {
    bound_memory();
    let mut used = 0;
    arbtest(|u| {
        let mut bytes = capture(u)?;
        damage(u, &mut bytes, 12)?;
        let mut bytes = pack(u, bytes)?;
        damage(u, &mut bytes, 1)?;
        used += u64::from(read(bytes.clone(), 1).is_some_and(|(report, ..)| report.packets > 0));
        check(&bytes);
        Ok(())
    })
    .budget_ms(1000);
    assert!(used > 0, "no capture had a packet: the damage is too great to test anything");
}

#[test]
fn undamaged_captures_of_every_kind_are_understood() {
    bound_memory();
    let mut answered = 0;
    arbtest(|u| {
        let bytes = capture(u)?;
        check(&bytes);
        let (report, records, skipped) = read(bytes, 1).expect("nothing is wrong with it");
        assert!(records > 0);
        answered += report.tiers.iter().map(|tier| tier.responses).sum::<u64>();
        assert!(report.packets + report.skipped.total() + skipped > 0);
        Ok(())
    })
    // The default tenth of a second is too short for a capture with a response on a busy machine.
    .budget_ms(1000);
    assert!(answered > 0, "no response was understood");
}

const LINES: [&str; 12] = [
    "2026-11-21 10:00:00.000001 eth0  In  IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:78, ack 1, win 502, options [nop,nop,TS val 1 ecr 2,nop,nop,sack 2 {1:5}{7:9}], length 77: HTTP: GET / HTTP/1.1",
    "10:00:00.000002 02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 802.1Q (0x8100), length 135: vlan 5, p 0, ethertype IPv4 (0x0800), (tos 0x0, ttl 64, id 7, offset 0) 10.0.0.1.40001 > 10.0.0.2.80: P 1:5(4) ack 1 win 5 <nop,sack sack 1 {1:2}>",
    "1.5 IP6 2001:db8::1.443 > 2001:db8::2.80: tcp 99",
    "10:00:00.000003 IP (tos 0x0, ttl 64, id 7, offset 0, flags [DF], proto TCP (6), length 60)",
    "    10.0.0.1.40000 > 10.0.0.2.80: Flags [S], cksum 0x1 (correct), seq 5, win 9, options [mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7], length 0",
    "1795168800.001067 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [S], seq 608707570, win 502, options [mss 1460], length 0",
    "1795168800.001087 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [S.], seq 1015077638, ack 608707571, win 502, length 0",
    "1795168800.001167 IP 10.0.0.2.http > 10.0.0.1.40000: Flags [P.], seq 1:20, ack 78, win 502, options [nop,nop,TS val 1 ecr 2], length 19: HTTP: HTTP/1.1 200 OK",
    "10:00:00.000001 IP 192.0.2.1 > 192.0.2.2: GREv0, length 85: IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [F.], seq 78, ack 1, win 502, length 0",
    "\t0x0000:  4500 003c 0000 4000 4006 0000 0a00 0001",
    "10:00:00.000004 ARP, Request who-has 10.0.0.1 tell 10.0.0.2, length 28",
    "10:00:00.000005 IP 10.0.0.1.40000 > 10.0.0.2.80: [|tcp]",
];

#[test]
fn hostile_text_is_read_to_its_end() {
    bound_memory();
    arbtest(|u| {
        let mut bytes = Vec::new();
        for _ in 0..u.int_in_range(1..=20)? {
            let mut line = u.choose(&LINES)?.as_bytes().to_vec();
            damage(u, &mut line, 2)?;
            bytes.extend(line);
            bytes.push(b'\n');
        }
        damage(u, &mut bytes, 4)?;
        let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
        if let Some((report, known, skipped)) = read(pack(u, bytes)?, 1) {
            assert!(report.packets + skipped <= known && known <= lines);
        }
        Ok(())
    });
}

#[test]
fn hostile_text_of_the_old_tool_is_counted() {
    bound_memory();
    arbtest(|u| {
        let options = RequestOptions {
            port: (*u.choose(&["80", "http", ""])?).to_owned(),
            start: *u.choose(&[StartStamp::First, StartStamp::Last])?,
            end: *u.choose(&[EndStamp::First, EndStamp::Last])?,
        };
        let mut requests = RequestExtractor::new(options, Box::new(|_| Some(0)), 1);
        let (mut rows, mut lines) = (Vec::new(), 0);
        for _ in 0..u.int_in_range(1..=20)? {
            let mut line = u.choose(&LINES)?.as_bytes().to_vec();
            damage(u, &mut line, 2)?;
            requests.line(&line, &mut rows).expect("there are few");
            lines += 1;
        }
        let counts = requests.finish(&mut rows);
        assert!(counts.seen == lines && counts.counted <= lines && counts.requests <= lines);
        let slicing = SliceOptions { run_time_seconds: 1.0, quantile: 0.99 };
        let (mut slices, mut out) = (SliceAggregator::new(slicing), Vec::new());
        damage(u, &mut rows, 4)?;
        for line in rows.split(|byte| *byte == b'\n') {
            let _ = slices.line(line, &mut out);
        }
        slices.finish(&mut out);
        Ok(())
    });
}
