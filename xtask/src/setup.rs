//! What a machine must have for tests and benchmarks, and how it gets it: Debian and Ubuntu packages, npm packages.
//!
//! Packages are installed only when their program is missing, without recommendations, and their services are
//! neither started nor enabled: a `policy-rc.d` that forbids it stands while apt-get runs.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xshell::{Shell, cmd};

use crate::Result;

/// One Debian package, the program by which it is recognised, and why it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    name: &'static str,
    /// Any one of them on the PATH or in an `sbin` will do; none for a library, which dpkg is asked for.
    programs: &'static [&'static str],
    why: &'static str,
    /// A service that it would enable.
    service: Option<&'static str>,
}

const fn package(
    name: &'static str,
    programs: &'static [&'static str],
    why: &'static str,
) -> Package {
    Package { name, programs, why, service: None }
}

impl Package {
    /// What is missing when it is.
    fn wanted(&self) -> &'static str {
        self.programs.first().unwrap_or(&self.name)
    }

    const fn with_service(mut self, service: &'static str) -> Self {
        self.service = Some(service);
        self
    }
}

/// SQLite and zstd are compiled from C.
pub(crate) const C_COMPILER: Package =
    package("gcc", &["cc"], "SQLite and zstd are compiled from C");

/// What `cargo xtask test` uses besides.
const FOR_TESTS: &[Package] = &[
    C_COMPILER,
    package("nginx", &["nginx"], "its real logs and listeners are what the end to end tests watch")
        .with_service("nginx"),
    package("haproxy", &["haproxy"], "its real httplog and tcplog lines, and its queue")
        .with_service("haproxy"),
    package("wrk", &["wrk"], "load on the nginx of the tests"),
    package("iproute2", &["ip"], "network namespaces of the tests' own"),
    package("nftables", &["nft"], "rules that drop packets in those namespaces")
        .with_service("nftables"),
    package("openssl", &["openssl"], "certificates of the tests"),
    package("e2fsprogs", &["mkfs.ext4"], "a disk for the data of a plain host"),
    package("procps", &["ps"], "process figures"),
    package("zstd", &["zstd"], "packs rotated logs, as logrotate does"),
    package("util-linux", &["setpriv"], "programs of another user with one capability"),
    package("tcpdump", &["tcpdump"], "captures of real traffic, and text of every style"),
    package("faketime", &["faketime"], "a host whose clock is off"),
    package("socat", &["socat"], "a tunnel that can be stopped: a network that holds packets"),
    package("clang", &["clang"], "compiles the eBPF socket counter"),
    package("tshark", &["tshark"], "another reader of the same captures, to agree with"),
    package("postgresql", &["pgbench"], "its requests on the wire, counted by pgbench")
        .with_service("postgresql"),
    package("postgresql-client", &["psql"], "asks weir over PostgreSQL's protocol"),
    package("mariadb-server", &["mariadbd"], "its requests on the wire, and its own log")
        .with_service("mariadb"),
    package("mariadb-client", &["mariadb-slap"], "asks that MariaDB"),
    package("redis-server", &["redis-server"], "its requests on the wire")
        .with_service("redis-server"),
    package("redis-tools", &["redis-benchmark"], "asks that Redis, and counts"),
    package("perl-base", &["perl"], "numbers that the old pt-tcp-model would print"),
    package("systemd", &["journalctl"], "reads the journal that the tests make"),
    package(
        "systemd-journal-remote",
        &["systemd-journal-remote"],
        "makes journal files for the tests",
    ),
    package(
        "chromium",
        &["chromium", "chromium-browser", "google-chrome"],
        "UI tests in a real browser",
    ),
    package("nodejs", &["node"], "runner of the UI tests"),
    package("npm", &["npm"], "fetches playwright-core for the UI tests"),
    package("rsyslog", &["rsyslogd"], "sends to the intake, as fleets do").with_service("rsyslog"),
    package("rsyslog-elasticsearch", &["omelasticsearch.so"], "rsyslog's bulk requests"),
    package("rsyslog-openssl", &["lmnsd_ossl.so"], "rsyslog over TLS"),
    package("prometheus", &["prometheus"], "writes samples to the intake")
        .with_service("prometheus"),
    package("prometheus-node-exporter", &["prometheus-node-exporter"], "figures that weir scrapes")
        .with_service("prometheus-node-exporter"),
    package("bsdutils", &["logger"], "sends syslog frames"),
    package("openssl", &["openssl"], "certificates of the intake's tests"),
    package("curl", &["curl"], "posts lines to the intake"),
    package("nsca-client", &["send_nsca"], "sends results of checks to the intake"),
    package("postfix", &["postfix"], "delivers mails of incidents").with_service("postfix"),
    package("nagios4-core", &["nagios4"], "reads results of incidents").with_service("nagios4"),
    package("icinga2-bin", &["icinga2"], "reads results of incidents").with_service("icinga2"),
    package("pebble", &["pebble"], "an authority that issues certificates to the edge"),
    package(
        "default-jre-headless",
        &["java"],
        "runs the Kafka and Elasticsearch that outputs write to, a MongoDB, and S3Proxy",
    ),
    package("maven", &["mvn"], "fetches them"),
    package("golang-go", &["go"], "compiles the client of health digests, and pgx"),
    package("default-jdk-headless", &["javac"], "compiles that client, and one for pgJDBC"),
    package("ruby", &["ruby"], "runs the client of health digests"),
    package("php-cli", &["php"], "runs the client of health digests"),
    package("monitoring-plugins-basic", &["check_load"], "Nagios plugins that checks run"),
    package("nagios-nrpe-server", &["nrpe"], "its configuration, which checks import")
        .with_service("nagios-nrpe-server"),
    package("qemu-system-x86", &["qemu-system-x86_64"], "a virtual machine with md arrays"),
    package("binutils", &["strip"], "makes the programs of that machine small"),
];

/// Recognised by its module `ensurepip`, not by a program.
const VENV: Package =
    package("python3-venv", &["python3"], "client libraries of Elasticsearch and OpenTelemetry");

/// Traffic of `cargo xtask bench live`.
pub(crate) const FOR_LIVE_BENCH: &[Package] = &[
    package("nginx", &["nginx"], "serves the traffic that is watched").with_service("nginx"),
    package("wrk", &["wrk"], "asks for it"),
    package("iproute2", &["ip"], "network namespaces of the benchmark's own"),
    package("tcpdump", &["tcpdump"], "what any tap costs, for comparison"),
];

/// Peers of `cargo xtask bench edge`.
pub(crate) const FOR_EDGE_BENCH: &[Package] = &[
    package("nginx", &["nginx"], "serves backends, and is compared with").with_service("nginx"),
    package("haproxy", &["haproxy"], "is compared with").with_service("haproxy"),
    package("wrk", &["wrk"], "asks for it"),
    package("nghttp2-client", &["h2load"], "asks for it by HTTP/2"),
    package("openssl", &["openssl"], "a certificate"),
    package("util-linux", &["taskset"], "gives each its processor"),
];

/// Peers of `cargo xtask bench notify`.
pub(crate) const FOR_NOTIFY_BENCH: &[Package] = &[package(
    "prometheus-alertmanager",
    &["prometheus-alertmanager"],
    "sends the same alerts, for comparison",
)
.with_service("prometheus-alertmanager")];

/// The manifest of `cargo xtask bench cluster`.
pub(crate) const FOR_CLUSTER_BENCH: &[Package] = &[
    package("postgresql", &["pgbench"], "has the manifest of several hubs")
        .with_service("postgresql"),
    package("postgresql-client", &["psql"], "asks it"),
    package("util-linux", &["setpriv"], "runs it as its own user"),
];

/// What `cargo xtask lab` makes its faults with.
pub(crate) const FOR_LAB: &[Package] = &[
    package("nginx", &["nginx"], "the proxy of the faults").with_service("nginx"),
    package("haproxy", &["haproxy"], "the balancer of the faults").with_service("haproxy"),
    package("nftables", &["nft"], "drops packets in namespaces of the lab's own")
        .with_service("nftables"),
    package("iproute2", &["ip", "tc"], "network namespaces of the lab's own, and narrow lines"),
    package("e2fsprogs", &["mkfs.ext4"], "file systems of the lab's own"),
    package("openssl", &["openssl"], "certificates that end soon"),
    package("redis-server", &["redis-server"], "a store that evicts").with_service("redis-server"),
    package("redis-tools", &["redis-cli"], "fills it"),
    package("postgresql", &["pgbench"], "a database with a lock and a replica")
        .with_service("postgresql"),
    package("postgresql-client", &["psql"], "asks it"),
    package("util-linux", &["setpriv", "losetup"], "runs it as its own user, and slow disks"),
    package("mariadb-server", &["mariadbd"], "a database with a replica").with_service("mariadb"),
    package("mariadb-client", &["mariadb"], "asks it"),
    package("pebble", &["pebble"], "an authority that issues certificates to weir's edge"),
    package("apache2-bin", &["apache2"], "a proxy with a limit of workers"),
    package("gunicorn", &["gunicorn"], "serves the application in Python"),
    package("python3-psycopg2", &[], "the application's client for PostgreSQL"),
    package("nodejs", &["node"], "runs the application in JavaScript"),
    package("php-fpm", &["php-fpm8.2", "php-fpm8.4"], "runs the application in PHP")
        .with_service("php8.2-fpm"),
    package("php-mysql", &[], "the application's client for MariaDB"),
];

/// Peers of `cargo xtask bench wire`.
pub(crate) const FOR_WIRE_BENCH: &[Package] = &[
    package("tcpdump", &["tcpdump"], "prints captures as text, for comparison"),
    package("tcptrace", &["tcptrace"], "follows connections, for comparison"),
    package("tshark", &["tshark"], "dissects captures, for comparison"),
];

const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Packages and npm packages for tests.
pub(crate) fn everything(shell: &Shell) -> Result {
    ensure(shell, FOR_TESTS)?;
    npm(shell)?;
    let wanted = "crates/weir/tests/python/requirements.txt";
    PythonPackages { wanted, place: "python", why: "Python packages of the tests" }
        .install(shell)?;
    MavenProject { name: "kafka", goal: MavenGoal::Copy, why: "Kafka for the tests of outputs" }
        .install(shell)?;
    MavenProject {
        name: "elasticsearch",
        goal: MavenGoal::Unpack,
        why: "Elasticsearch for the tests of outputs",
    }
    .install(shell)?;
    MavenProject {
        name: "s3",
        goal: MavenGoal::Copy,
        why: "S3Proxy, a service for the tests of buckets",
    }
    .install(shell)?;
    MavenProject {
        name: "mongo",
        goal: MavenGoal::Copy,
        why: "a MongoDB for the tests of the wire: Debian has none",
    }
    .install(shell)?;
    go_cache(shell)?;
    guest(shell)?;
    node_postgres(shell)
}

/// The package that depends on Debian's newest kernel for virtual machines.
const GUEST_KERNEL: &str = "linux-image-cloud-amd64";

/// Kernel and programs of the virtual machine of the tests: Debian's packages, unpacked below the target directory and not
/// installed, because an installed kernel changes how this host boots. Other systems skip its test.
fn guest(shell: &Shell) -> Result {
    let dir = crate::target_dir()?.join("tmp/md-vm");
    if dir.join("root").exists() || !is_program("dpkg-deb") {
        return Ok(());
    }
    println!("missing: kernel, mdadm and busybox of a virtual machine with md arrays");
    if guest_kernel(shell).is_none() && is_root(shell)? {
        // The package lists are missing or old.
        cmd!(shell, "apt-get update -qq").run()?;
    }
    let Some(kernel) = guest_kernel(shell) else {
        println!("this system has no `{GUEST_KERNEL}`");
        return Ok(());
    };
    let (packages, unpacked) = (dir.join("packages"), dir.join("unpacked"));
    shell.remove_path(&dir)?;
    shell.create_dir(&packages)?;
    {
        let _dir = shell.push_dir(&packages);
        // Its own account may not write here.
        let option = "APT::Sandbox::User=root";
        cmd!(shell, "apt-get download -qq -o {option} {kernel} mdadm busybox-static").run()?;
    }
    for package in shell.read_dir(&packages)? {
        cmd!(shell, "dpkg-deb --extract {package} {unpacked}").run()?;
    }
    shell.remove_path(packages)?;
    Ok(std::fs::rename(unpacked, dir.join("root"))?)
}

fn guest_kernel(shell: &Shell) -> Option<String> {
    let depends = cmd!(shell, "apt-cache depends {GUEST_KERNEL}").quiet().ignore_stderr();
    let depends = depends.read().ok()?;
    let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::to_owned).find(|name| name.starts_with("linux-image-"))
}

/// Compiles what the Go client of health digests uses of Go's library, once, so that its test does not.
fn go_cache(shell: &Shell) -> Result {
    let cache = crate::target_dir()?.join("tmp/go-cache");
    let _settings = [
        shell.push_env("GOCACHE", cache),
        shell.push_env("CGO_ENABLED", "0"),
        shell.push_env("GOFLAGS", "-buildvcs=false"),
        shell.push_env("GOTOOLCHAIN", "local"),
    ];
    Ok(cmd!(shell, "go build net/http encoding/json").run()?)
}

/// The spelling checker, in a directory beside what is built.
pub(crate) fn typos(shell: &Shell) -> Result<PathBuf> {
    let wanted = "xtask/requirements.txt";
    PythonPackages { wanted, place: "xtask", why: "the spelling checker typos" }.install(shell)?;
    Ok(crate::target_dir()?.join("tmp/xtask/bin/typos"))
}

const CARGO_DENY: &str = "0.20.2";

/// The checker of licences, sources and bans (`deny.toml`), built once in a directory beside what is built.
pub(crate) fn cargo_deny(shell: &Shell) -> Result<PathBuf> {
    let root = crate::target_dir()?.join("tmp/cargo-deny").join(CARGO_DENY);
    let program = root.join("bin/cargo-deny");
    if !program.exists() {
        println!("missing: cargo-deny (it checks licences and sources; some minutes, once)");
        let options = ["--locked", "--no-default-features", "--quiet"];
        // Built elsewhere than our crates: its profile and features are its own.
        let _target = shell.push_env("CARGO_TARGET_DIR", root.join("build"));
        cmd!(shell, "cargo install cargo-deny --version {CARGO_DENY} --root {root} {options...}")
            .run()?;
        shell.remove_path(root.join("build"))?;
    }
    Ok(program)
}

/// A C compiler and Rust's standard library for 64-bit Arm.
const AARCH64: &[Package] = &[
    package("gcc-aarch64-linux-gnu", &["aarch64-linux-gnu-gcc"], "SQLite and zstd for aarch64"),
    package("libc6-dev-arm64-cross", &["aarch64-linux-gnu-gcc"], "headers of C for aarch64"),
];

/// Makes `cargo check --target aarch64-unknown-linux-gnu` possible.
pub(crate) fn aarch64(shell: &Shell) -> Result {
    ensure(shell, AARCH64)?;
    Ok(cmd!(shell, "rustup target add aarch64-unknown-linux-gnu").quiet().ignore_stderr().run()?)
}

/// What tests with `--long` need besides: engines that attach to weir's tables, of which Trino alone is 0.9 GB.
pub(crate) fn engines(shell: &Shell) -> Result {
    let wanted = "crates/weir/tests/engines/requirements.txt";
    let why = "Spark, DuckDB and a JDK for Trino";
    PythonPackages { wanted, place: "engines/python", why }.install(shell)?;
    MavenProject {
        name: "engines",
        goal: MavenGoal::Copy,
        why: "Trino, and Spark's reader of Iceberg",
    }
    .install(shell)?;
    let dir = crate::target_dir()?.join("tmp/engines");
    let packed = shell.read_dir(dir.join("libs"))?;
    let Some(packed) = packed.iter().find(|file| file.extension() == Some("gz".as_ref())) else {
        return Ok(());
    };
    let trino = dir.join("trino");
    shell.remove_path(&trino)?;
    shell.create_dir(&trino)?;
    cmd!(shell, "tar -xzf {packed} -C {trino} --strip-components=1").run()?;
    // Files of plugins are links to each other's, so that all have to be unpacked first.
    for plugin in shell.read_dir(trino.join("plugin"))? {
        if !plugin.ends_with("iceberg") {
            shell.remove_path(plugin)?;
        }
    }
    Ok(shell.remove_path(packed)?)
}

/// Drivers of PostgreSQL for tests with `--long`: pgx and pgJDBC.
pub(crate) fn drivers(shell: &Shell) -> Result {
    MavenProject { name: "drivers", goal: MavenGoal::Copy, why: "PostgreSQL's driver for Java" }
        .install(shell)?;
    let program = crate::target_dir()?.join("tmp/drivers/pgx");
    let _dir = shell.push_dir("crates/weir/tests/drivers/pgx");
    Ok(cmd!(shell, "go build -o {program} .").run()?)
}

/// `npm ci` of node-postgres below the target directory, when its lock file has changed.
fn node_postgres(shell: &Shell) -> Result {
    let (from, dir) = ("crates/weir/tests/drivers", crate::target_dir()?.join("tmp/drivers/node"));
    let installed = dir.join("installed.json");
    let lock = shell.read_file(format!("{from}/package-lock.json"))?;
    if std::fs::read_to_string(&installed).is_ok_and(|old| old == lock) {
        return Ok(());
    }
    println!("missing: node-postgres for the tests of the PostgreSQL port");
    shell.create_dir(&dir)?;
    for name in ["package.json", "package-lock.json"] {
        shell.copy_file(format!("{from}/{name}"), dir.join(name))?;
    }
    npm_ci(shell, &dir)?;
    Ok(std::fs::write(&installed, lock)?)
}

/// Installs those of `packages` that are missing, or says the one line that does.
pub(crate) fn ensure(shell: &Shell, packages: &[Package]) -> Result {
    let missing: Vec<Package> =
        packages.iter().copied().filter(|package| !is_there(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("missing: {} ({})", package.wanted(), package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !is_program("apt-get") {
        return Err(format!("cannot install `{}`: no apt-get here\nhint: install them with this system's package manager", names.join(" ")).into());
    }
    if !is_root(shell)? {
        let line = format!("sudo apt-get install -y --no-install-recommends {}", names.join(" "));
        return Err(format!(
            "cannot install `{}`: not root\nhint: type this once:\n  {line}",
            names.join(" ")
        )
        .into());
    }
    install(shell, &missing, &names)
}

fn install(shell: &Shell, missing: &[Package], names: &[&str]) -> Result {
    let _noninteractive = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
    let guard = NoServices::new()?;
    let first = cmd!(shell, "apt-get install -y -qq --no-install-recommends {names...}").run();
    if first.is_err() {
        // The package lists are missing or old.
        cmd!(shell, "apt-get update -qq").run()?;
        cmd!(shell, "apt-get install -y -qq --no-install-recommends {names...}").run()?;
    }
    drop(guard);
    for service in
        missing.iter().filter_map(|package| package.service).filter(|_| is_program("systemctl"))
    {
        cmd!(shell, "systemctl disable --quiet {service}")
            .ignore_status()
            .quiet()
            .ignore_stderr()
            .run()?;
    }
    match missing.iter().find(|package| !is_there(package)) {
        None => Ok(()),
        Some(package) => Err(format!(
            "installed `{}`, but `{}` is still missing",
            package.name,
            package.wanted()
        )
        .into()),
    }
}

/// While it lives, packages do not start services. Removes only what it made itself.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn new() -> Result<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { is_ours: false });
        }
        std::fs::write(POLICY, "#!/bin/sh\nexit 101\n")
            .map_err(|error| format!("cannot write `{POLICY}`: {error}"))?;
        std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { is_ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = std::fs::remove_file(POLICY)
        {
            eprintln!("cannot remove `{POLICY}`: {error}");
        }
    }
}

/// `npm ci` in ui/tests, when the lock file is newer than what is installed.
fn npm(shell: &Shell) -> Result {
    let (lock, installed) =
        ("ui/tests/package-lock.json", "ui/tests/node_modules/.package-lock.json");
    let root = shell.current_dir();
    let Some(wanted) = modified(&root.join(lock))? else { return Ok(()) };
    if modified(&root.join(installed))?.is_some_and(|installed| installed >= wanted) {
        return Ok(());
    }
    println!("missing: npm packages of the UI tests");
    npm_ci(shell, Path::new("ui/tests"))
}

/// Installs what the lock file in a directory lists.
fn npm_ci(shell: &Shell, dir: &Path) -> Result {
    let _dir = shell.push_dir(dir);
    Ok(cmd!(shell, "npm ci --no-audit --no-fund --ignore-scripts --loglevel error").run()?)
}

/// Python packages in a virtual environment.
struct PythonPackages {
    /// The list of packages, a `requirements.txt`.
    wanted: &'static str,
    /// Where the environment is, below `tmp` of the target directory.
    place: &'static str,
    why: &'static str,
}

impl PythonPackages {
    fn install(&self, shell: &Shell) -> Result {
        let Self { wanted, place, why } = self;
        let venv = crate::target_dir()?.join("tmp").join(place);
        let installed = venv.join("requirements.txt");
        let text = shell.read_file(wanted)?;
        if std::fs::read_to_string(&installed).is_ok_and(|old| old == text) {
            return Ok(());
        }
        println!("missing: {why}");
        if cmd!(shell, "python3 -c 'import ensurepip'").quiet().ignore_stderr().run().is_err() {
            install(shell, &[VENV], &[VENV.name])?;
        }
        cmd!(shell, "python3 -m venv --clear {venv}").run()?;
        let python = venv.join("bin/python");
        cmd!(shell, "{python} -m pip install --quiet --disable-pip-version-check --require-virtualenv -r {wanted}")
        .run()?;
        Ok(std::fs::write(&installed, text)?)
    }
}

/// A server for the tests, below the target directory.
struct MavenProject {
    name: &'static str,
    goal: MavenGoal,
    why: &'static str,
}

#[derive(Clone, Copy)]
enum MavenGoal {
    /// The jars.
    Copy,
    /// The contents of the archive.
    Unpack,
}

impl MavenProject {
    fn install(&self, shell: &Shell) -> Result {
        let Self { name, goal, why } = self;
        let goal = match goal {
            MavenGoal::Copy => "copy-dependencies",
            MavenGoal::Unpack => "unpack-dependencies",
        };
        let wanted = format!("crates/weir/tests/{name}/pom.xml");
        let dir = crate::target_dir()?.join("tmp").join(name);
        let (libs, marks, installed) = (dir.join("libs"), dir.join("marks"), dir.join("pom.xml"));
        let text = shell.read_file(&wanted)?;
        if std::fs::read_to_string(&installed).is_ok_and(|old| old == text) {
            return Ok(());
        }
        println!("missing: {why}");
        shell.remove_path(&libs)?;
        shell.remove_path(&marks)?;
        shell.create_dir(&dir)?;
        cmd!(
        shell,
        "mvn --quiet --batch-mode --file {wanted} dependency:{goal} -DoutputDirectory={libs} -DmarkersDirectory={marks} -DincludeScope=runtime"
    )
    .run()?;
        Ok(std::fs::write(&installed, text)?)
    }
}

/// When a file was written; `None` without the file.
fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match std::fs::metadata(path).and_then(|meta| meta.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read `{}`: {error}", path.display()).into()),
    }
}

fn is_there(package: &Package) -> bool {
    if package.programs.is_empty() {
        return Path::new("/var/lib/dpkg/info").join(format!("{}.list", package.name)).is_file();
    }
    package.programs.iter().any(|program| is_program(program))
}

/// Whether a program is on the PATH, in a directory of daemons, or in one of those of systemd, Nagios and rsyslog.
pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let machine = std::env::consts::ARCH;
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/lib/systemd", "/usr/lib/nagios/plugins"]
        .map(Into::into);
    let modules = [format!("/usr/lib/{machine}-linux-gnu/rsyslog").into()];
    std::env::split_paths(&path).chain(sbin).chain(modules).any(|dir| dir.join(name).is_file())
}

pub(crate) fn is_root(shell: &Shell) -> Result<bool> {
    Ok(cmd!(shell, "id -u").quiet().read()? == "0")
}
