//! Notices against the programs that read them elsewhere: Postfix, Nagios and Icinga 2 of Debian, each
//! with a separate configuration and directory.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::harness::{can_run, free_port, is_root, text, wait_for};
use super::notices::NoticeHub;
use super::wire_databases::ServerProgram;

/// How long a notice may take on a loaded machine.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Services of Postfix without a chroot: what takes mail by SMTP and delivers it to directories.
const POSTFIX_SERVICES: &str = "
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
";

const NAGIOS_OBJECTS: &str = "
define timeperiod {
  timeperiod_name always
  alias always
}
define command {
  command_name none
  command_line /bin/true
}
define contact {
  contact_name ada
  service_notification_period always
  host_notification_period always
  service_notification_commands none
  host_notification_commands none
}
define host {
  host_name web1
  address 127.0.0.1
  max_check_attempts 1
  active_checks_enabled 0
  contacts ada
}
define service {
  host_name web1
  service_description test.marker
  check_command none
  max_check_attempts 1
  active_checks_enabled 0
  notification_period always
  contacts ada
}
";

const ICINGA_OBJECTS: &str = r#"
const NodeName = "localhost"
const ZoneName = "localhost"
object Endpoint NodeName {}
object Zone ZoneName { endpoints = [ NodeName ] }
object CheckerComponent "checker" {}
object ApiUser "weir" {
  password = "hunter22hunter22"
  permissions = [ "actions/process-check-result", "objects/query/*" ]
}
object CheckCommand "none" { command = [ "/bin/true" ] }
object Host "web1" { check_command = "none"; enable_active_checks = false }
object Service "test.marker" {
  host_name = "web1"
  check_command = "none"
  enable_active_checks = false
  max_check_attempts = 1
}
"#;

/// Whether a program is there, and tests are root: these programs change accounts.
fn has(test: &str, (program, package): (&str, &str)) -> bool {
    let is_there = Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]).output();
    let is_there = is_there.is_ok_and(|output| output.status.success());
    can_run(test, &format!("{program} (apt-get install {package}) and root"), is_there && is_root())
}

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("it is below a directory")).expect("it is made");
    std::fs::write(path, content).expect("it can be written");
}

fn start(command: &mut Command) -> ServerProgram {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ServerProgram(command.spawn().expect("it starts"))
}

/// A directory that servers reach after they have changed their account.
fn open_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("it is ours");
    dir
}

fn postfix(dir: &Path, port: u16) -> ServerProgram {
    let shown = dir.display();
    let settings = format!(
        "compatibility_level = 3.6\nqueue_directory = {shown}/queue\ndata_directory = {shown}/data\n\
         daemon_directory = /usr/lib/postfix/sbin\nmyhostname = mail.example.net\nmydestination =\n\
         inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmynetworks = 127.0.0.0/8\nalias_maps =\n\
         virtual_mailbox_domains = example.net\nvirtual_mailbox_base = {shown}/mail\n\
         virtual_mailbox_maps = inline:{{ {{ ops@example.net = ops/ }} }}\n\
         virtual_uid_maps = static:65534\nvirtual_gid_maps = static:65534\n\
         smtpd_relay_restrictions = permit_mynetworks, reject\n\
         maillog_file = {shown}/mail.log\nmaillog_file_prefixes = {shown}\n"
    );
    write(&dir.join("etc/main.cf"), &settings);
    let services = format!("127.0.0.1:{port} inet n - n - - smtpd{POSTFIX_SERVICES}");
    write(&dir.join("etc/master.cf"), &services);
    for (part, owner) in [("queue", "root"), ("data", "postfix"), ("mail", "nobody")] {
        std::fs::create_dir(dir.join(part)).expect("a new directory");
        let changed = Command::new("chown").arg(owner).arg(dir.join(part)).status();
        assert!(changed.is_ok_and(|status| status.success()), "{owner}");
    }
    let config = dir.join("etc");
    let checked = Command::new("postfix").arg("-c").arg(&config).arg("check").output();
    assert!(checked.as_ref().is_ok_and(|output| output.status.success()), "{checked:?}");
    start(Command::new("postfix").arg("-c").arg(&config).arg("start-fg"))
}

/// Postfix reads a thread of two mails: the page and its end.
#[test]
fn page_and_its_end_are_delivered_by_postfix_to_a_mailbox() {
    if !has("mail by Postfix", ("postfix", "postfix")) {
        return;
    }
    let (dir, port) = (open_directory(), free_port());
    let _server = postfix(dir.path(), port);
    wait_for("Postfix", ARRIVAL, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let hub = NoticeHub::new(&format!(
        "[[receivers]]\nname = \"team\"\nkind = \"smtp\"\nurl = \"127.0.0.1:{port}\"\ntls = \"none\"\n\
         from = \"weir@example.net\"\nto = \"ops@example.net\"\n"
    ));
    let _running = hub.start();
    let mailbox = dir.path().join("mail/ops/new");
    hub.mark_until("shop", "a page", || std::fs::read_dir(&mailbox).ok()?.flatten().next());
    let mails = wait_for("a page and its end", ARRIVAL, || {
        let files = std::fs::read_dir(&mailbox).ok()?.flatten();
        let mails: Vec<String> =
            files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        (mails.len() == 2).then_some(mails)
    });
    for part in ["\nSubject: PAGE web1 ", "\nSubject: OK web1 "] {
        let mail = mails.iter().find(|mail| mail.contains(part));
        let mail = mail.unwrap_or_else(|| panic!("{part}: {mails:?}"));
        assert!(mail.contains("\nDelivered-To: ops@example.net"), "{mail}");
        assert!(mail.starts_with("Return-Path: <weir@example.net>"), "{mail}");
    }
}

fn nagios(dir: &Path) -> ServerProgram {
    let shown = dir.display();
    for part in ["rw", "checkresults"] {
        std::fs::create_dir(dir.join(part)).expect("a new directory");
    }
    write(&dir.join("objects.cfg"), NAGIOS_OBJECTS);
    let settings = format!(
        "log_file={shown}/nagios.log\ncfg_file={shown}/objects.cfg\nobject_cache_file={shown}/cache\n\
         status_file={shown}/status.dat\nstatus_update_interval=1\nnagios_user=root\nnagios_group=root\n\
         command_file={shown}/rw/nagios.cmd\nquery_socket={shown}/rw/nagios.qh\nlock_file={shown}/lock\n\
         temp_file={shown}/temp\ntemp_path={shown}\ncheck_result_path={shown}/checkresults\n\
         check_external_commands=1\naccept_passive_service_checks=1\nuse_syslog=0\n"
    );
    write(&dir.join("nagios.cfg"), &settings);
    start(Command::new("nagios4").arg(dir.join("nagios.cfg")))
}

/// A value of the service in Nagios' own file of states.
fn of_nagios(dir: &Path, key: &str) -> Option<String> {
    let states = std::fs::read_to_string(dir.join("status.dat")).ok()?;
    let service = states.split("servicestatus {").nth(1)?.split('}').next()?;
    let line = service.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    line.map(str::to_owned)
}

/// The output of the service, once it has this state.
fn output_in_state(dir: &Path, wanted: char) -> String {
    wait_for("a state of the service", ARRIVAL, || {
        of_nagios(dir, "current_state").filter(|state| *state == wanted.to_string())
    });
    of_nagios(dir, "plugin_output").unwrap_or_default()
}

#[test]
fn page_is_the_state_of_a_service_in_nagios_until_it_is_over() {
    if !has("results for Nagios", ("nagios4", "nagios4-core")) {
        return;
    }
    let dir = open_directory();
    let _server = nagios(dir.path());
    let pipe = dir.path().join("rw/nagios.cmd");
    wait_for("Nagios", ARRIVAL, || pipe.exists().then_some(()));
    let hub = NoticeHub::new(&format!(
        "[[receivers]]\nname = \"nagios\"\nkind = \"nagios_cmd\"\npath = \"{}\"\n",
        pipe.display()
    ));
    // Long enough for Nagios to write its states meanwhile.
    hub.add_rule("test.marker", "page", 20);
    let _running = hub.start();
    hub.mark("shop");
    let output = output_in_state(dir.path(), '2');
    assert!(output.contains("shop fails"), "{output}");
    let output = output_in_state(dir.path(), '0');
    assert!(output.starts_with("OK"), "{output}");
}

/// An authority, and a certificate of `localhost` by it, as `icinga2 api setup` makes them.
fn certificates(dir: &Path) {
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj '/CN=Icinga CA' -keyout ca.key -out ca.crt &&
        openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout localhost.key -out localhost.csr &&
        printf 'basicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:localhost\n' > names &&
        openssl x509 -req -in localhost.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out localhost.crt";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output();
    let made = made.expect("a shell starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
}

fn icinga(dir: &Path, port: u16) -> ServerProgram {
    for part in ["data/certs", "data/api/log", "log", "run", "cache", "spool"] {
        std::fs::create_dir_all(dir.join(part)).expect("a new directory");
    }
    certificates(&dir.join("data/certs"));
    let listener =
        format!("object ApiListener \"api\" {{ bind_host = \"127.0.0.1\"; bind_port = {port} }}\n");
    write(&dir.join("icinga2.conf"), &(ICINGA_OBJECTS.to_owned() + &listener));
    let mut command = Command::new("icinga2");
    command.arg("daemon").arg("-c").arg(dir.join("icinga2.conf"));
    let places = [("Data", "data"), ("Log", "log"), ("InitRun", "run"), ("Cache", "cache")];
    for (name, part) in places.into_iter().chain([("Spool", "spool")]) {
        command.arg(format!("-D{name}Dir={}", dir.join(part).display()));
    }
    command.args(["-DRunAsUser=root", "-DRunAsGroup=root"]);
    start(command.env("ICINGA2_USER", "root").env("ICINGA2_GROUP", "root"))
}

/// The service as Icinga's own API has it.
fn of_icinga(dir: &Path, port: u16) -> Option<Value> {
    let url = format!("https://localhost:{port}/v1/objects/services");
    let mut command = Command::new("curl");
    command.args(["-s", "-f", "-u", "weir:hunter22hunter22", "--cacert"]);
    let output = command.arg(dir.join("data/certs/ca.crt")).arg(url).output().ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(answer["results"][0]["attrs"].clone())
}

/// The newest result of the service, once it has this state.
fn result_in_state(dir: &Path, port: u16, wanted: f64) -> Value {
    wait_for("a state of the service", ARRIVAL, || {
        let service = of_icinga(dir, port)?;
        let is_it = service["state"] == wanted && !service["last_check_result"].is_null();
        is_it.then(|| service["last_check_result"].clone())
    })
}

#[test]
fn page_is_the_state_of_a_service_in_icinga_until_it_is_over() {
    let test = "results for Icinga";
    if !has(test, ("icinga2", "icinga2-bin")) || !has(test, ("curl", "curl")) {
        return;
    }
    let (dir, port) = (open_directory(), free_port());
    let _server = icinga(dir.path(), port);
    wait_for("Icinga", ARRIVAL, || of_icinga(dir.path(), port));
    let password = dir.path().join("password");
    write(&password, "hunter22hunter22\n");
    let hub = NoticeHub::new(&format!(
        "[[receivers]]\nname = \"icinga\"\nkind = \"icinga2\"\nurl = \"https://localhost:{port}\"\n\
         user = \"weir\"\npassword_file = \"{}\"\nca_file = \"{}\"\n",
        password.display(),
        dir.path().join("data/certs/ca.crt").display()
    ));
    hub.add_rule("test.marker", "page", 20);
    let _running = hub.start();
    hub.mark("shop");
    let result = result_in_state(dir.path(), port, 2.0);
    assert!(result["output"].as_str().is_some_and(|text| text.contains("shop fails")), "{result}");
    assert_eq!(
        (result["ttl"].as_f64(), result["check_source"].as_str()),
        (Some(300.0), Some("weir"))
    );
    let result = result_in_state(dir.path(), port, 0.0);
    assert!(result["output"].as_str().is_some_and(|text| text.starts_with("OK")), "{result}");
}
