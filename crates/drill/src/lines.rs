//! Faults of what is written into logs.

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::scene::Scene;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "lines that are torn",
        rules: &[&["log.invalid_json"]],
        parameters: &[of("percent", 5, 40, "per cent of the lines that miss their end")],
        tools: &["awk"],
        set: |scene| {
            followed(scene)?;
            write_lines(
                scene,
                "sound",
                r#"printf "{\"time\":\"%s\",\"level\":\"info\",\"order\":%d}\n", now, n"#,
            )
        },
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
];

/// A log that weir is told of.
fn followed(scene: &mut Scene) -> Result<()> {
    scene.put("app.log", "")?;
    scene.config = format!("[collect]\ntail = [\"{}\"]\n", scene.path("app.log"));
    Ok(())
}

/// Writes what `line` prints 50 times a second; it knows the time as `now` and its number as `n`.
fn write_lines(scene: &mut Scene, what: &'static str, line: &str) -> Result<()> {
    let program = format!(
        "BEGIN {{ while (1) {{ n++; now = strftime(\"%Y-%m-%dT%H:%M:%SZ\", systime(), 1); {line}; fflush(); if (n % 5 == 0) system(\"sleep 0.1\") }} }}"
    );
    let (netns, log) = (scene.server.clone(), scene.path("app.log"));
    scene.start(what, &netns, "sh", &["-c", "exec awk \"$1\" >> \"$2\"", "sh", &program, &log])
}
