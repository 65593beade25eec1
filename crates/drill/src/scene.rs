//! A place of its own for one fault: two network namespaces with a cable, nginx, an application, visitors, and a small
//! file system. Whatever happens, dropping it ends its processes and takes the rest away.
//!
//! ```text
//!   visitors (client side) ── veth ── nginx :80 ── lo ── application :9001   (server side)
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{DrillError, Result};
use crate::fault::check_parameters;
use crate::place::{Place, Undo, remove};
use crate::{Fault, Held, Parameter, Random, pause};

/// The addresses of the server's and of the client's side (RFC 2544's network for tests).
pub(crate) const SERVER: &str = "198.18.7.1";
pub(crate) const CLIENT: &str = "198.18.7.2";
/// The application's, on the server's side.
pub(crate) const APP: &str = "127.0.0.1:9001";
/// What an nginx has that passes everything on to it.
pub(crate) const PROXIED: &str = "location / { proxy_pass http://127.0.0.1:9001; }";

/// Where a weir beside a scene listens when that does not matter.
const ANYWHERE: &str = "127.0.0.1:0";

/// How long nothing is wrong before a fault, unless it needs a longer past.
const CALM_SECONDS: u64 = 12;

/// See the module.
pub struct Scene {
    pub(crate) server: String,
    pub(crate) client: String,
    place: Place,
    random: Random,
    parameters: &'static [Parameter],
    given: BTreeMap<String, u64>,
    drawn: Vec<(&'static str, u64)>,
    /// The program whose hidden commands are the application and the visitors.
    program: PathBuf,
    /// weir's configuration in this scene.
    pub(crate) config: String,
    /// How long nothing is wrong before the fault.
    pub(crate) calm_seconds: u64,
    /// How long the fault may take to be named, where a rule waits by design: 0 as usual.
    pub(crate) patience_seconds: u64,
    /// Where a weir beside this scene listens.
    pub(crate) listen: String,
    /// Files that it sees in place of the host's: paths, and files of the scene's directory.
    instead: Vec<(&'static str, PathBuf)>,
    pub(crate) processes: Vec<(&'static str, Child)>,
}

pub(crate) fn children(process: u32) -> Vec<Pid> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Where an nginx of a scene keeps what it keeps: below a directory of its own.
pub(crate) fn nginx_places(dir: &str) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {dir}/{name}; "))
        .concat()
}

/// Runs a program to its end; what it prints besides is dropped.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    output(program, args).map(drop)
}

/// The same; what it prints.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(DrillError::of(format!("cannot run `{program}`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(DrillError::new(format!("`{program} {}` failed: {}", args.join(" "), error.trim())))
}

/// Waits for what a scene has started.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    /// Looks, 100 ms apart.
    const LOOKS: u32 = 300;
    for _ in 0..LOOKS {
        if is_so()? {
            return Ok(());
        }
        pause(Duration::from_millis(100));
    }
    Err(DrillError::new(format!("{what} of the drill did not start within 30 s")))
}

impl Scene {
    /// Namespaces and cable, and what the fault needs while nothing is wrong. `program` has the hidden commands `drill app` and
    /// `drill visit`.
    ///
    /// # Errors
    /// Without root, without a program that the fault needs, with a parameter that it does not have or that is out of
    /// range, and when something cannot be made; what was made by then is taken away.
    pub fn set(
        fault: &Fault,
        seed: u64,
        given: BTreeMap<String, u64>,
        program: PathBuf,
    ) -> Result<Self> {
        check_parameters(fault.name, fault.parameters, &given)?;
        check_tools(fault.name, fault.tools)?;
        let place = Place::make()?;
        let mut scene = Self {
            server: format!("{}s", place.name),
            client: format!("{}c", place.name),
            place,
            random: Random::new(seed),
            parameters: fault.parameters,
            given,
            drawn: Vec::new(),
            program,
            config: String::new(),
            calm_seconds: CALM_SECONDS,
            patience_seconds: 0,
            listen: ANYWHERE.to_owned(),
            instead: Vec::new(),
            processes: Vec::new(),
        };
        scene.connect()?;
        scene.put("delay", "5")?;
        (fault.set)(&mut scene)?;
        Ok(scene)
    }

    /// Makes the fault; it stays as long as what comes back is held.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn inject(&mut self, fault: &Fault) -> Result<Held> {
        (fault.inject)(self)
    }

    /// The parameters so far with their values.
    pub fn parameters(&self) -> &[(&'static str, u64)] {
        &self.drawn
    }

    /// What a weir beside this scene must be configured with; empty when nothing.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// How long a weir should look while nothing is wrong.
    pub fn calm(&self) -> Duration {
        Duration::from_secs(self.calm_seconds)
    }

    /// How long the fault may take to be named, when that is longer than usual.
    pub fn patience(&self) -> Option<Duration> {
        (self.patience_seconds > 0).then(|| Duration::from_secs(self.patience_seconds))
    }

    /// Where a weir beside this scene must listen.
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// Files that a weir beside this scene must see in place of the host's: the host's path, and the file to see there.
    pub fn instead(&self) -> &[(&'static str, PathBuf)] {
        &self.instead
    }

    /// Whether a weir beside this scene must be one that is started for it.
    pub fn needs_own_weir(&self) -> bool {
        !self.config.is_empty() || !self.instead.is_empty() || self.listen != ANYWHERE
    }

    /// Has a weir beside this scene see a file of the scene's directory in place of the host's at `path`.
    pub(crate) fn show_instead(&mut self, path: &'static str, name: &str) {
        let file = self.file(name);
        self.instead.push((path, file));
    }

    /// The program whose hidden commands make traffic.
    pub(crate) fn program(&self) -> String {
        self.program.display().to_string()
    }

    /// A directory of this scene's for a weir beside it.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// The namespaces of the server's and of the client's side.
    pub fn sides(&self) -> [&str; 2] {
        [&self.server, &self.client]
    }

    /// Has a process that runs beside this scene end with it, whatever happens.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn ends_with(&self, process: u32) -> Result<()> {
        self.place.note(&Undo::process(process))
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
        let range = self.parameters.iter().find(|one| one.name == name).map(|one| one.range);
        let (from, to) = range.expect("a fault draws only what it declares");
        // Drawn in any case, so that the other parameters of a seed stay as they are.
        let drawn = self.random.between(from, to);
        let value = self.given.get(name).copied().unwrap_or(drawn);
        self.drawn.push((name, value));
        value
    }

    /// What was drawn for a parameter already; it stays the same.
    pub(crate) fn drawn(&self, name: &str) -> u64 {
        let found = self.drawn.iter().find(|(drawn, _)| *drawn == name);
        found.expect("a fault asks again only for what it drew").1
    }

    /// Writes a file of the scene's directory, whole.
    pub(crate) fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        fs::write(&path, text).map_err(DrillError::of(format!("cannot write `{}`", path.display())))
    }

    /// A path in the scene's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.dir.join(name)
    }

    /// The same as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Starts a program in a namespace; it ends with the scene.
    pub(crate) fn start(
        &mut self,
        what: &'static str,
        netns: &str,
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

    /// Starts a hidden or another command of this program on the host itself, where only the host's own namespace will do; it ends with
    /// the scene, whatever happens.
    pub(crate) fn start_outside(&mut self, what: &'static str, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(args);
        self.spawn_outside(what, command)
    }

    /// The same with another program.
    pub(crate) fn spawn_outside(&mut self, what: &'static str, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.get_program().display().to_string();
        let child = command.spawn().map_err(DrillError::of(format!("cannot run `{program}`")))?;
        let id = child.id();
        self.processes.push((what, child));
        self.ends_with(id)
    }

    /// This program's own hidden command.
    pub(crate) fn start_own(
        &mut self,
        what: &'static str,
        netns: &str,
        args: &[&str],
    ) -> Result<()> {
        let program = self.program();
        self.start(what, netns, &program, &[&["drill"], args].concat())
    }

    /// The application.
    pub(crate) fn app(&mut self, backlog: u64, more: &[&str]) -> Result<()> {
        let netns = self.server.clone();
        self.app_at(&netns, APP, backlog, more)
    }

    /// An application at another address, or on the other side.
    pub(crate) fn app_at(
        &mut self,
        netns: &str,
        address: &str,
        backlog: u64,
        more: &[&str],
    ) -> Result<()> {
        self.named_app("app", netns, address, backlog, more)
    }

    /// The same under another name, such as a store behind the application.
    pub(crate) fn named_app(
        &mut self,
        what: &'static str,
        netns: &str,
        address: &str,
        backlog: u64,
        more: &[&str],
    ) -> Result<()> {
        let (backlog, delay) = (backlog.to_string(), self.path("delay"));
        let args = ["app", "--address", address, "--backlog", &backlog, "--delay", &delay];
        self.start_own(what, netns, &[&args[..], more].concat())
    }

    /// Visitors of nginx.
    pub(crate) fn visitors(&mut self, count: u64, more: &[&str]) -> Result<()> {
        self.visitors_at(&format!("{SERVER}:80"), count, more)
    }

    /// Visitors of another address of the server's side.
    pub(crate) fn visitors_at(&mut self, address: &str, count: u64, more: &[&str]) -> Result<()> {
        let count = count.to_string();
        let args = ["visit", "--address", address, "--visitors", &count];
        let netns = self.client.clone();
        self.start_own("visitors", &netns, &[&args[..], more].concat())
    }

    /// Visitors of nginx who need no cable.
    pub(crate) fn inner_visitors(&mut self, count: u64) -> Result<()> {
        self.inner_visitors_at(&format!("{SERVER}:80"), count, &[])
    }

    /// Visitors of another address, on the server's side themselves.
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

    /// Clients of the application itself, on the server's side.
    pub(crate) fn knocks(&mut self, count: u64, more: &[&str]) -> Result<()> {
        let count = count.to_string();
        let args = ["visit", "--address", APP, "--visitors", &count];
        let netns = self.server.clone();
        self.start_own("knocks", &netns, &[&args[..], more].concat())
    }

    /// nginx before the application; `server` is put into its `server { … }`.
    pub(crate) fn nginx(&mut self, server: &str) -> Result<()> {
        self.nginx_with(4096, "", server)
    }

    /// The same with so many connections for its worker, and `http` in its `http { … }`.
    pub(crate) fn nginx_with(&mut self, connections: u64, http: &str, server: &str) -> Result<()> {
        let dir = self.place.dir.display().to_string();
        let (config, places) = (self.path("nginx.conf"), nginx_places(&dir));
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
  access_log {dir}/access.log timed;
  server {{ listen {SERVER}:80 backlog=4096; {server} }}
}}
"#
        );
        self.put("nginx.conf", &text)?;
        let netns = self.server.clone();
        let log = self.path("error.log");
        self.start("nginx", &netns, "nginx", &["-c", &config, "-p", &dir, "-e", &log])
    }

    /// The usual place: everything before `proxy_pass`, and nothing wrong.
    pub(crate) fn usual(&mut self, backlog: u64, visitors: u64) -> Result<()> {
        self.app(backlog, &[])?;
        self.nginx(&format!(
            "location / {{ proxy_pass http://{APP}; proxy_connect_timeout 2s; }}"
        ))?;
        self.visitors(visitors, &[])
    }

    /// Sets a kernel setting of the server's namespace, such as `net.ipv4.tcp_max_tw_buckets`.
    pub(crate) fn sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let script = format!("echo '{value}' > {path}");
        run("ip", &["netns", "exec", &self.server, "sh", "-c", &script])
    }

    /// Sends a signal to a process of the scene. `ip netns exec` becomes the program, so it is its own.
    pub(crate) fn signal(&self, what: &str, signal: Signal) -> Result<()> {
        for (name, child) in &self.processes {
            if *name == what {
                kill_process(Pid::from_child(child), signal)?;
            }
        }
        Ok(())
    }

    /// The number of a process of the scene.
    pub(crate) fn id(&self, what: &str) -> Result<u32> {
        let named = self.processes.iter().find(|(name, _)| *name == what);
        let named = named.map(|(_, child)| child.id());
        named.ok_or_else(|| DrillError::new(format!("the scene has no process `{what}`")))
    }

    /// Sends a signal to the children of a process of the scene, such as nginx' workers.
    pub(crate) fn signal_children(&self, what: &str, signal: Signal) -> Result<()> {
        for (_, child) in self.processes.iter().filter(|(name, _)| *name == what) {
            for id in children(child.id()) {
                kill_process(id, signal)?;
            }
        }
        Ok(())
    }
}

impl Scene {
    /// Ends its processes and takes away what it made. Dropping it does the same, but says nothing when it fails.
    ///
    /// # Errors
    /// When something could not be taken away; [`crate::clean`] tries again.
    pub fn end(mut self) -> Result<()> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<()> {
        for (_, child) in self.processes.iter_mut().rev() {
            let id = Pid::from_child(child);
            // nginx ends its workers at SIGTERM; a stopped process must go on to end.
            for worker in children(child.id()) {
                let _gone = kill_process(worker, Signal::CONT);
            }
            let _gone = kill_process(id, Signal::CONT);
            let _gone = kill_process(id, Signal::TERM);
        }
        let removed = if self.place.dir.exists() {
            remove(&self.place.name, &self.place.dir)
        } else {
            Ok(())
        };
        for (_, mut child) in self.processes.drain(..) {
            let _reaped = child.wait();
        }
        removed
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _told_by_clean = self.take_away();
    }
}

/// Refuses what cannot be made here, before anything is made.
pub(crate) fn check_tools(name: &str, tools: &[&str]) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(DrillError::new("cannot make a fault: network namespaces need root")
            .hint("sudo weir drill …; nothing outside of the drill's own namespaces is touched"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let is_missing = |tool: &&&str| !dirs.iter().any(|dir| dir.join(tool).is_file());
    let missing: Vec<&str> =
        ["ip", "setsid"].iter().chain(tools).filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(DrillError::new(format!("cannot make `{name}`: {} not found", missing.join(", "))).hint(
        "Debian has them in iproute2, util-linux, nftables, nginx, haproxy, e2fsprogs, openssl, redis-server, pebble",
    ))
}
