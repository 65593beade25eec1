//! Keys of session tickets (RFC 8446 §4.6.1): what lets a client come back without a handshake at whichever edge knows the key.
//!
//! rustls' own keys cannot leave the process. These can, to the edge that takes this one's place, so that it does not begin
//! with a full handshake for every client. Whoever has a key reads what was resumed with it: they are secrets, and change.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use crate::error::EdgeError;
use crate::time::{nanos, now_ns};

const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
/// A key makes tickets for that long, and is known for as long again.
const ROTATE: Duration = Duration::from_hours(6);
/// A ticket is good for that long at least.
const LIFETIME_SECONDS: u32 = 6 * 3600;

/// A key as it leaves one edge and enters another.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// Begins each ticket that was made with it.
    pub name: [u8; NAME_BYTES],
    /// The key itself.
    pub secret: [u8; SECRET_BYTES],
    /// How long ago it was made.
    pub age: Duration,
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("age", &self.age).finish_non_exhaustive()
    }
}

struct TicketCipher {
    key: TicketKey,
    made: u64,
    aead: LessSafeKey,
}

impl TicketCipher {
    fn new(key: TicketKey) -> Self {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, &key.secret);
        let aead = LessSafeKey::new(unbound.expect("the secret has the length of this key"));
        Self { made: now_ns().saturating_sub(nanos(key.age)).max(1), aead, key }
    }

    fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.made)
    }
}

/// The keys of one edge, the newest first.
pub(crate) struct TicketKeys(RwLock<Vec<TicketCipher>>);

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

impl TicketKeys {
    /// With one new key.
    pub(crate) fn new() -> Result<Self, EdgeError> {
        let key = new_key().ok_or_else(|| {
            EdgeError::new("cannot use TLS: the system gives no random numbers")
                .hint("getrandom(2) must work here")
        })?;
        Ok(Self(RwLock::new(vec![TicketCipher::new(key)])))
    }

    /// All that are known, the newest first.
    pub(crate) fn export(&self) -> Vec<TicketKey> {
        let (held, now) = (self.0.read().unwrap_or_else(PoisonError::into_inner), now_ns());
        let aged = |one: &TicketCipher| TicketKey {
            age: Duration::from_nanos(one.age(now)),
            ..one.key.clone()
        };
        held.iter().map(aged).collect()
    }

    /// Takes keys of another edge: its newest makes the tickets from now on, the own ones are still known.
    pub(crate) fn import(&self, keys: &[TicketKey]) {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.retain(|own| keys.iter().all(|key| key.name != own.key.name));
        let new = keys.iter().filter(|key| key.age < ROTATE * 2).cloned().map(TicketCipher::new);
        held.splice(0..0, new);
    }

    /// Makes a new key when the newest is old, and forgets the oldest; called now and then.
    pub(crate) fn rotate(&self, now: u64) {
        let is_due = {
            let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
            held.first().is_none_or(|one| one.age(now) > nanos(ROTATE))
        };
        let Some(key) = is_due.then(new_key).flatten() else { return };
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(0, TicketCipher::new(key));
        held.retain(|one| one.age(now) < 2 * nanos(ROTATE));
    }
}

fn new_key() -> Option<TicketKey> {
    let (mut name, mut secret) = ([0; NAME_BYTES], [0; SECRET_BYTES]);
    let random = SystemRandom::new();
    random.fill(&mut name).and_then(|()| random.fill(&mut secret)).ok()?;
    Some(TicketKey { name, secret, age: Duration::ZERO })
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECONDS
    }

    /// Name of the key, nonce, then what is encrypted. Nonces are random, since more than one edge may use the key.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let TicketCipher { key, aead, .. } = held.first()?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        aead.seal_in_place_append_tag(nonce_used, Aad::from(&key.name), &mut sealed).ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let TicketCipher { key, aead, .. } = held.iter().find(|one| one.key.name == name)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = aead.open_in_place(nonce, Aad::from(&key.name), &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_open_where_their_key_is_known_and_nowhere_else() {
        let (one, other) = (TicketKeys::new().unwrap(), TicketKeys::new().unwrap());
        let ticket = one.encrypt(b"session").unwrap();
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(other.decrypt(&ticket), None);
        let own = other.encrypt(b"own").unwrap();
        other.import(&one.export());
        assert_eq!(other.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(other.decrypt(&own).as_deref(), Some(&b"own"[..]));
        assert_eq!(one.decrypt(&other.encrypt(b"new").unwrap()).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn a_changed_or_cut_ticket_opens_nowhere() {
        let keys = TicketKeys::new().unwrap();
        let ticket = keys.encrypt(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut wrong = ticket.clone();
            wrong[at] ^= 1;
            assert_eq!(keys.decrypt(&wrong), None);
            assert_eq!(keys.decrypt(&ticket[..at]), None);
        }
    }

    #[test]
    fn keys_change_and_the_one_before_is_still_known() {
        let keys = TicketKeys::new().unwrap();
        let (ticket, first) = (keys.encrypt(b"x").unwrap(), keys.export());
        let hours = |hours: u64| now_ns() + hours * 3600 * 1_000_000_000;
        keys.rotate(hours(1));
        assert_eq!(keys.export()[0].name, first[0].name);
        keys.rotate(hours(7));
        assert_ne!(keys.export()[0].name, first[0].name);
        assert!(keys.decrypt(&ticket).is_some());
        keys.rotate(hours(14));
        assert!(keys.decrypt(&ticket).is_none());
    }
}
