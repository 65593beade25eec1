//! `threshold_proposal`: what the thresholds of rules should be by their own past.

table! {
    /// What the thresholds of rules should be by their own past; nothing is changed by itself.
    ThresholdProposal, ThresholdProposalRows = "threshold_proposal";
    grain: "one row per rule whose threshold is one number, and week";
    source: "rules";
    sort: [rule, ts];
    1 ts: Time = "When it was mined.";
    2 host: Text = "The host of the hub that mined it.";
    3 rule: Text = "The rule's id.";
    4 class: Text = "The rule's class: page, mail or note.";
    5 value: Float = "The threshold in force.";
    6 proposed: OptFloat = "The threshold that keeps to what was asked; NULL when too little is known.";
    7 unit: Text = "Unit of both.";
    8 asked_per_week: Float = "False findings of the rule that are accepted in a week.";
    9 known_seconds: Float = "How much of the past is known, at most four weeks.";
    10 subjects: Int = "Subjects that it was mined from.";
    11 events: Int = "Times that the value in force was passed in that past.";
    12 events_proposed: OptInt = "The same of the proposed one; NULL without one.";
    13 unknown: OptText = "Why there is no proposal; NULL when there is one.";
}
