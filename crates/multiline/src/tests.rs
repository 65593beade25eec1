//! Traces and records of real programs, split into events.

use super::*;

/// Checks the split; events in `text` are separated by a line of `===`.
fn check(multiline: &Multiline, text: &str) {
    let lines = text.replace("===\n", "");
    let mut cut = String::new();
    let mut from = 0;
    for end in multiline.ends(lines.as_bytes()) {
        cut += if from > 0 { "===\n" } else { "" };
        cut += &lines[from..end];
        from = end;
    }
    assert_eq!(cut, text);
}

fn preset(name: &str) -> Multiline {
    Multiline::preset(name).unwrap()
}

#[test]
fn java_traces_join_the_line_that_reports_them() {
    check(
        &preset("java"),
        "2026-11-21 12:00:00 INFO started\n===\n2026-11-21 12:00:01 ERROR cannot save\n\
         java.lang.IllegalStateException: no room\n\tat com.example.Store.save(Store.java:12)\n\
         \tat com.example.Main.main(Main.java:3)\nCaused by: java.io.IOException: disk\n\t... 2 more\n===\n\
         2026-11-21 12:00:02 INFO next\n===\nException in thread \"main\" java.lang.NullPointerException\n\
         \tat a.B.c(B.java:1)\n===\njava.lang.RuntimeException: alone\n\tat a.B.c(B.java:2)\n",
    );
}

#[test]
fn python_traces_with_their_chain_are_one_event() {
    check(
        &preset("python"),
        "INFO:root:fine\n===\nERROR:root:broken\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n\
         KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n\
         Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\nValueError: bad\n===\n\
         INFO:root:next\n===\nTraceback (most recent call last):\n  File \"b.py\", line 1\nKeyboardInterrupt\n===\nplain: line\n",
    );
}

/// GoogleCloudPlatform/fluent-plugin-detect-exceptions#56, fluent/fluent-bit#5851 and PEP 654: a
/// blank line before the trace and within it, and groups of exceptions.
#[test]
fn python_traces_have_blank_lines_and_groups() {
    check(
        &preset("python"),
        "INFO: fine\n===\nERROR: 'NoneType'\n\nTraceback (most recent call last):\n  File \"a.py\", line 7, in m\n    x\n\n\
         AttributeError: 'NoneType'\n===\nINFO: next\n===\nservice ERROR - x\nTraceback (most recent call last):\n  File \"a.py\"\n\
         KeyError: 'xxx'\n\nDuring handling of the above exception, another exception occurred:\n\n\
         Traceback (most recent call last):\n  File \"b.py\"\n  + Exception Group Traceback (most recent call last):\n  |   File \"c.py\"\n\
         \u{20} | ExceptionGroup: eg (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: 1\n\
         \u{20}   +------------------------------------\n===\nINFO: end\n===\nERROR: group\n  + Exception Group Traceback (most recent call last):\n\
         \u{20} | ExceptionGroup: eg\n  +------------------------------------\n===\nINFO: last\n",
    );
}

#[test]
fn go_panics_run_to_the_exit_status() {
    check(
        &preset("go"),
        "2026/11/21 12:00:00 listening\n===\npanic: runtime error: index out of range [5] with length 3\n\n\
         goroutine 1 [running]:\nmain.main()\n\t/src/main.go:8 +0x1d\ncreated by main.start in goroutine 1\n\
         \t/src/main.go:4 +0x2f\nexit status 2\n===\n2026/11/21 12:00:01 http: panic serving 127.0.0.1:5: boom\n\
         goroutine 20 [running]:\nnet/http.(*conn).serve.func1()\n\t/go/net/http/server.go:1 +0xbe\n===\n\
         2026/11/21 12:00:02 next\n",
    );
}

#[test]
fn ruby_backtraces_are_one_event() {
    check(
        &preset("ruby"),
        "I, [2026] INFO -- : fine\n===\n/app/a.rb:3:in `save': no room (RuntimeError)\n\tfrom /app/a.rb:9:in `<main>'\n===\n\
         F, [2026] FATAL -- : request failed\nActiveRecord::StatementInvalidError (boom):\n\
         app/models/x.rb:12:in `y'\nlib/z.rb:3:in `block in z'\n===\nI, [2026] INFO -- : next\n",
    );
}

/// GoogleCloudPlatform/fluent-plugin-detect-exceptions#58 and #95, atifaziz/StackTraceParser#8 and
/// openchoreo/community-modules#281: traces of .NET behind a message, nested, and translated.
#[test]
fn dotnet_traces_join_the_line_that_reports_them() {
    check(
        &preset("dotnet"),
        "[09:19:23 INF Web] ready\n===\n[09:19:23.676 ERR Web]  we caught an exception\n\
         System.Exception: something went wrong\n   at Web.Foo() in E:\\a.cs:line 70\n===\n[09:19:24 INF Web] next\n===\n\
         fail: Microsoft.AspNetCore.Server.Kestrel[13]\n      Connection id \"0H\": an unhandled exception was thrown.\n\
         \u{20}     System.InvalidOperationException: x\n         at A.B()\n===\ninfo: Microsoft.Hosting.Lifetime[14]\n      Now listening\n===\n\
         Unhandled exception. System.AggregateException: One or more errors occurred. (a)\n ---> System.IO.IOException: a\n   at A.C()\n\
         \u{20}  --- End of inner exception stack trace ---\n   at A.D()\n---> (Inner Exception #0) System.IO.IOException: a\n   at A.C()<---\n\
         --- End of stack trace from previous location ---\n   at A.E()\n===\nSystem.FormatException: Le format est incorrect.\n   à System.Int32.Parse(String s)\n\
         \u{20}  --- Fin de la trace de la pile d'exception interne ---\n===\nok\n",
    );
}

/// grafana/loki#4331 and fluent/fluentd-kubernetes-daemonset#337 (PHP-FPM), Laravel, and a chain.
#[test]
fn php_traces_join_the_line_that_reports_them() {
    let fpm = "[15-Nov-2026 00:24:29] WARNING: [pool www] child 40 said into stderr:";
    check(
        &preset("php"),
        &format!(
            "PHP Notice:  x in /a.php on line 1\n===\nPHP Fatal error:  Uncaught Exception: first in /app/a.php:3\nStack trace:\n\
             #0 /app/a.php(7): f()\n#1 {{main}}\n\nNext RuntimeException: second in /app/a.php:9\nStack trace:\n#0 {{main}}\n  thrown in /app/a.php on line 3\n===\n\
             [2026-11-27 10:00:00] production.ERROR: x {{\"exception\":\"[object] (Exception(code: 0): x at /a.php:3)\n[stacktrace]\n#0 /app/b.php(1): g()\n#1 {{main}}\n\"}} \n===\n\
             [2026-11-27 10:00:01] production.INFO: next\n===\n{fpm} \"TRACE_START: /a.php:61\"\n{fpm} \" #0 /a.php(39): c()\"\n{fpm} \"#1 /b.php(93): d()\"\n===\n\
             {fpm} \"other\"\n"
        ),
    );
}

/// moby/moby#22979 and nodejs/node#6976: traces of Node.js.
#[test]
fn node_traces_join_the_line_that_reports_them() {
    check(
        &preset("node"),
        "listening\n===\nrequest failed\nTypeError: x is not a function\n    at f (/app/a.js:1:2)\n    at g (node:internal/main:3:4) {\n\
         \u{20} code: 'ERR',\n  [cause]: Error: y\n      at h (/app/b.js:1:1)\n}\n===\nnext\n===\n/app/a.js:3\n    throw new Error('x')\n    ^\n\n\
         Error: x\n    at f (/app/a.js:3:1)\n\nNode.js v22.1.0\n===\nError: alone\n    at f (/app/a.js:3:1)\n===\nError: other\n    at f (/app/a.js:3:1)\n",
    );
}

#[test]
fn custom_patterns_split_as_specified() {
    check(&Multiline::with_start(r"^\d{4}-").unwrap(), "2026-1 a\nb\n\nc\n===\n2026-2 d\n");
    check(&Multiline::with_continuation(r"^(\||$)").unwrap(), "a\n| b\n\n===\nc\n===\nd\n");
    check(&preset("indent"), "a\n b\n\tc\n===\nd\n");
    assert!(Multiline::with_start("(").unwrap_err().contains("unclosed group"));
}

/// fluent/fluent-bit#1316 and #4387: pieces of the two streams alternate.
#[test]
fn pieces_of_containers_messages_stay_together() {
    let time = "2026-11-20T12:00:00.1Z";
    let text = format!(
        "{time} stdout F a\n===\n{time} stdout P b\n{time} stderr F c\n{time} stdout F d\n===\n\
         {time} stderr P e\n{time} stdout P f\n{time} stderr F g\n{time} stdout F h\n===\n{time} stdout F i\n"
    );
    check(&preset("container"), &text);
    let rule = preset("container");
    let mut splitter = rule.splitter();
    let lines = text.replace("===\n", "");
    let rows: Vec<bool> =
        lines.split_inclusive('\n').map(|line| splitter.begins_event(line.as_bytes())).collect();
    assert_eq!(rows, [true, true, true, false, true, true, false, false, true]);
    let docker = "{\"log\":\"a\",\"stream\":\"stdout\"}\n{\"log\":\"b\\n\",\"stream\":\"stdout\"}\n===\n{\"log\":\"c\\n\",\"stream\":\"stdout\"}\n";
    check(&rule, docker);
    assert!(rule.ends_and_state(lines.as_bytes()).1);
    assert!(!rule.ends_and_state(&lines.as_bytes()[..lines.find("stdout F d").expect("in it")]).1);
    assert!(Multiline::of_head(lines.as_bytes()).is_some());
    assert!(Multiline::of_head(b"{\"log\":\"a long li").is_some());
    assert!(Multiline::of_head(b"2026-11-20 12:00:00 stdout F a\n").is_none());
}

/// fluent/fluent-bit#4551, grafana/loki#5854 and SumoLogic/sumologic-kubernetes-collection#1449:
/// traces of programs in containers.
#[test]
fn rules_see_what_the_program_in_a_container_wrote() {
    let cri = "2026-11-20T12:00:00.1Z stdout F";
    check(
        &preset("java"),
        &format!(
            "{cri} 12:00:00 ERROR cannot save\n{cri} java.lang.IllegalStateException: x\n{cri} \tat a.B.c(B.java:1)\n===\n{cri} 12:00:01 INFO next\n"
        ),
    );
    let docker = |text: &str| format!("{{\"log\":\"{text}\\n\",\"stream\":\"stderr\"}}\n");
    let lines =
        ["Traceback (most recent call last):", "  File \\\"a.py\\\", line 1", "KeyError: 'x'"];
    let text: String = lines.iter().map(|line| docker(line)).collect();
    check(&preset("python"), &(text + "===\n" + &docker("next")));
    let piece = cri.replace('F', "P");
    check(&preset("indent"), &format!("{piece} a\n{cri} b\n===\n{cri} c\n{cri}  d\n"));
}

/// fluent/fluentd#680, vectordotdev/vector#2254 and
/// open-telemetry/opentelemetry-log-collection#312: statements of several lines.
#[test]
fn quoted_line_ends_are_inside_of_a_record() {
    check(&preset("csv"), "a,b\n===\n\"c\nd \"\"e\"\"\n\",f\n===\ng,h\n");
}

/// Inches and words in quotes: the quote is a part of the value.
#[test]
fn quote_inside_of_a_value_opens_none() {
    check(&preset("csv"), "1,24\" screen,x\n===\n2,a \"b,y\n===\n3;\"c\nd\";z\n===\n4,,\"\"\n");
}

#[test]
fn entry_of_the_journals_export_format_is_one_event() {
    let text = "__CURSOR=a\nMESSAGE=x\n\n===\n__CURSOR=b\nMESSAGE\n\x01\0\0\0\0\0\0\0\n\n\n";
    check(&Multiline::of_head(text.as_bytes()).unwrap(), text);
}

#[test]
fn entry_of_the_journals_verbose_format_is_one_event() {
    let head = "Fri 2026-11-27 20:50:00.123456 UTC [s=1;i=2]\n";
    let text = format!("{head}    MESSAGE=x\n            y\n===\n{head}    MESSAGE=z\n");
    check(&Multiline::of_head(text.as_bytes()).unwrap(), &text);
}

/// elastic/beats#688: the form of the Event Viewer, which ends at the next event.
#[test]
fn events_of_windows_are_events_if_they_have_several_lines() {
    let viewer = "<Event xmlns=\"http://a\">\n  <System>\n  </System>\n</Event>\n";
    let rule = |head: String| Multiline::of_head(head.as_bytes());
    let text = format!("{viewer}{viewer}");
    let ends = rule(text.clone()).expect("an event of several lines").ends(text.as_bytes());
    assert_eq!(ends, [viewer.len(), text.len()]);
    let exported = format!("\u{feff}<?xml version=\"1.0\"?>\n<Events>\n{viewer}");
    assert!(rule(exported).is_some());
    let line = "<Event xmlns='http://a'><System></System></Event>\n";
    assert!(rule(format!("{line}{line}")).is_none());
    assert!(rule(line[..20].to_owned()).is_none());
    assert!(rule("<?xml version=\"1.0\"?>\n<log>\n".to_owned()).is_none());
}

#[test]
fn transactions_of_varnishlog_are_events() {
    let text = "*   << Request  >> 2\n-   Begin          req 1 rxreq\n-   End\n===\n\
        **  << BeReq    >> 3\n--  End\n\n===\n*   << Request  >> 5\n-   End\n";
    check(&Multiline::of_head(text.as_bytes()).unwrap(), text);
}

#[test]
fn event_over_a_limit_continues_as_the_next_one() {
    let mut multiline = preset("indent");
    multiline.max_lines = 3;
    check(&multiline, "a\n b\n c\n===\n d\n e\n f\n===\n g\n");
    (multiline.max_lines, multiline.max_bytes) = (100, 8);
    check(&multiline, "a\n b\n c\n===\n long long line\n===\n d\n");
}

#[test]
fn events_are_split_the_same_from_every_start() {
    arbtest::arbtest(|random| {
        let words = ["ERROR x", "\tat a.b(c)", "a.b.Exception: x", "Traceback (", "ValueError: x"];
        let more =
            ["", "panic: x", "goroutine 1 [running]:", "main.f()", "a.rb:1:in `x'", "INFO x"];
        let traces = ["#0 {main}", "--- End", "TypeError: x", "}", "/a.js:3", "A.BException: x"];
        let mut text = String::new();
        for _ in 0..random.int_in_range(1..=30)? {
            text += random.choose(&[words.as_slice(), &more, &traces].concat())?;
            text += "\n";
        }
        let multiline = preset(random.choose(&PRESETS)?);
        let all = multiline.ends(text.as_bytes());
        for (at, end) in all.iter().enumerate() {
            let rest: Vec<usize> = match &text.as_bytes()[*end..] {
                [] => Vec::new(),
                rest => multiline.ends(rest).into_iter().map(|n| n + end).collect(),
            };
            assert_eq!(rest, all[at + 1..]);
        }
        Ok(())
    });
}
