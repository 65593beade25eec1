//! A small HTTP/1.1 server of tests: it records requests and answers by a contract or a script.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("bodies are UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Values of a form or a query.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        let url = format!("http://x/?{}", self.text());
        let url = reqwest::Url::parse(&url).expect("a form is a query");
        url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
    }

    pub(crate) fn form_value(&self, name: &str) -> Option<String> {
        self.form().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Characters of a value of a form.
    pub(crate) fn form_length(&self, name: &str) -> usize {
        self.form_value(name).map_or(0, |text| text.chars().count())
    }

    /// A number of a form; 0 without one.
    pub(crate) fn form_number(&self, name: &str) -> u32 {
        self.form_value(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The whole request as text, as a chatty server could repeat it in an error.
    pub(crate) fn echo(&self) -> String {
        format!(
            "{} {} {:?} {}",
            self.method,
            self.path,
            self.headers,
            String::from_utf8_lossy(&self.body)
        )
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedAnswer {
    /// A response.
    Reply { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// A response whose body repeats the request.
    Echo { status: u16 },
    /// The connection ends without a response.
    Drop,
    /// No response, and the connection stays.
    Hang,
}

impl ScriptedAnswer {
    pub(crate) fn status(status: u16) -> Self {
        Self::Reply { status, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::Reply { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::Reply { status, headers: Vec::new(), body: body.to_owned() }
    }
}

/// The answer that a contract gives.
pub(crate) type ContractCheck = fn(&RecordedRequest) -> ScriptedAnswer;

struct DoubleState {
    requests: Vec<RecordedRequest>,
    script: VecDeque<ScriptedAnswer>,
    contract: ContractCheck,
}

/// A server on its own port; it ends with the runtime of the test.
pub(crate) struct HttpDouble {
    port: u16,
    state: Arc<Mutex<DoubleState>>,
}

impl HttpDouble {
    pub(crate) async fn start(contract: ContractCheck) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let (requests, script) = (Vec::new(), VecDeque::new());
        let state = Arc::new(Mutex::new(DoubleState { requests, script, contract }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Answers the next request so, instead of by the contract.
    pub(crate) fn next(&self, answer: ScriptedAnswer) {
        self.state.lock().script.push_back(answer);
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.lock().requests.clone()
    }

    pub(crate) fn last(&self) -> RecordedRequest {
        self.requests().pop().expect("a request arrived")
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<DoubleState>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        let echo = request.echo();
        let answer = {
            let mut state = state.lock();
            let scripted = state.script.pop_front();
            let answer = scripted.unwrap_or_else(|| (state.contract)(&request));
            state.requests.push(request);
            answer
        };
        let (status, headers, body) = match answer {
            ScriptedAnswer::Reply { status, headers, body } => (status, headers, body),
            ScriptedAnswer::Echo { status } => (status, Vec::new(), echo),
            ScriptedAnswer::Drop => return,
            ScriptedAnswer::Hang => std::future::pending().await,
        };
        let mut response = format!("HTTP/1.1 {status} X\r\n");
        for (name, value) in headers {
            response.push_str(&format!("{name}: {value}\r\n"));
        }
        if status != 204 {
            response.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        response.push_str(&format!("\r\n{body}"));
        if stream.get_mut().write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<RecordedRequest> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|length| *length > 0)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = RecordedRequest { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}
