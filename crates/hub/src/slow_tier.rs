//! The cold tier from the configuration: `store.slow_path` and what moves there.

use std::time::Duration;

use weir_config::Store;
use weir_config::place::{read_bytes, read_secret};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_store::{BucketOptions, ReadPrices, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule};
use weir_tables::TABLES;
use weir_tables::nearest;

/// `None` without a cold tier.
///
/// # Errors
/// When a key for single tables names none, or no number.
pub fn options(store: &Store) -> Result<Option<SlowOptions>, Failure> {
    let (days, bytes) = (
        by_table("store.slow_after_days_of", &store.slow_after_days_of)?,
        by_table("store.fast_bytes_of", &store.fast_bytes_of)?,
    );
    let Some(path) = store.slow_path.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    if let Some(url) = path.to_str().and_then(|path| path.strip_prefix("s3://")) {
        return bucket(store, url).map(|place| Some(tiers(store, place, &days, &bytes)));
    }
    if is_inside(path, &store.dir) || is_inside(&store.dir, path) {
        let text = format!(
            "cannot use `store.slow_path`: `{}` and `{}` are inside each other",
            path.display(),
            store.dir.display()
        );
        return Err(Failure::new(text).hint("name a directory on another disk").code(EXIT_CONFIG));
    }
    Ok(Some(tiers(store, SlowPlace::Directory(path.clone()), &days, &bytes)))
}

/// Whether the directory `one` is `other`, or lies below it.
pub fn is_inside(one: &std::path::Path, other: &std::path::Path) -> bool {
    absolute(one).starts_with(absolute(other))
}

fn absolute(path: &std::path::Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn tiers(
    store: &Store,
    place: SlowPlace,
    days: &[(&'static str, u64)],
    bytes: &[(&'static str, u64)],
) -> SlowOptions {
    let rule = |table: &str| SlowRule {
        after: after(*of(days, table).unwrap_or(&store.slow_after_days)),
        fast_bytes: of(bytes, table).map_or(u64::MAX, |bytes| or_all(*bytes)),
    };
    let named = days.iter().chain(bytes).map(|(table, _)| *table);
    SlowOptions {
        place,
        rule: SlowRule { after: after(store.slow_after_days), fast_bytes: u64::MAX },
        by_table: named.map(|table| (table.to_owned(), rule(table))).collect(),
        fast_bytes: or_all(store.fast_bytes),
    }
}

/// A place by its URL or directory, with the rest as it is configured.
///
/// # Errors
/// When the URL names no bucket, or keys are given by half.
pub fn place(store: &Store, place: &str) -> Result<SlowPlace, Failure> {
    match place.strip_prefix("s3://") {
        Some(url) => bucket(store, url),
        None => Ok(SlowPlace::Directory(place.into())),
    }
}

/// What reading from a bucket costs.
fn read_prices(store: &Store) -> ReadPrices {
    ReadPrices {
        per_million_requests: usd(store.slow_cents_per_million_reads),
        per_gigabyte: usd(store.slow_cents_per_gigabyte),
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn usd(cents: u64) -> f64 {
    cents as f64 / 100.0
}

/// `BUCKET/PREFIX`.
fn bucket(store: &Store, url: &str) -> Result<SlowPlace, Failure> {
    let (bucket, prefix) = url.split_once('/').unwrap_or((url, ""));
    let wrong = |what: &str, hint: &str| {
        Err(Failure::new(format!("cannot use `s3://{url}`: {what}")).hint(hint).code(EXIT_CONFIG))
    };
    if bucket.is_empty() {
        return wrong("it names no bucket", "write it as s3://BUCKET/PREFIX");
    }
    if store.slow_user.is_empty() == store.slow_password_file.is_some() {
        return wrong(
            "`store.slow_user` and `store.slow_password_file` must be set together",
            "the access key and a file with the secret key",
        );
    }
    let password = store.slow_password_file.as_deref().map(read_secret).transpose()?;
    let options = BucketOptions {
        bucket: bucket.to_owned(),
        endpoint: filled(&store.slow_endpoint),
        region: filled(&store.slow_region),
        keys: filled(&store.slow_user).zip(password),
        authority: store.slow_ca_file.as_deref().map(read_bytes).transpose()?,
        timeout: Duration::from_secs(store.slow_timeout_seconds.max(1)),
    };
    Ok(SlowPlace::Bucket(Box::new(SlowBucketOptions {
        prefix: prefix.to_owned(),
        requests: usize::try_from(store.slow_requests.max(1)).unwrap_or(usize::MAX),
        hedge_after: Some(Duration::from_millis(store.slow_hedge_milliseconds))
            .filter(|after| !after.is_zero()),
        join_bytes: store.slow_join_bytes,
        cache_bytes: store.slow_cache_bytes,
        prices: read_prices(store),
        ..SlowBucketOptions::new(options)
    })))
}

fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
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
        assert_eq!(
            refusal(days("requests=3")),
            "cannot use `store.slow_after_days_of`: there is no such table in `requests=3`\nhint: did you mean `request`?"
        );
        assert!(refusal(days("log=soon")).contains("no whole number behind `=`"));
        let inside = Store { dir: "/a".into(), slow_path: Some("/a/b".into()), ..Store::default() };
        assert!(refusal(inside).contains("are inside each other"));
        assert!(refusal(store_at("s3:///weir")).contains("it names no bucket"));
        let half = Store { slow_user: "weir".into(), ..store_at("s3://rows/weir") };
        assert!(refusal(half).contains("must be set together"));
    }

    fn store_at(url: &str) -> Store {
        Store { slow_path: Some(url.into()), ..Store::default() }
    }

    fn refusal(store: Store) -> String {
        options(&store).unwrap_err().to_string()
    }

    fn days(text: &str) -> Store {
        Store { slow_after_days_of: vec![text.into()], ..Store::default() }
    }
}
