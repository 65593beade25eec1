//! Values of typed parameters: what each kind takes, and what it must not take.

use std::fs;
use std::os::unix::fs::symlink;

use weir_act::{Order, OrderMode};

use crate::kit::{GOOD, TestHost, own_uid, params};

const INTEGER: &str = "type = \"integer\"\nmin = 0\nmax = 100";
const PATH: &str = "type = \"path\"\nbelow = \"/srv/cache\"";
const ADDRESS: &str = "type = \"address\"\nnetworks = [\"10.0.0.0/8\", \"2001:db8::/32\"]";
const SOCKET: &str =
    "type = \"address\"\nnetworks = [\"10.0.0.0/8\", \"fd00::/8\"]\nports = [8000, 8999]";
const PATTERN: &str = "type = \"regex\"\npattern = \"[a-z./@-]+\"\nmax_bytes = 20";

/// A rule, values that it takes, and values that it does not.
const RULES: &[(&str, &[&str], &[&str])] = &[
    (
        INTEGER,
        &["0", "7", "100"],
        &[
            "101",
            "-1",
            "+5",
            "05",
            "5.0",
            "1e2",
            " 5",
            "5 ",
            "",
            "0x5",
            "٣",
            "5;",
            "five",
            "9223372036854775808",
            "18446744073709551617",
        ],
    ),
    (
        PATH,
        &["/srv/cache/a", "/srv/cache/a/b"],
        &[
            "/srv/cache",
            "/srv/cache/",
            "/srv/cachet",
            "/srv/cache/../secret",
            "/srv/cache/a/..",
            "/srv/cache//a",
            "/srv/cache/./a",
            "/srv/cache/a/",
            "srv/cache/a",
            "cache/a",
            "/etc/passwd",
            "/srv/cache/link",
            "/srv/cache/link/x",
            "/srv/cache/none",
            "/srv/secret",
            "~/a",
            "",
            "/srv/cache/a\n",
            "/srv/cache/a\0",
            "/srv/cache/*",
            "/SRV/cache/a",
            "file:///srv/cache/a",
        ],
    ),
    (
        ADDRESS,
        &["10.1.2.3", "2001:db8::1"],
        &[
            "11.0.0.1",
            "10.1.2",
            "10.1.2.3:80",
            "10.1.2.3/8",
            "010.1.2.3",
            "0x0a.1.2.3",
            "167772161",
            "::ffff:10.1.2.3",
            "localhost",
            "[2001:db8::1]",
            "2001:db9::1",
            "10.1.2.3 ",
            "",
            "2001:db8::1%eth0",
        ],
    ),
    (
        SOCKET,
        &["10.1.2.3:8000", "[fd00::1]:8999"],
        &[
            "10.1.2.3",
            "10.1.2.3:80",
            "10.1.2.3:9000",
            "10.1.2.3:",
            "10.1.2.3:08000x",
            "10.1.2.3:8000/",
            "fd00::1:8000",
            "[fd00::1]",
            "11.1.2.3:8000",
            "10.1.2.3:65536",
            "10.1.2.3:8000,10.1.2.4:8000",
            "user@10.1.2.3:8000",
        ],
    ),
    (
        PATTERN,
        &["shop@a.service", "a/b", "a-b"],
        &[
            "-a",
            "--",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "/..",
            "A",
            "a b",
            "a\n",
            "\na",
            "a\0",
            "a;b",
            "$(a)",
            "`a`",
            "a|b",
            "a\u{202e}b",
            "a\u{200b}b",
            "",
            "aaaaaaaaaaaaaaaaaaaaa",
        ],
    ),
];

#[test]
fn each_kind_takes_its_values_and_no_others() {
    let host = TestHost::new();
    for part in ["srv/cache/a/b", "srv/secret"] {
        fs::create_dir_all(host.path(part)).expect("a directory");
    }
    fs::write(host.path("srv/secret/x"), "").expect("a file");
    symlink("../secret", host.path("srv/cache/link")).expect("a symlink");
    let mut count = 0;
    for (rule, good, bad) in RULES {
        host.list("tool", &GOOD.replace("any_of = [\"good\", \"fine\"]", rule));
        for value in *good {
            let order = Order { params: params(&[("value", value)]), ..dry_run(&host) };
            let lines = host.send(&order);
            assert_eq!(lines[0]["code"], "taken", "{rule}: {value:?}: {lines:?}");
            assert_eq!(lines[1]["argv"][0][1], *value);
        }
        for value in *bad {
            let order = Order { params: params(&[("value", value)]), ..dry_run(&host) };
            host.refused(&host.sign(&order), own_uid(), &format!("{rule}: {value:?}"));
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}

fn dry_run(host: &TestHost) -> Order {
    Order { mode: OrderMode::DryRun, ..host.order() }
}

/// A value that looks like several arguments, or like syntax of a shell, is one argument
/// (ConSol-Monitoring/snclient#158: quotes that ended an argument; NagiosEnterprises/nrpe#6: a
/// newline that a list of forbidden letters lacked).
#[test]
fn a_value_is_one_argument_whatever_is_in_it() {
    let host = TestHost::new();
    let values =
        ["a b", "$(touch MARK)", "a;b", "*", "a'b", "\"x\"", "google.fr' || echo coucou ||'''"];
    host.list("tool", &GOOD.replace("[\"good\", \"fine\"]", &format!("{values:?}")));
    host.script("usr/bin/tool", "echo \"$#:$1\" >> MARK");
    for value in values {
        let order = Order { params: params(&[("value", value)]), ..host.order() };
        assert_eq!(host.send(&order)[1]["state"], "ended", "{value}");
    }
    assert_eq!(host.marks(), values.map(|value| format!("1:{value}")));
}
