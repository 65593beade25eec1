//! Addresses and TCP header of one packet, as printed by tcpdump 4 (`Flags [P.], seq 1:5, …`),
//! tcpdump 3 (`P 1:5(4) ack 1 …`) and `-q` (`tcp 4`).

use std::net::{IpAddr, Ipv4Addr};

use super::cursor::Cursor;
use super::sequence::PrintedNumbers;
use super::{TextSkip, port_name};
use crate::packet::{Endpoint, Flags, Timestamps};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextSegment<'a> {
    pub(super) printed: PrintedNumbers,
    pub(super) window: u16,
    pub(super) window_scale: Option<u8>,
    pub(super) segment_bytes_max: Option<u16>,
    pub(super) is_join: bool,
    pub(super) timestamps: Option<Timestamps>,
    pub(super) sack_blocks: u8,
    /// The first two SACK blocks, as printed.
    pub(super) sack: [Option<(u32, u32)>; 2],
    /// The first line of an HTTP message, without its end.
    pub(super) payload: &'a [u8],
}

/// Parses `SRC > DST: `.
#[inline]
pub(super) fn addresses(line: &mut Cursor<'_>) -> Result<(Endpoint, Endpoint), TextSkip> {
    match four_addresses(*line) {
        Some((ends, rest)) => {
            *line = rest;
            Ok(ends)
        }
        None => other_addresses(line),
    }
}

/// Fast path: IPv4 and numeric ports.
#[inline]
fn four_addresses<'a>(mut line: Cursor<'a>) -> Option<((Endpoint, Endpoint), Cursor<'a>)> {
    let from = ipv4_and_port(&mut line)?;
    if !line.eat(b" > ") {
        return None;
    }
    let to = ipv4_and_port(&mut line)?;
    line.eat(b": ").then_some(((from, to), line))
}

fn other_addresses(line: &mut Cursor<'_>) -> Result<(Endpoint, Endpoint), TextSkip> {
    let from = line.until(b' ').ok_or(TextSkip::Malformed)?;
    if !line.eat(b"> ") {
        return Err(TextSkip::NotIp);
    }
    let to = match line.until(b' ') {
        Some(to) => to,
        None => std::mem::take(&mut line.0),
    };
    let to = to.strip_suffix(b":").ok_or(TextSkip::Malformed)?;
    Ok((endpoint(from)?, endpoint(to)?))
}

/// Parses an address, a dot and a port.
fn endpoint(text: &[u8]) -> Result<Endpoint, TextSkip> {
    let mut cursor = Cursor(text);
    match ipv4_and_port(&mut cursor).filter(|_| cursor.0.is_empty()) {
        Some(endpoint) => Ok(endpoint),
        None => other_endpoint(text),
    }
}

/// Parses `10.0.0.1.80` in one pass: its numbers are too short for SWAR.
#[inline]
fn ipv4_and_port(line: &mut Cursor<'_>) -> Option<Endpoint> {
    let (mut address, mut part, mut digits, mut dots, mut at) = (0_u32, 0_u32, 0, 0, 0);
    for byte in line.0 {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            if digits == 5 {
                return None;
            }
            part = part * 10 + u32::from(digit);
            digits += 1;
        } else if *byte == b'.' {
            if digits == 0 || dots == 4 || part > 255 {
                return None;
            }
            address = address << 8 | part;
            (part, digits, dots) = (0, 0, dots + 1);
        } else {
            break;
        }
        at += 1;
    }
    let port = u16::try_from(part).ok().filter(|_| dots == 4 && digits > 0)?;
    line.0 = &line.0[at..];
    Some(Endpoint { address: Ipv4Addr::from_bits(address).to_ipv6_mapped().to_bits(), port })
}

/// Parses IPv6, and named ports.
fn other_endpoint(text: &[u8]) -> Result<Endpoint, TextSkip> {
    let dot = memchr::memrchr(b'.', text).ok_or(TextSkip::NotTcp)?;
    match address(&text[..dot]) {
        Some(address) => Ok(Endpoint::new(address, port_of(&text[dot + 1..])?)),
        // An address without a port: not TCP, or a fragment.
        None if address(text).is_some() => Err(TextSkip::NotTcp),
        None => Err(TextSkip::HostName),
    }
}

/// Parses `10.0.0.1`, `fe80::1%eth0`.
fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.split('%').next()?.parse().ok()
}

fn port_of(text: &[u8]) -> Result<u16, TextSkip> {
    let mut cursor = Cursor(text);
    match cursor.number() {
        Some(number) if cursor.0.is_empty() => {
            u16::try_from(number).map_err(|_| TextSkip::Malformed)
        }
        _ => port_name::port(text).ok_or(TextSkip::PortName),
    }
}

/// Parses what follows the addresses.
#[inline]
pub(super) fn read<'a>(line: Cursor<'a>) -> Result<TextSegment<'a>, TextSkip> {
    match usual(line) {
        Some(segment) => Ok(segment),
        None => other(line),
    }
}

/// Fast path for established connections, in the order in which tcpdump 4 prints: `Flags [P.], seq
/// 1:5, ack 1, win 229, options [nop,nop,TS val 1 ecr 2], length 4: HTTP: GET / HTTP/1.1`.
#[inline(always)]
fn usual<'a>(mut line: Cursor<'a>) -> Option<TextSegment<'a>> {
    let mut segment = TextSegment::default();
    segment.printed.flags = if line.eat(b"Flags [.], ") {
        Flags::ACK
    } else if line.eat(b"Flags [P.], ") {
        Flags::PSH | Flags::ACK
    } else {
        return None;
    };
    if line.eat(b"seq ") {
        segment.printed.seq = Some(line.number()?);
        if line.eat(b":") {
            line.number()?;
        }
        if !line.eat(b", ") {
            return None;
        }
    }
    if !line.eat(b"ack ") {
        return None;
    }
    segment.printed.ack = Some(line.number()?);
    if !line.eat(b", win ") {
        return None;
    }
    segment.window = u16::try_from(line.number()?).ok()?;
    if line.eat(b", options [nop,nop,TS val ") {
        let value = line.number()?;
        if !line.eat(b" ecr ") {
            return None;
        }
        segment.timestamps = Some(Timestamps { value, echo: line.number()? });
        if !line.eat(b"]") {
            return None;
        }
    }
    if !line.eat(b", length ") {
        return None;
    }
    segment.printed.length = line.number()?;
    segment.payload = http(line);
    Some(segment)
}

fn other<'a>(mut line: Cursor<'a>) -> Result<TextSegment<'a>, TextSkip> {
    if line.eat(b"Flags [") {
        let flags = flags(line.until(b']').ok_or(TextSkip::Malformed)?);
        return new_style(line, flags.ok_or(TextSkip::Malformed)?);
    }
    if line.eat(b"tcp ") {
        let length = line.number().ok_or(TextSkip::Malformed)?;
        let printed = PrintedNumbers { length, ..PrintedNumbers::default() };
        return Ok(TextSegment { printed, ..TextSegment::default() });
    }
    if memchr::memmem::find(&line.0[..line.0.len().min(16)], b"[|tcp").is_some() {
        return Err(TextSkip::Cut);
    }
    let word = line.0.split(|byte| matches!(byte, b' ' | b',')).next().unwrap_or_default();
    match flags(word) {
        Some(flags) if !word.is_empty() => {
            line.0 = &line.0[word.len()..];
            old_style(line, flags)
        }
        _ => Err(TextSkip::NotTcp),
    }
}

fn flags(text: &[u8]) -> Option<Flags> {
    if text == b"none" {
        return Some(Flags(0));
    }
    text.iter().try_fold(Flags(0), |flags, letter| {
        let bit = match letter {
            b'F' => Flags::FIN,
            b'S' => Flags::SYN,
            b'R' => Flags::RST,
            b'P' => Flags::PSH,
            b'.' => Flags::ACK,
            b'U' => Flags(0x20),
            b'E' => Flags(0x40),
            b'W' => Flags(0x80),
            // Accurate ECN's ninth bit is not in the flags byte.
            b'e' => Flags(0),
            _ => return None,
        };
        Some(flags | bit)
    })
}

/// Parses `, seq 1:5, ack 1, win 229, options [nop,nop,TS val 1 ecr 2], length 4: HTTP: GET /
/// HTTP/1.1`.
fn new_style<'a>(mut line: Cursor<'a>, flags: Flags) -> Result<TextSegment<'a>, TextSkip> {
    let mut segment = TextSegment::default();
    segment.printed.flags = flags;
    while line.eat(b", ") || line.eat(b" ") {
        let is_read = match line.0.first() {
            Some(b's') if line.eat(b"seq ") => {
                segment.printed.seq = line.number();
                let is_range = line.eat(b":");
                segment.printed.seq.is_some() && (!is_range || line.number().is_some())
            }
            Some(b'a') if line.eat(b"ack ") => {
                segment.printed.ack = line.number();
                segment.printed.ack.is_some()
            }
            Some(b'w') if line.eat(b"win ") => window(&mut line, &mut segment),
            Some(b'o') if line.eat(b"options [") => {
                let text = line.until(b']').ok_or(TextSkip::Cut)?;
                if text.contains(&b'[') {
                    // `[|tcp]`: the options are cut.
                    return Err(TextSkip::Cut);
                }
                options(Cursor(text), &mut segment);
                true
            }
            Some(b'l') if line.eat(b"length ") => {
                segment.printed.length = line.number().ok_or(TextSkip::Malformed)?;
                segment.payload = http(line);
                return Ok(segment);
            }
            // Up to the parenthesis: `0x1234 (incorrect -> 0x5678)`.
            Some(b'c') if line.eat(b"cksum ") => line.until(b')').is_some(),
            Some(b'u') if line.eat(b"urg ") => line.number().is_some(),
            _ => false,
        };
        if !is_read {
            return Err(if is_cut(line) { TextSkip::Cut } else { TextSkip::Malformed });
        }
    }
    // tcpdump before 4.1 prints no length without data; a cut packet has `[|tcp]`.
    if is_cut(line) { Err(TextSkip::Cut) } else { Ok(segment) }
}

fn is_cut(line: Cursor<'_>) -> bool {
    memchr::memmem::find(line.0, b"[|").is_some()
}

/// Parses `1:101(100) ack 1 win 229 <nop,nop,timestamp 1 2> (DF)`.
fn old_style<'a>(mut line: Cursor<'a>, flags: Flags) -> Result<TextSegment<'a>, TextSkip> {
    let mut segment = TextSegment::default();
    segment.printed.flags = flags;
    while line.eat(b", ") || line.eat(b" ") {
        if line.eat(b"ack ") {
            segment.printed.ack = Some(line.number().ok_or(TextSkip::Malformed)?);
            segment.printed.flags = segment.printed.flags | Flags::ACK;
        } else if line.eat(b"win ") {
            let _ = window(&mut line, &mut segment);
        } else if line.eat(b"<") {
            options(Cursor(line.until(b'>').ok_or(TextSkip::Cut)?), &mut segment);
        } else if line.eat(b"cksum ") {
            line.until(b')').ok_or(TextSkip::Malformed)?;
        } else if line.0.first().is_some_and(u8::is_ascii_digit) {
            segment.printed.seq = line.number();
            let is_range = line.eat(b":") && line.number().is_some() && line.eat(b"(");
            segment.printed.length =
                line.number().filter(|_| is_range).ok_or(TextSkip::Malformed)?;
            let _ = line.eat(b")");
        } else if line.0.starts_with(b"[|") {
            return Err(TextSkip::Cut);
        } else {
            // Skips `(DF)`, `[tos 0x10]`, `urg 1`.
            let end = if line.0.starts_with(b"[") { b']' } else { b' ' };
            let end = memchr::memchr(end, line.0)
                .map_or(line.0.len(), |at| at + usize::from(end == b']'));
            line.0 = &line.0[end..];
        }
    }
    Ok(segment)
}

fn window(line: &mut Cursor<'_>, segment: &mut TextSegment<'_>) -> bool {
    let window = line.number();
    segment.window = window.map_or(0, |window| u16::try_from(window).unwrap_or(u16::MAX));
    window.is_some()
}

/// Parses `mss 1460,sackOK,TS val 1 ecr 2,nop,wscale 7`, `nop,nop,sack 2 {1:5}{9:11}`, `timestamp 1
/// 2`.
fn options(mut line: Cursor<'_>, segment: &mut TextSegment<'_>) {
    while !line.0.is_empty() {
        if line.eat(b"nop,") {
            continue;
        }
        if line.eat(b"TS val ") {
            let value = line.number();
            let echo = if line.eat(b" ecr ") { line.number() } else { None };
            segment.timestamps = value.zip(echo).map(|(value, echo)| Timestamps { value, echo });
        } else if line.eat(b"timestamp ") {
            let value = line.number();
            let echo = if line.eat(b" ") { line.number() } else { None };
            segment.timestamps = value.zip(echo).map(|(value, echo)| Timestamps { value, echo });
        } else if line.eat(b"mss ") {
            segment.segment_bytes_max = line.number().and_then(|size| u16::try_from(size).ok());
        } else if line.eat(b"mptcp ") {
            segment.is_join = line.number().is_some() && line.eat(b" join");
        } else if line.eat(b"wscale ") {
            segment.window_scale = line.number().and_then(|scale| u8::try_from(scale).ok());
        } else if line.eat(b"sack ") {
            // tcpdump 3 prints `sack sack 1 {…}`.
            let _ = line.eat(b"sack ");
            let count = line.number().unwrap_or(0);
            segment.sack_blocks = u8::try_from(count).unwrap_or(u8::MAX);
            let _ = line.eat(b" ");
            segment.sack = [block(&mut line), block(&mut line)];
        }
        if line.until(b',').is_none() {
            return;
        }
    }
}

/// Parses `{1:5}`.
fn block(line: &mut Cursor<'_>) -> Option<(u32, u32)> {
    if !line.eat(b"{") {
        return None;
    }
    let left = line.number()?;
    let right = if line.eat(b":") { line.number() } else { None }?;
    line.eat(b"}").then_some((left, right))
}

/// The first line of an HTTP message: `: HTTP: GET / HTTP/1.1`.
fn http<'a>(mut line: Cursor<'a>) -> &'a [u8] {
    if line.eat(b": HTTP: ") { line.0 } else { &[] }
}
