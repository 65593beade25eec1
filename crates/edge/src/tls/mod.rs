//! TLS of listeners: certificates by name (SNI), read again when their files change, sessions resumed by tickets.
//! One that was obtained by the edge is preferred to a file's for the same name, which serves until there is one.
//!
//! A certificate that cannot be read at the start is an error; one that cannot be read later leaves the old one in place
//! and says so. Connections that are open keep what they have.

pub(crate) mod backend_tls;
pub(crate) mod session_tickets;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
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
use crate::tls::session_tickets::TicketKeys;

/// Certificates that follow their files.
pub(crate) struct CertificateStore {
    files: Vec<CertificateFiles>,
    /// Those that are obtained: each file has certificate and key, and may not be there yet.
    obtained: Vec<PathBuf>,
    challenges: Arc<ChallengeStore>,
    keys: RwLock<CertificateKeys>,
    /// When the files were last changed, as far as was seen.
    changed: Mutex<Vec<Option<SystemTime>>>,
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Those of files, and those that were obtained.
#[derive(Default)]
struct CertificateKeys {
    files: Vec<Arc<CertifiedKey>>,
    obtained: Vec<Arc<CertifiedKey>>,
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl CertificateStore {
    /// Reads them all. What was obtained and cannot be read is obtained anew, so that is no error.
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
        *certificates.changed.lock().unwrap_or_else(PoisonError::into_inner) = certificates.times();
        let keys = certificates.read()?;
        *certificates.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
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
        let time =
            |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let files = self.files.iter().flat_map(|one| [time(&one.certificate), time(&one.key)]);
        files.chain(self.obtained.iter().map(|path| time(path))).collect()
    }

    /// An acceptor of connections with these certificates.
    pub(crate) fn acceptor(
        self: &Arc<Self>,
        tickets: &Arc<TicketKeys>,
    ) -> Result<TlsAcceptor, EdgeError> {
        let failed = |error: rustls::Error| EdgeError::new(format!("cannot use TLS: {error}"));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if !self.obtained.is_empty() {
            config.alpn_protocols.push(challenge::ALPN.to_vec());
        }
        // Stateless, so that any thread resumes what another began.
        config.ticketer = Arc::clone(tickets) as _;
        config.send_tls13_tickets = 1;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads again what has changed; whether anything has.
    pub(crate) fn reload_changed(&self) -> bool {
        let now = self.times();
        let before = std::mem::replace(
            &mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner),
            now.clone(),
        );
        if before == now {
            return false;
        }
        match self.read() {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
                tracing::info!("certificates changed and are in use");
                true
            }
            Err(error) => {
                tracing::error!("certificates changed, the old ones stay in use: {error}");
                false
            }
        }
    }
}

/// Reads the certificates of `settings` and forgets them.
///
/// # Errors
/// When one cannot be read or used.
pub fn check_certificates(settings: &Settings) -> Result<(), EdgeError> {
    if settings.backends.iter().any(|backend| backend.protocol.is_tls()) {
        BackendTls::load(&settings.backend_tls)?;
    }
    if let Some(acme) = &settings.acme {
        AuthorityClient::new(&acme.authorities)?;
    }
    CertificateStore::load(settings, &Arc::default()).map(drop)
}

/// A certificate and its key in one file.
pub(crate) fn load_both(path: &Path) -> Result<Arc<CertifiedKey>, EdgeError> {
    load(&CertificateFiles { certificate: path.to_owned(), key: path.to_owned() })
}

fn load(files: &CertificateFiles) -> Result<Arc<CertifiedKey>, EdgeError> {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let unread = |what: &str, path: &dyn fmt::Display, error: &dyn fmt::Display| {
        EdgeError::new(format!("cannot read a {what} from `{path}`: {error}")).hint(
            "the files are PEM: the certificate first, then those that signed it; the key apart",
        )
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unread("certificate", &certificate, &error))?;
    if chain.is_empty() {
        return Err(unread("certificate", &certificate, &"there is none in it"));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unread("private key", &key, &error))?;
    let key = CertifiedKey::from_der(chain, private, &provider()).map_err(|error| {
        EdgeError::new(format!("cannot use `{certificate}` with `{key}`: {error}"))
            .hint("the key must be that of the first certificate")
    })?;
    Ok(Arc::new(key))
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // An authority that wants a proof offers nothing else.
        if hello.alpn().is_some_and(|mut offered| offered.any(|one| one == challenge::ALPN)) {
            return self.challenges.tls(hello.server_name()?);
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let fits = |key: &&Arc<CertifiedKey>| {
            let certificate = key.end_entity_cert().ok()?;
            let parsed = ParsedCertificate::try_from(certificate).ok()?;
            verify_server_name(&parsed, name.as_ref()?).ok()
        };
        let all = || keys.obtained.iter().chain(&keys.files);
        let first = || keys.files.first().or(keys.obtained.first());
        all().find(|key| fits(key).is_some()).or_else(first).cloned()
    }
}
