//! The faults: how each is made, with parameters drawn at random, and what it must be called. A new one is an
//! entry in one of the lists of [`all`].

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::scene::{APP, SERVER, Scene, fill, run};
use super::{hops, limits, pairs};

/// A fault and its name.
pub(crate) struct Fault {
    /// What it is called in the table.
    pub(crate) name: &'static str,
    /// For each fault in it the rules that name it rightly; none when nothing must page or mail.
    pub(crate) rules: &'static [&'static [&'static str]],
    /// Builds the scene while nothing is wrong.
    pub(crate) set: fn(&mut Scene) -> anyhow::Result<()>,
    /// Makes the fault; says with which parameters.
    pub(crate) inject: fn(&mut Scene) -> anyhow::Result<(String, Held)>,
}

/// What must stay open for the fault to stay.
pub(crate) type Held = Option<fs::File>;

/// All of them, pairs and what is no fault last. A fault's place in its list is a part of its seed.
pub(crate) fn all() -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().chain(limits::FAULTS).chain(hops::FAULTS).chain(pairs::FAULTS).chain(NONE)
}

/// What stops, fills up or runs out.
const FAULTS: &[Fault] = &[
    Fault {
        name: "acceptor stopped",
        rules: &[&["tcp.listen_overflow"]],
        set: |scene| {
            let backlog = scene.between(4, 40);
            scene.usual(backlog, 4)
        },
        inject: |scene| {
            let clients = scene.between(80, 160);
            scene.knocks(clients, &["--patience-millis", "3000"])?;
            scene.signal("app", Signal::STOP)?;
            Ok((format!("{clients} clients"), None))
        },
    },
    Fault {
        name: "application slow",
        rules: &[&["app.slow"]],
        set: |scene| scene.usual(256, 25),
        inject: |scene| {
            let millis = scene.between(600, 1800);
            fs::write(scene.delay(), millis.to_string())?;
            Ok((format!("{millis} ms"), None))
        },
    },
    Fault {
        name: "application killed",
        rules: &[&["app.down"]],
        set: |scene| {
            let visitors = scene.between(5, 30);
            scene.usual(256, visitors)
        },
        inject: |scene| {
            scene.signal("app", Signal::KILL)?;
            Ok((String::new(), None))
        },
    },
    Fault {
        name: "descriptors used up",
        rules: &[&["app.fd_limit"]],
        set: |scene| {
            let files = scene.between(30, 120).to_string();
            scene.app(64, &["--files", &files])
        },
        inject: |scene| {
            let clients = scene.between(130, 200);
            scene.knocks(clients, &["--hold"])?;
            Ok((format!("{clients} connections"), None))
        },
    },
    Fault {
        name: "line too narrow",
        rules: &[&["wire.bandwidth_cap"]],
        set: |scene| {
            scene.app(256, &["--bytes", "200000"])?;
            scene.nginx(&format!(
                "location / {{ proxy_pass http://{APP}; proxy_buffers 64 16k; }}"
            ))?;
            scene.visitors(8, &[])
        },
        inject: |scene| {
            let rate = format!("{}kbit", scene.between(2000, 9000));
            let queue = ["burst", "16kb", "limit", "60kb"];
            let tbf =
                ["-n", &scene.server, "qdisc", "add", "dev", "veth", "root", "tbf", "rate", &rate];
            run("tc", &[&tbf[..], &queue[..]].concat())?;
            Ok((rate, None))
        },
    },
    Fault {
        name: "disk full",
        rules: &[&["disk.full"]],
        set: |scene| {
            let mebibytes = scene.between(24, 96);
            scene.disk(mebibytes, 256).map(drop)
        },
        inject: |scene| {
            let file = fill(&scene.dir.path().join("disk/app.log"), u64::MAX)?;
            Ok((String::new(), Some(file)))
        },
    },
    Fault {
        name: "inodes used up",
        rules: &[&["disk.inodes_full"]],
        set: |scene| {
            let inodes = scene.between(64, 512);
            scene.disk(32, inodes).map(drop)
        },
        inject: |scene| {
            let disk = scene.dir.path().join("disk");
            let made = (0..4096).take_while(|n| fs::File::create(disk.join(n.to_string())).is_ok());
            Ok((format!("{} files", made.count()), None))
        },
    },
    Fault {
        name: "deleted and open",
        rules: &[&["disk.deleted_but_open"]],
        set: |scene| scene.disk(64, 256).map(drop),
        inject: |scene| {
            let mebibytes = scene.between(8, 40);
            let path = scene.dir.path().join("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok((format!("{mebibytes} MiB"), Some(file)))
        },
    },
    Fault {
        name: "certificate ends",
        rules: &[&["tls.cert_expiring"]],
        set: |scene| scene.visitors(2, &[]),
        inject: |scene| {
            let days = scene.between(1, 6);
            certificate(scene, days)?;
            scene.nginx(&tls(scene))?;
            Ok((format!("{days} days"), None))
        },
    },
    Fault {
        name: "certificate not reloaded",
        rules: &[&["tls.cert_not_reloaded"]],
        set: |scene| {
            let days = scene.between(25, 89);
            certificate(scene, days)?;
            scene.nginx(&tls(scene))
        },
        inject: |scene| {
            certificate(scene, 90)?;
            // A note while a reload may be under way; what was forgotten is hours old.
            let hours = scene.between(2, 48);
            let now = Duration::from_micros(u64::try_from(crate::report::now().0)?);
            let written = SystemTime::UNIX_EPOCH + now - Duration::from_secs(hours * 3600);
            fs::File::options().write(true).open(scene.path("cert.pem"))?.set_modified(written)?;
            Ok((format!("written {hours} h ago"), None))
        },
    },
];

/// Nothing is wrong, whatever it looks like.
const NONE: &[Fault] = &[
    Fault {
        name: "none: burst within capacity",
        rules: &[],
        set: |scene| scene.usual(1024, 5),
        inject: |scene| {
            let visitors = scene.between(20, 40);
            scene.visitors(visitors, &[])?;
            Ok((format!("{visitors} more visitors"), None))
        },
    },
    Fault {
        name: "none: ports scanned",
        rules: &[],
        set: |scene| scene.usual(256, 5),
        inject: |scene| {
            let ports = scene.between(200, 900);
            let script = format!(
                "for p in $(seq 2000 {}); do (exec 3<>/dev/tcp/{SERVER}/$p) 2>/dev/null; done",
                2000 + ports
            );
            let client = scene.client.clone();
            scene.start("scan", &client, "bash", &["-c", &script])?;
            Ok((format!("{ports} ports"), None))
        },
    },
    Fault {
        name: "none: visitors leave early",
        rules: &[],
        set: |scene| {
            fs::write(scene.delay(), "60")?;
            scene.usual(256, 20)
        },
        inject: |scene| {
            scene.visitors(1, &["--patience-millis", "20", "--pause-millis", "400"])?;
            Ok(("1 of 21".to_owned(), None))
        },
    },
];

/// Makes the site's certificate and key anew.
pub(super) fn certificate(scene: &Scene, days: u64) -> anyhow::Result<()> {
    let (days, key, cert) = (days.to_string(), scene.path("key.pem"), scene.path("cert.pem"));
    let mut args =
        vec!["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example"];
    args.extend(["-days", &days, "-keyout", &key, "-out", &cert]);
    run("openssl", &args)
}

/// The server part of nginx' configuration with that certificate.
pub(super) fn tls(scene: &Scene) -> String {
    format!(
        "listen {SERVER}:443 ssl; ssl_certificate {}; ssl_certificate_key {}; \
         server_name shop.example; location / {{ return 200 hello; }}",
        scene.path("cert.pem"),
        scene.path("key.pem")
    )
}
