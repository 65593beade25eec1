// Incidents, silences and notices in memory, as the API gives them: one with hostile text, acknowledged by one button.
const ago = seconds => new Date(Date.now() - seconds * 1000).toISOString();

export const HOSTILE = '<img src=x onerror="document.title=1"> & <b>bold</b>';
const incident = { ts: ago(30), host: 'web3', incident_id: '7kq2m9', state: 'open', class: 'page', root_rule: 'app.down',
  root_finding_id: 'f1', title: 'web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)', finding_count: 4, host_count: 2, opened_ts: ago(312),
  acked_by: null, resolved_ts: null, merged_into: null, change: 'worse: 4 findings on 2 hosts' };
const finding = { finding_id: 'f1', rule: 'app.down', host: 'web3', class: 'page', state: 'firing', subject: '10.0.0.7:8080',
  summary: '10.0.0.7:8080 refuses connections: 240 of 240 attempts in 15 s', why: '', fix: '', started_ts: ago(320), resolved_ts: null };
const notice = { ts: ago(300), host: 'hub1', notice_id: 'n1', incident_id: '7kq2m9', kind: 'page', receiver: 'phones', person: 'ada',
  state: 'sent', attempt: 1, is_repeat: false, answer: '200', latency_seconds: 0.214 };

/** Fresh rows, and `sent`: each change that the page asked for. */
export function incidents() {
  const state = {
    incidents: [
      incident,
      { ...incident, incident_id: 'm4x8pz', class: 'mail', state: 'acked', acked_by: HOSTILE, title: HOSTILE, root_rule: 'disk.fill_eta',
        host: 'db1', finding_count: 1, host_count: 1, opened_ts: ago(7200) },
      { ...incident, incident_id: 'c0ffee', state: 'resolved', resolved_ts: ago(90_000), opened_ts: ago(93_000), ts: ago(90_000), root_rule: 'proxy.bad_gateway',
        title: 'lb1 proxy.bad_gateway 502 for 12 of 40 requests (30 %)', finding_count: 1, host_count: 1, host: 'lb1', change: 'resolved' }],
    silences: [{ id: 's1', rule: 'disk.*', host: 'db1', reason: 'the disk is being replaced', by: 'cy', until: ago(-5400) },
      { id: 's2', rule: 'app.slow', host: null, reason: HOSTILE, by: 'bo', until: ago(-90_000) }],
    notices: [
      { ...notice, notice_id: 'n4', ts: ago(5), receiver: 'chat', person: null, state: 'queued', attempt: 0, answer: null, latency_seconds: null },
      { ...notice, notice_id: 'n3', ts: ago(120), receiver: 'team-mail', kind: 'mail', state: 'failed', attempt: 7, person: 'bo',
        answer: '550 5.1.1 <bo@example.net>: Recipient address rejected: User unknown in virtual mailbox table' },
      { ...notice, notice_id: 'n2', ts: ago(200), receiver: 'chat', person: null, state: 'uncertain', attempt: 2, is_repeat: true,
        answer: null },
      notice],
    rotas: [{ rota: 'web', people: ['ada'], until: ago(-40_000), why: 'shift' }, { rota: 'night', people: [], until: null, why: 'gap' }],
  };
  const sent = [];
  const changes = { ack: one => Object.assign(one, { state: 'acked', acked_by: 'ada' }),
    resolve: one => Object.assign(one, { state: 'resolved', resolved_ts: ago(0) }) };
  state.incidents = state.incidents.map(one => ({ ...one }));
  /** @returns {[number, any] | undefined} */
  const routes = (method, path, body) => {
    const [, name, id, action] = path.split('/').slice(1);
    if (method === 'POST' && name !== 'sql') sent.push([path, body]);
    const known = name === 'incidents' && id && state.incidents.find(one => one.incident_id === id);
    if (known && action) { changes[action](known); return [200, { incident_id: id, change: `${known.state} by ada` }]; }
    if (known) return [200, { ...known, notices: [...state.notices].reverse(), findings: [finding,
      { ...finding, finding_id: 'f2', rule: 'proxy.bad_gateway', host: 'lb1', class: 'note', subject: 'pool be', summary: HOSTILE }],
      history: [{ ts: ago(312), state: 'open', class: 'mail', change: 'opened' },
        { ts: ago(30), state: 'open', class: 'page', change: 'worse: 4 findings on 2 hosts' }] }];
    if (name === 'incidents' && id) return [404, { error: `cannot show \`${id}\`: there is no such incident`,
      hint: 'GET /api/incidents?state=all lists them' }];
    if (name === 'silences' && action === 'end') {
      state.silences = state.silences.filter(one => one.id !== id);
      return [200, { id, change: 'ended' }];
    }
    if (name === 'silences' && method === 'POST') return [200, { id: 's3', by: 'ada', until: ago(-7200), host: null, ...body }];
    if (path === '/api/notify/test') return body.receiver === 'phones'
      ? [200, { notices: [{ receiver: 'phones', person: null, state: 'sent', answer: '202' }] }]
      : [400, { error: `cannot send a test: there is no receiver \`${body.receiver}\``, hint: 'receivers are phones and chat' }];
    const lists = { incidents: 'incidents', silences: 'silences', notices: 'notices', oncall: 'rotas' };
    return lists[name] && !id ? [200, { [lists[name]]: state[lists[name]] }] : undefined;
  };
  return { routes, sent };
}
