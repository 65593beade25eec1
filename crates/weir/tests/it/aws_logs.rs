//! Logs in a bucket, as a balancer of AWS leaves them: each line once, over kills and while objects
//! come.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::harness::{
    EndedProcess, SeededRandom, WEIR, Weir, free_port, pause, quiet, request, serve, wait_for,
};
use super::outputs::moto;

const PATIENCE: Duration = Duration::from_secs(90);
const LINES: usize = 400;

fn put(service: &str, name: &str, bytes: &[u8]) {
    let address = service.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("moto listens");
    let head = format!(
        "PUT /logs/{name} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes()).expect("it takes requests");
    stream.write_all(bytes).expect("it takes requests");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// An object with lines of a balancer, every second one packed, in the directory of the day.
fn put_object(service: &str, number: usize) {
    let lines: String = (0..LINES).map(|line| alb_line(number * LINES + line)).collect();
    let name = format!(
        "AWSLogs/123456789012/elasticloadbalancing/us-east-2/{}/123456789012_elasticloadbalancing_us-east-2_app.shop.1234567890abcdef_\
         20261122T{number:04}Z_172.160.001.192_20sg8hgm.log",
        today().replace('-', "/")
    );
    if number.is_multiple_of(2) {
        return put(service, &name, lines.as_bytes());
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(lines.as_bytes()).expect("memory");
    put(service, &format!("{name}.gz"), &packed.finish().expect("memory"));
}

fn alb_line(number: usize) -> String {
    format!(
        "http {}T00:00:{:02}.186641Z app/shop/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 \
         \"GET http://www.example.com:80/page/{number} HTTP/1.1\" \"curl/7.46.0\" - - \
         arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 \"Root=1-{number:08}\" \
         \"-\" \"-\" 0 2026-11-22T00:00:00.364000Z \"forward\" \"-\" \"-\" \"10.0.0.1:80\" \"200\" \"-\" \"-\"\n",
        today(),
        number % 60,
    )
}

fn today() -> &'static str {
    static DAY: OnceLock<String> = OnceLock::new();
    DAY.get_or_init(|| {
        let day = Command::new("date").args(["-u", "+%F"]).output().expect("date runs");
        String::from_utf8(day.stdout).expect("text").trim().to_owned()
    })
}

fn start(data: &Path, config: &Path) -> Weir {
    let mut command = serve("up", data);
    command.arg("--config").arg(config);
    quiet(&mut command);
    Weir::start(command)
}

/// moto with an empty bucket `logs`, and where it is.
fn service() -> Option<(EndedProcess, String)> {
    let port = free_port();
    let service = format!("http://127.0.0.1:{port}");
    let moto = moto(port)?;
    wait_for("moto", PATIENCE, || {
        (request(&service, "PUT", "/logs", &[], "").0 == 200).then_some(())
    });
    Some((moto, service))
}

fn configuration(dir: &Path, service: &str, buckets: &[&str]) -> PathBuf {
    let (secret, config) = (dir.join("secret"), dir.join("weir.toml"));
    std::fs::write(&secret, "secret\n").expect("it can be written");
    let buckets: String = buckets.iter().map(|name: &&str| {
        format!(
            "[[buckets]]\nurl = \"s3://{name}/AWSLogs/123456789012/elasticloadbalancing/us-east-2/%Y/%m/%d/\"\nendpoint = \"{service}\"\n\
             region = \"us-east-1\"\nuser = \"key\"\npassword_file = \"{}\"\ninterval_seconds = 1\n",
            secret.display()
        )
    }).collect();
    std::fs::write(&config, buckets).expect("it can be written");
    config
}

#[test]
fn lines_of_a_bucket_come_once_over_kills_and_while_objects_come() {
    let Some((_moto, service)) = service() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let config = configuration(dir.path(), &service, &["logs", "gone"]);
    (0..30).for_each(|number| put_object(&service, number));
    let data = dir.path().join("data");
    let mut random = SeededRandom::new();
    for round in 0..5 {
        let weir = start(&data, &config);
        put_object(&service, 30 + round);
        pause(Duration::from_millis(600 + random.below(1500)));
        weir.kill();
    }
    let weir = start(&data, &config);
    let expected = i64::try_from(35 * LINES).expect("a few");
    let count = "select count(*) from request where tier = 'edge' and program = 'alb'";
    wait_for("all lines", PATIENCE, || (weir.number(count) >= expected).then_some(()));
    put_object(&service, 35);
    let expected = i64::try_from(36 * LINES).expect("a few");
    wait_for("an object that came later", PATIENCE, || {
        (weir.number(count) >= expected).then_some(())
    });
    pause(Duration::from_secs(3));
    assert_eq!(weir.number(count), expected);
    let ids = "select count(distinct request_id) from request where source like 's3://logs/AWSLogs/%/us-east-2/%'";
    assert_eq!(weir.number(ids), expected);
    assert_eq!(weir.number("select count(*) from reject"), 0);
    let status = weir.get("/api/status").to_string();
    assert!(status.contains("s3://gone/") && status.contains("NoSuchBucket"), "{status}");
    // What was read is known after a restart without being fetched: nothing comes again.
    assert_eq!(weir.terminate(), Some(0));
    let weir = start(&data, &config);
    let finding = wait_for("a finding about the bucket that is not there", PATIENCE, || {
        weir.findings("log.unreadable").pop()
    });
    assert_eq!(finding["class"], "mail", "{finding}");
    assert!(finding["summary"].to_string().contains("NoSuchBucket"), "{finding}");
    assert_eq!(weir.findings("log.unreadable").len(), 1);
    assert_eq!(weir.number(count), expected);
}

/// Two agents name the same bucket; one of them cuts objects into smaller chunks and is killed
/// repeatedly.
#[test]
fn lines_of_a_bucket_that_two_agents_read_come_once() {
    let Some((_moto, service)) = service() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let config = configuration(dir.path(), &service, &["logs"]);
    let mut command = serve("hub", &dir.path().join("data"));
    quiet(&mut command);
    let hub = Weir::start(command);
    let agent = |host: &str, memory: &str| {
        let mut command = Command::new(WEIR);
        command.args(["agent", "--hub", &hub.url, "--host", host]).arg("--config").arg(&config);
        quiet(&mut command);
        command.env("WEIR_AGENT_MEMORY_BYTES", memory).stdin(Stdio::null());
        EndedProcess(command.spawn().expect("weir can be started"))
    };
    (0..30).for_each(|number| put_object(&service, number));
    let _steady = agent("steady", "268435456");
    let mut random = SeededRandom::new();
    for round in 0..5 {
        let killed = agent("killed", "33554432");
        put_object(&service, 30 + round);
        pause(Duration::from_millis(600 + random.below(1500)));
        drop(killed);
    }
    let _killed = agent("killed", "33554432");
    let expected = i64::try_from(35 * LINES).expect("a few");
    let count = "select count(*) from request where program = 'alb'";
    wait_for("all lines", PATIENCE, || (hub.number(count) >= expected).then_some(()));
    pause(Duration::from_secs(3));
    assert_eq!(hub.number(count), expected);
    assert_eq!(hub.number("select count(distinct request_id) from request"), expected);
    let parts = "select host, count(*) from request where program = 'alb' group by 1 order by 1";
    println!("{:?}", hub.rows(parts));
}
