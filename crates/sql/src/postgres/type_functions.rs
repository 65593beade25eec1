//! Functions that convert types, which drivers join to `pg_type` to tell arrays from scalars, and
//! PostgreSQL's keywords.
//!
//! Source: `pg_type.dat`, and the manual's appendix "SQL Key Words". OIDs are weir's own.

/// OID of the first of [`FUNCTIONS`].
pub(super) const FIRST_FUNCTION_OID: u32 = 6000;

/// Names of functions; their OIDs follow the order.
pub(super) const FUNCTIONS: &[&str] = &[
    "array_in",
    "array_out",
    "array_recv",
    "array_send",
    "boolin",
    "boolout",
    "boolrecv",
    "boolsend",
    "byteain",
    "byteaout",
    "bytearecv",
    "byteasend",
    "charin",
    "charout",
    "charrecv",
    "charsend",
    "namein",
    "nameout",
    "namerecv",
    "namesend",
    "int8in",
    "int8out",
    "int8recv",
    "int8send",
    "int2in",
    "int2out",
    "int2recv",
    "int2send",
    "int4in",
    "int4out",
    "int4recv",
    "int4send",
    "textin",
    "textout",
    "textrecv",
    "textsend",
    "oidin",
    "oidout",
    "oidrecv",
    "oidsend",
    "json_in",
    "json_out",
    "json_recv",
    "json_send",
    "float4in",
    "float4out",
    "float4recv",
    "float4send",
    "float8in",
    "float8out",
    "float8recv",
    "float8send",
    "bpcharin",
    "bpcharout",
    "bpcharrecv",
    "bpcharsend",
    "varcharin",
    "varcharout",
    "varcharrecv",
    "varcharsend",
    "date_in",
    "date_out",
    "date_recv",
    "date_send",
    "timestamp_in",
    "timestamp_out",
    "timestamp_recv",
    "timestamp_send",
    "timestamptz_in",
    "timestamptz_out",
    "timestamptz_recv",
    "timestamptz_send",
    "interval_in",
    "interval_out",
    "interval_recv",
    "interval_send",
    "numeric_in",
    "numeric_out",
    "numeric_recv",
    "numeric_send",
    "uuid_in",
    "uuid_out",
    "uuid_recv",
    "uuid_send",
    "jsonb_in",
    "jsonb_out",
    "jsonb_recv",
    "jsonb_send",
    "time_in",
    "time_out",
    "time_recv",
    "time_send",
    "void_in",
    "void_out",
    "void_recv",
    "void_send",
    "unknownin",
    "unknownout",
    "unknownrecv",
    "unknownsend",
    "record_in",
    "record_out",
    "record_recv",
    "record_send",
    "regprocin",
    "regprocout",
    "regprocrecv",
    "regprocsend",
    "regclassin",
    "regclassout",
    "regclassrecv",
    "regclasssend",
    "regtypein",
    "regtypeout",
    "regtyperecv",
    "regtypesend",
    "int2vectorin",
    "int2vectorout",
    "int2vectorrecv",
    "int2vectorsend",
    "oidvectorin",
    "oidvectorout",
    "oidvectorrecv",
    "oidvectorsend",
    "xidin",
    "xidout",
    "xidrecv",
    "xidsend",
    "cstring_in",
    "cstring_out",
    "cstring_recv",
    "cstring_send",
];

/// Types whose functions have an underscore: `date_in`, but `int8in`.
const WITH_UNDERSCORE: [&str; 11] = [
    "json",
    "date",
    "timestamp",
    "timestamptz",
    "interval",
    "numeric",
    "uuid",
    "jsonb",
    "time",
    "void",
    "record",
];

/// Name of a type's function, such as `int8recv` for `int8` and `recv`.
pub(super) fn function_of(type_name: &str, purpose: FunctionPurpose) -> String {
    let end = match purpose {
        FunctionPurpose::Input => "in",
        FunctionPurpose::Output => "out",
        FunctionPurpose::Receive => "recv",
        FunctionPurpose::Send => "send",
    };
    if WITH_UNDERSCORE.contains(&type_name) || type_name == "cstring" || type_name == "array" {
        format!("{type_name}_{end}")
    } else {
        format!("{type_name}{end}")
    }
}

/// What a type's function is for.
#[derive(Clone, Copy)]
pub(super) enum FunctionPurpose {
    Input,
    Output,
    Receive,
    Send,
}

/// Reserved words of PostgreSQL.
pub(super) const KEYWORDS: &str = "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign from grant group having in initially intersect into lateral leading limit localtime localtimestamp not null offset on only or order placing primary references returning select session_user some symmetric table then to trailing true union unique user using variadic when where window with";

/// Words that can name a function or a type only.
pub(super) const FUNCTION_KEYWORDS: &str = "authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left like natural notnull outer overlaps right similar tablesample verbose";
