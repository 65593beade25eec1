//! The configuration: defaults, then one TOML file, then `WEIR_…` variables, then flags; each value
//! knows where it is from.
//!
//! Unknown keys are refused with file and line, because a mistyped limit that is silently not in
//! force is found too late.

pub mod buckets;
pub mod check_plan;
pub mod checks;
pub mod databases;
pub mod entries;
pub mod flags;
pub mod heal;
mod key;
mod key_macro;
mod keys;
pub mod logins;
pub mod logs;
pub mod notify;
pub mod outputs;
pub mod place;
mod refusal;
pub mod scrape;
mod setting;
pub mod slos;
pub mod templates;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeArray, DeTable, DeValue};
use weir_process::failure::{EXIT_CONFIG, Failure, read_failure};
use weir_tables::nearest;

use entries::ShownEntry;
pub use key::Key;
pub use keys::{Api, KEYS, SECTIONS, Store, Values};
pub use refusal::ConfigPlace;
use refusal::{WrittenKey, refused};

/// A number of the configuration as a size of memory: one that is too large for the machine is the
/// largest there is.
pub fn saturating_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Section and name of a key.
pub type KeyName = (&'static str, &'static str);

/// Effective values and the origin of each that is not a default.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The values.
    pub values: Values,
    origins: BTreeMap<KeyName, String>,
    /// Entries of lists such as `[[logs]]`, for `weir config`.
    pub entries: Vec<ShownEntry>,
}

impl Config {
    /// Defaults, then `file` (or the first of the usual places that exists), then the environment.
    pub fn load(file: Option<&Path>, environment: &[(String, String)]) -> Result<Self, Failure> {
        let mut config = Self::default();
        if let Some((path, text)) = read_file(file)? {
            config.apply_file(&path, &text)?;
        }
        config.apply_environment(environment)?;
        Ok(config)
    }

    /// What this process is configured with: `file` or the first of the usual places, its
    /// environment, and the flag `--log-level`.
    pub fn of_process(file: Option<&Path>, log_level: Option<&String>) -> Result<Self, Failure> {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut config = Self::load(file, &environment)?;
        config.apply_log_level(log_level);
        Ok(config)
    }

    /// Defaults and `text`; messages call it `file`.
    pub fn read(file: &Path, text: &str) -> Result<Self, Failure> {
        let mut config = Self::default();
        config.apply_file(file, text)?;
        Ok(config)
    }

    /// Where the value of a key comes from.
    pub fn origin(&self, key: &Key) -> &str {
        self.origins.get(&(key.section, key.name)).map_or("default", String::as_str)
    }

    /// Whether the value of a key is not the default.
    pub fn is_set(&self, key: KeyName) -> bool {
        self.origins.contains_key(&key)
    }

    /// Takes a value from a flag, already of the right kind in `values`.
    pub fn note_flag(&mut self, key: KeyName, flag: &str) {
        self.origins.insert(key, format!("flag {flag}"));
    }

    fn apply_file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let at = |offset: usize| ConfigPlace::in_file(path, line_of(text, offset));
        let table = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            refused(format!("cannot read {}: {}", at(start), error.message()))
                .hint("the file is TOML: [section], then key = value")
        })?;
        for (section, content) in table.get_ref() {
            let place = at(section.span().start);
            if LISTS.contains(&section.get_ref().as_ref()) {
                let DeValue::Array(list) = content.get_ref() else {
                    return Err(place.no_list(section.get_ref()));
                };
                self.apply_list(section.get_ref(), list, &place, at)?;
                continue;
            }
            let DeValue::Table(entries) = content.get_ref() else {
                return Err(outside_section(&place, section.get_ref()));
            };
            for (name, value) in entries {
                let place = at(name.span().start);
                if (section.get_ref().as_ref(), name.get_ref().as_ref()) == ("notify", "templates")
                {
                    let source = templates::SourceText { path, text };
                    self.values.templates = templates::of(value.get_ref(), &place, source)?;
                    continue;
                }
                let key = WrittenKey { section: section.get_ref(), name: name.get_ref() };
                let key = key.find(&place)?;
                let value = to_value(value.get_ref());
                if !self.values.set_toml(key, &value) {
                    return Err(wrong_kind(&place, key));
                }
                self.origins.insert((key.section, key.name), place.to_string());
            }
        }
        Ok(())
    }

    fn apply_list(
        &mut self,
        section: &str,
        list: &DeArray<'_>,
        place: &ConfigPlace,
        at: impl Fn(usize) -> ConfigPlace + Copy,
    ) -> Result<(), Failure> {
        for (number, item) in list.iter().enumerate() {
            let DeValue::Table(table) = item.get_ref() else { return Err(place.no_list(section)) };
            let origin = at(item.span().start);
            match section {
                "logs" => self.values.logs.push(logs::read(table, &origin, at)?),
                "buckets" => {
                    let entry = entries::read(&buckets::BUCKETS, table, &origin, at)?;
                    self.values.buckets.push(buckets::of(&entry)?);
                }
                "checks" | "probes" => {
                    let list = checks::list(section);
                    let entry = entries::read(list, table, &origin, at)?;
                    checks::add(&mut self.values.checks, &mut self.values.probes, &entry)?;
                }
                "databases" => {
                    let entry = entries::read(&databases::DATABASES, table, &origin, at)?;
                    self.values.databases.push(databases::of(&entry)?);
                }
                "logins" => {
                    let entry = entries::read(&logins::LOGINS, table, &origin, at)?;
                    logins::add(&mut self.values.logins, &entry)?;
                }
                "scrape" => {
                    let entry = entries::read(&scrape::SCRAPE, table, &origin, at)?;
                    self.values.scrape.push(scrape::of(&entry)?);
                }
                "heals" => {
                    let entry = entries::read(&heal::HEALS, table, &origin, at)?;
                    self.values.heals.push(heal::of(entry)?);
                }
                "slos" => {
                    let entry = entries::read(&slos::SLOS, table, &origin, at)?;
                    slos::add(&mut self.values.slos, entry)?;
                }
                "people" | "receivers" | "rotas" | "routes" | "windows" => {
                    let list = notify::NOTIFY_LISTS.iter().find(|list| list.section == section);
                    let list = list.expect("each of these sections has a list");
                    let entry = entries::read(list, table, &origin, at)?;
                    self.values.notices.add(section, entry)?;
                }
                _ => {
                    let entry = entries::read(&outputs::OUTPUTS, table, &origin, at)?;
                    let output = outputs::of(entry)?;
                    if self.values.outputs.iter().any(|other| other.name == output.name) {
                        let what = format!("there are two outputs `{}`", output.name);
                        return Err(output
                            .entry
                            .key("name")
                            .wrong(&what)
                            .hint("the position of an output is kept under its name"));
                    }
                    self.values.outputs.push(output);
                }
            }
            let values = entries::whole(table);
            let (section, origin) = (section.to_owned(), origin.to_string());
            self.entries.push(ShownEntry { section, number, origin, values });
        }
        Ok(())
    }

    fn apply_environment(&mut self, environment: &[(String, String)]) -> Result<(), Failure> {
        for (variable, text) in environment {
            let Some(key) = KEYS.iter().find(|key| variable_of(key) == *variable) else {
                continue;
            };
            let place = ConfigPlace::in_environment(variable);
            if !self.values.set_text(key, text) {
                return Err(wrong_kind(&place, key));
            }
            self.origins.insert((key.section, key.name), place.to_string());
        }
        Ok(())
    }
}

/// Sections that are lists of tables.
const LISTS: [&str; 15] = [
    "buckets",
    "checks",
    "databases",
    "heals",
    "logins",
    "logs",
    "outputs",
    "people",
    "probes",
    "receivers",
    "rotas",
    "routes",
    "scrape",
    "slos",
    "windows",
];

/// The environment variable that sets a key: `WEIR_API_LISTEN`.
pub fn variable_of(key: &Key) -> String {
    format!("WEIR_{}_{}", key.section, key.name).to_uppercase()
}

fn read_file(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, Failure> {
    let candidates = named.map_or_else(place::config_files, |path| vec![path.to_owned()]);
    for path in candidates {
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(read_failure(&path, &error).code(EXIT_CONFIG)),
        }
    }
    Ok(None)
}

impl WrittenKey<'_> {
    /// The key of this section and name; an error with the nearest one when there is none.
    fn find(&self, place: &ConfigPlace) -> Result<&'static Key, Failure> {
        let Self { section, name } = self;
        if let Some(key) = KEYS.iter().find(|key| (key.section, key.name) == (*section, *name)) {
            return Ok(key);
        }
        let beside: Vec<&str> =
            KEYS.iter().filter(|key| key.section == *section).map(|key| key.name).collect();
        let known: Vec<String> =
            KEYS.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
        let same_name = KEYS.iter().position(|key| key.name == *name).map(|at| known[at].as_str());
        let written = format!("{section}.{name}");
        let hint = match nearest(name, beside.iter().copied()) {
            Some(near) => format!("did you mean `{section}.{near}`?"),
            None if !beside.is_empty() => format!("[{section}] has {}", beside.join(", ")),
            None => nearest(&written, known.iter().map(String::as_str)).or(same_name).map_or_else(
                || "`weir config` lists every key".to_owned(),
                |near| format!("did you mean `{near}`?"),
            ),
        };
        Err(place.unknown_key(self).hint(hint))
    }
}

fn outside_section(place: &ConfigPlace, name: &str) -> Failure {
    let hint = match KEYS.iter().find(|key| key.name == name) {
        Some(key) => format!("write it below a line `[{}]`", key.section),
        None => "every key belongs to a section such as `[api]`".to_owned(),
    };
    place.refuse(&format!("`{name}` is outside of a section")).hint(hint)
}

fn wrong_kind(place: &ConfigPlace, key: &Key) -> Failure {
    let unit = if key.unit.is_empty() { String::new() } else { format!(" ({})", key.unit) };
    place
        .refuse(&format!("`{}.{}` must be a {}{unit}", key.section, key.name, key.kind))
        .hint(key.doc.trim())
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// Values without their spans; what no key can hold becomes its text and is refused by kind later.
fn to_value(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(
                |_| toml::Value::Array(vec![toml::Value::Boolean(false)]),
                toml::Value::Integer,
            ),
        DeValue::Boolean(flag) => toml::Value::Boolean(*flag),
        DeValue::Array(items) => {
            toml::Value::Array(items.iter().map(|item| to_value(item.get_ref())).collect())
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            toml::Value::Array(vec![toml::Value::Boolean(false)])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::{Config, KEYS};

    fn check(text: &str, expected: &Expect) {
        let mut config = Config::default();
        let answer = match config.apply_file(Path::new("weir.toml"), text) {
            Ok(()) => KEYS
                .iter()
                .filter(|key| config.origin(key) != "default")
                .map(|key| {
                    let value = config.values.get(key);
                    format!(
                        "{}.{} = {} ({})\n",
                        key.section,
                        key.name,
                        value.expect("it was set"),
                        config.origin(key)
                    )
                })
                .collect(),
            Err(failure) => failure.to_string(),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn values_know_their_line() {
        check(
            "# mine\n[api]\nlisten = \"127.0.0.1:1\"\n\n[collect]\ntail = [\"/a\", \"/b\"]\n",
            &expect![[r#"
                api.listen = "127.0.0.1:1" (weir.toml:3)
                collect.tail = ["/a", "/b"] (weir.toml:6)
            "#]],
        );
    }

    #[test]
    fn unknown_keys_are_refused_with_line_and_nearest_name() {
        check(
            "[api]\nlistne = \"x\"\n",
            &expect![[r#"
                cannot use weir.toml:2: unknown key `api.listne`
                hint: did you mean `api.listen`?"#]],
        );
        check(
            "listen = \"x\"\n",
            &expect![[r#"
                cannot use weir.toml:1: `listen` is outside of a section
                hint: write it below a line `[api]`"#]],
        );
        check(
            "[apis]\nlisten = \"x\"\n",
            &expect![[r#"
                cannot use weir.toml:2: unknown key `apis.listen`
                hint: did you mean `api.listen`?"#]],
        );
        check(
            "[rules]\nlisten = \"x\"\n",
            &expect![[r#"
                cannot use weir.toml:2: unknown key `rules.listen`
                hint: [rules] has dir, every_seconds"#]],
        );
    }

    #[test]
    fn values_of_another_kind_are_refused() {
        check(
            "[rules]\nevery_seconds = -2\n",
            &expect![[r#"
                cannot use weir.toml:2: `rules.every_seconds` must be a whole number (s)
                hint: How often the rules that are due are run. Findings appear at most this much later than their cause shows."#]],
        );
        check(
            "[rules\n",
            &expect![[r#"
                cannot read weir.toml:1: unclosed table, expected `]`
                hint: the file is TOML: [section], then key = value"#]],
        );
    }

    #[test]
    fn logs_are_named_one_by_one() {
        let mut config = Config::default();
        let text = "[[logs]]\npath = \"/a/*.log\"\nmultiline = \"java\"\n\n[[logs]]\npath = \"/b\"\n\
            multiline = { start = '^\\d', timeout = \"500ms\", max_lines = 9 }\n";
        config.apply_file(Path::new("weir.toml"), text).expect("a good file");
        let logs = &config.values.logs;
        assert_eq!((logs[0].path.as_str(), logs[1].path.as_str()), ("/a/*.log", "/b"));
        let rule = logs[1].multiline.as_ref().expect("it has one");
        assert_eq!((rule.timeout.as_millis(), rule.max_lines), (500, 9));
        check(
            "[[logs]]\npath = \"/a\"\nmultiline = \"jave\"\n",
            &expect![[r#"
                cannot use weir.toml:3: no multi-line rule is called `jave`
                hint: did you mean `java`?"#]],
        );
        check(
            "[[logs]]\npath = \"/a\"\nmultiline = { start = \"(\" }\n",
            &expect![[r#"
                cannot use weir.toml:3: `multiline.start` is not a valid pattern: error: unclosed group
                hint: patterns are those of Rust's crate regex; in TOML a '…' text needs no doubled backslashes"#]],
        );
        check(
            "[[logs]]\nmultline = \"java\"\n",
            &expect![[r#"
                cannot use weir.toml:2: unknown key `logs.multline`
                hint: did you mean `multiline`?"#]],
        );
    }

    #[test]
    fn environment_overrides_the_file() {
        let environment = [("WEIR_RULES_EVERY_SECONDS".to_owned(), "5".to_owned())];
        let mut config = Config::default();
        config
            .apply_file(Path::new("weir.toml"), "[rules]\nevery_seconds = 3\n")
            .expect("a good file");
        config.apply_environment(&environment).expect("a good variable");
        assert_eq!(config.values.rules.every_seconds, 5);
        let key = KEYS.iter().find(|key| key.name == "every_seconds").expect("in the list");
        assert_eq!(config.origin(key), "environment WEIR_RULES_EVERY_SECONDS");
    }

    #[test]
    fn environment_names_are_unique() {
        let mut names: Vec<String> = KEYS.iter().map(super::variable_of).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
    }
}
