//! Members of a replicated database, as one server reports them: rows of `db_member`.

use weir_tables::{DbMember, DbMemberRows, Micros};

use super::{DatabaseTarget, ReplicaLink, ServerSnapshot};

/// What a server knows about itself beyond its links.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OwnMember {
    pub(super) cluster: Option<String>,
    pub(super) position: Option<i64>,
    pub(super) term: Option<i64>,
    pub(super) is_read_only: Option<bool>,
}

/// Adds the row of the queried server, and one of each replica that it serves.
pub(super) fn push_members(
    rows: &mut DbMemberRows,
    host: &str,
    now: Micros,
    target: &DatabaseTarget,
    snapshot: &ServerSnapshot,
) {
    let own = &snapshot.own;
    let of_role = |role| snapshot.links.iter().filter(move |link: &&ReplicaLink| link.role == role);
    let source = of_role("source").next();
    let serves = of_role("replica").next().is_some();
    let role = match snapshot.is_replica {
        None => return,
        Some(false) => "primary",
        Some(true) if serves => "relay",
        Some(true) => "replica",
    };
    let row = DbMember {
        ts: now,
        host,
        system: target.system.as_str(),
        server_address: &target.address,
        cluster: own.cluster.as_deref().unwrap_or_default(),
        ..DbMember::default()
    };
    rows.push(&DbMember {
        member: &target.address,
        is_self: true,
        role,
        source_member: source.map(|link| link.peer.as_str()).filter(|peer| !peer.is_empty()),
        state: source.map_or("", |link| link.state.as_str()),
        position: own.position,
        term: own.term,
        is_read_only: own.is_read_only,
        ..row
    });
    for link in of_role("replica") {
        rows.push(&DbMember {
            member: &link.peer,
            is_self: false,
            role: "replica",
            source_member: Some(&target.address),
            state: &link.state,
            position: link.applied_position,
            ..row
        });
    }
}
