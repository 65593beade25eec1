//! What this hub gives others of its rows in memory.

use arrow_array::BooleanArray;
use arrow_select::filter::filter_record_batch;
use weir_datafile::{ErrorKind, MemBatch, Snapshot, StoreError, table_index};
use weir_sql::{PeerAsk, PeerRows};
use weir_tables::TableSpec;

use crate::store::Store;

impl Store {
    /// Rows that another hub's query wants of this one.
    ///
    /// # Errors
    /// `BadQuery`: there is no such table or column; `Moved`: it asks for a change that is too long ago; `Io`.
    pub async fn rows_for_peer(&self, ask: &PeerAsk) -> Result<PeerRows, StoreError> {
        let bad = |why: String| StoreError::new(ErrorKind::BadQuery, why);
        let table = weir_tables::table(&ask.table)
            .ok_or_else(|| bad(format!("there is no table `{}`", ask.table)))?;
        let schema = table.schema();
        let places: Vec<usize> = ask
            .columns
            .iter()
            .map(|name| schema.index_of(name).map_err(|error| bad(error.to_string())))
            .collect::<Result<_, _>>()?;
        let condition = ask.condition.as_deref();
        // One that is not understood here leaves nothing out.
        let condition = condition.and_then(|sql| self.engine.condition(table, sql).ok());
        let view = self.view_at(ask.snapshot).await?;
        let mut left = ask.limit.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        for batch in in_memory_at(&view, table, ask.snapshot)? {
            if left == 0 {
                break;
            }
            let chosen = match &condition {
                // A condition that cannot be asked leaves nothing out.
                Some(condition) => match condition.choose(&batch.rows) {
                    Ok(fits) => {
                        let fits: BooleanArray =
                            fits.iter().map(|fits| Some(fits == Some(true))).collect();
                        filter_record_batch(&batch.rows, &fits)
                            .map_err(|error| bad(error.to_string()))?
                    }
                    Err(_) => batch.rows.clone(),
                },
                None => batch.rows.clone(),
            };
            let chosen = chosen.slice(0, chosen.num_rows().min(left));
            left -= chosen.num_rows();
            if chosen.num_rows() > 0 {
                rows.push(chosen.project(&places).map_err(|error| bad(error.to_string()))?);
            }
        }
        Ok(rows)
    }
}

/// Rows that were not in files at a change.
fn in_memory_at(
    view: &Snapshot,
    table: &'static TableSpec,
    snapshot: i64,
) -> Result<Vec<MemBatch>, StoreError> {
    if snapshot < view.forgotten {
        let text = format!("rows of change {snapshot} are asked for, and are not kept that long");
        return Err(StoreError::new(ErrorKind::Moved, text).with_hint("ask again"));
    }
    let at = table_index(table);
    let later = view.flushed.iter().filter(|flushed| flushed.snapshot > snapshot);
    let later = later.flat_map(|flushed| flushed.tables[at].iter());
    let own = &view.tables[at];
    Ok(later.chain(own.frozen.iter()).chain(own.hot.iter()).cloned().collect())
}
