//! One kernel setting of the namespace that weir runs in, and who that namespace is. Source:
//! sysctl(8), namespaces(7).

use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_process::failure::Failure;

/// Below it each setting is a file.
const SETTINGS: &str = "/proc/sys";

/// A setting by its name, such as `net.core.somaxconn`.
#[derive(Clone, Copy, Debug)]
pub struct KernelSetting<'a>(pub &'a str);

/// Numbers and words with one space between them, as settings are compared.
pub fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl KernelSetting<'_> {
    fn path(self) -> PathBuf {
        Path::new(SETTINGS).join(self.0.replace('.', "/"))
    }

    /// The current value.
    pub fn read(self) -> Result<String, Failure> {
        let value = std::fs::read_to_string(self.path());
        value.map(|value| plain(&value)).map_err(|error| {
            let failure = Failure::new(format!("cannot read `{}`: {error}", self.0));
            match error.kind() {
                std::io::ErrorKind::NotFound => failure.hint(
                    "this kernel has no such setting in this network namespace; settings of the whole host are in the first one only",
                ),
                _ => failure,
            }
        })
    }

    /// Sets it, and makes sure that the kernel took it as it was written.
    pub fn write(self, value: &str) -> Result<(), Failure> {
        std::fs::write(self.path(), value).map_err(|error| {
            let failure = self.cannot_set(value, &error);
            match error.kind() {
                std::io::ErrorKind::InvalidInput => failure.hint("the kernel rejects this value"),
                std::io::ErrorKind::PermissionDenied => {
                    failure.hint("run it as root; a container may not be allowed to")
                }
                _ => failure,
            }
        })?;
        match self.read()? {
            now if now == plain(value) => Ok(()),
            now => Err(self.cannot_set(value, &format!("the kernel set it to `{now}`"))),
        }
    }

    fn cannot_set(self, value: &str, why: &dyn Display) -> Failure {
        Failure::new(format!("cannot set `{}` to `{value}`: {why}", self.0))
    }
}

/// The kernel's name for the time since it was started; empty when it tells none.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn id_of(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    Some(format!("{}:{}", meta.dev(), meta.ino()))
}

/// Device and inode of this network namespace.
pub fn netns_id() -> String {
    id_of(Path::new("/proc/self/ns/net")).unwrap_or_default()
}

/// Named namespaces, and those of processes.
fn namespaces() -> impl Iterator<Item = PathBuf> {
    let of_processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
    entries("/run/netns").map(|entry| entry.path()).chain(of_processes)
}

fn entries(dir: &str) -> impl Iterator<Item = std::fs::DirEntry> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Whether a namespace is still there.
pub fn has_netns(id: &str) -> bool {
    namespaces().any(|path| id_of(&path).as_deref() == Some(id))
}

/// This namespace's name: `host` for the first one, else its name of `ip netns`, else
/// `net:[inode]`.
pub fn netns_name() -> String {
    let own = netns_id();
    if id_of(Path::new("/proc/1/ns/net")).as_deref() == Some(&own) {
        return "host".to_owned();
    }
    let named = namespaces().find(|path| {
        path.starts_with("/run/netns") && id_of(path).as_deref() == Some(own.as_str())
    });
    let name = named.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let inode = own.split(':').nth(1).unwrap_or_default();
    name.unwrap_or_else(|| format!("net:[{inode}]"))
}
