//! The testbed of one fault: two network namespaces joined by a veth pair, nginx, an application,
//! visitors, and a small file system. Dropping it ends its processes and removes the rest.
//!
//! ```text
//!   visitors (client side) ── veth ── nginx :80 ── lo ── application :9001   (server side)
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{check_tools, children, run};
use crate::error::{DrillError, Result};
use crate::namespaces::{TestbedDirectory, UndoStep, remove};
use crate::{Fault, FaultGuard, Parameter, Random};

/// Addresses of the server's and of the client's side (RFC 2544's network for benchmarks).
pub(crate) const SERVER: &str = "198.18.7.1";
pub(crate) const CLIENT: &str = "198.18.7.2";
/// Address of the application, on the server's side.
pub(crate) const APP: &str = "127.0.0.1:9001";
/// nginx directives that pass every request to the application.
pub(crate) const PROXIED: &str = "location / { proxy_pass http://127.0.0.1:9001; }";

/// Listening address of a weir beside a testbed, unless a fault needs a fixed one.
const ANYWHERE: &str = "127.0.0.1:0";

/// Healthy seconds before a fault, unless its rules need a longer baseline.
const BASELINE_SECONDS: u64 = 12;

/// Name of a network namespace.
#[derive(Clone)]
pub(crate) struct Netns(String);

impl Deref for Netns {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Log of a proxy.
#[derive(Clone, Copy)]
pub(crate) enum ProxyLog {
    /// Access log with times and upstream, and error log.
    Timed,
    /// Access log in the format `combined`, and error log.
    Combined,
    /// Neither.
    None,
}

impl ProxyLog {
    /// The log of a fault's parameter: 0, 1 or 2.
    pub(crate) fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Timed,
            1 => Self::Combined,
            _ => Self::None,
        }
    }

    /// nginx directives for files in `dir`.
    fn nginx(self, dir: &str) -> String {
        match self {
            Self::Timed => format!("access_log {dir}/access.log timed;"),
            Self::Combined => format!("access_log {dir}/access.log combined;"),
            Self::None => "access_log off; error_log /dev/null;".to_owned(),
        }
    }
}

/// What nginx is configured with besides its defaults.
pub(crate) struct NginxConfig<'a> {
    /// Connections of its worker.
    pub(crate) connections: u64,
    /// Directives for `http { … }`.
    pub(crate) http: &'a str,
    /// Directives for `server { … }`.
    pub(crate) server: &'a str,
    /// Which log it writes.
    pub(crate) log: ProxyLog,
}

impl Default for NginxConfig<'_> {
    fn default() -> Self {
        Self { connections: 4096, http: "", server: "", log: ProxyLog::Timed }
    }
}

/// One fault's namespaces, processes and files; the module documents its layout.
pub struct TestBed {
    pub(crate) server: Netns,
    pub(crate) client: Netns,
    directory: TestbedDirectory,
    random: Random,
    parameters: &'static [Parameter],
    given: BTreeMap<String, u64>,
    drawn: Vec<(&'static str, u64)>,
    /// The program whose hidden commands are the application and the visitors.
    program: PathBuf,
    /// Configuration of the weir beside this testbed.
    pub(crate) config: String,
    /// Healthy seconds before the fault.
    pub(crate) baseline_seconds: u64,
    /// Seconds until the fault must be named, for rules that wait by design; 0 for the default.
    pub(crate) patience_seconds: u64,
    /// Listening address of a weir beside this testbed.
    pub(crate) listen: String,
    /// Host paths, and the testbed's files that the weir beside it sees there.
    overrides: Vec<(&'static str, PathBuf)>,
    pub(crate) processes: Vec<(&'static str, Child)>,
}

/// nginx directives that keep its temporary files below `dir`.
pub(crate) fn nginx_temp_paths(dir: &str) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {dir}/{name}; "))
        .concat()
}

impl TestBed {
    /// Builds namespaces, the link between them, and what the fault needs while nothing is wrong.
    /// `program` has the hidden commands `drill app` and `drill visit`.
    ///
    /// # Errors
    /// Without root, without a program that the fault needs, with a parameter that is unknown or
    /// out of range, and when something cannot be made; what was made by then is removed.
    pub fn build(
        fault: &Fault,
        seed: u64,
        given: BTreeMap<String, u64>,
        program: PathBuf,
    ) -> Result<Self> {
        Parameter::check(fault.name, fault.parameters, &given)?;
        check_tools(fault.name, fault.tools)?;
        let directory = TestbedDirectory::make()?;
        let mut testbed = Self {
            server: Netns(format!("{}s", directory.name)),
            client: Netns(format!("{}c", directory.name)),
            directory,
            random: Random::new(seed),
            parameters: fault.parameters,
            given,
            drawn: Vec::new(),
            program,
            config: String::new(),
            baseline_seconds: BASELINE_SECONDS,
            patience_seconds: 0,
            listen: ANYWHERE.to_owned(),
            overrides: Vec::new(),
            processes: Vec::new(),
        };
        testbed.connect()?;
        testbed.put("delay", "5")?;
        (fault.set)(&mut testbed)?;
        Ok(testbed)
    }

    /// Makes the fault, which lasts until the returned guard is dropped.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn inject(&mut self, fault: &Fault) -> Result<FaultGuard> {
        (fault.inject)(self)
    }

    /// The parameters drawn so far with their values.
    pub fn parameters(&self) -> &[(&'static str, u64)] {
        &self.drawn
    }

    /// Configuration that a weir beside this testbed needs; empty if none.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// How long a weir should watch the healthy testbed before the fault.
    pub fn baseline(&self) -> Duration {
        Duration::from_secs(self.baseline_seconds)
    }

    /// How long the fault may take to be named, if that is longer than usual.
    pub fn patience(&self) -> Option<Duration> {
        (self.patience_seconds > 0).then(|| Duration::from_secs(self.patience_seconds))
    }

    /// Address at which a weir beside this testbed must listen.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// Files that a weir beside this testbed must see in place of the host's: the host's path, and
    /// the file to see there.
    pub fn file_overrides(&self) -> &[(&'static str, PathBuf)] {
        &self.overrides
    }

    /// Whether this testbed needs a weir started for it alone.
    pub fn needs_own_weir(&self) -> bool {
        !self.config.is_empty() || !self.overrides.is_empty() || self.listen != ANYWHERE
    }

    /// Shows a weir beside this testbed the testbed's `resolv.conf` in place of the host's.
    pub(crate) fn override_resolv_conf(&mut self) {
        let file = self.file("resolv.conf");
        self.overrides.push(("/etc/resolv.conf", file));
    }

    /// The program whose hidden commands make traffic.
    pub(crate) fn program(&self) -> String {
        self.program.display().to_string()
    }

    /// The testbed's directory, also for a weir beside it.
    pub fn dir(&self) -> &Path {
        &self.directory.dir
    }

    /// The namespaces of the server's and of the client's side.
    pub fn sides(&self) -> [&str; 2] {
        [&self.server, &self.client]
    }

    /// Ends a process that runs beside this testbed together with it, even after `kill -9`.
    ///
    /// # Errors
    /// When that cannot be recorded.
    pub fn ends_with(&self, process: u32) -> Result<()> {
        self.directory.note(&UndoStep::process(process))
    }

    fn connect(&self) -> Result<()> {
        let (server, client) = (&self.server, &self.client);
        run("ip", &["netns", "add", server])?;
        run("ip", &["netns", "add", client])?;
        let pair = ["type", "veth", "peer", "veth", "netns", client];
        let link = [&["-n", server, "link", "add", "veth"], &pair[..]].concat();
        run("ip", &link)?;
        for (name, address) in [(server, SERVER), (client, CLIENT)] {
            run("ip", &["-n", name, "address", "add", &format!("{address}/24"), "dev", "veth"])?;
            run("ip", &["-n", name, "link", "set", "veth", "up"])?;
            run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    /// The value of a parameter: the one that was given, else one drawn from the seed.
    pub(crate) fn draw(&mut self, name: &'static str) -> u64 {
        let declared = self.parameters.iter().find(|one| one.name == name);
        let declared = declared.expect("a fault draws only what it declares");
        // Always draw, so that the seed's other parameters do not change.
        let drawn = self.random.between(&declared.range);
        let value = self.given.get(name).copied().unwrap_or(drawn);
        self.drawn.push((name, value));
        value
    }

    /// The value that [`Self::draw`] returned for a parameter.
    pub(crate) fn drawn(&self, name: &str) -> u64 {
        let found = self.drawn.iter().find(|(drawn, _)| *drawn == name);
        found.expect("a fault reads again only what it drew").1
    }

    /// Replaces a file in the testbed's directory.
    pub(crate) fn put(&self, name: &str, content: impl fmt::Display) -> Result<()> {
        let path = self.file(name);
        fs::write(&path, content.to_string())
            .map_err(DrillError::of(format!("cannot write `{}`", path.display())))
    }

    /// A path in the testbed's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.dir.join(name)
    }

    /// A path in the testbed's directory, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Starts a program in a namespace. It ends with the testbed.
    pub(crate) fn start(
        &mut self,
        what: &'static str,
        netns: &Netns,
        program: &str,
        args: &[&str],
    ) -> Result<()> {
        let child = Command::new("ip")
            .args(["netns", "exec", netns, program])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(DrillError::of(format!("cannot run `{program}`")))?;
        self.processes.push((what, child));
        Ok(())
    }

    /// Starts a command of this program in the host's own namespace. It ends with the testbed,
    /// even after `kill -9`.
    pub(crate) fn start_outside(&mut self, what: &'static str, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(args);
        self.spawn_outside(what, command)
    }

    /// Like [`Self::start_outside`], for another program.
    pub(crate) fn spawn_outside(&mut self, what: &'static str, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.get_program().display().to_string();
        let child = command.spawn().map_err(DrillError::of(format!("cannot run `{program}`")))?;
        let id = child.id();
        self.processes.push((what, child));
        self.ends_with(id)
    }

    /// Starts a hidden `drill` command of this program in a namespace.
    pub(crate) fn start_own(
        &mut self,
        what: &'static str,
        netns: &Netns,
        args: &[&str],
    ) -> Result<()> {
        let program = self.program();
        self.start(what, netns, &program, &[&["drill"], args].concat())
    }

    /// Starts the application.
    pub(crate) fn app(&mut self, backlog: u64, more: &[&str]) -> Result<()> {
        let netns = self.server.clone();
        self.app_at(&netns, APP, backlog, more)
    }

    /// Starts an application at another address, or on the client's side.
    pub(crate) fn app_at(
        &mut self,
        netns: &Netns,
        address: &str,
        backlog: u64,
        more: &[&str],
    ) -> Result<()> {
        self.named_app("app", netns, address, backlog, more)
    }

    /// Starts an application under another name, such as a store behind the application.
    pub(crate) fn named_app(
        &mut self,
        what: &'static str,
        netns: &Netns,
        address: &str,
        backlog: u64,
        more: &[&str],
    ) -> Result<()> {
        let (backlog, delay) = (backlog.to_string(), self.path("delay"));
        let args = ["app", "--address", address, "--backlog", &backlog, "--delay", &delay];
        self.start_own(what, netns, &[&args[..], more].concat())
    }

    /// Starts visitors of nginx.
    pub(crate) fn visitors(&mut self, count: u64, more: &[&str]) -> Result<()> {
        self.visitors_at(&format!("{SERVER}:80"), count, more)
    }

    /// Starts visitors of another address on the server's side.
    pub(crate) fn visitors_at(&mut self, address: &str, count: u64, more: &[&str]) -> Result<()> {
        let count = count.to_string();
        let args = ["visit", "--address", address, "--visitors", &count];
        let netns = self.client.clone();
        self.start_own("visitors", &netns, &[&args[..], more].concat())
    }

    /// Starts visitors of nginx on the server's side, which do not cross the veth pair.
    pub(crate) fn inner_visitors(&mut self, count: u64) -> Result<()> {
        self.inner_visitors_at(&format!("{SERVER}:80"), count, &[])
    }

    /// Starts visitors of another address on the server's side.
    pub(crate) fn inner_visitors_at(
        &mut self,
        address: &str,
        count: u64,
        more: &[&str],
    ) -> Result<()> {
        let count = count.to_string();
        let args = ["visit", "--address", address, "--visitors", &count];
        let netns = self.server.clone();
        self.start_own("visitors", &netns, &[&args[..], more].concat())
    }

    /// Starts clients that connect to the application directly, on the server's side.
    pub(crate) fn knocks(&mut self, count: u64, more: &[&str]) -> Result<()> {
        let count = count.to_string();
        let args = ["visit", "--address", APP, "--visitors", &count];
        let netns = self.server.clone();
        self.start_own("knocks", &netns, &[&args[..], more].concat())
    }

    /// Starts nginx; `server` goes into its `server { … }`.
    pub(crate) fn nginx(&mut self, server: &str) -> Result<()> {
        self.nginx_with(&NginxConfig { server, ..NginxConfig::default() })
    }

    /// Starts nginx on port 80 of the server's side.
    pub(crate) fn nginx_with(&mut self, config: &NginxConfig<'_>) -> Result<()> {
        let NginxConfig { connections, http, server, log } = config;
        let dir = self.directory.dir.display().to_string();
        let (config, places) = (self.path("nginx.conf"), nginx_temp_paths(&dir));
        let logs = log.nginx(&dir);
        let text = format!(
            r#"daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections {connections}; }}
http {{
  {http}
  {places}
  log_format timed escape=json '{{"@timestamp":"$time_iso8601","remote_addr":"$remote_addr",'
    '"http_host":"$host","request_method":"$request_method","uri":"$uri","status":"$status","bytes":"$bytes_sent",'
    '"request_time":"$request_time","upstream_addr":"$upstream_addr","upstream_status":"$upstream_status",'
    '"uct":"$upstream_connect_time","uht":"$upstream_header_time","urt":"$upstream_response_time"}}';
  {logs}
  server {{ listen {SERVER}:80 backlog=4096; {server} }}
}}
"#
        );
        self.put("nginx.conf", text)?;
        let netns = self.server.clone();
        let errors = self.path("error.log");
        let args = ["-c", &config, "-p", &dir, "-e", &errors];
        // What a fault puts into the configuration can be more than nginx accepts.
        run("ip", &[&["netns", "exec", &netns, "nginx", "-t", "-q"], &args[..]].concat())?;
        self.start("nginx", &netns, "nginx", &args)
    }

    /// Starts an application with that backlog, and nginx in front of it.
    pub(crate) fn proxied_app(&mut self, backlog: u64) -> Result<()> {
        self.app(backlog, &[])?;
        self.nginx(&format!("location / {{ proxy_pass http://{APP}; proxy_connect_timeout 2s; }}"))
    }

    /// Sets a kernel setting of the server's namespace, such as `net.ipv4.tcp_max_tw_buckets`.
    pub(crate) fn sysctl(&self, name: &str, value: impl fmt::Display) -> Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let script = format!("echo '{value}' > {path}");
        run("ip", &["netns", "exec", &self.server, "sh", "-c", &script])
    }

    /// Signals the processes called `what`. `ip netns exec` replaces itself by the program, so its
    /// process id is the program's.
    pub(crate) fn signal(&self, what: &str, signal: Signal) -> Result<()> {
        for (name, child) in &self.processes {
            if *name == what {
                kill_process(Pid::from_child(child), signal)?;
            }
        }
        Ok(())
    }

    /// The process id of the first process called `what`.
    pub(crate) fn id(&self, what: &str) -> Result<u32> {
        let named = self.processes.iter().find(|(name, _)| *name == what);
        let named = named.map(|(_, child)| child.id());
        named.ok_or_else(|| DrillError::new(format!("the testbed has no process `{what}`")))
    }

    /// Signals the children of the processes called `what`, such as nginx's workers.
    pub(crate) fn signal_children(&self, what: &str, signal: Signal) -> Result<()> {
        for (_, child) in self.processes.iter().filter(|(name, _)| *name == what) {
            for id in children(child.id()) {
                kill_process(id, signal)?;
            }
        }
        Ok(())
    }
}

impl TestBed {
    /// Ends the testbed's processes and removes what it made. Dropping does that too, but hides
    /// failures.
    ///
    /// # Errors
    /// When something could not be removed; [`crate::clean`] tries again.
    pub fn end(mut self) -> Result<()> {
        self.tear_down()
    }

    fn tear_down(&mut self) -> Result<()> {
        for (_, child) in self.processes.iter_mut().rev() {
            let id = Pid::from_child(child);
            // nginx ends its workers at SIGTERM; a stopped process must continue before it ends.
            for worker in children(child.id()) {
                let _gone = kill_process(worker, Signal::CONT);
            }
            let _gone = kill_process(id, Signal::CONT);
            let _gone = kill_process(id, Signal::TERM);
        }
        let removed = if self.directory.dir.exists() {
            remove(&self.directory.name, &self.directory.dir)
        } else {
            Ok(())
        };
        for (_, mut child) in self.processes.drain(..) {
            let _reaped = child.wait();
        }
        removed
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        let _reported_by_clean = self.tear_down();
    }
}
