//! Account and certificates on disk: private to the owner, each file written atomically.
//!
//! ```text
//!   DIR/acme-v02.api.letsencrypt.org/account.json      the account's key
//!   DIR/acme-v02.api.letsencrypt.org/example.net.pem   the key, then the chain
//! ```
//! Key and chain share one file, so a new key never meets an old chain. Each authority has its own
//! directory, so a staging certificate is never served as a real one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use instant_acme::AccountCredentials;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use weir_tables::Micros;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The properties of a certificate that renewal depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateInfo {
    pub(crate) not_before: Micros,
    pub(crate) not_after: Micros,
    pub(crate) names: Vec<String>,
}

/// Writes a temporary file and renames it, so that readers see the old content or the new.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    File::open(dir)?.sync_all()
}

/// Reads the account; `None` if there is none yet.
pub(crate) fn account(path: &Path) -> io::Result<Option<AccountCredentials>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Inspects the first certificate in a file; `None` if there is none that can be read.
pub(crate) fn inspect(path: &Path) -> Option<CertificateInfo> {
    let first = CertificateDer::pem_file_iter(path).ok()?.next()?.ok()?;
    let (_, parsed) = X509Certificate::from_der(&first).ok()?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map(|extension| &extension.value.general_names[..]).unwrap_or_default();
    let dns_names = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    Some(CertificateInfo {
        not_before: micros(parsed.validity().not_before.timestamp()),
        not_after: micros(parsed.validity().not_after.timestamp()),
        names: dns_names.collect(),
    })
}

fn micros(seconds: i64) -> Micros {
    Micros(seconds.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn files_are_private_to_the_owner_and_replace_older_ones() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("acme/ca.example/a.example.pem");
        write(&path, b"old").expect("room");
        write(&path, b"new").expect("room");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"new");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("a directory")), 0o700);
        assert_eq!(mode(&dir.path().join("acme")), 0o700);
        let left: Vec<_> =
            std::fs::read_dir(path.parent().expect("a directory")).expect("it is there").collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn the_first_certificate_is_inspected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.pem");
        assert_eq!(inspect(&path), None);
        let names = ["a.example".to_owned(), "B.example".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let both = made.signing_key.serialize_pem() + &made.cert.pem();
        std::fs::write(&path, both).expect("room");
        let info = inspect(&path).expect("it is one");
        assert_eq!(info.names, ["a.example", "b.example"]);
        assert!(info.not_before < info.not_after);
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n!").expect("room");
        assert_eq!(inspect(&path), None);
    }
}
