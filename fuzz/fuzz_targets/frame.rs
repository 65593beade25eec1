//! Bytes of a link connection: frames do not depend on how bytes arrive, messages round-trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_link::{Decoder, Frame, FrameLimits, Message};

const LIMITS: FrameLimits = FrameLimits { parcel: 1 << 20, other: 1 << 10 };

/// Frames up to the end or the first error, and whether there was one.
fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, bool) {
    let (mut decoder, mut frames) = (Decoder::new(LIMITS), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = frames([bytes].into_iter());
    assert_eq!(whole, frames(bytes.chunks(3)));
    for message in whole.0.iter().filter_map(|frame| Message::decode(frame).ok().flatten()) {
        // A text that is not UTF-8 or too long changes the first time, and only then.
        let (mut out, mut again) = (Vec::new(), Vec::new());
        message.encode(&mut out);
        let mut decoder = Decoder::new(FrameLimits { other: 4 * LIMITS.other, ..LIMITS });
        decoder.push(&out);
        let frame = decoder.next_frame().expect("own bytes").expect("a whole frame");
        let message = Message::decode(&frame).expect("own bytes").expect("a known kind");
        message.encode(&mut again);
        assert_eq!(again, out);
    }
});
