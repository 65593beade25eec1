//! Pipelines as users write them: what they do, and how wrong ones are refused.

use expect_test::{Expect, expect};

use crate::Parsers;
use crate::check::{check_pipeline, pipeline_rows};

fn refused(text: &str, expected: &Expect) {
    let problem =
        Parsers::built_in().pipeline_of(crate::ParserFile { origin: "my.toml", text }).unwrap_err();
    expected.assert_eq(&problem.to_string());
}

#[test]
fn steps_run_in_their_order_under_their_conditions() {
    check_pipeline(
        r#"
[parse]
format = "json"

[[step]]
when = 'http_response_status_code >= 500 and url_path matches "^/(pay|checkout)"'
tag = ["checkout", "urgent"]
set = { team = "shop", label = "%{http_request_method} %{url_path}" }

[[step]]
rename = { took = "duration_seconds", usr = "user" }
convert = { duration_seconds = "ms_to_s", size = "bytes", user = "lowercase", ok = "boolean" }
drop = "secret"

[[step]]
when = "duration_seconds > 1 and not (client_address in_network \"10.0.0.0/8\")"
tag = "urgent"
"#,
        r#"{"method":"POST","path":"/pay","status":502,"client_ip":"9.9.9.9","took":1500,"usr":"BOB","size":"1.5 KiB","ok":"YES","secret":"x"}
{"method":"GET","path":"/","status":200,"client_ip":"10.0.0.9","took":2500}
{"msg":"not a request","took":"long"}
"#,
        expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              client_address: 9.9.9.9
              http_request_method: POST
              url_path: /pay
              http_response_status_code: 502
              duration_seconds: 1.5
              attrs: {label: POST /pay, team: shop, tags: checkout,urgent, ok: true, size: 1536, user: bob}
            request
              ts: 2026-11-20T12:00:00Z
              client_address: 10.0.0.9
              http_request_method: GET
              url_path: /
              http_response_status_code: 200
              duration_seconds: 2.5
            log
              ts: 2026-11-20T12:00:00Z
              body: not a request
              attrs: {duration_seconds: long}
        "#]],
    );
}

#[test]
fn lines_are_routed_and_nothing_is_lost_on_the_way() {
    check_pipeline(
        r#"
[parse]
format = "json"
[[step]]
when = "probe exists"
route = "log"
[[step]]
when = "kind = \"access\""
route = "request"
[[step]]
when = "level = 'noise'"
reject = "noise of the probe"
"#,
        r#"{"method":"GET","path":"/health?x","status":200,"probe":"lb"}
{"kind":"access","msg":"served","verb":"GET","url":"/a?b","status_code":"204","pid":7}
{"level":"noise","msg":"x"}
"#,
        expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              http_request_method: GET
              url_path: /a
              url_query: b
              http_response_status_code: 204
              attrs: {kind: access, msg: served, pid: 7}
            log
              ts: 2026-11-20T12:00:00Z
              body: {"method":"GET","path":"/health?x","status":200,"probe":"lb"}
              attrs: {http_request_method: GET, url_path: /health, url_query: x, http_response_status_code: 200, probe: lb}
            reject
              ts: 2026-11-20T12:00:00Z
              reason: routed
              detail: noise of the probe
              raw: {"level":"noise","msg":"x"}
        "#]],
    );
}

/// max-mapper/binary-csv#7 (inches), koles/ya-csv#2 (three quotes) and fmbiete/pgauditlogtofile#41
/// (an unquoted value with a line end): a quote opens a value only at the value's start.
#[test]
fn quote_inside_of_a_value_joins_no_lines() {
    check_pipeline(
        "[parse]\nformat = \"csv\"\ncolumns = [\"a\", \"b\"]\n",
        concat!(
            "row,some item that is 16\"\nanother,without quotes\nrow3,12\"\n",
            "one,\"\"\"two\"\", two-and-half\"\n\"1\n2\",\"3\"\n",
            "x,SQL statement \"INSERT\nPL/pgSQL,line 3\n\"torn,\n\"no\" value,\"\n",
        ),
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              body: row,some item that is 16"
              attrs: {a: row, b: some item that is 16"}
            log
              ts: 2026-11-20T12:00:00Z
              body: another,without quotes
              attrs: {a: another, b: without quotes}
            log
              ts: 2026-11-20T12:00:00Z
              body: row3,12"
              attrs: {a: row3, b: 12"}
            log
              ts: 2026-11-20T12:00:00Z
              body: one,"""two"", two-and-half"
              attrs: {a: one, b: "two", two-and-half}
            log
              ts: 2026-11-20T12:00:00Z
              body: "1
            2","3"
              attrs: {a: 1
            2, b: 3}
            log
              ts: 2026-11-20T12:00:00Z
              body: x,SQL statement "INSERT
              attrs: {a: x, b: SQL statement "INSERT}
            log
              ts: 2026-11-20T12:00:00Z
              body: PL/pgSQL,line 3
              attrs: {a: PL/pgSQL, b: line 3}
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: the quote at byte 0 has no end in this line
              raw: "torn,
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: text behind the quote's end at byte 4
              raw: "no" value,"
        "#]],
    );
}

#[test]
fn comma_and_tab_separated_values_get_their_names() {
    check_pipeline(
        "[parse]\nformat = \"csv\"\ncolumns = [\"time\", \"level\", \"message\", \"user\"]\n",
        "time,level,message,user\n2026-11-20T11:59:59Z,warn,\"says \"\"hi\"\", leaves\",bob\n1,2\n2026-11-20T11:59:59Z,info,\"open,x\n,,\"a\"b,\n",
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              body: time,level,message,user
            log
              ts: 2026-11-20T11:59:59Z
              severity: warn
              body: says "hi", leaves
              attrs: {user: bob}
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: 2 values, but 4 columns
              raw: 1,2
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: the quote at byte 26 has no end in this line
              raw: 2026-11-20T11:59:59Z,info,"open,x
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: text behind the quote's end at byte 5
              raw: ,,"a"b,
        "#]],
    );
    check_pipeline(
        "[parse]\nformat = \"tsv\"\n",
        "method\tpath\tstatus\tnote\nGET\t/a\t200\ttab\\there \\\\ \\x\n",
        expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              http_request_method: GET
              url_path: /a
              http_response_status_code: 200
              attrs: {note: tab	here \ \x}
            log
              ts: 2026-11-20T12:00:00Z
              body: method	path	status	note
        "#]],
    );
}

#[test]
fn pairs_are_read_with_an_allow_list_and_the_rest_is_kept_together() {
    check_pipeline(
        "[parse]\nformat = \"key_value\"\nkeys = [\"src\", \"msg\", \"level\"]\n",
        "level=warn src=1.2.3.4 evil1=x evil2=\"y z\" msg='it\\'s'\nblocked by rule src=5.6.7.8 proto=tcp\nno pairs\n",
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              severity: warn
              body: it's
              attrs: {src: 1.2.3.4, weir.more: {"evil1":"x","evil2":"y z"}, weir.more_count: 2}
            log
              ts: 2026-11-20T12:00:00Z
              body: blocked by rule
              attrs: {src: 5.6.7.8, weir.more: {"proto":"tcp"}, weir.more_count: 1}
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: no `key=value` in the line
              raw: no pairs
        "#]],
    );
    check_pipeline(
        "[parse]\nformat = \"key_value\"\npair_separator = \";\"\nvalue_separator = \":\"\n",
        "a: 1; level: error ;b:\"x;y\"; c:\n",
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              severity: error
              body: a: 1; level: error ;b:"x;y"; c:
              attrs: {a: 1, b: x;y, c: }
        "#]],
    );
}

#[test]
fn redaction_reaches_columns_attributes_and_rejects() {
    let pipeline = "[parse]\nformat = \"json\"\n[[step]]\nredact = [\"email\", \"token\"]\nredact_pattern = 'K-\\d+'\n";
    let rows = pipeline_rows(
        pipeline,
        br#"{"method":"GET","path":"/u/bob@x.example","query":"token=abcdef","status":200,"by":"K-17"}"#,
    );
    assert_eq!(rows[0].get("url_path"), Some("/u/[email]"));
    assert_eq!(rows[0].get("url_query"), Some("token=[token]"));
    assert_eq!(rows[0].get("attrs.by"), Some("[redacted]"));
    let rows = pipeline_rows(pipeline, br#"{"by":"bob@x.example","password":"abcdef", torn K-17"#);
    assert_eq!(
        rows[0].get("raw"),
        Some(r#"{"by":"[email]","password":"[token]", torn [redacted]"#)
    );
}

#[test]
fn budget_of_names_holds_over_lines_and_is_reported() {
    use weir_tables::{LogFormat, Micros, Program};
    let source = crate::check::source(Program::Other, LogFormat::Json);
    let mut parser =
        crate::LineParser::new(&source, crate::StreamName { path: "/a", host: "web1" })
            .with_key_budget(10);
    let mut out = crate::ParsedRows::default();
    for chunk in 0..100 {
        let lines: String = (0..10)
            .map(|n| format!("{{\"msg\":\"m\",\"same\":\"1\",\"key{}\":\"v\"}}\n", chunk * 10 + n))
            .collect();
        parser.parse(lines.as_bytes(), 0, Micros(1_795_176_000_000_000), &mut out);
    }
    let report = parser.take_key_report().unwrap();
    assert_eq!((report.limit, report.over_count), (10, 991));
    assert_eq!(report.examples, ["key9", "key10", "key11"]);
    assert!(parser.take_key_report().is_none());
    let rows = crate::RowText::all(&out.finish());
    assert_eq!(rows.len(), 1000);
    let own: std::collections::HashSet<&str> =
        rows.iter().flat_map(|row| row.attrs.iter().map(|(key, _)| key.as_str())).collect();
    assert_eq!(own.len(), 10 + 2);
    let last = rows.iter().find(|row| row.get("attrs.weir.more") == Some(r#"{"key999":"v"}"#));
    assert_eq!(last.and_then(|row| row.get("attrs.weir.more_count")), Some("1"));
}

#[test]
fn times_that_cannot_be_are_not_believed() {
    check_pipeline(
        "[parse]\nformat = \"json\"\ntime_zone = \"America/New_York\"\n",
        r#"{"ts":"0001-01-01T00:00:00Z","msg":"zero of Go"}
{"ts":"2026-11-22T12:00:00Z","msg":"two days ahead"}
{"ts":"2026-11-20T12:01:30Z","msg":"90 s ahead"}
{"ts":"2026-11-20 07:00:00","msg":"there it is morning"}
"#,
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              body: zero of Go
              repair: implausible_time
              attrs: {weir.time: 0001-01-01T00:00:00.000000Z}
            log
              ts: 2026-11-20T12:00:00Z
              body: two days ahead
              repair: implausible_time
              attrs: {weir.time: 2026-11-22T12:00:00.000000Z}
            log
              ts: 2026-11-20T12:01:30Z
              body: 90 s ahead
            log
              ts: 2026-11-20T12:00:00Z
              body: there it is morning
        "#]],
    );
}

#[test]
fn wrong_files_are_refused_with_line_and_hint() {
    refused(
        "[parse]\nformat = \"gork\"\n",
        &expect![[r#"
        cannot use my.toml:2: there is no format `gork`
        hint: did you mean `grok`?"#]],
    );
    refused(
        "[prase]\nformat = \"json\"\n",
        &expect![[r#"
        cannot use my.toml:1: unknown key `prase` in the file
        hint: did you mean `parse`?"#]],
    );
    refused(
        "[parse]\nformat = \"grok\"\n",
        &expect![[r#"
            cannot use my.toml:1: 0 patterns; 1 to 100 are allowed
            hint: pattern = "%{COMBINEDAPACHELOG}", or a list that is tried from first to last"#]],
    );
    refused(
        "\n[parse]\nformat = \"grok\"\npattern = \"%{NUMBR}\"\n",
        &expect![[r#"
        cannot use my.toml:4: there is no pattern `NUMBR`
        hint: did you mean `NUMBER`?"#]],
    );
    refused(
        "[parse]\nformat = \"json\"\ncolumns = [\"a\"]\n",
        &expect![[r#"
        cannot use my.toml:3: `columns` has no effect in this format
        hint: `pattern` is for grok and regex, `columns` for csv, tsv and w3c, `keys` for key_value"#]],
    );
    refused(
        "[parse]\ntime_zone = \"Berlin\"\n",
        &expect![[r#"
        cannot use my.toml:2: `Berlin` is not a time zone
        hint: a name of the IANA database such as `Europe/Berlin`, `UTC`, or an offset such as `+02:00`"#]],
    );
    refused(
        "[parse]\ntime = \"%J\"\n",
        &expect![[r#"
        cannot use my.toml:2: `%J` is not a time format: strftime formatting failed: found unrecognized specifier directive `J`
        hint: use strptime (`%d/%m/%Y %H:%M:%S`) or Java (`dd/MM/yyyy HH:mm:ss`); common formats need none"#]],
    );
    refused(
        "[match]\nprogram = \"ngnix\"\n",
        &expect![[r#"
        cannot use my.toml:2: `ngnix` is not a program that writes logs
        hint: did you mean `nginx`?"#]],
    );
    refused(
        "[[step]]\ntag = \"x\"\n\n[[step]]\nwhen = \"a >\"\ntag = \"y\"\n",
        &expect![[r#"
        cannot use my.toml:5: the condition `a >` is wrong at the end: a text in quotes or a number is expected
        hint: such as `http_response_status_code >= 500 and url_path starts_with "/api"`"#]],
    );
    refused(
        "[[step]]\nwhen = \"a exists\"\n",
        &expect![[r#"
        cannot use my.toml:2: the step does nothing
        hint: add one of set, rename, drop, convert, tag, redact, redact_pattern, route, reject"#]],
    );
    refused(
        "[[step]]\nconvert = { a = \"int\" }\n",
        &expect![[r#"
        cannot use my.toml:2: there is no conversion `int`
        hint: integer, float, boolean, lowercase, uppercase, trim, ms_to_s, us_to_s, ns_to_s, bytes"#]],
    );
    refused(
        "[[step]]\nroute = \"logs\"\n",
        &expect![[r#"
        cannot use my.toml:2: lines cannot go to `logs`
        hint: did you mean `log`?"#]],
    );
    refused(
        "[[step]]\nredact = [\"mail\"]\n",
        &expect![[r#"
        cannot use my.toml:2: `mail` cannot be redacted
        hint: did you mean `email`?"#]],
    );
    refused(
        "[[step]]\nset = \"a\"\n",
        &expect![[r#"cannot use my.toml:2: `set` must be names with texts, such as { a = "b" }"#]],
    );
    refused(
        "[parse\n",
        &expect![[r#"
        cannot use my.toml:1: unclosed table, expected `]`
        hint: the file is TOML: [section], then key = value"#]],
    );
}

#[test]
fn globs_fit_paths() {
    assert!(
        super::is_match("/var/log/*.log", b"/var/log/a.log")
            && super::is_match("/a", b"/a")
            && super::is_match("**", b"/a/b")
    );
    assert!(
        !super::is_match("/var/log/*.log", b"/var/log/x/a.log")
            && !super::is_match("/a", b"/ab")
            && !super::is_match("/?", b"//")
    );
    assert!(super::is_match("/srv/**/x/*.log", b"/srv/a/x/b/x/c.log"));
    assert!(super::is_match("/var/log/auth.log*", b"/var/log/auth.log.1"));
    assert!(!super::is_match("/srv/**/x/*.log", b"/srv/a/y/c.log"));
}
