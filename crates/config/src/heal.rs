//! `[[heals]]`: which repair of a host is run for which rule, and how far weir goes by itself (docs/heal.md).

use weir_process::failure::Failure;
use weir_tables::nearest;

use super::entries::{Entry, EntryKind, EntryList, KeyDefault, key};

/// Steps of a repair, lowest first.
pub const HEAL_MODES: [&str; 4] = ["observe", "suggest", "ask", "auto"];

/// Keys of repairs.
pub const HEALS: EntryList = EntryList {
    section: "heals",
    doc: "Repairs: the first whose rule, host and role fit a finding applies (docs/heal.md). Nothing runs unless `heal.enabled` \
        is set and root of the host wrote a file for the action.",
    keys: &[
        key("rule", EntryKind::Text, KeyDefault::Required, "the rule whose findings it cures"),
        key(
            "action",
            EntryKind::Text,
            KeyDefault::Required,
            "the action: `id` of a file in `/etc/weir/actions.d` of the host",
        ),
        key(
            "params",
            EntryKind::Labels,
            KeyDefault::Shown("*none*"),
            "the action's parameters; `{COLUMN}` is a value of the finding: `{ unit = \"shop.service\" }`",
        ),
        key(
            "on",
            EntryKind::Text,
            KeyDefault::Shown("`\"{host}\"`"),
            "the host to repair, if it is not the one that reports: the column with its address, `{upstream}`",
        ),
        key(
            "hosts",
            EntryKind::Texts,
            KeyDefault::Shown("*all*"),
            "hosts to repair, `*` for any text",
        ),
        key(
            "roles",
            EntryKind::Texts,
            KeyDefault::Shown("*all*"),
            "roles of these hosts, `*` for any text",
        ),
        key(
            "mode",
            EntryKind::Text,
            KeyDefault::Shown("`\"observe\"`"),
            "how far weir goes: `observe` records, `suggest` lists, `ask` pages for an approval, `auto` runs once that is earned",
        ),
        key(
            "alone",
            EntryKind::Text,
            KeyDefault::Shown("`\"ask\"`"),
            "the same for a host without another one of its role",
        ),
        key(
            "dry_run",
            EntryKind::Flag,
            KeyDefault::Shown("`false`; `true` for `trim-path` and `clear-tmp`"),
            "whether the action's dry run has to succeed before each order",
        ),
        key(
            "frees_percent",
            EntryKind::Number,
            KeyDefault::Shown("*none*; `5` for `trim-path` and `clear-tmp`"),
            "the share of the file system that the dry run has to promise (`frees=12%`), at most 100; a dry run comes first then",
        ),
    ],
};

/// One repair; whether the rule exists is checked by the hub, which has the rules.
#[derive(Clone, Debug)]
pub struct HealBlock {
    /// The rule.
    pub rule: String,
    /// The action.
    pub action: String,
    /// Parameters of the action.
    pub params: Vec<(String, String)>,
    /// One of [`HEAL_MODES`].
    pub mode: &'static str,
    /// One of [`HEAL_MODES`], for a host without another one of its role.
    pub alone: &'static str,
    /// Whether a dry run comes before each order.
    pub dry_run: bool,
    /// Percent of the file system that the dry run has to promise; 0 is none.
    pub frees_percent: u32,
    /// The keys of the entry.
    pub entry: Entry,
}

/// Reads one entry.
pub(super) fn of(entry: Entry) -> Result<HealBlock, Failure> {
    let rule = entry.key("rule").required("app.down")?.to_owned();
    let action = entry.key("action").required("restart-unit")?.to_owned();
    if action.len() > 64 || !action.bytes().all(is_plain) {
        let what = "`action` may have letters, digits, `-`, `_` and `.`, at most 64";
        return Err(entry.key("action").wrong(what));
    }
    let params = entry.labels("params");
    if let Some((name, _)) = params.iter().find(|(name, value)| !is_param((name, value))) {
        let what = format!("parameter `{name}` has a name or value that no action takes");
        let hint =
            "a value is one argument without spaces that does not begin with `-`, or `{COLUMN}`";
        return Err(entry.key("params").wrong(&what).hint(hint));
    }
    let (mode, alone) = (mode(&entry, "mode", 0)?, mode(&entry, "alone", 2)?);
    let frees_percent = entry.number("frees_percent", 0, 0..=100)?;
    let frees_percent = u32::try_from(frees_percent).expect("it is at most 100");
    let dry_run = entry.flag("dry_run");
    Ok(HealBlock { rule, action, params, mode, alone, dry_run, frees_percent, entry })
}

/// The step of a key; the one at `default` when it is not set.
fn mode(entry: &Entry, name: &'static str, default: usize) -> Result<&'static str, Failure> {
    let Some(text) = entry.text(name) else { return Ok(HEAL_MODES[default]) };
    HEAL_MODES.into_iter().find(|mode| *mode == text).ok_or_else(|| {
        let hint = nearest(text, HEAL_MODES).map_or_else(
            || format!("known are {}", HEAL_MODES.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        entry.key(name).wrong(&format!("`{name}` has no step `{text}`")).hint(hint)
    })
}

fn is_param((name, value): (&str, &str)) -> bool {
    let is_name = !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain);
    let is_value = !value.is_empty() && value.len() <= 256 && !value.starts_with('-');
    is_name
        && is_value
        && !value.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::Config;

    fn check(block: &str, expected: &Expect) {
        let text = format!("[heal]\nenabled = true\n\n[[heals]]\n{block}");
        let answer = match Config::read(Path::new("weir.toml"), &text) {
            Ok(config) => {
                assert!(config.values.heal.enabled);
                let heal = &config.values.heals[0];
                let params: Vec<String> =
                    heal.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let (rule, action, mode, alone) = (&heal.rule, &heal.action, heal.mode, heal.alone);
                let dry = match (heal.dry_run, heal.frees_percent) {
                    (false, 0) => String::new(),
                    (dry_run, frees) => format!(", dry run {dry_run}, frees {frees}"),
                };
                format!("{rule}: {action} {} {mode}, alone {alone}{dry}", params.join(" "))
            }
            Err(failure) => failure.to_string(),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn repair_observes_unless_it_says_more() {
        check(
            "rule = \"app.down\"\naction = \"restart-unit\"\nparams = { unit = \"shop.service\" }\n",
            &expect!["app.down: restart-unit unit=shop.service observe, alone ask"],
        );
        check(
            "rule = \"app.down\"\naction = \"reload\"\nmode = \"auto\"\nalone = \"auto\"\nroles = [\"web*\"]\n",
            &expect!["app.down: reload  auto, alone auto"],
        );
        check(
            "rule = \"disk.full\"\naction = \"trim-path\"\ndry_run = true\nfrees_percent = 10\n",
            &expect!["disk.full: trim-path  observe, alone ask, dry run true, frees 10"],
        );
    }

    #[test]
    fn mistakes_are_refused_with_line_and_nearest_name() {
        check(
            "rule = \"app.down\"\naction = \"restart-unit\"\nmode = \"asks\"\n",
            &expect![[r#"
                cannot use weir.toml:7: `mode` has no step `asks`
                hint: did you mean `ask`?"#]],
        );
        check(
            "rule = \"app.down\"\naction = \"restart-unit\"\nalone = \"yes please\"\n",
            &expect![[r#"
                cannot use weir.toml:7: `alone` has no step `yes please`
                hint: known are observe, suggest, ask, auto"#]],
        );
        check(
            "rule = \"disk.full\"\naction = \"trim-path\"\nfrees_percent = 101\n",
            &expect![[r#"
                cannot use weir.toml:7: `frees_percent` must be from 0 to 100"#]],
        );
        check(
            "rule = \"app.down\"\nacton = \"restart-unit\"\n",
            &expect![[r#"
                cannot use weir.toml:6: unknown key `heals.acton`
                hint: did you mean `action`?"#]],
        );
        check(
            "action = \"restart-unit\"\n",
            &expect![[r#"
                cannot use weir.toml:4: `[[heals]]` has no `rule`
                hint: rule = "app.down""#]],
        );
        check(
            "rule = \"app.down\"\naction = \"restart unit\"\n",
            &expect![[r#"
                cannot use weir.toml:6: `action` may have letters, digits, `-`, `_` and `.`, at most 64"#]],
        );
        check(
            "rule = \"app.down\"\naction = \"restart-unit\"\nparams = { unit = \"--all\" }\n",
            &expect![[r#"
                cannot use weir.toml:7: parameter `unit` has a name or value that no action takes
                hint: a value is one argument without spaces that does not begin with `-`, or `{COLUMN}`"#]],
        );
        check(
            "rule = \"app.down\"\naction = \"restart-unit\"\nparams = \"shop.service\"\n",
            &expect![[r#"
                cannot use weir.toml:7: `heals.params` must be a table of texts such as { job = "node" }
                hint: the action's parameters; `{COLUMN}` is a value of the finding: `{ unit = "shop.service" }`"#]],
        );
    }
}
