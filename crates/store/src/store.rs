//! The store as the other rooms see it.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use weir_tables::{Clock, Parcel, StreamId};

use crate::adapt::adapt;
use crate::error::StoreError;
use crate::hot::View;
use crate::options::{QueryLimits, StoreOptions};
use crate::query::{QueryEngine, QueryResult};
use crate::stats::StoreStats;
use crate::streams::Positions;
use crate::writer::{Appended, Command, Request, Shared, Writer};

/// Keeps rows, answers SQL. One per data directory.
pub struct Store {
    shared: Arc<Shared>,
    commands: Mutex<Option<Sender<Command>>>,
    engine: QueryEngine,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// A store without files: rows live in memory until it is dropped.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Arc<Self> {
        let options = StoreOptions::new("", clock);
        Self::start(&options).expect("threads can be started")
    }

    fn start(options: &StoreOptions) -> Result<Arc<Self>, StoreError> {
        let engine = QueryEngine::new(options.query_threads, options.query_memory_bytes)?;
        let shared = Arc::new(Shared {
            view: RwLock::new(View::new()),
            positions: Mutex::new(Positions::default()),
        });
        let (writer, commands) = Writer::new(Arc::clone(&shared));
        let thread = std::thread::spawn(move || writer.run());
        Ok(Arc::new(Self {
            shared,
            commands: Mutex::new(Some(commands)),
            engine,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Stores a parcel; returns when its rows and its stream's position survive a power loss and queries see them.
    ///
    /// # Errors
    /// `Behind`, `Full`, `Busy`, `BadParcel`, `Io`, `Closed`; nothing of the parcel is stored then.
    pub async fn append(&self, parcel: Parcel) -> Result<Appended, StoreError> {
        self.submit(adapt(parcel)?, Vec::new()).await
    }

    /// Stores a parcel as [`Parcel::encode`] wrote it; the same bytes go to the log.
    ///
    /// # Errors
    /// As [`Store::append`]; `BadParcel` when the bytes are not a parcel.
    pub async fn append_encoded(&self, bytes: Vec<u8>) -> Result<Appended, StoreError> {
        let parcel = Parcel::decode(&bytes).map_err(StoreError::bad_parcel)?;
        self.submit(adapt(parcel)?, bytes).await
    }

    async fn submit(&self, parcel: Parcel, encoded: Vec<u8>) -> Result<Appended, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = Request { parcel, encoded, reply };
        self.send(Command::Append(request))?;
        answer.await.map_err(|_| StoreError::closed())?
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        let commands = self.commands.lock().expect("no thread panics with it");
        let sender = commands.as_ref().ok_or_else(StoreError::closed)?;
        sender.send(command).map_err(|_| StoreError::closed())
    }

    /// Where streams stand for sure; streams not seen before are left out.
    pub fn positions(&self, streams: &[StreamId]) -> Vec<(StreamId, u64)> {
        let positions = self.shared.positions.lock().expect("no thread panics with it");
        streams.iter().filter_map(|stream| Some((*stream, positions.durable(*stream)?))).collect()
    }

    /// Runs one query over all rows that were acknowledged before the call. Dropping the future stops it.
    ///
    /// # Errors
    /// `BadQuery` when the SQL is not valid or not a query, `QueryLimit` when time or memory run out.
    pub async fn query(&self, sql: &str, limits: QueryLimits) -> Result<QueryResult, StoreError> {
        let view = self.shared.view.read().expect("no thread panics with it").clone();
        self.engine.query(view, sql, limits).await
    }

    /// Writes all rows to files now.
    ///
    /// # Errors
    /// `Full`, `Io`, `Closed`.
    pub async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The store's own figures now.
    pub fn stats(&self) -> StoreStats {
        StoreStats::of(&self.shared.view.read().expect("no thread panics with it"))
    }

    /// Ends the threads; later calls answer `Closed`.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub async fn close(&self) -> Result<(), StoreError> {
        self.commands.lock().expect("no thread panics with it").take();
        let thread = self.thread.lock().expect("no thread panics with it").take();
        drop(thread.map(JoinHandle::join));
        Ok(())
    }
}
