//! `incident`: incidents that people are notified of; one row at each change.

table! {
    /// Incidents: a root finding with all findings that it explains; the newest row of an
    /// `incident_id` is current.
    Incident, IncidentRows = "incident";
    grain: "one row per incident and change";
    source: "weir";
    sort: [ts];
    ids: [incident_id];
    1 ts: Time = "When it changed.";
    2 host: Text = "The root's host; empty when it is about more than one.";
    3 incident_id: Text = "Constant until 5 minutes after its end.";
    4 state: Text = "open, acked, resolved or merged.";
    5 class: Text = "page, mail or note: the highest of its findings.";
    6 root_rule: Text = "The root finding's rule.";
    7 root_finding_id: Text = "The root finding.";
    8 title: Text = "Title of its messages, at most 78 characters.";
    9 finding_count: Int = "Findings that belong to it and fire, the root included.";
    10 host_count: Int = "Hosts among them.";
    11 opened_ts: Time = "When it was opened.";
    12 acked_by: OptText = "Who acknowledged it; NULL while unacknowledged.";
    13 resolved_ts: OptTime = "When its last finding was resolved, or a person closed it; NULL before.";
    14 merged_into: OptText = "The incident that it became part of; NULL for all but merged ones.";
    15 change: Text = "What changed: `opened`, `worse`, `acknowledged by ada`, `resolved`.";
}
