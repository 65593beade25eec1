//! Running servers: command line, working directory, and their files as seen from here.
//!
//! Source: proc(5) (`cmdline`, `cwd`, `root`, `ns/mnt`). The surprising thing: nginx overwrites its
//! command line with `nginx: master process …`, so arguments with spaces cannot be separated.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(super) struct ServerProcess {
    pub(super) id: i64,
    /// `comm`.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
    /// Path of its `/` as seen from here.
    pub(super) base: PathBuf,
    pub(super) program: PathBuf,
    /// Whether root or weir's own account runs it.
    is_trusted: bool,
    parent: Option<i64>,
}

pub(super) fn running(root: &Path) -> Vec<ServerProcess> {
    let Ok(entries) = root.join("proc").read_dir() else { return Vec::new() };
    let own_namespace = root.join("proc/self/ns/mnt").read_link().ok();
    let mut found: Vec<ServerProcess> = entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            read(root, &entry.path(), id, own_namespace.as_deref())
        })
        .collect();
    found.sort_by_key(|process| process.id);
    let names: HashMap<i64, String> =
        found.iter().map(|process| (process.id, process.name.clone())).collect();
    // Workers that became another user have the files of their master.
    found.retain(|process| {
        let parent = process.parent.and_then(|parent| names.get(&parent));
        process.is_trusted || parent != Some(&process.name)
    });
    found
}

fn read(root: &Path, dir: &Path, id: i64, own_namespace: Option<&Path>) -> Option<ServerProcess> {
    let name = std::fs::read_to_string(dir.join("comm")).ok()?.trim_end().to_owned();
    if !matches!(name.as_str(), "nginx" | "haproxy" | "apache2" | "httpd") {
        return None;
    }
    let command = std::fs::read(dir.join("cmdline")).ok()?;
    let arguments = split(&String::from_utf8_lossy(&command));
    let is_elsewhere = dir.join("ns/mnt").read_link().ok().as_deref() != own_namespace
        || dir.join("root").read_link().is_ok_and(|link| link != Path::new("/"));
    let is_trusted = weir_access::is_trusted_process(dir);
    // A path below the process' root is opened with the rights of its owner.
    let base = if is_elsewhere || !is_trusted { dir.join("root") } else { root.to_owned() };
    let status = std::fs::read_to_string(dir.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
    let directory = dir.join("cwd").read_link().unwrap_or_else(|_| "/".into());
    Some(ServerProcess {
        id,
        name,
        arguments,
        directory,
        base,
        program: dir.join("exe"),
        is_trusted,
        parent,
    })
}

/// Splits at NUL; a rewritten title has spaces, and NULs only at its end.
fn split(command: &str) -> Vec<String> {
    let command = command.trim_end_matches('\0');
    let separator = if command.contains('\0') { '\0' } else { ' ' };
    command.split(separator).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl ServerProcess {
    /// Value of the option `-LETTER VALUE` or `-LETTERVALUE`.
    pub(super) fn option(&self, letter: char) -> Option<&str> {
        self.options(letter).next()
    }

    pub(super) fn options(&self, letter: char) -> impl Iterator<Item = &str> {
        let pairs =
            self.arguments.iter().zip(self.arguments.iter().skip(1).map(Some).chain([None]));
        pairs.filter_map(move |(argument, next)| {
            let rest = argument.strip_prefix('-')?.strip_prefix(letter)?;
            if rest.is_empty() { next.map(String::as_str) } else { Some(rest) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(command: &str) -> ServerProcess {
        ServerProcess {
            id: 1,
            name: "nginx".into(),
            arguments: split(command),
            directory: "/".into(),
            base: "/".into(),
            program: "/".into(),
            is_trusted: true,
            parent: None,
        }
    }

    #[test]
    fn options_are_read_from_plain_and_from_rewritten_titles() {
        let title = process("nginx: master process /usr/sbin/nginx -c /x/n.conf -p/x\0\0\0");
        assert_eq!(title.option('c'), Some("/x/n.conf"));
        assert_eq!(title.option('p'), Some("/x"));
        assert_eq!(title.option('e'), None);
        let plain = process("haproxy\0-f\0a.cfg\0-f\0b c.cfg\0");
        assert_eq!(plain.options('f').collect::<Vec<_>>(), ["a.cfg", "b c.cfg"]);
        assert_eq!(process("nginx\0-c\0").option('c'), None);
    }
}
