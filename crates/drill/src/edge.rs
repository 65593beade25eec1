//! Faults of weir's own edge: a backend that ends, or closes connections too early; a name whose certificate cannot be obtained.
//!
//! ```text
//!   visitors ── weir's edge ── backends        all on the host's loopback
//!                  └── authority (Pebble) ── name server
//! ```
//! Pebble is Let's Encrypt's own authority for tests: it asks back at the address to which a name leads, at the edge's port.

use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;

use crate::address::free_address;
use crate::error::Result;
use crate::fault::{Fault, of};
use crate::names::name_server;
use crate::scene::{Scene, run, until};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "backend of weir's edge ends",
        rules: &[&["edge.backend_out", "app.down", "tcp.accept_queue_high"]],
        parameters: &[
            of("backends", 2, 4, "backends"),
            of("visitors", 8, 25, "visitors"),
            of("stopped", 0, 1, "1 when one only stopped, 0 when it ended"),
        ],
        tools: &[],
        set: |scene| {
            let backends = scene.draw("backends");
            let edge = edge(scene, backends, &[])?;
            let visitors = scene.draw("visitors");
            visit(scene, &edge, visitors, "50")
        },
        inject: |scene| {
            let is_stopped = scene.draw("stopped") == 1;
            scene.signal("ill", if is_stopped { Signal::STOP } else { Signal::KILL })?;
            Ok(None)
        },
    },
    Fault {
        name: "backends close before weir's edge does",
        rules: &[&["edge.idle_mismatch"]],
        parameters: &[
            of("backends", 1, 2, "backends"),
            of("millis", 900, 3000, "milliseconds that they keep idle connections"),
            of("visitors", 40, 60, "visitors, who come together"),
        ],
        tools: &[],
        set: |scene| {
            let (backends, idle) = (scene.draw("backends"), scene.path("idle"));
            scene.put("idle", "75000")?;
            // Long enough for all of them to be under way together, so that many connections rest afterwards.
            scene.put("delay", "50")?;
            let edge = edge(scene, backends, &["--idle", &idle])?;
            let (_millis, visitors) = (scene.draw("millis"), scene.draw("visitors"));
            // Longer than the backends will wait, less than the edge does.
            visit(scene, &edge, visitors, "3500")
        },
        inject: |scene| {
            scene.put("idle", &scene.drawn("millis").to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "name of weir's edge leads elsewhere",
        rules: &[&["edge.certificate_failing"]],
        parameters: &[
            of("names", 1, 4, "names of a new certificate"),
            of("visitors", 4, 12, "visitors"),
        ],
        tools: &["pebble", "openssl"],
        set: |scene| {
            let _names = scene.draw("names");
            scene.put("names.address", "127.0.0.1")?;
            scene.listen = free_address()?.to_string();
            let (plain, tls) = (free_address()?, free_address()?);
            let directory = authority(scene, plain.port())?;
            let backend = backend(scene, "well", &[])?;
            let at = |name: &str| scene.path(name);
            let (data, agent, ca) = (at("edge"), at("edge.agent"), at("ca.pem"));
            let own = format!("{}-edge", scene.server);
            let text = format!(
                "[collect]\nhost = \"{own}\"\n[store]\ndir = \"{data}\"\n[agent]\ndir = \"{agent}\"\n\
                 [edge]\nlisten = [\"{plain}\"]\nlisten_tls = [\"{tls}\"]\nbackends = [\"{backend}\"]\nacme_directory = \"{directory}\"\n\
                 acme_ca_file = \"{ca}\"\nacme_challenge = \"http-01\"\nacme_names = [\"shop.example\"]\n"
            );
            scene.put("edge.toml", &text)?;
            let (config, hub) = (scene.path("edge.toml"), format!("http://{}", scene.listen));
            let args = ["edge", "--config", &config, "--hub", &hub, "--log-level", "error"];
            scene.start_outside("edge", &args)?;
            let visitors = scene.draw("visitors");
            visit(scene, &plain.to_string(), visitors, "50")
        },
        inject: |scene| {
            // Where nobody listens at that port.
            scene.put("names.address", "127.66.66.66")?;
            let new: Vec<String> =
                (1..=scene.drawn("names")).map(|number| format!("new{number}.example")).collect();
            let text = std::fs::read_to_string(scene.file("edge.toml"))?;
            let both = format!("[\"shop.example\", \"{}\"]", new.join(" "));
            scene.put("edge.toml", &text.replace("[\"shop.example\"]", &both))?;
            scene.signal("edge", Signal::HUP)?;
            Ok(None)
        },
    },
];

/// Gives the weir beside the scene an edge before so many backends, of which the first may become ill; its address.
fn edge(scene: &mut Scene, backends: u64, more: &[&str]) -> Result<String> {
    let edge = free_address()?.to_string();
    let mut names = Vec::new();
    for number in 1..=backends {
        let address = backend(scene, if number == 1 { "ill" } else { "well" }, more)?;
        names.push(format!("\"{address}\""));
    }
    let names = names.join(", ");
    scene.config = format!("[edge]\nlisten = [\"{edge}\"]\nbackends = [{names}]\n");
    Ok(edge)
}

/// An application on the host's loopback; its address.
fn backend(scene: &mut Scene, what: &'static str, more: &[&str]) -> Result<String> {
    let (address, delay) = (free_address()?.to_string(), scene.path("delay"));
    let args = ["drill", "app", "--address", &address, "--backlog", "256", "--delay", &delay];
    scene.start_outside(what, &[&args[..], more].concat())?;
    Ok(address)
}

fn visit(scene: &mut Scene, edge: &str, visitors: u64, pause_millis: &str) -> Result<()> {
    let visitors = visitors.to_string();
    let args = ["drill", "visit", "--address", edge, "--visitors", &visitors];
    scene.start_outside("visitors", &[&args[..], &["--pause-millis", pause_millis]].concat())
}

/// An authority of the scene's own, which looks for proofs at that port of the address to which a name leads; its directory.
fn authority(scene: &mut Scene, port: u16) -> Result<String> {
    scene.put(
        "ca.cnf",
        "[req]\ndistinguished_name = name\nx509_extensions = extensions\nprompt = no\n[name]\nCN = localhost\n\
         [extensions]\nsubjectAltName = DNS:localhost\nbasicConstraints = critical, CA:FALSE\n",
    )?;
    let (config, key, cert) = (scene.path("ca.cnf"), scene.path("ca.key"), scene.path("ca.pem"));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let args = ["req", "-x509", "-days", "2", "-config", &config, "-keyout", &key, "-out", &cert];
    run("openssl", &[&args[..], &curve].concat())?;
    let (asked, managed, names) = (free_address()?, free_address()?, name_server(scene)?);
    let text = format!(
        r#"{{"pebble": {{"listenAddress": "{asked}", "managementListenAddress": "{managed}", "certificate": "{cert}",
        "privateKey": "{key}", "httpPort": {port}, "tlsPort": {port}, "ocspResponderURL": "",
        "externalAccountBindingRequired": false}}}}"#
    );
    scene.put("pebble.json", &text)?;
    let mut pebble = Command::new("pebble");
    pebble.arg("-config").arg(scene.file("pebble.json")).args(["-dnsserver", &names]);
    // It would wait for some seconds, as real ones do, and take an old proof for a new one.
    pebble.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
    scene.spawn_outside("authority", pebble)?;
    until("the authority", || Ok(TcpStream::connect(asked).is_ok()))?;
    Ok(format!("https://localhost:{}/dir", asked.port()))
}
