//! The hub's invitations and agents, one small file each below `link/` of its data directory.
//!
//! ```text
//!   link/authority.pem           key and certificate of the authority
//!   link/invites/<id>            secret (hashed), expiry, name; who used it
//!   link/agents/<name>           id, when it joined; when it was revoked
//! ```
//! Their lines have a checksum: a changed byte neither undoes a revocation nor renews a token.
//!
//! Files let `weir hub invite` and `weir hub revoke` work whether the hub runs or not. The hub
//! checks the directory twice a second; every change renames a file into it, which updates the
//! directory's modification time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use weir_tables::Micros;

use crate::error::{LinkError, LinkErrorKind};
use crate::files::KeyValueLines;
use crate::message::GoodbyeCode;
use crate::secret::SecretBytes;
use crate::{files, secret};

/// Size limit of names, which are file names, host names and parts of certificates.
pub const NAME_BYTES_MAX: usize = 64;
/// Limit of open invitations.
const INVITES_MAX: usize = 10_000;

/// Keys of an invitation's file.
const INVITE_KEYS: &[&str] = &["secret_sha256", "expires_micros", "name", "used_by"];
/// Keys of an agent's file.
const AGENT_KEYS: &[&str] = &["id", "joined_micros", "request_sha256", "revoked_micros"];

/// An agent of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Name of the agent.
    pub name: String,
    /// Id in its certificates; joining again under the same name gets a new one.
    pub id: [u8; 16],
    /// When it joined.
    pub joined: Micros,
    /// When it was revoked.
    pub revoked: Option<Micros>,
    /// SHA-256 of its signing request.
    key: [u8; 32],
}

/// Terms of a new invitation.
#[derive(Clone, Debug, Default)]
pub struct Invitation {
    /// When it expires.
    pub expires: Micros,
    /// The only name that may join with it, replacing an agent of that name.
    pub name: Option<String>,
}

/// Why a peer is rejected. Sent as [`crate::Message::Goodbye`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Reason, for programs.
    pub code: GoodbyeCode,
    /// What failed and why, for people.
    pub text: String,
    /// What to do, for people.
    pub hint: String,
}

impl Denial {
    pub(crate) fn new(code: GoodbyeCode, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: hint.into() }
    }
}

impl From<LinkError> for Denial {
    fn from(error: LinkError) -> Self {
        let code = if error.kind == LinkErrorKind::Protocol {
            GoodbyeCode::Protocol
        } else {
            GoodbyeCode::Failed
        };
        Self::new(code, error.message, error.hint.unwrap_or_default())
    }
}

/// The files of invitations and agents.
pub struct Registry {
    dir: PathBuf,
    changes: Mutex<()>,
}

impl Registry {
    /// The registry in `link_dir` of a hub's data directory.
    pub fn new(link_dir: &Path) -> Self {
        Self { dir: link_dir.to_owned(), changes: Mutex::new(()) }
    }

    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock()
    }

    /// Creates an invitation and returns its public and its secret half.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`], or an invalid name.
    pub fn invite(
        &self,
        invitation: &Invitation,
        now: Micros,
    ) -> Result<([u8; 8], [u8; 16]), LinkError> {
        if let Some(name) = &invitation.name {
            check_name(name)?;
        }
        let dir = self.dir.join("invites");
        files::make_dir(&dir)?;
        self.forget_old_invites(now)?;
        if files::names(&dir)?.len() >= INVITES_MAX {
            let text = format!("cannot invite: {INVITES_MAX} invitations are open");
            return Err(
                LinkError::new(LinkErrorKind::Storage, text).hint("wait until some of them expire")
            );
        }
        let (invite, secret) = (secret::random::<8>(), secret::random::<16>());
        let mut text = format!(
            "secret_sha256 = {}\nexpires_micros = {}\n",
            secret::hex(&secret::sha256(&secret)),
            invitation.expires.0
        );
        if let Some(name) = &invitation.name {
            text += &format!("name = {name}\n");
        }
        files::write_lines(&dir.join(secret::hex(&invite)), &text)?;
        Ok((invite, secret))
    }

    /// Removes invitations a week after they expired. Until then, late agents get the reason.
    fn forget_old_invites(&self, now: Micros) -> Result<(), LinkError> {
        let dir = self.dir.join("invites");
        for name in files::names(&dir)? {
            let path = dir.join(name);
            // A damaged one is reported to its holder.
            let text = files::read_lines(&path, INVITE_KEYS).ok().flatten();
            let expires =
                text.and_then(|text| parse_micros(KeyValueLines(&text).value("expires_micros")?));
            if expires.is_some_and(|expires| expires + Duration::from_secs(7 * 86_400) < now) {
                std::fs::remove_file(&path)
                    .map_err(|error| LinkError::storage("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    /// Makes an agent of the holder of an invitation's secret. Repeating the request returns the
    /// same agent, since the first reply may have been lost.
    ///
    /// # Errors
    /// Why the invitation is refused.
    pub fn redeem(
        &self,
        (invite, secret): (&[u8; 8], &[u8; 16]),
        name: &str,
        request: &[u8],
        now: Micros,
    ) -> Result<Agent, Denial> {
        let _guard = self.lock_changes();
        let path = self.dir.join("invites").join(secret::hex(invite));
        let key = secret::sha256(request);
        let text = files::read_lines(&path, INVITE_KEYS)?.ok_or_else(unknown_token)?;
        let hash = files::parsed(&text, &path, "secret_sha256", secret::unhex::<32>)?;
        if !SecretBytes(&hash).is_same(&secret::sha256(secret)) {
            return Err(unknown_token());
        }
        let invited = KeyValueLines(&text).value("name");
        let name = invited.unwrap_or(name);
        check_name(name)?;
        if let Some(by) = KeyValueLines(&text).value("used_by") {
            return match self.agent(by)? {
                Some(agent) if agent.key == key && agent.revoked.is_none() => Ok(agent),
                _ => Err(used_token(by)),
            };
        }
        let expires = files::parsed(&text, &path, "expires_micros", |text| text.parse().ok())?;
        if now > Micros(expires) {
            return Err(Denial::new(
                GoodbyeCode::TokenExpired,
                format!("cannot join: the token expired at {}", Micros(expires)),
                "create a new one: `weir hub invite` on the hub; --for sets its lifetime",
            ));
        }
        let before = self.agent(name)?.filter(|agent| agent.revoked.is_none());
        if invited.is_none() && before.is_some() {
            return Err(Denial::new(
                GoodbyeCode::NameTaken,
                format!("cannot join: an agent called `{name}` exists"),
                format!(
                    "if this host was reinstalled: `weir hub invite --name {name}` on the hub \
                     lets it replace that agent; otherwise choose another name with --host"
                ),
            ));
        }
        let agent =
            Agent { name: name.to_owned(), id: secret::random(), joined: now, revoked: None, key };
        self.store(&agent)?;
        files::write_lines(&path, &format!("{text}used_by = {name}\n"))?;
        Ok(agent)
    }

    fn store(&self, agent: &Agent) -> Result<(), LinkError> {
        let dir = self.dir.join("agents");
        files::make_dir(&dir)?;
        let mut text = format!(
            "id = {}\njoined_micros = {}\nrequest_sha256 = {}\n",
            secret::hex(&agent.id),
            agent.joined.0,
            secret::hex(&agent.key)
        );
        if let Some(at) = agent.revoked {
            text += &format!("revoked_micros = {}\n", at.0);
        }
        files::write_lines(&dir.join(&agent.name), &text)
    }

    /// The agent with a name.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`].
    pub fn agent(&self, name: &str) -> Result<Option<Agent>, LinkError> {
        let path = self.dir.join("agents").join(name);
        if check_name(name).is_err() {
            return Ok(None);
        }
        let Some(text) = files::read_lines(&path, AGENT_KEYS)? else { return Ok(None) };
        Ok(Some(Agent {
            name: name.to_owned(),
            id: files::parsed(&text, &path, "id", secret::unhex)?,
            joined: files::parsed(&text, &path, "joined_micros", parse_micros)?,
            revoked: KeyValueLines(&text).value("revoked_micros").and_then(parse_micros),
            key: files::parsed(&text, &path, "request_sha256", secret::unhex)?,
        }))
    }

    /// All agents, sorted by name.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`].
    pub fn agents(&self) -> Result<Vec<Agent>, LinkError> {
        let names = files::names(&self.dir.join("agents"))?;
        names.iter().filter_map(|name| self.agent(name).transpose()).collect()
    }

    /// The agent that a certificate belongs to.
    ///
    /// # Errors
    /// Why it is rejected.
    pub fn admit(&self, name: &str, id: &[u8; 16]) -> Result<Agent, Denial> {
        let known = self.agent(name)?.filter(|agent| agent.id == *id);
        let agent = known.ok_or_else(|| {
            Denial::new(
                GoodbyeCode::UnknownAgent,
                format!("the hub no longer knows this agent as `{name}`"),
                format!(
                    "`weir hub invite --name {name}` on the hub, then `weir agent join TOKEN` here"
                ),
            )
        })?;
        match agent.revoked {
            None => Ok(agent),
            Some(at) => Err(Denial::new(
                GoodbyeCode::Revoked,
                format!("the hub revoked the agent `{name}` at {at}"),
                format!(
                    "if that was a mistake: `weir hub invite --name {name}` on the hub, then `weir agent join TOKEN` here"
                ),
            )),
        }
    }

    /// Revokes an agent.
    ///
    /// # Errors
    /// When there is no such agent, or [`LinkErrorKind::Storage`].
    pub fn revoke(&self, name: &str, now: Micros) -> Result<Agent, LinkError> {
        let _guard = self.lock_changes();
        let Some(mut agent) = self.agent(name)? else {
            return Err(LinkError::new(
                LinkErrorKind::Storage,
                format!("cannot revoke `{name}`: the hub has no agent of that name"),
            )
            .hint("`weir hub agents` lists them"));
        };
        agent.revoked.get_or_insert(now);
        self.store(&agent)?;
        Ok(agent)
    }

    /// When agents last changed; `None` before the first.
    pub fn changed(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(self.dir.join("agents")).and_then(|meta| meta.modified()).ok()
    }
}

fn parse_micros(text: &str) -> Option<Micros> {
    text.parse().ok().map(Micros)
}

fn check_name(name: &str) -> Result<(), LinkError> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !name.starts_with(['.', '-']);
    if is_name {
        return Ok(());
    }
    let text = format!("cannot use `{}` as an agent's name", name.escape_default());
    Err(LinkError::new(LinkErrorKind::Protocol, text)
        .hint("1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit"))
}

fn unknown_token() -> Denial {
    Denial::new(
        GoodbyeCode::TokenUnknown,
        "cannot join: this hub did not issue this token",
        "create a new one: `weir hub invite` on the hub",
    )
}

fn used_token(by: &str) -> Denial {
    Denial::new(
        GoodbyeCode::TokenUsed,
        format!("cannot join: the token was used by `{by}`"),
        "each token lets one agent join; create another: `weir hub invite` on the hub",
    )
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const NOW: Micros = Micros(1_795_000_000_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn denied(result: Result<Agent, Denial>, code: GoodbyeCode, expected: &Expect) {
        let denial = result.expect_err("it must be denied");
        assert_eq!(denial.code, code);
        expected.assert_eq(&format!("{}\nhint: {}", denial.text, denial.hint));
    }

    #[test]
    fn an_invitation_makes_one_agent_until_it_expires() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let any = Invitation { expires: NOW + HOUR, name: None };
        let (invite, secret) = registry.invite(&any, NOW).expect("an invitation");
        let token = (&invite, &secret);
        denied(
            registry.redeem((&invite, &[0; 16]), "web1", b"request", NOW),
            GoodbyeCode::TokenUnknown,
            &expect![[r#"
                cannot join: this hub did not issue this token
                hint: create a new one: `weir hub invite` on the hub"#]],
        );
        let late = registry.redeem(token, "web1", b"request", NOW + HOUR + HOUR);
        denied(
            late,
            GoodbyeCode::TokenExpired,
            &expect![[r#"
                cannot join: the token expired at 2026-11-18T12:06:40.000000Z
                hint: create a new one: `weir hub invite` on the hub; --for sets its lifetime"#]],
        );
        let agent = registry.redeem(token, "web1", b"request", NOW).expect("the first");
        let again = registry.redeem(token, "web1", b"request", NOW).expect("its answer was lost");
        assert_eq!(agent, again);
        denied(
            registry.redeem(token, "web2", b"another", NOW),
            GoodbyeCode::TokenUsed,
            &expect![[r#"
                cannot join: the token was used by `web1`
                hint: each token lets one agent join; create another: `weir hub invite` on the hub"#]],
        );
        assert_eq!(registry.admit("web1", &agent.id), Ok(agent));
    }

    #[test]
    fn a_revoked_agent_is_rejected_and_a_named_invitation_replaces_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let join = |name: Option<&str>, request: &[u8]| {
            let invitation = Invitation { expires: NOW + HOUR, name: name.map(str::to_owned) };
            let (invite, secret) = registry.invite(&invitation, NOW).expect("an invitation");
            registry.redeem((&invite, &secret), "web1", request, NOW)
        };
        let first = join(None, b"one").expect("the first of its name");
        assert_eq!(join(None, b"two").expect_err("taken").code, GoodbyeCode::NameTaken);
        registry.revoke("web1", NOW).expect("it exists");
        denied(
            registry.admit("web1", &first.id),
            GoodbyeCode::Revoked,
            &expect![[r#"
                the hub revoked the agent `web1` at 2026-11-18T11:06:40.000000Z
                hint: if that was a mistake: `weir hub invite --name web1` on the hub, then `weir agent join TOKEN` here"#]],
        );
        let second = join(Some("web1"), b"three").expect("invited by name");
        assert_eq!(
            registry.admit("web1", &first.id).expect_err("old").code,
            GoodbyeCode::UnknownAgent
        );
        assert_eq!(registry.admit("web1", &second.id), Ok(second));
        assert!(registry.revoke("web9", NOW).is_err());
        assert_eq!(registry.agents().expect("they can be read").len(), 1);
    }

    /// Each file that differs from this one in a bit, or ends before it.
    fn damaged(intact: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let cut = (0..intact.len()).map(|length| intact[..length].to_vec());
        let bits = (0..intact.len()).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        cut.chain(bits.map(|(at, bit)| {
            let mut bytes = intact.to_vec();
            bytes[at] ^= 1 << bit;
            bytes
        }))
    }

    #[test]
    fn damaged_file_undoes_no_revocation_and_renews_no_token() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let any = Invitation { expires: NOW + HOUR, name: None };
        let (invite, secret) = registry.invite(&any, NOW).expect("an invitation");
        let agent = registry.redeem((&invite, &secret), "web1", b"request", NOW).expect("one");
        registry.revoke("web1", NOW).expect("it exists");
        let path = dir.path().join("agents/web1");
        let intact = std::fs::read(&path).expect("an agent's file");
        for bytes in damaged(&intact) {
            std::fs::write(&path, &bytes).expect("a writable file");
            let text = registry.admit("web1", &agent.id).expect_err("revoked").text;
            assert!(text.contains("agents/web1`"), "{text}: {}", bytes.escape_ascii());
        }
        std::fs::write(&path, intact).expect("a writable file");
        let path = dir.path().join("invites").join(secret::hex(&invite));
        for bytes in damaged(&std::fs::read(&path).expect("an invitation's file")) {
            std::fs::write(&path, &bytes).expect("a writable file");
            let denial = registry.redeem((&invite, &secret), "web2", b"two", NOW);
            let text = denial.expect_err("used").text;
            assert!(text.contains("invites/"), "{text}: {}", bytes.escape_ascii());
        }
    }

    #[test]
    fn file_of_an_older_weir_has_no_checksum() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let (id, key) = ("1".repeat(32), "2".repeat(64));
        let text = format!("id = {id}\njoined_micros = 5\nrequest_sha256 = {key}\n");
        std::fs::create_dir(dir.path().join("agents")).expect("a directory");
        std::fs::write(dir.path().join("agents/web1"), &text).expect("a writable file");
        assert!(registry.admit("web1", &[0x11; 16]).is_ok());
        registry.revoke("web1", NOW).expect("it exists");
        assert_eq!(
            registry.admit("web1", &[0x11; 16]).map_err(|it| it.code),
            Err(GoodbyeCode::Revoked)
        );
    }

    #[test]
    fn names_that_would_leave_the_directory_are_invalid() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let long = "x".repeat(65);
        for name in ["", "..", "../x", "a/b", ".hidden", "-f", "ä", "a b", long.as_str()] {
            let invitation = Invitation { expires: NOW + HOUR, name: Some(name.into()) };
            assert!(registry.invite(&invitation, NOW).is_err(), "{name}");
            assert!(registry.agent(name).expect("no file is read").is_none(), "{name}");
        }
    }
}
