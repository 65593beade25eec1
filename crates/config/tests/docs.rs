//! `docs/configuration.md`, written from the list of keys so that it cannot lag behind.

use weir_config::buckets::BUCKETS;
use weir_config::checks::{CHECKS, PROBES};
use weir_config::databases::DATABASES;
use weir_config::entries::EntryList;
use weir_config::heal::HEALS;
use weir_config::notify::NOTIFY_LISTS;
use weir_config::outputs::OUTPUTS;
use weir_config::scrape::SCRAPE;
use weir_config::slos::SLOS;
use weir_config::{KEYS, SECTIONS, Values, variable_of};

const HEAD: &str = "# Configuration

weir needs no configuration. Where it has one, it is one TOML file: the one named by `--config FILE`, else
`$XDG_CONFIG_HOME/weir/weir.toml` (`~/.config/weir/weir.toml`), else `/etc/weir/weir.toml`. Environment variables
override the file, flags override both. A key that is not in this list is refused with file and line.
`weir config` prints the values in force and where each comes from.

This page is generated from `crates/config/src/keys.rs` (`UPDATE_EXPECT=1 cargo test -p weir-config`).
";

fn page() -> String {
    let values = Values::default();
    let mut out = HEAD.to_owned();
    for (section, doc) in SECTIONS {
        out += &format!("\n## `[{section}]`\n\n{}\n\n", doc.trim());
        out += "| key | default | unit | what it does, and why | variable |\n| --- | --- | --- | --- | --- |\n";
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let default = match (key.section, key.name) {
                ("store" | "agent", "dir") | ("collect", "host") => "*by the machine*".to_owned(),
                _ => values
                    .get(key)
                    .map_or_else(|| "*not set*".to_owned(), |value| format!("`{value}`")),
            };
            let variable = variable_of(key);
            out += &format!(
                "| `{}` | {default} | {} | {} | `{variable}` |\n",
                key.name,
                key.unit,
                key.doc.trim(),
            );
        }
    }
    out += LOGS;
    let lists = [&BUCKETS, &DATABASES, &CHECKS, &PROBES, &SCRAPE, &OUTPUTS];
    for list in lists.into_iter().chain(NOTIFY_LISTS).chain([&HEALS, &SLOS]) {
        out += &entries(list);
    }
    out + TEMPLATES + EXAMPLE
}

fn entries(list: &EntryList) -> String {
    let mut out = format!("\n## `[[{}]]`\n\n{}\n\n", list.section, list.doc);
    out += "| key | default | what it is |\n| --- | --- | --- |\n";
    for key in list.keys {
        out += &format!("| `{}` | {} | {} |\n", key.name, key.default, key.doc);
    }
    out
}

const LOGS: &str = r#"
## `[[logs]]`

Logs that are named one by one, as in `collect.tail`, each with how its lines make events. One event is one row; it begins at
its first line's offset, and its position is the hub's only when the whole event is.

| key | default | what it does |
| --- | --- | --- |
| `path` | | a path, or a glob |
| `multiline` | *each line is an event* | `"java"`, `"python"`, `"go"`, `"ruby"`, `"dotnet"`, `"php"`, `"node"` (stack traces; they join the line that reports them), `"indent"` (lines that begin with a space or tab belong to the line before), or a table |
| `multiline.preset` | | one of these names |
| `multiline.start` | | a pattern: a line that matches begins an event |
| `multiline.continuation` | | a pattern: a line that matches belongs to the event before |
| `multiline.timeout` | `"2s"` | an event to which nothing was added for this long is whole |
| `multiline.max_lines` | `500` | what is beyond goes on as the next event |
| `multiline.max_bytes` | `262144` | the same by bytes |

```toml
[[logs]]
path = "/srv/shop/log/*.log"
multiline = "java"

[[logs]]
path = "/srv/batch/run.log"
multiline = { start = '^\d{4}-\d\d-\d\d ', timeout = "5s" }
```
"#;

const TEMPLATES: &str = r#"
## `[notify.templates]`

Texts that replace forms of messages (docs/notify.md#write-your-own-messages): `subject`, `text`, `phone` and `html`, here for all
messages, in `[notify.templates.page]` (also `mail`, `ack`, `resolved`, `test`) for those of a kind, in
`[notify.templates.receivers.NAME]` for those to a receiver. A template that cannot be used is reported by `weir notify check`
and at the start; the built-in form is sent instead.

```toml
[notify.templates]
subject = "[{{ class|upper }}] {{ host }} {{ rule }}"
```
"#;

const EXAMPLE: &str = r#"
## Example: a hub for a fleet

```toml
[api]
listen = "10.0.0.5:4770"
token_file = "/etc/weir/token"     # head -c 24 /dev/urandom | base64 > /etc/weir/token && chmod 600 /etc/weir/token
host_names = ["weir.example.net"]

[link]
addresses = ["weir.example.net"]

[store]
dir = "/srv/weir"
retention_days = 90
```

then `weir hub invite` on the hub, and on each host `weir agent join TOKEN`. An agent needs no configuration; with more than
one hub:

```toml
[agent]
hubs = ["weir-a.example.net:4771", "weir-b.example.net:4771"]
```
"#;

#[test]
fn the_page_in_docs_lists_every_key() {
    expect_test::expect_file!["../../../docs/configuration.md"].assert_eq(&page());
}
