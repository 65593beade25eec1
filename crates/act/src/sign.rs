//! Signatures of orders: Ed25519 (RFC 8032). The hub has the private key in `link/orders.pem`
//! (PKCS #8); a host has the public key in a file of root.
//!
//! A signed order is the order's encoding and 64 bytes of signature. The signature covers a prefix
//! as well, so that nothing else that this key may sign one day can pass as an order.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::error::ActError;
use crate::order::{Order, order_id_text, random_order_id};

/// Size limit of a signed order in bytes.
pub const SIGNED_BYTES_MAX: usize = 16 << 10;

const SIGNATURE_BYTES: usize = 64;
const PREFIX: &[u8] = b"weir order, version 1\n";
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// First word of a public key's line.
const KEY_WORD: &str = "weir-orders-ed25519";

/// An order with its signature, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedOrder {
    bytes: Vec<u8>,
}

impl SignedOrder {
    /// Takes bytes that arrived; the signature is not verified.
    ///
    /// # Errors
    /// Too long, too short, or no order.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ActError> {
        let length = bytes.len();
        if !(SIGNATURE_BYTES..=SIGNED_BYTES_MAX).contains(&length) {
            return Err(ActError::new(format!(
                "cannot read the order: {length} bytes, not {SIGNATURE_BYTES} to {SIGNED_BYTES_MAX}"
            )));
        }
        let signed = Self { bytes };
        signed.claim().map(|_| signed)
    }

    /// The bytes, for transport.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the order says, without verification: good for messages, not for decisions.
    ///
    /// # Errors
    /// The bytes are no order.
    pub fn claim(&self) -> Result<Order, ActError> {
        Order::decode(self.parts().0)
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.bytes.len().saturating_sub(SIGNATURE_BYTES))
    }
}

/// Signs orders with the fleet's key.
#[derive(Debug)]
pub struct OrderSigner {
    key: Ed25519KeyPair,
}

impl OrderSigner {
    /// Path of the private key.
    pub fn path(link_dir: &Path) -> PathBuf {
        link_dir.join("orders.pem")
    }

    /// Loads the key of a directory, or creates one that only its owner can read.
    ///
    /// # Errors
    /// The file cannot be read, written or used.
    pub fn open(link_dir: &Path) -> Result<Self, ActError> {
        let path = Self::path(link_dir);
        if !path.exists() {
            let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| {
                ActError::new("cannot make a key: the kernel has no random numbers")
            })?;
            create(&path, &pem(made.as_ref()), 0o600)
                .map_err(|why| ActError::file("write", &path, why))?;
        }
        // Another process may have created it first: use what is in the file.
        let text = fs::read_to_string(&path).map_err(|why| ActError::file("read", &path, why))?;
        let signer = Self::from_pem(&text).map_err(|why| unusable(&path, &why))?;
        signer.keep_public(&link_dir.join("orders.pub"))?;
        Ok(signer)
    }

    /// Writes the public key beside the private one, for people to copy to hosts.
    fn keep_public(&self, path: &Path) -> Result<(), ActError> {
        let line = format!("{}\n", self.public_line());
        if fs::read_to_string(path).is_ok_and(|known| known == line) {
            return Ok(());
        }
        let _ = fs::remove_file(path);
        create(path, &line, 0o644).map_err(|why| ActError::file("write", path, why))
    }

    fn from_pem(text: &str) -> Result<Self, String> {
        let body = text
            .split_once(PEM_BEGIN)
            .and_then(|(_, rest)| rest.split_once(PEM_END))
            .map(|(body, _)| body.split_whitespace().collect::<String>())
            .ok_or("it has no `PRIVATE KEY`")?;
        let der = STANDARD.decode(body).map_err(|error| error.to_string())?;
        let key = Ed25519KeyPair::from_pkcs8(&der).map_err(|error| error.to_string())?;
        Ok(Self { key })
    }

    /// The public key as the line that `weir-act trust` reads.
    pub fn public_line(&self) -> String {
        PublicKey::of(self.key.public_key().as_ref())
            .expect("an Ed25519 key has 32 bytes")
            .to_string()
    }

    /// Signs an order.
    ///
    /// # Errors
    /// The order is over a limit.
    pub fn sign(&self, order: &Order) -> Result<SignedOrder, ActError> {
        let mut bytes = order.encode()?;
        let signature = self.key.sign(&message(&bytes));
        bytes.extend_from_slice(signature.as_ref());
        SignedOrder::from_bytes(bytes)
    }
}

fn unusable(path: &Path, why: &str) -> ActError {
    ActError::file("use", path, why).hint(
        "restore it from a backup; with a new key, every host must pin it by `weir-act trust`",
    )
}

fn pem(der: &[u8]) -> String {
    format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(der))
}

/// Creates a file with its whole content, unless it exists.
fn create(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let next = path.with_extension(format!("new-{}", order_id_text(&random_order_id())));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&next, path);
    fs::remove_file(&next)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all()),
    }
}

fn message(order: &[u8]) -> Vec<u8> {
    [PREFIX, order].concat()
}

/// A fleet's public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    fn of(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Reads the line of [`OrderSigner::public_line`].
    ///
    /// # Errors
    /// It is not such a line.
    pub fn parse(text: &str) -> Result<Self, ActError> {
        let mut words = text.split_whitespace();
        let key = match (words.next(), words.next(), words.next()) {
            (Some(KEY_WORD), Some(key), None) => STANDARD.decode(key).ok(),
            _ => None,
        };
        key.and_then(|key| Self::of(&key)).ok_or_else(|| {
            ActError::new(format!("cannot read the public key: it is no line `{KEY_WORD} KEY`"))
                .hint("copy `link/orders.pub` from the hub's data directory")
        })
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{KEY_WORD} {}", STANDARD.encode(self.0))
    }
}

/// Verifies signed orders with a fleet's public key.
#[derive(Clone, Copy, Debug)]
pub struct OrderVerifier {
    key: PublicKey,
}

impl OrderVerifier {
    /// A verifier for orders of this fleet.
    pub fn new(key: PublicKey) -> Self {
        Self { key }
    }

    /// The order, if this fleet signed exactly these bytes.
    ///
    /// # Errors
    /// Another key signed it, or it was changed.
    pub fn verify(&self, signed: &SignedOrder) -> Result<Order, ActError> {
        let (order, signature) = signed.parts();
        UnparsedPublicKey::new(&ED25519, self.key.0).verify(&message(order), signature).map_err(
            |_| {
                ActError::new("cannot trust the order: its signature is not of the pinned hub")
                    .hint("pin the hub's `link/orders.pub` on this host by `weir-act trust`")
            },
        )?;
        Order::decode(order)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::order::OrderMode;

    fn order() -> Order {
        Order {
            id: random_order_id(),
            action: "reload".into(),
            params: BTreeMap::new(),
            agent: "web1".into(),
            finding_id: "f".into(),
            not_after_micros: 1,
            mode: OrderMode::Run,
            approved_by: None,
        }
    }

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = OrderSigner::open(dir.path()).expect("it can be made").public_line();
        let second = OrderSigner::open(dir.path()).expect("it can be read").public_line();
        assert_eq!(first, second);
        let path = OrderSigner::path(dir.path());
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let line = fs::read_to_string(dir.path().join("orders.pub")).expect("it is there");
        assert_eq!(line.trim_end(), first);
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
        fs::write(&path, "no key").expect("it can be written");
        let error = OrderSigner::open(dir.path()).expect_err("no key").to_string();
        assert!(error.contains("orders.pem") && error.contains("hint: "), "{error}");
    }

    #[test]
    fn no_changed_bit_is_verified() {
        let dir = tempfile::tempdir().expect("a directory");
        let signer = OrderSigner::open(dir.path()).expect("it can be made");
        let verifier = OrderVerifier::new(PublicKey::parse(&signer.public_line()).expect("a key"));
        let order = order();
        let signed = signer.sign(&order).expect("it is small");
        assert_eq!(verifier.verify(&signed), Ok(order));
        for bit in 0..signed.as_bytes().len() * 8 {
            let mut bytes = signed.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let verified = SignedOrder::from_bytes(bytes).and_then(|other| verifier.verify(&other));
            assert!(verified.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_fleets_key_and_keys_of_another_form_are_refused() {
        let [ours, other] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let [ours, other] =
            [&ours, &other].map(|dir| OrderSigner::open(dir.path()).expect("a key"));
        let verifier = OrderVerifier::new(PublicKey::parse(&ours.public_line()).expect("a key"));
        let signed = other.sign(&order()).expect("it is small");
        assert!(verifier.verify(&signed).is_err());
        for text in ["", "ssh-ed25519 AAAA", KEY_WORD, "weir-orders-ed25519 AAAA", "a b c"] {
            assert!(PublicKey::parse(text).is_err(), "{text}");
        }
    }
}
