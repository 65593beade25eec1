//! `[[people]]`, `[[receivers]]`, `[[rotas]]`, `[[routes]]` and `[[windows]]`: whom incidents are sent to, and when
//! (docs/notify.md).

use weir_process::failure::Failure;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, PASSWORD_FILE, key};

const NONE: KeyDefault = KeyDefault::Shown("*none*");
const NAME_DOC: &str = "unique name: letters, digits, `-`, `_` and `.`";
const RULES_DOC: &str = "rules, `*` for any text: `[\"app.*\", \"proxy.*\"]`";
const HOSTS_DOC: &str = "hosts, `*` for any text";

/// Keys of people.
pub const PEOPLE: EntryList = EntryList {
    section: "people",
    doc: "People who are on call or get mail (docs/notify.md).",
    keys: &[
        key("name", EntryKind::Text, KeyDefault::Required, NAME_DOC),
        key(
            "page",
            EntryKind::Texts,
            NONE,
            "receivers for pages, `RECEIVER` or `RECEIVER:ADDRESS`; the next is used when one refuses for good, or is away for a minute",
        ),
        key(
            "mail",
            EntryKind::Texts,
            KeyDefault::Shown("*as `page`*"),
            "receivers for what is not urgent",
        ),
        key(
            "quiet",
            EntryKind::Text,
            NONE,
            "hours without mail, `22:00-07:00`; pages are sent all the same",
        ),
        key("zone", EntryKind::Text, KeyDefault::Shown("`\"UTC\"`"), "time zone of `quiet`"),
    ],
};

/// Keys of receivers.
pub const RECEIVERS: EntryList = EntryList {
    section: "receivers",
    doc: "Mailboxes, chats, pagers and other systems that get notices (docs/notify.md).",
    keys: &[
        key("name", EntryKind::Text, KeyDefault::Required, NAME_DOC),
        key(
            "kind",
            EntryKind::Text,
            KeyDefault::Required,
            "`webhook`, `smtp`, `alertmanager`, `pagerduty`, `jsm`, `goalert`, `slack`, `teams`, `discord`, `telegram`, `ntfy`, `matrix`, `pushover`, `nagios_cmd`, `nsca` or `icinga2`",
        ),
        key(
            "url",
            EntryKind::Text,
            KeyDefault::Shown("*the service's*"),
            "address of the service; `smtp` and `nsca` also take `HOST:PORT`",
        ),
        key("to", EntryKind::Text, NONE, "`smtp`: the mailbox; `pushover`: the user key"),
        key("channel", EntryKind::Text, NONE, "`slack` with a bot's token: the channel"),
        key("chat", EntryKind::Text, NONE, "`telegram`: the chat's id"),
        key("topic", EntryKind::Text, NONE, "`ntfy`: the topic"),
        key(
            "reply_topic",
            EntryKind::Text,
            KeyDefault::Shown("*`topic` and `-reply`, without a login*"),
            "`ntfy`: where the button *Acknowledge* posts to; anyone with a message must be able to write there",
        ),
        key("room", EntryKind::Text, NONE, "`matrix`: the room's id, `!…:example.net`"),
        key("path", EntryKind::Text, NONE, "`nagios_cmd`: the command file"),
        key(
            "host",
            EntryKind::Text,
            KeyDefault::Shown("*the incident's*"),
            "`nagios_cmd`, `nsca`, `icinga2`: the host as it is called there",
        ),
        key(
            "service",
            EntryKind::Text,
            KeyDefault::Shown("*the rule's id*"),
            "`nagios_cmd`, `nsca`, `icinga2`: the service as it is called there",
        ),
        key(
            "ttl_seconds",
            EntryKind::Number,
            KeyDefault::Shown("`300` *for problems*"),
            "`icinga2`: how long a result counts; an open incident is sent again before",
        ),
        key(
            "ends_minutes",
            EntryKind::Number,
            KeyDefault::Shown("`4`"),
            "`alertmanager`: an alert ends by itself when it was not sent again for so long; weir sends it each minute",
        ),
        key("from", EntryKind::Text, NONE, "`smtp`: the sender's mailbox"),
        key(
            "tls",
            EntryKind::Text,
            KeyDefault::Shown("`\"starttls\"`"),
            "`smtp`: `starttls`, `implicit` (port 465) or `none`",
        ),
        key("user", EntryKind::Text, NONE, "the user of the login"),
        PASSWORD_FILE,
        key(
            "token_file",
            EntryKind::Text,
            NONE,
            "a file whose first line is the token or routing key",
        ),
        key(
            "secret_file",
            EntryKind::Text,
            NONE,
            "`webhook`: a file whose first line signs each message (docs/notify.md#webhook)",
        ),
        key(
            "url_file",
            EntryKind::Text,
            NONE,
            "a file whose first line takes the place of `url` where that is a secret",
        ),
        key(
            "ca_file",
            EntryKind::Text,
            KeyDefault::Shown("*the system's*"),
            "an authority (PEM) that the service's certificate may be of",
        ),
        key(
            "encryption",
            EntryKind::Text,
            KeyDefault::Shown("`\"aes256\"`"),
            "`nsca`: `none`, `xor` or `aes256`: 0, 1 or 14 of `decryption_method` of its server",
        ),
    ],
};

/// Keys of rotas.
pub const ROTAS: EntryList = EntryList {
    section: "rotas",
    doc: "Rotas: people who are on call in turn (docs/notify.md).",
    keys: &[
        key("name", EntryKind::Text, KeyDefault::Required, NAME_DOC),
        key("people", EntryKind::Texts, KeyDefault::Required, "names of `[[people]]`, in turn"),
        key(
            "zone",
            EntryKind::Text,
            KeyDefault::Shown("`\"UTC\"`"),
            "time zone of `start` and `hours`",
        ),
        key(
            "start",
            EntryKind::Text,
            KeyDefault::Required,
            "hand-over of the first shift, local time: `2026-12-07T09:00`",
        ),
        key(
            "shift",
            EntryKind::Text,
            KeyDefault::Shown("`\"7d\"`"),
            "length of a shift: days (`7d`) keep the hour of hand-over over changes of the clock; or hours (`12h`)",
        ),
        key(
            "hours",
            EntryKind::Texts,
            KeyDefault::Shown("*always*"),
            "when the rota is on call: `[\"mon-fri 08:00-20:00\"]`",
        ),
        key(
            "otherwise",
            EntryKind::Text,
            NONE,
            "outside of `hours`: another rota, a person or a receiver",
        ),
    ],
};

/// Keys of routes.
pub const ROUTES: EntryList = EntryList {
    section: "routes",
    doc: "Routes: the first that fits an incident says whom it is sent to (docs/notify.md). Without any, every person gets \
        pages and mails; without people, every receiver.",
    keys: &[
        key("rules", EntryKind::Texts, KeyDefault::Shown("*all*"), RULES_DOC),
        key("hosts", EntryKind::Texts, KeyDefault::Shown("*all*"), HOSTS_DOC),
        key("tiers", EntryKind::Texts, KeyDefault::Shown("*all*"), "tiers: `[\"app\", \"db\"]`"),
        key(
            "subjects",
            EntryKind::Texts,
            KeyDefault::Shown("*all*"),
            "subjects of findings, `*` for any text: `[\"SLO shop*\"]`",
        ),
        key(
            "page",
            EntryKind::Text,
            KeyDefault::Shown("`\"everyone\"`"),
            "whom pages go to: `rota:NAME`, `rota:NAME+1` (next in turn), a person, a receiver or `everyone`",
        ),
        key("mail", EntryKind::Text, KeyDefault::Shown("*as `page`*"), "whom mails go to"),
        key("escalate", EntryKind::Texts, NONE, "next targets of an unacknowledged page, in order"),
        key(
            "ack_minutes",
            EntryKind::Number,
            KeyDefault::Shown("`5`"),
            "how long each has to acknowledge",
        ),
    ],
};

/// Keys of windows.
pub const WINDOWS: EntryList = EntryList {
    section: "windows",
    doc: "Maintenance windows: findings continue, notifications pause (docs/notify.md). What still fires at the end is sent \
        then.",
    keys: &[
        key("name", EntryKind::Text, KeyDefault::Required, NAME_DOC),
        key("from", EntryKind::Text, NONE, "once: begin, `2026-12-06T22:00`, with `to`"),
        key("to", EntryKind::Text, NONE, "once: end"),
        key("weekly", EntryKind::Text, NONE, "every week: `sun 02:00-04:00`"),
        key("zone", EntryKind::Text, KeyDefault::Shown("`\"UTC\"`"), "time zone of these times"),
        key("rules", EntryKind::Texts, KeyDefault::Shown("*all*"), RULES_DOC),
        key("hosts", EntryKind::Texts, KeyDefault::Shown("*all*"), HOSTS_DOC),
    ],
};

/// The lists of this file.
pub const NOTIFY_LISTS: [&EntryList; 5] = [&PEOPLE, &RECEIVERS, &ROTAS, &ROUTES, &WINDOWS];

/// Entries of the lists of this file; the hub checks them against each other.
#[derive(Clone, Debug, Default)]
pub struct NotifyEntries {
    /// People.
    pub people: Vec<Entry>,
    /// Receivers.
    pub receivers: Vec<Entry>,
    /// Rotas.
    pub rotas: Vec<Entry>,
    /// Routes.
    pub routes: Vec<Entry>,
    /// Maintenance windows.
    pub windows: Vec<Entry>,
}

impl NotifyEntries {
    /// Adds one entry of `section`, with a name that no other entry of it has.
    ///
    /// # Errors
    /// What is wrong with the name, with its line.
    pub(super) fn add(&mut self, section: &str, entry: Entry) -> Result<(), Failure> {
        let list = match section {
            "people" => &mut self.people,
            "receivers" => &mut self.receivers,
            "rotas" => &mut self.rotas,
            "windows" => &mut self.windows,
            _ => {
                self.routes.push(entry);
                return Ok(());
            }
        };
        let name = entry.key("name").required("web")?;
        if name.len() > 64 || !name.bytes().all(is_plain) {
            let what = "`name` may have letters, digits, `-`, `_` and `.`, at most 64";
            return Err(entry.key("name").wrong(what));
        }
        if list.iter().any(|other| other.text("name") == Some(name)) {
            let what = format!("there are two entries `{name}` in [[{section}]]");
            return Err(entry.key("name").wrong(&what).hint("give one of them another name"));
        }
        list.push(entry);
        Ok(())
    }

    /// Whether any receiver is configured.
    pub fn is_wanted(&self) -> bool {
        !self.receivers.is_empty()
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
