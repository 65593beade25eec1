//! Bulk requests of shippers, and malformed requests.

use expect_test::{Expect, expect};

use super::*;
use crate::check::{builder, items_of, mangled, request, status_and_body};

fn check(body: &str, expected: &Expect) {
    let request = request(Method::POST, "/_bulk", &[], body.as_bytes());
    let answer = items_of::<ElasticBulk>(&request).unwrap_or_else(|refusal| refusal.message);
    expected.assert_eq(&answer);
}

#[test]
fn documents_go_under_their_own_host_and_file() {
    check(
        r#"{"index":{"_index":"logs-nginx"}}
{"message":"one","host":{"name":"web1"},"log":{"file":{"path":"/var/log/a.log"}}}
{"create":{"_index":"logs-nginx","_id":"7","_type":"_doc"}}
{"message":"two","hostname":"web2"}

{"index":{"_index":"plain","_id":8}}
{"message":"three"}
"#,
        &expect![[r#"
            web1 /var/log/a.log
              {"message":"one","host":{"name":"web1"},"log":{"file":{"path":"/var/log/a.log"}}}
            web2 elasticsearch:logs-nginx
              {"message":"two","hostname":"web2"}
            192.0.2.1 elasticsearch:plain
              {"message":"three"}
        "#]],
    );
}

#[test]
fn a_request_that_is_not_pairs_of_lines_is_refused_whole() {
    for (body, part) in [
        ("{\"message\":\"no action\"}\n{}\n", "malformed action/metadata line [1]"),
        ("{\"index\":{\"_index\":\"x\"}}\n{}\n{\"index\":", "malformed action/metadata line [3]"),
        ("{\"index\":{}}\n{}\n", "no index at line 1"),
        ("{\"index\":{\"_index\":\"x\"}}", "the document of the action at line 1 is missing"),
    ] {
        let refusal =
            items_of::<ElasticBulk>(&request(Method::POST, "/_bulk", &[], body.as_bytes()));
        let refusal = refusal.expect_err(body);
        assert!(refusal.message.contains(part), "{}", refusal.message);
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    }
    let long = format!("{{\"index\":{{\"_index\":\"{}\"}}}}\n{{}}\n", "x".repeat(300));
    items_of::<ElasticBulk>(&request(Method::POST, "/_bulk", &[], long.as_bytes()))
        .expect_err("too long");
}

#[test]
fn each_item_is_answered_for_itself() {
    let body = r#"{"index":{}}
{"message":"kept"}
{"index":{}}
not a document
{"delete":{"_id":"1"}}
{"update":{"_id":"1"}}
{"doc":{}}
{"create":{"_id":"9"}}
{"message":"again"}
{"create":{"_id":"9"}}
{"message":"again"}
{"index":{"_id":"9"}}
{"message":"again"}
"#;
    let request = request(Method::POST, "/logs/_bulk?filter_path=errors", &[], body.as_bytes());
    let mut builder = builder();
    let Ok(note) = ElasticBulk::read(&request, &mut builder) else { panic!("it is well formed") };
    let response = ElasticBulk::respond(&request, note, &builder.verdicts);
    assert_eq!(response.headers["x-elastic-product"], "Elasticsearch");
    let body: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    assert_eq!(body["errors"], true);
    let items = body["items"].as_array().expect("a list");
    let statuses: Vec<String> = items
        .iter()
        .flat_map(|item| item.as_object().expect("an object"))
        .map(|(operation, item)| {
            format!(
                "{operation} {} {}",
                item["status"],
                item["error"]["type"].as_str().unwrap_or("")
            )
        })
        .collect();
    expect![[r#"
        index 201 
        index 400 document_parsing_exception
        delete 400 illegal_argument_exception
        update 400 illegal_argument_exception
        create 201 
        create 409 version_conflict_engine_exception
        index 200 "#]]
    .assert_eq(&statuses.join("\n"));
    assert_eq!(items[0]["index"]["_index"], "logs");
}

#[test]
fn an_id_with_another_document_is_a_new_row() {
    let body = "{\"index\":{\"_index\":\"x\",\"_id\":\"1\"}}\n{\"n\":1}\n{\"index\":{\"_index\":\"x\",\"_id\":\"1\"}}\n{\"n\":2}\n";
    let mut builder = builder();
    let read =
        ElasticBulk::read(&request(Method::POST, "/_bulk", &[], body.as_bytes()), &mut builder);
    assert!(read.is_ok());
    assert_eq!(builder.verdicts, [ItemVerdict::Kept, ItemVerdict::Kept]);
}

#[test]
fn single_documents_are_taken() {
    let request = request(Method::PUT, "/logs/_doc/a%2Fb", &[], b"{\"message\":\"one\"}");
    let mut builder = builder();
    let Ok(note) = ElasticBulk::read(&request, &mut builder) else { panic!("it is well formed") };
    let answer = status_and_body(&ElasticBulk::respond(&request, note, &builder.verdicts));
    assert!(answer.starts_with("201 {\"_index\":\"logs\""), "{answer}");
}

#[test]
fn requests_before_sending_have_stub_responses() {
    let accept = ("accept", "application/vnd.elasticsearch+json; compatible-with=8");
    for (method, uri, part) in [
        (Method::GET, "/", "\"number\":\"8.19.0\""),
        (Method::HEAD, "/", "200"),
        (Method::GET, "/_license?human=false", "\"status\":\"active\""),
        (Method::GET, "/_xpack", "\"ilm\""),
        (Method::HEAD, "/_index_template/filebeat-8.19.0", "200"),
        (Method::PUT, "/_index_template/filebeat-8.19.0", "\"acknowledged\":true"),
        (Method::GET, "/_ilm/policy/filebeat", "200"),
        (Method::PUT, "/_ingest/pipeline/x", "\"acknowledged\":true"),
        (Method::GET, "/_cluster/health", "\"green\""),
        (Method::GET, "/_nodes/_all/http", "\"weir\""),
        (Method::PUT, "/logs-2026", "\"index\":\"logs-2026\""),
        (Method::GET, "/logs/_search", "400"),
        (Method::GET, "/_bulk", "400"),
    ] {
        let request = request(method, uri, &[accept], b"");
        assert!(ElasticBulk::is_for(&request.parts), "{uri}");
        let Ok(note) = ElasticBulk::read(&request, &mut builder()) else {
            panic!("{uri} is a stub")
        };
        let response = ElasticBulk::respond(&request, note, &[]);
        assert_eq!(response.headers["x-elastic-product"], "Elasticsearch", "{uri}");
        assert!(response.headers["content-type"].to_str().unwrap().starts_with("application/vnd."));
        let text = status_and_body(&response);
        assert!(text.contains(part), "{uri}: {text}");
    }
}

#[test]
fn any_bytes_are_answered_and_every_pair_has_one_verdict() {
    let seed = b"{\"index\":{\"_index\":\"x\",\"_id\":\"1\"}}\n{\"message\":\"one\"}\n{\"create\":{}}\n{\"a\":{\"b\":[1,2]}}\n";
    arbtest::arbtest(|u| {
        let body = mangled(u, seed)?;
        let request = request(Method::POST, "/x/_bulk", &[], &body);
        let mut builder = builder();
        if let Ok(note) = ElasticBulk::read(&request, &mut builder) {
            let response = ElasticBulk::respond(&request, note, &builder.verdicts);
            serde_json::from_slice::<serde_json::Value>(&response.body).expect("always JSON");
        }
        let lines: usize = builder.groups.iter().map(|group| group.items.len()).sum();
        let kept = builder.verdicts.iter().filter(|v| **v == ItemVerdict::Kept).count();
        assert_eq!(lines, kept);
        Ok(())
    });
}

#[test]
fn targets_without_a_path_are_answered_too() {
    for uri in ["host:80", "*"] {
        let request = request(Method::HEAD, uri, &[], b"");
        if ElasticBulk::is_for(&request.parts) {
            let Ok(note) = ElasticBulk::read(&request, &mut builder()) else {
                panic!("{uri} is a stub")
            };
            assert!(!status_and_body(&ElasticBulk::respond(&request, note, &[])).is_empty());
        }
    }
}

/// Elasticsearch takes further keys after the action: elastic/elasticsearch#43774. Clients send
/// them: `attempts` of winston-elasticsearch.
#[test]
fn keys_beside_the_action_and_a_byte_order_mark_are_skipped() {
    check(
        "\u{feff}{\"index\":{\"_index\":\"a\"},\"attempts\":3}\n{\"message\":\"one\"}\n\
         {\"refresh\":true,\"create\":{\"_index\":\"a\",\"zzz\":1}}\n{\"message\":\"two\"}\n\
         {\"index\":{\"_index\":\"a\"},\"delete\":{\"_index\":\"b\"}}\n{\"message\":\"three\"}\n",
        &expect![[r#"
            192.0.2.1 elasticsearch:a
              {"message":"one"}
              {"message":"two"}
              {"message":"three"}
        "#]],
    );
}
