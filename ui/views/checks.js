// @ts-check
// Checks: the newest result of each plugin, probe and application's own check; failed and stale ones first.
import { html } from '../vendor/preact-htm.js';
import { useSql, useTick } from '../hooks.js';
import { ago, duration, time } from '../format.js';
import { link, useRoute } from '../router.js';
import { Icon } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';

const EVERY_MS = 5_000;
const SQL = `select ts, host, kind, "check", target, service, status, scope, observed_value, observed_unit, threshold, output,
  duration_seconds, zone, expires_ts
from (
  select *, row_number() over (partition by host, kind, "check", target order by ts desc) as place
  from check_result where ts > now() - interval '1 day'
)
where place = 1
order by case status when 'critical' then 0 when 'unknown' then 1 when 'warn' then 2 else 3 end, kind, "check", host
limit 500`;
const LOOKS = { ok: 'ok', warn: 'mail', critical: 'page', unknown: 'note' };
const KINDS = { digest: 'application', plugin: 'plugin', passive: 'passive' };

export function Checks() {
  useTick(5_000);
  const { params } = useRoute();
  const loaded = useSql(SQL, { every: EVERY_MS });
  const shown = data => rows(data).filter(r => !params.host || r.host === params.host);
  return html`
    <${Panel} title="Checks" sql=${SQL} aside=${html`<span class="aside">failed ones first</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !shown(d).length} empty=${html`<${Hint} />`}>
        ${data => html`<div class="scroll"><table class="list checks"><thead><tr><th scope="col">status</th><th scope="col">check</th><th
          scope="col" class="wide">of</th><th scope="col">host</th><th scope="col" class="number wide">value</th><th scope="col">output</th><th
            scope="col" class="wide">last (UTC)</th></tr></thead>
          <tbody>${shown(data).map(r => html`<${Row} key=${[r.host, r.kind, r.check, r.target].join(' ')} r=${r} />`)}</tbody></table></div>`}
      <//>
    <//>`;
}

const Hint = () => html`
  <p><b>No check ran yet.</b></p>
  <p><span>weir finds health digests of applications by itself. Plugins of Nagios are <code>[[checks]]</code> and targets to look at from outside
    <code>[[probes]]</code> of the configuration (<code>docs/checks.md</code>).</span></p>`;

/** @param {{columns: {name: string}[], rows: any[][]}} answer */
const rows = answer => answer.rows.map(row => Object.fromEntries(answer.columns.map((c, i) => [c.name, row[i]])));

function Row({ r }) {
  const isStale = r.expires_ts !== null && Date.parse(r.expires_ts) < Date.now();
  const look = isStale ? 'pending' : LOOKS[r.status] ?? 'note';
  const value = r.observed_value === null ? '–' : `${r.observed_value} ${r.observed_unit ?? ''}`.trim();
  return html`
    <tr data-row tabindex="-1" data-check=${r.check}>
      <td><span class="badge badge-${look}"><${Icon} name=${look} />${isStale ? 'stale' : r.status}</span>${isStale && html`<small>was ${r.status}</small>`}</td>
      <td>${r.check}<small>${KINDS[r.kind] ?? r.kind}${r.scope === 'dependency' ? ', a dependency' : ''}</small><small class="narrow">${ago(r.ts)}</small></td>
      <td class="wide">${r.service ?? (r.target || '–')}${r.service && r.target ? html`<small class="mono">${r.target}</small>` : ''}</td>
      <td><a href=${link('host', {}, r.host)}>${r.host}</a>${r.zone && html`<small>${r.zone}</small>`}</td>
      <td class="number wide">${value}${r.threshold && html`<small>bound ${r.threshold}</small>`}</td>
      <td class="answer">${r.output ?? '–'}</td>
      <td class="mono wide" title=${r.ts}>${time(r.ts, { digits: 0 })}<small>${ago(r.ts)}${r.duration_seconds === null ? ''
        : `, took ${duration(r.duration_seconds)}`}</small></td>
    </tr>`;
}
