-- Statements of clients that could not connect to, or read the tables of, other databases with PostgreSQL's
-- protocol, by the public report. See drivers.sql for the notation.

-- tool: questdb/questdb#6019, psqlODBC with Power BI: keys
select ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname from pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic where tc.relname = 'log' AND n.nspname = 'public' AND tc.oid = i.indrelid AND n.oid = tc.relnamespace AND i.indisprimary = 't' AND ia.attrelid = i.indexrelid AND ta.attrelid = i.indrelid AND ta.attnum = i.indkey[ia.attnum-1] AND (NOT ta.attisdropped) AND (NOT ia.attisdropped) AND ic.oid = i.indexrelid order by ia.attnum;

-- tool: questdb/questdb#1577, Metabase: whether a table can be read
-- returns: _
SELECT TRUE AS "_" FROM "public"."log" WHERE 1 <> 1 LIMIT 0;

-- tool: questdb/questdb#1577, Metabase: keys of an index
-- has rows
SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys';

-- tool: questdb/questdb#819, ActiveRecord: types
-- has rows
SELECT t.oid, t.typname, t.typelem, t.typdelim, t.typinput, r.rngsubtype, t.typtype, t.typbasetype FROM pg_type as t LEFT JOIN pg_range as r ON oid = rngtypid WHERE t.typname IN ('int2', 'int4', 'int8', 'oid', 'text', 'timestamptz', 'json', 'jsonb') OR t.typtype IN ('r', 'e', 'd') OR t.typinput = 'array_in(cstring,oid,integer)'::regprocedure OR t.typelem != 0;

-- tool: crate/crate#12086, DataGrip: transaction
-- returns: current_txid
-- has rows
select case when pg_catalog.pg_is_in_recovery() then null else pg_catalog.txid_current()::varchar::bigint end as current_txid;

-- tool: crate/crate#11758, DataGrip: oldest transaction
select L.transactionid::varchar::bigint as transaction_id from pg_catalog.pg_locks L where L.transactionid is not null order by pg_catalog.age(L.transactionid) desc limit 1;

-- tool: crate/crate#12101, DataGrip: tables that changed
-- has rows
select T.relkind as table_kind, T.relname as table_name, T.oid as table_id, T.xmin as table_state_number, T.relpersistence = 'u' as is_unlogged, pg_catalog.pg_get_userbyid(T.relowner) as "owner" from pg_catalog.pg_class T where relnamespace = 2200::oid and relkind in ('r', 'm', 'v', 'f', 'p') and pg_catalog.age(T.xmin) <= coalesce(nullif(greatest(pg_catalog.age('1'::varchar::xid), -1), -1), 2147483647) order by table_kind, table_id;

-- tool: crate/crate#12101, DBeaver: columns of constraints
select c.conname, u.k, u.n from pg_catalog.pg_constraint c cross join unnest(c.conkey) with ordinality u(k, n);

-- tool: jakob/Postico#600, Postico: indexes
SELECT pg_class.oid, pg_class.relname, indisunique, indisprimary, indisexclusion, indkey, pg_get_indexdef(indexrelid, 0, TRUE) AS definition, ARRAY ( SELECT pg_get_indexdef(indexrelid, attnum, TRUE) FROM pg_attribute WHERE attrelid = indexrelid ORDER BY attnum ) AS columns FROM pg_index, pg_class WHERE indexrelid = pg_class.oid AND indrelid = 16384;

-- tool: risingwavelabs/risingwave#22193, Superset: identity of columns
-- has rows
SELECT a.attname, (SELECT json_build_object('always', a.attidentity = 'a', 'start', s.seqstart, 'increment', s.seqincrement, 'minvalue', s.seqmin, 'maxvalue', s.seqmax, 'cache', s.seqcache, 'cycle', s.seqcycle) FROM pg_catalog.pg_sequence AS s JOIN pg_catalog.pg_class AS c ON s.seqrelid = c."oid" WHERE c.relkind = 'S' AND a.attidentity <> '' AND s.seqrelid = CAST(CAST(pg_catalog.pg_get_serial_sequence(CAST(CAST(a.attrelid AS REGCLASS) AS TEXT), a.attname) AS REGCLASS) AS oid)) AS identity_options FROM pg_catalog.pg_attribute a WHERE a.attnum > 0;

-- tool: risingwavelabs/risingwave#11145, Superset: array types
-- has rows
SELECT typname, oid, typarray FROM pg_catalog.pg_type WHERE typname IN ('int8', 'text');

-- tool: TablePlus/TablePlus#1213, TablePlus: tables
-- has rows
(SELECT table_name, table_schema, table_type FROM information_schema.tables) UNION (SELECT c.relname AS table_name, n.nspname AS table_schema, 'MATERIALIZED VIEW' FROM pg_catalog.pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm');

-- tool: h2database/h2database#2450, pgAdmin: format of bytes
-- returns: set_config
-- has rows
SELECT set_config('bytea_output','hex',false) FROM pg_settings WHERE name = 'bytea_output';

-- tool: h2database/h2database#2450, pgAdmin: databases
-- has rows
SELECT db.oid as did, db.datname, db.datallowconn, pg_catalog.has_database_privilege(db.oid, 'CREATE') as cancreate, datdba as owner, ta.spcname FROM pg_database db LEFT OUTER JOIN pg_tablespace ta ON db.dattablespace = ta.oid WHERE db.oid > 1000::OID ORDER BY datname;

-- tool: apecloud/myduckserver#340, Navicat: databases
-- has rows
SELECT d.oid, d.datname AS databasename, d.datacl, d.datistemplate, d.datallowconn, pg_get_userbyid(d.datdba) AS databaseowner, d.datcollate, d.datctype, shobj_description(d.oid, 'pg_database') AS description, d.datconnlimit, t.spcname, d.encoding, pg_encoding_to_char(d.encoding) AS encodingname FROM pg_database d LEFT JOIN pg_tablespace t ON d.dattablespace = t.oid;

-- tool: GreptimeTeam/greptimedb#8408, Metabase: database
-- has rows
SELECT current_catalog, current_database();

-- tool: elixir-ecto/postgrex#576, Postgrex: types
-- has rows
SELECT t.oid, t.typname, t.typsend, t.typreceive, t.typoutput, t.typinput, coalesce(d.typelem, t.typelem), coalesce(r.rngsubtype, 0), ARRAY ( SELECT a.atttypid FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum ) FROM pg_type AS t LEFT JOIN pg_type AS d ON t.typbasetype = d.oid LEFT JOIN pg_range AS r ON r.rngtypid = t.oid OR (t.typbasetype <> 0 AND r.rngtypid = t.typbasetype) WHERE (t.typrelid = 0) AND (t.typelem = 0 OR NOT EXISTS (SELECT 1 FROM pg_catalog.pg_type s WHERE s.typrelid != 0 AND s.oid = t.typelem));

-- tool: MaterializeInc/materialize#9531, Looker: running queries
SELECT pid, usename, state, query FROM pg_stat_activity WHERE pid <> pg_backend_pid();

-- tool: HeidiSQL/HeidiSQL#1234, HeidiSQL: tables
-- has rows
SELECT *, pg_table_size(QUOTE_IDENT(t.TABLE_SCHEMA) || '.' || QUOTE_IDENT(t.TABLE_NAME))::bigint AS data_length, pg_relation_size(QUOTE_IDENT(t.TABLE_SCHEMA) || '.' || QUOTE_IDENT(t.TABLE_NAME))::bigint AS index_length, c.reltuples, obj_description(c.oid) AS comment FROM "information_schema"."tables" AS t LEFT JOIN "pg_namespace" n ON t.table_schema = n.nspname LEFT JOIN "pg_class" c ON n.oid = c.relnamespace AND c.relname = t.table_name WHERE t."table_schema"='public';

-- tool: cockroachdb/cockroach#19370, psql: aggregates
SELECT n.nspname as "Schema", p.proname AS "Name", pg_catalog.format_type(p.prorettype, NULL) AS "Result data type", CASE WHEN p.pronargs = 0 THEN CAST('*' AS pg_catalog.text) ELSE pg_catalog.pg_get_function_arguments(p.oid) END AS "Argument data types", pg_catalog.obj_description(p.oid, 'pg_proc') as "Description" FROM pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.prokind = 'a' AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' AND pg_catalog.pg_function_is_visible(p.oid) ORDER BY 1, 2, 4;
