//! The files that syslog daemons write, where they exist, and the journal.
//!
//! Source: Debian's `/etc/rsyslog.conf` and `50-default.conf`, Red Hat's `/etc/rsyslog.conf`. When both a file and the
//! journal hold the same messages the file is read: it has offsets, so its place in the stream is exact.

use std::path::Path;

use weir_tables::{LogFormat, LogSource, Program};

use super::{Finder, below};

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

pub(super) fn find(found: &mut Finder) {
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
    // Without a configuration that could be read the name alone says whose it is.
    let path = below(&root, Path::new(HAPROXY));
    if path.is_file() {
        let (program, format) = (Program::Haproxy, LogFormat::HaproxyHttp);
        found.source(LogSource { path, program, format, found_in: HAPROXY.to_owned() });
    }
    let exists = |name: &&&str| below(&root, Path::new(name)).exists();
    if let (Some(journal), Some(_)) = (JOURNALS.iter().find(exists), JOURNALCTL.iter().find(exists))
    {
        found.source(LogSource {
            path: below(&root, Path::new(journal)),
            program: Program::Journal,
            format: LogFormat::Journal,
            found_in: (*journal).to_owned(),
        });
    }
}
