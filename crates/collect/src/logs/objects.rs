//! Logs in a bucket: immutable objects, compressed or not, each a separate stream.
//!
//! The caller lists and fetches; this module tracks what was read, what comes next, and where its
//! lines are. The hub remembers how far each object is durable, as for files; the last chunk of an
//! object extends to [`END`], so that after a restart a finished object is recognized without
//! fetching it (`docs/formats/stream-identity.md`). The surprising thing: the host is not part of a
//! stream's identity, so two agents that read one bucket deliver each row once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use weir_tables::{LogFormat, LogSource, Micros, Program, StreamId};

use super::tail::{Chunk, StreamState, StreamStatus, hash_of};

/// Position of a completely durable object.
const END: u64 = 1 << 62;

const IN_FLIGHT_BYTES: u64 = 8 << 20;
/// Maximum unpacked bytes of an object; a larger one is not a log.
const UNPACKED_LIMIT: u64 = 16 << 30;

/// A listed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name in the bucket.
    pub name: String,
    /// Length in bytes.
    pub byte_count: u64,
    /// Time of the last write.
    pub modified: Micros,
    /// Version tag of the content, if the service has one.
    pub tag: Option<String>,
}

/// The logs of one bucket below one prefix.
#[derive(Debug)]
pub struct ObjectLog {
    /// `s3://BUCKET/PREFIX`, the source of all rows.
    url: Arc<str>,
    /// `s3://BUCKET/`, before the name of each object.
    bucket: String,
    chunk_bytes: usize,
    /// Objects to read, next one first, with the hub's position once known.
    waiting: VecDeque<(Object, StreamId, Option<u64>)>,
    current: Option<OpenObject>,
    done: HashSet<StreamId>,
    read_bytes: u64,
    error: Option<String>,
}

struct OpenObject {
    object: Object,
    stream: StreamId,
    source: Arc<LogSource>,
    bytes: Bytes,
    reader: Box<dyn Read + Send>,
    pending: Vec<u8>,
    /// Offset of `pending`; [`END`] when everything was returned.
    position: u64,
    is_known: bool,
    in_flight: Vec<(u64, u64)>,
}

impl std::fmt::Debug for OpenObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenObject").field(&self.object.name).field(&self.position).finish()
    }
}

impl ObjectLog {
    /// Creates a reader; a chunk has up to `chunk_bytes`.
    pub fn new((bucket, prefix): (&str, &str), chunk_bytes: usize) -> Self {
        Self {
            url: format!("s3://{bucket}/{prefix}").into(),
            bucket: format!("s3://{bucket}/"),
            chunk_bytes,
            waiting: VecDeque::new(),
            current: None,
            done: HashSet::new(),
            read_bytes: 0,
            error: None,
        }
    }

    /// `s3://BUCKET/PREFIX`.
    pub fn url(&self) -> &Arc<str> {
        &self.url
    }

    /// Sets the current contents of the bucket, within the wanted time range.
    pub fn listed(&mut self, mut objects: Vec<Object>) {
        objects.sort_by(|one, other| (one.modified, &one.name).cmp(&(other.modified, &other.name)));
        let streams: Vec<StreamId> = objects.iter().map(|one| self.stream_of(one)).collect();
        let is_there: HashSet<StreamId> = streams.iter().copied().collect();
        self.done.retain(|stream| is_there.contains(stream));
        let asked: HashMap<StreamId, u64> =
            self.waiting.iter().filter_map(|(_, stream, at)| Some((*stream, (*at)?))).collect();
        let reading = self.current.as_ref().map(|current| current.stream);
        let new = objects.into_iter().zip(streams);
        let new = new.filter(|(_, stream)| {
            !self.done.contains(stream) && reading.is_none_or(|reading| reading != *stream)
        });
        self.waiting =
            new.map(|(object, stream)| (object, stream, asked.get(&stream).copied())).collect();
        self.error = None;
    }

    /// Reports a failed listing or fetch; other objects are read first then.
    pub fn failed(&mut self, object: Option<&str>, why: String) {
        self.error = Some(why);
        let index = object.and_then(|name| self.waiting.iter().position(|one| one.0.name == name));
        if let Some(waiting) = index.and_then(|at| self.waiting.remove(at)) {
            self.waiting.push_back(waiting);
        }
    }

    /// Streams whose position at the hub is unknown.
    pub fn unknown(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.waiting.iter().filter(|waiting| waiting.2.is_none()).map(|waiting| waiting.1)
    }

    /// Sets the positions of the hub; missing streams are unknown to it.
    pub fn start(&mut self, positions: &HashMap<StreamId, u64>) {
        for (_, stream, position) in &mut self.waiting {
            *position = position.or_else(|| Some(positions.get(stream).copied().unwrap_or(0)));
            if *position == Some(END) {
                self.done.insert(*stream);
            }
        }
        self.waiting.retain(|(_, stream, _)| !self.done.contains(stream));
    }

    /// The object to fetch next, if no other is being read.
    pub fn wanted(&self) -> Option<&Object> {
        let (object, _, position) = self.waiting.front().filter(|_| self.current.is_none())?;
        position.map(|_| object)
    }

    /// Sets the content of a wanted object.
    pub fn fetched(&mut self, name: &str, bytes: Bytes) {
        let index = self.waiting.iter().position(|waiting| waiting.0.name == name);
        let waiting =
            index.filter(|_| self.current.is_none()).and_then(|at| self.waiting.remove(at));
        let Some((object, stream, position)) = waiting else { return };
        let source = Arc::new(LogSource {
            path: PathBuf::from(format!("{}{}", self.bucket, object.name)),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: self.url.to_string(),
        });
        let position = position.unwrap_or(0);
        let mut current = OpenObject {
            reader: unpacked(&bytes),
            object,
            stream,
            source,
            bytes,
            pending: Vec::new(),
            position: 0,
            is_known: position > 0,
            in_flight: Vec::new(),
        };
        match current.go_to(position) {
            Ok(()) => self.current = Some(current),
            Err(error) => self.give_up(&current.object.name, &error),
        }
    }

    /// Reads the next complete lines; `None` when there are none.
    pub fn read(&mut self) -> Option<Chunk> {
        let current = self.current.as_mut()?;
        let in_flight: u64 = current.in_flight.iter().map(|chunk| chunk.1).sum();
        // The first chunk of a stream must be durable before the next one is sent.
        let waits = !current.is_known && !current.in_flight.is_empty();
        if current.position == END || waits || in_flight >= IN_FLIGHT_BYTES {
            return None;
        }
        let (bytes, is_end) = match current.lines(self.chunk_bytes) {
            Ok(lines) => lines,
            Err(error) => {
                let name = current.object.name.clone();
                self.current = None;
                self.give_up(&name, &error);
                return None;
            }
        };
        let from = current.position;
        let to = if is_end { END } else { from + bytes.len() as u64 };
        current.position = to;
        current.in_flight.push((to, bytes.len() as u64));
        self.read_bytes += bytes.len() as u64;
        Some(Chunk {
            stream: current.stream,
            path: Arc::clone(&self.url),
            source: Arc::clone(&current.source),
            from,
            to,
            bytes,
            skipped_bytes: 0,
            is_lost: false,
            events: None,
            is_first: !current.is_known,
            modified: None,
        })
    }

    /// Whether this stream is being read.
    pub fn is_reading(&self, stream: StreamId) -> bool {
        self.current.as_ref().is_some_and(|current| current.stream == stream)
    }

    /// Confirms that the stream is durable up to `to`.
    pub fn acknowledge(&mut self, to: u64) {
        let Some(current) = &mut self.current else { return };
        current.is_known = true;
        current.in_flight.retain(|chunk| chunk.0 > to);
        if to >= END {
            self.done.insert(current.stream);
            self.current = None;
        }
    }

    /// Restarts at `to`, the position of the hub.
    pub fn rewind(&mut self, to: u64) {
        let Some(mut current) = self.current.take() else { return };
        if to >= END {
            self.done.insert(current.stream);
            return;
        }
        match current.go_to(to) {
            Ok(()) => self.current = Some(current),
            Err(error) => self.give_up(&current.object.name, &error),
        }
    }

    /// Status; waiting objects count with their compressed size.
    pub fn status(&self) -> StreamStatus {
        let waiting: u64 = self.waiting.iter().map(|waiting| waiting.0.byte_count).sum();
        let reading = self.current.as_ref();
        let in_flight: u64 = reading.iter().flat_map(|one| &one.in_flight).map(|one| one.1).sum();
        let newest = self.waiting.back().map(|waiting| &waiting.0);
        let newest = newest.or(reading.map(|current| &current.object));
        StreamStatus {
            stream: None,
            path: Arc::clone(&self.url),
            program: Program::Other,
            position: self.read_bytes,
            acknowledged: self.read_bytes - in_flight,
            size: self.read_bytes + waiting,
            lag_bytes: in_flight + waiting,
            modified: newest.map(|object| object.modified),
            lost_bytes: 0,
            state: if self.error.is_some() { StreamState::Failed } else { StreamState::Reading },
            error: self.error.clone(),
        }
    }

    fn stream_of(&self, object: &Object) -> StreamId {
        let tag = object.tag.as_deref().unwrap_or_default();
        hash_of(format!("object\0{}{}\0{tag}", self.bucket, object.name).as_bytes())
    }

    /// Gives up the object until the next listing.
    fn give_up(&mut self, name: &str, error: &io::Error) {
        self.error = Some(format!(
            "cannot unpack `{}{name}`: {error}\nhint: check it with `aws s3 cp` and `gunzip -t`; it will be retried",
            self.bucket
        ));
    }
}

impl OpenObject {
    fn go_to(&mut self, position: u64) -> io::Result<()> {
        self.reader = unpacked(&self.bytes);
        let passed = io::copy(&mut self.reader.by_ref().take(position), &mut io::sink())?;
        if passed < position {
            return Err(io::Error::other(format!("it ends at {passed}, before {position}")));
        }
        self.pending.clear();
        self.in_flight.clear();
        self.position = position;
        Ok(())
    }

    /// Reads complete lines, and whether they are the last.
    fn lines(&mut self, chunk_bytes: usize) -> io::Result<(Vec<u8>, bool)> {
        if self.position > UNPACKED_LIMIT {
            return Err(io::Error::other(format!("it is larger than {UNPACKED_LIMIT} bytes")));
        }
        // One byte more shows whether it ends here.
        let missing = (chunk_bytes + 1).saturating_sub(self.pending.len());
        self.reader.by_ref().take(missing as u64).read_to_end(&mut self.pending)?;
        if self.pending.len() <= chunk_bytes {
            return Ok((std::mem::take(&mut self.pending), true));
        }
        let end = memchr::memrchr(b'\n', &self.pending).map_or(self.pending.len(), |at| at + 1);
        let rest = self.pending.split_off(end);
        Ok((std::mem::replace(&mut self.pending, rest), false))
    }
}

/// Detects gzip by the first bytes: services and programs name compressed objects arbitrarily.
fn unpacked(bytes: &Bytes) -> Box<dyn Read + Send> {
    let is_packed = bytes.starts_with(&[0x1f, 0x8b]);
    let plain = Cursor::new(bytes.clone());
    if is_packed { Box::new(MultiGzDecoder::new(plain)) } else { Box::new(plain) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn object(name: &str, minute: i64) -> Object {
        let modified = Micros(minute * 60_000_000);
        Object { name: name.into(), byte_count: 10, modified, tag: Some("t".into()) }
    }

    fn packed(text: &str) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap().into()
    }

    fn lines(count: usize) -> String {
        (0..count).map(|line| format!("line {line}\n")).collect()
    }

    /// Reads wanted objects against a hub that remembers `durable`.
    fn read(
        log: &mut ObjectLog,
        content: impl Fn(&str) -> Bytes,
        durable: &mut HashMap<StreamId, u64>,
        most: usize,
    ) -> String {
        let mut text = String::new();
        log.start(durable);
        for _ in 0..most {
            if let Some(name) = log.wanted().map(|object| object.name.clone()) {
                let bytes = content(&name);
                log.fetched(&name, bytes);
            }
            let Some(chunk) = log.read() else { break };
            assert_eq!(chunk.from, durable.get(&chunk.stream).copied().unwrap_or(0));
            assert_eq!(chunk.is_first, !durable.contains_key(&chunk.stream));
            text += std::str::from_utf8(&chunk.bytes).unwrap();
            durable.insert(chunk.stream, chunk.to);
            log.acknowledge(chunk.to);
        }
        text
    }

    #[test]
    fn objects_are_read_once_in_the_order_of_their_times_whatever_ends_in_between() {
        let content = |name: &str| match name {
            "a/1.log" => Bytes::from(lines(50)),
            "a/2.log.gz" => packed(&lines(70)),
            "a/empty" => Bytes::new(),
            _ => packed("no end of line"),
        };
        let all =
            [object("a/2.log.gz", 2), object("a/1.log", 1), object("a/empty", 3), object("a/3", 4)];
        let expected = [lines(50), lines(70), "no end of line".into()].concat();
        // Restart without any state after each number of chunks.
        for most in 1..60 {
            let (mut durable, mut text) = (HashMap::new(), String::new());
            for _ in 0..200 {
                let mut log = ObjectLog::new(("logs", "a"), 64);
                log.listed(all.to_vec());
                text += &read(&mut log, content, &mut durable, most);
            }
            assert_eq!(text, expected, "{most}");
            assert!(durable.values().all(|position| *position == END) && durable.len() == 4);
        }
    }

    #[test]
    fn what_was_read_is_not_wanted_again_and_what_is_new_is() {
        let mut log = ObjectLog::new(("logs", ""), 1 << 20);
        let mut durable = HashMap::new();
        let content = |name: &str| Bytes::from(format!("{name}\n"));
        log.listed(vec![object("1", 1)]);
        assert!(log.wanted().is_none(), "before it is known where the hub stands");
        assert_eq!(read(&mut log, content, &mut durable, 9), "1\n");
        log.listed(vec![object("1", 1), object("2", 2)]);
        assert_eq!(log.unknown().count(), 1);
        assert_eq!(read(&mut log, content, &mut durable, 9), "2\n");
        // The same name with other content.
        let changed = Object { tag: Some("u".into()), ..object("1", 3) };
        log.listed(vec![changed, object("2", 2)]);
        assert_eq!(read(&mut log, content, &mut durable, 9), "1\n");
        assert_eq!(log.status().lag_bytes, 0);
    }

    #[test]
    fn a_hub_that_stands_elsewhere_is_followed() {
        let mut log = ObjectLog::new(("logs", ""), 64);
        log.listed(vec![object("1", 1)]);
        log.start(&HashMap::new());
        log.fetched("1", packed(&lines(60)));
        let first = log.read().unwrap();
        assert!(log.read().is_none(), "the first chunk comes alone");
        log.acknowledge(first.to);
        let (second, third) = (log.read().unwrap(), log.read().unwrap());
        assert_eq!((second.from, third.from), (first.to, second.to));
        log.rewind(second.to);
        assert_eq!(log.read().unwrap().bytes, third.bytes);
        log.rewind(END);
        assert!(log.read().is_none() && !log.is_reading(first.stream));
    }

    #[test]
    fn an_object_that_cannot_be_fetched_does_not_hold_up_others() {
        let mut log = ObjectLog::new(("logs", ""), 64);
        log.listed(vec![object("1", 1), object("2", 2)]);
        log.start(&HashMap::new());
        assert_eq!(log.wanted().unwrap().name, "1");
        log.failed(Some("1"), "access denied".into());
        assert_eq!(log.wanted().unwrap().name, "2");
        assert_eq!(log.status().state, StreamState::Failed);
        log.listed(vec![object("1", 1), object("2", 2)]);
        assert_eq!(log.status().error, None);
    }

    #[test]
    fn a_broken_object_is_reported_and_retried() {
        let mut log = ObjectLog::new(("logs", ""), 64);
        let whole = packed(&lines(600));
        let half = whole.slice(..whole.len() / 2);
        let mut durable = HashMap::new();
        log.listed(vec![object("1", 1)]);
        let begun = read(&mut log, |_| half.clone(), &mut durable, 999);
        assert!(lines(600).starts_with(&begun));
        let reported = log.status().error.unwrap();
        assert!(reported.contains("cannot unpack `s3://logs/1`"), "{reported}");
        log.listed(vec![object("1", 1)]);
        let rest = read(&mut log, |_| whole.clone(), &mut durable, 999);
        assert_eq!(begun + &rest, lines(600));
        assert!(log.status().error.is_none());
    }
}
