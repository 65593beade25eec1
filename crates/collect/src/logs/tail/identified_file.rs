//! Identifies the stream of a file on disk like a tailer, without following it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use weir_tables::StreamId;

use super::content::Content;
use super::fingerprint::FileIdentity;
use super::resolve_stream::{Candidate, StartPolicy, StreamLookup};
use crate::CollectError;

const QUERY_LIMIT: usize = 500;

/// Streams known to the hub, with their positions.
pub type KnownPositions = Vec<(StreamId, u64)>;

/// A log file, compressed or not, and its stream at the hub.
#[derive(Debug)]
pub struct IdentifiedFile {
    path: PathBuf,
    content: Content,
    stream: Option<(StreamId, u64)>,
}

impl IdentifiedFile {
    /// Opens the file and queries positions through `ask`, a few times; it omits streams that the
    /// hub does not know, and `None` ends the queries.
    ///
    /// # Errors
    /// When the file is unreadable or empty.
    pub fn open(
        path: &Path,
        host: &str,
        ask: &mut dyn FnMut(&[StreamId]) -> Option<KnownPositions>,
    ) -> Result<Self, CollectError> {
        let opened = Content::open(path).and_then(|content| {
            let identity = FileIdentity::of(&content)?;
            Candidate::open(content, identity, true)
        });
        let opened = opened.map_err(|error| CollectError::reading(path, &error))?;
        let candidate = opened.map_err(|_| {
            CollectError::new(format_args!("identify `{}`", path.display()), "it is empty")
        })?;
        let mut lookup =
            StreamLookup::new(path.into(), Some(candidate), Vec::new(), StartPolicy::Start);
        while !lookup.take_answers(host) {
            let streams: Vec<StreamId> = lookup.queries(host).take(QUERY_LIMIT).collect();
            let Some(known) = ask(&streams) else { break };
            let known: HashMap<StreamId, u64> = known.into_iter().collect();
            let answers = streams.into_iter().map(|stream| (stream, known.get(&stream).copied()));
            lookup.answers.extend(answers);
        }
        let (content, stream) = lookup.into_identified().expect("it was made with a live file");
        Ok(Self { path: path.to_owned(), content, stream })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stream and position at the hub; `None` when the hub does not know the file.
    pub fn stream(&self) -> Option<(StreamId, u64)> {
        self.stream
    }

    /// Reads (decompressed) content until `bytes` is full or the content ends; returns the count.
    ///
    /// # Errors
    /// As reported by the file system or the decompressor.
    pub fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.content.read_at(bytes, offset)
    }
}
