//! Faults of what stops, fills up or runs out, and what only looks like one.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::ground::fill;
use crate::scene::{APP, PROXIED, SERVER, Scene, run};

/// What stops, fills up or runs out.
pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "acceptor stopped",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            of("backlog", 4, 40, "accept queue of what is asked, connections"),
            of("clients", 80, 160, "clients that connect"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let backlog = scene.draw("backlog");
            scene.usual(backlog, 4)
        },
        inject: |scene| {
            let clients = scene.draw("clients");
            scene.knocks(clients, &["--patience-millis", "3000"])?;
            scene.signal("app", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "application slow",
        rules: &[&["app.slow"]],
        parameters: &[of("millis", 600, 1800, "milliseconds")],
        tools: &["nginx"],
        set: |scene| scene.usual(256, 25),
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("delay", &millis.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "application killed",
        rules: &[&["app.down"]],
        parameters: &[of("visitors", 5, 30, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.usual(256, visitors)
        },
        inject: |scene| {
            scene.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "proxy ended",
        rules: &[&["proxy.down"]],
        parameters: &[of("visitors", 5, 30, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.usual(256, visitors)?;
            // Who has only just come is not missed.
            scene.calm_seconds = 25;
            Ok(())
        },
        inject: |scene| {
            // With its workers, as a service manager ends it.
            scene.signal("nginx", Signal::TERM)?;
            Ok(None)
        },
    },
    Fault {
        name: "application starts again and again",
        rules: &[&["app.crash_loop"]],
        parameters: &[
            of("visitors", 5, 30, "visitors"),
            of("millis", 1500, 4000, "milliseconds that it lives"),
        ],
        tools: &["nginx", "timeout"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.usual(256, visitors)
        },
        inject: |scene| {
            let life = format!("{:.3}", Duration::from_millis(scene.draw("millis")).as_secs_f64());
            scene.signal("app", Signal::KILL)?;
            let again = "while sleep 0.2; do timeout -s KILL \"$@\"; done";
            let (netns, program, delay) =
                (scene.server.clone(), scene.program(), scene.path("delay"));
            let app = ["drill", "app", "--address", APP, "--backlog", "256", "--delay", &delay];
            let args = [&["-c", again, "sh", &life, &program], &app[..]].concat();
            scene.start("starter", &netns, "sh", &args)?;
            Ok(None)
        },
    },
    Fault {
        name: "application crashes",
        rules: &[&["app.segfault"]],
        parameters: &[
            of("port", 6001, 6999, "its port"),
            of("crashes", 1, 4, "times that it starts and crashes again"),
        ],
        tools: &["perl"],
        set: |scene| {
            let (port, crashes) =
                (scene.draw("port").to_string(), scene.draw("crashes").to_string());
            // It serves until the fault is made, and then reads where it may not.
            let program = "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); \
                 bind(S, sockaddr_in($ARGV[0], INADDR_ANY)); listen(S, 16); \
                 select(undef, undef, undef, 0.3) until -e $ARGV[1]; unpack('p', pack('J', 1))";
            let again = "for life in $(seq \"$1\"); do perl -e \"$2\" \"$3\" \"$4\"; sleep 1; done";
            let (netns, mark) = (scene.server.clone(), scene.path("crash"));
            let args = ["-c", again, "sh", &crashes, program, &port, &mark];
            scene.start("server", &netns, "sh", &args)
        },
        inject: |scene| {
            scene.put("crash", "now")?;
            Ok(None)
        },
    },
    Fault {
        name: "descriptors used up",
        rules: &[&["app.fd_limit"]],
        parameters: &[
            of("files", 30, 120, "descriptors"),
            of("clients", 130, 200, "clients that connect"),
        ],
        tools: &[],
        set: |scene| {
            let files = scene.draw("files").to_string();
            scene.app(64, &["--files", &files])
        },
        inject: |scene| {
            let clients = scene.draw("clients");
            scene.knocks(clients, &["--hold"])?;
            Ok(None)
        },
    },
    Fault {
        name: "connections never closed",
        rules: &[&["tcp.close_wait_leak"]],
        parameters: &[of("visitors", 1, 4, "visitors whose connections are kept")],
        tools: &["nginx"],
        set: |scene| {
            scene.app(256, &[])?;
            let beside = format!(
                "server {{ listen {SERVER}:8080; location / {{ proxy_pass http://127.0.0.1:9002; }} }}"
            );
            scene.nginx_with(4096, &beside, PROXIED)?;
            scene.visitors(5, &[])
        },
        inject: |scene| {
            // Beside the one that serves well, so that nothing else happens to visitors.
            let netns = scene.server.clone();
            scene.app_at(&netns, "127.0.0.1:9002", 256, &["--leak", "--files", "16384"])?;
            let visitors = scene.draw("visitors");
            scene.visitors_at(&format!("{SERVER}:8080"), visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "line too narrow",
        rules: &[&["wire.bandwidth_cap"]],
        parameters: &[of("rate", 2000, 9000, "kbit/s of the line")],
        tools: &["tc", "nginx"],
        set: |scene| {
            scene.app(256, &["--bytes", "200000"])?;
            scene.nginx(&format!(
                "location / {{ proxy_pass http://{APP}; proxy_buffers 64 16k; }}"
            ))?;
            scene.visitors(8, &[])
        },
        inject: |scene| {
            let rate = format!("{}kbit", scene.draw("rate"));
            let queue = ["burst", "16kb", "limit", "60kb"];
            let tbf =
                ["-n", &scene.server, "qdisc", "add", "dev", "veth", "root", "tbf", "rate", &rate];
            run("tc", &[&tbf[..], &queue[..]].concat())?;
            Ok(None)
        },
    },
    Fault {
        name: "disk full",
        rules: &[&["disk.full"]],
        parameters: &[of("mebibytes", 24, 96, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            scene.disk(mebibytes, 256).map(drop)
        },
        inject: |scene| {
            let file = fill(&scene.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "inodes used up",
        rules: &[&["disk.inodes_full"]],
        parameters: &[of("inodes", 64, 512, "inodes of the file system")],
        tools: &["mkfs.ext4", "mount"],
        set: |scene| {
            let inodes = scene.draw("inodes");
            scene.disk(32, inodes).map(drop)
        },
        inject: |scene| {
            let disk = scene.file("disk");
            let is_made = |n: &u32| fs::File::create(disk.join(n.to_string())).is_ok();
            let _made = (0..4096).take_while(is_made).count();
            Ok(None)
        },
    },
    Fault {
        name: "deleted and open",
        rules: &[&["disk.deleted_but_open"]],
        parameters: &[of("mebibytes", 8, 40, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |scene| scene.disk(64, 256).map(drop),
        inject: |scene| {
            let mebibytes = scene.draw("mebibytes");
            let path = scene.file("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "certificate ends",
        rules: &[&["tls.cert_expiring"]],
        parameters: &[of("days", 1, 6, "days that the certificate is valid")],
        tools: &["openssl", "nginx"],
        set: |scene| scene.visitors(2, &[]),
        inject: |scene| {
            let days = scene.draw("days");
            certificate(scene, days)?;
            scene.nginx(&tls(scene))?;
            Ok(None)
        },
    },
    Fault {
        name: "certificate not reloaded",
        rules: &[&["tls.cert_not_reloaded"]],
        parameters: &[
            of("days", 25, 89, "days that the certificate is valid"),
            of("hours", 2, 48, "hours since the new certificate was written"),
        ],
        tools: &["openssl", "nginx"],
        set: |scene| {
            let days = scene.draw("days");
            certificate(scene, days)?;
            scene.nginx(&tls(scene))
        },
        inject: |scene| {
            certificate(scene, 90)?;
            // A note while a reload may be under way; what was forgotten is hours old.
            let hours = scene.draw("hours");
            let file = fs::File::options().write(true).open(scene.path("cert.pem"))?;
            file.set_modified(file.metadata()?.modified()? - Duration::from_secs(hours * 3600))?;
            Ok(None)
        },
    },
];

/// Nothing is wrong, whatever it looks like.
pub(crate) const NONE: &[Fault] = &[
    Fault {
        name: "none: burst within capacity",
        rules: &[],
        parameters: &[of("visitors", 20, 40, "visitors")],
        tools: &["nginx"],
        set: |scene| scene.usual(1024, 5),
        inject: |scene| {
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: ports scanned",
        rules: &[],
        parameters: &[of("ports", 200, 900, "ports")],
        tools: &["nginx", "bash"],
        set: |scene| scene.usual(256, 5),
        inject: |scene| {
            let ports = scene.draw("ports");
            let script = format!(
                "for p in $(seq 2000 {}); do (exec 3<>/dev/tcp/{SERVER}/$p) 2>/dev/null; done",
                2000 + ports
            );
            let client = scene.client.clone();
            scene.start("scan", &client, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: visitors leave early",
        rules: &[],
        parameters: &[],
        tools: &["nginx"],
        set: |scene| {
            scene.put("delay", "60")?;
            scene.usual(256, 20)
        },
        inject: |scene| {
            scene.visitors(1, &["--patience-millis", "20", "--pause-millis", "400"])?;
            Ok(None)
        },
    },
];

/// Makes the site's certificate and key anew.
pub(crate) fn certificate(scene: &Scene, days: u64) -> Result<()> {
    let (days, key, cert) = (days.to_string(), scene.path("key.pem"), scene.path("cert.pem"));
    let mut args =
        vec!["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example"];
    args.extend(["-days", &days, "-keyout", &key, "-out", &cert]);
    run("openssl", &args)
}

/// The server part of nginx' configuration with that certificate.
pub(crate) fn tls(scene: &Scene) -> String {
    format!(
        "listen {SERVER}:443 ssl; ssl_certificate {}; ssl_certificate_key {}; \
         server_name shop.example; location / {{ return 200 hello; }}",
        scene.path("cert.pem"),
        scene.path("key.pem")
    )
}
