//! What HAProxy prints at its socket and on its page, and what weir reads of it.

use expect_test::expect;

use super::*;

const REPLY: &str = "Name: HAProxy\nPid: 7\nMaxconn: 200\nCurrConns: 3\nCumConns: 9\nIdle_pct: 40\n\n\
# pxname,svname,qcur,scur,slim,stot,econ,eresp,wretr,status,act,bck,lastchg,type,check_status,check_code,hrsp_2xx,hrsp_5xx,last_chk,rtime,addr,mode,ssl_failed_handshake,\n\
web,FRONTEND,,3,200,50,,,,OPEN,,,,0,,,40,10,,,,http,4,\n\
be,s1,1,2,2,30,5,1,6,DOWN,1,0,12,2,L7STS,503,30,1,\"HTTP status \"\"503\"\", wanted 200\",1250,10.0.0.1:80,http,,\n\
be,s2,0,0,,0,0,0,0,MAINT,1,0,12,2,,,0,0,,0,,http,,\n\
be,b1,0,0,,0,0,0,0,UP,0,1,12,2,L4OK,,0,0,,0,,http,,\n\
be,BACKEND,1,2,20,30,5,1,6,UP,0,1,12,1,,,30,9,,1250,,http,,\n";

#[test]
fn columns_are_found_by_name_and_quoted_cells_are_read() {
    let shown: String = stat::parse(REPLY)
        .unwrap()
        .iter()
        .map(|entry| {
            format!(
                "{} {}/{} {:?} up {:?} of {:?} q {:?} s {:?}/{:?} 5xx {:?} tls {:?} {:?} {:?} {:?}\n",
                entry.kind,
                entry.proxy,
                entry.server.as_deref().unwrap_or("-"),
                entry.state.as_deref().unwrap_or("-"),
                entry.servers_up,
                entry.servers_total,
                entry.queue_length,
                entry.sessions,
                entry.session_limit,
                entry.totals.responses_5xx,
                entry.totals.handshake_failures,
                entry.check_text.as_deref().unwrap_or("-"),
                entry.response_seconds,
                entry.address.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    expect![[r#"
        process haproxy/- "-" up None of None q None s Some(3)/Some(200) 5xx None tls None "-" None "-"
        frontend web/- "OPEN" up None of None q None s Some(3)/Some(200) 5xx Some(10) tls Some(4) "-" None "-"
        server be/s1 "DOWN" up Some(0) of None q Some(1) s Some(2)/Some(2) 5xx Some(1) tls None "HTTP status \"503\", wanted 200" Some(1.25) "10.0.0.1:80"
        server be/s2 "MAINT" up Some(0) of None q Some(0) s Some(0)/None 5xx Some(0) tls None "-" Some(0.0) "-"
        server be/b1 "UP" up Some(1) of None q Some(0) s Some(0)/None 5xx Some(0) tls None "-" Some(0.0) "-"
        backend be/- "UP" up Some(1) of Some(1) q Some(1) s Some(2)/None 5xx Some(9) tls None "-" Some(1.25) "-"
    "#]]
    .assert_eq(&shown);
}

#[test]
fn reply_that_is_no_statistics_is_an_error_with_its_words() {
    let error = stat::parse("Permission denied\n").unwrap_err();
    assert_eq!(error.to_string(), "it replies `Permission denied`");
}

#[test]
fn any_text_is_parsed_or_rejected_without_panic() {
    arbtest::arbtest(|u| {
        let text: String = u.arbitrary()?;
        let _ = (stat::parse(&text), stat::parse(&format!("{REPLY}{text}")));
        Ok(())
    });
}

#[test]
fn sockets_come_before_pages_and_pages_with_a_password_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/haproxy");
    std::fs::create_dir_all(&dir).unwrap();
    let text = "global\n  stats socket /run/haproxy/admin.sock mode 660 level admin\n  \
        stats socket ipv4@*:9999\nfrontend f\n  bind :80\nbackend be\n  server s1 10.0.0.1:80 check\n\
        listen open\n  bind 127.0.0.1:8404\n  stats enable\n  stats uri /st\n\
        listen closed\n  bind :8405\n  stats enable\n  stats auth me:secret\n";
    std::fs::write(dir.join("haproxy.cfg"), text).unwrap();
    let found = weir_collect::logs::discover(root.path());
    let found = targets(&found.directives);
    let shown: Vec<String> = found[0].sources.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["/run/haproxy/admin.sock", "127.0.0.1:9999", "http://127.0.0.1:8404/st"]);
    let entry = StatEntry {
        proxy: "be".to_owned(),
        server: Some("s1".to_owned()),
        ..StatEntry::of_kind("server")
    };
    assert_eq!(server_address(&found[0], &entry).as_deref(), Some("10.0.0.1:80"));
}

/// A socket that replies with `texts`, one for each connection.
fn serve(path: &Path, texts: Vec<String>) -> std::thread::JoinHandle<()> {
    let socket = std::os::unix::net::UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for text in texts {
            let (mut stream, _) = socket.accept().unwrap();
            let mut command = [0; 64];
            let _ = stream.read(&mut command).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
        }
    })
}

#[test]
fn counters_of_a_new_process_are_no_increase() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("s");
    let later = REPLY.replace("web,FRONTEND,,3,200,50", "web,FRONTEND,,3,200,58");
    let reloaded = later.replace("Pid: 7", "Pid: 8").replace(",200,58,", ",200,90,");
    let server = serve(&path, vec![REPLY.to_owned(), later, reloaded]);
    let target = StatTarget::of_socket(path);
    let mut sampled = SampledProxy::default();
    let mut increase = |second: i64| {
        let mut rows = ProxyStatRows::default();
        sampled.sample(&target, ("web1", Micros(second * 1_000_000)), &mut rows);
        weir_tables::Rows::finish(&mut rows).num_rows()
    };
    // All six entries at first; then only the one that changed; all again after the reload.
    assert_eq!([increase(0), increase(2), increase(4)], [6, 1, 6]);
    server.join().unwrap();
}
