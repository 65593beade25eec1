//! What is known of a log file before a line of it is read: which program writes it, and in which format.
//!
//! `collect` finds sources (in nginx's own configuration, say), `parse` makes a line parser from the format.

use std::path::PathBuf;

/// The program that writes a log. Decides the tier of the rows made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Apache httpd.
    Apache,
    /// A syslog daemon's file.
    Syslog,
    /// systemd's journal.
    Journal,
    /// Anything else, named by the user with `--tail`.
    Other,
}

impl Program {
    /// The name as it stands in the column `program`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Apache => "apache",
            Self::Syslog => "syslog",
            Self::Journal => "journal",
            Self::Other => "other",
        }
    }
}

/// nginx's `log_format … escape=`: how variables were escaped when the line was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JsonEscape {
    /// `\xNN` for `"`, `\` and bytes below 0x20 or above 0x7e: not JSON.
    #[default]
    Default,
    /// `escape=json`.
    Json,
    /// `escape=none`.
    None,
}

/// How the lines of a source are laid out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// An nginx `log_format`: its text with `$variables`, joined, and its escape mode. JSON when it starts with `{`.
    NginxTemplate {
        /// The format text, for example `$remote_addr - $remote_user [$time_local] …`.
        template: String,
        /// The `escape=` parameter.
        escape: JsonEscape,
    },
    /// An Apache `LogFormat` text with `%` directives.
    ApacheTemplate {
        /// The format text, for example `%h %l %u %t "%r" %>s %b`.
        template: String,
    },
    /// nginx's and Apache's `combined`; `common` lines are taken too.
    Combined,
    /// One JSON object a line, keys as they come.
    Json,
    /// HAProxy's `option httplog` (also behind a syslog header).
    HaproxyHttp,
    /// RFC 3164 or RFC 5424 lines as syslog daemons write them.
    Syslog,
    /// One JSON object a line as `journalctl -o json` prints them.
    Journal,
    /// nginx's `error_log`.
    NginxError,
    /// Apache's `ErrorLog`.
    ApacheError,
    /// Look at each line: JSON, combined, syslog, else plain text.
    Auto,
}

/// A log to be read: where it is, who writes it, how its lines look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogSource {
    /// A path, or a glob with `*` and `?` in its last component. For the journal: its directory.
    pub path: PathBuf,
    /// Who writes it.
    pub program: Program,
    /// How its lines look.
    pub format: LogFormat,
    /// Where this was learnt, for a person: `/etc/nginx/nginx.conf:31`, `--tail`.
    pub found_in: String,
}
