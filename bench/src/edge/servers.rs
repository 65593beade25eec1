//! The compared servers, each on CPU 0, and four backends of one nginx on CPU 1.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::meter;
use crate::weir::{Weir, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);

/// Directory and backends of the benchmark.
pub(crate) struct TestSetup {
    pub(crate) dir: tempfile::TempDir,
    ports: Vec<u16>,
    _backends: KillOnDrop,
}

/// File of the certificate.
const CERTIFICATE: &str = "certificate.pem";
/// File of its key.
const KEY: &str = "key.pem";

fn certificate(dir: &Path) -> anyhow::Result<()> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    openssl.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt"]);
    openssl.args(["ec_paramgen_curve:P-256", "-days", "2", "-subj", "/CN=localhost"]);
    openssl.args(["-addext", "subjectAltName=DNS:localhost", "-keyout", KEY, "-out", CERTIFICATE]);
    let status = openssl.status().context("cannot run openssl")?;
    anyhow::ensure!(status.success(), "openssl failed to create a certificate");
    Ok(())
}

/// A process that is killed on drop.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A compared server.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    /// Port with TLS; 0 if there is none.
    pub(crate) tls_port: u16,
    process: ServerProcess,
}

enum ServerProcess {
    Weir(Weir),
    Other(KillOnDrop),
}

/// Returns unused ports.
pub(crate) fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    held.iter().map(|one| Ok(one.local_addr()?.port())).collect()
}

/// A program pinned to a CPU.
pub(crate) fn pinned(cpu: u32, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn wait_for_port(port: u16) -> anyhow::Result<()> {
    wait_for("a server", PATIENCE, Duration::from_millis(50), || {
        Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
    })
}

/// nginx directives that keep its temporary files below `dir`.
pub(crate) fn temp_paths(dir: &Path) -> String {
    let dir = dir.display();
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {dir}/{name};"))
        .concat()
}

/// Starts nginx in one process, which can be killed and stopped.
pub(crate) fn nginx(dir: &Path, cpu: u32, http: &str) -> anyhow::Result<KillOnDrop> {
    fs::create_dir_all(dir)?;
    let file = dir.join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n\
         events {{ worker_connections 11000; }}\n\
         http {{ keepalive_requests 100000000; {1}\n{http}\n}}\n",
        dir.display(),
        temp_paths(dir)
    );
    fs::write(&file, text)?;
    let mut command = pinned(cpu, "nginx");
    command.arg("-c").arg(&file).arg("-e").arg(dir.join("error.log"));
    Ok(KillOnDrop(command.spawn().context("cannot run nginx")?))
}

impl TestSetup {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let ports = free_ports(4)?;
        let site = dir.path().join("site");
        fs::create_dir(&site)?;
        fs::write(site.join("1k"), "x".repeat(1024))?;
        let listen: String = ports.iter().map(|port| format!("listen 127.0.0.1:{port};")).collect();
        let http = format!("access_log off; server {{ {listen} root {}; }}", site.display());
        let backends = nginx(&dir.path().join("backends"), 1, &http)?;
        wait_for_port(ports[0])?;
        certificate(dir.path())?;
        Ok(Self { dir, ports, _backends: backends })
    }

    /// Starts weir, nginx, HAProxy and hyper alone in front of the backends.
    pub(crate) fn servers(&self) -> anyhow::Result<Vec<Server>> {
        let ports = free_ports(7)?;
        let servers = vec![
            self.weir([ports[0], ports[1]])?,
            self.nginx("nginx", [ports[2], ports[3]])?,
            self.haproxy([ports[4], ports[5]])?,
            self.hyper_alone(ports[6])?,
        ];
        servers.iter().try_for_each(|server| wait_for_port(server.port))?;
        Ok(servers)
    }

    /// Starts fresh weir and nginx servers. HAProxy would need two descriptors per connection.
    pub(crate) fn fresh(&self) -> anyhow::Result<Vec<Server>> {
        let ports = free_ports(4)?;
        let servers =
            vec![self.weir([ports[0], ports[1]])?, self.nginx("idle", [ports[2], ports[3]])?];
        servers.iter().try_for_each(|server| wait_for_port(server.port))?;
        Ok(servers)
    }

    fn weir(&self, [port, tls_port]: [u16; 2]) -> anyhow::Result<Server> {
        let dir = self.dir.path();
        let [certificate, key] = [CERTIFICATE, KEY].map(|name| dir.join(name));
        let more = format!(
            "idle_seconds = 120\naddress_connections = 20000\nlisten_tls = [\"127.0.0.1:{tls_port}\"]\n\
             tls_certificate_files = [{certificate:?}]\ntls_key_files = [{key:?}]\n"
        );
        let server = weir(dir, port, &self.ports, &more)?;
        Ok(Server { tls_port, ..server })
    }

    fn nginx(&self, name: &str, [port, tls_port]: [u16; 2]) -> anyhow::Result<Server> {
        let dir = self.dir.path().join(name);
        let [certificate, key] =
            [CERTIFICATE, KEY].map(|name| self.dir.path().join(name).display().to_string());
        let backends: String =
            self.ports.iter().map(|port| format!("server 127.0.0.1:{port}; ")).collect();
        let http = format!(
            "log_format json escape=json '{{\"t\":\"$msec\",\"a\":\"$remote_addr\",\"m\":\"$request_method\",\"u\":\"$uri\",\"q\":\"$args\",\
             \"s\":$status,\"b\":$bytes_sent,\"rt\":$request_time,\"ua\":\"$http_user_agent\",\"ref\":\"$http_referer\",\"h\":\"$host\",\
             \"uct\":\"$upstream_connect_time\",\"uht\":\"$upstream_header_time\",\"urt\":\"$upstream_response_time\",\"up\":\"$upstream_addr\"}}';\n\
             access_log {}/access.log json buffer=64k flush=1s;\n\
             upstream app {{ random two least_conn; {backends} keepalive 256; keepalive_requests 100000000; }}\n\
             server {{ listen 127.0.0.1:{port} backlog=4096; listen 127.0.0.1:{tls_port} ssl http2 backlog=4096;\n\
             ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; keepalive_timeout 120s; location = /ping {{ empty_gif; }}\n\
             location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Request-Id $request_id; }} }}",
            dir.display()
        );
        let process = ServerProcess::Other(nginx(&dir, 0, &http)?);
        Ok(Server { name: "nginx, buffered JSON log", port, tls_port, process })
    }

    fn hyper_alone(&self, port: u16) -> anyhow::Result<Server> {
        let program = std::env::current_exe()?;
        let mut command = pinned(0, &program.display().to_string());
        command.arg("hyper-alone").arg(port.to_string());
        let child = command.args(self.ports.iter().map(u16::to_string)).spawn();
        let process = ServerProcess::Other(KillOnDrop(child.context("cannot run this program")?));
        Ok(Server { name: "hyper alone", port, tls_port: 0, process })
    }

    fn haproxy(&self, [port, tls_port]: [u16; 2]) -> anyhow::Result<Server> {
        let socket = self.dir.path().join("log");
        let log = UnixDatagram::bind(&socket)?;
        std::thread::spawn(move || while log.recv(&mut [0; 4096]).is_ok() {});
        let servers: String =
            self.ports.iter().map(|port| format!("  server s{port} 127.0.0.1:{port}\n")).collect();
        let file = self.dir.path().join("haproxy.cfg");
        let pair = self.dir.path().join("pair.pem");
        let [certificate, key] =
            [CERTIFICATE, KEY].map(|name| fs::read_to_string(self.dir.path().join(name)));
        fs::write(&pair, certificate? + &key?)?;
        let text = format!(
            "global\n  nbthread 1\n  maxconn 4000\n  log {} local0\ndefaults\n  mode http\n  log global\n  option httplog\n\
             \x20 timeout client 30s\n  timeout server 30s\n  timeout connect 5s\n  http-reuse always\n\
             frontend f\n  bind 127.0.0.1:{port} backlog 4096\n\
             \x20 bind 127.0.0.1:{tls_port} backlog 4096 ssl crt {} alpn h2,http/1.1 ssl-min-ver TLSv1.3\n\
             \x20  http-request return status 200 content-type image/gif string x if {{ path /ping }}\n\
             \x20 default_backend b\nbackend b\n  balance random(2)\n{servers}",
            socket.display(),
            pair.display()
        );
        fs::write(&file, text)?;
        let child = pinned(0, "haproxy").arg("-db").arg("-f").arg(&file).spawn();
        let process = ServerProcess::Other(KillOnDrop(child.context("cannot run haproxy")?));
        Ok(Server { name: "HAProxy, log", port, tls_port, process })
    }
}

/// Starts `weir edge` with one thread and its own store.
pub(crate) fn weir(dir: &Path, port: u16, backends: &[u16], more: &str) -> anyhow::Result<Server> {
    let data = tempfile::tempdir_in(dir)?.keep();
    let config = data.join("weir.toml");
    let list: Vec<String> = backends.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let text = format!(
        "[edge]\nlisten = [\"127.0.0.1:{port}\"]\nbackends = [{}]\nbeacon = \"/ping\"\nthreads = 1\n\
         connection_requests = 4000000000\n{more}",
        list.join(", ")
    );
    fs::write(&config, text)?;
    let [data, config] = [&data, &config].map(|path| path.display().to_string());
    let args = ["--config", &config, "edge", "--page", "127.0.0.1:0", "--data", &data];
    let weir = Weir::serve(&args)?;
    let id = weir.id().to_string();
    // Pin all threads, also of the store, so that no cost hides on the other CPU.
    let status =
        Command::new("taskset").args(["-a", "-c", "-p", "0", &id]).stdout(Stdio::null()).status();
    status.context("cannot run taskset")?;
    Ok(Server { name: "weir edge", port, tls_port: 0, process: ServerProcess::Weir(weir) })
}

impl Server {
    fn id(&self) -> u32 {
        match &self.process {
            ServerProcess::Weir(weir) => weir.id(),
            ServerProcess::Other(ended) => ended.0.id(),
        }
    }

    /// CPU seconds of the serving threads, and of the whole process.
    pub(crate) fn cpu_seconds(&self) -> (f64, f64) {
        let whole = meter::cpu_seconds(self.id());
        match &self.process {
            ServerProcess::Weir(_) => (meter::threads_cpu_seconds(self.id(), "weir-edge"), whole),
            ServerProcess::Other(_) => (whole, whole),
        }
    }

    /// Proportional set size in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let text =
            fs::read_to_string(format!("/proc/{}/smaps_rollup", self.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    }

    /// Runs a query in weir.
    pub(crate) fn sql(&self, sql: &str) -> anyhow::Result<Vec<Value>> {
        match &self.process {
            ServerProcess::Weir(weir) => weir.sql(sql),
            ServerProcess::Other(_) => anyhow::bail!("only weir supports queries"),
        }
    }
}
