//! `[[logs]]`: logs that are named one by one, each with how its lines make events.
//!
//! Words as Filebeat, Vector and Fluent Bit have them, as far as they agree: `multiline`, a start
//! pattern, a timeout, most lines.

use std::time::Duration;

use toml::de::{DeTable, DeValue};
use weir_collect::logs::{Multiline, PRESETS};
use weir_process::failure::Failure;
use weir_tables::nearest;

use super::refusal::{ConfigPlace, WrittenKey};

/// One `[[logs]]`.
#[derive(Clone, Debug)]
pub struct NamedLog {
    /// A path, or a glob.
    pub path: String,
    /// How its lines make events, if more than one can.
    pub multiline: Option<Multiline>,
}

/// Keys of the table `multiline`.
const KEYS: [&str; 6] = ["preset", "start", "continuation", "timeout", "max_lines", "max_bytes"];

/// Reads one entry; `at` gives the place of an offset.
pub(super) fn read(
    entry: &DeTable<'_>,
    place: &ConfigPlace,
    at: impl Fn(usize) -> ConfigPlace,
) -> Result<NamedLog, Failure> {
    let mut log = NamedLog { path: String::new(), multiline: None };
    for (name, value) in entry {
        let place = at(name.span().start);
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("path", DeValue::String(path)) => log.path = path.to_string(),
            ("multiline", DeValue::String(preset)) => {
                log.multiline = Some(of_preset(preset, &place)?)
            }
            ("multiline", DeValue::Table(table)) => {
                log.multiline = Some(of_table(table, &place, &at)?)
            }
            ("path", _) => return Err(place.refuse("`logs.path` must be a text")),
            ("multiline", _) => {
                return Err(place.refuse("`logs.multiline` must be a name or a table"));
            }
            (name, _) => {
                return Err(unknown(
                    &place,
                    &WrittenKey { section: "logs", name },
                    &["path", "multiline"],
                ));
            }
        }
    }
    if log.path.is_empty() {
        return Err(place.refuse("`[[logs]]` has no `path`").hint("path = \"/srv/app/log/*.log\""));
    }
    Ok(log)
}

fn of_preset(name: &str, place: &ConfigPlace) -> Result<Multiline, Failure> {
    Multiline::preset(name).ok_or_else(|| {
        let near = nearest(name, PRESETS);
        let hint = near.map_or_else(
            || {
                format!(
                    "known are {}; or a custom pattern: {{ start = \"^\\\\d{{4}}-\" }}",
                    PRESETS.join(", ")
                )
            },
            |near| format!("did you mean `{near}`?"),
        );
        place.refuse(&format!("no multi-line rule is called `{name}`")).hint(hint)
    })
}

fn of_table(
    table: &DeTable<'_>,
    place: &ConfigPlace,
    at: &impl Fn(usize) -> ConfigPlace,
) -> Result<Multiline, Failure> {
    let text = |name: &str| match table.get(name).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    for (name, _) in table {
        let name_place = at(name.span().start);
        if !KEYS.contains(&name.get_ref().as_ref()) {
            let key = WrittenKey { section: "logs.multiline", name: name.get_ref() };
            return Err(unknown(&name_place, &key, &KEYS));
        }
    }
    let mut rule = match (text("preset"), text("start"), text("continuation")) {
        (Some(name), None, None) => of_preset(&name, place)?,
        (None, Some(pattern), None) => Multiline::with_start(&pattern).map_err(|why| {
            bad_pattern(place, &format!("`multiline.start` is not a valid pattern: {why}"))
        })?,
        (None, None, Some(pattern)) => Multiline::with_continuation(&pattern).map_err(|why| {
            bad_pattern(place, &format!("`multiline.continuation` is not a valid pattern: {why}"))
        })?,
        _ => {
            return Err(place
                .refuse("`multiline` needs one of `preset`, `start` and `continuation`")
                .hint("multiline = { start = \"^\\\\d{4}-\", timeout = \"2s\" }"));
        }
    };
    if table.contains_key("timeout") {
        rule.timeout = text("timeout").and_then(|span| duration(&span)).ok_or_else(|| {
            place
                .refuse("`multiline.timeout` must be a time")
                .hint("such as \"500ms\", \"2s\" or \"1m\"")
        })?;
    }
    for (name, limit) in [("max_lines", &mut rule.max_lines), ("max_bytes", &mut rule.max_bytes)] {
        let Some(value) = table.get(name) else { continue };
        let number = match value.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        *limit = number.filter(|number| (1..=1 << 20).contains(number)).ok_or_else(|| {
            place.refuse(&format!("`multiline.{name}` must be a number from 1 to 1048576"))
        })?;
    }
    Ok(rule)
}

/// `500ms`, `2s`, `1m`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let span = match &text[digits..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    };
    (span <= Duration::from_secs(3600)).then_some(span)
}

fn bad_pattern(place: &ConfigPlace, what: &str) -> Failure {
    place.refuse(what).hint(
        "patterns are those of Rust's crate regex; in TOML a '…' text needs no doubled backslashes",
    )
}

fn unknown(place: &ConfigPlace, key: &WrittenKey<'_>, known: &[&str]) -> Failure {
    let hint = nearest(key.name, known.iter().copied()).map_or_else(
        || format!("known are {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    place.unknown_key(key).hint(hint)
}
