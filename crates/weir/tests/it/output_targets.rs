//! Outputs against Kafka and Elasticsearch themselves, with kills of weir and of them: rows out are
//! rows in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{EndedProcess, can_run, free_port, pause, text, wait_for};
use super::outputs::{ARRIVAL, OutputHub, copied, waits_for_its_target};

/// The directory of Kafka's jars as a class path.
fn kafka_jars() -> String {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kafka/libs/*").display().to_string()
}

fn has_kafka() -> bool {
    let is_there = Path::new(&kafka_jars().replace('*', "")).is_dir();
    can_run("kafka", "Kafka and Java (cargo xtask setup)", is_there)
}

fn java(class: &str, args: &[&str]) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-cp", &kafka_jars(), class]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

const PASSWORD: &str = "a-password-of-the-broker";

/// `ca.pem`, and `broker.pem` with key and certificate for 127.0.0.1.
fn certificates(dir: &Path) {
    let config = path_text(dir, "openssl.cnf");
    std::fs::write(&config, "[req]\ndistinguished_name=dn\n[dn]\n").expect("it can be written");
    let make = |name: &str, extension: &str, by: &[String]| {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-config", &config, "-nodes", "-days", "2"]);
        command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        command.args(["-subj", &format!("/CN={name}"), "-addext", extension]).args(by);
        command.args(["-keyout", &path_text(dir, &format!("{name}.key"))]);
        command.args(["-out", &path_text(dir, &format!("{name}.pem"))]).stderr(Stdio::null());
        assert!(command.status().expect("openssl runs").success());
    };
    make("ca", "basicConstraints=critical,CA:TRUE", &[]);
    let by =
        ["-CA", &path_text(dir, "ca.pem"), "-CAkey", &path_text(dir, "ca.key")].map(str::to_owned);
    make("broker", "subjectAltName=IP:127.0.0.1", &by);
    let parts = ["broker.key", "broker.pem"]
        .map(|name| std::fs::read_to_string(path_text(dir, name)).expect("it was made"));
    std::fs::write(path_text(dir, "broker.pem"), parts.concat()).expect("it can be written");
}

fn path_text(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// A separate broker, in KRaft mode: one listener without a login, one with TLS and a login.
struct Kafka {
    dir: tempfile::TempDir,
    port: u16,
    tls_port: u16,
}

impl Kafka {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        certificates(dir.path());
        let (port, tls_port, controller) = (free_port(), free_port(), free_port());
        let at = dir.path().display();
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{tls_port},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config=\
             org.apache.kafka.common.security.plain.PlainLoginModule required user_weir=\"{PASSWORD}\";\n\
             listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
             ssl.keystore.type=PEM\nssl.keystore.location={at}/broker.pem\n\
             offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\nlog.dirs={at}/data\n"
        );
        let kafka = Self { dir, port, tls_port };
        std::fs::write(kafka.settings(), settings).expect("it can be written");
        let mut format = vec!["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"];
        let settings = kafka.settings();
        format.extend(["-c", &settings]);
        let users = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            .map(|mechanism| format!("{mechanism}=[name=weir,password={PASSWORD}]"));
        users.iter().for_each(|user| format.extend(["--add-scram", user]));
        let mut format = java("kafka.tools.StorageTool", &format);
        assert!(format.output().expect("java runs").status.success());
        kafka
    }

    fn settings(&self) -> String {
        self.dir.path().join("server.properties").display().to_string()
    }

    fn start(&self) -> EndedProcess {
        let mut command = java("kafka.Kafka", &[&self.settings()]);
        let log = self.dir.path().join("log");
        let output = std::fs::File::create(&log).expect("it can be written");
        let mut server = EndedProcess(command.stdout(output).spawn().expect("java runs"));
        wait_for("Kafka", ARRIVAL, || {
            let ended = server.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{}", std::fs::read_to_string(&log).expect("it is there"));
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
        server
    }

    fn make_topic(&self, name: &str) {
        let made = self.ask(
            "org.apache.kafka.tools.TopicCommand",
            &["--create", "--topic", name, "--partitions", "3"],
        );
        assert!(made.contains(&format!("Created topic {name}")), "{made}");
    }

    /// What a tool of Kafka's prints.
    fn ask(&self, class: &str, args: &[&str]) -> String {
        let address = format!("127.0.0.1:{}", self.port);
        let args = [&["--bootstrap-server", &address], args].concat();
        text(&java(class, &args).output().expect("java runs").stdout)
    }
}

#[test]
fn kafka_over_tls_takes_every_kind_of_login_and_says_what_is_wrong_with_one() {
    if !has_kafka() {
        return;
    }
    let kafka = Kafka::new();
    let _broker = kafka.start();
    kafka.make_topic("rows");
    let hub = OutputHub::new();
    let (right, wrong) = (hub.path("right"), hub.path("wrong"));
    std::fs::write(&right, format!("{PASSWORD}\n")).expect("it can be written");
    std::fs::write(&wrong, "another-password\n").expect("it can be written");
    let ca = kafka.dir.path().join("ca.pem");
    let output = |name: &str, sasl: &str, password: &Path, ca: Option<&Path>| {
        let ca = ca.map(|ca| format!("ca_file = \"{}\"\n", ca.display())).unwrap_or_default();
        format!(
            "[[outputs]]\nname = \"{name}\"\nto = \"kafka\"\nurl = \"kafkas://127.0.0.1:{}\"\ntable = \"log\"\n\
             where = \"source = 'app'\"\ntopic = \"rows\"\nuser = \"weir\"\nsasl = \"{sasl}\"\npassword_file = \"{}\"\n\
             timeout_seconds = 10\n{ca}",
            kafka.tls_port,
            password.display()
        )
    };
    let outputs = [
        output("plain", "plain", &right, Some(&ca)),
        output("scram256", "scram-sha-256", &right, Some(&ca)),
        output("scram512", "scram-sha-512", &right, Some(&ca)),
        output("wrong", "scram-sha-512", &wrong, Some(&ca)),
        output("stranger", "scram-sha-512", &right, None),
    ]
    .concat();
    let running = hub.start(&outputs);
    hub.post(0..500);
    for name in ["plain", "scram256", "scram512"] {
        wait_for("every row", ARRIVAL, || (copied(&running, name) == 500).then_some(()));
    }
    for (name, part) in [("wrong", "password"), ("stranger", "ca_file")] {
        waits_for_its_target(&running, name);
        let status = running.get("/api/status");
        let all = status["outputs"].as_array().expect("a list");
        let output = all.iter().find(|output| output["name"] == name).expect("it is shown");
        let error = output["error"].as_str().expect("a failure");
        assert!(error.contains(part), "{name}: {error}");
        assert_eq!(output["rows"], 0);
    }
}

#[test]
fn kafka_gets_every_row_with_a_header_that_tells_repeats_over_kills_of_both() {
    if !has_kafka() {
        return;
    }
    let kafka = Kafka::new();
    let hub = OutputHub::new();
    let outputs = format!(
        "[[outputs]]\nname = \"bus\"\nto = \"kafka\"\nurl = \"kafka://127.0.0.1:{}\"\ntable = \"log\"\n\
         where = \"source = 'app'\"\ntopic = \"rows\"\nbatch_rows = 200\ntimeout_seconds = 5\n",
        kafka.port
    );
    let running = hub.start(&outputs);
    hub.post(0..1500);
    waits_for_its_target(&running, "bus");
    let broker = kafka.start();
    kafka.make_topic("rows");
    wait_for("some rows", ARRIVAL, || (copied(&running, "bus") > 0).then_some(()));
    running.kill();
    let running = hub.start(&outputs);
    // All of the first may have been copied before the kill.
    hub.post(1500..2000);
    wait_for("more rows", ARRIVAL, || (copied(&running, "bus") > 200).then_some(()));
    drop(broker);
    hub.post(2000..3000);
    pause(Duration::from_millis(300));
    let _broker = kafka.start();
    wait_for("the rest", ARRIVAL, || {
        let status = running.get("/api/status");
        let output = &status["outputs"][0];
        (output["error"].is_null() && output["lag_bytes"] == 0).then_some(())
    });
    let read = kafka.ask(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        &[
            "--topic",
            "rows",
            "--from-beginning",
            "--timeout-ms",
            "8000",
            "--formatter-property",
            "print.headers=true",
            "--formatter-property",
            "print.key=true",
        ],
    );
    let mut by_id: BTreeMap<&str, &str> = BTreeMap::new();
    let mut bodies = BTreeSet::new();
    for line in read.lines().filter(|line| line.starts_with("weir-id:")) {
        let mut parts = line.splitn(3, '\t');
        let (id, key, json) = (parts.next(), parts.next(), parts.next());
        let json = json.expect("three parts");
        let row: Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(row["host"].as_str(), key);
        let earlier = by_id.insert(id.expect("three parts"), json);
        assert!(earlier.is_none_or(|earlier| earlier == json), "one id, two rows");
        bodies.insert(row["body"].as_str().expect("a text").to_owned());
    }
    assert_eq!((by_id.len(), bodies.len()), (3000, 3000));
}

/// A separate node. It refuses to run as root, so it runs as another user in a user namespace.
struct Elasticsearch {
    dir: tempfile::TempDir,
    url: String,
}

impl Elasticsearch {
    /// `None` where it is not installed.
    fn new() -> Option<Self> {
        let is_there = Self::home().is_dir();
        if !can_run("elasticsearch", "Elasticsearch and Java (cargo xtask setup)", is_there) {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("config");
        std::fs::create_dir(&config).expect("it can be made");
        for entry in std::fs::read_dir(Self::home().join("config")).expect("it is there").flatten()
        {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), config.join(entry.file_name()))
                    .expect("it can be read");
            }
        }
        let (port, transport, at) = (free_port(), free_port(), dir.path().display());
        let settings = format!(
            "path.data: {at}/data\npath.logs: {at}/logs\nhttp.port: {port}\ntransport.port: {transport}\n\
             discovery.type: single-node\nxpack.security.enabled: false\nxpack.ml.enabled: false\n\
             cluster.routing.allocation.disk.threshold_enabled: false\naction.auto_create_index: false\n"
        );
        std::fs::write(config.join("elasticsearch.yml"), settings).expect("it can be written");
        Some(Self { dir, url: format!("http://127.0.0.1:{port}") })
    }

    fn home() -> std::path::PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("elasticsearch/libs/elasticsearch-8.17.3")
    }

    fn start(&self) -> EndedProcess {
        let java = std::fs::canonicalize("/usr/bin/java").expect("java is there");
        let java_home = java.ancestors().nth(2).expect("bin/java in a home");
        // Its script's process is the parent of the node: in a process namespace both end together.
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=1000", "--pid", "--fork", "--kill-child"]);
        // The script is called by its shell: the archive's file modes are not kept.
        command.arg("bash").arg(Self::home().join("bin/elasticsearch"));
        command.env("ES_PATH_CONF", self.dir.path().join("config"));
        command.env("ES_JAVA_HOME", java_home).env("ES_JAVA_OPTS", "-Xms256m -Xmx256m");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = EndedProcess(command.spawn().expect("it starts"));
        wait_for("Elasticsearch", ARRIVAL, || {
            let address = self.url.strip_prefix("http://").expect("it begins so");
            TcpStream::connect(address).ok()?;
            (self.ask("GET /_cluster/health?wait_for_status=yellow&timeout=1s", None).0 == 200)
                .then_some(())
        });
        server
    }

    /// Status and answer; 0 when there was none. Its answers have no length, so curl reads them.
    fn ask(&self, request: &str, body: Option<&Value>) -> (u16, Value) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "60", "--write-out", "\n%{http_code}"]);
        command.args(["--request", method, "--header", "content-type: application/json"]);
        command.args(["--data", &body, &format!("{}{path}", self.url)]).stdin(Stdio::null());
        let answer = text(&command.output().expect("curl runs").stdout);
        let (answer, status) = answer.rsplit_once('\n').expect("a status in the last line");
        (status.parse().unwrap_or(0), serde_json::from_str(answer).unwrap_or_default())
    }
}

#[test]
fn elasticsearch_has_every_row_once_over_kills_of_both() {
    let Some(elastic) = Elasticsearch::new() else { return };
    let hub = OutputHub::new();
    let outputs = format!(
        "[[outputs]]\nname = \"search\"\nto = \"elasticsearch\"\nurl = \"{}\"\ntable = \"log\"\n\
         where = \"source = 'app'\"\nindex = \"rows\"\nbatch_rows = 300\ntimeout_seconds = 20\n",
        elastic.url
    );
    let running = hub.start(&outputs);
    hub.post(0..1500);
    waits_for_its_target(&running, "search");
    let node = elastic.start();
    // It may not create indices automatically: rows wait until this one is created.
    wait_for("the missing index", ARRIVAL, || {
        let status = running.get("/api/status");
        let error = status["outputs"][0]["error"].as_str()?.to_owned();
        error.contains("rows").then_some(())
    });
    let index = json!({
        "settings": { "number_of_replicas": 0 },
        "mappings": { "properties": {
            "attrs": { "properties": { "n": { "type": "integer" } } },
            "body": { "type": "keyword" }
        } }
    });
    let (status, answer) = elastic.ask("PUT /rows", Some(&index));
    assert_eq!(status, 200, "{answer}");
    wait_for("some rows", ARRIVAL, || (copied(&running, "search") > 0).then_some(()));
    running.kill();
    let running = hub.start(&outputs);
    hub.post(1500..2500);
    wait_for("more rows", ARRIVAL, || (copied(&running, "search") > 300).then_some(()));
    drop(node);
    hub.post(2500..3000);
    // What does not fit the mapping can never be taken, and must not keep the others back.
    let odd: String =
        (0..40).map(|n| format!("{{\"message\":\"odd {n}\",\"n\":\"many\"}}\n")).collect();
    hub.post_body(&odd);
    hub.post(3000..3100);
    let _node = elastic.start();
    wait_for("the rest", ARRIVAL, || {
        let status = running.get("/api/status");
        let output = &status["outputs"][0];
        (output["error"].is_null() && output["lag_bytes"] == 0).then_some(())
    });
    assert_eq!(elastic.ask("POST /rows/_refresh", None).0, 200);
    let count = json!({
        "size": 0, "track_total_hits": true,
        "aggs": { "bodies": { "cardinality": { "field": "body", "precision_threshold": 10000 } } }
    });
    let (_, answer) = elastic.ask("POST /rows/_search", Some(&count));
    assert_eq!(answer["hits"]["total"]["value"], 3100, "{}", running.get("/api/status")["outputs"]);
    assert_eq!(answer["aggregations"]["bodies"]["value"], 3100);
    let refused = "select sum(rows_refused) from output_run where output = 'search'";
    wait_for("what was refused", ARRIVAL, || (running.rows(refused)[0][0] == 40).then_some(()));
    let one = json!({ "query": { "term": { "body": "line 7" } } });
    let (_, answer) = elastic.ask("POST /rows/_search", Some(&one));
    let row = &answer["hits"]["hits"][0]["_source"];
    assert_eq!((&row["host"], &row["attrs"]["n"]), (&json!("web2"), &json!("7")), "{row}");
    let own = running.rows("select cast(ts as varchar) from log where body = 'line 7'");
    let ts = row["@timestamp"].as_str().expect("a text").replace('T', " ");
    assert!(own[0][0].as_str().expect("a text").starts_with(&ts[..19]), "{own:?} {ts}");
}
