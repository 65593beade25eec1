//! Whom the hub knows: invitations and agents, one small file each below `link/` of its data directory.
//!
//! ```text
//!   link/authority.pem           key and certificate of the authority
//!   link/invites/<id>            secret (hashed), expiry, name; who used it
//!   link/agents/<name>           id, when it joined; when it was revoked
//! ```
//! Files, so that `weir hub invite` and `weir hub revoke` work whether the hub runs or not. The hub looks at the
//! directory twice a second; every change is a rename into it, which moves the directory's time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_tables::Micros;

use crate::error::{Kind, LinkError};
use crate::message::Code;
use crate::{files, secret};

/// Names are file names, host names and parts of certificates.
pub const NAME_BYTES_MAX: usize = 64;
/// Invitations that may be open at one time.
const INVITES_MAX: usize = 10_000;

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What its certificates hold; a name that joins again gets another one.
    pub id: [u8; 16],
    /// When it joined.
    pub joined: Micros,
    /// When it was revoked.
    pub revoked: Option<Micros>,
    /// SHA-256 of the request that it joined with.
    key: [u8; 32],
}

/// What a new invitation is for.
#[derive(Clone, Debug, Default)]
pub struct Invitation {
    /// After this it is refused.
    pub expires: Micros,
    /// The only name that may join with it; it takes the place of an agent of that name.
    pub name: Option<String>,
}

/// Why somebody is turned away: goes over the wire as [`crate::Message::Goodbye`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// For the program.
    pub code: Code,
    /// For a person.
    pub text: String,
    /// For a person.
    pub hint: String,
}

impl Denial {
    pub(crate) fn new(code: Code, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: hint.into() }
    }
}

impl From<LinkError> for Denial {
    fn from(error: LinkError) -> Self {
        let code = if error.kind == Kind::Protocol { Code::Protocol } else { Code::Failed };
        Self::new(code, error.message, error.hint.unwrap_or_default())
    }
}

/// The files.
pub struct Registry {
    dir: PathBuf,
    turn: Mutex<()>,
}

impl Registry {
    /// That of a hub whose data directory has `link_dir` in it.
    pub fn new(link_dir: &Path) -> Self {
        Self { dir: link_dir.to_owned(), turn: Mutex::new(()) }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an invitation; its public and its secret half.
    ///
    /// # Errors
    /// [`Kind::Storage`], or a name that cannot be one.
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
            return Err(LinkError::new(Kind::Storage, text).hint("wait until some of them expire"));
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
        files::write(&dir.join(secret::hex(&invite)), text.as_bytes())?;
        Ok((invite, secret))
    }

    /// Invitations are kept for a week after their end, so that who comes late is told why.
    fn forget_old_invites(&self, now: Micros) -> Result<(), LinkError> {
        let dir = self.dir.join("invites");
        for name in files::names(&dir)? {
            let path = dir.join(name);
            let expires = files::read(&path)?
                .and_then(|text| files::value(&text, "expires_micros")?.parse().ok())
                .map(Micros);
            if expires.is_some_and(|expires| expires + Duration::from_secs(7 * 86_400) < now) {
                std::fs::remove_file(&path)
                    .map_err(|error| LinkError::storage("remove", &path, &error))?;
            }
        }
        Ok(())
    }

    /// Makes an agent of whoever has the secret of an invitation. The same request gets the same answer again, because
    /// the first answer may have been lost on its way.
    ///
    /// # Errors
    /// Why not.
    pub fn redeem(
        &self,
        (invite, secret): (&[u8; 8], &[u8; 16]),
        name: &str,
        request: &[u8],
        now: Micros,
    ) -> Result<Agent, Denial> {
        let _turn = self.turn();
        let path = self.dir.join("invites").join(secret::hex(invite));
        let key = secret::sha256(request);
        let text = files::read(&path)?.ok_or_else(unknown_token)?;
        let hash = files::parsed(&path, &text, "secret_sha256", secret::unhex::<32>)?;
        if !secret::is_same(&hash, &secret::sha256(secret)) {
            return Err(unknown_token());
        }
        let invited = files::value(&text, "name");
        let name = invited.unwrap_or(name);
        check_name(name)?;
        if let Some(by) = files::value(&text, "used_by") {
            return match self.agent(by)? {
                Some(agent) if agent.key == key && agent.revoked.is_none() => Ok(agent),
                _ => Err(used_token(by)),
            };
        }
        let expires = files::parsed(&path, &text, "expires_micros", |text| text.parse().ok())?;
        if now > Micros(expires) {
            return Err(Denial::new(
                Code::TokenExpired,
                format!("cannot join: the token expired at {}", Micros(expires)),
                "ask for a new one: `weir hub invite` on the hub; it says for how long with --for",
            ));
        }
        let before = self.agent(name)?.filter(|agent| agent.revoked.is_none());
        if invited.is_none() && before.is_some() {
            return Err(Denial::new(
                Code::NameTaken,
                format!("cannot join: an agent called `{name}` exists"),
                format!(
                    "if it is this host before it was installed anew: `weir hub invite --name {name}` on the hub, \
                     which lets it take its place; else give this host another name with --host"
                ),
            ));
        }
        let agent =
            Agent { name: name.to_owned(), id: secret::random(), joined: now, revoked: None, key };
        self.keep(&agent)?;
        files::write(&path, format!("{text}used_by = {name}\n").as_bytes())?;
        Ok(agent)
    }

    fn keep(&self, agent: &Agent) -> Result<(), LinkError> {
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
        files::write(&dir.join(&agent.name), text.as_bytes())
    }

    /// The agent of a name.
    ///
    /// # Errors
    /// [`Kind::Storage`].
    pub fn agent(&self, name: &str) -> Result<Option<Agent>, LinkError> {
        let path = self.dir.join("agents").join(name);
        if check_name(name).is_err() {
            return Ok(None);
        }
        let Some(text) = files::read(&path)? else { return Ok(None) };
        let micros = |text: &str| text.parse().ok().map(Micros);
        Ok(Some(Agent {
            name: name.to_owned(),
            id: files::parsed(&path, &text, "id", secret::unhex)?,
            joined: files::parsed(&path, &text, "joined_micros", micros)?,
            revoked: files::value(&text, "revoked_micros").and_then(micros),
            key: files::parsed(&path, &text, "request_sha256", secret::unhex)?,
        }))
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// [`Kind::Storage`].
    pub fn agents(&self) -> Result<Vec<Agent>, LinkError> {
        let names = files::names(&self.dir.join("agents"))?;
        names.iter().filter_map(|name| self.agent(name).transpose()).collect()
    }

    /// The agent that a certificate was made for.
    ///
    /// # Errors
    /// Why it is turned away.
    pub fn admit(&self, name: &str, id: &[u8; 16]) -> Result<Agent, Denial> {
        let known = self.agent(name)?.filter(|agent| agent.id == *id);
        let agent = known.ok_or_else(|| {
            Denial::new(
                Code::UnknownAgent,
                format!("the hub does not know this agent as `{name}` any more"),
                format!(
                    "`weir hub invite --name {name}` on the hub, then `weir agent join TOKEN` here"
                ),
            )
        })?;
        match agent.revoked {
            None => Ok(agent),
            Some(at) => Err(Denial::new(
                Code::Revoked,
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
    /// There is none of that name, or [`Kind::Storage`].
    pub fn revoke(&self, name: &str, now: Micros) -> Result<Agent, LinkError> {
        let _turn = self.turn();
        let Some(mut agent) = self.agent(name)? else {
            return Err(LinkError::new(
                Kind::Storage,
                format!("cannot revoke `{name}`: the hub has no agent of that name"),
            )
            .hint("`weir hub agents` lists them"));
        };
        agent.revoked.get_or_insert(now);
        self.keep(&agent)?;
        Ok(agent)
    }

    /// When agents last changed; `None` before the first.
    pub fn changed(&self) -> Option<std::time::SystemTime> {
        std::fs::metadata(self.dir.join("agents")).and_then(|meta| meta.modified()).ok()
    }
}

fn check_name(name: &str) -> Result<(), LinkError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_good)
        && !name.starts_with(['.', '-']);
    if is_name {
        return Ok(());
    }
    let text = format!("cannot use `{}` as an agent's name", name.escape_default());
    Err(LinkError::new(Kind::Protocol, text)
        .hint("1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit"))
}

fn unknown_token() -> Denial {
    Denial::new(
        Code::TokenUnknown,
        "cannot join: this hub did not make this token",
        "ask for a new one: `weir hub invite` on the hub",
    )
}

fn used_token(by: &str) -> Denial {
    Denial::new(
        Code::TokenUsed,
        format!("cannot join: the token was used by `{by}`"),
        "a token lets one agent join; ask for another: `weir hub invite` on the hub",
    )
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const NOW: Micros = Micros(1_795_000_000_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn denied(result: Result<Agent, Denial>, code: Code, expected: &Expect) {
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
            Code::TokenUnknown,
            &expect![[r#"
                cannot join: this hub did not make this token
                hint: ask for a new one: `weir hub invite` on the hub"#]],
        );
        let late = registry.redeem(token, "web1", b"request", NOW + HOUR + HOUR);
        denied(
            late,
            Code::TokenExpired,
            &expect![[r#"
                cannot join: the token expired at 2026-11-18T12:06:40.000000Z
                hint: ask for a new one: `weir hub invite` on the hub; it says for how long with --for"#]],
        );
        let agent = registry.redeem(token, "web1", b"request", NOW).expect("the first");
        let again = registry.redeem(token, "web1", b"request", NOW).expect("its answer was lost");
        assert_eq!(agent, again);
        denied(
            registry.redeem(token, "web2", b"another", NOW),
            Code::TokenUsed,
            &expect![[r#"
                cannot join: the token was used by `web1`
                hint: a token lets one agent join; ask for another: `weir hub invite` on the hub"#]],
        );
        assert_eq!(registry.admit("web1", &agent.id), Ok(agent));
    }

    #[test]
    fn a_revoked_agent_is_turned_away_and_a_named_invitation_replaces_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let registry = Registry::new(dir.path());
        let join = |name: Option<&str>, request: &[u8]| {
            let invitation = Invitation { expires: NOW + HOUR, name: name.map(str::to_owned) };
            let (invite, secret) = registry.invite(&invitation, NOW).expect("an invitation");
            registry.redeem((&invite, &secret), "web1", request, NOW)
        };
        let first = join(None, b"one").expect("the first of its name");
        assert_eq!(join(None, b"two").expect_err("taken").code, Code::NameTaken);
        registry.revoke("web1", NOW).expect("it exists");
        denied(
            registry.admit("web1", &first.id),
            Code::Revoked,
            &expect![[r#"
                the hub revoked the agent `web1` at 2026-11-18T11:06:40.000000Z
                hint: if that was a mistake: `weir hub invite --name web1` on the hub, then `weir agent join TOKEN` here"#]],
        );
        let second = join(Some("web1"), b"three").expect("invited by name");
        assert_eq!(registry.admit("web1", &first.id).expect_err("old").code, Code::UnknownAgent);
        assert_eq!(registry.admit("web1", &second.id), Ok(second));
        assert!(registry.revoke("web9", NOW).is_err());
        assert_eq!(registry.agents().expect("they can be read").len(), 1);
    }

    #[test]
    fn names_that_would_leave_the_directory_are_none() {
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
