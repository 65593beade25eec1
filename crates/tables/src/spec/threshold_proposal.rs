//! `threshold_proposal`: proposed thresholds of rules, derived from their history.

table! {
    /// Proposed thresholds of rules, derived from their history; nothing is changed automatically.
    ThresholdProposal, ThresholdProposalRows = "threshold_proposal";
    grain: "one row per week and rule with a constant threshold";
    source: "rules";
    sort: [rule, ts];
    1 ts: Time = "When it was mined.";
    2 host: Text = "The host of the hub that mined it.";
    3 rule: Text = "The rule's id.";
    4 class: Text = "The rule's class: page, mail or note.";
    5 value: Float = "The current threshold.";
    6 proposed: OptFloat = "The threshold that meets the target rate; NULL when too little is known.";
    7 unit: Text = "Unit of both.";
    8 asked_per_week: Float = "Accepted false findings of the rule per week.";
    9 known_seconds: Float = "Length of the known history, at most four weeks.";
    10 subjects: Int = "Subjects that it was mined from.";
    11 events: Int = "How often the current threshold was exceeded in that history.";
    12 events_proposed: OptInt = "How often the proposed threshold would have been exceeded; NULL without one.";
    13 unknown: OptText = "Why there is no proposal; NULL when there is one.";
}
