//! Where things are on a host: the list of actions, the pin of the hub, the switch, the journal.
//!
//! ```text
//!   /etc/weir/actions.d/ID.toml   what may run
//!   /etc/weir/actions.off         nothing runs while it exists
//!   /etc/weir/orders.toml         the hub's key, this agent's name, the agent's uid
//!   /var/lib/weir-act/            journal and locks
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::action_file::{is_plain_id, parse_action};
use crate::error::ActError;
use crate::order::{NAME_BYTES_MAX, OrderMode};
use crate::param::ParamRule;
use crate::sign::PublicKey;
use crate::trusted::TrustedRoot;

const ACTIONS: &str = "/etc/weir/actions.d";
const OFF: &str = "/etc/weir/actions.off";
const PIN: &str = "/etc/weir/orders.toml";
const STATE: &str = "/var/lib/weir-act";

/// A host's files; `/` and uid 0 except in tests.
#[derive(Clone, Debug)]
pub struct ActHost {
    root: TrustedRoot,
    owner_uid: u32,
}

/// The hub whose orders a host takes, and the agent that they are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubPin {
    /// The hub's public key, as `weir-orders-ed25519 …`.
    pub key: String,
    /// The name that this host's agent joined as.
    pub agent: String,
    /// Uid of the agent's account; root may connect as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_uid: Option<u32>,
}

/// An account of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
}

impl ActHost {
    /// The host whose `/` is `root`, with files of `owner_uid`.
    pub fn new(root: &Path, owner_uid: u32) -> Self {
        Self { root: TrustedRoot::new(root, owner_uid), owner_uid }
    }

    pub(crate) fn root(&self) -> &TrustedRoot {
        &self.root
    }

    /// Directory of the journal, which is created if there is none.
    pub(crate) fn state_dir(&self) -> Result<PathBuf, ActError> {
        let dir = self.root.locate(Path::new(STATE));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|why| ActError::file("make", Path::new(STATE), why))?;
        Ok(dir)
    }

    /// Why nothing may run, if the switch is off. What cannot be read counts as off.
    pub(crate) fn off(&self) -> Option<ActError> {
        match fs::symlink_metadata(self.root.locate(Path::new(OFF))) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            _ => Some(
                ActError::new(format!("nothing runs on this host: `{OFF}` exists"))
                    .hint(format!("rm {OFF}")),
            ),
        }
    }

    /// One action of the list.
    ///
    /// # Errors
    /// There is none of this id, or its file is not to be used.
    pub fn action(&self, id: &str) -> Result<Action, ActError> {
        // The id becomes a file's name.
        if !is_plain_id(id) {
            let shown: String = id.escape_debug().take(80).collect();
            return Err(ActError::new(format!("`{shown}` is no action's id")));
        }
        let path = Path::new(ACTIONS).join(format!("{id}.toml"));
        let text = self.root.read(&path)?.ok_or_else(|| {
            ActError::new(format!("this host does not list the action `{id}`"))
                .hint(format!("write {} on the host; docs/act.md has examples", path.display()))
        })?;
        parse_action(&path, &text)
    }

    /// Every action file's id, and the action or what is wrong with it.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn actions(&self) -> Result<BTreeMap<String, Result<Action, ActError>>, ActError> {
        let dir = self.root.locate(Path::new(ACTIONS));
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(ActError::file("read", Path::new(ACTIONS), error)),
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let ids = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned));
        Ok(ids.map(|id| (id.clone(), self.checked_action(&id))).collect())
    }

    /// An action whose programs and account are there.
    fn checked_action(&self, id: &str) -> Result<Action, ActError> {
        let action = self.action(id)?;
        for mode in [OrderMode::Run, OrderMode::Undo] {
            for step in action.steps_of(mode).unwrap_or_default() {
                self.root.open_program(&step.program)?;
            }
        }
        self.account(&action.user)?;
        Ok(action)
    }

    /// Whether the paths among an order's parameters exist without symlinks.
    pub(crate) fn check_paths(
        &self,
        action: &Action,
        params: &BTreeMap<String, String>,
    ) -> Result<(), ActError> {
        for (name, rule) in &action.params {
            let Some(value) = params.get(name) else { continue };
            if matches!(rule, ParamRule::Path { .. }) && !self.root.has_plain(Path::new(value)) {
                let shown: String = value.escape_debug().take(80).collect();
                let why =
                    format!("cannot use `{name}` = `{shown}`: it does not exist, or has a symlink");
                return Err(ActError::new(why).hint("name what the symlink leads to"));
            }
        }
        Ok(())
    }

    /// An account of `/etc/passwd`.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn account(&self, name: &str) -> Result<Account, ActError> {
        let path = Path::new("/etc/passwd");
        let text = self.root.read(path)?.unwrap_or_default();
        let found = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(name);
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_it.then_some(Account { uid, gid })
        });
        found.ok_or_else(|| {
            let shown: String = name.escape_debug().take(80).collect();
            ActError::new(format!("`/etc/passwd` has no account `{shown}`"))
                .hint("accounts of LDAP and the like are not used; name one of this host")
        })
    }

    /// The pinned hub.
    ///
    /// # Errors
    /// No hub is pinned, or the file is not to be used.
    pub fn pin(&self) -> Result<HubPin, ActError> {
        let path = Path::new(PIN);
        let hint = "copy `link/orders.pub` of the hub here, then `weir-act trust orders.pub`";
        let text = self
            .root
            .read(path)?
            .ok_or_else(|| ActError::new("this host trusts no hub's orders").hint(hint))?;
        let pin: HubPin = toml::from_str(&text).map_err(|error| {
            ActError::file("use", path, error.message().replace('\n', ", ")).hint(hint)
        })?;
        PublicKey::parse(&pin.key)?;
        Ok(pin)
    }

    /// Pins a hub, in place of an earlier one; creates the directories.
    ///
    /// # Errors
    /// The key or the name cannot be used, or the file cannot be written.
    pub fn set_pin(&self, pin: &HubPin) -> Result<(), ActError> {
        PublicKey::parse(&pin.key)?;
        let is_name = !pin.agent.is_empty()
            && pin.agent.len() <= NAME_BYTES_MAX
            && !pin.agent.contains(char::is_control);
        if !is_name {
            return Err(ActError::new("cannot pin the hub: the agent's name is empty or too long")
                .hint("--agent NAME: the name that this host's agent joined as"));
        }
        let text =
            toml::to_string(pin).map_err(|error| ActError::file("write", Path::new(PIN), error))?;
        let dir = self.root.locate(Path::new(ACTIONS));
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&dir);
        made.map_err(|why| ActError::file("make", Path::new(ACTIONS), why))?;
        write_whole(&self.root.locate(Path::new(PIN)), text.as_bytes())
            .map_err(|why| ActError::file("write", Path::new(PIN), why).hint("run it as root"))
    }

    /// Uid that owns the host's files.
    pub(crate) fn owner_uid(&self) -> u32 {
        self.owner_uid
    }
}

/// Replaces a file (0644) as a whole; after a power loss it has the old or the new content.
fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let next = path.with_extension("new");
    let _ = fs::remove_file(&next);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&next)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    path.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
}
