//! SCRAM-SHA-256 logins, the server's side (RFC 5802, RFC 7677; PostgreSQL's manual, "SASL
//! Authentication").
//!
//! The password is neither sent nor stored: the stored keys can verify a proof but not create one.
//! Channel binding is not offered. The user name in the messages is ignored; PostgreSQL's clients
//! leave it empty.

use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hmac, pbkdf2};

use crate::error::PgError;

/// Name of the SASL mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");

/// Keys that verify proofs of a password.
#[derive(Clone)]
pub struct Password {
    salt: [u8; 16],
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl Password {
    /// Derives the keys of a password.
    ///
    /// # Errors
    /// When it is not printable ASCII, since clients normalize other characters (SASLprep).
    pub fn new(password: &str) -> Result<Self, String> {
        if !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("the password contains characters other than printable ASCII".into());
        }
        Ok(Self::with_salt(password, random()?))
    }

    fn with_salt(password: &str, salt: [u8; 16]) -> Self {
        let mut salted = [0; 32];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, ITERATIONS, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let server_key = sign(&salted, b"Server Key");
        Self { salt, stored_key: hash(&client_key), server_key }
    }
}

/// A login after the client's first message.
pub(crate) struct ScramExchange<'a> {
    password: &'a Password,
    header: String,
    nonce: String,
    /// First messages of both sides, which the proof covers.
    transcript: String,
}

impl<'a> ScramExchange<'a> {
    /// Reads the client's first message. [`ScramExchange::challenge`] is the reply.
    pub(crate) fn new(password: &'a Password, first: &str) -> Result<Self, PgError> {
        let mut own = [0; 18];
        SystemRandom::new()
            .fill(&mut own)
            .map_err(|_| PgError::new("XX000", "cannot get random numbers"))?;
        Self::with_nonce(first, password, &BASE64_STANDARD.encode(own))
    }

    fn with_nonce(first: &str, password: &'a Password, own: &str) -> Result<Self, PgError> {
        let bare = first.strip_prefix("n,,").or_else(|| first.strip_prefix("y,,"));
        let Some(bare) = bare else {
            return Err(PgError::protocol(
                "channel binding and authorization identities are not supported",
            ));
        };
        let theirs = field(bare, 'r').ok_or_else(malformed)?;
        let nonce = format!("{theirs}{own}");
        let salt = BASE64_STANDARD.encode(password.salt);
        let transcript = format!("{bare},r={nonce},s={salt},i={ITERATIONS}");
        Ok(Self { password, header: first[..3].to_owned(), nonce, transcript })
    }

    /// The server's challenge.
    pub(crate) fn challenge(&self) -> &str {
        let start = self
            .transcript
            .find(&format!("r={},s=", self.nonce))
            .expect("the transcript contains it");
        &self.transcript[start..]
    }

    /// Verifies the client's proof and returns the server's.
    pub(crate) fn finish(&self, last: &str) -> Result<String, PgError> {
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| malformed())?;
        let header = BASE64_STANDARD.encode(&self.header);
        if field(without_proof, 'c') != Some(&header)
            || field(without_proof, 'r') != Some(&self.nonce)
        {
            return Err(malformed());
        }
        let transcript = format!("{},{without_proof}", self.transcript);
        let signature = sign(&self.password.stored_key, transcript.as_bytes());
        let key: Vec<u8> = signature.iter().zip(&proof).map(|(a, b)| a ^ b).collect();
        let is_valid = proof.len() == 32 && is_same(&hash(&key), &self.password.stored_key);
        if !is_valid {
            return Err(PgError::new("28P01", "wrong password")
                .hint("the password is the first line of `api.token_file`, else of the file `login` in the hub's data directory; for a user of `[[logins]]`, of its `token_file`"));
        }
        let proof = sign(&self.password.server_key, transcript.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(proof)))
    }
}

fn field(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn malformed() -> PgError {
    PgError::protocol("malformed login message")
}

fn sign(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hash(message: &[u8]) -> [u8; 32] {
    digest(&SHA256, message).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares in constant time.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    std::hint::black_box(one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "cannot get random numbers")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Example of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_standard_is_verified() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let password = Password::with_salt("pencil", salt.try_into().expect("16 bytes"));
        let exchange = ScramExchange::with_nonce(
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            &password,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .expect("it is well-formed");
        assert_eq!(
            exchange.challenge(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let proof = exchange.finish(last).expect("the proof is right");
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let wrong = last.replace("dHzb", "eHzb");
        assert_eq!(exchange.finish(&wrong).expect_err("it is not").state, "28P01");
        for bad in ["", "c=biws", "c=biws,r=x,p=", "c=eSws,r=x,p=AAAA", "p=,p=,p="] {
            assert!(exchange.finish(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn channel_binding_and_other_characters_are_refused() {
        assert!(Password::new("s\u{e4}same").is_err());
        let password = Password::new("sesame").expect("ASCII");
        for bad in ["p=tls-unique,,n=,r=x", "n,a=me,n=,r=x", "n,,n=", ""] {
            assert!(ScramExchange::new(&password, bad).is_err(), "{bad}");
        }
    }
}
