//! Responses to an ACME authority that validates a name while an order is in progress.
//!
//! Both challenge types use the existing listeners: a path on any HTTP listener (RFC 8555 §8.3), an
//! ALPN protocol on any TLS listener (RFC 8737). Unknown challenges go to the backends, which may
//! run an ACME client themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use crate::tls::crypto::provider;

/// The ALPN protocol of handshakes that only prove control of a name.
pub(crate) const ALPN: &[u8] = b"acme-tls/1";
const PATH: &str = "/.well-known/acme-challenge/";

/// The challenges of the order in progress.
#[derive(Debug, Default)]
pub(crate) struct ChallengeStore {
    count: AtomicUsize,
    pending: Mutex<Vec<PendingChallenge>>,
}

/// What an authority expects as proof of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChallengeProof<'a> {
    pub(crate) name: &'a str,
    pub(crate) token: &'a str,
    pub(crate) authorization: &'a str,
    /// Digest of the authorization, for a proof by TLS.
    pub(crate) digest: Option<&'a [u8]>,
}

#[derive(Debug)]
struct PendingChallenge {
    name: String,
    token: String,
    /// The response to a request for the token.
    authorization: String,
    /// The certificate for a validation handshake with the name.
    certificate: Option<Arc<CertifiedKey>>,
}

impl ChallengeStore {
    fn lock(&self) -> MutexGuard<'_, Vec<PendingChallenge>> {
        self.pending.lock()
    }

    /// The response to a challenge request. Free while no order is in progress.
    pub(crate) fn http(&self, path: &str) -> Option<String> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let token = path.strip_prefix(PATH)?;
        let pending = self.lock();
        let found = pending.iter().find(|one| one.token == token);
        found.map(|one| one.authorization.clone())
    }

    /// The certificate of a handshake with [`ALPN`].
    pub(crate) fn tls(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let pending = self.lock();
        let found = pending.iter().find(|one| one.name.eq_ignore_ascii_case(name));
        found.and_then(|one| one.certificate.clone())
    }

    /// Starts responding to a challenge.
    pub(crate) fn add(&self, proof: ChallengeProof<'_>) -> Result<(), rcgen::Error> {
        let ChallengeProof { name, token, authorization, digest } = proof;
        let certificate = digest.map(|digest| self_signed(name, digest)).transpose()?;
        let pending = PendingChallenge {
            name: name.to_owned(),
            token: token.to_owned(),
            authorization: authorization.to_owned(),
            certificate,
        };
        let mut all = self.lock();
        all.push(pending);
        self.count.store(all.len(), Relaxed);
        Ok(())
    }

    /// Stops responding to all challenges.
    pub(crate) fn clear(&self) {
        self.lock().clear();
        self.count.store(0, Relaxed);
    }
}

/// A self-signed certificate that contains the digest.
fn self_signed(name: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let signing = provider().key_provider.load_private_key(private);
    let signing = signing.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    // `from_der` would reject the certificate: its critical extension is known to authorities only.
    Ok(Arc::new(CertifiedKey::new(vec![certificate.into()], signing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pending_challenges_get_a_response() {
        let challenges = ChallengeStore::default();
        let path = "/.well-known/acme-challenge/token1";
        assert_eq!(challenges.http(path), None);
        let proof = ChallengeProof {
            name: "a.example",
            token: "token1",
            authorization: "token1.thumb",
            digest: Some(&[7; 32]),
        };
        challenges.add(proof).expect("a proof");
        assert_eq!(challenges.http(path).as_deref(), Some("token1.thumb"));
        assert_eq!(challenges.http("/.well-known/acme-challenge/token2"), None);
        assert_eq!(challenges.http("/token1"), None);
        assert!(challenges.tls("A.example").is_some());
        assert!(challenges.tls("b.example").is_none());
        challenges.clear();
        assert_eq!(challenges.http(path), None);
        assert!(challenges.tls("a.example").is_none());
    }
}
