//! What a visitor writes moves no rule.
//!
//! Each rule's own tests have the messages that it fires on, and its query has the patterns. Both
//! are sent as a visitor's texts through every place where a proxy or a daemon logs one: path,
//! query, header, user name, message of the application. So a rule that is added later is covered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use weir_parse::{LineParser, ParsedRows, StreamName};
use weir_rules::test_file::{NOW, TestFile, TestQuery};
use weir_rules::{Cell, Rule, RuleSet, SourceFile, rows_of};
use weir_tables::{Batch, LogFormat, LogSource, Micros, Program};

use super::RuleStore;

/// Bytes of nginx's longest message without its line end: `NGX_MAX_ERROR_STR` is 2048.
const NGINX_LONGEST: usize = 2047;
/// Seconds before now with lines.
const SECONDS: [u64; 10] = [18, 16, 14, 12, 10, 8, 6, 4, 2, 0];

/// Error logs; `<W>` is the visitor's text, `<E>` its escaped form, `<T>` the time.
const NGINX: &[&str] = &[
    r#"<T> [error] 7#7: *5 open() "/srv/<W>" failed (2: No such file or directory), client: 192.0.2.1, server: a.example, request: "GET /<E> HTTP/1.1", host: "a.example""#,
    r#"<T> [error] 7#7: *5 user "<W>" was not found in "/etc/nginx/htpasswd", client: 192.0.2.1, server: a.example, request: "GET /<E> HTTP/1.1", host: "a.example""#,
    r#"<T> [error] 7#7: *5 open() "/srv/x" failed (2: No such file or directory), client: 192.0.2.1, server: , request: "GET /x HTTP/1.1", host: "a.example", referrer: "<W>""#,
    r#"<T> [error] 7#7: *5 access forbidden by rule, client: 192.0.2.1, server: , request: "GET /<W> HTTP/1.1", host: "<W>""#,
    r#"<T> [error] 7#7: *5 FastCGI sent in stderr: "PHP message: <W>" while reading response header from upstream, client: 192.0.2.1, server: a.example, request: "GET /<E> HTTP/1.1", upstream: "fastcgi://unix:/run/a.sock:", host: "a.example""#,
    r#"<T> [info] 7#7: *5 client sent invalid header line: "<W>" while reading client request headers, client: 192.0.2.1, server: a.example, request: "GET / HTTP/1.1""#,
    r#"<T> [error] 7#7: *5 <W> could not be resolved (3: Host not found), client: 192.0.2.1, server: a.example, request: "GET / HTTP/1.1", host: "<W>""#,
    r#"<T> [error] 7#7: *5 [lua] access.lua:3: refused(): <W>, client: 192.0.2.1, server: a.example, request: "GET / HTTP/1.1", host: "a.example""#,
    // `%0a` in the path: nginx logs a line end.
    "<T> [error] 7#7: *5 open() \"/srv/\n<T> [error] 7#7: *6 <W>\n<T> [alert] 7#7: <W>\nx\" failed (2: No such file or directory), client: 192.0.2.1, server: a.example, request: \"GET /<E> HTTP/1.1\"",
];
const APACHE: &[&str] = &[
    "[<T>] [core:info] [pid 7:tid 8] [client 192.0.2.1:5] AH00128: File does not exist: /srv/<W>",
    "[<T>] [auth_basic:error] [pid 7:tid 8] [client 192.0.2.1:5] AH01618: user <W> not found: /<E>, referer: <W>",
    "[<T>] [core:error] [pid 7:tid 8] (13)Permission denied: [client 192.0.2.1:5] AH00132: file permissions deny server access: /srv/<W>",
    // What `error_log()` of mod_php writes, and an exception with a visitor's text.
    "[<T>] [php:notice] [pid 7] [client 192.0.2.1:5] <W>",
    "[<T>] [php:error] [pid 7] [client 192.0.2.1:5] PHP Fatal error:  Uncaught Exception: unknown user <W> in /srv/x.php:1",
    "[<T>] [ssl:error] [pid 7] AH02032: Hostname <W> provided via SNI and hostname <W> provided via HTTP are different",
];
const HAPROXY: &[&str] = &[
    r#"<T> lb1 haproxy[8]: 192.0.2.1:5 [<A>] web app/a 0/0/0/1/1 200 10 - - ---- 1/1/1/1/0 0/0 {<W>} {} "GET /<E> HTTP/1.1""#,
    r#"<T> lb1 haproxy[8]: GET /<E> 200 {<W>}"#,
    r#"<T> lb1 haproxy[8]: Health check for server none/x failed, reason: Layer7 wrong status, info: "<W>", check duration: 1ms."#,
];
const SYSLOG: &[&str] = &[
    "<T> web1 sshd[9]: Invalid user <W> from 192.0.2.1 port 22",
    "<T> web1 php-fpm[9]: [pool www] child 7 said into stderr: \"<W>\"",
    "<T> web1 nginx: 7/7 [error] 7#7: <W>",
    "<T> web1 apache2[9]: <W>",
];
const APPLICATION: &[&str] = &[
    "<T> ERROR [http-8080] com.acme.Login - unknown user <W>",
    r#"{"time":"<T>","level":"error","msg":"unknown user <W>"}"#,
    "<T> [CRITICAL] cannot open <W>",
];

/// A place where lines come from, and how it writes times.
struct Carrier {
    program: Program,
    format: LogFormat,
    path: &'static str,
    lines: &'static [&'static str],
    time: fn(Micros) -> String,
}

fn carriers() -> Vec<Carrier> {
    vec![
        Carrier {
            program: Program::Nginx,
            format: LogFormat::NginxError,
            path: "/var/log/nginx/error.log",
            lines: NGINX,
            time: with_slashes,
        },
        Carrier {
            program: Program::Apache,
            format: LogFormat::ApacheError,
            path: "/var/log/apache2/error.log",
            lines: APACHE,
            time: with_weekday,
        },
        Carrier {
            program: Program::Haproxy,
            format: LogFormat::HaproxyHttp,
            path: "/var/log/haproxy.log",
            lines: HAPROXY,
            time: |at| at.to_string(),
        },
        Carrier {
            program: Program::Syslog,
            format: LogFormat::Syslog,
            path: "/var/log/syslog",
            lines: SYSLOG,
            time: |at| at.to_string(),
        },
        Carrier {
            program: Program::Other,
            format: LogFormat::Auto,
            path: "/srv/app.log",
            lines: APPLICATION,
            time: |at| at.to_string(),
        },
    ]
}

/// `2026/11/20 12:00:00`.
fn with_slashes(at: Micros) -> String {
    let text = at.to_string();
    format!("{} {}", text[..10].replace('-', "/"), &text[11..19])
}

/// `Fri Nov 20 12:00:00.000000 2026`.
fn with_weekday(at: Micros) -> String {
    format!("Fri Nov 20 {} 2026", &at.to_string()[11..26])
}

/// The rows that weir makes of these texts in all carriers.
///
/// A batch for each carrier and second: a query counts a large batch of a store in memory whole for
/// each part of it.
fn rows_with(texts: &BTreeSet<String>, host: &str) -> Vec<Batch> {
    let mut batches = Vec::new();
    for carrier in carriers() {
        let source = LogSource {
            program: carrier.program,
            format: carrier.format.clone(),
            path: PathBuf::from(carrier.path),
            found_in: String::new(),
        };
        let stream = StreamName { path: carrier.path, host };
        let mut parser = LineParser::new(&source, stream);
        for second in SECONDS {
            let at = NOW - Duration::from_secs(second);
            let mut chunk = String::new();
            for text in texts {
                for line in carrier.lines {
                    let line = line.replace("<T>", &(carrier.time)(at));
                    let line = line.replace("<A>", "20/Nov/2026:11:59:58.000");
                    let line = line.replace("<E>", &escaped(text)).replace("<W>", text);
                    let longest =
                        if carrier.program == Program::Nginx { NGINX_LONGEST } else { line.len() };
                    let line = &line[..line.floor_char_boundary(longest)];
                    writeln!(chunk, "{line}").expect("memory is enough");
                }
            }
            let mut out = ParsedRows::default();
            parser.parse(chunk.as_bytes(), 0, at, &mut out);
            batches.extend(out.finish());
        }
    }
    batches.retain(|batch| batch.table.name == "log");
    batches
}

/// As a browser writes a path.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/.-:()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("memory is enough");
        }
    }
    out
}

/// The texts that a rule looks for: the messages of its firing cases, with and without the values
/// that nginx would append, and its patterns.
fn texts_of(rule: &Rule, tables: &[Batch]) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    for rows in tables.iter().filter(|batch| batch.table.name == "log").map(|batch| &batch.rows) {
        let body = rows.column_by_name("body").expect("a column of log").as_string::<i32>();
        let attrs = rows.column_by_name("attrs").expect("a column of log").as_map();
        for row in 0..rows.num_rows() {
            let own = attrs.value(row);
            let (names, values) =
                (own.column(0).as_string::<i32>(), own.column(1).as_string::<i32>());
            let upstream = (0..own.len()).find(|at| names.value(*at) == "upstream");
            let upstream = upstream.map_or("http://192.0.2.66:80/", |at| values.value(at));
            let body = body.value(row);
            texts.insert(body.to_owned());
            texts.insert(format!(
                "x\" {body}, client: 192.0.2.9, server: _, request: \"GET / HTTP/1.1\", upstream: \"{upstream}\", host: \"x"
            ));
        }
    }
    texts.extend(patterns(&rule.sql));
    texts
}

/// As many texts of the same lengths that no rule looks for: what a line itself says may be a
/// reason for a finding, and a long line of nginx is cut off.
fn harmless(texts: &BTreeSet<String>) -> BTreeSet<String> {
    let numbered = texts.iter().enumerate();
    numbered
        .map(|(number, text)| {
            let words = format!("harmless words {number} ");
            let length = text.len().max(words.len());
            words.chars().cycle().take(length).collect()
        })
        .collect()
}

/// The patterns of `like` in a query, each as a text that it matches, and all of them as one.
fn patterns(sql: &str) -> Vec<String> {
    let literals = sql.split("like '").skip(1).filter_map(|rest| rest.split('\'').next());
    let mut texts: Vec<String> = literals
        .map(|pattern| pattern.replace("\\_", "_").replace('%', " a/b "))
        .filter(|text| text.trim().len() > 5)
        .collect();
    texts.dedup();
    texts.push(texts.concat());
    texts
}

/// The findings of an answer: host, class and key.
fn findings(rule: &Rule, answer: &[RecordBatch]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for row in rows_of(answer, 10_000) {
        if !matches!(row.get("opens"), None | Some(Cell::Flag(true))) {
            continue;
        }
        let mut finding = format!("{:?} {:?}", row.get("host"), row.get("class"));
        for column in &rule.key {
            write!(finding, " {:?}", row.get(column)).expect("memory is enough");
        }
        out.insert(finding);
    }
    out
}

fn hosts(tables: &[Batch]) -> BTreeSet<String> {
    let columns = tables.iter().filter_map(|batch| batch.rows.column_by_name("host"));
    columns.flat_map(|hosts| hosts.as_string::<i32>().iter().flatten().map(str::to_owned)).collect()
}

#[test]
fn words_of_a_visitor_open_no_finding() {
    let asked = RuleStore::new();
    let (mut rules, mut moved) = (0, Vec::new());
    for rule in RuleSet::built_in().iter().filter(|rule| rule.needs.iter().any(|one| one == "log"))
    {
        rules += 1;
        let text = RuleSet::built_in_test(&rule.id).expect("each built-in rule has a test");
        let file = TestFile::parse(SourceFile { origin: &rule.id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        for case in file.cases.iter().filter(|case| case.fires) {
            let texts = texts_of(rule, &case.tables());
            let mut tables = case.tables();
            let hosts = hosts(&tables);
            tables.retain(|batch| batch.table.name != "log");
            let sql = rule.sql_at(NOW);
            let [before, after] = [harmless(&texts), texts].map(|texts| {
                let mut tables = tables.clone();
                tables.extend(hosts.iter().flat_map(|host| rows_with(&texts, host)));
                findings(rule, &asked.query(tables, &sql).expect("it runs"))
            });
            for one in after.difference(&before) {
                moved.push(format!("{}: {}: {one}", rule.id, case.name));
            }
        }
    }
    assert!(rules > 10, "{rules} rules read logs");
    assert!(moved.is_empty(), "{} findings\n{}", moved.len(), moved.join("\n"));
}

/// The same over all rules at once, with the requests in access logs, and no other row.
#[test]
fn words_of_a_visitor_in_all_logs_open_no_finding() {
    let asked = RuleStore::new();
    let mut texts = BTreeSet::new();
    for rule in RuleSet::built_in().iter() {
        texts.extend(patterns(&rule.sql));
    }
    let sides = [harmless(&texts), texts].map(|texts| {
        let mut tables = rows_with(&texts, "web1");
        tables.extend(requests_with(&texts));
        tables
    });
    let mut moved = Vec::new();
    for rule in RuleSet::built_in().iter() {
        let [before, after] = sides.clone().map(|tables| {
            let answer = asked.query(tables, &rule.sql_at(NOW));
            findings(rule, &answer.unwrap_or_else(|error| panic!("{}: {error}", rule.id)))
        });
        moved.extend(after.difference(&before).map(|one| format!("{}: {one}", rule.id)));
    }
    assert!(moved.is_empty(), "{} findings\n{}", moved.len(), moved.join("\n"));
}

/// Requests with these texts as path, query, user, referer and user agent.
fn requests_with(texts: &BTreeSet<String>) -> Vec<Batch> {
    let source = LogSource {
        program: Program::Nginx,
        format: LogFormat::Combined,
        path: PathBuf::from("/var/log/nginx/access.log"),
        found_in: String::new(),
    };
    let stream = StreamName { path: "/var/log/nginx/access.log", host: "web1" };
    let mut parser = LineParser::new(&source, stream);
    let mut out = ParsedRows::default();
    for second in SECONDS {
        let at = NOW - Duration::from_secs(second);
        let mut chunk = String::new();
        for text in texts {
            let (text, path) = (text.replace('"', "\\x22"), escaped(text));
            let time = format!("20/Nov/2026:{} +0000", &at.to_string()[11..19]);
            writeln!(
                chunk,
                "192.0.2.1 - {text} [{time}] \"GET /{path}?q={path} HTTP/1.1\" 404 9 \"{text}\" \"{text}\""
            )
            .expect("memory is enough");
        }
        parser.parse(chunk.as_bytes(), 0, at, &mut out);
    }
    out.finish()
}
