//! What patterns match, what they cost, and how wrong ones are refused.

use expect_test::{Expect, expect};

use super::engine::{MAX_STEPS, SearchOutcome};
use super::{Pattern, PatternLibrary};
use crate::check::check_pipeline;

fn grok(written: &str) -> Pattern {
    Pattern::grok(&PatternLibrary::built_in(), written).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(written: &str, expected: &Expect) {
    let error = Pattern::grok(&PatternLibrary::built_in(), written).unwrap_err();
    expected.assert_eq(&format!("{}\nhint: {}", error.message, error.hint));
}

/// How far a pattern matches, and the steps that it took besides those of the automaton.
fn search(pattern: &Pattern, line: &str) -> (SearchOutcome, usize) {
    let mut steps_left = MAX_STEPS;
    let outcome = pattern.search(line, &mut pattern.scratch(), &mut steps_left);
    (outcome, MAX_STEPS - steps_left)
}

#[test]
fn combined_lines_fill_the_same_columns_as_the_format_of_that_name() {
    check_pipeline(
        "[parse]\nformat = \"grok\"\npattern = \"%{COMBINEDAPACHELOG}\"\n",
        r#"1.2.3.4 - bob [20/Nov/2026:12:00:00 +0100] "GET /a?b=c HTTP/1.1" 200 612 "https://r.example/" "a \"b\" c" "9.9.9.9"
::1 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.0" 304 - "-" "-"
1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTT
"#,
        expect![[r#"
            request
              ts: 2026-11-20T11:00:00Z
              client_address: 1.2.3.4
              http_request_method: GET
              url_path: /a
              url_query: b=c
              network_protocol_version: 1.1
              http_response_status_code: 200
              response_body_bytes: 612
              user_agent_original: a \"b\" c
              http_request_header_referer: https://r.example/
              attrs: {remote_user: bob, rest: "9.9.9.9"}
            request
              ts: 2026-11-20T12:00:00Z
              client_address: ::1
              http_request_method: GET
              url_path: /
              network_protocol_version: 1.0
              http_response_status_code: 304
            reject
              ts: 2026-11-20T12:00:00Z
              reason: no_match
              detail: the line ends at byte 51, more is expected
              raw: 1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTT
        "#]],
    );
}

#[test]
fn names_of_the_classic_patterns_and_of_ecs_find_their_columns() {
    check_pipeline(
        r#"
[patterns]
CLASSIC = '%{IPORHOST:clientip} %{USER:ident} %{USER:auth} \[%{HTTPDATE:timestamp}\] "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" %{NUMBER:response} (?:%{NUMBER:bytes}|-)'
[parse]
format = "grok"
pattern = ["%{CLASSIC}", "%{IP:[source][address]} %{WORD:http.request.method} %{URIPATHPARAM:url.original} %{INT:http.response.status_code:int} %{NUMBER:[event][took]:float}"]
"#,
        "1.2.3.4 - bob [20/Nov/2026:12:00:00 +0000] \"GET /a?b HTTP/1.1\" 200 -\n10.0.0.1 GET /x?y=z 0404 +1.50\n",
        expect![[r#"
            request
              ts: 2026-11-20T12:00:00Z
              client_address: 1.2.3.4
              http_request_method: GET
              url_path: /a
              url_query: b
              network_protocol_version: 1.1
              http_response_status_code: 200
              attrs: {auth: bob}
            request
              ts: 2026-11-20T12:00:00Z
              client_address: 10.0.0.1
              http_request_method: GET
              url_path: /x
              url_query: y=z
              http_response_status_code: 404
              attrs: {event.took: 1.50}
        "#]],
    );
}

#[test]
fn named_groups_and_other_languages_are_taken() {
    check_pipeline(
        "[parse]\nformat = \"regex\"\npattern = '(?<user>(?>[a-zäöü]+)): (?P<message>.*)'\nanywhere = true\n",
        "-- käthe: grüß dich\n",
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              body: grüß dich
              attrs: {before: -- , user: käthe}
        "#]],
    );
}

#[test]
fn places_inside_of_characters_do_no_harm() {
    check_pipeline(
        "[parse]\nformat = \"regex\"\npattern = '(?<a>.)(?<b>.)(?<c>.*)'\n",
        "éa€\n",
        expect![[r#"
            log
              ts: 2026-11-20T12:00:00Z
              body: éa€
              attrs: {a: , b: é, c: a€}
        "#]],
    );
}

#[test]
fn wrong_patterns_are_refused_with_a_hint() {
    refused(
        "%{NUMBR:x}",
        &expect![[r#"
            there is no pattern `NUMBR`
            hint: did you mean `NUMBER`?"#]],
    );
    refused(
        "%{NUMBER:x",
        &expect![[r#"
            `%{NUMBER:x` begins with `%{` and has no `}`
            hint: write %{NAME}, %{NAME:field} or %{NAME:field:int}; a plain `%{` is `%\{`"#]],
    );
    refused(
        "%{NUMBER:x:decimal}",
        &expect![[r#"
            `decimal` is not a type of a value
            hint: int, float, boolean or text"#]],
    );
    refused(
        "a(?=b)",
        &expect![[r#"
            the expression is wrong at `(?=b)`: look-around, including look-ahead and look-behind, is not supported
            hint: look-around cannot be run in linear time; match what must stand there, and capture only what is wanted"#]],
    );
    refused(
        r"(a)\1",
        &expect![[r#"
            the expression is wrong at `\1`: backreferences are not supported
            hint: references to earlier groups cannot be run in linear time; capture both and compare them in `when`"#]],
    );
    refused(
        "(a{1,500}){1,500}",
        &expect![[r#"
            the expression is too large: it takes more than 2097152 bytes when compiled
            hint: counted repetitions multiply (`(x{1,500}){1,500}`); use `*` or `+`"#]],
    );
    let mut library = PatternLibrary::built_in();
    library.add(("A", "x%{B}")).unwrap();
    library.add(("B", "%{A}")).unwrap();
    let error = Pattern::grok(&library, "%{A}").unwrap_err();
    assert_eq!(error.message, "the pattern `A` contains itself: A > B > A");
}

#[test]
fn patterns_of_access_logs_look_at_each_byte_once() {
    for name in ["COMMONAPACHELOG", "COMBINEDAPACHELOG", "SYSLOGBASE", "TIMESTAMP_ISO8601"] {
        assert!(grok(&format!("%{{{name}}}")).is_one_pass(), "{name}");
    }
}

/// Expressions that take exponential or quadratic time elsewhere, each with the line that shows it.
#[test]
fn no_line_takes_more_than_its_steps() {
    let many = "a".repeat(60_000);
    for (written, line) in [
        ("(a+)+$", format!("{many}b")),
        ("(a|aa)+$", format!("{many}b")),
        ("(a|a?)+$", format!("{many}b")),
        ("(.*a){20}", many.clone()),
        ("%{DATA:a} %{DATA:b} %{DATA:c} %{DATA:d} %{DATA:e}x", "a ".repeat(30_000)),
        ("(?:%{GREEDYDATA}=%{GREEDYDATA}){9}!", "=".repeat(60_000)),
        ("(?<before>(?s:.*?))(?:%{IP:ip} end)", "1.".repeat(30_000)),
    ] {
        let (outcome, steps) = search(&grok(written), &line);
        assert!(!matches!(outcome, SearchOutcome::Match(end) if end > line.len()), "{written}");
        assert!(steps <= MAX_STEPS, "{written}: {steps}");
    }
    let (outcome, _) = search(&grok("(a+)+$"), &format!("{}b", "a".repeat(5_000)));
    assert_eq!(outcome, SearchOutcome::NoMatch(5_000), "what takes few steps is answered");
}

#[test]
fn lines_that_cost_too_much_or_are_too_long_are_rejected_with_that_reason() {
    let line = format!("{}\n{}\n", "a".repeat(60_000), "b".repeat(70_000));
    let pipeline = "[parse]\nformat = \"regex\"\npattern = '(.*a){20}!'\n";
    let rows = crate::check::pipeline_rows(pipeline, line.as_bytes());
    let reasons: Vec<&str> = rows.iter().filter_map(|row| row.get("reason")).collect();
    assert_eq!(reasons, ["too_costly", "too_long"]);
}

/// The backtracker and the automaton give what the regex crate gives.
#[test]
fn searches_agree_with_the_regex_crate() {
    const PARTS: [&str; 14] = [
        "a", "b", "[ab]", "(a|b)", "(?:a|ab)", ".*", ".*?", "(b*)", "(a+)", "c", "$", "\\b", "x?",
        "(?:a|b)*",
    ];
    arbtest::arbtest(|u| {
        let mut written = String::new();
        for _ in 0..u.int_in_range(1..=6)? {
            written += u.choose(&PARTS)?;
        }
        let line: String = (0..u.int_in_range(0..=12)?)
            .map(|_| u.choose(&['a', 'b', 'c', ' ']))
            .collect::<Result<_, _>>()?;
        let expected =
            regex::Regex::new(&format!("^(?:{written})")).unwrap().find(&line).map(|m| m.end());
        let found = match search(&grok(&written), &line).0 {
            SearchOutcome::Match(end) => Some(end),
            _ => None,
        };
        assert_eq!(found, expected, "{written} on {line:?}");
        Ok(())
    });
}
