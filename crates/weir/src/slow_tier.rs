//! The slow tier from the configuration: `store.slow_path` and what moves there.

use std::time::Duration;

use weir_store::{SlowOptions, SlowPlace, SlowRule};
use weir_tables::TABLES;

use crate::config::Store;
use crate::failure::{EXIT_CONFIG, Failure};
use crate::nearest::nearest;

/// `None` without a slow tier.
///
/// # Errors
/// When a key for single tables names none, or no number.
pub(crate) fn options(store: &Store) -> Result<Option<SlowOptions>, Failure> {
    let (days, bytes) = (
        by_table("store.slow_after_days_of", &store.slow_after_days_of)?,
        by_table("store.fast_bytes_of", &store.fast_bytes_of)?,
    );
    let Some(path) = store.slow_path.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let inside = |one: &std::path::Path, other: &std::path::Path| {
        let real =
            |path: &std::path::Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        real(one).starts_with(real(other))
    };
    if inside(path, &store.dir) || inside(&store.dir, path) {
        let text = format!(
            "cannot use `store.slow_path`: `{}` and `{}` are inside each other",
            path.display(),
            store.dir.display()
        );
        return Err(Failure::new(text).hint("name a directory on another disk").code(EXIT_CONFIG));
    }
    let rule = |table: &str| SlowRule {
        after: after(*of(&days, table).unwrap_or(&store.slow_after_days)),
        fast_bytes: of(&bytes, table).map_or(u64::MAX, |bytes| or_all(*bytes)),
    };
    let named = days.iter().chain(&bytes).map(|(table, _)| *table);
    Ok(Some(SlowOptions {
        place: SlowPlace::Directory(path.clone()),
        rule: SlowRule { after: after(store.slow_after_days), fast_bytes: u64::MAX },
        by_table: named.map(|table| (table.to_owned(), rule(table))).collect(),
        fast_bytes: or_all(store.fast_bytes),
    }))
}

fn after(days: u64) -> Duration {
    Duration::from_secs(days.saturating_mul(86_400))
}

fn or_all(bytes: u64) -> u64 {
    if bytes == 0 { u64::MAX } else { bytes }
}

fn of<'a>(list: &'a [(&str, u64)], table: &str) -> Option<&'a u64> {
    list.iter().find(|entry| entry.0 == table).map(|entry| &entry.1)
}

/// Reads `table=number`.
fn by_table(key: &str, texts: &[String]) -> Result<Vec<(&'static str, u64)>, Failure> {
    let wrong = |text: &str, what: &str| {
        Failure::new(format!("cannot use `{key}`: {what} in `{text}`")).code(EXIT_CONFIG)
    };
    let read = |text: &String| {
        let (table, number) = text.split_once('=').unwrap_or((text, ""));
        let spec = weir_tables::table(table.trim()).ok_or_else(|| {
            let names = TABLES.iter().map(|spec| spec.name);
            let hint = nearest(table.trim(), names).map_or_else(
                || "`weir tables` lists the tables".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            wrong(text, "there is no such table").hint(hint)
        })?;
        let number = number.trim().parse().map_err(|_| {
            wrong(text, "there is no whole number behind `=`").hint(format!("{}=14", spec.name))
        })?;
        Ok((spec.name, number))
    };
    texts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_differ_by_name() {
        let store = Store {
            slow_path: Some("/mnt/slow".into()),
            slow_after_days_of: vec!["log=14".into()],
            fast_bytes_of: vec!["log = 1000".into(), "request=5".into()],
            ..Store::default()
        };
        let options = options(&store).expect("it is right").expect("there is a path");
        let rule = |name: &str| options.by_table.iter().find(|entry| entry.0 == name).unwrap().1;
        assert_eq!(rule("log"), SlowRule { after: after(14), fast_bytes: 1000 });
        assert_eq!(rule("request"), SlowRule { after: after(7), fast_bytes: 5 });
    }

    #[test]
    fn wrong_names_and_places_are_refused() {
        let told = |store: Store| options(&store).unwrap_err().to_string();
        let days = |text: &str| Store { slow_after_days_of: vec![text.into()], ..Store::default() };
        assert_eq!(
            told(days("requests=3")),
            "cannot use `store.slow_after_days_of`: there is no such table in `requests=3`\nhint: did you mean `request`?"
        );
        assert!(told(days("log=soon")).contains("no whole number behind `=`"));
        let inside = Store { dir: "/a".into(), slow_path: Some("/a/b".into()), ..Store::default() };
        assert!(told(inside).contains("are inside each other"));
    }
}
