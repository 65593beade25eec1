//! What all targets have in common: a batch, those of its rows that are still to be sent, and what became of the others.

use std::collections::BTreeMap;

use crate::batch::{Batch, Form};
use crate::{Elastic, Http, Kafka, Objects};

/// Where rows are copied to.
#[derive(Debug)]
pub enum Target {
    /// Elasticsearch's bulk protocol, also spoken by OpenSearch and by weir itself.
    Elasticsearch(Elastic),
    /// A topic of Kafka.
    Kafka(Box<Kafka>),
    /// JSON lines, posted.
    Http(Http),
    /// Objects in a bucket.
    Objects(Objects),
}

/// A batch on its way.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Numbers of the rows that no answer has settled yet, ascending.
    pub(crate) docs: Vec<usize>,
    /// Rows that the target took now.
    pub(crate) copied: u64,
    /// Rows that it had already.
    pub(crate) repeats: u64,
    /// Rows that it will never take, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// Reasons told apart in one batch.
const REASONS_MAX: usize = 16;

impl Pending {
    /// All rows of a batch.
    pub(crate) fn new(batch: &Batch) -> Self {
        Self { docs: (0..batch.docs.len()).collect(), ..Self::default() }
    }

    /// The target will never take a row.
    pub(crate) fn refuse(&mut self, reason: &str) {
        let is_known = self.refused.contains_key(reason) || self.refused.len() < REASONS_MAX;
        *self.refused.entry(if is_known { reason } else { "other" }.to_owned()).or_default() += 1;
    }
}

impl Target {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Elasticsearch(_) => "elasticsearch",
            Self::Kafka(_) => "kafka",
            Self::Http(_) => "http",
            Self::Objects(_) => "s3",
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Elasticsearch(_) => Form::Json { has_timestamp: true },
            Self::Kafka(_) | Self::Http(_) => Form::Json { has_timestamp: false },
            Self::Objects(objects) => objects.form(),
        }
    }

    /// Sends what is pending, and takes out what an answer has settled.
    ///
    /// # Errors
    /// Something is still pending, and why.
    pub(crate) async fn send(
        &mut self,
        batch: &Batch,
        pending: &mut Pending,
    ) -> Result<(), String> {
        match self {
            Self::Elasticsearch(elastic) => elastic.send(batch, pending).await,
            Self::Kafka(kafka) => kafka.send(batch, pending).await,
            Self::Http(http) => http.send(batch, pending).await,
            Self::Objects(objects) => objects.send(batch, pending).await,
        }
    }
}
