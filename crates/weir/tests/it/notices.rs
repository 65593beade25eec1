//! Notices of incidents against real receivers, with kills of weir in between: each is sent once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::cluster::{ClusterMember, ManifestDatabase, knows_its_peer};
use super::harness::{
    EndedProcess, WEIR, Weir, can_run, free_port, is_root, quiet, request, serve, text, wait_for,
};
use super::intake::python;
use super::wire_databases::postgresql;

/// How long a notice may take on a loaded machine.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Pages for each line `page SUBJECT` of the last seconds, and explains them by `cause`.
const RULE: &str = r#"/*---
id = "test.marker"
title = "Marker in a log"
tier = "app"
class = "page"
for = "0s"
every = "1s"
clear = "0s"
key = ["subject"]
needs = ["log"]
subject = "{subject}"
summary = "{subject} fails"
why = "The test wrote a line."
look_at = "The test."
silent_when = "No such line in the last 5 s."
fix = "Write no more lines."
source = "a test"
---*/
select host, substr(body, 6) as subject from log
where source = 'app' and body like 'page %' and ts > $now - interval '5 seconds' and ts <= $now
group by host, body
"#;

/// A receiver of webhooks that keeps what it gets.
struct Hook {
    url: String,
    got: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    /// Answers 200 to each message, but 503 to the first `refusals`.
    fn start(refusals: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("it is bound"));
        let got = Arc::new(Mutex::new(Vec::new()));
        let (kept, left) = (Arc::clone(&got), Arc::new(Mutex::new(refusals)));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, left) = (Arc::clone(&kept), Arc::clone(&left));
                std::thread::spawn(move || serve_hook(&stream, &kept, &left));
            }
        });
        Self { url, got }
    }

    fn messages(&self) -> Vec<Value> {
        self.got.lock().expect("no panic").clone()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.messages().into_iter().filter(|message| message["kind"] == kind).collect()
    }
}

fn serve_hook(
    stream: &TcpStream,
    kept: &Mutex<Vec<Value>>,
    left: &Mutex<usize>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut headers = BTreeMap::new();
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let is_probe = line.starts_with("OPTIONS ");
        loop {
            line.clear();
            if reader.read_line(&mut line)? <= 2 {
                break;
            }
            if let Some((name, value)) = line.trim().split_once(": ") {
                headers.insert(name.to_lowercase(), value.to_owned());
            }
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        if is_probe {
            (&*stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            continue;
        }
        let mut left = left.lock().expect("no panic");
        if *left > 0 {
            *left -= 1;
            (&*stream).write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy")?;
            continue;
        }
        let message: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(headers["idempotency-key"], message["id"].as_str().expect("an id"));
        kept.lock().expect("no panic").push(message);
        (&*stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}

/// A hub that takes JSON lines, with a rule that pages.
pub(super) struct NoticeHub {
    dir: tempfile::TempDir,
    intake: u16,
}

impl NoticeHub {
    pub(super) fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("weir.toml"), config).expect("it can be written");
        std::fs::create_dir(dir.path().join("rules")).expect("it can be made");
        std::fs::write(dir.path().join("rules/test.marker.sql"), RULE).expect("it can be written");
        Self { dir, intake: free_port() }
    }

    /// A rule for lines that begin with `word`, which fires for some seconds.
    pub(super) fn add_rule(&self, id: &str, word: &str, seconds: u32) {
        let rule = RULE
            .replace("test.marker", id)
            .replace("'page %'", &format!("'{word} %'"))
            .replace("substr(body, 6)", &format!("substr(body, {})", word.len() + 2))
            .replace("'5 seconds'", &format!("'{seconds} seconds'"));
        let file = self.dir.path().join(format!("rules/{id}.sql"));
        std::fs::write(file, rule).expect("it can be written");
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("weir.toml")
    }

    pub(super) fn start(&self) -> Weir {
        let mut command = serve("hub", &self.dir.path().join("data"));
        quiet(&mut command);
        command.arg("--config").arg(self.config());
        command.env("WEIR_INTAKE_HTTP", format!("127.0.0.1:{}", self.intake));
        command.env("WEIR_RULES_DIR", self.dir.path().join("rules"));
        Weir::start(command)
    }

    /// A line that makes a finding for the subject fire for some seconds.
    pub(super) fn mark(&self, subject: &str) {
        self.write(&[&format!("page {subject}")]);
    }

    /// Lines until something is there: a round of all rules may take longer than one line fires.
    pub(super) fn mark_until<T>(
        &self,
        subject: &str,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> T {
        wait_for(what, ARRIVAL, || {
            self.mark(subject);
            look()
        })
    }

    /// Lines of one host.
    fn write(&self, lines: &[&str]) {
        let line = |line: &&str| format!("{{\"message\":\"{line}\",\"host\":\"web1\"}}\n");
        let body: String = lines.iter().map(line).collect();
        let url = format!("http://127.0.0.1:{}", self.intake);
        let (status, _, answer) = request(&url, "POST", "/intake/jsonl?source=app", &[], &body);
        assert_eq!(status, 200, "{answer}");
    }

    fn command(&self, url: &str, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR);
        command.args(args).arg("--config").arg(self.config());
        command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_URL", url);
        command.output().expect("weir can be started")
    }
}

fn webhook(name: &str, url: &str) -> String {
    format!("[[receivers]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"{url}\"\n")
}

fn words<'a>(messages: &'a [Value], key: &str) -> BTreeSet<&'a str> {
    messages.iter().filter_map(|message| message[key].as_str()).collect()
}

#[test]
fn page_of_an_incident_is_sent_once_over_kills_and_refusals() {
    let hook = Hook::start(3);
    let hub = NoticeHub::new(&webhook("hook", &hook.url));
    // Longer than the retries after the refusals: a page of what is over is not sent. Findings of
    // one rule would be one incident.
    for round in 0..4 {
        hub.add_rule(&format!("test.marker{round}"), &format!("page{round}"), 40);
    }
    for round in 0..4 {
        let running = hub.start();
        hub.write(&[&format!("page{round} shop{round}")]);
        // The first is killed before anything is accepted, the others around the answer.
        if round > 0 {
            wait_for("a page", ARRIVAL, || (hook.of_kind("page").len() >= round).then_some(()));
        }
        running.kill();
    }
    let running = hub.start();
    hub.write(&["page0 shop0", "page1 shop1", "page2 shop2", "page3 shop3"]);
    let subjects = ["shop0", "shop1", "shop2", "shop3"];
    wait_for("a page of each", ARRIVAL, || {
        let all = hook.messages();
        let titles = words(&all, "title");
        let is_told = |subject| titles.iter().any(|title| title.contains(subject));
        subjects.iter().all(is_told).then_some(())
    });
    let pages = hook.of_kind("page");
    let mut seen = BTreeSet::new();
    for page in &pages {
        let is_new = seen.insert(page["id"].as_str().expect("an id"));
        assert!(is_new || page["is_repeat"] == true, "an unmarked repeat: {page}");
        assert_eq!((&page["class"], &page["host"]), (&"page".into(), &"web1".into()));
        assert!(page["root_rule"].as_str().is_some_and(|rule| rule.starts_with("test.marker")));
    }
    wait_for("the end of each", ARRIVAL, || {
        let resolved = hook.of_kind("resolved");
        let over = words(&resolved, "incident");
        words(&pages, "incident").iter().all(|incident| over.contains(incident)).then_some(())
    });
    let states = running.rows("select distinct state from notice_now where kind = 'page'");
    assert_eq!(states, [[Value::from("sent")]]);
    assert_eq!(running.rows("select count(*) from incident_now where state = 'open'")[0], [0]);
    assert_eq!(running.terminate(), Some(0));
}

#[test]
fn acknowledged_incident_is_not_escalated_and_everybody_notified_learns_of_it() {
    let (first, second) = (Hook::start(0), Hook::start(0));
    let config = webhook("first", &first.url)
        + &webhook("second", &second.url)
        + "[[routes]]\npage = \"first\"\nescalate = [\"second\"]\nack_minutes = 1\n";
    let hub = NoticeHub::new(&config);
    let running = hub.start();
    let page = hub.mark_until("shop", "a page", || first.of_kind("page").pop());
    let id = page["incident"].as_str().expect("an id").to_owned();
    let listed = hub.command(&running.url, &["incidents", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed[0]["incident_id"], id.as_str(), "{listed}");
    let acked = hub.command(&running.url, &["incidents", "ack", &id, "--by", "ada"]);
    assert!(acked.status.success(), "{}", text(&acked.stderr));
    wait_for("the acknowledgement", ARRIVAL, || first.of_kind("ack").pop());
    let row = running.rows("select state, acked_by from incident_now");
    assert_eq!(row, [[Value::from("acked"), Value::from("ada")]]);
    wait_for("the end", ARRIVAL, || first.of_kind("resolved").pop());
    assert!(second.messages().is_empty(), "{:?}", second.messages());
    let unknown = hub.command(&running.url, &["incidents", "ack", "ZZZZZZ", "--by", "ada"]);
    assert!(text(&unknown.stderr).contains("there is no such incident"), "{unknown:?}");
}

#[test]
fn test_message_is_sent_by_a_running_weir_and_without_one() {
    let hook = Hook::start(0);
    let hub = NoticeHub::new(&webhook("hook", &hook.url));
    let running = hub.start();
    let sent = hub.command(&running.url, &["notify", "test", "--receiver", "hook"]);
    assert!(sent.status.success(), "{}{}", text(&sent.stdout), text(&sent.stderr));
    assert_eq!(hook.of_kind("test").len(), 1);
    assert_eq!(running.terminate(), Some(0));
    let mut command = Command::new(WEIR);
    command.args(["notify", "test", "--receiver", "hook", "--config"]).arg(hub.config());
    command.env("WEIR_API_LISTEN", format!("127.0.0.1:{}", free_port()));
    let sent = command.output().expect("weir can be started");
    assert!(sent.status.success(), "{}{}", text(&sent.stdout), text(&sent.stderr));
    assert_eq!(hook.of_kind("test").len(), 2);
    let wrong = hub.command("http://127.0.0.1:1", &["notify", "check"]);
    assert!(wrong.status.success(), "{}{}", text(&wrong.stdout), text(&wrong.stderr));
}

/// Scanners that open links, and some that press buttons, change nothing: useSend/useSend#412,
/// activepieces/activepieces#14024, justingit/dada-mail#1048.
#[test]
fn link_of_a_page_acknowledges_without_a_login_and_only_with_its_pin() {
    let hook = Hook::start(0);
    let config = format!(
        "[notify]\npublic_url = \"http://weir.test\"\n{}[[people]]\nname = \"ada\"\npage = [\"hook\"]\n\
         [[rotas]]\nname = \"web\"\npeople = [\"ada\"]\nstart = \"2026-01-05T09:00\"\n",
        webhook("hook", &hook.url)
    );
    let hub = NoticeHub::new(&config);
    hub.add_rule("test.marker", "page", 45);
    let running = hub.start();
    hub.mark("shop");
    let page = wait_for("a page", ARRIVAL, || hook.of_kind("page").pop());
    let link = page["act_url"].as_str().expect("a link");
    let path = link.strip_prefix("http://weir.test").expect("an address of the page");
    // As through a proxy: the kernel vouches for no one.
    let proxied = [("x-forwarded-for", "203.0.113.9")];
    let ask = |method: &str, path: &str, body: &str| {
        let (status, head, text) = request(&running.url, method, path, &proxied, body);
        (status, head.to_lowercase(), text)
    };
    assert_eq!(ask("GET", "/api/incidents", "").0, 401);
    for _ in 0..3 {
        let (status, head, text) = ask("GET", path, "");
        assert!(status == 200 && text.len() < 10 << 10 && text.contains("PIN"), "{text}");
        assert!(!head.contains("set-cookie") && !text.contains("<script"), "{head}");
    }
    assert_eq!(ask("POST", path, "action=ack&pin=none").0, 403);
    assert_eq!(ask("POST", &format!("/a/{}", "0".repeat(32)), "action=ack").0, 404);
    assert!(hook.of_kind("ack").is_empty());
    let pin = page["act_pin"].as_str().expect("a PIN");
    let (status, head, text) = ask("POST", path, &format!("action=ack&pin={pin}"));
    assert!(status == 200 && text.contains("acknowledged by ada"), "{text}");
    assert!(head.contains("set-cookie: weir_device=") && head.contains("httponly"), "{head}");
    wait_for("the acknowledgement", ARRIVAL, || hook.of_kind("ack").pop());
    let rotas = running.get("/api/oncall");
    let calendar = rotas["rotas"][0]["calendar"].as_str().expect("an address");
    let (status, _, text) = ask("GET", calendar, "");
    assert!(status == 200 && text.starts_with("BEGIN:VCALENDAR"), "{text}");
    assert_eq!(ask("GET", "/api/oncall/web.ics?key=0", "").0, 404);
    let id = page["incident"].as_str().expect("an id");
    let args =
        ["incidents", "resolve", id, "--by", "ada", "--judgement", "real", "--did", "restart"];
    let resolved = hub.command(&running.url, &args);
    assert!(resolved.status.success(), "{}", text_of(&resolved));
    let judged = running.rows("select verdict, user_name, action from judgement");
    assert_eq!(judged, [["real", "ada", "restart"].map(Value::from)]);
}

fn text_of(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn check_names_what_is_wrong() {
    for (config, part) in [
        ("[[receivers]]\nname = \"a\"\nkind = \"webhok\"\nurl = \"http://x/\"\n", "webhook"),
        ("[[receivers]]\nname = \"a\"\nkind = \"webhook\"\n", "`url`"),
        ("[[receivers]]\nname = \"a\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n", "a"),
        (
            "[[receivers]]\nname = \"a\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n\
             [[people]]\nname = \"ada\"\npage = [\"b\"]\n",
            "`b`",
        ),
        (
            "[[people]]\nname = \"ada\"\npage = [\"a\"]\n[[receivers]]\nname = \"a\"\nkind = \"webhook\"\n\
             url = \"http://127.0.0.1:1/\"\n[[rotas]]\nname = \"web\"\npeople = [\"adda\"]\nstart = \"2026-12-07T09:00\"\n",
            "adda",
        ),
        ("[[receivers]]\nname = \"a\"\nkind = \"webhook\"\nur = \"x\"\n", "`url`"),
    ] {
        let hub = NoticeHub::new(config);
        let checked = hub.command("http://127.0.0.1:1", &["notify", "check"]);
        let shown = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(1), "{config}: {shown}");
        assert!(shown.contains(part), "{config}: {shown}");
    }
}

#[test]
fn mails_of_an_incident_reach_a_real_server_as_one_thread() {
    let test = "mails_of_an_incident_reach_a_real_server_as_one_thread";
    if !can_run(test, "aiosmtpd (cargo xtask setup)", python().is_file()) {
        return;
    }
    let port = free_port();
    let mails = tempfile::tempdir().expect("a directory");
    let boxed = mails.path().join("box");
    let mut server = Command::new(python());
    server.args(["-m", "aiosmtpd", "-n", "-l", &format!("127.0.0.1:{port}")]);
    server.args(["-c", "aiosmtpd.handlers.Mailbox"]).arg(&boxed);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = EndedProcess(server.spawn().expect("aiosmtpd starts"));
    wait_for("aiosmtpd", ARRIVAL, || TcpStream::connect(("127.0.0.1", port)).ok());
    let config = format!(
        "[[receivers]]\nname = \"team\"\nkind = \"smtp\"\nurl = \"127.0.0.1:{port}\"\ntls = \"none\"\n\
         from = \"weir@example.net\"\nto = \"ops@example.net\"\n"
    );
    let hub = NoticeHub::new(&config);
    let _running = hub.start();
    hub.mark_until("shop", "a page", || mails_in(&boxed.join("new")).pop());
    let all = wait_for("page and end", ARRIVAL, || {
        let all = mails_in(&boxed.join("new"));
        (all.len() >= 2).then_some(all)
    });
    let header = |mail: &str, name: &str| {
        let line = mail.lines().find(|line| line.starts_with(&format!("{name}: ")));
        line.map(|line| line[name.len() + 2..].trim().to_owned())
    };
    let page = all.iter().find(|mail| mail.contains("\nSubject: PAGE ")).expect("a page");
    let over = all.iter().find(|mail| mail.contains("\nSubject: OK ")).expect("an end");
    let id = header(page, "Message-ID").expect("a message id");
    assert_eq!(header(over, "In-Reply-To"), Some(id), "{over}");
    assert_eq!(header(page, "Auto-Submitted").as_deref(), Some("auto-generated"));
}

#[test]
fn two_hubs_send_a_page_once_and_either_takes_an_acknowledgement() {
    let test = "two_hubs_send_a_page_once_and_either_takes_an_acknowledgement";
    let bin = postgresql().filter(|_| is_root());
    if !can_run(test, "PostgreSQL and root", bin.is_some()) {
        return;
    }
    let hook = Hook::start(0);
    let hub = NoticeHub::new(&webhook("hook", &hook.url));
    hub.add_rule("test.marker", "page", 45);
    let dir = tempfile::tempdir().expect("a directory");
    let database = ManifestDatabase::start(&bin.expect("it was looked for"), dir.path());
    let ports = [free_port(), free_port()];
    let start = |name: &str, port: u16| {
        let mut command = ClusterMember::new(dir.path(), name).command(&database);
        command.arg("--config").arg(hub.config());
        command.env("WEIR_RULES_DIR", hub.dir.path().join("rules"));
        command.env("WEIR_INTAKE_HTTP", format!("127.0.0.1:{port}"));
        Weir::start(command)
    };
    let mut hubs = vec![start("one", ports[0]), start("two", ports[1])];
    wait_for("each hub to see the other", ARRIVAL, || {
        hubs.iter().all(knows_its_peer).then_some(())
    });
    let leads = |hub: &Weir| hub.get("/api/status")["cluster"]["is_leader"] == true;
    let leader = wait_for("a leader", ARRIVAL, || hubs.iter().position(leads));
    let line = "{\"message\":\"page shop\",\"host\":\"web1\"}\n";
    // At the hub that stays.
    let url = format!("http://127.0.0.1:{}", ports[1 - leader]);
    assert_eq!(request(&url, "POST", "/intake/jsonl?source=app", &[], line).0, 200);
    let page = wait_for("a page", ARRIVAL, || hook.of_kind("page").pop());
    let id = page["incident"].as_str().expect("an id").to_owned();
    let acked = hub.command(&hubs[1 - leader].url, &["incidents", "ack", &id, "--by", "ada"]);
    assert!(acked.status.success(), "{}", text(&acked.stderr));
    wait_for("the acknowledgement", ARRIVAL, || hook.of_kind("ack").pop());
    hubs.remove(leader).kill();
    wait_for("the other one leads", ARRIVAL, || leads(&hubs[0]).then_some(()));
    wait_for("the end", 2 * ARRIVAL, || hook.of_kind("resolved").pop());
    assert_eq!(hook.of_kind("page").len(), 1, "{:?}", hook.messages());
}

fn mails_in(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect()
}
