//! Views: queries over one table that rules, page and hub share, each defined once.
//!
//! A view filters the rows of its table and adds columns to them, so the planner moves the time
//! range of a query below it and reads no more than it would of the table. `finding_now` is the
//! exception: the newest row of a finding is that of all time, so rules, which may be replayed as
//! of an earlier time, do not read it.

use crate::table::{Column, DataKind, TableSpec};
use crate::{ConfigDirective, Finding, Incident, Listener, Notice, Request};

/// A view: what docs, catalogue and page need, and its query.
#[derive(Clone, Copy, Debug)]
pub struct ViewSpec {
    /// Name, docs and columns, as for a table; nothing sorts or indexes them.
    pub table: TableSpec,
    /// The query.
    pub sql: &'static str,
}

/// Every view, in the order in which the docs list them.
pub const VIEWS: &[&ViewSpec] =
    &[&PROXY_REQUEST, &LISTENER_QUEUE, &LISTEN_DIRECTIVE, &FINDING_NOW, &INCIDENT_NOW, &NOTICE_NOW];

/// The view called `name`, or `None`.
pub fn view(name: &str) -> Option<&'static ViewSpec> {
    VIEWS.iter().copied().find(|view| view.table.name == name)
}

const PROXY_REQUEST_ADDS: [Column; 5] = [
    added(
        "upstream",
        DataKind::Text,
        "The pool (`proxy_backend`), else the upstream's address; NULL when the proxy answered itself.",
    ),
    added(
        "pool",
        DataKind::Text,
        "The pool (`proxy_backend`), else the requested server name; NULL without both.",
    ),
    added(
        "first_byte_seconds",
        DataKind::Float,
        "Time of the application: from the connection to the first byte of its response; NULL without one.",
    ),
    required(
        "app_seconds",
        DataKind::Float,
        "The same, or until the proxy gave up waiting for that byte; 0 when it did not connect or nothing was measured.",
    ),
    added(
        "to_client_seconds",
        DataKind::Float,
        "Time of the client: the whole duration without the upstream's response and the proxy's own queue; NULL when the duration was not measured.",
    ),
];

const PROXY_REQUEST: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "proxy_request",
        doc: "Requests as proxies and load balancers measured them, with the shares of application and client.",
        grain: "one row per request of `request` with tier `proxy` or `edge`",
        source: "request",
        sort: &[],
        ids: &[],
        words: &[],
        columns: &with_added::<{ Request::SPEC.columns.len() + 5 }>(
            Request::SPEC.columns,
            &PROXY_REQUEST_ADDS,
        ),
    },
    sql: "select *, coalesce(nullif(proxy_backend, ''), upstream_address) as upstream,
  coalesce(nullif(proxy_backend, ''), server_address) as pool,
  upstream_header_seconds - coalesce(upstream_connect_seconds, 0.0) as first_byte_seconds,
  case when upstream_connect_seconds is null and upstream_header_seconds is null then 0.0
    else greatest(coalesce(upstream_header_seconds, upstream_response_seconds) - coalesce(upstream_connect_seconds, 0.0), 0.0)
    end as app_seconds,
  duration_seconds - coalesce(upstream_response_seconds, upstream_header_seconds, 0.0)
    - coalesce(queue_seconds, 0.0) as to_client_seconds
from request where tier in ('proxy', 'edge')",
};

const LISTENER_QUEUE_ADDS: [Column; 3] = [
    required("endpoint", DataKind::Text, "Address and port: `0.0.0.0:80`, `[::]:80`."),
    required("process", DataKind::Text, "`process_name`, or `an unknown process`."),
    required(
        "is_full",
        DataKind::Flag,
        "Whether the queue is at its limit, so that the next connection is dropped.",
    ),
];

const LISTENER_QUEUE: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "listener_queue",
        doc: "Accept queues of listening sockets, with the names that findings show.",
        grain: "one row per row of `listener`",
        source: "listener",
        sort: &[],
        ids: &[],
        words: &[],
        columns: &with_added::<{ Listener::SPEC.columns.len() + 3 }>(
            Listener::SPEC.columns,
            &LISTENER_QUEUE_ADDS,
        ),
    },
    sql: "select *,
  case when server_address like '%:%' then concat('[', server_address, ']:', server_port)
    else concat(server_address, ':', server_port) end as endpoint,
  coalesce(process_name, 'an unknown process') as process,
  accept_queue_length > 0 and accept_queue_length >= accept_queue_limit as is_full
from listener",
};

const LISTEN_DIRECTIVE_ADDS: [Column; 2] = [
    added(
        "backlog",
        DataKind::Int,
        "The backlog that it requests in listen(); NULL when it has none.",
    ),
    required(
        "bare_arguments",
        DataKind::Text,
        "Its arguments without the backlog, to write another one behind them.",
    ),
];

const LISTEN_DIRECTIVE: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "listen_directive",
        doc: "Directives of proxies that listen: nginx's `listen`, HAProxy's `bind`, Apache's `Listen`.",
        grain: "one row per row of `config_directive` with one of these directives",
        source: "config_directive",
        sort: &[],
        ids: &[],
        words: &[],
        columns: &with_added::<{ ConfigDirective::SPEC.columns.len() + 2 }>(
            ConfigDirective::SPEC.columns,
            &LISTEN_DIRECTIVE_ADDS,
        ),
    },
    sql:
        "select *, cast((regexp_match(arguments, 'backlog[= ]+([0-9]+)'))[1] as bigint) as backlog,
  trim(regexp_replace(arguments, ' *backlog[= ]+[0-9]+', '')) as bare_arguments
from config_directive where directive in ('listen', 'bind', 'Listen')",
};

const FINDING_NOW: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "finding_now",
        doc: "The current row of every finding: its newest one.",
        grain: "one row per finding",
        source: "finding",
        sort: &[],
        ids: &[],
        words: &[],
        columns: Finding::SPEC.columns,
    },
    // At the same time the later state holds.
    sql: "select * exclude (newest_rank) from (
  select *, row_number() over (partition by finding_id order by ts desc,
    case state when 'resolved' then 2 when 'firing' then 1 else 0 end desc) as newest_rank
  from finding
) where newest_rank = 1",
};

const INCIDENT_NOW: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "incident_now",
        doc: "The current row of every incident: its newest one.",
        grain: "one row per incident",
        source: "incident",
        sort: &[],
        ids: &[],
        words: &[],
        columns: Incident::SPEC.columns,
    },
    sql: "select * exclude (newest_rank) from (
  select *, row_number() over (partition by incident_id order by ts desc,
    case state when 'merged' then 3 when 'resolved' then 2 when 'acked' then 1 else 0 end desc) as newest_rank
  from incident
) where newest_rank = 1",
};

const NOTICE_NOW: ViewSpec = ViewSpec {
    table: TableSpec {
        name: "notice_now",
        doc: "The current row of every notice: its newest one.",
        grain: "one row per notice",
        source: "notice",
        sort: &[],
        ids: &[],
        words: &[],
        columns: Notice::SPEC.columns,
    },
    sql: "select * exclude (newest_rank) from (
  select *, row_number() over (partition by notice_id order by ts desc, attempt desc,
    case state when 'queued' then 0 when 'sending' then 1 else 2 end desc) as newest_rank
  from notice
) where newest_rank = 1",
};

/// A column that a view adds; no file has it, so it has no id.
const fn added(name: &'static str, kind: DataKind, doc: &'static str) -> Column {
    Column { id: 0, name, kind, is_nullable: true, doc }
}

/// A column that a view adds and that is never NULL.
const fn required(name: &'static str, kind: DataKind, doc: &'static str) -> Column {
    Column { is_nullable: false, ..added(name, kind, doc) }
}

/// The columns of a table, then the view's.
const fn with_added<const ALL: usize>(own: &[Column], adds: &[Column]) -> [Column; ALL] {
    let mut all = [own[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < own.len() { own[at] } else { adds[at - own.len()] };
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_view_has_the_name_of_a_table() {
        for view in VIEWS {
            assert!(crate::table(view.table.name).is_none(), "{}", view.table.name);
            assert!(view.table.columns.len() >= 2, "{}", view.table.name);
        }
    }
}
