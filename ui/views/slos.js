// @ts-check
// SLOs: the error budget that is left, how fast it burns in five windows, and the finding about it; burning ones first.
import { html } from '../vendor/preact-htm.js';
import { useApi, useTick } from '../hooks.js';
import { ago, count, duration, ratio, time } from '../format.js';
import { link } from '../router.js';
import { Icon } from '../parts/icon.js';
import { Panel, States } from '../parts/panel.js';

const EVERY_MS = 10_000;
// Counts are at most 75 s behind; a hub that is busy may take a few minutes.
const STALE_SECONDS = 300;
const SQL = `select slo, date_bin(interval '1 hour', ts) as hour, sum(total_count) as total, sum(failed_count) as failed
from slo_slice where ts > now() - interval '3 days' group by 1, 2 order by 1, 2`;
const LOOKS = { burning_fast: ['page', 'burning fast'], burning_slowly: ['mail', 'burning slowly'], ok: ['ok', 'ok'],
  not_counted: ['pending', 'not counted'] };
const STALE = ['pending', 'stale'];
const ORDER = ['burning_fast', 'burning_slowly', 'not_counted', 'ok'];
// The rate from which a pair of windows pages or mails, by its windows.
const LIMITS = { '5 min': 14.4, '1 h': 14.4, '30 min': 6, '6 h': 6, '3 d': 1 };

export function Slos() {
  useTick(5_000);
  const loaded = useApi('/api/slos', EVERY_MS);
  return html`
    <${Panel} title="SLOs" sql=${SQL} aside=${html`<span class="aside">burning ones first; at 1× a budget lasts exactly its window</span>`}>
      <${States} loaded=${loaded} isEmpty=${d => !d.slos.length} empty=${html`<${Hint} />`}>
        ${data => html`<div class="scroll"><table class="list slos"><thead><tr><th scope="col">state</th><th scope="col">SLO</th><th
          scope="col">budget left</th><th scope="col">burn rate</th><th scope="col" class="wide">counted until (UTC)</th></tr></thead>
          <tbody>${sorted(data.slos).map(s => html`<${Row} key=${s.name} s=${s} />`)}</tbody></table></div>`}
      <//>
    <//>`;
}

const Hint = () => html`
  <p><b>No SLO is configured.</b></p>
  <p><span><code>[[slos]]</code> of the configuration is a promise such as 99.9 % of requests without a server error
    (<code>docs/slo.md</code>).</span></p>`;

const weight = s => (isStale(s) ? 1.5 : ORDER.indexOf(s.state));
const sorted = slos => [...slos].sort((a, b) => weight(a) - weight(b) || left(a) - left(b) || a.name.localeCompare(b.name));
const left = s => s.budget_left_ratio ?? 2;
const isStale = s => s.counted_until !== null && (Date.now() - Date.parse(s.counted_until)) / 1000 > STALE_SECONDS;

function Row({ s }) {
  const isOld = isStale(s);
  const [look, word] = isOld ? STALE : LOOKS[s.state] ?? ['note', s.state];
  return html`
    <tr data-row tabindex="-1" data-slo=${s.name}>
      <td><span class="badge badge-${look}"><${Icon} name=${look} />${word}</span>${isOld && html`<small>was ${s.state.replace('_', ' ')}</small>`}</td>
      <td class="answer">${s.name}<small>${percent(s.objective_percent)} over ${s.window_days}${'\u202f'}d, ${s.definition}</small>${s.owner
        && html`<small>${s.owner}</small>`}${s.findings.map(f => html`<${Finding} key=${f.finding_id} f=${f} />`)}<small
          class="narrow">${s.counted_until ? `counted until ${ago(s.counted_until)}` : ''}</small></td>
      <td class="slo-budget"><${Budget} s=${s} /></td>
      <td class="slo-rates">${s.counted_until === null ? '–' : html`<${Rates} burn=${s.burn} />`}</td>
      <td class="mono wide" title=${s.counted_until ?? undefined}>${s.counted_until ? html`${time(s.counted_until, { digits: 0 })}<small>${ago(s.counted_until)}
        </small>` : '–'}</td>
    </tr>`;
}

/** `99.95 %`, with all digits that were promised. */
const percent = x => `${Number(x.toFixed(7))}\u202f%`;

function Budget({ s }) {
  if (s.budget_left_ratio === null) return html`–<small>${s.certainty}</small>`;
  const unit = s.kind === 'checks' ? 'checks' : 'requests';
  const isSpent = rounded(s.budget_left_ratio) < 0;
  return html`
    <span class="slo-left"><b class=${isSpent ? 'class-page' : undefined}>${isSpent ? 'none' : ratio(rounded(s.budget_left_ratio))}</b><meter min="0" max="1"
      low="0.1" high="1" optimum="0.5" value=${Math.max(0, s.budget_left_ratio)} aria-label=${`budget left of ${s.name}`} /></span>
    <small class="narrow">of the budget is left</small>
    <small>${count(s.failed)} of ${count(s.total)} ${unit} failed${isSpent ? `, ${times(1 - s.budget_left_ratio)} the budget` : ''}</small>
    ${s.certainty && html`<small>${s.certainty}</small>`}`;
}

/** Without the noise of a division: a budget that is just spent is 0. */
const rounded = x => Math.round(x * 1e6) / 1e6 + 0;

const times = x => `${x >= 100 ? count(Math.round(x)) : x.toFixed(1)}×`;

/** All windows; what is above the rate of its pair stands out. */
const Rates = ({ burn }) => html`
  <dl>${burn.map(w => html`<div key=${w.window} class=${w.burn > LIMITS[w.window] ? 'is-high' : undefined}
    title=${`${w.failed} of ${w.total} failed in ${w.window}; notifies above ${LIMITS[w.window]}×, with its second window`}>
    <dt>${w.window}</dt><dd>${w.total ? times(w.burn) : 'none'}${isWide(w) && html`<small>${times(w.low)} to ${times(w.high)}</small>`}</dd></div>`)}</dl>`;

/** Whether few requests make the rate uncertain, as in `weir slo list`. */
const isWide = w => w.total > 0 && w.high - w.low > 1 && w.high > 1.5 * w.burn;

function Finding({ f }) {
  const since = `for ${duration(Math.max(0, Math.round((Date.now() - Date.parse(f.started_ts)) / 1000)))}`;
  return html`<small class="slo-finding"><a href=${link('findings', {}, f.finding_id)} title=${f.summary}>finding: ${f.state === 'firing' ? f.class : f.state}
    ${' '}${since}</a>${f.cause_finding_id && html`, caused by <a href=${link('findings', {}, f.cause_finding_id)}>${f.cause_rule}</a>`}</small>`;
}
