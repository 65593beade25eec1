//! Files of syslog daemons, where they exist, and the journal.
//!
//! Source: Debian's `/etc/rsyslog.conf` and `50-default.conf`, Red Hat's `/etc/rsyslog.conf`. When
//! both a file and the journal have the same messages, the file is read: it has offsets.

use std::path::Path;

use weir_tables::{LogFormat, LogSource, Program};

use super::{DiscoveryBuilder, below};

const FILES: &[&str] = &[
    "/var/log/syslog",
    "/var/log/messages",
    "/var/log/auth.log",
    "/var/log/secure",
    "/var/log/kern.log",
    "/var/log/daemon.log",
    "/var/log/mail.log",
    "/var/log/maillog",
];

const HAPROXY: &str = "/var/log/haproxy.log";

const JOURNALS: &[&str] = &["/var/log/journal", "/run/log/journal"];

const JOURNALCTL: &[&str] = &["/usr/bin/journalctl", "/bin/journalctl"];

/// Whether messages to the host's syslog arrive in a file or a journal that is read.
pub(super) fn is_present(base: &Path) -> bool {
    FILES[..2].iter().chain(JOURNALS).any(|name| below(base, Path::new(name)).exists())
}

pub(super) fn find(found: &mut DiscoveryBuilder) {
    let root = found.root.clone();
    for name in FILES {
        let path = below(&root, Path::new(name));
        if path.is_file() {
            found.source(LogSource {
                path,
                program: Program::Syslog,
                format: LogFormat::Syslog,
                found_in: (*name).to_owned(),
            });
        }
    }
    // Without a readable configuration only the name identifies the program.
    let path = below(&root, Path::new(HAPROXY));
    if path.is_file() {
        let (program, format) = (Program::Haproxy, LogFormat::HaproxyHttp);
        found.source(LogSource { path, program, format, found_in: HAPROXY.to_owned() });
    }
    let [journal, journalctl] = [JOURNALS, JOURNALCTL]
        .map(|names| names.iter().find(|name| below(&root, Path::new(name)).exists()));
    if let (Some(journal), Some(_)) = (journal, journalctl) {
        found.source(LogSource {
            path: below(&root, Path::new(journal)),
            program: Program::Journal,
            format: LogFormat::Journal,
            found_in: (*journal).to_owned(),
        });
    }
}
