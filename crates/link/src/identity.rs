//! Who an agent is: one directory for each fleet that it joined, with its key, its certificate, and the hubs' addresses.
//!
//! ```text
//!   DIR/fleets/<first 16 digits of the authority's fingerprint>/
//!       agent.key  agent.pem  authority.pem  hubs (name = …, joined_micros = …, address = …)
//! ```
//! The key is made here and never leaves; all files are 0600. A key without a certificate is one whose joining was
//! cut off: it is used again, and the hub answers the same request with the same agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use weir_tables::Micros;

use crate::authority::{certified, read_certificate, request};
use crate::error::{Kind, LinkError};
use crate::token::JoinToken;
use crate::{files, secret};

/// One fleet that this agent belongs to.
pub struct Identity {
    dir: PathBuf,
    /// The agent's name there.
    pub name: String,
    /// `host:port` of its hubs, best first.
    pub addresses: Vec<String>,
    /// When it joined.
    pub joined: Micros,
    /// From when the certificate is valid.
    pub not_before: Micros,
    /// Until when.
    pub not_after: Micros,
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) issuer: Vec<u8>,
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// All fleets that were joined, the oldest first.
    ///
    /// # Errors
    /// [`Kind::Storage`].
    pub fn load_all(dir: &Path) -> Result<Vec<Self>, LinkError> {
        let fleets = dir.join("fleets");
        let mut all = Vec::new();
        for name in files::names(&fleets)? {
            all.extend(Self::load(&fleets.join(name))?);
        }
        all.sort_by_key(|identity: &Self| identity.joined);
        Ok(all)
    }

    /// `None` when joining was not finished.
    fn load(dir: &Path) -> Result<Option<Self>, LinkError> {
        let read = |name: &str| files::read(&dir.join(name));
        let (Some(key), Some(certificate), Some(authority), Some(hubs)) =
            (read("agent.key")?, read("agent.pem")?, read("authority.pem")?, read("hubs")?)
        else {
            return Ok(None);
        };
        let bad = |name: &str| {
            let text = format!("cannot use `{}`: it is not what it was", dir.join(name).display());
            LinkError::new(Kind::Storage, text).hint("join again: `weir agent join TOKEN`")
        };
        let der = |name: &str, text: &str| {
            CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| bad(name))
        };
        let certificate = der("agent.pem", &certificate)?;
        let said = read_certificate(&certificate).ok_or_else(|| bad("agent.pem"))?;
        let joined = files::value(&hubs, "joined_micros").and_then(|text| text.parse().ok());
        let addresses = hubs.lines().filter_map(|line| line.strip_prefix("address = "));
        Ok(Some(Self {
            dir: dir.to_owned(),
            name: said.name,
            addresses: addresses.map(str::to_owned).collect(),
            joined: Micros(joined.unwrap_or_default()),
            not_before: said.not_before,
            not_after: said.not_after,
            authority: der("authority.pem", &authority)?,
            issuer: said.issuer,
            key: KeyPair::from_pem(&key).map_err(|_| bad("agent.key"))?,
            certificate,
        }))
    }

    pub(crate) fn certified(&self) -> Result<Arc<CertifiedKey>, LinkError> {
        certified(vec![self.certificate.clone()], &self.key)
    }

    /// Whether this is the fleet of the authority with that fingerprint.
    pub fn is_of_authority(&self, fingerprint: &[u8; 32]) -> bool {
        secret::sha256(&self.authority) == *fingerprint
    }

    /// DER of the name of a hub's authority, as it is in a certificate that the authority signed.
    pub(crate) fn is_of(&self, hub_certificate: &[u8]) -> bool {
        read_certificate(hub_certificate).is_some_and(|hub| hub.issuer == self.issuer)
    }

    /// Whether two thirds of the certificate's life are over.
    pub fn is_renewal_due(&self, now: Micros) -> bool {
        let life = self.not_after.0.saturating_sub(self.not_before.0);
        now.0 > self.not_before.0 + life / 3 * 2
    }

    pub(crate) fn request(&self) -> Result<Vec<u8>, LinkError> {
        request(&self.key)
    }

    /// Takes a new certificate for the same key.
    pub(crate) fn renew(&mut self, certificate: &[u8]) -> Result<(), LinkError> {
        let said = read_certificate(certificate)
            .filter(|said| said.issuer == self.issuer && said.not_after >= self.not_after)
            .ok_or_else(|| LinkError::protocol("the hub's new certificate is none"))?;
        let certificate = CertificateDer::from(certificate.to_vec());
        certified(vec![certificate.clone()], &self.key)?; // it fits the key
        files::write(&self.dir.join("agent.pem"), pem(&certificate).as_bytes())?;
        self.certificate = certificate;
        (self.not_before, self.not_after) = (said.not_before, said.not_after);
        Ok(())
    }
}

/// A fleet that is being joined.
pub(crate) struct Joining {
    dir: PathBuf,
    key: KeyPair,
    /// A signing request for the key.
    pub(crate) request: Vec<u8>,
}

impl Joining {
    /// Makes the key, or takes the one of a joining that was cut off.
    pub(crate) fn begin(dir: &Path, token: &JoinToken) -> Result<Self, LinkError> {
        let dir = dir.join("fleets").join(&secret::hex(&token.authority)[..16]);
        files::make_dir(&dir)?;
        // A name of its own for each invitation: a later one must not meet the request of an earlier one.
        let path = dir.join(format!("joining-{}.key", secret::hex(&token.invite)));
        if files::read(&path)?.is_none() {
            let key = KeyPair::generate().map_err(|error| {
                LinkError::new(Kind::Storage, format!("cannot make a key: {error}"))
            })?;
            let request = secret::hex(&request(&key)?);
            files::write_new(
                &path,
                format!("{}request = {request}\n", key.serialize_pem()).as_bytes(),
            )?;
        }
        let text = files::read(&path)?.unwrap_or_default();
        let bad = || {
            LinkError::new(Kind::Storage, format!("cannot use `{}`: no key in it", path.display()))
                .hint("remove the file and join again")
        };
        let key = KeyPair::from_pem(&text).map_err(|_| bad())?;
        let request = files::value(&text, "request").and_then(unhex_all).ok_or_else(bad)?;
        Ok(Self { dir, key, request })
    }

    /// Keeps what the hub answered. The certificate is last: before it there is no identity.
    pub(crate) fn finish(
        self,
        token: &JoinToken,
        authority: &CertificateDer<'_>,
        certificate: &[u8],
        now: Micros,
    ) -> Result<Identity, LinkError> {
        let certificate = CertificateDer::from(certificate.to_vec());
        certified(vec![certificate.clone()], &self.key)?;
        let mut hubs = format!("joined_micros = {}\n", now.0);
        for address in &token.addresses {
            hubs += &format!("address = {address}\n");
        }
        let write = |name: &str, text: &str| files::write(&self.dir.join(name), text.as_bytes());
        write("agent.key", &self.key.serialize_pem())?;
        write("authority.pem", &pem(authority))?;
        write("hubs", &hubs)?;
        write("agent.pem", &pem(&certificate))?;
        for name in files::names(&self.dir)?.iter().filter(|name| name.starts_with("joining-")) {
            let path = self.dir.join(name);
            std::fs::remove_file(&path)
                .map_err(|error| LinkError::storage("remove", &path, &error))?;
        }
        Identity::load(&self.dir)?.ok_or_else(|| {
            LinkError::new(Kind::Storage, format!("cannot use `{}`", self.dir.display()))
        })
    }
}

fn unhex_all(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// RFC 7468.
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

/// How long a certificate is valid unless a hub is told otherwise.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(90 * 86_400);
