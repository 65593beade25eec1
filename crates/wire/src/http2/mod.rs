//! HTTP/2 without TLS: frames, header compression, streams and their windows.
//!
//! Source: RFC 9113 and RFC 7541; gRPC's status from its description of the protocol over HTTP/2.
//! Read leniently: captures contain what peers do wrong, and lack what the tap lost.

mod frame;
mod stream;

pub(crate) use frame::{
    FirstFrames, FrameReader, FrameSink, HeaderBlock, StreamId, is_preface, recognise,
};
pub(crate) use stream::{FlowStall, HttpStream, SentData, StreamTable, WindowUpdate};

/// State of a connection: what each direction's reader remembers, and the open streams.
#[derive(Debug)]
pub(crate) struct Http2State {
    /// Client, server.
    pub(crate) readers: [FrameReader; 2],
    pub(crate) streams: StreamTable,
    /// Whether the server's next bytes come after a pause that waited for the client's kernel.
    pub(crate) is_client_pause: bool,
}

impl Http2State {
    /// A connection read from its beginning.
    pub(crate) fn new() -> Box<Self> {
        let readers = [FrameReader::new(true), FrameReader::new(false)];
        Box::new(Self { readers, streams: StreamTable::default(), is_client_pause: false })
    }

    /// A connection whose beginning the capture lacks.
    pub(crate) fn in_the_middle() -> Box<Self> {
        let readers = [FrameReader::in_the_middle(), FrameReader::in_the_middle()];
        Box::new(Self { readers, streams: StreamTable::unknown(), is_client_pause: false })
    }
}
