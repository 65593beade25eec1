//! Logins of the page, the API and PostgreSQL's protocol: what each may do.
//!
//! `api.token_file` may do everything. Without it the hub makes such a login at its first start and
//! keeps it in its data directory, and the kernel vouches for root and weir's own user on this host.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::Values;
use weir_config::logins::LoginScope;
use weir_config::place::{LOGIN_FILE, read_token};
use weir_link::SecretBytes;
use weir_process::failure::Failure;

/// The name of the login that may do everything.
const EVERYTHING: &str = "admin";
/// The name of the login of hubs among each other.
const HUBS: &str = "hub";

/// One login.
pub(crate) struct Login {
    name: Arc<str>,
    secret: String,
    scopes: Vec<LoginScope>,
    /// Whether it is one of `[[logins]]`.
    is_personal: bool,
}

/// Every login of this hub.
pub(crate) struct Logins {
    all: Vec<Login>,
    /// Whether root and weir's own user need no login on this host.
    is_host_trusted: bool,
}

impl Logins {
    /// Reads the configured logins, and makes one if `api.token_file` is not set.
    ///
    /// # Errors
    /// When a file cannot be read or written, or holds no login.
    pub(crate) fn load(values: &Values) -> Result<Self, Failure> {
        let configured = values.api.token_file.as_deref();
        let secret = configured.map_or_else(|| made_login(&values.store.dir), read_token)?;
        let mut all = vec![Login::new(EVERYTHING, secret, LoginScope::ALL.to_vec())];
        if let Some(file) = &values.cluster.token_file {
            all.push(Login::new(HUBS, read_token(file)?, vec![LoginScope::Hub]));
        }
        for login in &values.logins {
            let secret = read_token(&login.token_file)?;
            let named = Login::new(&login.name, secret, login.scopes.clone());
            all.push(Login { is_personal: true, ..named });
        }
        Ok(Self { all, is_host_trusted: configured.is_none() })
    }

    /// The login that `given` is.
    pub(crate) fn find(&self, given: &[u8]) -> Option<&Login> {
        // Every login is compared, so that the time does not say which was close.
        let same = |login: &&Login| SecretBytes(login.secret.as_bytes()).is_same(given);
        self.all.iter().fold(None, |found, login| if same(&login) { Some(login) } else { found })
    }

    /// Whether root and weir's own user need no login on this host.
    pub(crate) fn is_host_trusted(&self) -> bool {
        self.is_host_trusted
    }

    /// The login that may do everything.
    pub(crate) fn everything(&self) -> &str {
        self.all.first().map_or("", |login| &login.secret)
    }

    /// Named logins with the scope `read`.
    pub(crate) fn readers(&self) -> impl Iterator<Item = &Login> {
        self.all.iter().skip(1).filter(|login| login.may(LoginScope::Read))
    }

    /// The login with which this hub asks others.
    pub(crate) fn of_hubs(&self) -> &str {
        let own = self.all.iter().find(|login| &*login.name == HUBS);
        own.map_or_else(|| self.everything(), |login| &login.secret)
    }
}

impl Login {
    fn new(name: &str, secret: String, scopes: Vec<LoginScope>) -> Self {
        Self { name: name.into(), secret, scopes, is_personal: false }
    }

    /// Whether it is one of `[[logins]]`, which one person has.
    pub(crate) fn is_personal(&self) -> bool {
        self.is_personal
    }

    /// Who has it.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it is proven with.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }

    /// Whether it may do this.
    pub(crate) fn may(&self, scope: LoginScope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// The login in the data directory, made if there is none.
fn made_login(data: &Path) -> Result<String, Failure> {
    let path = data.join(LOGIN_FILE);
    match make_login(&path) {
        Ok(secret) => return Ok(secret),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(Failure::new(format!(
                "cannot make a login in `{}`: {error}",
                path.display()
            ))
            .hint("the data directory must be writable: --data names another one"));
        }
    }
    read_token(&path)
}

fn make_login(path: &Path) -> io::Result<String> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let secret = weir_link::random_secret();
    // The name appears with the whole content: another start may read it at once.
    let part = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(format!("{secret}\n").as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&part, path);
    std::fs::remove_file(&part)?;
    linked.map(|()| secret)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_login_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("data");
        let first = made_login(&data).expect("room for it");
        assert!(first.len() >= 32, "{first}");
        assert_eq!(made_login(&data).expect("it is there"), first);
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&data), mode(&data.join(LOGIN_FILE))), (0o700, 0o600));
        assert_eq!(data.read_dir().expect("a directory").count(), 1, "nothing else is left");
        std::fs::write(data.join(LOGIN_FILE), "short\n").expect("room for it");
        let refused = made_login(&data).expect_err("too short");
        assert!(refused.to_string().contains("fewer than 16 characters"), "{refused}");
    }

    #[test]
    fn each_login_may_do_what_its_scopes_say() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("room for it");
            path
        };
        let mut values = Values::default();
        values.api.token_file = Some(file("admin", "everything-may-be-done\n"));
        values.cluster.token_file = Some(file("hub", "what-hubs-ask-each-other\n"));
        values.logins.push(weir_config::logins::NamedLogin {
            name: "grafana".into(),
            token_file: file("grafana", "only-for-the-dashboards\n"),
            scopes: vec![LoginScope::Read],
        });
        let logins = Logins::load(&values).expect("files of logins");
        let may = |secret: &str, scope| logins.find(secret.as_bytes()).map(|one| one.may(scope));
        assert_eq!(may("everything-may-be-done", LoginScope::Change), Some(true));
        assert_eq!(may("only-for-the-dashboards", LoginScope::Read), Some(true));
        assert_eq!(may("only-for-the-dashboards", LoginScope::Change), Some(false));
        assert_eq!(may("what-hubs-ask-each-other", LoginScope::Hub), Some(true));
        assert_eq!(may("what-hubs-ask-each-other", LoginScope::Read), Some(false));
        assert_eq!(may("an-unknown-login-of-words", LoginScope::Read), None);
        assert_eq!(logins.of_hubs(), "what-hubs-ask-each-other");
        let readers: Vec<&str> = logins.readers().map(|login| &**login.name()).collect();
        assert_eq!(readers, ["grafana"]);
        assert!(!logins.is_host_trusted());
    }
}
