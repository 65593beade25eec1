//! The login SCRAM-SHA-256 (RFC 5802, RFC 7677; PostgreSQL's manual, "SASL Authentication"), server's side.
//!
//! The password is never sent, and not kept here either: what is kept can check a proof and not make one. Channel binding
//! is not offered. The name in the messages is empty with PostgreSQL's clients and is not looked at.

use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hmac, pbkdf2};

use crate::refusal::Refusal;

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");

/// What checks proofs of one password.
#[derive(Clone)]
pub struct Password {
    salt: [u8; 16],
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl Password {
    /// Of this password.
    ///
    /// # Errors
    /// When it is not printable ASCII, which clients would rewrite before they use it (SASLprep).
    pub fn new(password: &str) -> Result<Self, String> {
        if !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("the login has other characters than those of ASCII".into());
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

/// A login under way, after the client's first message.
pub(crate) struct Exchange<'a> {
    password: &'a Password,
    header: String,
    nonce: String,
    /// The first messages of both sides, which the proof covers.
    said: String,
}

impl<'a> Exchange<'a> {
    /// Reads the client's first message; what to answer is in [`Exchange::challenge`].
    pub(crate) fn new(password: &'a Password, first: &str) -> Result<Self, Refusal> {
        let mut own = [0; 18];
        SystemRandom::new()
            .fill(&mut own)
            .map_err(|_| Refusal::new("XX000", "no random numbers can be had"))?;
        Self::with_nonce(password, first, &BASE64_STANDARD.encode(own))
    }

    fn with_nonce(password: &'a Password, first: &str, own: &str) -> Result<Self, Refusal> {
        let bare = first.strip_prefix("n,,").or_else(|| first.strip_prefix("y,,"));
        let Some(bare) = bare else {
            return Err(Refusal::protocol("channel binding and other identities are not offered"));
        };
        let theirs = field(bare, 'r').ok_or_else(malformed)?;
        let nonce = format!("{theirs}{own}");
        let salt = BASE64_STANDARD.encode(password.salt);
        let said = format!("{bare},r={nonce},s={salt},i={ITERATIONS}");
        Ok(Self { password, header: first[..3].to_owned(), nonce, said })
    }

    /// What the client has to prove.
    pub(crate) fn challenge(&self) -> &str {
        let start = self.said.find(&format!("r={},s=", self.nonce)).expect("it was put there");
        &self.said[start..]
    }

    /// Checks the client's proof; gives the server's own.
    pub(crate) fn finish(&self, last: &str) -> Result<String, Refusal> {
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| malformed())?;
        let header = BASE64_STANDARD.encode(&self.header);
        if field(without_proof, 'c') != Some(&header)
            || field(without_proof, 'r') != Some(&self.nonce)
        {
            return Err(malformed());
        }
        let said = format!("{},{without_proof}", self.said);
        let signature = sign(&self.password.stored_key, said.as_bytes());
        let key: Vec<u8> = signature.iter().zip(&proof).map(|(a, b)| a ^ b).collect();
        let is_right = proof.len() == 32 && is_same(&hash(&key), &self.password.stored_key);
        if !is_right {
            return Err(Refusal::new("28P01", "the password is wrong")
                .hint("the password is the first line of `api.token_file`"));
        }
        let proof = sign(&self.password.server_key, said.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(proof)))
    }
}

fn field(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn malformed() -> Refusal {
    Refusal::protocol("the login's message is malformed")
}

fn sign(key: &[u8], message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hash(message: &[u8]) -> [u8; 32] {
    digest(&SHA256, message).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares in a time that does not depend on where they differ.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    std::hint::black_box(one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

fn random() -> Result<[u8; 16], String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "no random numbers can be had")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn exchange_of_the_standard_is_checked_and_proven() {
        let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let password = Password::with_salt("pencil", salt.try_into().expect("16 bytes"));
        let exchange = Exchange::with_nonce(
            &password,
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
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
    fn other_bindings_and_other_letters_are_refused() {
        assert!(Password::new("s\u{e4}same").is_err());
        let password = Password::new("sesame").expect("ASCII");
        for bad in ["p=tls-unique,,n=,r=x", "n,a=me,n=,r=x", "n,,n=", ""] {
            assert!(Exchange::new(&password, bad).is_err(), "{bad}");
        }
    }
}
