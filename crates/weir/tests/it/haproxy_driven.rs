//! A real HAProxy driven by `weir haproxy` and over the API, which needs a login for that.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Weir, can_run, quiet, request, serve, text, wait_for, weir};

struct RunningHaproxy(Child);

impl RunningHaproxy {
    fn start(dir: &Path) -> Option<Self> {
        let here = dir.display();
        let config = format!(
            "global\n  stats socket {here}/admin.sock level admin\n  stats socket {here}/user.sock level user\n\
             defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n\
             backend app\n  server one 127.0.0.1:9 weight 10\n  server two 127.0.0.1:9 weight 10\n"
        );
        std::fs::write(dir.join("haproxy.cfg"), config).ok()?;
        let mut command = Command::new("/usr/sbin/haproxy");
        command.args(["-db", "-f"]).arg(dir.join("haproxy.cfg")).stderr(Stdio::null());
        let running = Self(command.spawn().ok()?);
        wait_for("haproxy", Duration::from_secs(30), || {
            dir.join("user.sock").exists().then_some(())
        });
        Some(running)
    }
}

impl Drop for RunningHaproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_of_haproxy_are_driven_by_command_and_by_api_with_a_login() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = RunningHaproxy::start(dir.path());
    if !can_run("haproxy", "haproxy", running.is_some()) {
        return;
    }
    let (admin, user) = (path_in(dir.path(), "admin.sock"), path_in(dir.path(), "user.sock"));
    let (code, said, _) = order(&["drain", "app/one", "--dry-run"], &admin);
    assert_eq!((code, &*said), (Some(0), "app/one: no check weight 10, would be told: drain\n"));
    let (code, said, _) = order(&["drain", "app/one"], &admin);
    assert_eq!((code, &*said), (Some(0), "app/one: no check weight 10 -> DRAIN weight 10\n"));
    // A socket without level operator does not say addresses.
    for (socket, address) in [(&admin, "127.0.0.1:9"), (&user, " - ")] {
        let (_, said, _) = order(&["show"], socket);
        let line = said.lines().find(|line| line.starts_with("app/one")).expect("it is shown");
        assert!(line.contains(address) && line.contains("DRAIN"), "{said}");
    }
    let (code, _, said) = order(&["ready", "app/one"], &user);
    assert_eq!(code, Some(1));
    assert!(said.contains("Permission denied") && said.contains("level admin"), "{said}");
    let (code, _, said) = order(&["show"], &path_in(dir.path(), "none.sock"));
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot reach the HAProxy at"), "{said}");

    let kind = ("content-type", "application/json");
    let ready = json!({"socket": admin, "server": "app/one", "order": "ready"}).to_string();
    let without = start_hub(dir.path(), &admin, None);
    let state = without.get("/api/haproxy");
    assert_eq!(state["may_change"], true, "this test is of the hub's own user");
    let haproxies = state["haproxies"].as_array().expect("a list");
    assert_eq!(haproxies.len(), 1, "one that is not there is left out: {state}");
    assert_eq!(haproxies[0]["servers"][0]["state"], "DRAIN");
    let proxied = [kind, ("x-forwarded-for", "192.0.2.1")];
    let (status, _, body) = request(&without.url, "POST", "/api/haproxy/server", &proxied, &ready);
    assert_eq!(status, 401, "{body}");
    assert_eq!(without.terminate(), Some(0));

    std::fs::write(dir.path().join("token"), "a-login-of-enough-letters\n").expect("room");
    let with = start_hub(dir.path(), &admin, Some(&path_in(dir.path(), "token")));
    let login = ("authorization", "Bearer a-login-of-enough-letters");
    let post = |body: &Value| {
        let body = body.to_string();
        request(&with.url, "POST", "/api/haproxy/server", &[kind, login], &body)
    };
    let (status, _, body) =
        request(&with.url, "POST", "/api/haproxy/server", &[kind, login], &ready);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("app/one: DRAIN weight 10 -> no check weight 10"), "{body}");
    for (wrong, expected) in [
        (json!({"socket": user, "server": "app/one", "order": "ready"}), 404),
        (json!({"socket": admin, "server": "app/none", "order": "ready"}), 400),
        (json!({"socket": admin, "server": "app/one", "order": "kill"}), 400),
        (json!({"socket": admin, "server": "app/one", "order": "weight"}), 400),
    ] {
        let (status, _, body) = post(&wrong);
        assert_eq!(status, expected, "{wrong}: {body}");
    }
    assert_eq!(with.terminate(), Some(0));
}

fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn start_hub(dir: &Path, admin: &str, token: Option<&str>) -> Weir {
    let mut command = serve("hub", &dir.join("data"));
    quiet(&mut command);
    command.env("WEIR_HAPROXY_SOCKETS", format!("{admin},{}", path_in(dir, "none.sock")));
    if let Some(token) = token {
        command.env("WEIR_API_TOKEN_FILE", token);
    }
    Weir::start(command)
}

fn order(words: &[&str], socket: &str) -> (Option<i32>, String, String) {
    let output = weir(&[&["haproxy"], words, &["--socket", socket]].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}
