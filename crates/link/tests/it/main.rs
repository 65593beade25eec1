//! Agents and hubs in one process over real TLS on loopback: joining, delivering, disconnecting and
//! reconnecting.

#![expect(clippy::print_stdout, reason = "seeds belong into the test's output")]

mod kit;
mod orders;

use std::time::Duration;

use expect_test::{Expect, expect};
use kit::{NOW, TestAgent, TestClock, TestHub, wait_for};
use weir_link::{Authority, Invitation, JoinToken, LinkError, LinkErrorKind, Registry};
use weir_tables::Micros;

const HOUR: Duration = Duration::from_secs(3600);

fn assert_error(error: &LinkError, replace: &[(&str, &str)], expected: &Expect) {
    let text = replace.iter().fold(error.to_string(), |text, (from, to)| text.replace(from, to));
    expected.assert_eq(&text);
}

#[tokio::test]
async fn an_agent_joins_and_delivers_each_parcel_once() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    let runs = agent.run(vec![]);
    let store = site.store();
    runs.write(1, 0..500);
    wait_for("all numbers", || store.numbers(1).len() == 500).await;
    assert_eq!(store.numbers(1), (0..500).collect::<Vec<_>>());
    let names: Vec<String> = site.hub().connected().into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, ["web1"]);
    runs.end().await;
    wait_for("it is gone", || site.hub().connected().is_empty()).await;
}

async fn join(token: &JoinToken, clock: &TestClock) -> Result<(), LinkError> {
    kit::join(token, "web1", clock).await.map(drop)
}

#[tokio::test]
async fn an_invalid_token_is_refused_with_a_reason() {
    let site = TestHub::start().await;
    let token = site.token("web1", HOUR);
    let clock = &site.clock;
    let address = site.address.to_string();
    let replace = [(address.as_str(), "HUB")];

    join(&token, clock).await.expect("the first");
    assert_error(
        &join(&token, clock).await.expect_err("used"),
        &replace,
        &expect![[r#"
        the hub at `HUB` says: cannot join: the token was used by `web1`
        hint: each token lets one agent join; create another: `weir hub invite` on the hub"#]],
    );
    let expired = site.token("web2", Duration::from_secs(60));
    site.clock.add(HOUR);
    assert_error(
        &join(&expired, clock).await.expect_err("expired"),
        &replace,
        &expect![[r#"
        the hub at `HUB` says: cannot join: the token expired at 2026-11-18T11:07:40.000000Z
        hint: create a new one: `weir hub invite` on the hub; --for sets its lifetime"#]],
    );
    let other = TestHub::start().await;
    let mut wrong = other.token("web3", HOUR);
    wrong.addresses = vec![address.clone()];
    assert_error(
        &join(&wrong, clock).await.expect_err("another hub's"),
        &replace,
        &expect![[r#"
        cannot trust the hub at `HUB`: its CA is not that of the token or certificate: it belongs to another fleet
        hint: `weir hub invite` on that hub prints a token of its fleet; `weir agent join TOKEN` here joins it"#]],
    );
    let mut nowhere = site.token("web4", HOUR);
    nowhere.addresses = vec![kit::unused_address().to_string()];
    let error = join(&nowhere, clock).await.expect_err("nothing listens there");
    assert_eq!(error.kind, LinkErrorKind::Unreachable);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    let site = TestHub::start().await;
    let token = site.token("web1", HOUR);
    let early = TestClock::new(NOW - Duration::from_secs(400 * 86_400));
    let error = kit::join(&token, "web1", &early).await.map(drop).expect_err("too early");
    assert_error(
        &error,
        &[(site.address.to_string().as_str(), "HUB")],
        &expect![[r#"
        cannot trust the hub at `HUB`: its certificate is valid from 2026-11-17T11:06:40.000000Z, but here it is 2025-10-14T11:06:40.000000Z
        hint: set this host's clock, or the hub's: `timedatectl`; then it reconnects by itself"#]],
    );
    // A difference of 90 s is tolerated.
    let near = TestClock::new(NOW - Duration::from_secs(90));
    kit::join(&token, "web1", &near).await.map(drop).expect("near enough");
}

#[tokio::test]
async fn a_revoked_agent_is_disconnected_and_stays_out() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    let runs = agent.run(vec![]);
    runs.write(1, 0..10);
    wait_for("it delivers", || site.store().numbers(1).len() == 10).await;
    Registry::new(site.link_dir()).revoke("web1", site.clock.now()).expect("it exists");
    wait_for("it is cut off", || site.hub().connected().is_empty()).await;
    runs.write(1, 10..20);
    wait_for("it knows why", || runs.trouble().contains("revoked the agent `web1`")).await;
    assert_eq!(site.store().numbers(1).len(), 10);
    runs.end().await;
}

#[tokio::test]
async fn certificates_are_renewed_before_they_end() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    let before = agent.identity().not_after;
    let runs = agent.run(vec![]);
    runs.write(1, 0..1);
    wait_for("it delivers", || site.store().numbers(1).len() == 1).await;
    site.clock.add(Duration::from_secs(70 * 86_400));
    wait_for("a new certificate", || runs.identity().not_after > before).await;
    runs.end().await;
}

#[tokio::test]
async fn an_agent_with_an_expired_certificate_is_refused_with_a_reason() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    site.clock.add(Duration::from_secs(100 * 86_400));
    let runs = agent.run(vec![]);
    wait_for("it is told", || runs.trouble().contains("certificate has expired")).await;
    runs.end().await;
}

#[tokio::test]
async fn an_agent_fails_over_when_a_hub_dies_and_queries_positions() {
    let first = TestHub::start().await;
    let second = TestHub::start().await;
    let agent = TestAgent::join(&first, "web1").await.expect("a good token");
    let agent = agent.join_too(&second).await;
    let hubs = vec![first.address.to_string(), second.address.to_string()];
    let runs = agent.run(hubs);
    runs.write(1, 0..100);
    wait_for("the first has them", || first.store().numbers(1).len() == 100).await;
    first.stop().await;
    runs.write(1, 100..200);
    // The second hub does not know the stream, so it gets all that the agent has read.
    wait_for("the second has all", || second.store().numbers(1).len() == 200).await;
    second.stop().await;
    first.start_again().await;
    runs.write(1, 200..250);
    // The first continues from its position.
    wait_for("the first has all", || first.store().numbers(1).len() == 250).await;
    assert_eq!(first.store().numbers(1), (0..250).collect::<Vec<_>>());
    assert_eq!(second.store().numbers(1), (0..200).collect::<Vec<_>>());
    runs.end().await;
}

#[tokio::test]
async fn a_full_hub_pauses_its_agents_and_nothing_is_lost() {
    let site = TestHub::start().await;
    let runs = TestAgent::join(&site, "web1").await.expect("a good token").run(vec![]);
    runs.write(1, 0..50);
    wait_for("it delivers", || site.store().numbers(1).len() == 50).await;
    site.store().set_full(true);
    runs.write(1, 50..500);
    runs.sample(7);
    wait_for("it is told", || runs.is_refused()).await;
    assert_eq!(site.store().numbers(1).len(), 50);
    site.store().set_full(false);
    wait_for("it goes on", || site.store().numbers(1).len() == 500).await;
    assert_eq!(site.store().numbers(1), (0..500).collect::<Vec<_>>());
    wait_for("the sample came", || site.store().samples() == [7]).await;
    runs.end().await;
}

#[tokio::test]
async fn samples_refused_together_all_arrive() {
    let site = TestHub::start().await;
    let runs = TestAgent::join(&site, "web1").await.expect("a good token").run(vec![]);
    let store = site.store();
    // The stream is unknown to the hub in the first round, and known in the second.
    for numbers in [0..20, 20..40] {
        store.set_full(true);
        numbers.clone().for_each(|n| runs.sample(n));
        wait_for("they are refused", || runs.is_refused()).await;
        store.set_full(false);
        wait_for("they came", || store.samples().len() as u64 >= numbers.end).await;
        assert_eq!(store.samples(), (0..numbers.end).collect::<Vec<_>>());
        assert!(!runs.is_refused());
    }
    assert_eq!(runs.status().dropped, 0);
    runs.end().await;
}

#[tokio::test]
async fn samples_survive_the_agent_and_an_unreachable_hub() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    site.stop().await;
    let runs = agent.run(vec![]);
    (0..20).for_each(|n| runs.sample(n));
    let agent = runs.kill().await; // its memory is gone
    site.start_again().await;
    let runs = agent.run(vec![]);
    (20..30).for_each(|n| runs.sample(n));
    let store = site.store();
    wait_for("all samples", || store.samples().len() == 30).await;
    assert_eq!(store.samples(), (0..30).collect::<Vec<_>>());
    assert!(runs.status().spool_bytes > 0, "the hub has them in its log only");
    store.commit();
    wait_for("the spool is free", || runs.status().spool_bytes == 0).await;
    runs.end().await;
}

#[tokio::test]
async fn a_hub_that_lost_its_log_gets_uncommitted_samples_again() {
    let site = TestHub::start().await;
    let runs = TestAgent::join(&site, "web1").await.expect("a good token").run(vec![]);
    (0..10).for_each(|n| runs.sample(n));
    wait_for("ten", || site.store().samples().len() == 10).await;
    site.store().commit();
    (10..15).for_each(|n| runs.sample(n));
    wait_for("fifteen", || site.store().samples().len() == 15).await;
    site.stop().await;
    site.store().lose_log();
    assert_eq!(site.store().samples().len(), 10);
    site.start_again().await;
    wait_for("fifteen again", || site.store().samples().len() == 15).await;
    assert_eq!(site.store().samples(), (0..15).collect::<Vec<_>>());
    runs.end().await;
}

#[tokio::test]
async fn noise_does_not_block_the_service() {
    let site = TestHub::start().await;
    // Neither plain text nor truncated TLS may hold a slot for long, or end the hub.
    for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[]] {
        kit::noise(site.address, noise).await;
    }
    let runs = TestAgent::join(&site, "web1").await.expect("a good token").run(vec![]);
    runs.write(1, 0..1);
    wait_for("it still serves", || site.store().numbers(1).len() == 1).await;
    runs.end().await;
}

#[tokio::test]
async fn agent_whose_rows_are_of_another_host_learns_it_at_hello() {
    let site = TestHub::start().await;
    let mut agent = TestAgent::join(&site, "web1").await.expect("a good token");
    agent.host = "db1".into();
    let runs = agent.run(vec![]);
    runs.write(1, 0..10);
    wait_for("it knows why", || runs.trouble().contains("its rows are of the host `db1`")).await;
    assert_eq!(site.store().numbers(1).len(), 0);
    runs.end().await;
}

#[tokio::test]
async fn silent_connections_do_not_keep_agents_out() {
    let site = TestHub::start().await;
    // As many as there are places and more, from the agent's own address and from others.
    let mut silent = Vec::new();
    for at in 0..200_u32 {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let source = std::net::Ipv4Addr::from(0x7f00_0001 + at % 4);
        socket.bind((source, 0).into()).expect("loopback has many addresses");
        silent.push(socket.connect(site.address).await.expect("it listens"));
    }
    let join = TestAgent::join(&site, "web1");
    let agent = tokio::time::timeout(Duration::from_secs(5), join).await.expect("in time");
    let runs = agent.expect("a good token").run(vec![]);
    runs.write(1, 0..1);
    wait_for("it still serves", || site.store().numbers(1).len() == 1).await;
    runs.end().await;
}

#[tokio::test]
async fn cut_and_stalled_connections_lose_and_duplicate_nothing() {
    let rounds: u64 = std::env::var("WEIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let mut choose = kit::SeededRandom::new();
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    let proxy = kit::CuttingProxy::start(site.address).await;
    let runs = agent.run(vec![proxy.address.to_string()]);
    let mut written = [0_u64; 3];
    let mut sampled = 0;
    for _ in 0..rounds {
        for (stream, written) in written.iter_mut().enumerate() {
            let more = choose.below(200);
            runs.write(stream as u128, *written..*written + more);
            *written += more;
        }
        (0..choose.below(5)).for_each(|_| {
            runs.sample(sampled);
            sampled += 1;
        });
        match choose.below(5) {
            0 => proxy.cut(),
            1 => proxy.cut_after(choose.below(20_000)),
            2 => site.store().commit(),
            3 => site.store().set_full(true),
            _ => {}
        }
        kit::pause(Duration::from_millis(choose.below(120))).await;
        site.store().set_full(false);
    }
    let store = site.store();
    for (stream, written) in written.iter().enumerate() {
        let stream = stream as u128;
        wait_for("every number", || store.numbers(stream).len() as u64 >= *written).await;
        assert_eq!(store.numbers(stream), (0..*written).collect::<Vec<_>>(), "stream {stream}");
    }
    wait_for("every sample", || store.samples().len() as u64 >= sampled).await;
    assert_eq!(store.samples(), (0..sampled).collect::<Vec<_>>());
    println!("{written:?} rows, {sampled} samples, {} cuts", proxy.cuts());
    runs.end().await;
}

#[test]
fn parallel_processes_create_one_authority() {
    let dir = tempfile::tempdir().expect("a directory");
    let all: Vec<[u8; 32]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| fingerprint(dir.path()))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(all.iter().all(|fingerprint| *fingerprint == all[0]));
    let registry = Registry::new(dir.path());
    let invitation = Invitation { expires: NOW + HOUR, name: None };
    registry.invite(&invitation, NOW).expect("an invitation");
    for file in walk(dir.path()) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
}

fn fingerprint(dir: &std::path::Path) -> [u8; 32] {
    Authority::open(dir, Micros(NOW.0)).expect("an authority").fingerprint()
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("it can be read").flatten();
    entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() { walk(&path) } else { vec![path] }
        })
        .collect()
}
