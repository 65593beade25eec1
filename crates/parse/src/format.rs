//! The list of formats: a new one is a file and a line in each of these matches.

use bumpalo::Bump;
use weir_tables::LogFormat;

use crate::auto::Auto;
use crate::grok::PatternReader;
use crate::json_lines::JsonLines;
use crate::key_value::KeyValue;
use crate::record::{Fault, Kind, Record};
use crate::separated::SeparatedReader;
use crate::template::Template;
use crate::{
    apache_error, apache_template, combined, haproxy, journal, log_text, nginx_error,
    nginx_template, syslog,
};

/// A way to read lines, and what it has learnt of them.
pub(crate) enum Format {
    Template { name: &'static str, template: Template },
    JsonTemplate(JsonLines),
    Combined,
    Json(JsonLines),
    HaproxyHttp,
    Syslog,
    Journal(JsonLines),
    NginxError,
    ApacheError,
    Auto(Box<Auto>),
    Text,
    Patterns { name: &'static str, reader: PatternReader },
    Separated(SeparatedReader),
    KeyValue(KeyValue),
}

impl Format {
    pub(crate) fn new(format: &LogFormat) -> Self {
        match format {
            LogFormat::NginxTemplate { template, .. } if template.trim_start().starts_with('{') => {
                Self::JsonTemplate(nginx_template::json(template))
            }
            LogFormat::NginxTemplate { template, escape } => Self::Template {
                name: "nginx_template",
                template: nginx_template::text(template, *escape),
            },
            LogFormat::ApacheTemplate { template } => Self::apache(template),
            LogFormat::Combined => Self::Combined,
            LogFormat::Json => Self::Json(JsonLines::free()),
            LogFormat::HaproxyHttp => Self::HaproxyHttp,
            LogFormat::Syslog => Self::Syslog,
            LogFormat::Journal => Self::Journal(journal::lines()),
            LogFormat::NginxError => Self::NginxError,
            LogFormat::ApacheError => Self::ApacheError,
            LogFormat::Auto => Self::Auto(Box::default()),
        }
    }

    fn apache(template: &str) -> Self {
        if template.trim_start().starts_with('{') {
            return Self::JsonTemplate(apache_template::json(template));
        }
        Self::Template { name: "apache_template", template: apache_template::text(template) }
    }

    /// The column `reject.parser`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Template { name, .. } => name,
            Self::JsonTemplate(_) => "json_template",
            Self::Combined => "combined",
            Self::Json(_) => "json",
            Self::HaproxyHttp => "haproxy_http",
            Self::Syslog => "syslog",
            Self::Journal(_) => "journal",
            Self::NginxError => "nginx_error",
            Self::ApacheError => "apache_error",
            Self::Auto(_) => "auto",
            Self::Text => "text",
            Self::Patterns { name, .. } => name,
            Self::Separated(_) => "separated",
            Self::KeyValue(_) => "key_value",
        }
    }

    pub(crate) fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        match self {
            Self::Template { template, .. } => template.names(arena),
            Self::Patterns { reader, .. } => reader.names(arena),
            Self::Separated(reader) => reader.names(arena),
            _ => &[],
        }
    }

    /// How a byte that is not UTF-8 is written: JSON strings take a backslash away again.
    pub(crate) fn byte_escape(&self, line: &[u8]) -> &'static str {
        let is_json = match self {
            Self::JsonTemplate(_) | Self::Json(_) | Self::Journal(_) => true,
            Self::Auto(_) => Auto::is_json(line),
            _ => false,
        };
        if is_json { "\\\\x" } else { "\\x" }
    }

    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Kind, Fault> {
        match self {
            Self::Template { template, .. } => template.parse(line, record).map(|()| Kind::Request),
            Self::JsonTemplate(lines) => lines.read(line, record).map(|()| Kind::Request),
            Self::Combined => combined::parse(line, record),
            Self::Json(lines) => lines.parse(line, record),
            Self::HaproxyHttp => haproxy::parse(line, record),
            Self::Syslog => Ok(syslog::parse(line, record)),
            Self::Journal(lines) => journal::parse(lines, line, record),
            Self::NginxError => Ok(nginx_error::parse(line, record)),
            Self::ApacheError => Ok(apache_error::parse(line, record)),
            Self::Auto(auto) => auto.parse(line, record),
            Self::Text => {
                log_text::parse(line, record);
                Ok(Kind::Log)
            }
            Self::Patterns { reader, .. } => reader.parse(line, record),
            Self::Separated(reader) => reader.parse(line, record),
            Self::KeyValue(spec) => spec.parse(line, record),
        }
    }
}
