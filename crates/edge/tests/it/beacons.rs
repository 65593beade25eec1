//! Beacons: their responses and their rows.

use crate::lab::{Lab, Row, settings};

fn lab() -> Lab {
    let mut settings = settings(&[]);
    settings.beacon = Some("/ping".into());
    Lab::start(settings)
}

/// The values of a column.
fn values<'a>(rows: &'a [Row], column: &str) -> Vec<Option<&'a str>> {
    rows.iter().map(|row| row.get(column).map(String::as_str)).collect()
}

#[test]
fn get_and_post_beacons_become_rows() {
    let lab = lab();
    let picture = lab.get("/ping?h=shop.example&p=/a&v=x&n=0&k=load&b=20&r=30&l=90&i=id-9");
    assert!(picture.contains("content-length: 43\r\n") && picture.contains("GIF89a"), "{picture}");
    assert!(lab.get("/ping?e=&n=1").starts_with("HTTP/1.1 204"));
    let body = "h=shop.example&v=x&n=2&k=ping&s=15000\nh=shop.example&v=x&n=3&k=end&s=16000";
    let post = lab.say(&format!(
        "POST /ping HTTP/1.1\r\nHost: a\r\nOrigin: https://shop.example\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(
        post.starts_with("HTTP/1.1 204") && post.contains("access-control-allow-origin: *"),
        "{post}"
    );
    let rows = lab.rows("beacon", 4);
    assert_eq!(values(&rows, "kind"), [Some("load"), Some("other"), Some("ping"), Some("end")]);
    assert_eq!(values(&rows, "sequence"), [Some("0"), Some("1"), Some("2"), Some("3")]);
    assert_eq!(values(&rows, "load_seconds"), [Some("0.09"), None, None, None]);
    assert_eq!(values(&rows, "visible_seconds"), [None, None, Some("15"), Some("16")]);
    assert_eq!(values(&rows, "client_address"), [Some("127.0.0.0"); 4]);
    let requests = lab.rows("request", 4);
    let client =
        requests.iter().find(|row| row["tier"] == "client").expect("a row of the page load");
    assert_eq!(
        (client["duration_seconds"].as_str(), client["request_id"].as_str()),
        ("0.03", "id-9")
    );
    for row in requests.iter().filter(|row| row["tier"] == "edge") {
        assert_eq!(row["client_address"], "127.0.0.0");
        assert!(!row.contains_key("url_query") && !row.contains_key("client_port"), "{row:#?}");
    }
}

#[test]
fn the_script_is_served_below_the_beacon_path_and_nothing_else_is() {
    let lab = lab();
    assert!(lab.get("/ping/weir.js").ends_with(weir_edge::SCRIPT));
    assert!(lab.get("/other").starts_with("HTTP/1.1 404"));
    assert!(lab.get("/pingx").starts_with("HTTP/1.1 404"));
    let large = format!(
        "POST /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 70000\r\n\r\n{}",
        "x".repeat(70_000)
    );
    assert!(lab.say(&large).starts_with("HTTP/1.1 413"));
}
