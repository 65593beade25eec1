//! Relations of PostgreSQL's catalog: names, columns, and column defaults.
//!
//! Source: PostgreSQL's manual, chapters "System Catalogs", "System Views" and "The Information
//! Schema".

use super::relation::{Relation, relation};

/// Relations of `pg_catalog` with rows.
pub(super) const FILLED: [Relation; 19] = [
    ATTRIBUTE,
    CLASS,
    DATABASE,
    DESCRIPTION,
    METHOD,
    NAMESPACE,
    PG_TABLES,
    ROLES,
    SETTINGS,
    TYPE,
    USER,
    PG_VIEWS,
    PROC,
    KEYWORDS,
    STAT_TABLES,
    STAT_ALL_TABLES,
    STAT_DATABASE,
    STATIO_TABLES,
    STATIO_ALL_TABLES,
];

/// Relations of `information_schema` with rows.
pub(super) const FILLED_INFORMATION: [Relation; 7] =
    [TABLES, COLUMNS, SCHEMATA, VIEWS, CHARACTER_SETS, CATALOG_NAME, ENABLED_ROLES];

/// Relations that are always empty; tools only check whether they have rows.
pub(super) const EMPTY: &[Relation] = &[
    relation(
        "pg_aggregate",
        "aggfnoid:p aggkind:t aggnumdirectargs:s aggtransfn:p aggfinalfn:p aggsortop:o aggtranstype:o agginitval:t",
    ),
    relation("pg_attrdef", "oid:o adrelid:o adnum:s adbin:t"),
    relation("pg_auth_members", "oid:o roleid:o member:o grantor:o admin_option:b"),
    relation("pg_cast", "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t"),
    relation(
        "pg_collation",
        "oid:o collname:t collnamespace:o collowner:o collprovider:t collisdeterministic:b collencoding:i collcollate:t collctype:t colliculocale:t collversion:t",
    ),
    relation(
        "pg_constraint",
        "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:s connoinherit:b conkey:v confkey:v conpfeqop:w conppeqop:w conffeqop:w conexclop:w conbin:t",
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
    relation(
        "pg_foreign_data_wrapper",
        "oid:o fdwname:t fdwowner:o fdwhandler:p fdwvalidator:p fdwacl:a fdwoptions:a",
    ),
    relation(
        "pg_foreign_server",
        "oid:o srvname:t srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:a srvoptions:a",
    ),
    relation("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:a"),
    relation(
        "pg_index",
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indisready:b indislive:b indisreplident:b indkey:v indcollation:w indclass:w indoption:v indexprs:t indpred:t",
    ),
    relation("pg_indexes", "schemaname:t tablename:t indexname:t tablespace:t indexdef:t"),
    relation("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    relation(
        "pg_language",
        "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:p laninline:p lanvalidator:p lanacl:a",
    ),
    relation(
        "pg_matviews",
        "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b definition:t",
    ),
    relation(
        "pg_operator",
        "oid:o oprname:t oprnamespace:o oprowner:o oprkind:t oprcanmerge:b oprcanhash:b oprleft:o oprright:o oprresult:o oprcom:o oprnegate:o oprcode:p oprrest:p oprjoin:p",
    ),
    relation(
        "pg_partitioned_table",
        "partrelid:o partstrat:t partnatts:s partdefid:o partattrs:v partclass:w partcollation:w partexprs:t",
    ),
    relation(
        "pg_policy",
        "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:w polqual:t polwithcheck:t",
    ),
    relation(
        "pg_publication",
        "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    ),
    relation("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    relation("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual:t prattrs:v"),
    relation(
        "pg_range",
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:p rngsubdiff:p",
    ),
    relation(
        "pg_rewrite",
        "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b ev_qual:t ev_action:t",
    ),
    relation(
        "pg_sequence",
        "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b",
    ),
    relation("pg_shdescription", "objoid:o classoid:o description:t"),
    relation(
        "pg_statistic_ext",
        "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:v stxkind:a stxexprs:t",
    ),
    relation("pg_subscription", "oid:o subdbid:o subname:t subowner:o subenabled:b"),
    relation("pg_tablespace", "oid:o spcname:t spcowner:o spcacl:a spcoptions:a"),
    relation(
        "pg_trigger",
        "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:p tgtype:s tgenabled:t tgisinternal:b tgconstrrelid:o tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:v tgargs:t tgqual:t tgoldtable:t tgnewtable:t",
    ),
    relation(
        "pg_amop",
        "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:s amoppurpose:t amopopr:o amopmethod:o amopsortfamily:o",
    ),
    relation(
        "pg_amproc",
        "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:s amproc:p",
    ),
    relation("pg_available_extensions", "name:t default_version:t installed_version:t comment:t"),
    relation(
        "pg_conversion",
        "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i conproc:p condefault:b",
    ),
    relation("pg_db_role_setting", "setdatabase:o setrole:o setconfig:a"),
    relation(
        "pg_cursors",
        "name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:z",
    ),
    relation("pg_default_acl", "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:a"),
    relation("pg_group", "groname:t grosysid:o grolist:w"),
    relation("pg_init_privs", "objoid:o classoid:o objsubid:i privtype:t initprivs:a"),
    relation(
        "pg_locks",
        "locktype:t database:o relation:o page:i tuple:s virtualxid:t transactionid:t classid:o objid:o objsubid:s virtualtransaction:t pid:i mode:t granted:b fastpath:b waitstart:z",
    ),
    relation(
        "pg_opclass",
        "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b opckeytype:o",
    ),
    relation("pg_opfamily", "oid:o opfmethod:o opfname:t opfnamespace:o opfowner:o"),
    relation(
        "pg_policies",
        "schemaname:t tablename:t policyname:t permissive:t roles:a cmd:t qual:t with_check:t",
    ),
    relation(
        "pg_prepared_statements",
        "name:t statement:t prepare_time:z parameter_types:a from_sql:b",
    ),
    relation("pg_prepared_xacts", "transaction:t gid:t prepared:z owner:t database:t"),
    relation("pg_publication_tables", "pubname:t schemaname:t tablename:t attnames:a rowfilter:t"),
    relation(
        "pg_replication_slots",
        "slot_name:t plugin:t slot_type:t datoid:o database:t temporary:b active:b",
    ),
    relation("pg_rules", "schemaname:t tablename:t rulename:t definition:t"),
    relation("pg_seclabel", "objoid:o classoid:o objsubid:i provider:t label:t"),
    relation(
        "pg_sequences",
        "schemaname:t sequencename:t sequenceowner:t data_type:t start_value:l min_value:l max_value:l increment_by:l cycle:b cache_size:l last_value:l",
    ),
    relation(
        "pg_shdepend",
        "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:t",
    ),
    relation(
        "pg_stat_activity",
        "datid:o datname:t pid:i leader_pid:i usesysid:o usename:t application_name:t client_addr:t client_hostname:t client_port:i backend_start:z xact_start:z query_start:z state_change:z wait_event_type:t wait_event:t state:t backend_xid:t backend_xmin:t query_id:l query:t backend_type:t",
    ),
    relation(
        "pg_stat_replication",
        "pid:i usesysid:o usename:t application_name:t client_addr:t state:t sync_state:t",
    ),
    relation("pg_stat_user_functions", "funcid:o schemaname:t funcname:t calls:l"),
    relation(
        "pg_stat_user_indexes",
        "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:l idx_tup_read:l idx_tup_fetch:l",
    ),
    relation(
        "pg_stat_all_indexes",
        "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:l idx_tup_read:l idx_tup_fetch:l",
    ),
    relation(
        "pg_statistic",
        "starelid:o staattnum:s stainherit:b stanullfrac:f stawidth:i stadistinct:f",
    ),
    relation(
        "pg_stats",
        "schemaname:t tablename:t attname:t inherited:b null_frac:f avg_width:i n_distinct:f most_common_vals:a correlation:f",
    ),
    relation("pg_timezone_names", "name:t abbrev:t utc_offset:t is_dst:b"),
    relation("pg_transform", "oid:o trftype:o trflang:o trffromsql:p trftosql:p"),
    relation("pg_ts_config", "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o"),
    relation(
        "pg_ts_dict",
        "oid:o dictname:t dictnamespace:o dictowner:o dicttemplate:o dictinitoption:t",
    ),
    relation(
        "pg_ts_parser",
        "oid:o prsname:t prsnamespace:o prsstart:p prstoken:p prsend:p prsheadline:p prslextype:p",
    ),
    relation("pg_ts_template", "oid:o tmplname:t tmplnamespace:o tmplinit:p tmpllexize:p"),
    relation("pg_ts_config_map", "mapcfg:o maptokentype:i mapseqno:i mapdict:o"),
    relation("pg_largeobject", "loid:o pageno:i data:t"),
    relation("pg_largeobject_metadata", "oid:o lomowner:o lomacl:a"),
    relation("pg_user_mapping", "oid:o umuser:o umserver:o umoptions:a"),
    relation("pg_user_mappings", "umid:o srvid:o srvname:t umuser:o usename:t umoptions:a"),
];

/// Relations specific to `information_schema`.
pub(super) const EMPTY_INFORMATION: &[Relation] = &[
    relation(
        "attributes",
        "udt_catalog:t udt_schema:t udt_name:t attribute_name:t ordinal_position:i attribute_default:t is_nullable:t data_type:t attribute_udt_name:t",
    ),
    relation(
        "check_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t check_clause:t",
    ),
    relation(
        "collations",
        "collation_catalog:t collation_schema:t collation_name:t pad_attribute:t",
    ),
    relation(
        "column_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t privilege_type:t is_grantable:t",
    ),
    relation(
        "column_udt_usage",
        "udt_catalog:t udt_schema:t udt_name:t table_catalog:t table_schema:t table_name:t column_name:t",
    ),
    relation(
        "constraint_column_usage",
        "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    relation(
        "constraint_table_usage",
        "table_catalog:t table_schema:t table_name:t constraint_catalog:t constraint_schema:t constraint_name:t",
    ),
    relation(
        "domain_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t domain_catalog:t domain_schema:t domain_name:t is_deferrable:t initially_deferred:t",
    ),
    relation(
        "domains",
        "domain_catalog:t domain_schema:t domain_name:t data_type:t character_maximum_length:i domain_default:t udt_name:t",
    ),
    relation(
        "element_types",
        "object_catalog:t object_schema:t object_name:t object_type:t collection_type_identifier:t data_type:t udt_schema:t udt_name:t dtd_identifier:t",
    ),
    relation(
        "key_column_usage",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i position_in_unique_constraint:i",
    ),
    relation(
        "parameters",
        "specific_catalog:t specific_schema:t specific_name:t ordinal_position:i parameter_mode:t is_result:t as_locator:t parameter_name:t data_type:t udt_schema:t udt_name:t parameter_default:t",
    ),
    relation(
        "referential_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t unique_constraint_catalog:t unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t delete_rule:t",
    ),
    relation(
        "role_table_grants",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t is_grantable:t with_hierarchy:t",
    ),
    relation(
        "routines",
        "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t routine_name:t routine_type:t module_name:t data_type:t type_udt_schema:t type_udt_name:t routine_body:t routine_definition:t external_language:t is_deterministic:t security_type:t",
    ),
    relation(
        "sequences",
        "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t numeric_precision:i start_value:t minimum_value:t maximum_value:t increment:t cycle_option:t",
    ),
    relation(
        "table_constraints",
        "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t table_name:t constraint_type:t is_deferrable:t initially_deferred:t enforced:t nulls_distinct:t",
    ),
    relation(
        "table_privileges",
        "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t is_grantable:t with_hierarchy:t",
    ),
    relation(
        "triggers",
        "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t event_object_catalog:t event_object_schema:t event_object_table:t action_order:i action_condition:t action_statement:t action_orientation:t action_timing:t",
    ),
    relation(
        "user_defined_types",
        "user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t user_defined_type_category:t is_instantiable:t is_final:t",
    ),
    relation(
        "view_column_usage",
        "view_catalog:t view_schema:t view_name:t table_catalog:t table_schema:t table_name:t column_name:t",
    ),
    relation(
        "view_table_usage",
        "view_catalog:t view_schema:t view_name:t table_catalog:t table_schema:t table_name:t",
    ),
];

pub(super) const PROC: Relation = relation(
    "pg_proc",
    "oid:o proname:t pronamespace:o=11 proowner:o=10 prolang:o=12 procost:f=1 prorows:f=0 provariadic:o=0 prosupport:p=0 prokind:t=f prosecdef:b=f proleakproof:b=f proisstrict:b=t proretset:b=f provolatile:t=i proparallel:t=s pronargs:s=1 pronargdefaults:s=0 prorettype:o=0 proargtypes:w proallargtypes:w proargmodes:a proargnames:a proargdefaults:t protrftypes:w prosrc:t probin:t prosqlbody:t proconfig:a proacl:a",
);
pub(super) const KEYWORDS: Relation = relation(
    "pg_get_keywords",
    "word:t catcode:t barelabel:b=t catdesc:t baredesc:t=can|be|bare|label",
);
pub(super) const STAT_TABLES: Relation = relation("pg_stat_user_tables", STATISTICS);
pub(super) const STAT_ALL_TABLES: Relation = relation("pg_stat_all_tables", STATISTICS);
pub(super) const STATIO_TABLES: Relation = relation("pg_statio_user_tables", BLOCKS);
pub(super) const STATIO_ALL_TABLES: Relation = relation("pg_statio_all_tables", BLOCKS);
const BLOCKS: &str = "relid:o schemaname:t relname:t heap_blks_read:l heap_blks_hit:l idx_blks_read:l idx_blks_hit:l toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l";
const STATISTICS: &str = "relid:o schemaname:t relname:t seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l autovacuum_count:l analyze_count:l autoanalyze_count:l";
pub(super) const STAT_DATABASE: Relation = relation(
    "pg_stat_database",
    "datid:o=16383 datname:t=weir numbackends:i xact_commit:l xact_rollback:l blks_read:l blks_hit:l tup_returned:l tup_fetched:l tup_inserted:l tup_updated:l tup_deleted:l conflicts:l temp_files:l temp_bytes:l deadlocks:l stats_reset:z",
);
pub(super) const CHARACTER_SETS: Relation = relation(
    "character_sets",
    "character_set_catalog:t character_set_schema:t character_set_name:t=UTF8 character_repertoire:t=UCS form_of_use:t=UTF8 default_collate_catalog:t=weir default_collate_schema:t=pg_catalog default_collate_name:t=C",
);
pub(super) const CATALOG_NAME: Relation =
    relation("information_schema_catalog_name", "catalog_name:t=weir");
pub(super) const ENABLED_ROLES: Relation = relation("enabled_roles", "role_name:t=weir");
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
    "oid:o typname:t typnamespace:o=11 typowner:o=10 typlen:s=-1 typbyval:b=f typtype:t=b typcategory:t=U typispreferred:b=f typisdefined:b=t typdelim:t=, typrelid:o=0 typsubscript:p=0 typelem:o=0 typarray:o=0 typinput:p=0 typoutput:p=0 typreceive:p=0 typsend:p=0 typmodin:p=0 typmodout:p=0 typanalyze:p=0 typalign:t=i typstorage:t=p typnotnull:b=f typbasetype:o=0 typtypmod:i=-1 typndims:i=0 typcollation:o=0 typdefaultbin:t typdefault:t typacl:a",
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
    relation("pg_am", "oid:o=2 amname:t=heap amhandler:p=0 amtype:t=t");
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
    "name:t setting:t unit:t category:t=weir short_desc:t extra_desc:t context:t=internal vartype:t=string source:t=default min_val:t max_val:t enumvals:a boot_val:t reset_val:t sourcefile:t sourceline:i pending_restart:b=f",
);
pub(super) const TABLES: Relation = relation(
    "tables",
    "table_catalog:t=weir table_schema:t table_name:t table_type:t self_referencing_column_name:t reference_generation:t user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t is_insertable_into:t=NO is_typed:t=NO commit_action:t",
);
pub(super) const COLUMNS: Relation = relation(
    "columns",
    "table_catalog:t=weir table_schema:t table_name:t column_name:t ordinal_position:i column_default:t is_nullable:t data_type:t character_maximum_length:i character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:t interval_precision:i character_set_catalog:t character_set_schema:t character_set_name:t collation_catalog:t collation_schema:t collation_name:t domain_catalog:t domain_schema:t domain_name:t udt_catalog:t=weir udt_schema:t=pg_catalog udt_name:t scope_catalog:t scope_schema:t scope_name:t maximum_cardinality:i dtd_identifier:t is_self_referencing:t=NO is_identity:t=NO identity_generation:t identity_start:t identity_increment:t identity_maximum:t identity_minimum:t identity_cycle:t=NO is_generated:t=NEVER generation_expression:t is_updatable:t=NO",
);
pub(super) const VIEWS: Relation = relation(
    "views",
    "table_catalog:t=weir table_schema:t=public table_name:t view_definition:t check_option:t=NONE is_updatable:t=NO is_insertable_into:t=NO is_trigger_updatable:t=NO is_trigger_deletable:t=NO is_trigger_insertable_into:t=NO",
);
pub(super) const SCHEMATA: Relation = relation(
    "schemata",
    "catalog_name:t=weir schema_name:t schema_owner:t=weir default_character_set_catalog:t default_character_set_schema:t default_character_set_name:t sql_path:t",
);
