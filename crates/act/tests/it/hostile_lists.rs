//! Lists that must not run: each is the good list with one change, or a good list in a bad place.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use weir_act::{ActHost, HubPin, OrderSigner};

use crate::kit::{GOOD, TestHost, is_root, own_uid, set_mode};

/// What to replace in the good list, and by what.
const TEXTS: &[(&str, &str, &str)] = &[
    ("a relative program", "/usr/bin/tool", "tool"),
    ("a program without its first slash", "/usr/bin/tool", "usr/bin/tool"),
    ("a program by `..`", "/usr/bin/tool", "/usr/bin/../bin/tool"),
    ("a program by `.`", "/usr/bin/tool", "/usr/bin/./tool"),
    ("a program by `//`", "/usr/bin/tool", "/usr//bin/tool"),
    ("a program with a slash at its end", "/usr/bin/tool", "/usr/bin/tool/"),
    ("a program from a parameter", "\"/usr/bin/tool\", \"{value}\"", "\"/usr/bin/{value}\""),
    ("a parameter as the program", "\"/usr/bin/tool\", \"{value}\"", "\"{value}\""),
    ("a program with NUL", "/usr/bin/tool", "/usr/bin/tool\\u0000"),
    ("a program with a newline", "/usr/bin/tool", "/usr/bin/tool\\n"),
    ("a shell", "\"/usr/bin/tool\"", "\"/bin/sh\", \"-c\""),
    ("a shell of another name", "/usr/bin/tool", "/usr/bin/busybox"),
    ("env", "\"/usr/bin/tool\"", "\"/usr/bin/env\", \"tool\""),
    ("sudo", "\"/usr/bin/tool\"", "\"/usr/bin/sudo\", \"/usr/bin/tool\""),
    ("xargs", "/usr/bin/tool", "/usr/bin/xargs"),
    ("an empty step", "[[\"/usr/bin/tool\", \"{value}\"]]", "[[]]"),
    ("no steps", "[[\"/usr/bin/tool\", \"{value}\"]]", "[]"),
    ("a command line", "[[\"/usr/bin/tool\", \"{value}\"]]", "\"/usr/bin/tool {value}\""),
    ("a list of words", "[[\"/usr/bin/tool\", \"{value}\"]]", "[\"/usr/bin/tool\", \"{value}\"]"),
    ("a number as an argument", "\"{value}\"]]", "\"{value}\", 7]]"),
    ("an argument with NUL", "\"{value}\"]]", "\"{value}\", \"a\\u0000b\"]]"),
    ("a parameter as a part", "\"{value}\"]]", "\"--to={value}\"]]"),
    ("a parameter doubled", "\"{value}\"]]", "\"{value}{value}\"]]"),
    ("an unknown parameter", "\"{value}\"]]", "\"{value}\", \"{other}\"]]"),
    ("an unused parameter", "\"{value}\"]]", "\"value\"]]"),
    ("another id", "id = \"tool\"", "id = \"other\""),
    ("an id that leads elsewhere", "id = \"tool\"", "id = \"../tool\""),
    ("an unknown key", "ceiling", "shell = true\nceiling"),
    ("a doubled key", "ceiling", "ceiling = \"auto\"\nceiling"),
    ("a doubled parameter", "[params.value]", "[params.value]\nmin = 1\n[params.value]"),
    ("an option among the values", "\"fine\"]", "\"-fine\"]"),
    ("no values", "[\"good\", \"fine\"]", "[]"),
    ("a value twice", "\"fine\"]", "\"good\"]"),
    ("an empty value", "\"fine\"]", "\"\"]"),
    ("a value with `..`", "\"fine\"]", "\"../fine\"]"),
    ("a value with a newline", "\"fine\"]", "\"fi\\nne\"]"),
    ("a value with NUL", "\"fine\"]", "\"fi\\u0000ne\"]"),
    ("values and a type", "any_of", "type = \"integer\"\nmin = 1\nmax = 2\nany_of"),
    ("neither values nor a type", "any_of = [\"good\", \"fine\"]", ""),
    ("a bound that does not apply", "any_of", "max_bytes = 4\nany_of"),
    ("an unknown type", "any_of = [\"good\", \"fine\"]", "type = \"text\""),
    ("an integer without bounds", "any_of = [\"good\", \"fine\"]", "type = \"integer\"\nmin = 1"),
    (
        "an integer with crossed bounds",
        "any_of = [\"good\", \"fine\"]",
        "type = \"integer\"\nmin = 2\nmax = 1",
    ),
    (
        "an integer that begins with `-`",
        "any_of = [\"good\", \"fine\"]",
        "type = \"integer\"\nmin = -1\nmax = 1",
    ),
    ("a path anywhere", "any_of = [\"good\", \"fine\"]", "type = \"path\""),
    ("a path below `.`", "any_of = [\"good\", \"fine\"]", "type = \"path\"\nbelow = \".\""),
    ("a path below `/`", "any_of = [\"good\", \"fine\"]", "type = \"path\"\nbelow = \"/\""),
    ("a path by `..`", "any_of = [\"good\", \"fine\"]", "type = \"path\"\nbelow = \"/srv/..\""),
    ("any address", "any_of = [\"good\", \"fine\"]", "type = \"address\""),
    (
        "an address in no network",
        "any_of = [\"good\", \"fine\"]",
        "type = \"address\"\nnetworks = [\"10.0.0.0/40\"]",
    ),
    (
        "a pattern of any length",
        "any_of = [\"good\", \"fine\"]",
        "type = \"regex\"\npattern = \".*\"",
    ),
    (
        "a pattern that closes its group",
        "any_of = [\"good\", \"fine\"]",
        "type = \"regex\"\npattern = \"x)|(.*\"\nmax_bytes = 9",
    ),
    (
        "a pattern of a huge length",
        "any_of = [\"good\", \"fine\"]",
        "type = \"regex\"\npattern = \".*\"\nmax_bytes = 9999",
    ),
    ("no time", "timeout_seconds = 60", "timeout_seconds = 0"),
    ("endless time", "timeout_seconds = 60", "timeout_seconds = 86400"),
    ("a negative time", "timeout_seconds = 60", "timeout_seconds = -1"),
    ("no memory", "timeout_seconds = 60", "memory_bytes = 1"),
    ("no runs", "runs_per_hour = 60", "runs_per_hour = 0"),
    ("an unknown ceiling", "\"auto\"", "\"always\""),
    ("no ceiling", "ceiling = \"auto\"", ""),
    ("ceiling observe", "\"auto\"", "\"observe\""),
    ("ceiling suggest", "\"auto\"", "\"suggest\""),
    ("ceiling ask without a person", "\"auto\"", "\"ask\""),
    ("undo and none", "undo_none", "undo = [[\"/usr/bin/tool\", \"{value}\"]]\nundo_none"),
    ("neither undo nor none", "undo_none = \"nothing to undo\"", ""),
    ("an empty reason", "\"nothing to undo\"", "\" \""),
    ("no user", "user = \"USER\"", ""),
    ("an empty user", "\"USER\"", "\"\""),
    ("an unknown user", "\"USER\"", "\"no-such-account\""),
    ("a rule that is none", "app.down", "app down"),
    ("no TOML", "id = ", "id : "),
    ("no text", "id = \"tool\"", "\u{0}"),
];

#[test]
fn no_list_with_one_fault_runs() {
    let host = TestHost::new();
    assert_eq!(host.send(&host.order())[0]["code"], "taken");
    assert_eq!(host.marks(), ["good"], "the list without a fault runs");
    let mut reasons = Vec::new();
    for (name, from, to) in TEXTS {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{name}");
        host.list("tool", &text);
        let why = host.refused(&host.sign(&host.order()), own_uid(), name);
        reasons.push(format!("{name}: {why}"));
    }
    // A fault of the file is named with its file and line.
    for reason in reasons.iter().filter(|reason| reason.contains("cannot use `/etc")) {
        assert!(reason.contains("/etc/weir/actions.d/tool.toml`, line "), "{reason}");
    }
    assert!(TEXTS.len() >= 60);
}

type Fault = (&'static str, fn(&TestHost));

/// Changes of files around a good list.
const PLACES: &[Fault] = &[
    ("a list that all can write", |host| {
        set_mode(&host.path("etc/weir/actions.d/tool.toml"), 0o666)
    }),
    ("a list of a group", |host| set_mode(&host.path("etc/weir/actions.d/tool.toml"), 0o664)),
    ("a directory that all can write", |host| set_mode(&host.path("etc/weir/actions.d"), 0o777)),
    ("a sticky directory", |host| set_mode(&host.path("etc/weir/actions.d"), 0o1777)),
    ("a parent of a group", |host| set_mode(&host.path("etc/weir"), 0o775)),
    ("a grandparent that all can write", |host| set_mode(&host.path("etc"), 0o757)),
    ("a root that all can write", |host| set_mode(&host.path(""), 0o777)),
    ("a program that all can write", |host| set_mode(&host.path("usr/bin/tool"), 0o757)),
    ("a program of a group", |host| set_mode(&host.path("usr/bin/tool"), 0o775)),
    ("a program's directory that all can write", |host| set_mode(&host.path("usr/bin"), 0o777)),
    ("a program that is setuid", |host| set_mode(&host.path("usr/bin/tool"), 0o4755)),
    ("a program that is setgid", |host| set_mode(&host.path("usr/bin/tool"), 0o2755)),
    ("a program that is not executable", |host| set_mode(&host.path("usr/bin/tool"), 0o644)),
    ("no program", |host| fs::remove_file(host.path("usr/bin/tool")).expect("it is there")),
    ("a directory as the program", |host| {
        fs::remove_file(host.path("usr/bin/tool")).expect("it is there");
        fs::create_dir(host.path("usr/bin/tool")).expect("a directory");
    }),
    ("a symlink as the program", |host| moved_behind_link(host, "usr/bin/tool")),
    ("a symlink as the program's directory", |host| moved_behind_link(host, "usr/bin")),
    ("a symlink as the list", |host| moved_behind_link(host, "etc/weir/actions.d/tool.toml")),
    ("a symlink as the lists", |host| moved_behind_link(host, "etc/weir/actions.d")),
    ("a symlink as a parent", |host| moved_behind_link(host, "etc/weir")),
    ("a directory as the list", |host| {
        fs::remove_file(host.path("etc/weir/actions.d/tool.toml")).expect("it is there");
        fs::create_dir(host.path("etc/weir/actions.d/tool.toml")).expect("a directory");
    }),
    ("a pipe as the list", |host| {
        let path = host.path("etc/weir/actions.d/tool.toml");
        fs::remove_file(&path).expect("it is there");
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a pipe");
    }),
    ("bytes that are no text", |host| {
        let path = host.path("etc/weir/actions.d/tool.toml");
        fs::write(path, [GOOD.as_bytes(), b"# \xff\n"].concat()).expect("it can be written");
    }),
    ("a list over 1 MiB", |host| {
        let path = host.path("etc/weir/actions.d/tool.toml");
        fs::write(path, format!("{GOOD}#{}\n", "x".repeat(1 << 20))).expect("it can be written");
    }),
    ("no list", |host| {
        fs::remove_file(host.path("etc/weir/actions.d/tool.toml")).expect("it is there");
    }),
    ("the switch", |host| host.write("etc/weir/actions.off", "", 0o644)),
    ("the switch as a directory", |host| {
        fs::create_dir(host.path("etc/weir/actions.off")).expect("a directory");
    }),
    ("the switch as a dangling symlink", |host| {
        symlink("/nowhere", host.path("etc/weir/actions.off")).expect("a symlink");
    }),
    ("no pin", |host| fs::remove_file(host.path("etc/weir/orders.toml")).expect("it is there")),
    ("a pin that all can write", |host| set_mode(&host.path("etc/weir/orders.toml"), 0o666)),
    ("a symlink as the pin", |host| moved_behind_link(host, "etc/weir/orders.toml")),
    ("a pin of another form", |host| host.write("etc/weir/orders.toml", "key = 1\n", 0o644)),
    ("a pin of another hub", |host| {
        let dir = tempfile::tempdir().expect("a directory");
        let key = OrderSigner::open(dir.path()).expect("a key").public_line();
        let pin = HubPin { key, agent: "web1".into(), agent_uid: None };
        host.act_host().set_pin(&pin).expect("it can be pinned");
    }),
    ("a pin of another agent", |host| host.pin("web2", None)),
    ("no accounts", |host| fs::remove_file(host.path("etc/passwd")).expect("it is there")),
    ("accounts that all can write", |host| set_mode(&host.path("etc/passwd"), 0o666)),
    ("a journal that was changed", |host| {
        fs::create_dir_all(host.path("var/lib/weir-act")).expect("a directory");
        host.write("var/lib/weir-act/journal", "{}\n", 0o600);
    }),
    ("a directory as the journal", |host| {
        fs::create_dir_all(host.path("var/lib/weir-act/journal")).expect("a directory");
    }),
    ("a file as the journal's directory", |host| {
        fs::create_dir_all(host.path("var/lib")).expect("a directory");
        host.write("var/lib/weir-act", "", 0o600);
    }),
];

/// Moves a file aside, and puts a symlink to it in its place.
fn moved_behind_link(host: &TestHost, part: &str) {
    let (path, aside) = (host.path(part), host.path("srv/aside"));
    fs::rename(&path, &aside).expect("it is there");
    symlink(&aside, &path).expect("a symlink");
}

/// Scripts that others could write and root ran: cawilliamson/ansible-gpdpocket#96,
/// GoogleCloudPlatform/guest-agent#89; symlinks that a check followed: spupuz/proxmox-scripts#60,
/// LanternOps/breeze#5519, DataDog/datadog-agent#56430.
#[test]
fn no_good_list_runs_from_a_bad_place() {
    for (name, fault) in PLACES {
        let host = TestHost::new();
        fault(&host);
        host.refused(&host.sign(&host.order()), own_uid(), name);
    }
}

/// Files of another account. Without root nothing can be given away, so the expected owner differs.
#[test]
fn nothing_of_another_account_is_used() {
    let parts = ["etc/weir/actions.d/tool.toml", "etc/weir", "usr/bin/tool", "usr", "etc/passwd"];
    for part in parts {
        let host = TestHost::new();
        if is_root() {
            chown(host.path(part), Some(65_534), None).expect("root can");
            let why = host.refused(&host.sign(&host.order()), own_uid(), part);
            assert!(why.contains("belongs to uid 65534"), "{why}");
        } else {
            let other = ActHost::new(&host.path(""), own_uid() + 1);
            assert!(other.action("tool").is_err() && other.pin().is_err());
        }
    }
}

#[test]
fn an_error_of_a_list_reads_well() {
    let host = TestHost::new();
    host.list("tool", &GOOD.replace("\"{value}\"", "\"--to={value}\""));
    let error = host.act_host().action("tool").expect_err("a part of an argument");
    expect_test::expect![[r#"
        cannot use `/etc/weir/actions.d/tool.toml`, line 2: `{value}` is a part of `--to={value}`
        hint: a parameter is a whole argument: let its values have the rest, too"#]]
    .assert_eq(&error.to_string());
    host.list("tool", &GOOD.replace("ceiling", "cieling"));
    let error = host.act_host().action("tool").expect_err("an unknown key").to_string();
    assert!(error.contains("line 6") && error.contains("cieling"), "{error}");
    set_mode(&host.path("etc/weir"), 0o775);
    let error = host.act_host().action("tool").expect_err("a group can write");
    expect_test::expect![[r#"
        cannot trust `/etc/weir/actions.d/tool.toml`: `/etc/weir` is writable by others (mode 775)
        hint: chmod go-w /etc/weir"#]]
    .assert_eq(&error.to_string());
}
