//! Segments of an HTTP/2 connection through the model: no more responses than requests, and as many requests however the
//! client's bytes arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_wire::packet::{Direction, Endpoint, Flags, Packet};
use weir_wire::{Model, ModelOptions, Report};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One side's bytes in a segment.
struct Segment<'a> {
    is_of_server: bool,
    bytes: &'a [u8],
}

fn segments(mut input: &[u8]) -> Vec<Segment<'_>> {
    let mut out = vec![Segment { is_of_server: false, bytes: PREFACE }];
    while let [head, rest @ ..] = input {
        let (bytes, more) = rest.split_at(usize::from(head >> 1).min(rest.len()));
        out.push(Segment { is_of_server: head & 1 == 1, bytes });
        input = more;
    }
    out
}

fn report(segments: &[Segment<'_>], size: usize) -> Report {
    let mut model = Model::new(ModelOptions::default(), None);
    let ends = [[192, 0, 2, 1], [192, 0, 2, 2]].map(std::net::IpAddr::from);
    let ends = [Endpoint::new(ends[0], 40_000), Endpoint::new(ends[1], 50_051)];
    let (mut next, mut ts_ns) = ([1_u32, 1], 1_700_000_000_000_000_000);
    for Segment { is_of_server, bytes } in segments {
        let (own, other) = (usize::from(*is_of_server), usize::from(!is_of_server));
        for payload in bytes.chunks(if *is_of_server { usize::MAX } else { size }) {
            ts_ns += 1_000_000;
            let payload_length = u32::try_from(payload.len()).expect("short");
            model.packet(&Packet {
                ts_ns,
                from: ends[own],
                to: ends[other],
                seq: next[own],
                ack: next[other],
                is_sequence_known: true,
                flags: Flags::ACK,
                window: 500,
                window_scale: None,
                segment_bytes_max: None,
                is_join: false,
                timestamps: None,
                sack_blocks: 0,
                dsack: None,
                ip_id: None,
                payload_length,
                payload,
                interface: 0,
                direction: Direction::Unknown,
            });
            next[own] = next[own].wrapping_add(payload_length);
        }
    }
    model.report()
}

fuzz_target!(|input: &[u8]| {
    let segments = segments(input);
    let [whole, split] = [usize::MAX, 5].map(|size| report(&segments, size));
    for tier in &whole.tiers {
        assert!(tier.responses <= tier.requests, "{} of {}", tier.responses, tier.requests);
    }
    let requests = |report: &Report| report.tiers.iter().map(|tier| tier.requests).sum::<u64>();
    assert_eq!(requests(&whole), requests(&split));
});
