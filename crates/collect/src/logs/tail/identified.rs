//! Which stream a file on disk is: asked of the hub as the tailer asks, and nothing is followed or
//! sent.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use weir_tables::StreamId;

use super::contact::{Candidate, Contact, Policy};
use super::content::Content;
use super::identity::Place;
use crate::CollectError;

/// Streams that are asked about at once.
const ASKED: usize = 500;

/// Streams that the hub knows, and where each stands.
pub type Known = Vec<(StreamId, u64)>;

/// A log file, packed or not, and the stream that the hub knows it as.
#[derive(Debug)]
pub struct Identified {
    path: PathBuf,
    content: Content,
    stream: Option<(StreamId, u64)>,
}

impl Identified {
    /// Opens the file and asks `ask` where streams stand, a few times; it leaves out those that the
    /// hub does not know, and `None` ends the asking.
    ///
    /// # Errors
    /// When the file cannot be read, or has nothing by which it could be told.
    pub fn open(
        path: &Path,
        host: &str,
        ask: &mut dyn FnMut(&[StreamId]) -> Option<Known>,
    ) -> Result<Self, CollectError> {
        let failed = |error: io::Error| CollectError::reading(path, &error);
        let content = Content::open(path).map_err(failed)?;
        let place = Place::of(&content).map_err(failed)?;
        let candidate = Candidate::open(content, place, true).map_err(failed)?.map_err(|_| {
            CollectError::new(format_args!("identify `{}`", path.display()), "it is empty")
        })?;
        let mut contact = Contact::new(path.into(), Some(candidate), Vec::new(), Policy::Start);
        while !contact.has_answers(host) {
            let asked: Vec<StreamId> = contact.questions(host).take(ASKED).collect();
            let Some(known) = ask(&asked) else { break };
            let known: HashMap<StreamId, u64> = known.into_iter().collect();
            let answers = asked.into_iter().map(|stream| (stream, known.get(&stream).copied()));
            contact.answers.extend(answers);
        }
        let (content, stream) = contact.into_identified().expect("it was made with a live file");
        Ok(Self { path: path.to_owned(), content, stream })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stream and how far the hub has it; `None` when the hub does not know the file.
    pub fn stream(&self) -> Option<(StreamId, u64)> {
        self.stream
    }

    /// Reads (unpacked) content until `bytes` is full or the content ends; gives the count.
    ///
    /// # Errors
    /// As the file system or the unpacking says.
    pub fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.content.read_at(bytes, offset)
    }
}
