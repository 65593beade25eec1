//! A bar chart as PNG, for a mail about a week: two figures for each row of the letter's evidence.
//!
//! PNG (RFC 2083) with four colours of two bits each, uncompressed: 600 × 220 pixels are 33 KB, and
//! no compressor is needed. Mail readers that show no pictures have the same figures as text.

use serde_json::Value;

use crate::receiver::Message;

const WIDTH: usize = 600;
const HEIGHT: usize = 220;
/// Pixels in a byte.
const PER_BYTE: usize = 4;
/// Bars of a chart.
const BARS_MAX: usize = 12;
/// Space below the bars for their numbers, and above for their figures.
const MARGIN: usize = 24;
/// Pixels of a digit's dot.
const DOT: usize = 2;

/// White, grey, red, black: RGB.
const PALETTE: [u8; 12] = [255, 255, 255, 176, 184, 196, 204, 51, 51, 34, 34, 34];

/// Digits, five rows of three dots each.
const DIGITS: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 2, 2, 2],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];

/// A colour of the palette.
#[derive(Clone, Copy)]
enum Ink {
    Grey = 1,
    Red = 2,
    Black = 3,
}

/// A bar: the whole, and its lower part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChartBar {
    whole: u64,
    part: u64,
}

/// The chart of a letter whose evidence has rows with `pages` and `real`; `None` for other messages.
pub(crate) fn chart(message: &Message) -> Option<Vec<u8>> {
    let bars = bars(message);
    (!bars.is_empty()).then(|| Canvas::draw(&bars).png())
}

/// Whether the evidence of a message is a chart's.
pub(crate) fn has_chart(message: &Message) -> bool {
    !bars(message).is_empty()
}

fn bars(message: &Message) -> Vec<ChartBar> {
    if !message.notice.is_letter() {
        return Vec::new();
    }
    let rows: Value = serde_json::from_str(&message.notice.incident.evidence).unwrap_or_default();
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let bars = rows.iter().filter_map(|row| {
        let whole = row["pages"].as_u64()?;
        Some(ChartBar { whole, part: row["real"].as_u64()?.min(whole) })
    });
    bars.take(BARS_MAX).collect()
}

struct Canvas {
    /// One byte for each pixel.
    pixels: Vec<u8>,
}

impl Canvas {
    fn draw(bars: &[ChartBar]) -> Self {
        let mut canvas = Self { pixels: vec![0; WIDTH * HEIGHT] };
        let top = bars.iter().map(|bar| bar.whole).max().unwrap_or(0).max(1);
        let (slot, base) = (WIDTH / bars.len().max(4), HEIGHT - MARGIN);
        for (index, bar) in bars.iter().enumerate() {
            let left = index * slot + slot / 6;
            let width = slot * 2 / 3;
            let whole = scaled([bar.whole, top]);
            let part = scaled([bar.part, top]);
            canvas.fill((left, base - whole), (width, whole), Ink::Grey);
            canvas.fill((left, base - part), (width, part), Ink::Red);
            canvas.number((left, base - whole - 14), bar.whole);
            canvas.number((left, base + 6), u64::try_from(index + 1).unwrap_or(0));
        }
        canvas.fill((0, base), (WIDTH, 2), Ink::Black);
        canvas
    }

    fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), ink: Ink) {
        for row in top..(top + height).min(HEIGHT) {
            let start = row * WIDTH + left.min(WIDTH);
            let end = row * WIDTH + (left + width).min(WIDTH);
            self.pixels[start..end].fill(ink as u8);
        }
    }

    fn number(&mut self, (left, top): (usize, usize), number: u64) {
        for (place, digit) in number.to_string().bytes().enumerate() {
            let rows = DIGITS[usize::from(digit - b'0')];
            for (row, dots) in rows.into_iter().enumerate() {
                for column in (0..3).filter(|column| dots >> (2 - column) & 1 == 1) {
                    let at = (left + (place * 4 + column) * DOT, top + row * DOT);
                    self.fill(at, (DOT, DOT), Ink::Black);
                }
            }
        }
    }

    fn png(&self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(HEIGHT * (WIDTH / PER_BYTE + 1));
        for row in self.pixels.chunks(WIDTH) {
            // No filter.
            raw.push(0);
            raw.extend(
                row.chunks(PER_BYTE)
                    .map(|pixels| pixels.iter().fold(0, |byte, pixel| byte << 2 | pixel)),
            );
        }
        let mut head = Vec::new();
        for side in [WIDTH, HEIGHT] {
            head.extend(u32::try_from(side).unwrap_or(0).to_be_bytes());
        }
        // Two bits, a palette, the only compression, filter and order without interlace.
        head.extend([2, 3, 0, 0, 0]);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, data) in
            [(b"IHDR", &head[..]), (b"PLTE", &PALETTE), (b"IDAT", &stored(&raw)), (b"IEND", &[])]
        {
            write_chunk(&mut png, *kind, data);
        }
        png
    }
}

/// Height of a figure where the highest is `top`.
fn scaled([figure, top]: [u64; 2]) -> usize {
    let space = u64::try_from(HEIGHT - 2 * MARGIN).unwrap_or(0);
    usize::try_from(figure.min(top).saturating_mul(space) / top).unwrap_or(0)
}

/// Data as a zlib stream of stored blocks (RFC 1950, RFC 1951 3.2.4).
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = data.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}

fn write_chunk(png: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    png.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    let start = png.len();
    png.extend(kind);
    png.extend(data);
    let sum = crc32fast::hash(&png[start..]);
    png.extend(sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use weir_actions::NoticeKind;

    use super::*;
    use crate::testing::samples::{evil_message, message};

    fn report(evidence: &str) -> Message {
        let mut letter = message(NoticeKind::Mail);
        letter.notice.incident.id.clear();
        evidence.clone_into(&mut letter.notice.incident.evidence);
        letter
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32fast::hash(b"IEND"), 0xae42_6082);
        assert_eq!(stored(b"Wikipedia")[14 + 2..], 0x11e6_0398_u32.to_be_bytes());
    }

    #[test]
    fn chart_of_a_report_is_a_small_png_and_other_messages_have_none() {
        let rows =
            r#"[{"rule":"app.down","pages":12,"real":5},{"rule":"disk.full","pages":3,"real":9}]"#;
        let png = chart(&report(rows)).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.len() < 60_000, "{}", png.len());
        assert!(png.ends_with(&0xae42_6082_u32.to_be_bytes()));
        let canvas = Canvas::draw(&bars(&report(rows)));
        let red = canvas.pixels.iter().filter(|pixel| **pixel == Ink::Red as u8).count();
        assert_eq!(red, 100 * (71 + 43), "5 of 12, and at most the whole 3");
        for other in [evil_message(), message(NoticeKind::Page), report("[]"), report("x")] {
            assert_eq!(chart(&other), None);
        }
        let many =
            format!("[{}]", vec![r#"{"pages":18446744073709551615,"real":0}"#; 50].join(","));
        assert!(chart(&report(&many)).unwrap().len() < 60_000);
    }
}
