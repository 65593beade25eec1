//! Rows of a capture: printed as they come, sent to a weir, or put into a data directory.
//!
//! A capture is a stream: its identity is derived from its bytes and the query options, its
//! position counts parcels. So a capture that is read into the same weir twice is stored once.

use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use weir_config::place::{host_name, read_token};
use weir_hub::cells::{Cells, plain, push_csv};
use weir_hub::wire::fingerprint;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::write_all;
use weir_store::{Store, StoreOptions};
use weir_tables::{Batch, Clock, Parcel, StreamId, StreamRange};
use weir_wire::{Report, RowOrigin, RowSink, TableSink};

use super::files::Files;
use super::{ModelArgs, WireFormat, WireTable};
use crate::client::{Client, RequestError};

/// Where the rows go; nowhere when only the report is wanted.
pub(super) struct Rows {
    ways: Option<Arc<Mutex<RowOutputs>>>,
    origin: RowOrigin,
}

struct RowOutputs {
    print: Option<RowPrinter>,
    files: Option<Files>,
    keep: Option<RowKeeper>,
    failure: Option<Failure>,
}

struct RowPrinter {
    table: &'static str,
    is_csv: bool,
    has_head: bool,
}

struct RowKeeper {
    place: RowTarget,
    stream: StreamId,
    /// Parcels so far, and how many of them the other side had already.
    position: u64,
    known: u64,
}

enum RowTarget {
    Hub(Client),
    Directory(Arc<Store>, tokio::runtime::Runtime),
}

impl Rows {
    pub(super) fn new(args: &ModelArgs, files: &[PathBuf]) -> Result<Self, Failure> {
        let is_csv = args.format == WireFormat::Csv;
        let print = (is_csv || args.format == WireFormat::Ndjson).then(|| RowPrinter {
            table: args.table.name(),
            is_csv,
            has_head: false,
        });
        let parquet = match (args.format, &args.out) {
            (WireFormat::Parquet, Some(dir)) => Some(Files::new(dir)?),
            (WireFormat::Parquet, None) => {
                return Err(Failure::new("cannot write Parquet files: no directory is named")
                    .hint("add `--out DIR`")
                    .code(EXIT_USAGE));
            }
            _ => None,
        };
        let keep =
            args.into.as_deref().map(|into| RowKeeper::new(into, args, files)).transpose()?;
        let is_wanted = print.is_some() || parquet.is_some() || keep.is_some();
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let origin = RowOrigin {
            host: args.host.clone().unwrap_or_else(host_name),
            source: names.join(", "),
            observed: SystemClock.now(),
        };
        let ways = is_wanted.then(|| {
            Arc::new(Mutex::new(RowOutputs { print, files: parquet, keep, failure: None }))
        });
        Ok(Self { ways, origin })
    }

    /// What the model hands its rows to.
    pub(super) fn sink(&self) -> Option<Box<dyn RowSink>> {
        let ways = Arc::clone(self.ways.as_ref()?);
        Some(Box::new(TableSink::new(self.origin.clone(), move |batches| {
            ways.lock().take(batches);
        })))
    }

    /// The slices, which are known when everything is; then what failed on the way.
    pub(super) fn finish(self, report: &Report) -> Result<(), Failure> {
        let Some(ways) = self.ways else { return Ok(()) };
        let mut ways = ways.lock();
        ways.take(vec![weir_wire::slices(report, &self.origin)]);
        if let Some(failure) = ways.failure.take() {
            return Err(failure);
        }
        if let Some(files) = ways.files.take() {
            files.close()?;
        }
        match ways.keep.take() {
            Some(keep) => keep.close(),
            None => Ok(()),
        }
    }
}

impl WireTable {
    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::WireRequest => "wire_request",
            Self::TcpConn => "tcp_conn",
            Self::WireSlice => "wire_slice",
        }
    }
}

impl RowOutputs {
    /// Passes rows on; after a failure nothing more.
    fn take(&mut self, batches: Vec<Batch>) {
        if let Some(print) = &mut self.print {
            for batch in &batches {
                if batch.table.name == print.table {
                    write_all(&print.written(batch));
                }
            }
        }
        if self.failure.is_none()
            && let Some(files) = &mut self.files
        {
            self.failure = files.write(&batches).err();
        }
        if self.failure.is_none()
            && let Some(keep) = &mut self.keep
        {
            self.failure = keep.send(batches).err();
        }
    }
}

impl RowPrinter {
    fn written(&mut self, batch: &Batch) -> Vec<u8> {
        let (cells, mut out) = (Cells::new(&batch.rows), Vec::new());
        let names = || batch.table.columns.iter().map(|column| column.name.to_owned());
        if self.is_csv && !std::mem::replace(&mut self.has_head, true) {
            push_csv(&mut out, names());
        }
        for row in 0..cells.row_count() {
            if self.is_csv {
                push_csv(&mut out, cells.row(row).map(|cell| plain(&cell)));
            } else {
                let object: Map<String, Value> = names().zip(cells.row(row)).collect();
                out.extend_from_slice(Value::Object(object).to_string().as_bytes());
                out.push(b'\n');
            }
        }
        out
    }
}

impl RowKeeper {
    fn new(into: &str, args: &ModelArgs, files: &[PathBuf]) -> Result<Self, Failure> {
        let stream = identity(args, files)?;
        let is_url = into.contains("://");
        let place = if is_url {
            let token = args.token_file.as_deref().map(read_token).transpose()?;
            RowTarget::Hub(Client::new(into, token.as_deref(), Duration::from_secs(60))?)
        } else {
            open_directory(Path::new(into))?
        };
        let known = place.position(stream)?;
        Ok(Self { place, stream, position: 0, known })
    }

    fn send(&mut self, batches: Vec<Batch>) -> Result<(), Failure> {
        let from = self.position;
        self.position += 1;
        if from < self.known {
            return Ok(());
        }
        let range = StreamRange { stream: self.stream, from, to: from + 1 };
        let parcel = Parcel { range: Some(range), batches };
        match &self.place {
            RowTarget::Hub(client) => {
                let answer = client
                    .post_parcel(&parcel)
                    .map_err(|error| unreachable_weir(client, &error))?;
                if answer.status == 200 { Ok(()) } else { Err(answer.failure()) }
            }
            RowTarget::Directory(store, runtime) => runtime
                .block_on(store.append(parcel))
                .map(drop)
                .map_err(|error| Failure::new(format!("cannot keep the rows: {error}"))),
        }
    }

    fn close(self) -> Result<(), Failure> {
        match self.place {
            RowTarget::Hub(_) => Ok(()),
            RowTarget::Directory(store, runtime) => runtime
                .block_on(store.close())
                .map_err(|error| Failure::new(format!("cannot close the data directory: {error}"))),
        }
    }
}

impl RowTarget {
    /// How many parcels of a stream are there already.
    fn position(&self, stream: StreamId) -> Result<u64, Failure> {
        match self {
            Self::Directory(store, _) => {
                Ok(store.positions(&[stream]).first().map_or(0, |(_, position)| *position))
            }
            Self::Hub(client) => {
                let body = serde_json::json!({"streams": [stream.to_string()]}).to_string();
                let answer = client
                    .post("/api/link/positions", body.as_bytes())
                    .map_err(|error| unreachable_weir(client, &error))?;
                if answer.status != 200 {
                    return Err(answer.failure());
                }
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                Ok(body["positions"][stream.to_string()].as_u64().unwrap_or(0))
            }
        }
    }
}

fn open_directory(dir: &Path) -> Result<RowTarget, Failure> {
    let shown = dir.display();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
    let store = Store::open(StoreOptions::new(dir, Arc::new(SystemClock))).map_err(|error| {
        Failure::new(format!("cannot open the data directory `{shown}`: {error}"))
            .hint("name the address of the weir that runs there instead: http://127.0.0.1:4770")
    })?;
    Ok(RowTarget::Directory(store, runtime))
}

fn unreachable_weir(client: &Client, error: &RequestError) -> Failure {
    Failure::new(format!("cannot send to weir at `{}`: {error}", client.base()))
        .hint("start it with `weir up`, or name a data directory")
}

/// Bytes of each file that make its identity, with its length.
const IDENTITY_BYTES: u64 = 1 << 20;

/// Stable for the same captures and options; random for a pipe.
fn identity(args: &ModelArgs, files: &[PathBuf]) -> Result<StreamId, Failure> {
    if args.interface.is_some() || files.iter().any(|file| file == Path::new("-")) {
        return Ok(StreamId(random_half(1) << 64 | random_half(2)));
    }
    let asked = (args.slice, &args.port, args.server, args.from, args.to, &args.host);
    let mut text = format!("weir wire 1 {asked:?}");
    if let Some(filter) = &args.filter {
        text += &format!(" filter {filter:?}");
    }
    for file in files {
        let failed = |error: std::io::Error| weir_process::failure::read_failure(file, &error);
        let mut start = Vec::new();
        let opened = std::fs::File::open(file).map_err(failed)?;
        let length = opened.metadata().map_err(failed)?.len();
        opened.take(IDENTITY_BYTES).read_to_end(&mut start).map_err(failed)?;
        text += &format!("\n{length} {}", fingerprint(&start, 0));
    }
    let bytes = text.as_bytes();
    Ok(StreamId(u128::from(fingerprint(bytes, 1)) << 64 | u128::from(fingerprint(bytes, 2))))
}

fn random_half(n: u8) -> u128 {
    u128::from(RandomState::new().hash_one(n))
}
