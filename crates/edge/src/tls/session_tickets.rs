//! Keys of session tickets (RFC 8446 §4.6.1): a client resumes its session at any edge that has
//! the key.
//!
//! rustls' own keys cannot leave the process. These can be handed to a replacing edge, so that it
//! does not start with a full handshake for every client. A key decrypts the sessions resumed with
//! it, so keys are secret and rotate.

use std::fmt;
use std::time::Duration;

use parking_lot::RwLock;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use crate::error::EdgeError;
use crate::time::{MonoTime, Nanos};

const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
/// A key encrypts tickets for this long and decrypts them for as long again.
const ROTATE: Duration = Duration::from_hours(6);
/// Every ticket is valid for at least this long.
const LIFETIME_SECONDS: u32 = 6 * 3600;

/// A key as it is passed from one edge to another.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// The first bytes of each ticket encrypted with the key.
    pub name: [u8; NAME_BYTES],
    /// The key itself.
    pub secret: [u8; SECRET_BYTES],
    /// Time since the key was generated.
    pub age: Duration,
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").field("age", &self.age).finish_non_exhaustive()
    }
}

struct TicketCipher {
    key: TicketKey,
    created: MonoTime,
    aead: LessSafeKey,
}

impl TicketCipher {
    fn new(key: TicketKey) -> Self {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, &key.secret);
        let aead = LessSafeKey::new(unbound.expect("the secret has the key length of this cipher"));
        Self { created: MonoTime::now().before(key.age.into()), aead, key }
    }

    fn age(&self, now: MonoTime) -> Nanos {
        now.since(self.created)
    }
}

/// The keys of one edge, newest first.
pub(crate) struct TicketKeys(RwLock<Vec<TicketCipher>>);

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

impl TicketKeys {
    /// Generates the first key.
    pub(crate) fn new() -> Result<Self, EdgeError> {
        let key = new_key().ok_or_else(|| {
            EdgeError::new("cannot use TLS: the system provides no random numbers")
                .hint("getrandom(2) must work here")
        })?;
        Ok(Self(RwLock::new(vec![TicketCipher::new(key)])))
    }

    /// All keys, newest first.
    pub(crate) fn export(&self) -> Vec<TicketKey> {
        let ciphers = self.0.read();
        let now = MonoTime::now();
        let aged = ciphers.iter().map(|one| (one.age(now), one.key.clone()));
        aged.map(|(age, key)| TicketKey { age: age.into(), ..key }).collect()
    }

    /// Adopts the keys of another edge: its newest encrypts from now on, own keys still decrypt.
    pub(crate) fn import(&self, keys: &[TicketKey]) {
        let mut ciphers = self.0.write();
        ciphers.retain(|own| keys.iter().all(|key| key.name != own.key.name));
        let new = keys.iter().filter(|key| key.age < ROTATE * 2).cloned().map(TicketCipher::new);
        ciphers.splice(0..0, new);
    }

    /// Generates a new key if the newest is old, and drops expired ones; called periodically.
    pub(crate) fn rotate(&self, now: MonoTime) {
        let is_due = {
            let ciphers = self.0.read();
            ciphers.first().is_none_or(|one| one.age(now) > ROTATE.into())
        };
        let Some(key) = is_due.then(new_key).flatten() else { return };
        let mut ciphers = self.0.write();
        ciphers.insert(0, TicketCipher::new(key));
        ciphers.retain(|one| one.age(now) < (ROTATE * 2).into());
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

    /// Key name, nonce, ciphertext. Nonces are random because several edges may use the key.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let ciphers = self.0.read();
        let TicketCipher { key, aead, .. } = ciphers.first()?;
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
        let ciphers = self.0.read();
        let TicketCipher { key, aead, .. } = ciphers.iter().find(|one| one.key.name == name)?;
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
        let start = MonoTime::now();
        keys.rotate(start + Nanos::from_secs(3600));
        assert_eq!(keys.export()[0].name, first[0].name);
        keys.rotate(start + Nanos::from_secs(7 * 3600));
        assert_ne!(keys.export()[0].name, first[0].name);
        assert!(keys.decrypt(&ticket).is_some());
        keys.rotate(start + Nanos::from_secs(14 * 3600));
        assert!(keys.decrypt(&ticket).is_none());
    }
}
