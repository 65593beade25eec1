//! `finding`: what weir thinks; one row at each change of state.

table! {
    /// What weir found: one row each time that a finding changes its state; the newest row of a `finding_id` holds.
    Finding, FindingRows = "finding";
    grain: "one row per finding and change of state";
    source: "rules";
    sort: [ts];
    1 ts: Time = "When the state changed, or the evidence was renewed.";
    2 host: Text = "The host it is about; empty when it is about more than one.";
    3 finding_id: Text = "Stays the same from pending to resolved: rule, key and start, hashed.";
    4 rule: Text = "The rule's id, such as tcp.listen_overflow.";
    5 tier: Text = "Where it hurts: client, edge, wire, kernel, proxy, app, db, host, disk, log or weir.";
    6 class: Text = "page, mail or note.";
    7 state: Text = "pending, firing or resolved.";
    8 subject: Text = "What it is about, for a person: `nginx on 0.0.0.0:80`.";
    9 key: Text = "What it is about, for a machine: the rule's key columns as JSON.";
    10 started_ts: Time = "When the condition was first true.";
    11 fired_ts: OptTime = "When it began to fire; NULL while pending.";
    12 resolved_ts: OptTime = "When it was resolved; NULL before.";
    13 summary: Text = "One sentence with the numbers.";
    14 why: Text = "What it means.";
    15 fix: Text = "What to change, down to the line where it could be read.";
    16 evidence: Text = "The rows of the rule's answer, JSON array of objects.";
    17 cause_finding_id: OptText = "The finding at the root of this one, while that fires: this one is a symptom and a note. NULL: it is a root itself.";
    18 cause_rule: OptText = "The root's rule; NULL as above.";
    19 own_class: OptText = "The highest class that its own evidence gave: `class` is more for a root whose symptoms matter more, and note for a symptom. NULL in rows of older versions.";
}
