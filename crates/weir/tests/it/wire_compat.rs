//! `weir wire --compat pt-tcp-model` as scripts run it: text in, the old tool's bytes out, remarks
//! on stderr.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use expect_test::expect;

use super::harness::{WEIR, text};

/// 22:57:43 UTC is 00:57:43 of the next day in Berlin's summer.
const PACKETS: &str = "\
tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 262144 bytes
2011-04-05 00:57:43.820001 IP 127.0.0.1.56737 > 127.0.0.1.80: tcp 40
2011-04-05 00:57:43.820169 IP 127.0.0.1.80 > 127.0.0.1.56737: tcp 11
2011-04-05 00:57:43.900000 IP 127.0.0.1.56738 > 127.0.0.1.80: tcp 40
2011-04-05 00:57:45.250000 IP 127.0.0.1.56737 > 127.0.0.1.80: tcp 40
2011-04-05 00:57:45.500000 IP 127.0.0.1.80 > 127.0.0.1.56737: tcp 11
2011-04-05 00:57:45.750000 IP 127.0.0.1.80 > 127.0.0.1.56738: tcp 11
2011-04-05 00:57:45.800000 IP 127.0.0.1.56739 > 127.0.0.1.80: tcp 40
";

fn compat(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(WEIR)
        .args(["wire", "--compat", "pt-tcp-model"])
        .args(args)
        .env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A refused command does not read its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// Each line between bars, since what `expect` compares has no blanks in front.
fn barred(text: &str) -> String {
    text.lines().map(|line| format!("|{line}|\n")).collect()
}

#[test]
fn packets_become_requests_and_those_slices() {
    let requests = compat(&["--watch-server", "10.0.0.1:80"], PACKETS);
    expect![[r"
        |     0 1301957863.820001 1301957863.820169  0.000168 127.0.0.1:56737|
        |     1 1301957863.900000 1301957865.750000  1.850000 127.0.0.1:56738|
        |     2 1301957865.250000 1301957865.500000  0.250000 127.0.0.1:56737|
    "]]
    .assert_eq(&barred(&text(&requests.stdout)));
    assert_eq!((requests.status.code(), text(&requests.stderr)), (Some(0), String::new()));

    let slices = compat(&["--type", "requests"], &text(&requests.stdout));
    expect![[r"
        1301957863  0.93     1.695     2     1 1.100168 1.100168 1.850168 0.924748 1.850000 1.179999
        1301957865  1.33     1.333     1     2 0.750000 1.000000 0.250000 0.000000 0.250000 0.750000
    "]]
    .assert_eq(&text(&slices.stdout));
    assert_eq!((slices.status.code(), text(&slices.stderr)), (Some(0), String::new()));
}

#[test]
fn files_are_one_stream_and_a_reader_that_leaves_is_no_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) =
        PACKETS.split_at(PACKETS.find("2011-04-05 00:57:45.5").expect("it is there"));
    let paths = [first, second].map(|part| {
        let path = dir.path().join(part.len().to_string());
        std::fs::write(&path, part).expect("it can be written");
        path.display().to_string()
    });
    let args = ["--watch-server", ":80", &*paths[0], &*paths[1]];
    let whole = compat(&["--watch-server", ":80", "-"], PACKETS);
    assert_eq!(text(&compat(&args, "").stdout), text(&whole.stdout));
    assert!(!whole.stdout.is_empty());
}

#[test]
fn what_the_old_tool_kept_to_itself_is_said() {
    let today = PACKETS.replace(" IP ", " lo    In  IP ");
    for (args, input, parts) in [
        (&[][..], PACKETS, &["no request to port 3306", "--watch-server :80"][..]),
        (&["--watch-server", ":80"], &today, &["7 lines with an interface and a direction"]),
        (&["--type", "requests"], PACKETS, &["8 lines are no requests, the first is line 1"]),
    ] {
        let output = compat(args, input);
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), String::new()),
            "{said}"
        );
        for part in parts {
            assert!(said.contains(part), "`{part}` is not in:\n{said}");
        }
    }
}

#[test]
fn wrong_flags_and_inputs_are_refused_with_a_hint() {
    let capture = "\u{a}\r\r\n and more";
    for (args, input, code, part) in [
        (&["--watch-server", "10.0.0.1:"][..], "", 64, "cannot watch `10.0.0.1:`"),
        (&["--start-end", "end,ts"], "", 64, "--start-end end,ts"),
        (&["--type", "requests", "--run-time", "0"], "", 64, "--run-time 0"),
        (&["--type", "requests", "--quantile", "99"], "", 64, "--quantile 99"),
        (&["/nonexistent"], "", 1, "cannot read `/nonexistent`"),
        (&["--type", "requests"], capture, 1, "it is a capture, not requests"),
    ] {
        let output = compat(args, input);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part) && said.contains("\nhint: "), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
