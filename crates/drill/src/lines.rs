//! Faults of what is written into logs, and of what becomes of it there.

use std::io::Write;

use rustix::process::Signal;

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::scene::{Scene, run};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "lines that are torn",
        rules: &[&["log.invalid_json"]],
        parameters: &[of("percent", 5, 40, "per cent of the lines that miss their end")],
        tools: &["awk"],
        set: sound,
        inject: |scene| {
            let percent = scene.draw("percent");
            let line = format!(
                r#"printf "{{\"time\":\"%s\",\"level\":\"info\"%s\n", now, n % 100 < {percent} ? ",\"ord" : "}}""#
            );
            write_lines(scene, "torn", &line)?;
            Ok(None)
        },
    },
    Fault {
        name: "names that somebody invents",
        rules: &[&["log.key_explosion"]],
        parameters: &[of("names", 10, 60, "new names in a line")],
        tools: &["awk"],
        set: |scene| {
            followed(scene)?;
            write_lines(scene, "sound", r#"printf "time=%s level=info order=%d\n", now, n"#)
        },
        inject: |scene| {
            let names = scene.draw("names");
            let line = format!(
                r#"printf "time=%s level=info", now; for (i = 0; i < {names}; i++) printf " v%dx%d=%d", n, i, i; print """#
            );
            write_lines(scene, "inventive", &line)?;
            Ok(None)
        },
    },
    Fault {
        name: "clock ahead",
        rules: &[&["clock.skew"]],
        parameters: &[of("seconds", 5, 600, "seconds that the lines' clock is ahead")],
        tools: &["awk"],
        set: sound,
        inject: |scene| {
            let seconds = scene.draw("seconds");
            scene.signal("sound", Signal::TERM)?;
            write_lines_at(scene, "ahead", &format!("systime() + {seconds}"), STAMPED)?;
            Ok(None)
        },
    },
    Fault {
        name: "clock behind",
        rules: &[&["clock.skew"]],
        parameters: &[of("minutes", 1, 720, "minutes that the lines' clock is behind")],
        tools: &["awk"],
        set: sound,
        inject: |scene| {
            let minutes = scene.draw("minutes");
            scene.signal("sound", Signal::TERM)?;
            write_lines_at(scene, "behind", &format!("systime() - {minutes} * 60"), STAMPED)?;
            Ok(None)
        },
    },
    Fault {
        name: "log cut before it is read",
        rules: &[&["log.truncated"]],
        parameters: &[of(
            "mebibytes",
            64,
            160,
            "MiB that are written and cut within half a second",
        )],
        tools: &["awk"],
        set: |scene| {
            let lines =
                "{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\",\"path\":\"/shop/cart\"}\n";
            scene.put("burst", &lines.repeat((1 << 20) / lines.len()))?;
            sound(scene)
        },
        inject: |scene| {
            let mebibytes = scene.draw("mebibytes").to_string();
            // Long enough for somebody to see how long it is, too short to read it.
            let script =
                "for n in $(seq \"$1\"); do cat \"$2\"; done >> \"$3\"; sleep 0.3; : > \"$3\"";
            run(
                "sh",
                &["-c", script, "sh", &mebibytes, &scene.path("burst"), &scene.path("app.log")],
            )?;
            Ok(None)
        },
    },
    Fault {
        name: "log deleted, its program writes on",
        rules: &[&["log.rotated_unfinished", "disk.deleted_but_open"]],
        parameters: &[of("kibibytes", 4, 200, "KiB of it when it is deleted")],
        tools: &["awk"],
        set: |scene| {
            let kibibytes = scene.draw("kibibytes");
            let line =
                "{\"time\":\"2026-01-01T00:00:00Z\",\"level\":\"info\",\"path\":\"/shop/cart\"}\n";
            let bytes = usize::try_from(kibibytes << 10).unwrap_or_default();
            sound(scene)?;
            std::fs::OpenOptions::new()
                .append(true)
                .open(scene.file("app.log"))
                .and_then(|mut log| log.write_all(line.repeat(bytes / line.len()).as_bytes()))?;
            Ok(())
        },
        inject: |scene| {
            std::fs::remove_file(scene.file("app.log"))?;
            Ok(None)
        },
    },
];

/// What is no fault.
pub(crate) const NONE: &[Fault] = &[Fault {
    name: "none: log rotated",
    rules: &[],
    parameters: &[of("visitors", 5, 30, "visitors")],
    tools: &["nginx"],
    set: |scene| {
        let visitors = scene.draw("visitors");
        scene.usual(256, visitors)
    },
    inject: |scene| {
        // As logrotate does: away with the oldest, a new name, and a word to who writes.
        let [log, older, oldest] =
            ["access.log", "access.log.1", "access.log.2"].map(|name| scene.file(name));
        for _ in 0..3 {
            let _none_yet = std::fs::remove_file(&oldest);
            let _none_yet = std::fs::rename(&older, &oldest);
            std::fs::rename(&log, &older)?;
            scene.signal("nginx", Signal::USR1)?;
            crate::pause(std::time::Duration::from_millis(1500));
        }
        Ok(None)
    },
}];

/// A line with its time.
const STAMPED: &str = r#"printf "{\"time\":\"%s\",\"level\":\"info\",\"order\":%d}\n", now, n"#;

/// A log with nothing wrong in it.
fn sound(scene: &mut Scene) -> Result<()> {
    followed(scene)?;
    write_lines(scene, "sound", STAMPED)
}

/// A log that weir is told of.
fn followed(scene: &mut Scene) -> Result<()> {
    scene.put("app.log", "")?;
    scene.config = format!("[collect]\ntail = [\"{}\"]\n", scene.path("app.log"));
    Ok(())
}

/// Writes what `line` prints 50 times a second; it knows the time as `now` and its number as `n`.
fn write_lines(scene: &mut Scene, what: &'static str, line: &str) -> Result<()> {
    write_lines_at(scene, what, "systime()", line)
}

/// The same by another clock.
fn write_lines_at(scene: &mut Scene, what: &'static str, clock: &str, line: &str) -> Result<()> {
    let program = format!(
        "BEGIN {{ while (1) {{ n++; now = strftime(\"%Y-%m-%dT%H:%M:%SZ\", {clock}, 1); {line}; fflush(); if (n % 5 == 0) system(\"sleep 0.1\") }} }}"
    );
    let (netns, log) = (scene.server.clone(), scene.path("app.log"));
    scene.start(what, &netns, "sh", &["-c", "exec awk \"$1\" >> \"$2\"", "sh", &program, &log])
}
