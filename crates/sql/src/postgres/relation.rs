//! Relations of PostgreSQL's catalog: names, columns, and column defaults.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};

/// A relation: its columns as `name:kind=default`, separated by spaces. Kinds: `o` oid, `t` text,
/// `b` boolean, `s` int2, `i` int4, `l` int8, `f` float4, `a` array of texts (always NULL). The
/// default is NULL if omitted.
pub(super) struct Relation {
    pub(super) name: &'static str,
    columns: &'static str,
}

/// A row: the columns that differ from their defaults.
pub(super) type Row = Vec<(&'static str, String)>;

/// Relations that are always empty; tools only check whether they have rows.
pub(super) const EMPTY: &[Relation] = &[
    relation("pg_aggregate", "aggfnoid:o aggkind:t"),
    relation("pg_attrdef", "oid:o adrelid:o adnum:s adbin:t"),
    relation("pg_auth_members", "oid:o roleid:o member:o grantor:o admin_option:b"),
    relation("pg_cast", "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t"),
    relation("pg_collation", "oid:o collname:t collnamespace:o collowner:o collprovider:t"),
    relation(
        "pg_constraint",
        "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:s connoinherit:b conkey:a confkey:a conbin:t",
    ),
    relation(
        "pg_depend",
        "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t",
    ),
    relation("pg_enum", "oid:o enumtypid:o enumsortorder:f enumlabel:t"),
    relation("pg_event_trigger", "oid:o evtname:t evtevent:t evtowner:o"),
    relation(
        "pg_extension",
        "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:a extcondition:a",
    ),
    relation("pg_foreign_data_wrapper", "oid:o fdwname:t fdwowner:o"),
    relation("pg_foreign_server", "oid:o srvname:t srvowner:o srvfdw:o"),
    relation("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:a"),
    relation(
        "pg_index",
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indisready:b indislive:b indisreplident:b indkey:a indcollation:a indclass:a indoption:a indexprs:t indpred:t",
    ),
    relation("pg_indexes", "schemaname:t tablename:t indexname:t tablespace:t indexdef:t"),
    relation("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    relation("pg_language", "oid:o lanname:t lanowner:o"),
    relation("pg_matviews", "schemaname:t matviewname:t matviewowner:t definition:t"),
    relation("pg_operator", "oid:o oprname:t oprnamespace:o"),
    relation("pg_partitioned_table", "partrelid:o partstrat:t partnatts:s"),
    relation("pg_policy", "oid:o polname:t polrelid:o polcmd:t polpermissive:b"),
    relation(
        "pg_proc",
        "oid:o proname:t pronamespace:o proowner:o prolang:o prokind:t prorettype:o pronargs:s proargtypes:a proretset:b prosrc:t",
    ),
    relation("pg_publication", "oid:o pubname:t pubowner:o puballtables:b"),
    relation("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    relation("pg_publication_rel", "oid:o prpubid:o prrelid:o"),
    relation("pg_range", "rngtypid:o rngsubtype:o rngmultitypid:o"),
    relation("pg_rewrite", "oid:o rulename:t ev_class:o ev_type:t"),
    relation("pg_sequence", "seqrelid:o seqtypid:o"),
    relation("pg_shdescription", "objoid:o classoid:o description:t"),
    relation("pg_statistic_ext", "oid:o stxrelid:o stxname:t stxnamespace:o"),
    relation("pg_subscription", "oid:o subname:t"),
    relation("pg_tablespace", "oid:o spcname:t spcowner:o spcacl:a spcoptions:a"),
    relation("pg_trigger", "oid:o tgrelid:o tgname:t tgfoid:o tgenabled:t tgisinternal:b"),
];

/// Relations specific to `information_schema`.
pub(super) const EMPTY_INFORMATION: &[Relation] = &[
    relation(
        "table_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t constraint_type:t",
    ),
    relation(
        "key_column_usage",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i",
    ),
    relation(
        "constraint_column_usage",
        "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    relation(
        "referential_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_name:t",
    ),
    relation("routines", "specific_name:t routine_catalog:t routine_schema:t routine_name:t"),
    relation("sequences", "sequence_catalog:t sequence_schema:t sequence_name:t"),
    relation("triggers", "trigger_schema:t trigger_name:t event_object_table:t"),
];

pub(super) const CLASS: Relation = relation(
    "pg_class",
    "oid:o relname:t relnamespace:o reltype:o=0 reloftype:o=0 relowner:o=10 relam:o=2 relfilenode:o=0 reltablespace:o=0 relpages:i=0 reltuples:f=-1 relallvisible:i=0 reltoastrelid:o=0 relhasindex:b=f relisshared:b=f relpersistence:t=p relkind:t=r relnatts:s relchecks:s=0 relhasrules:b=f relhastriggers:b=f relhassubclass:b=f relrowsecurity:b=f relforcerowsecurity:b=f relispopulated:b=t relreplident:t=d relispartition:b=f relrewrite:o=0 relfrozenxid:o=0 relminmxid:o=0 relacl:a reloptions:a relpartbound:t",
);
pub(super) const ATTRIBUTE: Relation = relation(
    "pg_attribute",
    "attrelid:o attname:t atttypid:o attstattarget:i=-1 attlen:s=-1 attnum:s attndims:i=0 attcacheoff:i=-1 atttypmod:i=-1 attbyval:b=f attalign:t=i attstorage:t=p attcompression:t= attnotnull:b=f atthasdef:b=f atthasmissing:b=f attidentity:t= attgenerated:t= attisdropped:b=f attislocal:b=t attinhcount:i=0 attcollation:o=0 attacl:a attoptions:a attfdwoptions:a",
);
pub(super) const TYPE: Relation = relation(
    "pg_type",
    "oid:o typname:t typnamespace:o=11 typowner:o=10 typlen:s=-1 typbyval:b=f typtype:t=b typcategory:t=U typispreferred:b=f typisdefined:b=t typdelim:t=, typrelid:o=0 typsubscript:t=- typelem:o=0 typarray:o=0 typinput:t typoutput:t typreceive:t=- typsend:t=- typmodin:t=- typmodout:t=- typanalyze:t=- typalign:t=i typstorage:t=p typnotnull:b=f typbasetype:o=0 typtypmod:i=-1 typndims:i=0 typcollation:o=0 typdefault:t typacl:a",
);
pub(super) const NAMESPACE: Relation =
    relation("pg_namespace", "oid:o nspname:t nspowner:o=10 nspacl:a");
pub(super) const DATABASE: Relation = relation(
    "pg_database",
    "oid:o=16383 datname:t=weir datdba:o=10 encoding:i=6 datlocprovider:t=c datistemplate:b=f datallowconn:b=t datconnlimit:i=-1 datfrozenxid:o=0 datminmxid:o=0 dattablespace:o=1663 datcollate:t=C datctype:t=C daticulocale:t datcollversion:t datacl:a",
);
pub(super) const ROLES: Relation = relation(
    "pg_roles",
    "oid:o=10 rolname:t=weir rolsuper:b=f rolinherit:b=t rolcreaterole:b=f rolcreatedb:b=f rolcanlogin:b=t rolreplication:b=f rolconnlimit:i=-1 rolpassword:t rolvaliduntil:t rolbypassrls:b=f rolconfig:a",
);
pub(super) const USER: Relation = relation(
    "pg_user",
    "usename:t=weir usesysid:o=10 usecreatedb:b=f usesuper:b=f userepl:b=f usebypassrls:b=f passwd:t valuntil:t useconfig:a",
);
pub(super) const METHOD: Relation =
    relation("pg_am", "oid:o=2 amname:t=heap amhandler:t=- amtype:t=t");
pub(super) const DESCRIPTION: Relation =
    relation("pg_description", "objoid:o classoid:o=1259 objsubid:i description:t");
pub(super) const PG_TABLES: Relation = relation(
    "pg_tables",
    "schemaname:t tablename:t tableowner:t=weir tablespace:t hasindexes:b=f hasrules:b=f hastriggers:b=f rowsecurity:b=f",
);
pub(super) const PG_VIEWS: Relation =
    relation("pg_views", "schemaname:t=public viewname:t viewowner:t=weir definition:t");
pub(super) const SETTINGS: Relation = relation(
    "pg_settings",
    "name:t setting:t unit:t category:t=weir short_desc:t extra_desc:t context:t=internal vartype:t=string source:t=default min_val:t max_val:t enumvals:a boot_val:t reset_val:t",
);
pub(super) const TABLES: Relation = relation(
    "tables",
    "table_catalog:t=weir table_schema:t table_name:t table_type:t self_referencing_column_name:t reference_generation:t user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t is_insertable_into:t=NO is_typed:t=NO commit_action:t",
);
pub(super) const COLUMNS: Relation = relation(
    "columns",
    "table_catalog:t=weir table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t data_type:t character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:t character_set_name:t collation_name:t domain_name:t udt_catalog:t=weir udt_schema:t=pg_catalog udt_name:t dtd_identifier:t is_identity:t=NO identity_generation:t is_generated:t=NEVER generation_expression:t is_updatable:t=NO",
);
pub(super) const VIEWS: Relation =
    relation("views", "table_catalog:t=weir table_schema:t=public table_name:t view_definition:t");
pub(super) const SCHEMATA: Relation = relation(
    "schemata",
    "catalog_name:t=weir schema_name:t schema_owner:t=weir default_character_set_catalog:t default_character_set_schema:t default_character_set_name:t sql_path:t",
);

const fn relation(name: &'static str, columns: &'static str) -> Relation {
    Relation { name, columns }
}

impl Relation {
    /// Builds the relation with these rows.
    pub(super) fn batch(&self, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<HashMap<&str, &str>> = rows
            .iter()
            .map(|row| row.iter().map(|(name, value)| (*name, value.as_str())).collect())
            .collect();
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for column in self.columns.split(' ') {
            let (name, rest) = column.split_once(':').unwrap_or((column, "t"));
            let (kind, default) = match rest.split_once('=') {
                Some((kind, default)) => (kind, Some(default.replace('|', " "))),
                None => (rest, None),
            };
            let cells = rows.iter().map(|row| row.get(name).copied().or(default.as_deref()));
            let array = array(kind, cells);
            fields.push(Field::new(name, array.data_type().clone(), true));
            columns.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

fn array<'a>(kind: &str, cells: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    fn parsed<'a, T: std::str::FromStr>(
        cells: impl Iterator<Item = Option<&'a str>>,
    ) -> impl Iterator<Item = Option<T>> {
        cells.map(|cell| cell?.parse().ok())
    }
    match kind {
        "o" => Arc::new(parsed(cells).collect::<UInt32Array>()),
        "s" => Arc::new(parsed(cells).collect::<Int16Array>()),
        "i" => Arc::new(parsed(cells).collect::<Int32Array>()),
        "l" => Arc::new(parsed(cells).collect::<Int64Array>()),
        "f" => Arc::new(parsed(cells).collect::<Float32Array>()),
        "b" => Arc::new(cells.map(|cell| cell.map(|flag| flag == "t")).collect::<BooleanArray>()),
        "a" => {
            let mut lists = ListBuilder::new(StringBuilder::new())
                .with_field(Field::new_list_field(DataType::Utf8, true));
            cells.for_each(|_| lists.append_null());
            Arc::new(lists.finish())
        }
        _ => Arc::new(cells.collect::<StringArray>()),
    }
}
