//! A client, and a server, that speak frames of HTTP/2 by hand, to do what libraries do not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::lab::connect;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame as received.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) is_last: bool,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Bytes of a frame.
pub(crate) fn frame(head: [u8; 2], stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &head, &stream.to_be_bytes(), payload].concat()
}

/// A field of a request: `(name, value)`.
pub(crate) type Field<'a> = (&'a str, &'a str);

pub(crate) struct FrameClient(TcpStream);

impl FrameClient {
    /// Connects with these settings.
    pub(crate) fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = Self(connect(address));
        client.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("it is open");
        client.set(settings);
        client
    }

    /// Sends settings.
    pub(crate) fn set(&mut self, settings: &[(u16, u32)]) {
        let settings = settings
            .iter()
            .flat_map(|(key, value)| [&key.to_be_bytes()[..], &value.to_be_bytes()[..]].concat());
        let settings: Vec<u8> = settings.collect();
        self.send(SETTINGS, 0, 0, &settings);
    }

    /// Takes a connection as a server with these settings.
    pub(crate) fn accept(mut stream: TcpStream, settings: &[(u16, u32)]) -> Option<Self> {
        // What waits for an acknowledgement is lost when the socket closes with unread bytes.
        stream.set_nodelay(true).ok()?;
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).ok()?;
        let mut server = Self(stream);
        server.set(settings);
        Some(server)
    }

    /// The same connection, to send from elsewhere.
    pub(crate) fn sender(&self) -> Self {
        Self(self.0.try_clone().expect("a socket"))
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let _ = self.0.write_all(&frame([kind, flags], stream, payload));
    }

    /// Sends a head.
    pub(crate) fn ask(&mut self, stream: u32, fields: &[Field<'_>], is_last: bool) {
        let block = block(fields);
        let flags = END_HEADERS | if is_last { END_STREAM } else { 0 };
        self.send(HEADERS, flags, stream, &block);
    }

    pub(crate) fn data(&mut self, stream: u32, bytes: &[u8], is_last: bool) {
        self.send(DATA, if is_last { END_STREAM } else { 0 }, stream, bytes);
    }

    /// Lets the server send more on a stream, and on the connection.
    pub(crate) fn open_window(&mut self, stream: u32, bytes: u32) {
        for stream in [stream, 0] {
            self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        }
    }

    /// The next frame of a stream; answers settings and pings. `None` once the connection is over.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).ok()?;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => self.send(PING, ACK, 0, &payload),
                GOAWAY => return None,
                _ if stream == 0 => {}
                _ => {
                    let is_last = flags & END_STREAM != 0 && kind != RST_STREAM;
                    return Some(Frame { kind, is_last, stream, payload });
                }
            }
        }
    }

    /// The next frame of this kind.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("a frame before the end");
            if frame.kind == kind {
                return frame;
            }
        }
    }
}

/// Literal fields without indexing (RFC 7541 §6.2.2).
pub(crate) fn block(fields: &[Field<'_>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend(text.as_bytes());
        }
    }
    block
}

/// The head of a GET.
pub(crate) fn get(path: &str) -> Vec<Field<'_>> {
    vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)]
}
