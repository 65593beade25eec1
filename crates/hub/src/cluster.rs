//! A hub as one of several: its options from the configuration, and the files of the fleet that all
//! hubs have.
//!
//! Who belongs to the fleet is in small files below `link/` of a hub's data directory, which `weir
//! hub invite` and `revoke` write. In a cluster they are in the manifest as well: what changes here
//! goes there, and what changes there comes here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_agent_core::join::link_failure;
use weir_config::Values;
use weir_config::place::host_name;
use weir_config::place::read_secret;
use weir_link::Authority;
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_store::{ClusterOptions, ManifestOptions, Store, StoreError};
use weir_tables::Micros;

use crate::heal::make_key;
use crate::server::OverHttp;
use crate::store_failure;

/// How often files of the fleet are compared.
const LOOK: Duration = Duration::from_secs(1);
/// Prefix of the fleet's files among the files that hubs share.
const FLEET: &str = "link/";
/// The parts of `link/` that all hubs have; the rest is a hub's own.
const AUTHORITY: &str = "authority.pem";
const ORDER_KEY: &str = "orders.pem";
const DIRECTORIES: [&str; 2] = ["invites", "agents"];

/// `None` for a hub alone.
///
/// # Errors
/// When something is configured that cannot be.
pub fn options(
    values: &Values,
    token: &str,
    listening: SocketAddr,
) -> Result<Option<ClusterOptions>, Failure> {
    let cluster = &values.cluster;
    let Some(manifest) = manifest(values)? else { return Ok(None) };
    let has_login = values.api.token_file.is_some() || cluster.token_file.is_some();
    if !has_login && !listening.ip().to_canonical().is_loopback() {
        return Err(Failure::new("cannot join other hubs: no login of hubs is configured")
            .hint("set `cluster.token_file`, with the same login on all hubs")
            .code(EXIT_CONFIG));
    }
    let name = Some(&cluster.name).filter(|name| !name.is_empty());
    let peers = OverHttp::new(token.to_owned())
        .map_err(|error| Failure::new(format!("cannot ask other hubs: {error}")))?;
    Ok(Some(ClusterOptions {
        manifest,
        name: name.unwrap_or(&values.collect.host).clone(),
        address: address(values, listening)?,
        peers: Arc::new(peers),
        spread_bytes: cluster.spread_bytes,
    }))
}

/// What all hubs know; `None` for a hub alone.
///
/// # Errors
/// When something is configured that cannot be.
pub fn manifest(values: &Values) -> Result<Option<ManifestOptions>, Failure> {
    let cluster = &values.cluster;
    if cluster.manifest.is_empty() {
        return Ok(None);
    }
    let bad = |key: &str, why: &str| {
        Failure::new(format!("cannot use `cluster.{key}`: {why}")).code(EXIT_CONFIG)
    };
    if !is_name(&cluster.schema) {
        return Err(bad("schema", "a schema has letters, digits and `_` in its name"));
    }
    Ok(Some(ManifestOptions {
        url: cluster.manifest.clone(),
        password: cluster.password_file.as_deref().map(read_secret).transpose()?,
        ca_file: cluster.ca_file.clone(),
        schema: cluster.schema.clone(),
    }))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn address(values: &Values, listening: SocketAddr) -> Result<String, Failure> {
    let told = &values.cluster.address;
    if told.is_empty() {
        let scheme = if values.api.tls_certificate_file.is_some() { "https" } else { "http" };
        return Ok(match listening.ip().is_unspecified() {
            true => format!("{scheme}://{}:{}", host_name(), listening.port()),
            false => format!("{scheme}://{listening}"),
        });
    }
    if told.starts_with("http://") || told.starts_with("https://") {
        return Ok(told.trim_end_matches('/').to_owned());
    }
    Err(Failure::new(format!("cannot use `cluster.address`: `{told}` is not the address of a hub"))
        .hint("write it as http://10.0.0.5:4770")
        .code(EXIT_CONFIG))
}

/// What a hub needs of the fleet's secrets.
#[derive(Clone, Copy, Debug)]
pub struct FleetKeys {
    /// It serves agents.
    pub is_serving: bool,
    /// It orders repairs.
    pub is_ordering: bool,
}

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Keeps the fleet's files the same as those of the other hubs.
pub struct SharedFleet {
    store: Arc<Store>,
    /// `link/` of the data directory.
    dir: PathBuf,
    /// As they were when both sides had the same.
    before: Files,
}

impl SharedFleet {
    /// Takes over what the other hubs have. With `keys.is_serving` there is an authority afterwards, and
    /// it is the cluster's: a hub that creates its own authority when it begins to serve would
    /// belong to another fleet. With `keys.is_ordering` the same holds for the key of orders.
    ///
    /// # Errors
    /// When the manifest or the directory cannot be used.
    pub async fn enter(
        store: &Arc<Store>,
        dir: PathBuf,
        keys: FleetKeys,
        now: Micros,
    ) -> Result<Self, Failure> {
        let mut fleet = Self { store: Arc::clone(store), dir, before: Files::new() };
        fleet.share().await.map_err(store_failure)?;
        if keys.is_serving {
            Authority::open(&fleet.dir, now).map_err(link_failure)?;
        }
        if keys.is_ordering {
            make_key(&fleet.dir)?;
        }
        if keys.is_serving || keys.is_ordering {
            // The second time brings that of a hub that was quicker.
            fleet.share().await.map_err(store_failure)?;
            fleet.share().await.map_err(store_failure)?;
        }
        Ok(fleet)
    }

    /// Shares what changes, until it is aborted.
    pub async fn run(mut self) {
        let mut said = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let why = self.share().await.err().map(|error| error.to_string());
            if let Some(why) = why.as_ref().filter(|why| said.as_ref() != Some(*why)) {
                tracing::warn!("cannot share with other hubs who belongs to the fleet: {why}");
            }
            said = why;
        }
    }

    /// What changed on one side goes to the other; where both did, all hubs have what the manifest
    /// has.
    async fn share(&mut self) -> Result<(), StoreError> {
        let Some(shared) = self.store.shared_files().await? else { return Ok(()) };
        let shared: Files = shared
            .into_iter()
            .filter_map(|(name, content): (String, Vec<u8>)| {
                Some((name.strip_prefix(FLEET)?.to_owned(), content))
            })
            .collect();
        let own = read(&self.dir);
        let before = std::mem::take(&mut self.before);
        let names = shared.keys().chain(own.keys()).chain(before.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let sides = [shared.get(name), own.get(name), before.get(name)];
            let now = self.settle(name, sides).await?;
            self.before.extend(now.map(|content| (name.clone(), content.clone())));
        }
        Ok(())
    }

    /// Makes both sides of a file the same; what they are then.
    async fn settle<'a>(
        &self,
        name: &str,
        [theirs, ours, before]: [Option<&'a Vec<u8>>; 3],
    ) -> Result<Option<&'a Vec<u8>>, StoreError> {
        if theirs == ours {
            return Ok(theirs);
        }
        if theirs == before {
            let name = format!("{FLEET}{name}");
            let is_put = self.store.share_file(name, before.cloned(), ours.cloned()).await?;
            // Who was quicker is met at the next look.
            return Ok(if is_put { ours } else { before });
        }
        if let Err(error) = write(&self.dir, name, theirs) {
            tracing::warn!("cannot write `{}`: {error}", self.dir.join(name).display());
            return Ok(before);
        }
        Ok(theirs)
    }
}

/// Whether all hubs have a file, by its path below the data directory of one.
pub fn is_shared(path: &str) -> bool {
    path.strip_prefix(FLEET).is_some_and(is_of_fleet)
}

fn is_of_fleet(name: &str) -> bool {
    name == AUTHORITY
        || name == ORDER_KEY
        || name.split_once('/').is_some_and(|(part, file)| {
            DIRECTORIES.contains(&part) && !file.contains('/') && !file.starts_with('.')
        })
}

fn read(dir: &Path) -> Files {
    let mut files = Files::new();
    let mut add = |name: String| {
        // One that is gone meanwhile is not there.
        files.extend(std::fs::read(dir.join(&name)).ok().map(|content| (name, content)));
    };
    add(AUTHORITY.to_owned());
    add(ORDER_KEY.to_owned());
    for part in DIRECTORIES {
        let entries = std::fs::read_dir(dir.join(part)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // Others are being written.
        for name in names.filter(|name| !name.starts_with('.')) {
            add(format!("{part}/{name}"));
        }
    }
    files
}

fn write(dir: &Path, name: &str, content: Option<&Vec<u8>>) -> std::io::Result<()> {
    let path = dir.join(name);
    if !is_of_fleet(name) {
        return Err(std::io::Error::other("it is no file of a fleet"));
    }
    let Some(content) = content else { return std::fs::remove_file(path) };
    let parent = path.parent().unwrap_or(dir);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = parent.join(format!(".{file_name}"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_as_told_or_where_the_hub_listens() {
        let listening = |text: &str| text.parse().expect("an address");
        let told = |told: &str, at: &str| {
            let mut values = Values::default();
            values.cluster.address = told.to_owned();
            address(&values, listening(at)).map_err(|no| no.to_string())
        };
        assert_eq!(told("", "127.0.0.1:4770"), Ok("http://127.0.0.1:4770".into()));
        assert_eq!(told("", "0.0.0.0:1"), Ok(format!("http://{}:1", host_name())));
        assert_eq!(told("http://hub1:4770/", "0.0.0.0:1"), Ok("http://hub1:4770".into()));
        let why = told("hub1:4770", "0.0.0.0:1").expect_err("it has no scheme");
        assert!(why.contains("`hub1:4770` is not the address"), "{why}");
    }

    #[test]
    fn only_files_of_the_fleet_are_read_and_written() {
        let dir = tempfile::tempdir().expect("a directory");
        for bad in ["address", "../x", "agents/../../x", "invites/.x"] {
            assert!(write(dir.path(), bad, Some(&vec![1])).is_err(), "{bad}");
        }
        write(dir.path(), "agents/web1", Some(&vec![1])).expect("it can be written");
        write(dir.path(), AUTHORITY, Some(&vec![2])).expect("it can be written");
        write(dir.path(), ORDER_KEY, Some(&vec![3])).expect("it can be written");
        std::fs::write(dir.path().join("address"), "x").expect("it can be written");
        let names: Vec<String> = read(dir.path()).into_keys().collect();
        assert_eq!(names, ["agents/web1", "authority.pem", "orders.pem"]);
        write(dir.path(), "agents/web1", None).expect("it can be removed");
        assert_eq!(read(dir.path()).len(), 2);
    }
}
