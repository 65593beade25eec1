//! The list of formats. A new format is one file and one line in [`NAMED`], or in [`CONFIGURED`] if
//! it has settings.

use std::sync::Arc;

use weir_tables::LogFormat;

use crate::format::{Format, FormatSpec, NamedFormat};
use crate::grok::PatternLibrary;
use crate::pipeline::document::Section;
use crate::problem::ParserProblem;
use crate::{
    apache_error, apache_template, auto, combined, grok, haproxy, journal, json_lines, key_value,
    log_text, nginx_error, nginx_template, separated, syslog, w3c,
};

/// Formats without settings, in the order of docs/parsers.md.
pub(crate) const NAMED: &[&NamedFormat] = &[
    &auto::FORMAT,
    &json_lines::FORMAT,
    &combined::FORMAT,
    &haproxy::FORMAT,
    &syslog::FORMAT,
    &nginx_error::FORMAT,
    &apache_error::FORMAT,
    &log_text::FORMAT,
];

/// Formats with settings in `[parse]`, in the order of docs/parsers.md.
pub(crate) const CONFIGURED: &[&ConfiguredFormat] = &[
    &ConfiguredFormat { name: "grok", keys: grok::KEYS, read: grok::read_grok },
    &ConfiguredFormat { name: "regex", keys: grok::KEYS, read: grok::read_regex },
    &ConfiguredFormat { name: "csv", keys: separated::KEYS, read: separated::read_csv },
    &ConfiguredFormat { name: "tsv", keys: separated::KEYS, read: separated::read_tsv },
    &ConfiguredFormat { name: "w3c", keys: w3c::KEYS, read: w3c::read_w3c },
    &ConfiguredFormat { name: "key_value", keys: key_value::KEYS, read: key_value::read },
];

/// A format with settings.
pub(crate) struct ConfiguredFormat {
    pub(crate) name: &'static str,
    /// Keys in `[parse]` that only some formats have, this one among them.
    pub(crate) keys: &'static [&'static str],
    read: ReadSpec,
}

/// Reads the settings of a format.
pub(crate) type ReadSpec =
    fn(&PatternLibrary, &Section<'_>) -> Result<Arc<dyn FormatSpec>, ParserProblem>;

/// The format that a pipeline names; `None` if there is none of this name.
pub(crate) fn configured(
    name: &str,
    library: &PatternLibrary,
    section: &Section<'_>,
) -> Result<Option<Arc<dyn FormatSpec>>, ParserProblem> {
    if let Some(format) = CONFIGURED.iter().find(|format| format.name == name) {
        return (format.read)(library, section).map(Some);
    }
    let named = NAMED.iter().find(|format| format.name == name);
    Ok(named.map(|format| -> Arc<dyn FormatSpec> {
        Arc::new(NamedFormat { name: format.name, new: format.new })
    }))
}

/// Names of all formats that pipelines can use.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let named = NAMED.iter().map(|format| format.name);
    named.chain(CONFIGURED.iter().map(|format| format.name))
}

/// A reader of the format that discovery found.
pub(crate) fn new(format: &LogFormat) -> Box<dyn Format> {
    match format {
        LogFormat::NginxTemplate { template, escape } => nginx_template::format(template, *escape),
        LogFormat::ApacheTemplate { template } => apache_template::format(template),
        LogFormat::Journal => journal::format(),
        named => {
            let name = named.name();
            let format = NAMED.iter().find(|format| format.name == name);
            (format.expect("a test finds every format of discovery").new)()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_discovery_has_a_reader() {
        for format in [
            LogFormat::Combined,
            LogFormat::Json,
            LogFormat::HaproxyHttp,
            LogFormat::Syslog,
            LogFormat::Journal,
            LogFormat::NginxError,
            LogFormat::ApacheError,
            LogFormat::Auto,
        ] {
            assert_eq!(new(&format).name(), format.name());
        }
    }
}
