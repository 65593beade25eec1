//! A place of its own for one fault: two network namespaces with a cable, nginx, an application, visitors, and a small
//! file system. Whatever happens, dropping it ends its processes and takes the rest away.
//!
//! ```text
//!   visitors (client side) ── veth ── nginx :80 ── lo ── application :9001   (server side)
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::random::Random;

/// The addresses of the server's and of the client's side (RFC 2544's network for tests).
pub(crate) const SERVER: &str = "198.18.7.1";
pub(crate) const CLIENT: &str = "198.18.7.2";
/// The application's, on the server's side.
pub(crate) const APP: &str = "127.0.0.1:9001";

/// Scenes made so far, so that each has names of its own.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// See the module.
pub(crate) struct Scene {
    pub(crate) server: String,
    pub(crate) client: String,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) random: Random,
    /// weir's configuration in this scene.
    pub(crate) config: String,
    groups: Vec<PathBuf>,
    processes: Vec<(&'static str, Child)>,
    mounts: Vec<PathBuf>,
}

fn children(process: u32) -> Vec<Pid> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Runs a program to its end; what it prints besides is dropped.
pub(crate) fn run(program: &str, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run `{program}`"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{program} {}` failed: {}", args.join(" "), error.trim());
    Ok(())
}

impl Scene {
    /// Namespaces and cable, and nothing in them yet. Needs root.
    pub(crate) fn new(random: Random) -> anyhow::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("weir-lab-{}-{number}{side}", std::process::id());
        let scene = Self {
            server: name("s"),
            client: name("c"),
            dir: tempfile::tempdir()?,
            random,
            config: String::new(),
            groups: Vec::new(),
            processes: Vec::new(),
            mounts: Vec::new(),
        };
        // nginx's worker is another user and makes its temporary directories here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(scene.dir.path(), open)?;
        let (server, client) = (&scene.server, &scene.client);
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
        fs::write(scene.delay(), "5")?;
        Ok(scene)
    }

    /// The file that says how many milliseconds the application takes.
    pub(crate) fn delay(&self) -> PathBuf {
        self.dir.path().join("delay")
    }

    /// A path in the scene's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// A whole number from `from` up to and with `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.random.below(to - from + 1)
    }

    /// Starts a program in a namespace; it ends with the scene.
    pub(crate) fn start(
        &mut self,
        what: &'static str,
        netns: &str,
        program: &str,
        args: &[&str],
    ) -> anyhow::Result<()> {
        let child = Command::new("ip")
            .args(["netns", "exec", netns, program])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.processes.push((what, child.with_context(|| format!("cannot run `{program}`"))?));
        Ok(())
    }

    /// This program's own hidden command.
    fn start_own(&mut self, what: &'static str, netns: &str, args: &[&str]) -> anyhow::Result<()> {
        let program = std::env::current_exe()?.display().to_string();
        self.start(what, netns, &program, args)
    }

    /// The application.
    pub(crate) fn app(&mut self, backlog: u64, more: &[&str]) -> anyhow::Result<()> {
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
    ) -> anyhow::Result<()> {
        let (backlog, delay) = (backlog.to_string(), self.delay().display().to_string());
        let args = ["lab-app", "--address", address, "--backlog", &backlog, "--delay", &delay];
        self.start_own("app", netns, &[&args[..], more].concat())
    }

    /// Visitors of nginx.
    pub(crate) fn visitors(&mut self, count: u64, more: &[&str]) -> anyhow::Result<()> {
        self.visitors_at(&format!("{SERVER}:80"), count, more)
    }

    /// Visitors of another address of the server's side.
    pub(crate) fn visitors_at(
        &mut self,
        address: &str,
        count: u64,
        more: &[&str],
    ) -> anyhow::Result<()> {
        let count = count.to_string();
        let args = ["lab-visit", "--address", address, "--visitors", &count];
        let netns = self.client.clone();
        self.start_own("visitors", &netns, &[&args[..], more].concat())
    }

    /// Visitors of nginx who need no cable.
    pub(crate) fn inner_visitors(&mut self, count: u64) -> anyhow::Result<()> {
        let (count, address) = (count.to_string(), format!("{SERVER}:80"));
        let args = ["lab-visit", "--address", &address, "--visitors", &count];
        let netns = self.server.clone();
        self.start_own("visitors", &netns, &args)
    }

    /// Clients of the application itself, on the server's side.
    pub(crate) fn knocks(&mut self, count: u64, more: &[&str]) -> anyhow::Result<()> {
        let count = count.to_string();
        let args = ["lab-visit", "--address", APP, "--visitors", &count];
        let netns = self.server.clone();
        self.start_own("knocks", &netns, &[&args[..], more].concat())
    }

    /// nginx before the application; `server` is put into its `server { … }`.
    pub(crate) fn nginx(&mut self, server: &str) -> anyhow::Result<()> {
        self.nginx_with(4096, "", server)
    }

    /// The same with so many connections for its worker, and `http` in its `http { … }`.
    pub(crate) fn nginx_with(
        &mut self,
        connections: u64,
        http: &str,
        server: &str,
    ) -> anyhow::Result<()> {
        let dir = self.dir.path().display().to_string();
        let config = self.path("nginx.conf");
        let text = format!(
            r#"daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections {connections}; }}
http {{
  {http}
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  log_format timed escape=json '{{"@timestamp":"$time_iso8601","remote_addr":"$remote_addr",'
    '"request_method":"$request_method","uri":"$uri","status":"$status","bytes":"$bytes_sent",'
    '"request_time":"$request_time","upstream_addr":"$upstream_addr","upstream_status":"$upstream_status",'
    '"uct":"$upstream_connect_time","uht":"$upstream_header_time","urt":"$upstream_response_time"}}';
  access_log {dir}/access.log timed;
  server {{ listen {SERVER}:80 backlog=4096; {server} }}
}}
"#
        );
        fs::write(&config, text)?;
        let netns = self.server.clone();
        let log = self.path("error.log");
        self.start("nginx", &netns, "nginx", &["-c", &config, "-p", &dir, "-e", &log])
    }

    /// The usual place: everything before `proxy_pass`, and nothing wrong.
    pub(crate) fn usual(&mut self, backlog: u64, visitors: u64) -> anyhow::Result<()> {
        self.app(backlog, &[])?;
        self.nginx(&format!(
            "location / {{ proxy_pass http://{APP}; proxy_connect_timeout 2s; }}"
        ))?;
        self.visitors(visitors, &[])
    }

    /// Sets a kernel setting of the server's namespace, such as `net.ipv4.tcp_max_tw_buckets`.
    pub(crate) fn sysctl(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let script = format!("echo '{value}' > {path}");
        run("ip", &["netns", "exec", &self.server, "sh", "-c", &script])
    }

    /// A control group of its own for the scene's processes of that name, without a limit yet. Version 1 or 2, whichever the
    /// host has for that controller.
    pub(crate) fn group(&mut self, what: &str, controller: &str) -> anyhow::Result<()> {
        let group = self.group_of(controller).0;
        fs::create_dir_all(&group)?;
        self.groups.push(group.clone());
        for (_, child) in self.processes.iter().filter(|(name, _)| *name == what) {
            fs::write(group.join("cgroup.procs"), child.id().to_string())?;
        }
        Ok(())
    }

    /// Sets limits of that group: files and values of version 1, and those of version 2.
    pub(crate) fn limit(
        &self,
        controller: &str,
        old: &[(&str, String)],
        new: &[(&str, String)],
    ) -> anyhow::Result<()> {
        let (group, is_old) = self.group_of(controller);
        for (file, value) in if is_old { old } else { new } {
            let path = group.join(file);
            fs::write(&path, value).with_context(|| format!("cannot set {}", path.display()))?;
        }
        Ok(())
    }

    /// Where the group is, and whether it is one of version 1.
    fn group_of(&self, controller: &str) -> (PathBuf, bool) {
        let root = Path::new("/sys/fs/cgroup");
        let is_old = root.join(controller).is_dir();
        let base = if is_old { root.join(controller) } else { root.to_owned() };
        (base.join(&self.server), is_old)
    }

    /// Sends a signal to a process of the scene. `ip netns exec` becomes the program, so it is its own.
    pub(crate) fn signal(&self, what: &str, signal: Signal) -> anyhow::Result<()> {
        for (name, child) in &self.processes {
            if *name == what {
                kill_process(Pid::from_child(child), signal)?;
            }
        }
        Ok(())
    }

    /// Sends a signal to the children of a process of the scene, such as nginx' workers.
    pub(crate) fn signal_children(&self, what: &str, signal: Signal) -> anyhow::Result<()> {
        for (_, child) in self.processes.iter().filter(|(name, _)| *name == what) {
            for id in children(child.id()) {
                kill_process(id, signal)?;
            }
        }
        Ok(())
    }

    /// A file system of its own in a file: where it is mounted.
    pub(crate) fn disk(&mut self, mebibytes: u64, inodes: u64) -> anyhow::Result<PathBuf> {
        let (image, point) = (self.path("image"), self.dir.path().join("disk"));
        fs::File::create(&image)?.set_len(mebibytes << 20)?;
        run("mkfs.ext4", &["-q", "-F", "-N", &inodes.to_string(), &image])?;
        fs::create_dir(&point)?;
        run("mount", &["-o", "loop", &image, &point.display().to_string()])?;
        self.mounts.push(point.clone());
        Ok(point)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for (_, child) in self.processes.iter_mut().rev() {
            let id = Pid::from_child(child);
            // nginx ends its workers at SIGTERM; a stopped process must go on to end.
            for worker in children(child.id()) {
                let _gone = kill_process(worker, Signal::CONT);
            }
            let _gone = kill_process(id, Signal::CONT);
            let _gone = kill_process(id, Signal::TERM);
        }
        for (_, mut child) in self.processes.drain(..) {
            let _reaped = child.wait();
        }
        for group in &self.groups {
            let _removed = fs::remove_dir(group);
        }
        for point in &self.mounts {
            let _unmounted = run("umount", &["-l", &point.display().to_string()]);
        }
        for name in [&self.server, &self.client] {
            let _deleted = run("ip", &["netns", "delete", name]);
        }
    }
}

/// Appends bytes to a file until it has `bytes`, or the disk is full.
pub(crate) fn fill(path: &Path, bytes: u64) -> anyhow::Result<fs::File> {
    use std::io::Write;
    let mut file = fs::File::create(path)?;
    let part = vec![b'x'; 256 << 10];
    let mut written = 0;
    while written < bytes && file.write_all(&part).is_ok() {
        written += part.len() as u64;
    }
    let _full = file.sync_all();
    Ok(file)
}
