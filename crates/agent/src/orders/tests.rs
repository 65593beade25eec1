//! Orders against helpers that follow a script, over real sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_json::LineDelimitedWriter;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use weir_act::{Order, OrderMode, OrderSigner, SignedOrder, order_id_text};
use weir_link::{CarriedOrder, OrderAnswer, OrderAnswerCode, OrderCarrier};
use weir_tables::{Batch, FixedClock, Micros, Parcel, StreamId};

use super::{HelperCarrier, KeepFuture, RunRowSink};
use crate::watch::deliver::{DeliveryTicket, Destination};

/// Keeps rows as JSON, and signals each.
struct RowKeeper(Mutex<Vec<Value>>, tokio::sync::Notify);

impl Destination for RowKeeper {
    fn positions(&self, _: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        Ok(Vec::new())
    }

    fn send_stream(&self, _: Parcel, _: DeliveryTicket) {}

    fn send_sample(&self, batches: Vec<Batch>) {
        for batch in batches {
            assert_eq!(batch.table.name, "action_run");
            let mut writer = LineDelimitedWriter::new(Vec::new());
            writer.write(&batch.rows).expect("rows are JSON");
            let lines = String::from_utf8(writer.into_inner()).expect("JSON is UTF-8");
            let rows = lines.lines().map(|line| serde_json::from_str(line).expect("a row"));
            self.0.lock().extend(rows);
        }
        self.1.notify_one();
    }

    fn close(&self) {}
}

impl RowKeeper {
    fn states(&self) -> Vec<String> {
        let rows = self.0.lock();
        rows.iter().filter_map(|row| row["state"].as_str().map(str::to_owned)).collect()
    }

    /// States of the rows, once the last one is there.
    async fn states_until(&self, last: &str) -> Vec<String> {
        while self.states().last().is_none_or(|state| state != last) {
            self.1.notified().await;
        }
        self.states()
    }

    fn last(&self) -> Value {
        self.0.lock().last().cloned().expect("there is a row")
    }
}

struct Site {
    dir: tempfile::TempDir,
    carrier: HelperCarrier,
    rows: Arc<RowKeeper>,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let carrier = carrier_in(dir.path());
        let rows = Arc::new(RowKeeper(Mutex::default(), tokio::sync::Notify::new()));
        Self { dir, carrier, rows }
    }

    /// The carrier of the next process.
    fn new_carrier(&self) -> HelperCarrier {
        carrier_in(self.dir.path())
    }

    /// An order that an earlier process has kept.
    fn keep_earlier(&self) -> SignedOrder {
        let signer = OrderSigner::open(self.dir.path()).expect("a key");
        let signed = signer.sign(&order()).expect("small");
        let dir = self.dir.path().join("orders");
        std::fs::create_dir(&dir).expect("a directory");
        std::fs::write(dir.join(order_id_text(&order().id)), signed.as_bytes()).expect("a file");
        signed
    }

    fn start(&self) {
        self.carrier.start(Arc::clone(&self.rows) as _);
    }

    fn pending(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("orders")).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }

    /// A helper that answers each connection with the next texts, and returns what it got.
    fn helper(&self, script: &[&str]) -> tokio::task::JoinHandle<Vec<Vec<u8>>> {
        let listener = UnixListener::bind(self.dir.path().join("act.sock")).expect("a new path");
        let script: Vec<String> = script.iter().map(|text| (*text).to_owned()).collect();
        tokio::spawn(async move {
            let mut received = Vec::new();
            for text in script {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.expect("an order");
                received.push(bytes);
                stream.write_all(text.as_bytes()).await.expect("it reads");
            }
            received
        })
    }

    async fn carry(&self, order: &Order) -> OrderAnswer {
        let signed = OrderSigner::open(self.dir.path()).expect("a key").sign(order).expect("small");
        let body = signed.as_bytes().to_vec();
        let id = order.id;
        self.carrier
            .carry(CarriedOrder { id, not_after_micros: order.not_after_micros, body })
            .await
    }
}

fn carrier_in(dir: &Path) -> HelperCarrier {
    let clock = Arc::new(FixedClock::new(Micros(1_795_000_000_000_000)));
    HelperCarrier::new("web1", &dir.join("act.sock"), dir, clock)
}

fn order() -> Order {
    Order {
        id: [5; 16],
        action: "restart-unit".into(),
        params: [("unit".into(), "shop.service".into())].into(),
        agent: "web1".into(),
        finding_id: "f1".into(),
        not_after_micros: 1_795_000_030_000_000,
        mode: OrderMode::Run,
        approved_by: Some("ada".into()),
    }
}

fn line(code: &str, why: &str, has_report: bool) -> String {
    format!("{}\n", json!({"code": code, "why": why, "has_report": has_report}))
}

fn report(state: &str) -> String {
    let order = order();
    let report = json!({
        "order_id": order_id_text(&order.id), "action": order.action, "params": order.params,
        "mode": "run", "state": state, "argv": [["/usr/bin/systemctl", "restart", "shop.service"]],
        "exit": 3, "output_tail": "no\n", "started": 1_000_000, "ended": 2_500_000,
        "timed_out": false, "why": "it failed",
    });
    format!("{report}\n")
}

#[tokio::test]
async fn an_order_is_carried_as_it_is_and_its_outcome_is_rows() {
    let site = Site::new();
    site.start();
    let helper = site.helper(&[&(line("taken", "", true) + &report("failed"))]);
    let answer = site.carry(&order()).await;
    assert_eq!(answer.code, OrderAnswerCode::Taken);
    assert_eq!(site.rows.states_until("failed").await, ["started", "failed"]);
    let row = site.rows.last();
    assert_eq!(row["host"], "web1");
    assert_eq!(row["order_id"], order_id_text(&order().id));
    assert_eq!(row["params"], r#"{"unit":"shop.service"}"#);
    assert_eq!((&row["exit_status"], &row["duration_seconds"]), (&json!(3), &json!(1.5)));
    assert_eq!((&row["reason"], &row["approved_by"]), (&json!("it failed"), &json!("ada")));
    let signer = OrderSigner::open(site.dir.path()).expect("a key");
    let sent = signer.sign(&order()).expect("small").as_bytes().to_vec();
    assert_eq!(helper.await.expect("no panic"), [sent]);
    assert!(site.pending().is_empty());
}

/// The hub decides on what a dry run printed.
#[tokio::test]
async fn output_of_a_dry_run_is_in_its_row_unless_nothing_ran() {
    for (started, expected) in
        [(json!(1_000_000), json!("frees=40%\n")), (json!(null), json!(null))]
    {
        let site = Site::new();
        site.start();
        let mut told: Value = serde_json::from_str(&report("ended")).expect("JSON");
        told["mode"] = "dry_run".into();
        told["started"] = started;
        told["output_tail"] = "frees=40%\n".into();
        let _helper = site.helper(&[&(line("taken", "", true) + &format!("{told}\n"))]);
        site.carry(&Order { mode: OrderMode::DryRun, ..order() }).await;
        assert_eq!(site.rows.states_until("ended").await, ["started", "ended"]);
        assert_eq!(site.rows.last()["output_tail"], expected);
    }
}

#[tokio::test]
async fn no_socket_is_a_refusal_with_its_cure() {
    let site = Site::new();
    site.start();
    let answer = site.carry(&order()).await;
    assert_eq!(answer.code, OrderAnswerCode::Refused);
    assert!(answer.why.contains("systemctl enable --now weir-act.socket"), "{}", answer.why);
    assert_eq!(site.rows.states_until("refused").await, ["refused"]);
    assert!(site.rows.last()["reason"].as_str().is_some_and(|why| why.contains("act.sock")));
    assert!(site.pending().is_empty());
}

#[tokio::test]
async fn a_refusal_of_the_helper_is_passed_on() {
    let site = Site::new();
    site.start();
    let _helper = site.helper(&[&line("refused", "nothing runs on this host", false)]);
    let answer = site.carry(&order()).await;
    assert_eq!(answer.code, OrderAnswerCode::Refused);
    assert_eq!(answer.why, "nothing runs on this host");
    assert_eq!(site.rows.states_until("refused").await, ["refused"]);
}

/// The helper is killed before it answers, then while the steps run: the agent presents the order
/// again until the journal has its end.
#[tokio::test]
async fn a_helper_that_dies_is_presented_the_order_again() {
    let site = Site::new();
    site.start();
    let running = line("seen", "it runs", true);
    let seen = line("seen", "unknown what ran", true) + &report("unknown");
    let helper = site.helper(&["", "{\"code\":\"ta", &line("taken", "", true), &running, &seen]);
    assert_eq!(site.carry(&order()).await.code, OrderAnswerCode::Taken);
    assert_eq!(site.rows.states_until("unknown").await, ["started", "unknown"]);
    let received = helper.await.expect("no panic");
    assert_eq!(received.len(), 5);
    assert!(received.iter().all(|bytes| *bytes == received[0]));
    assert!(site.pending().is_empty());
}

#[tokio::test]
async fn an_agent_that_died_reports_the_order_at_its_next_start() {
    let site = Site::new();
    let signed = site.keep_earlier();
    let dir = site.dir.path().join("orders");
    std::fs::write(dir.join("0".repeat(32)), "half an ord").expect("a file");
    let helper = site.helper(&[&(line("seen", "it ran", true) + &report("ended"))]);
    site.start();
    assert_eq!(site.rows.states_until("ended").await, ["ended"]);
    assert_eq!(helper.await.expect("no panic"), [signed.as_bytes()]);
}

/// The helper may have taken an order of an earlier process, so its absence is no refusal:
/// wazuh/wazuh-agent#154 and ikasanEIP/ikasan#1204 (what ran during a restart is called not
/// executed, or runs a second time).
#[tokio::test]
async fn earlier_order_waits_for_a_helper_that_is_away() {
    let site = Site::new();
    site.keep_earlier();
    site.start();
    // The first attempt finds no socket, and fails within its first poll.
    tokio::task::yield_now().await;
    let _helper = site.helper(&[&(line("seen", "it ran", true) + &report("ended"))]);
    assert_eq!(site.rows.states_until("ended").await, ["ended"]);
}

/// Takes rows, and keeps none.
struct FullDisk(tokio::sync::Notify);

impl RunRowSink for FullDisk {
    fn keep(&self, _: Batch) -> KeepFuture<'_> {
        self.0.notify_one();
        Box::pin(std::future::ready(false))
    }
}

/// Tr3kkR/Yuzu#4199: a restart drops what was under way, and half an hour passes until that is seen.
#[tokio::test]
async fn order_whose_outcome_was_not_kept_is_reported_at_the_next_start() {
    let mut site = Site::new();
    let disk = Arc::new(FullDisk(tokio::sync::Notify::new()));
    site.carrier.start_with(Arc::clone(&disk) as _);
    let answer = site.carry(&order()).await;
    assert_eq!(answer.code, OrderAnswerCode::Refused, "without a helper nothing ran");
    disk.0.notified().await;
    assert_eq!(site.pending().len(), 1);
    site.carrier = site.new_carrier();
    let _helper = site.helper(&[&line("refused", "the order ended 40.0 s ago", false)]);
    site.start();
    assert_eq!(site.rows.states_until("refused").await, ["refused"]);
}

#[tokio::test]
async fn what_is_no_order_is_refused_without_a_helper() {
    let site = Site::new();
    site.start();
    for body in [Vec::new(), vec![0; 100], vec![0; 20_000]] {
        let order = CarriedOrder { id: [1; 16], not_after_micros: 0, body };
        assert_eq!(site.carrier.carry(order).await.code, OrderAnswerCode::Refused);
    }
}
