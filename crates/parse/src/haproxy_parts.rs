//! Parts of HAProxy's records that its formats have in common: names, timers and counters.

use weir_values::number;

use crate::field::Field;
use crate::record::Record;

/// A `~` after the frontend's name marks a TLS connection.
pub(crate) fn proxy_names<'a>(
    [frontend, backend_server]: [&'a str; 2],
    record: &mut Record<'a>,
) -> Option<()> {
    let (backend, server) = backend_server.split_once('/')?;
    let row = &mut record.request;
    row.proxy_frontend = Some(frontend.strip_suffix('~').unwrap_or(frontend));
    row.url_scheme = Some(if frontend.ends_with('~') { "https" } else { "http" });
    row.proxy_backend = Some(backend);
    row.proxy_server = Some(server).filter(|name| !name.starts_with('<'));
    Some(())
}

/// Reads `TR/Tw/Tc/Tr/Ta` in milliseconds; returns Ta in seconds.
///
/// HAProxy does not log when the server's last byte arrived. The closest measure is from the start
/// of connecting to the end of the request, which includes a slow reader.
pub(crate) fn timers(timers: &str, record: &mut Record<'_>) -> Option<Option<f64>> {
    let mut spans = [None; 5];
    let mut parts = timers.split('/');
    for span in &mut spans {
        *span = milliseconds(parts.next()?)?;
    }
    let [read, queue, connect, header, total] = spans;
    let until_header = connect.zip(header).map(|(connect, header)| connect + header);
    let before = read.unwrap_or(0.0) + queue.unwrap_or(0.0);
    // As in nginx, time spent on a server that never answered counts.
    let is_asked = queue.is_some() && record.request.proxy_server.is_some();
    let response = total.filter(|_| is_asked).map(|total| total - before);
    let response = response.map(|span| span.max(until_header.unwrap_or(0.0)));
    let row = &mut record.request;
    row.request_read_seconds = seconds(read);
    row.queue_seconds = seconds(queue);
    row.upstream_connect_seconds = seconds(connect);
    row.upstream_header_seconds = seconds(until_header);
    row.upstream_response_seconds = seconds(response);
    row.duration_seconds = seconds(total);
    parts.next().is_none().then(|| seconds(total))
}

fn seconds(milliseconds: Option<f64>) -> Option<f64> {
    milliseconds.map(|value| value / 1000.0)
}

/// Outer `None`: not a number. Inner: -1, the phase was not reached.
pub(crate) fn milliseconds(text: &str) -> Option<Option<f64>> {
    let value = number::float(text.strip_prefix('+').unwrap_or(text))?;
    Some((value >= 0.0).then_some(value))
}

/// `actconn/feconn/beconn/srv_conn/retries srv_queue/backend_queue`; a `+` at the retries is a
/// redispatch.
pub(crate) fn counters<'a>(
    [connections, queues]: [&'a str; 2],
    record: &mut Record<'a>,
) -> Option<()> {
    let mut parts = connections.split('/');
    for name in ["actconn", "feconn", "beconn", "srv_conn"] {
        record.put([name, parts.next()?], Field::Attr);
    }
    let retries = parts.next()?;
    if let Some(redispatched) = retries.strip_prefix('+') {
        record.put(["is_redispatched", "true"], Field::Attr);
        tries(redispatched, record)?;
    } else {
        tries(retries, record)?;
    }
    let (server_queue, backend_queue) = queues.split_once('/')?;
    record.put(["srv_queue", server_queue], Field::Attr);
    record.put(["backend_queue", backend_queue], Field::Attr);
    Some(())
}

fn tries(retries: &str, record: &mut Record<'_>) -> Option<()> {
    let retries = number::integer(retries)?;
    let is_asked = record.request.proxy_server.is_some();
    record.request.upstream_tries = Some(if is_asked { retries.saturating_add(1) } else { 0 });
    Some(())
}
