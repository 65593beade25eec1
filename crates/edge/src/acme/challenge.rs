//! What the edge answers an authority that looks whether a name leads here, while an order is under way.
//!
//! Both ways work on the listeners that are there: a path of any that speaks HTTP (RFC 8555 §8.3), a protocol of any with
//! TLS (RFC 8737). What is asked for and not known is for the backends, which may have an ACME client of their own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use crate::tls::provider;

/// The protocol of handshakes that are nothing but a proof.
pub(crate) const ALPN: &[u8] = b"acme-tls/1";
const PATH: &str = "/.well-known/acme-challenge/";

/// Proofs that are asked for at this moment.
#[derive(Debug, Default)]
pub(crate) struct ChallengeStore {
    count: AtomicUsize,
    pending: Mutex<Vec<PendingChallenge>>,
}

#[derive(Debug)]
struct PendingChallenge {
    name: String,
    token: String,
    /// What a request for the token is answered.
    authorization: String,
    /// What a handshake for the name is shown.
    certificate: Option<Arc<CertifiedKey>>,
}

impl ChallengeStore {
    fn lock(&self) -> MutexGuard<'_, Vec<PendingChallenge>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request, when it is one for a proof; costs nothing while none is asked for.
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

    /// Answers for a name from now on; `digest` is that of the authorization, for a proof by TLS.
    pub(crate) fn add(
        &self,
        name: &str,
        token: &str,
        authorization: &str,
        digest: Option<&[u8]>,
    ) -> Result<(), rcgen::Error> {
        let certificate = digest.map(|digest| proof(name, digest)).transpose()?;
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

    /// Answers for nothing any more.
    pub(crate) fn clear(&self) {
        self.lock().clear();
        self.count.store(0, Relaxed);
    }
}

/// A certificate of its own making with the digest in it.
fn proof(name: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let signing = provider().key_provider.load_private_key(private);
    let signing = signing.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    // Not `from_der`: that parses the certificate, whose extension is critical and known to authorities only.
    Ok(Arc::new(CertifiedKey::new(vec![certificate.into()], signing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_answered_and_only_as_long() {
        let challenges = ChallengeStore::default();
        let path = "/.well-known/acme-challenge/token1";
        assert_eq!(challenges.http(path), None);
        challenges.add("a.example", "token1", "token1.thumb", Some(&[7; 32])).expect("a proof");
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
