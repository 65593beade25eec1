//! Faults of services and resources that stop, fill up or run out, and scenarios that only look
//! like one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::cgroups::{DiskSize, fill};
use crate::command::run;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::testbed::{APP, NginxConfig, PROXIED, SERVER, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "acceptor stopped",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            parameter("backlog", 4..=40, "accept queue of the application, connections"),
            parameter("clients", 80..=160, "clients that connect"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let backlog = testbed.draw("backlog");
            testbed.proxied_app(backlog)?;
            testbed.visitors(4, &[])
        },
        inject: |testbed| {
            let clients = testbed.draw("clients");
            testbed.knocks(clients, &["--patience-millis", "3000"])?;
            testbed.signal("app", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "application slow",
        rules: &[&["app.slow"]],
        parameters: &[parameter("millis", 600..=1800, "milliseconds")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.visitors(25, &[])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("delay", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "application killed",
        rules: &[&["app.down"]],
        parameters: &[parameter("visitors", 5..=30, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(256)?;
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            testbed.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "proxy ended",
        rules: &[&["proxy.down"]],
        parameters: &[parameter("visitors", 5..=30, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(256)?;
            testbed.visitors(visitors, &[])?;
            // A proxy must be known for a while before its absence is a finding.
            testbed.baseline_seconds = 25;
            Ok(())
        },
        inject: |testbed| {
            // nginx ends its workers too, as at a service manager's stop.
            testbed.signal("nginx", Signal::TERM)?;
            Ok(None)
        },
    },
    Fault {
        name: "application starts again and again",
        rules: &[&["app.crash_loop"]],
        parameters: &[
            parameter("visitors", 5..=30, "visitors"),
            parameter("millis", 1500..=4000, "milliseconds until it ends again"),
        ],
        tools: &["nginx", "timeout"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(256)?;
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            let life =
                format!("{:.3}", Duration::from_millis(testbed.draw("millis")).as_secs_f64());
            testbed.signal("app", Signal::KILL)?;
            let again = "while sleep 0.2; do timeout -s KILL \"$@\"; done";
            let (netns, program, delay) =
                (testbed.server.clone(), testbed.program(), testbed.path("delay"));
            let app = ["drill", "app", "--address", APP, "--backlog", "256", "--delay", &delay];
            let args = [&["-c", again, "sh", &life, &program], &app[..]].concat();
            testbed.start("starter", &netns, "sh", &args)?;
            Ok(None)
        },
    },
    Fault {
        name: "application crashes",
        rules: &[&["app.segfault"]],
        parameters: &[
            parameter("port", 6001..=6999, "its port"),
            parameter("crashes", 1..=4, "crashes, each followed by a restart"),
        ],
        tools: &["perl"],
        set: |testbed| {
            let (port, crashes) =
                (testbed.draw("port").to_string(), testbed.draw("crashes").to_string());
            // Listens until the fault is made, then reads from an invalid address.
            let program = "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); \
                 bind(S, sockaddr_in($ARGV[0], INADDR_ANY)); listen(S, 16); \
                 select(undef, undef, undef, 0.3) until -e $ARGV[1]; unpack('p', pack('J', 1))";
            let again = "for life in $(seq \"$1\"); do perl -e \"$2\" \"$3\" \"$4\"; sleep 1; done";
            let (netns, mark) = (testbed.server.clone(), testbed.path("crash"));
            let args = ["-c", again, "sh", &crashes, program, &port, &mark];
            testbed.start("server", &netns, "sh", &args)
        },
        inject: |testbed| {
            testbed.put("crash", "now")?;
            Ok(None)
        },
    },
    Fault {
        name: "descriptors used up",
        rules: &[&["app.fd_limit"]],
        parameters: &[
            parameter("files", 30..=120, "descriptors"),
            parameter("clients", 130..=200, "clients that connect"),
        ],
        tools: &[],
        set: |testbed| {
            let files = testbed.draw("files").to_string();
            testbed.app(64, &["--files", &files])
        },
        inject: |testbed| {
            let clients = testbed.draw("clients");
            testbed.knocks(clients, &["--hold"])?;
            Ok(None)
        },
    },
    Fault {
        name: "connections never closed",
        rules: &[&["tcp.close_wait_leak"]],
        parameters: &[parameter("visitors", 1..=4, "visitors whose connections stay open")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &[])?;
            let beside = format!(
                "server {{ listen {SERVER}:8080; location / {{ proxy_pass http://127.0.0.1:9002; }} }}"
            );
            testbed.nginx_with(&NginxConfig {
                http: &beside,
                server: PROXIED,
                ..NginxConfig::default()
            })?;
            testbed.visitors(5, &[])
        },
        inject: |testbed| {
            // Runs beside the healthy application, so visitors are not affected.
            let netns = testbed.server.clone();
            testbed.app_at(&netns, "127.0.0.1:9002", 256, &["--leak", "--files", "16384"])?;
            let visitors = testbed.draw("visitors");
            testbed.visitors_at(&format!("{SERVER}:8080"), visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "line too narrow",
        rules: &[&["wire.bandwidth_cap"]],
        parameters: &[parameter("rate", 2000..=9000, "kbit/s of the link")],
        tools: &["tc", "nginx"],
        set: |testbed| {
            testbed.app(256, &["--bytes", "200000"])?;
            testbed.nginx(&format!(
                "location / {{ proxy_pass http://{APP}; proxy_buffers 64 16k; }}"
            ))?;
            testbed.visitors(8, &[])
        },
        inject: |testbed| {
            let rate = format!("{}kbit", testbed.draw("rate"));
            let queue = ["burst", "16kb", "limit", "60kb"];
            let tbf = [
                "-n",
                &testbed.server,
                "qdisc",
                "add",
                "dev",
                "veth",
                "root",
                "tbf",
                "rate",
                &rate,
            ];
            run("tc", &[&tbf[..], &queue[..]].concat())?;
            Ok(None)
        },
    },
    Fault {
        name: "disk full",
        rules: &[&["disk.full"]],
        parameters: &[parameter("mebibytes", 24..=96, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            testbed.disk(DiskSize { mebibytes, inodes: 256 }).map(drop)
        },
        inject: |testbed| {
            let file = fill(&testbed.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "inodes used up",
        rules: &[&["disk.inodes_full"]],
        parameters: &[parameter("inodes", 64..=512, "inodes of the file system")],
        tools: &["mkfs.ext4", "mount"],
        set: |testbed| {
            let inodes = testbed.draw("inodes");
            testbed.disk(DiskSize { mebibytes: 32, inodes }).map(drop)
        },
        inject: |testbed| {
            let disk = testbed.file("disk");
            create_files_until_full(&disk);
            Ok(None)
        },
    },
    Fault {
        name: "deleted and open",
        rules: &[&["disk.deleted_but_open"]],
        parameters: &[parameter("mebibytes", 8..=40, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |testbed| testbed.disk(DiskSize { mebibytes: 64, inodes: 256 }).map(drop),
        inject: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            let path = testbed.file("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "certificate ends",
        rules: &[&["tls.cert_expiring"]],
        parameters: &[parameter("days", 1..=6, "days that the certificate is valid")],
        tools: &["openssl", "nginx"],
        set: |testbed| testbed.visitors(2, &[]),
        inject: |testbed| {
            let days = testbed.draw("days");
            certificate(testbed, days)?;
            testbed.nginx(&tls(testbed))?;
            Ok(None)
        },
    },
    Fault {
        name: "certificate not reloaded",
        rules: &[&["tls.cert_not_reloaded"]],
        parameters: &[
            parameter("days", 25..=89, "days that the certificate is valid"),
            parameter("hours", 2..=48, "hours since the new certificate was written"),
        ],
        tools: &["openssl", "nginx"],
        set: |testbed| {
            let days = testbed.draw("days");
            certificate(testbed, days)?;
            testbed.nginx(&tls(testbed))
        },
        inject: |testbed| {
            certificate(testbed, 90)?;
            // A recent certificate is only a note, since a reload may be under way.
            let hours = testbed.draw("hours");
            let file = fs::File::options().write(true).open(testbed.path("cert.pem"))?;
            file.set_modified(file.metadata()?.modified()? - Duration::from_secs(hours * 3600))?;
            Ok(None)
        },
    },
];

/// Scenarios in which nothing is wrong.
pub(crate) const NO_FAULTS: &[Fault] = &[
    Fault {
        name: "none: burst within capacity",
        rules: &[],
        parameters: &[parameter("visitors", 20..=40, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(1024)?;
            testbed.visitors(5, &[])
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: ports scanned",
        rules: &[],
        parameters: &[parameter("ports", 200..=900, "ports")],
        tools: &["nginx", "bash"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.visitors(5, &[])
        },
        inject: |testbed| {
            let ports = testbed.draw("ports");
            let script = format!(
                "for p in $(seq 2000 {}); do (exec 3<>/dev/tcp/{SERVER}/$p) 2>/dev/null; done",
                2000 + ports
            );
            let client = testbed.client.clone();
            testbed.start("scan", &client, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: visitors leave early",
        rules: &[],
        parameters: &[],
        tools: &["nginx"],
        set: |testbed| {
            testbed.put("delay", "60")?;
            testbed.proxied_app(256)?;
            testbed.visitors(20, &[])
        },
        inject: |testbed| {
            testbed.visitors(1, &["--patience-millis", "20", "--pause-millis", "400"])?;
            Ok(None)
        },
    },
];

/// Creates the files until no inode is left, or 4,096 of them.
pub(crate) fn create_files_until_full(dir: &Path) {
    let _made = (0..4096).take_while(|n| fs::File::create(dir.join(n.to_string())).is_ok()).count();
}

/// Replaces the site's certificate and key.
pub(crate) fn certificate(testbed: &TestBed, days: u64) -> Result<()> {
    let (days, key, cert) = (days.to_string(), testbed.path("key.pem"), testbed.path("cert.pem"));
    let mut args =
        vec!["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example"];
    args.extend(["-days", &days, "-keyout", &key, "-out", &cert]);
    run("openssl", &args)
}

/// nginx directives for a server with that certificate.
pub(crate) fn tls(testbed: &TestBed) -> String {
    format!(
        "listen {SERVER}:443 ssl; ssl_certificate {}; ssl_certificate_key {}; \
         server_name shop.example; location / {{ return 200 hello; }}",
        testbed.path("cert.pem"),
        testbed.path("key.pem")
    )
}
