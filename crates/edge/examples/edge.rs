//! An edge alone that writes its rows to a file, to be measured.

use std::io::Write;
use std::sync::{Arc, Mutex};

use weir_edge::{
    BackendSettings, CertificateFiles, CheckSettings, Edge, ListenerSettings, Settings,
};
use weir_tables::{Clock, Micros, Parcel};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Now;
impl Clock for Now {
    #[expect(clippy::disallowed_methods, reason = "the clock of an example")]
    fn now(&self) -> Micros {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Micros(i64::try_from(since.as_micros()).unwrap())
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (listen, file, beacon) = (args.next().unwrap(), args.next().unwrap(), args.next().unwrap());
    let rest: Vec<String> = args.collect();
    let tls = std::env::var("TLS").ok();
    let mut settings = Settings {
        threads: 1,
        host: "x".into(),
        listeners: vec![ListenerSettings::parse(&listen, tls.is_some(), 4096).unwrap()],
        beacon: (beacon != "-").then_some(beacon),
        backends: rest.iter().map(|one| BackendSettings::parse(one).unwrap()).collect(),
        certificates: tls
            .iter()
            .map(|dir| CertificateFiles {
                certificate: format!("{dir}/c.pem").into(),
                key: format!("{dir}/k.pem").into(),
            })
            .collect(),
        ..Settings::default()
    };
    if let Ok(path) = std::env::var("CHECK") {
        settings.check = Some(CheckSettings {
            path,
            every: std::time::Duration::from_secs(1),
            within: std::time::Duration::from_secs(1),
            rise: 2,
            fall: 2,
        });
    }
    if let Ok(idle) = std::env::var("IDLE") {
        settings.limits.idle = std::time::Duration::from_secs(idle.parse().unwrap());
    }
    let out = Mutex::new(std::fs::File::create(file).unwrap());
    let rows = std::sync::atomic::AtomicUsize::new(0);
    let sink: weir_edge::Sink = Arc::new(move |batches| {
        let parcel = Parcel { range: None, batches };
        for batch in &parcel.batches {
            if batch.table.name == "request" {
                rows.fetch_add(batch.rows.num_rows(), std::sync::atomic::Ordering::Relaxed);
            }
        }
        if std::env::var_os("SHOW").is_some() {
            for batch in &parcel.batches {
                println!("{} {:?}", batch.table.name, batch.rows);
            }
        }
        out.lock().unwrap().write_all(&parcel.encode(true)).unwrap();
        eprintln!("rows {}", rows.load(std::sync::atomic::Ordering::Relaxed));
    });
    let edge = Edge::start(settings, Arc::new(Now), sink).unwrap_or_else(|e| panic!("{e}"));
    println!("listening {:?}", edge.addresses());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    edge.end();
}
