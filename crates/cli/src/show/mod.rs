//! Commands that only print: tables, completions, the configuration. They need no running weir.

pub(crate) mod args;

use weir_config::buckets::BUCKETS;
use weir_config::databases::DATABASES;
use weir_config::heal::HEALS;
use weir_config::logins::LOGINS;
use weir_config::notify::NOTIFY_LISTS;
use weir_config::outputs::OUTPUTS;
use weir_config::scrape::SCRAPE;
use weir_config::{Config, KEYS, SECTIONS};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say, say_json, write_all};
use weir_tables::nearest;
use weir_tables::{TABLES, TableSpec, VIEWS, unit_of, view};

use crate::show::args::ConfigFormat;

/// `weir tables [NAME]`.
pub(crate) fn tables(name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        let rows = tables_and_views().map(|spec| [spec.name, spec.doc.trim()]);
        say(&aligned(rows, Paint::for_stdout()));
        return Ok(());
    };
    let spec =
        tables_and_views().find(|spec| spec.name == name).ok_or_else(|| unknown_table(name))?;
    say(&described(spec, Paint::for_stdout()));
    Ok(())
}

fn tables_and_views() -> impl Iterator<Item = &'static TableSpec> + Clone {
    TABLES.iter().copied().chain(VIEWS.iter().map(|view| &view.table))
}

fn unknown_table(name: &str) -> Failure {
    let names = tables_and_views().map(|spec| spec.name);
    let hint = nearest(name, names).map_or_else(
        || "`weir tables` lists them".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Failure::new(format!("cannot describe `{name}`: there is no such table"))
        .hint(hint)
        .code(EXIT_USAGE)
}

fn described(spec: &TableSpec, paint: Paint) -> String {
    let stored = match view(spec.name) {
        Some(view) => format!("a view:\n  {}", view.sql.replace('\n', "\n  ")),
        None => format!("sorted by {}", spec.sort.join(", ")),
    };
    let mut out = format!(
        "{}: {}\n  {}\n  from {}\n  {stored}\n\n",
        paint.bold(spec.name),
        spec.doc.trim(),
        spec.grain,
        spec.source,
    );
    let kinds: Vec<String> = spec
        .columns
        .iter()
        .map(|column| {
            let unit = match unit_of(column.name) {
                "" | "ts" | "count" => String::new(),
                unit => format!(" ({unit})"),
            };
            let null = if column.is_nullable { "" } else { ", never NULL" };
            format!("{}{unit}{null}", column.kind.as_str())
        })
        .collect();
    let rows =
        spec.columns.iter().zip(&kinds).map(|(column, kind)| [column.name, kind, column.doc]);
    out += &aligned(rows, paint);
    out
}

/// Cells in columns as wide as their widest cell; the first one bold, the last one as it is.
pub(crate) fn aligned<'a, const N: usize>(
    rows: impl Iterator<Item = [&'a str; N]> + Clone,
    paint: Paint,
) -> String {
    let mut widths = [0; N];
    for row in rows.clone() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[at] - cell.chars().count());
            let text = if at == 0 { paint.bold(cell) } else { (*cell).to_owned() };
            out += &if at + 1 == N { text } else { format!("{text}{pad}  ") };
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// `weir completions SHELL`.
pub(crate) fn completions(shell: clap_complete::Shell, command: &mut clap::Command) {
    let mut out = Vec::new();
    clap_complete::generate(shell, command, "weir", &mut out);
    write_all(&out);
}

/// `weir config`.
pub(crate) fn config(config: &Config, format: ConfigFormat) {
    match format {
        ConfigFormat::Text => say(&config_text(config)),
        ConfigFormat::Toml => say(&config_toml(config)),
        ConfigFormat::Json => say_json(&config_json(config)),
    }
}

fn config_text(config: &Config) -> String {
    let mut cells: Vec<[String; 3]> = KEYS
        .iter()
        .map(|key| {
            let value = config.values.get(key);
            let value = value.map_or_else(|| "(not set)".to_owned(), |value| value.to_string());
            [format!("{}.{}", key.section, key.name), value, config.origin(key).to_owned()]
        })
        .collect();
    for entry in &config.entries {
        cells.extend(entry.values.iter().map(|(name, value)| {
            let key = format!("{}[{}].{name}", entry.section, entry.number);
            [key, value.to_string(), entry.origin.clone()]
        }));
    }
    aligned(
        cells.iter().map(|[key, value, origin]| [key.as_str(), value, origin]),
        Paint::for_stdout(),
    )
}

fn config_toml(config: &Config) -> String {
    let mut out = String::new();
    for (section, doc) in SECTIONS {
        out += &format!("# {}\n[{section}]\n", doc.trim());
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
            out += &format!("# {}{unit}\n", key.doc.trim());
            out += &match config.values.get(key) {
                Some(value) if config.origin(key) != "default" => {
                    format!("{} = {value}\n", key.name)
                }
                Some(value) => format!("#{} = {value}\n", key.name),
                None => format!("#{} =\n", key.name),
            };
        }
        out.push('\n');
    }
    let lists = [&BUCKETS, &DATABASES, &LOGINS, &SCRAPE, &OUTPUTS];
    for list in lists.into_iter().chain(NOTIFY_LISTS).chain([&HEALS]) {
        out += &format!("# {}\n#[[{}]]\n", list.doc, list.section);
        for key in list.keys {
            let default = if key.default.is_empty() { "has to be set" } else { key.default };
            out += &format!("# {} ({default})\n#{} =\n", key.doc, key.name);
        }
        out.push('\n');
    }
    for entry in &config.entries {
        out += &format!("# {}\n[[{}]]\n", entry.origin, entry.section);
        for (name, value) in &entry.values {
            out += &format!("{name} = {value}\n");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn config_json(config: &Config) -> String {
    let mut keys: Vec<serde_json::Value> = KEYS
        .iter()
        .map(|key| {
            serde_json::json!({
                "key": format!("{}.{}", key.section, key.name),
                "value": config.values.get(key),
                "origin": config.origin(key),
                "kind": key.kind,
                "unit": key.unit,
                "doc": key.doc.trim(),
            })
        })
        .collect();
    for entry in &config.entries {
        keys.extend(entry.values.iter().map(|(name, value)| {
            serde_json::json!({
                "key": format!("{}[{}].{name}", entry.section, entry.number),
                "value": value,
                "origin": entry.origin,
            })
        }));
    }
    serde_json::to_string_pretty(&keys).expect("text, numbers and lists become JSON")
}
