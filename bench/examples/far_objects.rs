//! Serves objects from memory over the S3 protocol with an artificial delay: every GET is answered
//! the given number of milliseconds late. Checks no keys and drops everything on exit. `cargo run
//! -p weir-bench --example far_objects -- 127.0.0.1:9900 120`.
//!
//! This static server sets the ceiling for `weir bench store` and for needle queries in the cold
//! tier: one thread per connection, which sleeps and writes.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

type Bytes = Arc<Vec<u8>>;

#[derive(Default)]
struct Objects {
    whole: RwLock<BTreeMap<String, Bytes>>,
    /// Multipart uploads by id, each with its parts by number.
    parts: Mutex<HashMap<String, BTreeMap<u32, Bytes>>>,
}

/// A parsed S3 request.
struct ObjectRequest {
    method: String,
    /// The object key, without the bucket.
    key: String,
    query: HashMap<String, String>,
    range: Option<(usize, usize)>,
    body: Vec<u8>,
}

struct Answer {
    status: &'static str,
    head: String,
    body: Bytes,
    from: usize,
    to: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9900".to_owned());
    let late: u64 = arguments.next().map_or(Ok(120), |late| late.parse())?;
    let objects: Arc<Objects> = Arc::default();
    for client in TcpListener::bind(address)?.incoming().flatten() {
        let objects = Arc::clone(&objects);
        std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || drop(serve(client, &objects, Duration::from_millis(late))))?;
    }
    Ok(())
}

fn serve(client: TcpStream, objects: &Objects, late: Duration) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut out = client.try_clone()?;
    let mut input = BufReader::new(client);
    while let Some(asked) = read(&mut input)? {
        let answer = objects.answer(&asked);
        if asked.method == "GET" {
            // Measured from the arrival of the request; a park may return early, a remote service
            // never does.
            let until = std::time::Instant::now() + late;
            while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
                std::thread::park_timeout(left);
            }
        }
        let length = answer.to - answer.from;
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Length: {length}\r\nETag: \"1\"\r\nLast-Modified: Sun, 22 Nov 2026 00:00:00 GMT\r\n{}\r\n",
            answer.status, answer.head
        );
        let mut bytes = head.into_bytes();
        if asked.method != "HEAD" {
            bytes.extend_from_slice(&answer.body[answer.from..answer.to]);
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Reads the next request; `None` at the end of the connection.
fn read(input: &mut BufReader<TcpStream>) -> std::io::Result<Option<ObjectRequest>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = path.trim_start_matches('/').split_once('/').map_or("", |(_, key)| key).to_owned();
    let query = query
        .split('&')
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.replace("%2F", "/"))
        })
        .collect();
    let (mut length, mut range) = (0, None);
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "range" => range = parse_range(value.trim()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(ObjectRequest { method, key, query, range, body }))
}

/// Parses `bytes=FROM-TO` into a half-open range.
fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    Some((from.parse().ok()?, to.parse::<usize>().map_or(usize::MAX, |to| to.saturating_add(1))))
}

impl Answer {
    fn new(status: &'static str, body: Vec<u8>) -> Self {
        let to = body.len();
        Self { status, head: String::new(), body: Arc::new(body), from: 0, to }
    }
}

impl Objects {
    /// Deletes the objects that the body lists.
    fn delete(&self, asked: &ObjectRequest) -> Answer {
        let body = String::from_utf8_lossy(&asked.body);
        let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        let mut gone = String::from("<DeleteResult>");
        for (key, _) in keys {
            self.whole.write().expect("no panic").remove(key);
            gone += &format!("<Deleted><Key>{key}</Key></Deleted>");
        }
        Answer::new("200 OK", (gone + "</DeleteResult>").into_bytes())
    }

    fn answer(&self, asked: &ObjectRequest) -> Answer {
        match asked.method.as_str() {
            "GET" if asked.query.contains_key("list-type") => self.list(asked),
            "GET" | "HEAD" => self.get(asked),
            "PUT" if asked.query.contains_key("partNumber") => self.part(asked),
            "PUT" => {
                let bytes = Arc::new(asked.body.clone());
                self.whole.write().expect("no panic").insert(asked.key.clone(), bytes);
                Answer::new("200 OK", Vec::new())
            }
            "POST" if asked.query.contains_key("delete") => self.delete(asked),
            "POST" => self.upload(asked),
            "DELETE" => {
                self.whole.write().expect("no panic").remove(&asked.key);
                Answer::new("204 No Content", Vec::new())
            }
            _ => Answer::new("405 Method Not Allowed", Vec::new()),
        }
    }

    fn get(&self, asked: &ObjectRequest) -> Answer {
        let Some(body) = self.whole.read().expect("no panic").get(&asked.key).cloned() else {
            let text = "<Error><Code>NoSuchKey</Code><Message>not here</Message></Error>";
            return Answer::new("404 Not Found", text.into());
        };
        let size = body.len();
        let Some((from, to)) = asked.range.filter(|range| range.0 < size) else {
            return Answer { status: "200 OK", head: String::new(), body, from: 0, to: size };
        };
        let to = to.min(size);
        let head = format!("Content-Range: bytes {from}-{}/{size}\r\n", to - 1);
        Answer { status: "206 Partial Content", head, body, from, to }
    }

    fn part(&self, asked: &ObjectRequest) -> Answer {
        let of = |name: &str| asked.query.get(name).cloned().unwrap_or_default();
        let number = of("partNumber").parse().unwrap_or(0);
        let mut parts = self.parts.lock().expect("no panic");
        parts.entry(of("uploadId")).or_default().insert(number, Arc::new(asked.body.clone()));
        Answer::new("200 OK", Vec::new())
    }

    /// Starts or completes a multipart upload.
    fn upload(&self, asked: &ObjectRequest) -> Answer {
        let mut parts = self.parts.lock().expect("no panic");
        let Some(id) = asked.query.get("uploadId") else {
            let id = format!("upload{}", parts.len());
            parts.insert(id.clone(), BTreeMap::new());
            let text = format!(
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            return Answer::new("200 OK", text.into());
        };
        let whole = parts.insert(id.clone(), BTreeMap::new()).unwrap_or_default();
        let bytes: Vec<u8> = whole.values().flat_map(|part| part.iter().copied()).collect();
        self.whole.write().expect("no panic").insert(asked.key.clone(), Arc::new(bytes));
        let text = "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>";
        Answer::new("200 OK", text.into())
    }

    fn list(&self, asked: &ObjectRequest) -> Answer {
        let prefix = asked.query.get("prefix").cloned().unwrap_or_default();
        let whole = self.whole.read().expect("no panic");
        let found = whole.iter().filter(|(key, _)| key.starts_with(&prefix));
        let entries: String = found
            .map(|(key, bytes)| {
                let size = bytes.len();
                format!("<Contents><Key>{key}</Key><LastModified>2026-11-22T00:00:00.000Z</LastModified><ETag>1</ETag><Size>{size}</Size></Contents>")
            })
            .collect();
        let text = format!(
            "<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        );
        Answer::new("200 OK", text.into())
    }
}
