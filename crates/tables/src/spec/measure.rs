//! `measure`: the values whose thresholds are mined, one a subject and five minutes.

table! {
    /// The values whose thresholds are mined: five minutes of a subject of a rule, and what was normal then.
    Measure, MeasureRows = "measure";
    grain: "one row per rule with a section `[threshold]`, subject and five minutes";
    source: "rules";
    sort: [rule, host, subject, ts];
    1 ts: Time = "When the five minutes began.";
    2 host: Text = "The host that the value is of.";
    3 rule: Text = "The rule's id.";
    4 subject: Text = "What the value is of: an upstream, a log.";
    5 value: Float = "The value, in the unit of the rule's threshold.";
    6 expected: OptFloat = "What is normal at this half hour of the week, as it was known then. NULL when too little was known, and for rules that compare with one number.";
    7 low: OptFloat = "Below this five minutes are unusual; NULL as above.";
    8 high: OptFloat = "Above this five minutes are unusual; NULL as above.";
    9 nearness_ratio: OptFloat = "How near the last five minutes, half hour or three hours come to an event, 1 at the threshold; negative below normal. NULL as above.";
}
