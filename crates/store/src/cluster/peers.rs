//! Serves this hub's rows in memory to queries of other hubs.

use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;
use weir_datafile::{ErrorKind, MemBatch, Snapshot, StoreError, table_index};
use weir_sql::{PeerAsk, PeerRows};
use weir_tables::TableSpec;

use crate::store::Store;

impl Store {
    /// Rows that another hub's query reads from this hub.
    ///
    /// # Errors
    /// `BadQuery`: there is no such table or column; `Moved`: the requested snapshot is too old;
    /// `Io`.
    pub async fn rows_for_peer(&self, ask: &PeerAsk) -> Result<PeerRows, StoreError> {
        let table = weir_tables::table(&ask.table)
            .ok_or_else(|| bad_query(format!("there is no table `{}`", ask.table)))?;
        let schema = table.schema();
        let places: Vec<usize> = ask
            .columns
            .iter()
            .map(|name| schema.index_of(name).map_err(|error| bad_query(error.to_string())))
            .collect::<Result<_, _>>()?;
        let condition = ask.condition.as_deref();
        // A condition that this version cannot parse filters nothing out.
        let condition = condition.and_then(|sql| self.engine.condition(table, sql).ok());
        let view = self.view_at(ask.snapshot).await?;
        let mut left = ask.limit.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        for batch in in_memory_at(&view, table, ask.snapshot)? {
            if left == 0 {
                break;
            }
            let chosen = match &condition {
                // Ignore a condition that fails to evaluate.
                Some(condition) => match condition.choose(&batch.rows) {
                    Ok(fits) => {
                        let fits: BooleanArray =
                            fits.iter().map(|fits| Some(fits == Some(true))).collect();
                        filter_record_batch(&batch.rows, &fits)
                            .map_err(|error| bad_query(error.to_string()))?
                    }
                    Err(_) => batch.rows.clone(),
                },
                None => batch.rows.clone(),
            };
            let chosen = chosen.slice(0, chosen.num_rows().min(left));
            left -= chosen.num_rows();
            if chosen.num_rows() > 0 {
                rows.push(chosen.project(&places).map_err(|error| bad_query(error.to_string()))?);
            }
        }
        Ok(rows)
    }
}

fn bad_query(why: String) -> StoreError {
    StoreError::new(ErrorKind::BadQuery, why)
}

/// Rows that were in memory at a snapshot.
fn in_memory_at(
    view: &Snapshot,
    table: &'static TableSpec,
    snapshot: i64,
) -> Result<Vec<MemBatch>, StoreError> {
    if snapshot < view.forgotten {
        let text = format!("rows as of change {snapshot} are no longer in memory");
        return Err(StoreError::new(ErrorKind::Moved, text).with_hint("ask again"));
    }
    let at = table_index(table);
    let later = view.flushed.iter().filter(|flushed| flushed.snapshot > snapshot);
    let later = later.flat_map(|flushed| flushed.tables[at].iter());
    let own = &view.tables[at];
    Ok(later.chain(own.frozen.iter()).chain(own.hot.iter()).cloned().collect())
}
