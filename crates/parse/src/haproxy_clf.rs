//! What HAProxy's `option httplog clf` adds to the combined format (configuration manual, "CLF
//! format"): `… "" "" port ms "frontend" "backend" "server" TR Tw Tc Tr Ta flags ac fc bc sc rc sq
//! bq "cookie" "cookie" "headers" "headers"`.

use weir_tables::Micros;
use weir_values::number;

use crate::field::Field;
use crate::haproxy_parts;
use crate::record::Record;
use crate::traefik;

/// Reads the text behind the user agent; `None`, with the record unchanged, if it is not HAProxy's.
pub(crate) fn parse_end<'a>(rest: &'a str, record: &mut Record<'a>) -> Option<()> {
    let (port, rest) = rest.split_once(' ')?;
    let (milliseconds, rest) = rest.split_once(' ')?;
    let (frontend, rest) = traefik::value(rest)?;
    let (backend, rest) = traefik::value(rest)?;
    let (server, rest) = traefik::value(rest)?;
    let words: Vec<&str> = rest.splitn(14, ' ').collect();
    let [read, queue, connect, header, total, state, numbers @ ..] = words.as_slice() else {
        return None;
    };
    let [actconn, feconn, beconn, srv_conn, retries, srv_queue, backend_queue, texts] = numbers
    else {
        return None;
    };
    let port = number::integer(port)?;
    let milliseconds = number::integer(milliseconds).filter(|part| (0..1000).contains(part))?;
    let arena = record.arena;
    let saved = record.request;
    haproxy_parts::proxy_names(
        [frontend, arena.alloc_str(&format!("{backend}/{server}"))],
        record,
    )?;
    let spans = [*read, *queue, *connect, *header, *total].join("/");
    let counts = [*actconn, *feconn, *beconn, *srv_conn, *retries].join("/");
    let queues = format!("{srv_queue}/{backend_queue}");
    let Some(total) = haproxy_parts::timers(&spans, record) else {
        record.request = saved;
        return None;
    };
    haproxy_parts::counters([arena.alloc_str(&counts), arena.alloc_str(&queues)], record);
    // The time is that of the request's start, as in the default format.
    let end = Micros::from_unix_seconds(total.unwrap_or(0.0)).0 + milliseconds * 1000;
    record.ts = record.ts.map(|start| Micros(start.0.saturating_add(end)));
    // Behind the address `unix` is the number of the listening socket.
    record.request.client_port = Some(port).filter(|_| record.text("remote_addr") != Some("unix"));
    record.request.termination_state = Some(state);
    record.put(["program", "haproxy"], Field::Program);
    record.attr(["captured", texts.trim_matches(['"', ' '])]);
    Some(())
}
