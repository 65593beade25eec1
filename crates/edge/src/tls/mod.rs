//! TLS of listeners: certificates by name (SNI), reloaded when their files change; sessions are
//! resumed by tickets.
//!
//! A certificate from ACME takes precedence over a file's for the same name; the file's serves
//! until then. An unreadable certificate is an error at startup; later, the old one stays in use
//! and the error is logged. Open connections keep their certificate.

pub(crate) mod backend_tls;
pub(crate) mod crypto;
pub(crate) mod session_tickets;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::acme::challenge::{self, ChallengeStore};
use crate::acme::client::AuthorityClient;
use crate::acme::settings::AcmeSettings;
use crate::error::EdgeError;
use crate::settings::{CertificateFiles, Settings};
use crate::tls::backend_tls::BackendTls;
use crate::tls::crypto::provider;
use crate::tls::session_tickets::TicketKeys;

/// The listeners' certificates, which follow their files.
pub(crate) struct CertificateStore {
    files: Vec<CertificateFiles>,
    /// Files of ACME certificates, each with its key; they may not exist yet.
    obtained: Vec<PathBuf>,
    challenges: Arc<ChallengeStore>,
    keys: RwLock<CertificateKeys>,
    /// Modification times of the files at the last load.
    changed: Mutex<Vec<Option<SystemTime>>>,
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").field("files", &self.files).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct CertificateKeys {
    files: Vec<Arc<CertifiedKey>>,
    obtained: Vec<Arc<CertifiedKey>>,
}

impl CertificateStore {
    /// Reads all certificates. An unreadable ACME certificate is no error: it is requested again.
    pub(crate) fn load(
        settings: &Settings,
        challenges: &Arc<ChallengeStore>,
    ) -> Result<Arc<Self>, EdgeError> {
        let certificates = Self {
            files: settings.certificates.clone(),
            obtained: settings.acme.as_ref().map(AcmeSettings::files).unwrap_or_default(),
            challenges: Arc::clone(challenges),
            keys: RwLock::default(),
            changed: Mutex::default(),
        };
        *certificates.changed.lock() = certificates.times();
        let keys = certificates.read()?;
        *certificates.keys.write() = keys;
        Ok(Arc::new(certificates))
    }

    fn read(&self) -> Result<CertificateKeys, EdgeError> {
        let files = self.files.iter().map(load).collect::<Result<_, _>>()?;
        let obtained = self.obtained.iter().filter(|path| path.exists());
        let usable = obtained.filter_map(|path| {
            load_both(path).inspect_err(|error| tracing::warn!("{}", error.message)).ok()
        });
        Ok(CertificateKeys { files, obtained: usable.collect() })
    }

    fn times(&self) -> Vec<Option<SystemTime>> {
        let files = self.files.iter().flat_map(|one| [&one.certificate, &one.key]);
        files.chain(&self.obtained).map(|path| modified(path)).collect()
    }

    /// An acceptor that presents these certificates.
    pub(crate) fn acceptor(
        self: &Arc<Self>,
        tickets: &Arc<TicketKeys>,
    ) -> Result<TlsAcceptor, EdgeError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| EdgeError::new(format!("cannot use TLS: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if !self.obtained.is_empty() {
            config.alpn_protocols.push(challenge::ALPN.to_vec());
        }
        // Stateless, so that any thread can resume a session that another began.
        config.ticketer = Arc::clone(tickets) as _;
        config.send_tls13_tickets = 1;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reloads changed files; returns whether certificates were replaced.
    pub(crate) fn reload_changed(&self) -> bool {
        let now = self.times();
        let before = std::mem::replace(&mut *self.changed.lock(), now.clone());
        if before == now {
            return false;
        }
        match self.read() {
            Ok(keys) => {
                *self.keys.write() = keys;
                tracing::info!("certificate files changed: new certificates are in use");
                true
            }
            Err(error) => {
                tracing::error!(
                    "certificate files changed, but the old certificates stay in use: {error}"
                );
                false
            }
        }
    }
}

/// Checks that all certificates of `settings` can be used.
///
/// # Errors
/// If one cannot be read or used.
pub fn check_certificates(settings: &Settings) -> Result<(), EdgeError> {
    if settings.backends.iter().any(|backend| backend.protocol.is_tls()) {
        BackendTls::load(&settings.backend_tls)?;
    }
    if let Some(acme) = &settings.acme {
        AuthorityClient::new(&acme.authorities)?;
    }
    CertificateStore::load(settings, &Arc::default()).map(drop)
}

/// Loads a certificate and its key from one file.
pub(crate) fn load_both(path: &Path) -> Result<Arc<CertifiedKey>, EdgeError> {
    load(&CertificateFiles { certificate: path.to_owned(), key: path.to_owned() })
}

fn load(files: &CertificateFiles) -> Result<Arc<CertifiedKey>, EdgeError> {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| cannot_read("certificate", &files.certificate, &error))?;
    if chain.is_empty() {
        return Err(cannot_read("certificate", &files.certificate, &"the file contains none"));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| cannot_read("private key", &files.key, &error))?;
    let key = CertifiedKey::from_der(chain, private, &provider()).map_err(|error| {
        EdgeError::new(format!("cannot use `{certificate}` with `{key}`: {error}"))
            .hint("the key must belong to the first certificate in the file")
    })?;
    Ok(Arc::new(key))
}

fn cannot_read(what: &str, path: &Path, error: &dyn fmt::Display) -> EdgeError {
    EdgeError::new(format!("cannot read a {what} from `{}`: {error}", path.display())).hint(
        "the files must be PEM: the certificate first, then its chain; the key in its own file",
    )
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Whether a certificate is valid for a name.
fn fits(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // An ACME authority that validates a challenge offers only this protocol.
        if hello.alpn().is_some_and(|mut offered| offered.any(|one| one == challenge::ALPN)) {
            return self.challenges.tls(hello.server_name()?);
        }
        let keys = self.keys.read();
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let mut all = keys.obtained.iter().chain(&keys.files);
        let found = name.and_then(|name| all.find(|key| fits(key, &name)));
        found.or_else(|| keys.files.first().or(keys.obtained.first())).cloned()
    }
}
