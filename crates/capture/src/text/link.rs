//! Parses what is between timestamp and addresses: interface and direction (`-i any` since 4.99),
//! link header (`-e`), VLAN tags, `IP` or `IP6`, and the IP header in parentheses (`-v`).
//!
//! ```text
//! IP 10.0.0.1.80 > …                                                          plain
//! eth0  In  IP 10.0.0.1.80 > …                                                -i any
//! 02:…:01 > 02:…:02, ethertype IPv4 (0x0800), length 66: 10.0.0.1.80 > …      -e
//! 02:…:01 > 02:…:02, ethertype 802.1Q (0x8100), length 70: vlan 5, p 0,
//!     ethertype IPv4, 10.0.0.1.80 > …                                          -e, one line
//! eth0  In  ifindex 2 02:…:01 ethertype IPv4 (0x0800), length 72: 10.0.0.1.80 > …
//! IP (tos 0x0, ttl 64, id 7, offset 0, flags [DF], proto TCP (6), length 60)
//!                                                       -v, addresses on the next line
//! ```

use super::cursor::Cursor;
use super::{InterfaceNames, TextSkip};
use crate::packet::Direction;

/// Skipped fields of nested VLAN tags.
const TAG_FIELDS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineHead {
    pub(super) interface: u32,
    pub(super) direction: Direction,
    pub(super) ip_id: Option<u16>,
}

#[inline]
pub(super) fn read(
    line: &mut Cursor<'_>,
    names: &mut InterfaceNames,
) -> Result<LineHead, TextSkip> {
    let mut head = LineHead::default();
    if line.eat(b"IP ") || line.eat(b"IP6 ") {
        header(line, &mut head)?;
        return Ok(head);
    }
    rest(line, names, head)
}

/// Parses lines that do not begin with `IP`.
fn rest(
    line: &mut Cursor<'_>,
    names: &mut InterfaceNames,
    mut head: LineHead,
) -> Result<LineHead, TextSkip> {
    interface(line, names, &mut head);
    if line.eat(b"IP ") || line.eat(b"IP6 ") {
        header(line, &mut head)?;
        return Ok(head);
    }
    link(line)?;
    header(line, &mut head)?;
    Ok(head)
}

/// Parses `eth0  In  ` of SLL2, or `  In ` of SLL with `-e`.
fn interface(line: &mut Cursor<'_>, names: &mut InterfaceNames, head: &mut LineHead) {
    let begin = *line;
    line.spaces();
    if let Some(direction) = parse_direction(line) {
        head.direction = direction;
        return;
    }
    let name = line.until(b' ').unwrap_or_default();
    line.spaces();
    match parse_direction(line) {
        Some(direction) if !name.is_empty() => {
            head.direction = direction;
            head.interface = names.number(name);
        }
        _ => *line = begin,
    }
}

/// Parses `In  ` or `Out `, with the spaces after it. Broadcast, multicast and packets for other
/// hosts are incoming.
fn parse_direction(line: &mut Cursor<'_>) -> Option<Direction> {
    let words = [
        (&b"In "[..], Direction::In),
        (b"Out ", Direction::Out),
        (b"B ", Direction::In),
        (b"M ", Direction::In),
        (b"P ", Direction::In),
    ];
    let direction = words.into_iter().find_map(|(word, way)| line.eat(word).then_some(way))?;
    line.spaces();
    Some(direction)
}

/// Skips the link header of `-e`, up to the IP header.
fn link(line: &mut Cursor<'_>) -> Result<(), TextSkip> {
    if line.eat(b"ifindex ") {
        line.number().ok_or(TextSkip::Malformed)?;
        let _ = line.eat(b" ");
    }
    let is_short = is_address(line.0) && line.0.get(ADDRESS) == Some(&b' ');
    let behind = line.0.get(ADDRESS + 1..).unwrap_or_default();
    if is_short && !behind.starts_with(b"> ") && !behind.starts_with(b"ethertype ") {
        // `-q -e` of SLL: only the address.
        line.0 = behind;
        return Ok(());
    }
    if !is_ip(line.0) {
        return Err(TextSkip::NotIp);
    }
    line.past(b"length ").ok_or(TextSkip::NotIp)?;
    line.number().ok_or(TextSkip::Malformed)?;
    if !line.eat(b": ") {
        return Err(TextSkip::NotIp);
    }
    for _ in 0..TAG_FIELDS_MAX {
        if !TAG_FIELDS.iter().any(|field| line.0.starts_with(field)) {
            break;
        }
        line.past(b", ").ok_or(TextSkip::NotIp)?;
    }
    let _ = line.eat(b"IP ") || line.eat(b"IP6 ");
    Ok(())
}

/// Length of `02:00:00:00:00:01`.
const ADDRESS: usize = 17;

/// Prefixes of VLAN tag fields: `vlan 5, p 0, DEI, ethertype IPv4 (0x0800), `, with `-q` `IPv4, `.
const TAG_FIELDS: [&[u8]; 7] =
    [b"vlan ", b"p ", b"DEI,", b"ethertype ", b"802.1", b"IPv4,", b"IPv6,"];

/// Whether the text is like `02:00:00:00:00:01`.
fn is_address(text: &[u8]) -> bool {
    text.get(2) == Some(&b':') && text.get(5) == Some(&b':') && text.get(14) == Some(&b':')
}

/// Whether the text is like `02:00:00:00:00:01 > …, ethertype IPv4 …`, `… ethertype IPv4 …` or `AF
/// IPv4 (2), …`.
fn is_ip(text: &[u8]) -> bool {
    let head = &text[..text.len().min(120)];
    let words = [&b"IPv4"[..], b"IPv6", b"802.1Q", b"AF I"];
    (is_address(text) || text.starts_with(b"AF "))
        && words.iter().any(|word| memchr::memmem::find(head, word).is_some())
}

/// Parses the optional IP header of `-v`: `(tos 0x0, ttl 64, id 7, offset 0, …)`, `(flowlabel …,
/// hlim 64, …)`.
#[inline]
fn header(line: &mut Cursor<'_>, head: &mut LineHead) -> Result<(), TextSkip> {
    if line.0.starts_with(b"(") { parentheses(line, head) } else { Ok(()) }
}

fn parentheses(line: &mut Cursor<'_>, head: &mut LineHead) -> Result<(), TextSkip> {
    let end = closing(line.0).ok_or(TextSkip::Malformed)?;
    let mut fields = Cursor(&line.0[1..end]);
    line.0 = line.0[end + 1..].trim_ascii_start();
    if fields.past(b" id ").is_some() {
        head.ip_id = fields.number().and_then(|id| u16::try_from(id).ok());
    }
    if fields.past(b" offset ").is_some() && fields.number().is_some_and(|offset| offset > 0) {
        return Err(TextSkip::Fragment);
    }
    Ok(())
}

/// Index of the parenthesis that closes the first one.
fn closing(text: &[u8]) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}
