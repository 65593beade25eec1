// The search language of the logs, and how values are printed: pure, no browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { histogramSql, facetSql, parseSearch, rowSql, rowsSql, termOf, toggleTerm, unknownFields, whereOf } from '../search.js';
import * as format from '../format.js';

const schema = {
  request: new Map([['http_response_status_code', 'integer'], ['url_path', 'text'], ['host', 'text'], ['duration_seconds', 'float'],
    ['attrs', 'map']]),
  log: new Map([['severity', 'text'], ['host', 'text'], ['attrs', 'map']]),
  reject: new Map([['host', 'text'], ['reason', 'text']]),
};
const where = text => Object.fromEntries(whereOf(text, 'RANGE',
  schema).map(({ table, where }) => [table, where.replace('RANGE', '').replace(/^\n {4}and /, '').replaceAll('\n    ', ' ')]));

test('words_fields_quotes_and_minus_are_told_apart', () => {
  assert.deepEqual(parseSearch('time -kind:log "a b" duration:>=0.5 path:"/x y"').map(t => [t.field, t.op, t.value, t.isNot]), [
    [null, ':', 'time', false], ['kind', ':', 'log', true], [null, ':', 'a b', false], ['duration_seconds', '>=', '0.5', false],
      ['url_path', ':', '/x y', false],
  ]);
});

test('a_word_is_looked_for_in_every_table', () => {
  assert.deepEqual(Object.keys(where('timeout')), ['request', 'log', 'reject']);
  assert.match(where('timeout').log, /^\(body ilike '%timeout%' or /);
});

test('quotes_and_wildcards_of_the_user_stay_text', () => {
  assert.match(where("o'brien").log, /'%o''brien%'/);
  assert.match(where('100%').log, /'%100\\%%'/);
  assert.match(where("url_path:/x';drop").request, /= '\/x'';drop'$/);
});

test('a_table_that_lacks_the_column_gives_no_row', () => {
  assert.deepEqual(where('status:5xx'), { request: 'http_response_status_code between 500 and 599' });
  assert.deepEqual(where('severity:error'), { log: "severity = 'error'" });
  assert.deepEqual(Object.keys(where('-severity:error')), ['request', 'log', 'reject']);
});

test('numbers_compare_as_numbers_and_nonsense_matches_nothing', () => {
  assert.deepEqual(where('duration:>0.5'), { request: 'duration_seconds > 0.5' });
  assert.deepEqual(where('duration:abc'), {});
  assert.deepEqual(where('status:500;drop'), {});
});

test('a_star_stands_for_anything', () => assert.deepEqual(where('path:/cart*'), { request: "url_path ilike '/cart%'" }));

test('kind_picks_a_table', () => {
  assert.deepEqual(where('kind:reject'), { reject: '' });
  assert.deepEqual(Object.keys(where('-kind:request')), ['log', 'reject']);
});

test('a_field_without_a_column_is_looked_up_in_attrs', () => assert.deepEqual(where('attrs.region:eu'),
  { request: "attrs['region'] = 'eu'", log: "attrs['region'] = 'eu'" }));

test('unknown_columns_are_named', () => assert.deepEqual(unknownFields(parseSearch('nosuch:1 host:a kind:log attrs.x:1 word'), schema),
  ['nosuch']));

test('a_term_toggles', () => {
  assert.equal(toggleTerm('a', 'host:b'), 'a host:b');
  assert.equal(toggleTerm('a host:b c', 'host:b'), 'a c');
  assert.equal(termOf('body', 'say "hi"'), 'body:"say \\"hi\\""');
  assert.deepEqual(parseSearch(termOf('body', 'say "hi"'))[0].value, 'say "hi"');
});

test('no_table_left_is_still_a_query', () => {
  for (const sql of [rowsSql([], 10), histogramSql([], 10)]) assert.match(sql, /where false$/);
  assert.equal(facetSql([], 'host', schema), null);
});

test('a_row_is_found_again_by_its_place', () => {
  assert.match(rowSql({ kind: 'log', ts: 'T', host: "h'1", source: '/a',
    source_offset: 7 }), /where ts = 'T' and host = 'h''1' and source = '\/a' and source_offset = 7/);
});

test('values_are_printed_with_their_unit', () => {
  const cases = [[null, 'x', '–'], [0, 'duration_seconds', '0 s'], [0.0123, 'duration_seconds', '12.3 ms'],
    [0.00034, 'duration_seconds', '340 µs'], [320, 'age_seconds', '5 min 20 s'], [1536, 'size_bytes', '1.5 KiB'],
    [0.0512, 'busy_ratio', '5.1 %'], [1, 'busy_ratio', '100 %'], [12345, 'rows', '12 345'], [2_500_000, 'rows', '2.5 M'],
      [4770, 'server_port', '4770'], [0.5, 'rtt_seconds_p99', '500 ms'],
    [12.34, 'requests_per_second', '12.3 /s'], [2048, 'sent_bytes_per_second', '2 KiB/s'], [true, 'is_open', 'yes'],
      [{ a: 1 }, 'attrs', '{"a":1}']];
  for (const [value, name, text] of cases) assert.equal(format.value(value, { name }).replaceAll('\u202f', ' '), text, name);
});
