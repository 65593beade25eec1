//! Entries as they are written, and what is refused.

use std::path::Path;

use expect_test::{Expect, expect};

use super::CheckPlan;
use crate::Config;

fn check(text: &str, expected: &Expect) {
    let plan =
        Config::read(Path::new("weir.toml"), text).and_then(|config| CheckPlan::of(&config.values));
    let shown = match plan {
        Err(failure) => failure.to_string(),
        Ok(plan) => {
            let specs = plan.specs.iter().map(|spec| {
                let (kind, target) = (spec.work.kind(), spec.work.target());
                let service = spec.service.as_deref().unwrap_or("-");
                let (every, within) = (spec.interval.as_secs(), spec.timeout.as_secs());
                format!(
                    "{}: {kind} {target} {service} every {every} s within {within} s\n",
                    spec.name
                )
            });
            specs.chain(plan.notes.iter().map(|note| format!("note: {note}\n"))).collect()
        }
    };
    expected.assert_eq(&shown);
}

#[test]
fn checks_and_probes_are_read_with_their_defaults() {
    check(
        r#"
[[checks]]
name = "load"
command = ["/usr/lib/nagios/plugins/check_load", "-w", "5,4,3", "-c", "10,8,6"]
service = "shop"
[[probes]]
kind = "http"
target = "https://www.example.org/login"
expect_status = ["200", "3xx"]
expect_body = "Log in"
[[probes]]
name = "certificate"
kind = "tls"
target = "www.example.org"
certificate_days = 30
interval_seconds = 1800
[[probes]]
kind = "tcp"
target = "[2001:db8::1]:25"
interval_seconds = 2
[[probes]]
kind = "dns"
target = "www.example.org"
resolver = "192.0.2.53"
expect_addresses = ["192.0.2.10"]
[[probes]]
kind = "icmp"
target = "192.0.2.1"
"#,
        &expect![[r#"
            https://www.example.org/login: http https://www.example.org/login - every 30 s within 5 s
            certificate: tls www.example.org - every 1800 s within 5 s
            [2001:db8::1]:25: tcp [2001:db8::1]:25 - every 2 s within 2 s
            www.example.org: dns www.example.org - every 30 s within 5 s
            192.0.2.1: icmp 192.0.2.1 - every 30 s within 5 s
            load: plugin  shop every 60 s within 10 s
        "#]],
    );
}

#[test]
fn wrong_entries_are_refused_with_line_and_hint() {
    for (text, expected) in [
        (
            "[[checks]]\nname = \"a\"\ncomand = [\"/x\"]\n",
            expect![[r#"
                cannot use weir.toml:3: unknown key `checks.comand`
                hint: did you mean `command`?"#]],
        ),
        (
            "[[checks]]\nname = \"a\"\ncommand = \"/usr/lib/nagios/plugins/check_load -w 5\"\n",
            expect![[r#"
                cannot use weir.toml:3: `checks.command` must be a list of texts
                hint: the program, an absolute path, and its arguments: no shell reads them"#]],
        ),
        (
            "[[checks]]\nname = \"a\"\ncommand = [\"check_load\"]\n",
            expect![[r#"
                cannot use weir.toml:3: `check_load` is not an absolute path
                hint: command = ["/usr/lib/nagios/plugins/check_load", "-w", "5"]"#]],
        ),
        (
            "[[checks]]\nname = \"a\"\n",
            expect![[r#"
                cannot use weir.toml:1: `[[checks]]` has no `command`
                hint: command = ["/usr/lib/nagios/plugins/check_load", "-w", "5"]"#]],
        ),
        (
            "[[checks]]\nname = \"a\"\ncommand = [\"/a\"]\n[[probes]]\nname = \"a\"\nkind = \"icmp\"\ntarget = \"b\"\n",
            expect![[r#"
                cannot use weir.toml:5: there are two checks `a`
                hint: results are kept under the name"#]],
        ),
        (
            "[[probes]]\nkind = \"htp\"\ntarget = \"x\"\n",
            expect![[r#"
                cannot use weir.toml:2: there is no probe `htp`
                hint: did you mean `http`?"#]],
        ),
        (
            "[[probes]]\nkind = \"tcp\"\ntarget = \"db1\"\n",
            expect![[r#"
                cannot use weir.toml:3: `db1` is no target: it has no port
                hint: target = "db1:5432""#]],
        ),
        (
            "[[probes]]\nkind = \"tcp\"\ntarget = \"a:1\"\nexpect_status = [\"200\"]\n",
            expect![[r#"
                cannot use weir.toml:4: a probe of kind `tcp` has no `expect_status`
                hint: it belongs to http"#]],
        ),
        (
            "[[probes]]\nkind = \"http\"\ntarget = \"http://a/\"\nexpect_status = [\"20x\"]\n",
            expect![[r#"
                cannot use weir.toml:4: `20x` is not a status code
                hint: expect_status = ["200", "3xx", "401-403"]"#]],
        ),
        (
            "[[probes]]\nkind = \"http\"\ntarget = \"http://a/\"\ntimeout_seconds = 60\n",
            expect!["cannot use weir.toml:4: `timeout_seconds` must be from 1 to 30"],
        ),
    ] {
        check(text, &expected);
    }
}

/// Names, timeouts and notes of a plan.
fn shown(config: &Config, path: &str) -> String {
    let plan = CheckPlan::of(&config.values).expect("the file is there");
    let specs = plan.specs.iter().map(|spec| format!("{} {}\n", spec.name, spec.timeout.as_secs()));
    let notes = plan.notes.iter().map(|note| format!("{}\n", note.replace(path, "nrpe.cfg")));
    specs.chain(notes).collect()
}

#[test]
fn commands_of_nrpe_are_imported_and_what_cannot_run_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("nrpe.cfg");
    let text = "command_timeout=20\ncommand[load]=/usr/lib/nagios/plugins/check_load -w 5\n\
        command[mem]=free | awk x\ncommand[disk]=/usr/lib/nagios/plugins/check_disk -p /\n";
    std::fs::write(&path, text).expect("it can be written");
    let path = path.display().to_string();
    let entry = format!("[[checks]]\nnrpe_config = \"{path}\"\n");
    let twin = format!("{entry}[[checks]]\nname = \"disk\"\ncommand = [\"/bin/true\"]\n");
    let config = Config::read(Path::new("weir.toml"), &twin).expect("it is right");
    expect![[r#"
        disk 10
        load 20
        cannot import command `mem` of `nrpe.cfg:3`: it needs the shell's `|`
        hint: put the line into a script and name the script
        `disk` of `nrpe.cfg` is left out: a check has that name
    "#]]
    .assert_eq(&shown(&config, &path));
    let only = format!("{entry}only = [\"disk\"]\ntimeout_seconds = 5\n");
    let config = Config::read(Path::new("weir.toml"), &only).expect("it is right");
    expect![[r#"
        disk 5
    "#]]
    .assert_eq(&shown(&config, &path));
    let wrong = format!("{entry}only = [\"dsk\"]\n");
    let config = Config::read(Path::new("weir.toml"), &wrong).expect("it is right");
    let error = CheckPlan::of(&config.values).expect_err("there is no such command");
    expect![[r#"
        cannot use weir.toml:2: `nrpe.cfg` has no command `dsk`
        hint: did you mean `disk`?"#]]
    .assert_eq(&error.to_string().replace(&path, "nrpe.cfg"));
    let missing = "[[checks]]\nnrpe_config = \"/nonexistent/nrpe.cfg\"\n";
    check(
        missing,
        &expect![[r#"
        cannot read `/nonexistent/nrpe.cfg`: No such file or directory (os error 2)
        hint: it is imported by `nrpe_config` of weir.toml:2"#]],
    );
}
