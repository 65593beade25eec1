//! Log sources: path, writing program and line format, known before a line is read.
//!
//! `collect` discovers sources (in nginx's own configuration, for example), `parse` makes a line
//! parser from the format.

use std::path::PathBuf;

/// The program that writes a log. Decides the tier of its rows.
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
    /// The value of the column `program`.
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

/// Line format of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// An nginx `log_format`: its text with `$variables`, joined, and its escape mode. JSON when it
    /// starts with `{`.
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
    /// nginx's and Apache's `combined`; `common` lines are accepted too.
    Combined,
    /// One JSON object per line, with any keys.
    Json,
    /// HAProxy's `option httplog` (also behind a syslog header).
    HaproxyHttp,
    /// RFC 3164 or RFC 5424 lines as syslog daemons write them.
    Syslog,
    /// One JSON object per line as `journalctl -o json` prints it.
    Journal,
    /// nginx's `error_log`.
    NginxError,
    /// Apache's `ErrorLog`.
    ApacheError,
    /// Detect the format of each line: JSON, combined, syslog, else plain text.
    Auto,
}

impl LogFormat {
    /// The format's name, as in the column `reject.parser` and in pipeline files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NginxTemplate { .. } => "nginx_template",
            Self::ApacheTemplate { .. } => "apache_template",
            Self::Combined => "combined",
            Self::Json => "json",
            Self::HaproxyHttp => "haproxy_http",
            Self::Syslog => "syslog",
            Self::Journal => "journal",
            Self::NginxError => "nginx_error",
            Self::ApacheError => "apache_error",
            Self::Auto => "auto",
        }
    }
}

/// A log to read: its path, program and line format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogSource {
    /// A path, or a glob with `*` and `?` in its last component. For the journal: its directory.
    pub path: PathBuf,
    /// The program that writes it.
    pub program: Program,
    /// Line format.
    pub format: LogFormat,
    /// Where the source is configured, for people: `/etc/nginx/nginx.conf:31`, `--tail`.
    pub found_in: String,
}

impl LogSource {
    /// Begin of `found_in` of what a listening process writes.
    pub const WRITTEN_BY: &str = "written by ";

    /// Whether old lines are left out at the first contact: they may have no time, so that they would
    /// look like new ones.
    pub fn leaves_out_old_lines(&self) -> bool {
        self.found_in.starts_with(Self::WRITTEN_BY)
    }
}
