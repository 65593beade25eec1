//! `finding`: findings; one row at each change of state.

table! {
    /// Findings: one row each time a finding changes state; the newest row of a `finding_id` is
    /// current.
    Finding, FindingRows = "finding";
    grain: "one row per finding and change of state";
    source: "rules";
    sort: [ts];
    1 ts: Time = "When the state changed or the evidence was refreshed.";
    2 host: Text = "The host it is about; empty when it is about more than one.";
    3 finding_id: Text = "Constant from pending to resolved: hash of rule, key and start.";
    4 rule: Text = "The rule's id, such as tcp.listen_overflow.";
    5 tier: Text = "Affected tier: client, edge, wire, kernel, proxy, app, db, host, disk, log or weir.";
    6 class: Text = "page, mail or note.";
    7 state: Text = "pending, firing or resolved.";
    8 subject: Text = "Subject for people: `nginx on 0.0.0.0:80`.";
    9 key: Text = "Subject for programs: the rule's key columns as JSON.";
    10 started_ts: Time = "When the condition was first true.";
    11 fired_ts: OptTime = "When it started firing; NULL while pending.";
    12 resolved_ts: OptTime = "When it was resolved; NULL before.";
    13 summary: Text = "One sentence with the numbers.";
    14 why: Text = "What it means.";
    15 fix: Text = "What to change, down to the line where it could be read.";
    16 evidence: Text = "The rows of the rule's result, a JSON array of objects.";
    17 cause_finding_id: OptText = "The root finding of this one, while it fires: this one is a symptom and a note. NULL for a root.";
    18 cause_rule: OptText = "Rule of the root finding; NULL as above.";
    19 own_class: OptText = "Highest class from its own evidence: `class` is higher for a root whose symptoms matter more, and note for a symptom, also for a minute after its cause ended. NULL in rows of older versions.";
}
