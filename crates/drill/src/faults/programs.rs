//! Faults of programs that many sites run (gunicorn, PHP-FPM, Node, Apache httpd, PostgreSQL,
//! MariaDB, Redis). weir gets no login for the databases, and the proxy's log has times, lacks
//! them, or does not exist.

use std::time::Duration;

use rustix::process::Signal;

use super::databases::{self, PRIMARY};
use crate::command::{run, until};
use crate::error::{DrillError, Result};
use crate::fault::{Fault, Parameter, parameter};
use crate::pause;
use crate::testbed::{APP, CLIENT, NginxConfig, ProxyLog, SERVER, TestBed};

/// Which log nginx writes; see [`ProxyLog`].
const LOG: Parameter = parameter("log", 0..=2, "log of the proxy: 0 with times, 1 without, 2 none");
/// Port of PostgreSQL and of the first MariaDB ([`databases`]) in the server's namespace.
const POSTGRESQL: &str = "5432";
const MARIADB: &str = "33061";
/// nginx directive for an application that speaks HTTP.
const PASS: &str = "proxy_pass http://127.0.0.1:9001;";
/// Seconds without a fault until weir compares waits with what is usual.
const WAITS_BASELINE_SECONDS: u64 = 100;
/// What may be named when an application waits for its store.
const STORE_HANGS: &[&str] = &["app.service_hangs", "pg.lock_pileup"];
/// What may be named when an application is slow or hangs by itself.
const APP_HANGS: &[&str] = &[
    "app.workers_exhausted",
    "app.slow",
    "app.requests_stopped",
    "proxy.upstream_hangs",
    "proxy.upstream_timeout",
    "app.slow_outlier",
    "tcp.accept_queue_high",
];

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "gunicorn behind a lock of PostgreSQL",
        rules: &[STORE_HANGS],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "gunicorn", "psql", "setpriv"],
        set: |testbed| {
            shop_in_postgresql(testbed, &[])?;
            gunicorn(testbed, &format!("STORE=postgresql:{POSTGRESQL}"), 30)?;
            front(testbed, PASS)?;
            visitors(testbed)
        },
        inject: |testbed| {
            // The migration waits for the report, and everybody else for the migration.
            databases::start_session(
                testbed,
                "begin; select count(*) from stock; select pg_sleep(120)",
            )?;
            let reports = "select count(*) from pg_locks where relation = 'stock'::regclass";
            until("a report", || Ok(databases::psql(testbed, PRIMARY, reports)?.trim() != "0"))?;
            databases::start_session(testbed, "alter table stock add price int")?;
            Ok(None)
        },
    },
    Fault {
        name: "lock in a PostgreSQL without a login",
        rules: &[&["pg.lock_pileup"]],
        parameters: &[parameter("sessions", 3..=20, "waiting sessions")],
        tools: &["psql", "setpriv"],
        set: |testbed| shop_in_postgresql(testbed, &["listen_addresses="]),
        inject: |testbed| {
            databases::start_session(testbed, "begin; lock table stock; select pg_sleep(120)")?;
            let held =
                "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted";
            until("a lock", || Ok(databases::psql(testbed, PRIMARY, held)?.trim() == "1"))?;
            let sessions = testbed.draw("sessions");
            (0..sessions).try_for_each(|_| {
                databases::start_session(testbed, "select count(*) from stock")
            })?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL without connections for gunicorn",
        rules: &[&["db.connections_exhausted", "app.service_rejects", "db.server_log"]],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "gunicorn", "psql", "setpriv"],
        set: |testbed| {
            shop_in_postgresql(testbed, &["max_connections=16"])?;
            gunicorn(testbed, &format!("STORE=postgresql:{POSTGRESQL}"), 30)?;
            front(testbed, PASS)?;
            visitors(testbed)
        },
        inject: |testbed| {
            // With those of the four workers all 16 but one, which ends the workers' connections.
            let rest = "select pg_sleep(120)";
            (0..11).try_for_each(|_| databases::start_session(testbed, rest))?;
            let resting = "select count(*) from pg_stat_activity where query like '%pg_sleep(120)'";
            until("sessions", || Ok(databases::psql(testbed, PRIMARY, resting)?.trim() == "11"))?;
            let end = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%from stock'";
            databases::psql(testbed, PRIMARY, end)?;
            (0..5).try_for_each(|_| databases::start_session(testbed, rest))?;
            Ok(None)
        },
    },
    Fault {
        name: "API behind gunicorn hangs",
        rules: &[STORE_HANGS],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "gunicorn"],
        set: |testbed| {
            let (netns, address) = (testbed.client.clone(), format!("{CLIENT}:9002"));
            testbed.app_at(&netns, &address, 256, &[])?;
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            gunicorn(testbed, &format!("STORE=api:{address}"), 30)?;
            front(testbed, PASS)?;
            visitors(testbed)
        },
        inject: |testbed| {
            testbed.put("delay", "120000")?;
            Ok(None)
        },
    },
    Fault {
        name: "gunicorn ends its workers",
        rules: &[&["app.worker_timeout", "app.workers_die"]],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "gunicorn"],
        set: |testbed| {
            gunicorn(testbed, "STORE=", 3)?;
            front(testbed, PASS)?;
            visitors(testbed)
        },
        inject: |testbed| {
            testbed.put("slow", "60000")?;
            Ok(None)
        },
    },
    Fault {
        name: "PHP-FPM behind a lock of MariaDB",
        rules: &[STORE_HANGS],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "mariadbd", "mariadb", "mariadb-install-db"],
        set: |testbed| {
            let netns = testbed.server.clone();
            databases::mariadb(testbed, &netns, PRIMARY, "1")?;
            testbed.config.clear();
            let shop = "create database shop; create table shop.stock (n int); insert into shop.stock values (1); \
                        create user shop@'127.0.0.1'; grant all on shop.* to shop@'127.0.0.1'";
            databases::sql(testbed, PRIMARY, shop)?;
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            php_fpm(testbed, &format!("env[STORE] = {MARIADB}"), 8)?;
            visitors(testbed)
        },
        inject: |testbed| {
            let report = "begin; select count(*) from shop.stock; select sleep(120)";
            databases::start_sql(testbed, PRIMARY, report)?;
            pause(Duration::from_millis(500));
            databases::start_sql(testbed, PRIMARY, "alter table shop.stock add price int")?;
            Ok(None)
        },
    },
    Fault {
        name: "children of PHP-FPM used up",
        rules: &[&["app.slow", "app.workers_exhausted", "unix.accept_queue_full"]],
        parameters: &[LOG, parameter("millis", 1200..=4000, "milliseconds of a page")],
        tools: &["nginx"],
        set: |testbed| {
            php_fpm(testbed, "", 3)?;
            testbed.visitors(20, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("site/slow", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "release of PHP answers 200 without its page",
        // The log names the function that is missing.
        rules: &[&["app.empty_pages", "app.code_incomplete"]],
        parameters: &[
            parameter("log", 0..=1, "log of the proxy: 0 with times, 1 without"),
            parameter("page", 0..=1, "0 an empty page, 1 the text of an error"),
            parameter("visitors", 4..=12, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            php_fpm(testbed, "php_flag[display_errors] = on", 8)?;
            visitors(testbed)
        },
        inject: |testbed| {
            // PHP shows an error with status 200 where `display_errors` is on.
            let script =
                if testbed.draw("page") == 0 { "<?php exit;\n" } else { "<?php shop();\n" };
            testbed.put("site/index.php", script)?;
            Ok(None)
        },
    },
    Fault {
        name: "Node behind a stopped Redis",
        rules: &[&["app.service_hangs", "db.not_answering"]],
        parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
        tools: &["nginx", "node", "redis-server"],
        set: |testbed| {
            let (netns, dir) = (testbed.server.clone(), testbed.path(""));
            let args = ["--port", "6379", "--save", "", "--dir", &dir];
            testbed.start("redis", &netns, "redis-server", &args)?;
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            node(testbed, "STORE=6379")?;
            front(testbed, PASS)?;
            visitors(testbed)
        },
        inject: |testbed| {
            testbed.signal("redis", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "event loop of Node busy",
        rules: &[APP_HANGS],
        parameters: &[LOG, parameter("millis", 700..=2500, "milliseconds of a request")],
        tools: &["nginx", "node"],
        set: |testbed| {
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            node(testbed, "STORE=")?;
            front(testbed, PASS)?;
            testbed.visitors(8, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("busy", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "workers of Apache used up by a slow Node",
        rules: &[APP_HANGS],
        parameters: &[
            LOG,
            parameter("workers", 12..=24, "MaxRequestWorkers"),
            parameter("visitors", 30..=50, "visitors"),
        ],
        tools: &["apache2", "node"],
        set: |testbed| {
            testbed.baseline_seconds = WAITS_BASELINE_SECONDS;
            node(testbed, "STORE=")?;
            apache(testbed)?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "150", "--patience-millis", "20000"])
        },
        inject: |testbed| {
            testbed.put("slow", "15000")?;
            Ok(None)
        },
    },
];

pub(crate) const NO_FAULTS: &[Fault] = &[Fault {
    name: "none: slow reports beside quick pages",
    rules: &[],
    parameters: &[LOG, parameter("visitors", 6..=16, "visitors")],
    tools: &["nginx", "gunicorn", "psql", "setpriv"],
    set: |testbed| {
        shop_in_postgresql(testbed, &[])?;
        gunicorn(testbed, &format!("STORE=postgresql:{POSTGRESQL}"), 30)?;
        let reports = format!(
            "server {{ listen {SERVER}:8080; location / {{ proxy_pass http://{APP}/report/; }} }}"
        );
        let server = format!("location / {{ {PASS} }}");
        let config = NginxConfig { http: &reports, server: &server, ..NginxConfig::default() };
        front_with(testbed, &config)?;
        let patient = ["--pause-millis", "3000", "--patience-millis", "30000"];
        testbed.visitors_at(&format!("{SERVER}:8080"), 1, &patient)?;
        visitors(testbed)
    },
    inject: |_| Ok(None),
}];

/// Starts nginx with the drawn log and one location.
fn front(testbed: &mut TestBed, location: &str) -> Result<()> {
    let server = format!("location / {{ {location} }}");
    front_with(testbed, &NginxConfig { server: &server, ..NginxConfig::default() })
}

/// Like [`front`], with a configuration whose log is replaced.
fn front_with(testbed: &mut TestBed, config: &NginxConfig<'_>) -> Result<()> {
    let log = ProxyLog::from_number(testbed.draw("log"));
    let NginxConfig { connections, http, server, .. } = *config;
    testbed.nginx_with(&NginxConfig { connections, http, server, log })
}

/// Starts the drawn number of patient visitors.
fn visitors(testbed: &mut TestBed) -> Result<()> {
    let visitors = testbed.draw("visitors");
    testbed.visitors(visitors, &["--pause-millis", "150", "--patience-millis", "20000"])
}

/// Starts a PostgreSQL with the table `stock` that weir has no login for.
fn shop_in_postgresql(testbed: &mut TestBed, settings: &[&str]) -> Result<()> {
    let settings = [&["listen_addresses=127.0.0.1"], settings].concat();
    databases::postgresql_with(testbed, PRIMARY, &settings)?;
    testbed.config.clear();
    databases::psql(testbed, PRIMARY, "create table stock (n int)").map(drop)
}

/// Starts gunicorn with four workers, whose requests may take `seconds`.
fn gunicorn(testbed: &mut TestBed, store: &str, seconds: u32) -> Result<()> {
    testbed.put("app.py", include_str!("programs/app.py"))?;
    let (netns, dir, log) =
        (testbed.server.clone(), testbed.path(""), testbed.path("gunicorn.log"));
    let seconds = seconds.to_string();
    let serve = ["gunicorn", "--workers", "4", "--bind", APP, "--timeout", &seconds];
    let place = ["--chdir", &dir, "--error-logfile", &log, "app:application"];
    testbed.start("app", &netns, "env", &[&[store], &serve[..], &place].concat())?;
    until_open(testbed, "9001")
}

/// Starts Node.
fn node(testbed: &mut TestBed, store: &str) -> Result<()> {
    testbed.put("app.js", include_str!("programs/app.js"))?;
    let (netns, script) = (testbed.server.clone(), testbed.path("app.js"));
    testbed.start("app", &netns, "env", &[store, "node", &script])?;
    until_open(testbed, "9001")
}

/// Starts PHP-FPM on a Unix socket, and nginx in front of it.
fn php_fpm(testbed: &mut TestBed, setting: &str, children: u32) -> Result<()> {
    let (dir, socket, site) = (testbed.path(""), testbed.path("fpm.sock"), testbed.file("site"));
    std::fs::create_dir_all(&site)?;
    testbed.put("site/index.php", include_str!("programs/index.php"))?;
    testbed.put(
        "fpm.conf",
        format!(
            "[global]\nerror_log = {dir}fpm.log\ndaemonize = no\n[shop]\nuser = www-data\ngroup = www-data\n\
             listen = {socket}\nlisten.mode = 0666\npm = static\npm.max_children = {children}\n{setting}\n"
        ),
    )?;
    let (netns, config, program) = (testbed.server.clone(), testbed.path("fpm.conf"), fpm()?);
    testbed.start("app", &netns, &program, &["-F", "-y", &config])?;
    until("PHP-FPM", || Ok(testbed.file("fpm.sock").exists()))?;
    let script = site.join("index.php");
    let location = format!(
        "fastcgi_pass unix:{socket}; fastcgi_param SCRIPT_FILENAME {}; \
         fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;",
        script.display()
    );
    front(testbed, &location)
}

/// Path of Debian's newest PHP-FPM.
fn fpm() -> Result<String> {
    let programs = std::fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
    let newest = programs
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains("/php-fpm"))
        .max();
    newest.ok_or_else(|| {
        DrillError::new("cannot start PHP-FPM: no `/usr/sbin/php-fpm…`")
            .hint("Debian has it in php-fpm")
    })
}

/// Starts Apache httpd as a reverse proxy with the drawn log and number of workers.
fn apache(testbed: &mut TestBed) -> Result<()> {
    let (log, workers, dir) = (testbed.draw("log"), testbed.draw("workers"), testbed.path(""));
    let common = r#"%h %l %u %t \"%r\" %>s %O"#;
    let format = match ProxyLog::from_number(log) {
        ProxyLog::Timed => Some(format!("{common} %D")),
        ProxyLog::Combined => Some(common.to_owned()),
        ProxyLog::None => None,
    };
    let logs = format.map_or_else(
        || "ErrorLog /dev/null".to_owned(),
        |format| format!("ErrorLog {dir}error.log\nCustomLog {dir}access.log \"{format}\""),
    );
    let modules = ["mpm_event", "authz_core", "proxy", "proxy_http"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    testbed.put(
        "apache.conf",
        format!(
            "ServerRoot {dir}\nServerName shop.example\nPidFile {dir}apache.pid\nDefaultRuntimeDir {dir}\n{}\
             Listen {SERVER}:80\nUser www-data\nGroup www-data\nServerLimit 1\nStartServers 1\n\
             ThreadsPerChild {workers}\nMaxRequestWorkers {workers}\nMinSpareThreads 1\nMaxSpareThreads {workers}\n\
             {logs}\nProxyPass / http://{APP}/\n",
            modules.concat()
        ),
    )?;
    let (netns, config) = (testbed.server.clone(), testbed.path("apache.conf"));
    run("ip", &["netns", "exec", &netns, "apache2", "-t", "-f", &config])?;
    testbed.start("apache", &netns, "apache2", &["-DFOREGROUND", "-f", &config])
}

/// Waits until something listens on a port of 127.0.0.1 on the server's side.
fn until_open(testbed: &TestBed, port: &str) -> Result<()> {
    let connect = format!("</dev/tcp/127.0.0.1/{port}");
    let args = ["netns", "exec", &testbed.server, "bash", "-c", &connect];
    until("the application", || Ok(run("ip", &args).is_ok()))
}
