//! Settings of ACME: which names, which authority, which challenge.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::EdgeError;
use crate::settings::listener::ListenerSettings;

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
/// Most names in one certificate (the limit of Let's Encrypt).
const NAMES_MAX: usize = 100;

/// Certificates that the edge obtains by ACME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The names of each certificate.
    pub certificates: Vec<AcmeNames>,
    /// The authority's directory.
    pub directory: AcmeDirectory,
    /// Contacts for the authority, such as `mailto:web@example.net`; may be empty.
    pub contact: Vec<String>,
    /// Directory of account and certificates.
    pub dir: PathBuf,
    /// CA certificates (PEM) that the directory's TLS certificate must chain to.
    pub authorities: PathBuf,
    /// The challenge type.
    pub challenge: AcmeChallenge,
}

/// The names of one certificate; its file is named after the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeNames(pub(crate) Vec<String>);

/// The directory of an authority (RFC 8555 §7.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeDirectory {
    pub(crate) url: String,
    /// Host of the URL, with the port unless it is 443.
    pub(crate) authority: String,
}

/// How control of a name is proved to an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// Any type that the listeners support, alternating after failures.
    Auto,
    /// A path on port 80 (RFC 8555 §8.3).
    Http01,
    /// A TLS handshake on port 443 (RFC 8737).
    TlsAlpn01,
}

impl AcmeNames {
    /// All names, separated by spaces.
    pub(crate) fn text(&self) -> String {
        self.0.join(" ")
    }
}

impl FromStr for AcmeNames {
    type Err = EdgeError;

    /// Parses names separated by spaces or commas.
    fn from_str(text: &str) -> Result<Self, EdgeError> {
        let mut names: Vec<String> = Vec::new();
        for name in text.split([' ', ',']).filter(|name| !name.is_empty()) {
            let name = name.to_ascii_lowercase();
            check_name(&name)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let why = match names.len() {
            0 => "it contains no name",
            1..=NAMES_MAX => return Ok(Self(names)),
            _ => "it contains more than 100 names",
        };
        Err(EdgeError::new(format!("cannot obtain a certificate for `{text}`: {why}"))
            .hint("`edge.acme_names = [\"example.net www.example.net\", \"api.example.net\"]`"))
    }
}

fn check_name(name: &str) -> Result<(), EdgeError> {
    let (why, hint) = if name.contains('*') {
        (
            "wildcards need a DNS challenge, which the edge does not support",
            "list each host, or obtain it elsewhere and set `edge.tls_certificate_files`",
        )
    } else if name.parse::<std::net::IpAddr>().is_ok() {
        ("it is an IP address", "use the host name that clients request")
    } else if name.len() > 253 || !name.split('.').all(is_label) {
        ("it is not a host name", "write it as in DNS: www.example.net")
    } else {
        return Ok(());
    };
    Err(EdgeError::new(format!("cannot obtain a certificate for `{name}`: {why}")).hint(hint))
}

/// Whether a part of a name between dots is valid.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether the listeners support http-01, and whether tls-alpn-01.
pub(crate) fn challenge_types(listeners: &[ListenerSettings]) -> (bool, bool) {
    let mut plain = listeners.iter().filter(|one| !one.is_tls && !one.is_h2c);
    (plain.next().is_some(), listeners.iter().any(|one| one.is_tls))
}

impl FromStr for AcmeDirectory {
    type Err = EdgeError;

    fn from_str(text: &str) -> Result<Self, EdgeError> {
        let url = match text {
            "letsencrypt" => LETS_ENCRYPT,
            "letsencrypt-staging" => LETS_ENCRYPT_STAGING,
            other => other,
        };
        let parsed = url.parse::<http::Uri>().ok().filter(|uri| uri.scheme_str() == Some("https"));
        let authority = parsed.as_ref().and_then(http::Uri::authority);
        let authority = authority.map(|all| match all.port_u16() {
            None | Some(443) => all.host().to_owned(),
            Some(port) => format!("{}:{port}", all.host()),
        });
        let authority = authority.ok_or_else(|| {
            EdgeError::new(format!(
                "cannot obtain certificates from `{text}`: it is not an https URL"
            ))
            .hint("use letsencrypt, letsencrypt-staging, or the URL of an authority's directory")
        })?;
        Ok(Self { url: url.to_owned(), authority })
    }
}

impl FromStr for AcmeChallenge {
    type Err = EdgeError;

    fn from_str(text: &str) -> Result<Self, EdgeError> {
        match text {
            "auto" => Ok(Self::Auto),
            "http-01" => Ok(Self::Http01),
            "tls-alpn-01" => Ok(Self::TlsAlpn01),
            _ => Err(EdgeError::new(format!("unknown ACME challenge `{text}`"))
                .hint("use auto, http-01 or tls-alpn-01")),
        }
    }
}

impl fmt::Display for AcmeChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        })
    }
}

impl AcmeSettings {
    /// The directory of account and certificates for this authority.
    pub(crate) fn authority_dir(&self) -> PathBuf {
        self.dir.join(self.directory.authority.replace([':', '[', ']'], "_"))
    }

    /// The file with a certificate and its key.
    pub(crate) fn file(&self, names: &AcmeNames) -> PathBuf {
        self.authority_dir().join(format!("{}.pem", names.0[0]))
    }

    /// The files of all certificates; they may not exist yet.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.certificates.iter().map(|names| self.file(names)).collect()
    }

    /// The file with the account's key.
    pub(crate) fn account_file(&self) -> PathBuf {
        self.authority_dir().join(Path::new("account.json"))
    }

    pub(crate) fn check(&self, listeners: &[ListenerSettings]) -> Result<(), EdgeError> {
        let (by_http, by_tls) = challenge_types(listeners);
        let missing = match self.challenge {
            AcmeChallenge::Http01 if !by_http => Some(("http-01", "0.0.0.0:80", "edge.listen")),
            AcmeChallenge::TlsAlpn01 if !by_tls => {
                Some(("tls-alpn-01", "0.0.0.0:443", "edge.listen_tls"))
            }
            AcmeChallenge::Auto if !by_http && !by_tls => {
                Some(("http-01", "0.0.0.0:80", "edge.listen"))
            }
            _ => None,
        };
        if let Some((challenge, address, key)) = missing {
            return Err(EdgeError::new(format!(
                "cannot obtain certificates by {challenge}: no listener supports it"
            ))
            .hint(format!(
                "set `{key} = [\"{address}\"]`; the authority must be able to reach it"
            )));
        }
        for (at, names) in self.certificates.iter().enumerate() {
            if self.certificates[..at].iter().any(|other| other.0[0] == names.0[0]) {
                return Err(EdgeError::new(format!(
                    "cannot obtain two certificates with the first name `{}`",
                    names.0[0]
                ))
                .hint(
                    "the file is named after the first name: merge them, or put another name first",
                ));
            }
        }
        if let Some(wrong) = self.contact.iter().find(|contact| !contact.starts_with("mailto:")) {
            return Err(EdgeError::new(format!("cannot use the contact `{wrong}`"))
                .hint("write it as `mailto:web@example.net`"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn parse(text: &str) -> Result<AcmeNames, String> {
        text.parse().map_err(|error: EdgeError| error.to_string())
    }

    fn authority(text: &str) -> Result<String, EdgeError> {
        text.parse::<AcmeDirectory>().map(|one| one.authority)
    }

    #[test]
    fn names_that_cannot_be_validated_are_refused_with_a_hint() {
        let names = parse("Example.net  www.example.net,example.net").expect("two names");
        assert_eq!(names.0, ["example.net", "www.example.net"]);
        expect![[r#"
            cannot obtain a certificate for `*.example.net`: wildcards need a DNS challenge, which the edge does not support
            hint: list each host, or obtain it elsewhere and set `edge.tls_certificate_files`"#]]
        .assert_eq(&parse("a.example *.example.net").expect_err("a wildcard"));
        for (text, why) in [
            ("192.0.2.1", "it is an IP address"),
            ("a_b.example", "it is not a host name"),
            ("a..example", "it is not a host name"),
            ("../etc/passwd", "it is not a host name"),
            (" ", "it contains no name"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_directory_is_a_known_name_or_a_url() {
        assert_eq!(authority("letsencrypt").expect("known"), "acme-v02.api.letsencrypt.org");
        let staging = authority("letsencrypt-staging").expect("known");
        assert_eq!(staging, "acme-staging-v02.api.letsencrypt.org");
        assert_eq!(authority("https://ca.internal:14000/dir").expect("a URL"), "ca.internal:14000");
        for wrong in ["http://ca.internal/dir", "ca.internal", ""] {
            let error = authority(wrong).expect_err(wrong).to_string();
            assert!(error.contains("it is not an https URL"), "{error}");
        }
    }
}
