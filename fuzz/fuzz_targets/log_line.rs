//! Any bytes through every log format and built-in pipeline: each line is exactly one row.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{NOW, assert_one_row_per_line, log_source};
use weir_parse::{LineParser, ParsedRows, Parsers, StreamName};
use weir_tables::{JsonEscape, LogFormat};

const STREAM: StreamName<'_> = StreamName { path: "/a", host: "web1" };
const NGINX: &str = r#"$remote_addr [$time_local] "$request" $status $upstream_addr $request_time"#;

static PARSERS: LazyLock<Parsers> = LazyLock::new(Parsers::built_in);

fuzz_target!(|bytes: &[u8]| {
    let formats = [
        LogFormat::NginxTemplate { template: NGINX.into(), escape: JsonEscape::Default },
        LogFormat::ApacheTemplate { template: r#"%h %t \"%r\" %>s %b \"%{Referer}i\""#.into() },
        LogFormat::Combined,
        LogFormat::Json,
        LogFormat::HaproxyHttp,
        LogFormat::Syslog,
        LogFormat::Journal,
        LogFormat::NginxError,
        LogFormat::ApacheError,
        LogFormat::Auto,
    ];
    let sources = formats.map(log_source);
    let auto = log_source(LogFormat::Auto);
    let by_format = sources.iter().map(|source| LineParser::new(source, STREAM));
    let pipelines = PARSERS.pipelines();
    let by_pipeline = pipelines.map(|one| PARSERS.line_parser_with(Some(one), &auto, STREAM));
    for mut parser in by_format.chain(by_pipeline) {
        let mut rows = ParsedRows::default();
        parser.parse(bytes, 0, NOW, &mut rows);
        assert_one_row_per_line(&rows.finish(), bytes, parser.format_name());
    }
});
