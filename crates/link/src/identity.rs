//! An agent's identity: one directory per joined fleet, with key, certificate, and addresses of
//! hubs.
//!
//! ```text
//!   DIR/fleets/<first 16 digits of the authority's fingerprint>/
//!       agent.key  agent.pem  authority.pem  hubs (name = …, joined_micros = …, address = …)
//! ```
//! The key is generated here and never leaves; all files are 0600. A key without a certificate
//! belongs to an interrupted join: it is reused, and the hub answers the same request with the same
//! agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use weir_tables::Micros;

use crate::authority::{certified_key, read_certificate, signing_request};
use crate::error::{LinkError, LinkErrorKind};
use crate::files::KeyValueLines;
use crate::token::JoinToken;
use crate::{files, secret};

/// Membership of one fleet.
pub struct Identity {
    dir: PathBuf,
    /// The agent's name in the fleet.
    pub name: String,
    /// `host:port` of its hubs, in order of preference.
    pub addresses: Vec<String>,
    /// When the agent joined.
    pub joined: Micros,
    /// Start of the certificate's validity.
    pub not_before: Micros,
    /// End of the certificate's validity.
    pub not_after: Micros,
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) issuer: Vec<u8>,
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// Loads all joined fleets, oldest first.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`].
    pub fn load_all(dir: &Path) -> Result<Vec<Self>, LinkError> {
        let fleets = dir.join("fleets");
        let mut all = Vec::new();
        for name in files::names(&fleets)? {
            all.extend(Self::load(&fleets.join(name))?);
        }
        all.sort_by_key(|identity: &Self| identity.joined);
        Ok(all)
    }

    /// Loads one fleet; `None` if the join was not completed.
    fn load(dir: &Path) -> Result<Option<Self>, LinkError> {
        let [key, certificate, authority, hubs] =
            ["agent.key", "agent.pem", "authority.pem", "hubs"]
                .map(|name| files::read(&dir.join(name)));
        let (Some(key), Some(certificate), Some(authority), Some(hubs)) =
            (key?, certificate?, authority?, hubs?)
        else {
            return Ok(None);
        };
        let path = dir.join("agent.pem");
        let certificate = certificate_of(&certificate, &path)?;
        let info = read_certificate(&certificate).ok_or_else(|| damaged(&path))?;
        let joined = KeyValueLines(&hubs).value("joined_micros").and_then(|text| text.parse().ok());
        let addresses = hubs.lines().filter_map(|line| line.strip_prefix("address = "));
        Ok(Some(Self {
            dir: dir.to_owned(),
            name: info.name,
            addresses: addresses.map(str::to_owned).collect(),
            joined: Micros(joined.unwrap_or_default()),
            not_before: info.not_before,
            not_after: info.not_after,
            authority: certificate_of(&authority, &dir.join("authority.pem"))?,
            issuer: info.issuer,
            key: KeyPair::from_pem(&key).map_err(|_| damaged(&dir.join("agent.key")))?,
            certificate,
        }))
    }

    pub(crate) fn certified_key(&self) -> Result<Arc<CertifiedKey>, LinkError> {
        certified_key(vec![self.certificate.clone()], &self.key)
    }

    /// Whether the fleet's authority has this fingerprint.
    pub fn is_of_authority(&self, fingerprint: &[u8; 32]) -> bool {
        secret::sha256(&self.authority) == *fingerprint
    }

    /// Whether the fleet's authority signed this certificate of a hub.
    pub(crate) fn is_of(&self, hub_certificate: &[u8]) -> bool {
        read_certificate(hub_certificate).is_some_and(|hub| hub.issuer == self.issuer)
    }

    /// Whether two thirds of the certificate's lifetime have passed.
    pub fn is_renewal_due(&self, now: Micros) -> bool {
        let life = self.not_after.0.saturating_sub(self.not_before.0);
        now.0 > self.not_before.0 + life / 3 * 2
    }

    pub(crate) fn request(&self) -> Result<Vec<u8>, LinkError> {
        signing_request(&self.key)
    }

    /// Replaces the certificate by a new one for the same key.
    pub(crate) fn renew(&mut self, certificate: &[u8]) -> Result<(), LinkError> {
        let info = read_certificate(certificate)
            .filter(|info| info.issuer == self.issuer && info.not_after >= self.not_after)
            .ok_or_else(|| LinkError::protocol("the hub sent an invalid certificate"))?;
        let certificate = CertificateDer::from(certificate.to_vec());
        certified_key(vec![certificate.clone()], &self.key)?; // checks that it matches the key
        files::write(&self.dir.join("agent.pem"), pem(&certificate).as_bytes())?;
        self.certificate = certificate;
        (self.not_before, self.not_after) = (info.not_before, info.not_after);
        Ok(())
    }
}

/// A join in progress.
pub(crate) struct PendingJoin {
    dir: PathBuf,
    key: KeyPair,
    /// A signing request for the key.
    pub(crate) request: Vec<u8>,
}

impl PendingJoin {
    /// Generates the key, or loads that of an interrupted join.
    pub(crate) fn begin(dir: &Path, token: &JoinToken) -> Result<Self, LinkError> {
        let dir = dir.join("fleets").join(&secret::hex(&token.authority)[..16]);
        files::make_dir(&dir)?;
        // One file per invitation: a later one must not reuse the request of an earlier one.
        let path = dir.join(format!("joining-{}.key", secret::hex(&token.invite)));
        if files::read(&path)?.is_none() {
            let key = KeyPair::generate().map_err(|error| {
                LinkError::new(LinkErrorKind::Storage, format!("cannot generate a key: {error}"))
            })?;
            let request = secret::hex(&signing_request(&key)?);
            files::write_new(
                &path,
                format!("{}request = {request}\n", key.serialize_pem()).as_bytes(),
            )?;
        }
        let text = files::read(&path)?.unwrap_or_default();
        let request = KeyValueLines(&text).value("request").and_then(unhex_all);
        match (KeyPair::from_pem(&text), request) {
            (Ok(key), Some(request)) => Ok(Self { dir, key, request }),
            _ => {
                let text = format!("cannot use `{}`: no key in it", path.display());
                Err(LinkError::new(LinkErrorKind::Storage, text)
                    .hint("remove the file and join again"))
            }
        }
    }

    /// Stores the hub's reply. Writes the certificate last, since it completes the identity.
    pub(crate) fn finish(
        self,
        token: &JoinToken,
        authority: &CertificateDer<'_>,
        certificate: &[u8],
        now: Micros,
    ) -> Result<Identity, LinkError> {
        let certificate = CertificateDer::from(certificate.to_vec());
        certified_key(vec![certificate.clone()], &self.key)?;
        let mut hubs = format!("joined_micros = {}\n", now.0);
        for address in &token.addresses {
            hubs += &format!("address = {address}\n");
        }
        for (name, text) in [
            ("agent.key", self.key.serialize_pem()),
            ("authority.pem", pem(authority)),
            ("hubs", hubs),
            ("agent.pem", pem(&certificate)),
        ] {
            files::write(&self.dir.join(name), text.as_bytes())?;
        }
        for name in files::names(&self.dir)?.iter().filter(|name| name.starts_with("joining-")) {
            let path = self.dir.join(name);
            std::fs::remove_file(&path)
                .map_err(|error| LinkError::storage("remove", &path, &error))?;
        }
        Identity::load(&self.dir)?.ok_or_else(|| {
            LinkError::new(LinkErrorKind::Storage, format!("cannot use `{}`", self.dir.display()))
        })
    }
}

fn certificate_of(text: &str, path: &Path) -> Result<CertificateDer<'static>, LinkError> {
    CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| damaged(path))
}

fn damaged(path: &Path) -> LinkError {
    let text = format!("cannot use `{}`: the file is damaged", path.display());
    LinkError::new(LinkErrorKind::Storage, text).hint("join again: `weir agent join TOKEN`")
}

fn unhex_all(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Encodes a certificate as PEM (RFC 7468).
fn pem(certificate: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in text.as_bytes().chunks(64) {
        out += &String::from_utf8_lossy(line);
        out.push('\n');
    }
    out + "-----END CERTIFICATE-----\n"
}

/// Default lifetime of an agent's certificate.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(90 * 86_400);
