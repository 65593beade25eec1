//! The join token, which a person copies from the hub to a new agent.
//!
//! Format: `weir-join-1.` and base64url of: expiry (u64, seconds since 1970), the invitation's id
//! (8 bytes) and secret (16), the SHA-256 of the hub's CA certificate (32), number of addresses
//! (u8), each with its length (u8), CRC-32 of all before. Its holder can become an agent once,
//! until it expires; it does not allow reading data or impersonating the hub.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weir_tables::Micros;

use crate::error::{LinkError, LinkErrorKind};

const PREFIX: &str = "weir-join-1.";

/// An invitation for a new agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// When it expires.
    pub expires: Micros,
    /// Public half of the invitation.
    pub invite: [u8; 8],
    /// Secret half of the invitation.
    pub secret: [u8; 16],
    /// SHA-256 of the hub's CA certificate.
    pub authority: [u8; 32],
    /// `host:port` of the hub, in order of preference.
    pub addresses: Vec<String>,
}

impl JoinToken {
    /// Encodes the token as text.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        let seconds = u64::try_from(self.expires.0 / 1_000_000).unwrap_or_default();
        bytes.extend_from_slice(&seconds.to_le_bytes());
        bytes.extend_from_slice(&self.invite);
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&self.authority);
        bytes.push(u8::try_from(self.addresses.len()).expect("a few addresses"));
        for address in &self.addresses {
            bytes.push(u8::try_from(address.len()).expect("addresses are short"));
            bytes.extend_from_slice(address.as_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Decodes the text of a token.
    ///
    /// # Errors
    /// [`LinkErrorKind::Token`] when the text is not a token, or was damaged.
    pub fn decode(text: &str) -> Result<Self, LinkError> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix(PREFIX) else {
            let why = format!("it does not start with `{PREFIX}`");
            return Err(bad(&why));
        };
        let bytes = URL_SAFE_NO_PAD.decode(rest).map_err(|_| bad("it was truncated or changed"))?;
        Self::read(&bytes).ok_or_else(|| bad("it was truncated or changed"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (seconds, rest) = body.split_first_chunk::<8>()?;
        let (invite, rest) = rest.split_first_chunk::<8>()?;
        let (secret, rest) = rest.split_first_chunk::<16>()?;
        let (authority, rest) = rest.split_first_chunk::<32>()?;
        let (count, mut rest) = rest.split_first()?;
        let mut addresses = Vec::new();
        for _ in 0..*count {
            let (length, tail) = rest.split_first()?;
            let (address, tail) = tail.split_at_checked(usize::from(*length))?;
            addresses.push(String::from_utf8(address.to_vec()).ok()?);
            rest = tail;
        }
        let seconds = Duration::from_secs(u64::from_le_bytes(*seconds));
        Some(Self {
            expires: Micros(0) + seconds,
            invite: *invite,
            secret: *secret,
            authority: *authority,
            addresses,
        })
    }
}

fn bad(why: &str) -> LinkError {
    LinkError::new(LinkErrorKind::Token, format!("cannot join: invalid token: {why}"))
        .hint("copy the whole line that `weir hub invite` prints")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken {
            expires: Micros(1_795_000_000_000_000),
            invite: [1; 8],
            secret: [2; 16],
            authority: [3; 32],
            addresses: vec!["hub.example.net:4771".into(), "[2001:db8::1]:4771".into()],
        }
    }

    #[test]
    fn a_token_decodes_with_surrounding_whitespace() {
        let text = token().encode();
        assert_eq!(JoinToken::decode(&format!(" {text}\n")).expect("own text"), token());
        assert!(text.len() < 200, "{} letters fit into a message", text.len());
    }

    #[test]
    fn a_truncated_or_changed_token_is_invalid() {
        let text = token().encode();
        for end in 0..text.len() {
            assert!(JoinToken::decode(&text[..end]).is_err());
        }
        arbtest::arbtest(|u| {
            let mut bytes = text.clone().into_bytes();
            let at = u.choose_index(bytes.len())?;
            bytes[at] = u.arbitrary()?;
            let is_same = bytes == text.as_bytes();
            let Ok(changed) = String::from_utf8(bytes) else { return Ok(()) };
            assert_eq!(JoinToken::decode(&changed).is_ok(), is_same || changed.trim() == text);
            Ok(())
        });
    }
}
