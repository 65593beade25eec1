//! Frames in any pieces, with parts missing, and in the middle of a connection.

use super::*;

/// Logs the events of one direction.
#[derive(Default)]
struct EventLog(String);

impl FrameSink for EventLog {
    fn frame(&mut self, _stream: StreamId) {}
    fn headers(&mut self, stream: StreamId, block: &HeaderBlock, is_last: bool) {
        let path = String::from_utf8_lossy(&block.path).into_owned();
        let (last, cut) = (if is_last { "." } else { "" }, if block.is_cut { "~" } else { "" });
        let status = if block.status > 0 { block.status.to_string() } else { String::new() };
        let grpc = block.grpc_status.map(|code| format!("!{code}")).unwrap_or_default();
        self.0 += &format!("h{}:{path}{status}{grpc}{cut}{last} ", stream.0);
    }
    fn data(&mut self, _stream: StreamId, _bytes: &[u8], _length: u32) {}
    fn data_end(&mut self, stream: StreamId, length: u32, is_last: bool) {
        self.0 += &format!("d{}:{length}{} ", stream.0, if is_last { "." } else { "" });
    }
    fn reset(&mut self, stream: StreamId, code: u32) {
        self.0 += &format!("r{}:{code} ", stream.0);
    }
    fn go_away(&mut self, last: StreamId) {
        self.0 += &format!("g{} ", last.0);
    }
    fn window_update(&mut self, stream: StreamId, bytes: u32) {
        self.0 += &format!("w{}:{bytes} ", stream.0);
    }
    fn initial_window(&mut self, bytes: u32) {
        self.0 += &format!("i{bytes} ");
    }
    fn lost(&mut self, is_cut: bool) {
        self.0 += if is_cut { "cut " } else { "lost " };
    }
}

fn frame(head: [u8; 2], stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &head, &stream.to_be_bytes(), payload].concat()
}

/// `GET` of a path as a literal that is not inserted.
fn request(path: &str) -> Vec<u8> {
    [&[0x82, 0x04, u8::try_from(path.len()).expect("short")][..], path.as_bytes()].concat()
}

/// Every kind of frame, and what they mean.
fn conversation() -> (Vec<u8>, &'static str) {
    let settings = [&[0, 4][..], &100_u32.to_be_bytes(), &[0, 3, 0, 0, 0, 9]].concat();
    let padded = [&[3][..], &[0; 5], &request("/padded"), &[0; 3]].concat();
    let parts = request("/in/three/parts");
    let promise = [&[0, 0, 0, 2][..], &request("/pushed")].concat();
    let out = [
        frame([SETTINGS, 0], 0, &settings),
        frame([SETTINGS, ACK], 0, b""),
        frame([HEADERS, END_HEADERS | END_STREAM], 1, &request("/a")),
        frame([HEADERS, END_HEADERS | PADDED | HAS_PRIORITY], 3, &padded),
        frame([DATA, 0], 3, b"12345"),
        frame([PING, 0], 0, b"12345678"),
        frame([DATA, END_STREAM], 3, b""),
        frame([HEADERS, END_STREAM], 5, &parts[..4]),
        frame([CONTINUATION, 0], 5, &parts[4..9]),
        frame([CONTINUATION, END_HEADERS], 5, &parts[9..]),
        frame([PUSH_PROMISE, END_HEADERS], 1, &promise),
        frame([0x10, 0], 0, b"unknown kind"),
        frame([WINDOW_UPDATE, 0], 0, &[0, 0, 1, 0]),
        frame([RST_STREAM, 0], 3, &[0, 0, 0, 8]),
        frame([GOAWAY, 0], 0, &[0, 0, 0, 5, 0, 0, 0, 0, b'd']),
    ];
    let text = "i100 h1:/a. h3:/padded d3:5 d3:0. h5:/in/three/parts. w0:256 r3:8 g5 ";
    (out.concat(), text)
}

fn feed(reader: &mut FrameReader, bytes: &[u8], length: usize) -> String {
    let mut log = EventLog::default();
    reader.feed(bytes, u32::try_from(length).expect("short"), &mut log);
    log.0
}

#[test]
fn frames_mean_the_same_in_any_pieces() {
    let (stream, expected) = conversation();
    let stream = [&PREFACE[..], &stream].concat();
    for size in 1..=stream.len() {
        let mut reader = FrameReader::new(true);
        let pieces = stream.chunks(size);
        let found: String = pieces.map(|piece| feed(&mut reader, piece, piece.len())).collect();
        assert_eq!(found, expected, "pieces of {size}");
    }
}

#[test]
fn what_was_not_captured_hides_no_frame_behind_it() {
    let data = frame([DATA, 0], 1, &[0; 1000]);
    let mut reader = FrameReader::new(false);
    assert_eq!(feed(&mut reader, &data[..40], data.len()), "d1:1000 ");
    // A head that is missing, and packets that do not and do begin with a frame.
    let (frames, expected) = conversation();
    assert_eq!(feed(&mut reader, &data[..40], data.len() + 30), "d1:1000 cut ");
    assert_eq!(feed(&mut reader, b"\0\0\x05\x01\x04\0\0\0\0fives", 14), "");
    let rest = &frames[..frames.len() - 9 - 9 - 12];
    assert!(expected.starts_with(feed(&mut reader, &frames[..30], 30).trim_end()), "{rest:?}");
}

#[test]
fn a_cut_header_block_gives_its_beginning_and_no_more_entries() {
    let mut reader = FrameReader::new(false);
    let inserted = [&request("/a")[..], &[0x40, 1, b'x', 1, b'y']].concat();
    let head = frame([HEADERS, END_HEADERS | END_STREAM], 1, &inserted);
    assert_eq!(feed(&mut reader, &head[..head.len() - 2], head.len()), "h1:/a~. ");
    let next = frame([HEADERS, END_HEADERS], 3, &[&request("/b")[..], &[0xbe]].concat());
    assert_eq!(feed(&mut reader, &next, next.len()), "h3:/b ");
}

/// A flood of continuations is read up to a limit.
#[test]
fn a_header_block_has_a_limit() {
    let mut reader = FrameReader::new(false);
    let mut found = feed(&mut reader, &frame([HEADERS, 0], 1, &request("/a")), 14);
    let more = frame([CONTINUATION, 0], 1, &[0; 16_000]);
    for _ in 0..100 {
        found += &feed(&mut reader, &more, more.len());
        assert!(reader.payload.len() <= BLOCK_BYTES_MAX);
    }
    found += &feed(&mut reader, &frame([CONTINUATION, END_HEADERS], 1, b""), 9);
    assert_eq!(found, "h1:/a~ ");
    assert!(reader.payload.capacity() <= BUFFER_BYTES);
}

#[test]
fn the_middle_of_a_connection_is_recognised() {
    let answer = frame([HEADERS, END_HEADERS], 1, &[0x88, 0xbe]);
    let update = frame([WINDOW_UPDATE, 0], 0, &[0, 0, 1, 0]);
    let cases = [
        (PREFACE.to_vec(), Some(FirstFrames::Preface)),
        (frame([SETTINGS, 0], 0, &[0, 3, 0, 0, 0, 9]), Some(FirstFrames::Response)),
        (frame([SETTINGS, ACK], 0, b""), Some(FirstFrames::Any)),
        (frame([HEADERS, END_HEADERS], 7, &request("/")), Some(FirstFrames::Request)),
        ([&answer[..], &frame([DATA, 0], 1, b"abc")].concat(), Some(FirstFrames::Response)),
        ([&update[..], &frame([PING, ACK], 0, &[0; 8])].concat(), Some(FirstFrames::Any)),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
        ([&update[..], b"garbage and more of it"].concat(), None),
        (vec![0; 60], None),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), None),
    ];
    for (bytes, expected) in cases {
        let length = u32::try_from(bytes.len()).expect("short");
        assert_eq!(recognise(&bytes, length), expected, "{bytes:?}");
    }
    // Of whole connections only what comes first counts.
    assert_eq!(FirstFrames::Request.speaker(Side::Client, true), None);
    assert_eq!(FirstFrames::Response.speaker(Side::Client, true), None);
    assert_eq!(FirstFrames::Response.speaker(Side::Server, true), Some(Side::Server));
}

#[test]
fn garbage_in_any_pieces_is_read_to_its_end() {
    arbtest::arbtest(|u| {
        let (frames, _) = conversation();
        let mut reader = FrameReader::new(u.arbitrary()?);
        for _ in 0..u.int_in_range(1..=20)? {
            let from = u.int_in_range(0..=frames.len() - 1)?;
            let to = u.int_in_range(from..=frames.len())?;
            let mut piece = frames[from..to].to_vec();
            if u.arbitrary()? {
                piece.extend(u.arbitrary::<Vec<u8>>()?);
            }
            let hidden: u16 = if u.arbitrary()? { u.arbitrary()? } else { 0 };
            feed(&mut reader, &piece, piece.len() + usize::from(hidden));
            assert!(reader.payload.len() <= BLOCK_BYTES_MAX);
        }
        Ok(())
    });
}
