//! Names that a host knows without a name server: hosts(5), and whether DNS is asked at all:
//! nsswitch.conf(5).

use std::net::IpAddr;
use std::path::Path;

const FILE_BYTES_MAX: usize = 1 << 20;

/// All addresses of a name in `/etc/hosts` below `root`.
pub(crate) fn addresses(root: &Path, name: &str) -> Vec<IpAddr> {
    let Some(text) = read(&root.join("etc/hosts")) else { return Vec::new() };
    let name = name.trim_end_matches('.');
    let of_name = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    of_name.collect()
}

/// Whether the host's names come from DNS: always, unless `/etc/nsswitch.conf` names other sources only.
pub(crate) fn uses_dns(root: &Path) -> bool {
    let Some(text) = read(&root.join("etc/nsswitch.conf")) else { return true };
    let sources = text.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"));
    sources.is_none_or(|sources| {
        let sources = sources.split('#').next().unwrap_or_default();
        sources.split_whitespace().any(|source| source == "dns" || source == "resolve")
    })
}

pub(crate) fn read(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_BYTES_MAX)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_a_name_count() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join("etc").join(name), text).unwrap();
        };
        assert!(addresses(root.path(), "db").is_empty() && uses_dns(root.path()));
        write("hosts", "10.0.0.1 db.local DB # db2\n#10.0.0.9 db\nfd00::1 db\nx db\n");
        let expected: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(addresses(root.path(), "db."), expected);
        assert!(addresses(root.path(), "db2").is_empty(), "it is in a comment");
        for (line, is_used) in [
            ("hosts: files dns", true),
            ("hosts:\tfiles myhostname resolve [!UNAVAIL=return] dns", true),
            ("hosts: files sss # dns", false),
            ("passwd: files", true),
        ] {
            write("nsswitch.conf", line);
            assert_eq!(uses_dns(root.path()), is_used, "{line}");
        }
    }
}
