//! Faults of weir's own edge: a backend that ends, or closes connections too early; a name whose
//! certificate cannot be obtained.
//!
//! ```text
//!   visitors ── weir's edge ── backends        all on the host's loopback
//!                  └── authority (Pebble) ── name server
//! ```
//! Pebble is Let's Encrypt's test authority: it validates a name at the address it resolves to, at
//! the edge's port.

use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;

use crate::address::free_address;
use crate::command::{run, until};
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::faults::dns::name_server;
use crate::testbed::TestBed;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "backend of weir's edge ends",
        rules: &[&["edge.backend_out", "app.down", "tcp.accept_queue_high"]],
        parameters: &[
            parameter("backends", 2..=4, "backends"),
            parameter("visitors", 8..=25, "visitors"),
            parameter("stopped", 0..=1, "1 if one only stopped, 0 if it ended"),
        ],
        tools: &[],
        set: |testbed| {
            let backends = testbed.draw("backends");
            let edge = edge(testbed, backends, &[])?;
            let visitors = testbed.draw("visitors");
            visit(testbed, &edge, visitors, "50")
        },
        inject: |testbed| {
            let is_stopped = testbed.draw("stopped") == 1;
            testbed.signal("ill", if is_stopped { Signal::STOP } else { Signal::KILL })?;
            Ok(None)
        },
    },
    Fault {
        name: "backends close before weir's edge does",
        rules: &[&["edge.idle_mismatch"]],
        parameters: &[
            parameter("backends", 1..=2, "backends"),
            parameter("millis", 900..=3000, "milliseconds of their keep-alive timeout"),
            parameter("visitors", 40..=60, "visitors that arrive together"),
        ],
        tools: &[],
        set: |testbed| {
            let (backends, idle) = (testbed.draw("backends"), testbed.path("idle"));
            testbed.put("idle", "75000")?;
            // Keep requests concurrent, so that many connections are idle afterwards.
            testbed.put("delay", "50")?;
            let edge = edge(testbed, backends, &["--idle", &idle])?;
            let (_millis, visitors) = (testbed.draw("millis"), testbed.draw("visitors"));
            // Longer than the backends' timeout, shorter than the edge's.
            visit(testbed, &edge, visitors, "3500")
        },
        inject: |testbed| {
            testbed.put("idle", testbed.drawn("millis").to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "name of weir's edge leads elsewhere",
        rules: &[&["edge.certificate_failing"]],
        parameters: &[
            parameter("names", 1..=4, "names of the new certificate"),
            parameter("visitors", 4..=12, "visitors"),
        ],
        tools: &["pebble", "openssl"],
        set: |testbed| {
            let _names = testbed.draw("names");
            testbed.put("names.address", "127.0.0.1")?;
            testbed.listen = free_address()?.to_string();
            let (plain, tls) = (free_address()?, free_address()?);
            let directory = authority(testbed, plain.port())?;
            let backend = backend(testbed, "well", &[])?;
            let (data, agent) = (testbed.path("edge"), testbed.path("edge.agent"));
            let ca = testbed.path("ca.pem");
            let own = format!("{}-edge", testbed.server);
            let text = format!(
                "[collect]\nhost = \"{own}\"\n[store]\ndir = \"{data}\"\n[agent]\ndir = \"{agent}\"\n\
                 [edge]\nlisten = [\"{plain}\"]\nlisten_tls = [\"{tls}\"]\nbackends = [\"{backend}\"]\nacme_directory = \"{directory}\"\n\
                 acme_ca_file = \"{ca}\"\nacme_challenge = \"http-01\"\nacme_names = [\"shop.example\"]\n"
            );
            testbed.put("edge.toml", text)?;
            let (config, hub) = (testbed.path("edge.toml"), format!("http://{}", testbed.listen));
            let args = ["edge", "--config", &config, "--hub", &hub, "--log-level", "error"];
            testbed.start_outside("edge", &args)?;
            let visitors = testbed.draw("visitors");
            visit(testbed, &plain.to_string(), visitors, "50")
        },
        inject: |testbed| {
            // An address where nothing listens on that port.
            testbed.put("names.address", "127.66.66.66")?;
            let new: Vec<String> =
                (1..=testbed.drawn("names")).map(|number| format!("new{number}.example")).collect();
            let text = std::fs::read_to_string(testbed.file("edge.toml"))?;
            let both = format!("[\"shop.example\", \"{}\"]", new.join(" "));
            testbed.put("edge.toml", text.replace("[\"shop.example\"]", &both))?;
            testbed.signal("edge", Signal::HUP)?;
            Ok(None)
        },
    },
];

/// Configures the weir beside the testbed with an edge in front of new backends, the first of which
/// can become unhealthy. Returns the edge's address.
fn edge(testbed: &mut TestBed, backends: u64, more: &[&str]) -> Result<String> {
    let edge = free_address()?.to_string();
    let mut names = Vec::new();
    for number in 1..=backends {
        let address = backend(testbed, if number == 1 { "ill" } else { "well" }, more)?;
        names.push(format!("\"{address}\""));
    }
    let names = names.join(", ");
    testbed.config = format!("[edge]\nlisten = [\"{edge}\"]\nbackends = [{names}]\n");
    Ok(edge)
}

/// Starts an application on the host's loopback and returns its address.
fn backend(testbed: &mut TestBed, what: &'static str, more: &[&str]) -> Result<String> {
    let (address, delay) = (free_address()?.to_string(), testbed.path("delay"));
    let args = ["drill", "app", "--address", &address, "--backlog", "256", "--delay", &delay];
    testbed.start_outside(what, &[&args[..], more].concat())?;
    Ok(address)
}

fn visit(testbed: &mut TestBed, edge: &str, visitors: u64, pause_millis: &str) -> Result<()> {
    let visitors = visitors.to_string();
    let args = ["drill", "visit", "--address", edge, "--visitors", &visitors];
    testbed.start_outside("visitors", &[&args[..], &["--pause-millis", pause_millis]].concat())
}

/// Starts a certificate authority that validates names at `port` and returns its directory's URL.
fn authority(testbed: &mut TestBed, port: u16) -> Result<String> {
    testbed.put(
        "ca.cnf",
        "[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = localhost\n\
         [extensions]\nsubjectAltName = DNS:localhost\nbasicConstraints = critical, CA:FALSE\n",
    )?;
    let (config, key, cert) =
        (testbed.path("ca.cnf"), testbed.path("ca.key"), testbed.path("ca.pem"));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let args = ["req", "-x509", "-days", "2", "-config", &config, "-keyout", &key, "-out", &cert];
    run("openssl", &[&args[..], &curve].concat())?;
    let (api, management, names) = (free_address()?, free_address()?, name_server(testbed)?);
    let text = format!(
        r#"{{"pebble": {{"listenAddress": "{api}", "managementListenAddress": "{management}", "certificate": "{cert}",
        "privateKey": "{key}", "httpPort": {port}, "tlsPort": {port}, "ocspResponderURL": "",
        "externalAccountBindingRequired": false}}}}"#
    );
    testbed.put("pebble.json", text)?;
    let mut pebble = Command::new("pebble");
    pebble.arg("-config").arg(testbed.file("pebble.json")).args(["-dnsserver", &names]);
    // By default Pebble sleeps for seconds, as real authorities do, and reuses old validations.
    pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
    testbed.spawn_outside("authority", pebble)?;
    until("the authority", || Ok(TcpStream::connect(api).is_ok()))?;
    Ok(format!("https://localhost:{}/dir", api.port()))
}
