//! For which names certificates are obtained, where, and how that is proved.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::ways;
use crate::error::EdgeError;
use crate::settings::ListenerSettings;

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";
/// Names in one certificate, as Let's Encrypt limits them.
const NAMES_MAX: usize = 100;

/// Certificates that the edge obtains by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The names of each certificate.
    pub certificates: Vec<AcmeNames>,
    /// Who issues them.
    pub directory: AcmeDirectory,
    /// Where the authority writes to, such as `mailto:web@example.net`; may be empty.
    pub contact: Vec<String>,
    /// Where account and certificates are kept.
    pub dir: PathBuf,
    /// Authorities (PEM) that the directory's own certificate must come from.
    pub authorities: PathBuf,
    /// How names are proved.
    pub challenge: AcmeChallenge,
}

/// Names of one certificate; the first also names its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeNames(pub(crate) Vec<String>);

/// The directory of an authority (RFC 8555 §7.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeDirectory {
    pub(crate) url: String,
    /// Its host, and the port where that is unusual.
    pub(crate) authority: String,
}

/// How an authority is shown that a name leads here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// What the listeners can; one after the other, when an attempt fails.
    Auto,
    /// A file at port 80 (RFC 8555 §8.3).
    Http01,
    /// A handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

impl AcmeNames {
    /// All of them, parted by spaces.
    pub(crate) fn text(&self) -> String {
        self.0.join(" ")
    }
}

impl FromStr for AcmeNames {
    type Err = EdgeError;

    /// Names parted by spaces or commas.
    fn from_str(text: &str) -> Result<Self, EdgeError> {
        let mut names: Vec<String> = Vec::new();
        for name in text.split([' ', ',']).filter(|name| !name.is_empty()) {
            let name = name.to_ascii_lowercase();
            check_name(&name)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let wrong = |why: &str| {
            EdgeError::new(format!("cannot obtain a certificate for `{text}`: {why}"))
                .hint("`edge.acme_names = [\"example.net www.example.net\", \"api.example.net\"]`")
        };
        match names.len() {
            0 => Err(wrong("no name is in it")),
            1..=NAMES_MAX => Ok(Self(names)),
            _ => Err(wrong("there are more than 100 names in it")),
        }
    }
}

fn check_name(name: &str) -> Result<(), EdgeError> {
    let failed = |why: &str, hint: &str| {
        Err(EdgeError::new(format!("cannot obtain a certificate for `{name}`: {why}")).hint(hint))
    };
    if name.contains('*') {
        return failed(
            "a wildcard is proved in DNS only, which this edge does not do",
            "name each host, or obtain it elsewhere and set `edge.tls_certificate_files`",
        );
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        return failed("it is an address", "name the host that clients ask for");
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return failed("it is no host name", "write it as DNS has it: www.example.net");
    }
    Ok(())
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
            EdgeError::new(format!("cannot obtain certificates from `{text}`: it is no https URL"))
                .hint("letsencrypt, letsencrypt-staging, or the URL of an authority's directory")
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
            _ => Err(EdgeError::new(format!("cannot prove names by `{text}`: not known"))
                .hint("auto, http-01 or tls-alpn-01")),
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
    /// The directory of this authority's account and certificates.
    pub(crate) fn authority_dir(&self) -> PathBuf {
        self.dir.join(self.directory.authority.replace([':', '[', ']'], "_"))
    }

    /// The file of a certificate and its key.
    pub(crate) fn file(&self, names: &AcmeNames) -> PathBuf {
        self.authority_dir().join(format!("{}.pem", names.0[0]))
    }

    /// The files of all of them; not all need be there.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.certificates.iter().map(|names| self.file(names)).collect()
    }

    /// Where the account's key is.
    pub(crate) fn account_file(&self) -> PathBuf {
        self.authority_dir().join(Path::new("account.json"))
    }

    pub(crate) fn check(&self, listeners: &[ListenerSettings]) -> Result<(), EdgeError> {
        let (by_http, by_tls) = ways(listeners);
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
        if let Some((way, address, key)) = missing {
            return Err(EdgeError::new(format!(
                "cannot obtain certificates by {way}: no listener can be asked so"
            ))
            .hint(format!("`{key} = [\"{address}\"]`, which the authority must reach")));
        }
        for (at, names) in self.certificates.iter().enumerate() {
            if self.certificates[..at].iter().any(|other| other.0[0] == names.0[0]) {
                return Err(EdgeError::new(format!(
                    "cannot obtain two certificates whose first name is `{}`",
                    names.0[0]
                ))
                .hint("the first name is that of the file: join them, or begin with another"));
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

    #[test]
    fn names_that_cannot_be_proved_are_refused_with_what_to_do() {
        let message = |text: &str| text.parse::<AcmeNames>().map_err(|error| error.to_string());
        let names = message("Example.net  www.example.net,example.net").expect("two names");
        assert_eq!(names.0, ["example.net", "www.example.net"]);
        expect![[r#"
            cannot obtain a certificate for `*.example.net`: a wildcard is proved in DNS only, which this edge does not do
            hint: name each host, or obtain it elsewhere and set `edge.tls_certificate_files`"#]]
        .assert_eq(&message("a.example *.example.net").expect_err("a wildcard"));
        for (text, why) in [
            ("192.0.2.1", "it is an address"),
            ("a_b.example", "it is no host name"),
            ("a..example", "it is no host name"),
            ("../etc/passwd", "it is no host name"),
            (" ", "no name is in it"),
        ] {
            let told = message(text).expect_err(text);
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_directory_is_a_word_or_a_url() {
        let authority = |text: &str| text.parse::<AcmeDirectory>().map(|one| one.authority);
        assert_eq!(authority("letsencrypt").expect("known"), "acme-v02.api.letsencrypt.org");
        let staging = authority("letsencrypt-staging").expect("known");
        assert_eq!(staging, "acme-staging-v02.api.letsencrypt.org");
        assert_eq!(authority("https://ca.internal:14000/dir").expect("a URL"), "ca.internal:14000");
        for wrong in ["http://ca.internal/dir", "ca.internal", ""] {
            let told = authority(wrong).expect_err(wrong).to_string();
            assert!(told.contains("it is no https URL"), "{told}");
        }
    }
}
