//! Access lines of programs that set a `log_format` of nginx which no configuration on the host
//! shows, since they run in a container: Nginx Proxy Manager.
//!
//! Source: the program's `nginx.conf`.

use std::sync::LazyLock;

use weir_tables::JsonEscape;

use crate::field::Field;
use crate::nginx_template;
use crate::record::Record;
use crate::template::Template;

/// A text that all lines have.
const MARK: &[u8] = b" [Client ";
const TEMPLATES: [&str; 2] = [
    r#"[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer""#,
    r#"[$time_local] $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "$http_user_agent" "$http_referer""#,
];

/// Reads a line; `None`, with the record empty, if it is in none of these formats.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    static COMPILED: LazyLock<[Template; 2]> =
        LazyLock::new(|| TEMPLATES.map(|text| nginx_template::text(text, JsonEscape::Default)));
    if !line.starts_with('[') || memchr::memmem::find(line.as_bytes(), MARK).is_none() {
        return None;
    }
    let names = record.names;
    let found = COMPILED.iter().find(|template| {
        record.clear_texts();
        record.names = template.names(record.arena);
        template.parse(line, record).is_ok()
    });
    record.names = names;
    if found.is_none() {
        record.clear_texts();
        return None;
    }
    record.put(["program", "nginx"], Field::Program);
    Some(())
}
