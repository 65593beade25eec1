//! `[[checks]]` and `[[probes]]`: plugins of Nagios, and targets that are probed from outside
//! (docs/checks.md).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use weir_probe::check::{
    CheckSpec, CheckWork, DnsCheck, HttpCheck, HttpUrl, IcmpCheck, PluginCheck, PluginUser,
    StatusRange, TcpCheck, TlsCheck,
};
use weir_process::failure::Failure;
use weir_tables::nearest;

use super::entries::{Entry, EntryKey, EntryKind, EntryList, KeyDefault, key};

const COMMAND_EXAMPLE: &str = "command = [\"/usr/lib/nagios/plugins/check_load\", \"-w\", \"5\"]";
const SERVICE: EntryKey = key(
    "service",
    EntryKind::Text,
    KeyDefault::Shown("*none*"),
    "the service that it belongs to, a column of its results",
);
const TIMEOUT: EntryKey = key(
    "timeout_seconds",
    EntryKind::Number,
    KeyDefault::Shown("`10`"),
    "a run that takes longer is ended and has failed",
);

/// Every key of a plugin.
pub const CHECKS: EntryList = EntryList {
    section: "checks",
    doc: "Plugins of Nagios that the agent runs, or all commands of an `nrpe.cfg` (docs/checks.md).",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            KeyDefault::Shown("*required with `command`*"),
            "what it is called in the column `check`",
        ),
        key(
            "command",
            EntryKind::Texts,
            KeyDefault::Shown("*none*"),
            "the program, an absolute path, and its arguments: no shell reads them",
        ),
        key(
            "nrpe_config",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "instead of `command`: a file such as `/etc/nagios/nrpe.cfg` whose commands are run, with those that it includes",
        ),
        key(
            "only",
            EntryKind::Texts,
            KeyDefault::Shown("*all*"),
            "with `nrpe_config`: names of the commands that are run",
        ),
        key(
            "interval_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`60`"),
            "the time between the starts of two runs",
        ),
        EntryKey {
            doc: "a run that takes longer is killed and unknown; with `nrpe_config`, its `command_timeout` is the default",
            ..TIMEOUT
        },
        key(
            "user",
            EntryKind::Text,
            KeyDefault::Shown("*the agent's; `nagios` or `nobody` if that is root*"),
            "the account that it runs as; only an agent that is root can change it",
        ),
        SERVICE,
    ],
};

/// Every key of a probe.
pub const PROBES: EntryList = EntryList {
    section: "probes",
    doc: "Targets that this host probes from outside, as their clients do (docs/checks.md). Name a target on hosts of two zones or more, so that one host's network is not taken for an outage.",
    keys: &[
        key(
            "name",
            EntryKind::Text,
            KeyDefault::Shown("*the target*"),
            "what it is called in the column `check`",
        ),
        key("kind", EntryKind::Text, KeyDefault::Required, "`http`, `tcp`, `tls`, `dns` or `icmp`"),
        key(
            "target",
            EntryKind::Text,
            KeyDefault::Required,
            "a URL for `http`; `host:port` for `tcp` and `tls` (port 443 if none is named); a name for `dns`; a name or address for `icmp`",
        ),
        key(
            "interval_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`30`"),
            "the time between the starts of two probes",
        ),
        EntryKey { default: "`5`", ..TIMEOUT },
        key(
            "expect_status",
            EntryKind::Texts,
            KeyDefault::Shown("*below 400*"),
            "`http`: status codes that are right, such as `[\"200\", \"3xx\", \"401-403\"]`",
        ),
        key(
            "expect_body",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "`http`: a text that the first MiB of the body must contain",
        ),
        key(
            "certificate_days",
            EntryKind::Number,
            KeyDefault::Shown("`14`"),
            "`tls`: a certificate that is valid for fewer days is a warning",
        ),
        key(
            "server_name",
            EntryKind::Text,
            KeyDefault::Shown("*the target's*"),
            "`tls`: the name that is requested and that the certificate must have",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("*none*"),
            "`http`, `tls`: an authority (PEM) beside the system's",
        ),
        key(
            "resolver",
            EntryKind::Text,
            KeyDefault::Shown("*the first of `/etc/resolv.conf`*"),
            "`dns`: the name server that is queried, an address with or without a port",
        ),
        key(
            "expect_addresses",
            EntryKind::Texts,
            KeyDefault::Shown("*any*"),
            "`dns`: addresses that the answer must contain",
        ),
        SERVICE,
    ],
};

/// Keys that only some kinds of probes have.
const KEYS_OF_KINDS: [(&str, &[&str]); 7] = [
    ("expect_status", &["http"]),
    ("expect_body", &["http"]),
    ("certificate_days", &["tls"]),
    ("server_name", &["tls"]),
    ("ca_file", &["http", "tls"]),
    ("resolver", &["dns"]),
    ("expect_addresses", &["dns"]),
];
const KINDS: [&str; 5] = ["http", "tcp", "tls", "dns", "icmp"];

/// An entry of `[[checks]]`.
#[derive(Clone, Debug)]
pub enum NamedCheck {
    /// One plugin.
    Plugin(CheckSpec),
    /// The commands of a file, which is read when they are run.
    Import(NrpeImport),
}

/// Commands of NRPE that are run.
#[derive(Clone, Debug)]
pub struct NrpeImport {
    pub(crate) path: PathBuf,
    pub(crate) place: String,
    pub(crate) only: Vec<String>,
    pub(crate) interval: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) user: Option<String>,
    pub(crate) service: Option<String>,
}

impl NrpeImport {
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

pub(crate) fn did_you_mean(near: &str) -> String {
    format!("did you mean `{near}`?")
}

pub(crate) fn plugin_user(name: Option<&str>) -> PluginUser {
    name.map_or(PluginUser::Usual, |name| PluginUser::Named(name.to_owned()))
}

/// The list of a section.
pub(crate) fn list(section: &str) -> &'static EntryList {
    if section == PROBES.section { &PROBES } else { &CHECKS }
}

/// Adds an entry of `[[checks]]` or `[[probes]]`.
pub(crate) fn add(
    checks: &mut Vec<NamedCheck>,
    probes: &mut Vec<CheckSpec>,
    entry: &Entry,
) -> Result<(), Failure> {
    let is_probe = entry.section() == PROBES.section;
    let new = if is_probe { NamedCheck::Plugin(probe(entry)?) } else { check(entry)? };
    let plugins = checks.iter().filter_map(|check| match check {
        NamedCheck::Plugin(spec) => Some(spec),
        NamedCheck::Import(_) => None,
    });
    if let NamedCheck::Plugin(new) = &new
        && probes.iter().chain(plugins).any(|other| other.name == new.name)
    {
        return Err(entry
            .key("name")
            .wrong(&format!("there are two checks `{}`", new.name))
            .hint("results are kept under the name"));
    }
    match new {
        NamedCheck::Plugin(spec) if is_probe => probes.push(spec),
        new => checks.push(new),
    }
    Ok(())
}

fn check(entry: &Entry) -> Result<NamedCheck, Failure> {
    let interval = Duration::from_secs(entry.number("interval_seconds", 60, 1..=86_400)?);
    let timeout = Duration::from_secs(entry.number("timeout_seconds", 10, 1..=3_600)?);
    let (user, service) = (entry.text("user"), entry.text("service").map(str::to_owned));
    let command = entry.texts("command");
    if let Some(path) = entry.path("nrpe_config") {
        for name in ["command", "name"] {
            if entry.names().any(|known| known == name) {
                return Err(entry
                    .key(name)
                    .wrong(&format!("`{name}` has no effect beside `nrpe_config`"))
                    .hint("write an entry of its own for a single plugin"));
            }
        }
        let has_timeout = entry.names().any(|known| known == "timeout_seconds");
        return Ok(NamedCheck::Import(NrpeImport {
            path,
            place: entry.key("nrpe_config").place().to_string(),
            only: entry.texts("only").to_vec(),
            interval,
            timeout: has_timeout.then_some(timeout),
            user: user.map(str::to_owned),
            service,
        }));
    }
    if entry.names().any(|known| known == "only") {
        let wrong = entry.key("only").wrong("`only` has no effect without `nrpe_config`");
        return Err(wrong.hint("nrpe_config = \"/etc/nagios/nrpe.cfg\""));
    }
    let name = entry.key("name").required("check_load")?.to_owned();
    match command.first() {
        None => {
            let what = "`[[checks]]` has no `command`";
            return Err(entry.place.refuse(what).hint(COMMAND_EXAMPLE));
        }
        Some(program) if !program.starts_with('/') => {
            return Err(entry
                .key("command")
                .wrong(&format!("`{program}` is not an absolute path"))
                .hint(COMMAND_EXAMPLE));
        }
        Some(_) => {}
    }
    let work = CheckWork::Plugin(PluginCheck { argv: command.to_vec(), user: plugin_user(user) });
    Ok(NamedCheck::Plugin(CheckSpec { name, service, interval, timeout, work }))
}

fn probe(entry: &Entry) -> Result<CheckSpec, Failure> {
    let kind = entry.key("kind").required("http")?;
    if !KINDS.contains(&kind) {
        let hint = nearest(kind, KINDS).map_or_else(|| KINDS.join(", "), did_you_mean);
        return Err(entry.key("kind").wrong(&format!("there is no probe `{kind}`")).hint(hint));
    }
    for (name, kinds) in KEYS_OF_KINDS {
        if !kinds.contains(&kind) && entry.names().any(|known| known == name) {
            return Err(entry
                .key(name)
                .wrong(&format!("a probe of kind `{kind}` has no `{name}`"))
                .hint(format!("it belongs to {}", kinds.join(" and "))));
        }
    }
    let interval = entry.number("interval_seconds", 30, 1..=1_800)?;
    let timeout = entry.number("timeout_seconds", 5.min(interval), 1..=interval.min(120))?;
    let work = match kind {
        "http" => CheckWork::Http(http(entry)?),
        "tcp" => CheckWork::Tcp(target(entry, "db1:5432", TcpCheck::new)?),
        "tls" => CheckWork::Tls(tls(entry)?),
        "dns" => CheckWork::Dns(dns(entry)?),
        _ => CheckWork::Icmp(target(entry, "gateway.example.org", icmp)?),
    };
    Ok(CheckSpec {
        name: entry.text("name").map_or_else(|| work.target(), str::to_owned),
        service: entry.text("service").map(str::to_owned),
        interval: Duration::from_secs(interval),
        timeout: Duration::from_secs(timeout),
        work,
    })
}

/// Reads the target; `example` is used in the hint.
fn target<T>(
    entry: &Entry,
    example: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let text = entry.key("target").required(example)?;
    read(text).map_err(|why| {
        let wrong = entry.key("target").wrong(&format!("`{text}` is no target: {why}"));
        wrong.hint(format!("target = \"{example}\""))
    })
}

fn icmp(text: &str) -> Result<IcmpCheck, String> {
    let is_host = !text.contains(['/', ' ', '@']) && text.parse::<SocketAddr>().is_err();
    let address = text.to_owned();
    if is_host { Ok(IcmpCheck { address }) } else { Err("it is not a name or address".to_owned()) }
}

fn http(entry: &Entry) -> Result<HttpCheck, Failure> {
    let url = target(entry, "https://www.example.org/", HttpUrl::parse)?;
    let mut statuses = Vec::new();
    for text in entry.texts("expect_status") {
        let Some(range) = StatusRange::parse(text) else {
            return Err(entry
                .key("expect_status")
                .wrong(&format!("`{text}` is not a status code"))
                .hint("expect_status = [\"200\", \"3xx\", \"401-403\"]"));
        };
        statuses.push(range);
    }
    let body = entry.text("expect_body").map(str::to_owned);
    if body.as_ref().is_some_and(String::is_empty) {
        return Err(entry.key("expect_body").wrong("`expect_body` is empty").hint("remove it"));
    }
    Ok(HttpCheck { url, statuses, body, ca_file: entry.path("ca_file") })
}

fn tls(entry: &Entry) -> Result<TlsCheck, Failure> {
    let name = entry.text("server_name");
    let mut check = target(entry, "www.example.org:443", |address| TlsCheck::new(address, name))?;
    check.certificate_days = entry.number("certificate_days", 14, 0..=3_650)?;
    check.ca_file = entry.path("ca_file");
    Ok(check)
}

fn dns(entry: &Entry) -> Result<DnsCheck, Failure> {
    let mut check = target(entry, "www.example.org", DnsCheck::new)?;
    if let Some(text) = entry.text("resolver") {
        let address = text.parse().ok().or_else(|| {
            let address: IpAddr = text.trim_matches(['[', ']']).parse().ok()?;
            Some(SocketAddr::new(address, 53))
        });
        check.resolver = Some(address.ok_or_else(|| {
            let wrong = entry.key("resolver").wrong(&format!("`{text}` is not an address"));
            wrong.hint("resolver = \"192.0.2.53\"")
        })?);
    }
    for text in entry.texts("expect_addresses") {
        check.addresses.push(text.parse().map_err(|_| {
            let wrong = entry.key("expect_addresses").wrong(&format!("`{text}` is not an address"));
            wrong.hint("expect_addresses = [\"192.0.2.10\", \"2001:db8::10\"]")
        })?);
    }
    Ok(check)
}
