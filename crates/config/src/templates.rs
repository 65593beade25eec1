//! `[notify.templates]`: texts that replace forms of messages (docs/notify.md). The crates that
//! render them check their syntax.

use std::path::Path;

use toml::de::{DeTable, DeValue};
use weir_process::failure::Failure;
use weir_tables::nearest;

use super::line_of;
use super::refusal::{ConfigPlace, WrittenKey};

/// Forms of a message.
pub const TEMPLATE_FORMS: [&str; 4] = ["subject", "text", "phone", "html"];
/// Kinds of messages.
pub const TEMPLATE_KINDS: [&str; 5] = ["page", "mail", "ack", "resolved", "test"];
/// The table with a table for each receiver.
const RECEIVERS: &str = "receivers";
const SECTION: &str = "notify.templates";

/// The messages that a template is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateTarget {
    /// All.
    All,
    /// Those of a kind of [`TEMPLATE_KINDS`].
    Kind(&'static str),
    /// Those to a receiver.
    Receiver(String),
}

/// A template of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTemplate {
    /// One of [`TEMPLATE_FORMS`].
    pub form: &'static str,
    /// The messages that it is for.
    pub target: TemplateTarget,
    /// The template.
    pub text: String,
    /// The file.
    pub file: String,
    /// The line of the file that the first line of the template is.
    pub first_line: usize,
}

/// The file that is read.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl SourceText<'_> {
    fn place(self, offset: usize) -> ConfigPlace {
        ConfigPlace::in_file(self.path, line_of(self.text, offset))
    }
}

/// Reads the value of `notify.templates`.
///
/// # Errors
/// What cannot be used, with its line.
pub(super) fn of(
    value: &DeValue<'_>,
    place: &ConfigPlace,
    source: SourceText<'_>,
) -> Result<Vec<MessageTemplate>, Failure> {
    match value {
        DeValue::Table(table) => read(table, source),
        _ => Err(place
            .refuse("`notify.templates` is not a table")
            .hint("write [notify.templates] and below it text = \"…\"")),
    }
}

/// Reads `[notify.templates]`.
///
/// # Errors
/// An unknown key or a value that is no text, with its line.
fn read(table: &DeTable<'_>, source: SourceText<'_>) -> Result<Vec<MessageTemplate>, Failure> {
    let mut templates = Vec::new();
    for (name, value) in table {
        let (word, place) = (name.get_ref().as_ref(), source.place(name.span().start));
        if word == RECEIVERS {
            for (receiver, value) in inner(value.get_ref(), &place, word)? {
                let target = TemplateTarget::Receiver(receiver.get_ref().to_string());
                let place = source.place(receiver.span().start);
                let table = inner(value.get_ref(), &place, receiver.get_ref())?;
                add_forms(&mut templates, table, &target, source)?;
            }
        } else if let Some(kind) = TEMPLATE_KINDS.into_iter().find(|kind| *kind == word) {
            let table = inner(value.get_ref(), &place, word)?;
            add_forms(&mut templates, table, &TemplateTarget::Kind(kind), source)?;
        } else {
            add_form(&mut templates, (name, value), &TemplateTarget::All, source)?;
        }
    }
    Ok(templates)
}

fn inner<'a, 'b>(
    value: &'a DeValue<'b>,
    place: &ConfigPlace,
    name: &str,
) -> Result<&'a DeTable<'b>, Failure> {
    match value {
        DeValue::Table(table) => Ok(table),
        _ => Err(place
            .refuse(&format!("`{SECTION}.{name}` is not a table"))
            .hint(format!("write [{SECTION}.{name}] and below it text = \"…\""))),
    }
}

fn add_forms(
    templates: &mut Vec<MessageTemplate>,
    table: &DeTable<'_>,
    target: &TemplateTarget,
    source: SourceText<'_>,
) -> Result<(), Failure> {
    table.iter().try_for_each(|entry| add_form(templates, entry, target, source))
}

type TomlEntry<'a, 'b> =
    (&'a toml::Spanned<std::borrow::Cow<'b, str>>, &'a toml::Spanned<DeValue<'b>>);

fn add_form(
    templates: &mut Vec<MessageTemplate>,
    (name, value): TomlEntry<'_, '_>,
    target: &TemplateTarget,
    source: SourceText<'_>,
) -> Result<(), Failure> {
    let (word, place) = (name.get_ref().as_ref(), source.place(name.span().start));
    let Some(form) = TEMPLATE_FORMS.into_iter().find(|form| *form == word) else {
        let known = || {
            let wider = TEMPLATE_KINDS.into_iter().chain([RECEIVERS]);
            let wider = wider.filter(|_| *target == TemplateTarget::All);
            TEMPLATE_FORMS.into_iter().chain(wider)
        };
        let hint = nearest(word, known()).map_or_else(
            || format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        return Err(place.unknown_key(&WrittenKey { section: SECTION, name: word }).hint(hint));
    };
    let Some(text) = value.get_ref().as_str() else {
        return Err(place.refuse(&format!("`{SECTION}.{word}` must be a text")));
    };
    // A line end right after the opening quotes is no part of the text.
    let start = value.span().start;
    let written = source.text.get(start..).unwrap_or_default();
    let quotes = ["\"\"\"", "'''"].iter().find_map(|quotes| written.strip_prefix(quotes));
    let skipped = usize::from(quotes.is_some_and(|rest| rest.starts_with(['\n', '\r'])));
    templates.push(MessageTemplate {
        form,
        target: target.clone(),
        text: text.to_owned(),
        file: source.path.display().to_string(),
        first_line: line_of(source.text, start) + skipped,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::Config;

    fn check(block: &str, expected: &Expect) {
        let text = format!("[notify.templates]\n{block}");
        let answer = match Config::read(Path::new("weir.toml"), &text) {
            Ok(config) => {
                let shown = config.values.templates.iter().map(|template| {
                    let (form, target, line) =
                        (template.form, &template.target, template.first_line);
                    format!("{line} {form} {target:?} {:?}\n", template.text)
                });
                shown.collect()
            }
            Err(failure) => failure.to_string(),
        };
        expected.assert_eq(&answer);
    }

    #[test]
    fn templates_are_for_all_messages_a_kind_or_a_receiver() {
        check(
            "subject = \"{{ host }}\"\n[notify.templates.page]\ntext = \"\"\"\nline 1\nline 2\"\"\"\n\
             [notify.templates.receivers.team]\nhtml = '''x\ny'''\n",
            &expect![[r#"
                5 text Kind("page") "line 1\nline 2"
                8 html Receiver("team") "x\ny"
                2 subject All "{{ host }}"
            "#]],
        );
    }

    #[test]
    fn mistakes_are_refused_with_line_and_nearest_name() {
        check(
            "subjekt = \"x\"\n",
            &expect![[r#"
            cannot use weir.toml:2: unknown key `notify.templates.subjekt`
            hint: did you mean `subject`?"#]],
        );
        check(
            "text = 3\n",
            &expect!["cannot use weir.toml:2: `notify.templates.text` must be a text"],
        );
        check(
            "pages = \"x\"\n",
            &expect![[r#"
            cannot use weir.toml:2: unknown key `notify.templates.pages`
            hint: did you mean `page`?"#]],
        );
        check(
            "page = \"x\"\n",
            &expect![[r#"
            cannot use weir.toml:2: `notify.templates.page` is not a table
            hint: write [notify.templates.page] and below it text = "…""#]],
        );
        check(
            "[notify.templates.page]\nkind = \"x\"\n",
            &expect![[r#"
            cannot use weir.toml:3: unknown key `notify.templates.kind`
            hint: known are subject, text, phone, html"#]],
        );
    }

    #[test]
    fn other_keys_of_the_section_are_read_as_before() {
        let text = "[notify]\npublic_url = \"https://x\"\ntemplates = { text = \"a\" }\n";
        let config = Config::read(Path::new("weir.toml"), text).expect("a good file");
        assert_eq!(config.values.notify.public_url, "https://x");
        assert_eq!(config.values.templates.len(), 1);
        let flat = Config::read(Path::new("weir.toml"), "[notify]\ntemplates = \"x\"\n");
        assert!(flat.is_err_and(|failure| failure.to_string().contains("is not a table")));
    }
}
