//! What holds for every format and any bytes: one row a line, no panic, JSON read as other readers
//! do.

mod first_line;
mod hostile;
mod kinds;
mod programs;
mod recorded;
mod reports;

use std::collections::BTreeMap;

use arbtest::arbitrary::{self, Unstructured};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, StringArray};
use serde_json::Value;
use weir_parse::{LineParser, ParsedRows, StreamName, Zone};
use weir_tables::{Batch, JsonEscape, LogFormat, LogSource, Micros, Program};

const OBSERVED: Micros = Micros(1_795_176_000_000_000);

fn nginx(template: &str) -> LogFormat {
    LogFormat::NginxTemplate { template: template.into(), escape: JsonEscape::Default }
}

fn formats() -> Vec<LogFormat> {
    vec![
        nginx(r#"$remote_addr - [$time_local] "$request" $status $upstream_addr $request_time"#),
        nginx(r#"{"a":"$request","b":$status}"#),
        LogFormat::ApacheTemplate { template: r#"%h %t \"%r\" %>s %b \"%{Referer}i\""#.into() },
        LogFormat::Combined,
        LogFormat::Json,
        LogFormat::HaproxyHttp,
        LogFormat::Syslog,
        LogFormat::Journal,
        LogFormat::NginxError,
        LogFormat::ApacheError,
        LogFormat::Auto,
    ]
}

fn parser(format: LogFormat) -> LineParser {
    let source =
        LogSource { path: "/a".into(), program: Program::Other, format, found_in: "test".into() };
    LineParser::new(&source, StreamName { path: "/a", host: "web1" })
}

fn parse(format: LogFormat, bytes: &[u8]) -> (Vec<Batch>, u64) {
    let mut out = ParsedRows::default();
    parser(format).parse(bytes, 1000, OBSERVED, &mut out);
    let lines = out.lines;
    (out.finish(), lines)
}

fn texts<'a>(rows: &'a RecordBatch, column: &str) -> &'a StringArray {
    rows.column_by_name(column).expect("a column of the spec").as_string::<i32>()
}

/// Offsets of the lines that are not blank, in order.
fn expected_offsets(bytes: &[u8]) -> Vec<i64> {
    let mut at = 1000;
    let mut offsets = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !line.trim_ascii().is_empty() {
            offsets.push(at);
        }
        at += i64::try_from(line.len()).expect("short");
    }
    offsets
}

fn row_offsets(batches: &[Batch]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for batch in batches {
        let column = batch.rows.column_by_name("source_offset").expect("in every table");
        offsets.extend(column.as_primitive::<Int64Type>().iter().flatten());
    }
    offsets.sort_unstable();
    offsets
}

/// Pieces of real lines between random bytes get deeper into the formats than random bytes alone.
const PIECES: &[&str] = &[
    "\n",
    "\r\n",
    " ",
    "\"",
    "\\",
    "\\x22",
    "\\xFF",
    "\\u00e9",
    "\\ud83d",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "=",
    "{\"a\":\"b\"",
    "\"status\":200",
    "\"path\":\"/x?y\"",
    "\"method\":\"GET\"",
    "\"msg\":\"m\"",
    ",\"c\":{",
    "\"d\":[1,",
    "1.2.3.4 - - ",
    "[20/Nov/2026:12:00:00 +0000] ",
    "\"GET /a?b HTTP/1.1\" ",
    "200 12 ",
    "\"-\" \"curl\"",
    "<34>",
    "1 ",
    "Nov 20 12:00:00 ",
    "web-01 ",
    "sshd[1]: ",
    "[x@1 y=\"z\"]",
    "2026-11-20T12:00:00.123+01:00 ",
    "10.1.2.3:33317 [20/Nov/2026:12:00:00.000] ",
    "web~ app/a ",
    "0/0/1/-1/3 ",
    "- - ---- ",
    "1/1/1/1/+0 ",
    "0/0 ",
    "{x|y} ",
    "2026/11/20 12:00:00 ",
    "[error] ",
    "12#34: ",
    "*5 ",
    ", client: ",
    ", request: \"",
    "[Fri Nov 20 12:00:00.1 2026] ",
    "[core:error] ",
    "[pid 1:tid 2] ",
    "E1120 12:00:00.1 1 a.go:1] ",
    "level=warn ",
    "msg=\"",
    "a=b ",
    "1795176000.123",
    "CEF:0|a|b\\||1|2|n|5|",
    "LEEF:2.0|a|b|1|2|x5E|",
    "src=10.0.0.1 ",
    "cs1Label=x cs1=y\\= ",
    "devTimeFormat=yyyy-MM-dd\tdevTime=",
    "firewall,info in: in:a out:b, proto TCP, 10.0.0.1:1->[::1]:2, ",
    "<Event xmlns='x'><System><Level>2</Level>",
    "<TimeCreated SystemTime='2026-11-20T12:00:00Z'/></System>",
    "<EventData><Data Name='a'>&lt;&#x41;</Data>",
    "</EventData></Event>",
    "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n",
    "#Fields: time,x\n#Date: 2026-11-20\n",
    "2026-11-20 11:00:00 10.0.0.4 GET / 200",
    "2026-11-20 11:00:00 W3SVC1 10.0.0.4 GET /a - 443 - 10.0.0.1 curl a=1 - www 200 0 0 1 2 3\n",
    "#Fields: date time x-edge-location sc-status\n",
    "2026-11-20\t11:00:00\tLAX1-P1\t392\t10.0.0.1\tGET\td.example\t/\t200\t",
    "(2026-11-20 11:00:00): [be[a]] [f] (0x0020): ",
    "\"elapsed_time\":5,\"request_method\":\"GET\",\"http_user_agent\":\"a\"",
    "\"severityNumber\":9,",
    "\t",
    "\u{e9}",
];

fn hostile_bytes(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=60)? {
        if u.ratio(4, 5)? {
            bytes.extend_from_slice(u.choose(PIECES)?.as_bytes());
        } else {
            bytes.push(u.arbitrary()?);
        }
    }
    Ok(bytes)
}

#[test]
fn any_bytes_give_one_row_a_line_in_every_format() {
    let formats = formats();
    arbtest::arbtest(move |u| {
        let bytes = hostile_bytes(u)?;
        for format in &formats {
            let (batches, lines) = parse(format.clone(), &bytes);
            assert_eq!(row_offsets(&batches), expected_offsets(&bytes), "{format:?}");
            assert_eq!(lines, bytes.split_inclusive(|byte| *byte == b'\n').count() as u64);
        }
        Ok(())
    })
    .budget_ms(hostile::budget_ms());
}

#[test]
fn any_template_compiles_and_reads() {
    arbtest::arbtest(|u| {
        let template = String::from_utf8_lossy(&hostile_bytes(u)?).into_owned()
            + u.choose(&["$status", "%>s", "%", "$", "${a", "%{x"])?;
        let bytes = hostile_bytes(u)?;
        for format in [nginx(&template), LogFormat::ApacheTemplate { template: template.clone() }] {
            assert_eq!(
                row_offsets(&parse(format, &bytes).0),
                expected_offsets(&bytes),
                "{template}"
            );
        }
        Ok(())
    })
    .budget_ms(hostile::budget_ms());
}

fn json_value(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=if depth < 4 { 6 } else { 4 })? {
        0 => Value::Null,
        1 => Value::from(u.arbitrary::<bool>()?),
        2 => Value::from(u.arbitrary::<i64>()?),
        3 => Value::from(f64::from(u.arbitrary::<i16>()?) / 8.0),
        4 => Value::from(u.arbitrary::<String>()?),
        5 => (0..u.int_in_range(0..=3)?)
            .map(|_| json_value(u, depth + 1))
            .collect::<Result<_, _>>()?,
        _ => Value::Object(json_object(u, depth + 1)?),
    })
}

/// Keys begin with `k`, so that none has a column.
fn json_object(
    u: &mut Unstructured<'_>,
    depth: usize,
) -> arbitrary::Result<serde_json::Map<String, Value>> {
    let mut object = serde_json::Map::new();
    for number in 0..u.int_in_range(0..=4)? {
        let tail = if u.ratio(1, 4)? { u.arbitrary::<String>()? } else { String::new() };
        object.insert(format!("k{number}{tail}"), json_value(u, depth)?);
    }
    Ok(object)
}

/// Expected fields of an object: dotted keys to texts, arrays as JSON, no nulls.
fn flat(prefix: &str, object: &serde_json::Map<String, Value>, out: &mut BTreeMap<String, String>) {
    for (key, value) in object {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() => drop(out.insert(path, "{}".into())),
            Value::Object(inner) => flat(&path, inner, out),
            Value::String(text) => drop(out.insert(path, text.clone())),
            other => drop(out.insert(path, other.to_string())),
        }
    }
}

fn attrs(rows: &RecordBatch, row: usize) -> BTreeMap<String, String> {
    let map = rows.column_by_name("attrs").expect("in the spec").as_map().value(row);
    let (keys, values) = (map.column(0).as_string::<i32>(), map.column(1).as_string::<i32>());
    keys.iter()
        .zip(values)
        .map(|(k, v)| (k.expect("no NULL").to_owned(), v.expect("no NULL").to_owned()))
        .collect()
}

#[test]
fn valid_json_is_read_as_other_readers_read_it() {
    arbtest::arbtest(|u| {
        let object = json_object(u, 0)?;
        let mut line = serde_json::to_string(&object).unwrap();
        if u.arbitrary()? {
            line = line.replace(":{", " : { ").replace(",\"k", " , \"k");
        }
        // Spaces inside of strings change too, so the changed line is what both read.
        let object: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
        let mut expected = BTreeMap::new();
        flat("", &object, &mut expected);
        let (batches, _) = parse(LogFormat::Json, line.as_bytes());
        assert_eq!(batches[0].table.name, "log", "{line}");
        let mut found = attrs(&batches[0].rows, 0);
        for value in found.values_mut().chain(expected.values_mut()) {
            if let Ok(Value::Array(array)) = serde_json::from_str(value) {
                *value = Value::Array(array).to_string();
            }
        }
        assert_eq!(found, expected, "{line}");
        assert!(batches[0].rows.column_by_name("repair").unwrap().is_null(0), "{line}");
        Ok(())
    })
    .budget_ms(hostile::budget_ms());
}

#[test]
fn lines_cut_anywhere_are_rows_or_rejects() {
    let line =
        r#"{"a":"x\u00e9\x22y","b":[1,{"c":"]"}],"status":200,"method":"GET","d":{"e":null}}"#;
    for length in 1..line.len() {
        let (batches, _) = parse(LogFormat::Json, &line.as_bytes()[..length]);
        assert_eq!(batches[0].table.name, "reject", "{}", &line[..length]);
        assert_eq!(texts(&batches[0].rows, "raw").value(0), &line[..length]);
    }
    assert_eq!(parse(LogFormat::Json, line.as_bytes()).0[0].table.name, "request");
}

#[test]
fn hundred_thousand_keys_stay_within_the_budget_and_lose_nothing() {
    let members: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":{n}")).collect();
    let line = format!("{{\"msg\":\"many\",{}}}", members[..60_000].join(","));
    let (batches, _) = parse(LogFormat::Json, line.as_bytes());
    let attrs = attrs(&batches[0].rows, 0);
    assert_eq!(attrs.len(), 258);
    assert_eq!(attrs["255"], "255");
    assert_eq!(attrs["weir.more_count"], (60_000 - 256).to_string());
    let more: serde_json::Map<String, Value> = serde_json::from_str(&attrs["weir.more"]).unwrap();
    assert_eq!(more["59999"], "59999");
    let line = format!("{{{}}}", members.join(","));
    let (batches, _) = parse(LogFormat::Json, line.as_bytes());
    assert_eq!(texts(&batches[0].rows, "reason").value(0), "too_long");
}

#[test]
fn keys_that_are_all_equal_cost_no_more_than_others() {
    let line = format!("{{\"msg\":\"many\",{}}}", vec!["\"a\":1"; 100_000].join(","));
    let (batches, _) = parse(LogFormat::Json, line.as_bytes());
    let attrs = attrs(&batches[0].rows, 0);
    assert_eq!((attrs["a"].as_str(), attrs["a#256"].as_str(), attrs.len()), ("1", "1", 258));
}

#[test]
fn long_key_with_many_members_is_not_copied_into_each() {
    let members: Vec<String> = (0..40_000).map(|n| format!("\"{n}\":1")).collect();
    let line = format!("{{\"msg\":\"m\",\"{}\":{{{}}}}}", "k".repeat(500_000), members.join(","));
    let (batches, _) = parse(LogFormat::Json, line.as_bytes());
    let attrs = attrs(&batches[0].rows, 0);
    assert_eq!(attrs.keys().next().map(String::len), Some(128 + 2));
    assert_eq!(attrs.len(), 258);
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| {
        format!("{{\"msg\":\"m\",\"a\":{}1{}}}", "{\"b\":".repeat(depth), "}".repeat(depth))
    };
    let array = |depth: usize| {
        format!("{{\"msg\":\"m\",\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth))
    };
    for (line, table) in [
        (nested(63), "log"),
        (nested(64), "reject"),
        (nested(100_000), "reject"),
        (array(64), "log"),
        (array(65), "reject"),
        (array(400_000), "reject"),
    ] {
        let (batches, _) = parse(LogFormat::Json, line.as_bytes());
        assert_eq!(batches[0].table.name, table);
        if table == "reject" {
            let detail = texts(&batches[0].rows, "detail").value(0).to_owned();
            assert!(detail.starts_with("nested deeper than 64"), "{detail}");
        }
    }
}

#[test]
fn longest_line_is_read_and_a_longer_one_rejected_short() {
    let line = |length: usize| format!("{{\"msg\":\"{}\"}}\n", "x".repeat(length - 10));
    let bytes = line(1 << 20) + &line((1 << 20) + 1);
    let (batches, _) = parse(LogFormat::Json, bytes.as_bytes());
    assert_eq!(texts(&batches[0].rows, "body").value(0).len(), (1 << 20) - 10);
    assert_eq!(texts(&batches[1].rows, "reason").value(0), "too_long");
    assert_eq!(texts(&batches[1].rows, "raw").value(0).len(), 4096);
}

#[test]
fn nul_bytes_and_carriage_returns_do_no_harm() {
    for format in formats() {
        let (batches, lines) = parse(format.clone(), b"\0\0\0\r\n\r\n  \t\r\n{\"a\":\"\0\"}\r\n\0");
        assert_eq!((row_offsets(&batches).len(), lines), (3, 5), "{format:?}");
    }
    let (batches, _) = parse(LogFormat::Json, b"{\"msg\":\"a\"}\r\n{\"msg\":\"b\"}");
    let bodies: Vec<_> = texts(&batches[0].rows, "body").iter().flatten().collect();
    assert_eq!(bodies, ["a", "b"]);
}

#[test]
fn parser_may_move_to_another_thread() {
    let mut parser = parser(LogFormat::Auto);
    let rows = std::thread::spawn(move || {
        let mut out = ParsedRows::default();
        parser.parse(b"{\"msg\":\"a\"}\nb\n", 0, OBSERVED, &mut out);
        out
    });
    assert_eq!(rows.join().expect("no panic").row_count(), 2);
}

#[test]
fn zone_moves_times_without_zone_only() {
    let source = LogSource {
        path: "/a".into(),
        program: Program::Syslog,
        format: LogFormat::Syslog,
        found_in: "test".into(),
    };
    let mut out = ParsedRows::default();
    let lines = b"Nov 20 12:00:00 h a: b\n2026-11-20T12:00:00+00:00 h a: b\n";
    LineParser::new(&source, StreamName { path: "/a", host: "h" })
        .with_zone(Zone::parse("+01:00").expect("a zone"))
        .parse(lines, 0, OBSERVED, &mut out);
    let batches = out.finish();
    let ts =
        batches[0].rows.column(0).as_primitive::<arrow_array::types::TimestampMicrosecondType>();
    assert_eq!(ts.value(0), OBSERVED.0 - 3_600_000_000);
    assert_eq!(ts.value(1), OBSERVED.0);
}

#[test]
fn layout_learnt_from_one_line_does_not_change_the_next() {
    let lines = [
        r#"{"method":"GET","path":"/1","status":200,"x":"1"}"#,
        r#"{"path":"/2","method":"GET","status":201}"#,
        r#"{"x":"3","status":202,"method":"GET"  ,  "path" : "/3"}"#,
        r#"{"metho":"GET","pat":"/4","msg":"no request"}"#,
        r#"{"method":"GET","path":"/5","status":204,"x":"5"}"#,
    ];
    let (together, _) = parse(LogFormat::Json, lines.join("\n").as_bytes());
    let paths: Vec<_> = texts(&together[0].rows, "url_path").iter().flatten().collect();
    assert_eq!(paths, ["/1", "/2", "/3", "/5"]);
    assert_eq!(texts(&together[1].rows, "body").value(0), "no request");
}

#[test]
fn mark_of_utf_16_in_the_middle_of_a_file_takes_no_line() {
    for line in [&b"\xfe\xff,"[..], b"\xff\xfe", b"\xfe\xff", b"\xff\xfea", b"\0a\0b\0c\0d\0e!"] {
        let bytes = [b"a\n", line, b"\nb\n"].concat();
        for format in formats() {
            let offsets = row_offsets(&parse(format.clone(), &bytes).0);
            assert_eq!(offsets, expected_offsets(&bytes), "{format:?} {}", line.escape_ascii());
        }
    }
}
