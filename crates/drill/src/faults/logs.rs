//! Faults of log lines and log files.

use std::io::Write;

use rustix::process::Signal;

use crate::command::run;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::testbed::TestBed;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "lines that are torn",
        rules: &[&["log.invalid_json"]],
        parameters: &[parameter("percent", 5..=40, "percent of the lines that are cut off")],
        tools: &["awk"],
        set: healthy_log,
        inject: |testbed| {
            let percent = testbed.draw("percent");
            let line = format!(
                r#"printf "{{\"time\":\"%s\",\"level\":\"info\"%s\n", now, n % 100 < {percent} ? ",\"ord" : "}}""#
            );
            write_lines(
                testbed,
                &LineWriter { process: "torn", line: &line, ..LineWriter::default() },
            )?;
            Ok(None)
        },
    },
    Fault {
        name: "names that somebody invents",
        rules: &[&["log.key_explosion"]],
        parameters: &[parameter("names", 10..=60, "new field names per line")],
        tools: &["awk"],
        set: |testbed| {
            tailed_log(testbed)?;
            let line = r#"printf "time=%s level=info order=%d\n", now, n"#;
            write_lines(testbed, &LineWriter { line, ..LineWriter::default() })
        },
        inject: |testbed| {
            let names = testbed.draw("names");
            let line = format!(
                r#"printf "time=%s level=info", now; for (i = 0; i < {names}; i++) printf " v%dx%d=%d", n, i, i; print """#
            );
            let writer = LineWriter { process: "inventive", line: &line, ..LineWriter::default() };
            write_lines(testbed, &writer)?;
            Ok(None)
        },
    },
    Fault {
        name: "clock ahead",
        rules: &[&["clock.skew"]],
        parameters: &[parameter("seconds", 5..=600, "seconds that the log's clock is ahead")],
        tools: &["awk"],
        set: healthy_log,
        inject: |testbed| {
            let seconds = testbed.draw("seconds");
            testbed.signal("sound", Signal::TERM)?;
            let clock = format!("systime() + {seconds}");
            let writer = LineWriter { process: "ahead", clock: &clock, ..LineWriter::default() };
            write_lines(testbed, &writer)?;
            Ok(None)
        },
    },
    Fault {
        name: "clock behind",
        rules: &[&["clock.skew"]],
        parameters: &[parameter("minutes", 1..=720, "minutes that the log's clock is behind")],
        tools: &["awk"],
        set: healthy_log,
        inject: |testbed| {
            let minutes = testbed.draw("minutes");
            testbed.signal("sound", Signal::TERM)?;
            let clock = format!("systime() - {minutes} * 60");
            let writer = LineWriter { process: "behind", clock: &clock, ..LineWriter::default() };
            write_lines(testbed, &writer)?;
            Ok(None)
        },
    },
    Fault {
        name: "log cut before it is read",
        rules: &[&["log.truncated"]],
        parameters: &[parameter(
            "mebibytes",
            64..=160,
            "MiB written and truncated within half a second",
        )],
        tools: &["awk"],
        set: |testbed| {
            let lines =
                "{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\",\"path\":\"/shop/cart\"}\n";
            testbed.put("burst", lines.repeat((1 << 20) / lines.len()))?;
            healthy_log(testbed)
        },
        inject: |testbed| {
            let mebibytes = testbed.draw("mebibytes").to_string();
            // Long enough for weir to see the size, too short to read it all.
            let script =
                "for n in $(seq \"$1\"); do cat \"$2\"; done >> \"$3\"; sleep 0.3; : > \"$3\"";
            run(
                "sh",
                &["-c", script, "sh", &mebibytes, &testbed.path("burst"), &testbed.path("app.log")],
            )?;
            Ok(None)
        },
    },
    Fault {
        name: "log deleted, its program writes on",
        rules: &[&["log.rotated_unfinished", "disk.deleted_but_open"]],
        parameters: &[parameter("kibibytes", 4..=200, "KiB in the log when it is deleted")],
        tools: &["awk"],
        set: |testbed| {
            let kibibytes = testbed.draw("kibibytes");
            let line =
                "{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\",\"path\":\"/shop/cart\"}\n";
            let bytes = usize::try_from(kibibytes << 10).unwrap_or_default();
            healthy_log(testbed)?;
            std::fs::OpenOptions::new()
                .append(true)
                .open(testbed.file("app.log"))
                .and_then(|mut log| log.write_all(line.repeat(bytes / line.len()).as_bytes()))?;
            Ok(())
        },
        inject: |testbed| {
            std::fs::remove_file(testbed.file("app.log"))?;
            Ok(None)
        },
    },
];

/// Scenarios without a fault.
pub(crate) const NO_FAULTS: &[Fault] = &[Fault {
    name: "none: log rotated",
    rules: &[],
    parameters: &[parameter("visitors", 5..=30, "visitors")],
    tools: &["nginx"],
    set: |testbed| {
        let visitors = testbed.draw("visitors");
        testbed.proxied_app(256)?;
        testbed.visitors(visitors, &[])
    },
    inject: |testbed| {
        // As logrotate does: delete the oldest, rename, and signal the writer.
        let [log, older, oldest] =
            ["access.log", "access.log.1", "access.log.2"].map(|name| testbed.file(name));
        for _ in 0..3 {
            let _none_yet = std::fs::remove_file(&oldest);
            let _none_yet = std::fs::rename(&older, &oldest);
            std::fs::rename(&log, &older)?;
            testbed.signal("nginx", Signal::USR1)?;
            crate::pause(std::time::Duration::from_millis(1500));
        }
        Ok(None)
    },
}];

/// awk statement that prints a line with its timestamp.
const STAMPED: &str = r#"printf "{\"time\":\"%s\",\"level\":\"info\",\"order\":%d}\n", now, n"#;

/// Starts a program that writes a valid log.
fn healthy_log(testbed: &mut TestBed) -> Result<()> {
    tailed_log(testbed)?;
    write_lines(testbed, &LineWriter::default())
}

/// Creates an empty log and configures weir to tail it.
fn tailed_log(testbed: &mut TestBed) -> Result<()> {
    testbed.put("app.log", "")?;
    testbed.config = format!("[collect]\ntail = [\"{}\"]\n", testbed.path("app.log"));
    Ok(())
}

/// A process that writes what `line`, an awk statement, prints 50 times per second. The statement
/// may use `now`, the time as `clock` has it, and `n`, the number of the line.
struct LineWriter<'a> {
    process: &'static str,
    clock: &'a str,
    line: &'a str,
}

impl Default for LineWriter<'_> {
    fn default() -> Self {
        Self { process: "sound", clock: "systime()", line: STAMPED }
    }
}

/// Starts the writer of the testbed's log.
fn write_lines(testbed: &mut TestBed, writer: &LineWriter<'_>) -> Result<()> {
    let LineWriter { process, clock, line } = writer;
    let program = format!(
        "BEGIN {{ while (1) {{ n++; now = strftime(\"%Y-%m-%dT%H:%M:%SZ\", {clock}, 1); {line}; fflush(); if (n % 5 == 0) system(\"sleep 0.1\") }} }}"
    );
    let (netns, log) = (testbed.server.clone(), testbed.path("app.log"));
    testbed.start(process, &netns, "sh", &["-c", "exec awk \"$1\" >> \"$2\"", "sh", &program, &log])
}
