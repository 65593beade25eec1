//! What the value of a parameter may be. Pure, except for symlinks below a path.
//!
//! Every value is a whole argument of a program and comes from another host, so some values are
//! refused whatever the list says: empty ones, options (`-…`), control characters and `..`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use regex::Regex;

use crate::error::ActError;
use crate::order::VALUE_BYTES_MAX;

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    base: IpAddr,
    bits: u32,
}

impl AddressBlock {
    /// Reads `address/bits`, or an address alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let base: IpAddr = base.parse().ok()?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits =
            bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
        Some(Self { base, bits })
    }

    fn has(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(other)) => {
                let shift = 32 - self.bits;
                u32::from(base).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(base), IpAddr::V6(other)) => {
                let shift = 128 - self.bits;
                u128::from(base).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// A pattern that a whole value must match.
#[derive(Clone, Debug)]
pub struct WholePattern {
    text: String,
    regex: Regex,
}

impl WholePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Why it is none.
    pub fn new(text: &str) -> Result<Self, String> {
        // Compiled alone first: `a)|(b` must not become valid by the parentheses around it.
        Regex::new(text).map_err(|error| error.to_string())?;
        let regex = regex::RegexBuilder::new(&format!(r"\A(?:{text})\z"))
            .size_limit(1 << 20)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), regex })
    }
}

impl PartialEq for WholePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for WholePattern {}

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamRule {
    /// One of a list.
    AnyOf(BTreeSet<String>),
    /// A whole number in decimal digits.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// A path below a directory; it must exist, and no part of it may be a symlink.
    Path {
        /// The directory.
        below: PathBuf,
    },
    /// An address, with a port if ports are given.
    Address {
        /// Blocks, one of which has it.
        networks: Vec<AddressBlock>,
        /// First and last port.
        ports: Option<(u16, u16)>,
    },
    /// A text that a pattern matches as a whole.
    Pattern {
        /// The pattern.
        pattern: WholePattern,
        /// Longest value in bytes.
        max_bytes: usize,
    },
}

impl fmt::Display for ParamRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyOf(values) => {
                f.write_str(&values.iter().map(String::as_str).collect::<Vec<_>>().join("|"))
            }
            Self::Integer { min, max } => write!(f, "{min}..{max}"),
            Self::Path { below } => write!(f, "{}/…", below.display()),
            Self::Address { ports: None, .. } => f.write_str("ADDRESS"),
            Self::Address { ports: Some((first, last)), .. } => {
                write!(f, "ADDRESS:{first}..{last}")
            }
            Self::Pattern { pattern, max_bytes } => {
                write!(f, "/{}/ of at most {max_bytes} bytes", pattern.text)
            }
        }
    }
}

impl ParamRule {
    /// Whether a value is allowed; symlinks of paths are checked elsewhere.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, name: &str, value: &str) -> Result<(), ActError> {
        self.reject(value).map_or(Ok(()), |why| {
            let shown: String = value.escape_debug().take(80).collect();
            Err(ActError::new(format!("cannot use `{name}` = `{shown}`: {why}"))
                .hint(format!("the host's list allows {self}")))
        })
    }

    fn reject(&self, value: &str) -> Option<&'static str> {
        if let Some(why) = never_allowed(value) {
            return Some(why);
        }
        match self {
            Self::AnyOf(values) => (!values.contains(value)).then_some("it is not on the list"),
            Self::Integer { min, max } => match value.parse::<i64>() {
                Ok(number) if number.to_string() != value => Some("it is not in plain digits"),
                Ok(number) if (*min..=*max).contains(&number) => None,
                Ok(_) => Some("it is out of bounds"),
                Err(_) => Some("it is no whole number"),
            },
            Self::Path { below } => {
                let rest = value.strip_prefix(below.to_string_lossy().as_ref());
                match rest.and_then(|rest| rest.strip_prefix('/')) {
                    Some(rest) if rest.split('/').all(|part| !matches!(part, "" | ".")) => None,
                    Some(_) => Some("it has an empty or `.` part"),
                    None => Some("it is not below the listed directory"),
                }
            }
            Self::Address { networks, ports } => reject_address(networks, *ports, value),
            Self::Pattern { max_bytes, .. } if value.len() > *max_bytes => Some("it is too long"),
            Self::Pattern { pattern, .. } => {
                (!pattern.regex.is_match(value)).then_some("it does not match the pattern")
            }
        }
    }
}

/// Why no list can allow a value.
pub(crate) fn never_allowed(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        Some("it is empty")
    } else if value.len() > VALUE_BYTES_MAX {
        Some("it is too long")
    } else if value.starts_with('-') {
        Some("it begins with `-`, as options do")
    } else if value.chars().any(|letter| letter.is_control() || is_invisible(letter)) {
        Some("it has control characters")
    } else if value.split('/').any(|part| part == "..") {
        Some("it has a `..` part")
    } else {
        None
    }
}

/// Letters that reorder or hide others on a screen.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn reject_address(
    networks: &[AddressBlock],
    ports: Option<(u16, u16)>,
    value: &str,
) -> Option<&'static str> {
    let (address, port) = match ports {
        None => (value.parse::<IpAddr>().ok(), None),
        Some(_) => {
            let socket = value.parse::<SocketAddr>().ok();
            (socket.map(|socket| socket.ip()), socket.map(|socket| socket.port()))
        }
    };
    let Some(address) = address else { return Some("it is no such address") };
    if !networks.iter().any(|network| network.has(address)) {
        return Some("it is in no listed network");
    }
    match (ports, port) {
        (Some((first, last)), Some(port)) if !(first..=last).contains(&port) => {
            Some("its port is out of bounds")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_values_only() {
        let pattern = WholePattern::new("[a-z]+|[0-9]").expect("a pattern");
        let rule = ParamRule::Pattern { pattern, max_bytes: 8 };
        assert!(rule.check("p", "abc").is_ok() && rule.check("p", "7").is_ok());
        for value in ["a7", "7a", "abc\n", "A", "aaaaaaaaa", "a b"] {
            assert!(rule.check("p", value).is_err(), "{value:?}");
        }
        assert!(WholePattern::new("a)|(b").is_err());
    }

    #[test]
    fn blocks_of_addresses_have_edges() {
        let block = AddressBlock::parse("10.1.0.0/16").expect("a block");
        assert!(block.has("10.1.255.255".parse().expect("an address")));
        assert!(!block.has("10.2.0.0".parse().expect("an address")));
        let all = AddressBlock::parse("::/0").expect("a block");
        assert!(all.has("2001:db8::1".parse().expect("an address")));
        assert!(!all.has("10.1.0.1".parse().expect("an address")));
        for text in ["10.0.0.0/33", "10.0.0.0/", "x", "10.0.0/8", "::/129"] {
            assert_eq!(AddressBlock::parse(text), None, "{text}");
        }
    }
}
