// @ts-check
// One finding: what, where, since when, the evidence as chart and rows, why, and what to change.
import { html, useState } from '../vendor/preact-htm.js';
import { judgeFinding, objects } from '../api.js';
import { useApi, useSql, useTick } from '../hooks.js';
import { ago, duration, exact, time, value } from '../format.js';
import { link } from '../router.js';
import { Badge, Icon } from '../parts/icon.js';
import { Chart, canChart } from '../parts/chart.js';
import { Grid } from '../parts/grid.js';
import { CopyButton, Empty, OpenSql, Panel, States, prose } from '../parts/panel.js';
import { AllTiers, Path } from './finding_tiers.js';

/** @param {{id: string}} props */
export function Finding({ id }) {
  useTick(5_000);
  const loaded = useApi(`/api/findings/${encodeURIComponent(id)}`, 3_000);
  return html`
    <p class="back"><a href=${link('findings')}><${Icon} name="left" />Findings</a></p>
    <${States} loaded=${loaded} lines=${8}>${f => html`<${Page} f=${f} />`}<//>`;
}

function Page({ f }) {
  const end = f.resolved_ts ? Date.parse(f.resolved_ts) : Date.now();
  return html`
    <article class=${`finding is-${f.state} is-${f.class}`} aria-labelledby="finding-title">
      <header class="finding-head">
        <p><${Badge} finding=${f} /><span>${f.tier}</span><code>${f.rule}</code></p>
        <h1 id="finding-title">${prose(f.summary)}</h1>
        <dl class="facts">
          <div><dt>where</dt><dd>${f.subject}${f.host && html`, host <a href=${link('host', {}, f.host)}>${f.host}</a>`}</dd></div>
          <div><dt>since</dt><dd title=${f.started_ts}>${time(f.started_ts, { digits: 0, isLong: true })} UTC, ${ago(f.started_ts)}</dd>
            </div>
          <div><dt>${f.resolved_ts ? 'lasted' : 'lasts'}</dt><dd>
            ${duration(Math.max(0, Math.round((end - Date.parse(f.started_ts)) / 1000)))}</dd></div>
        </dl>
        <${History} history=${f.history ?? []} />
        <${Judge} f=${f} />
      </header>
      <${Path} f=${f} />
      <div class="finding-body">
        <div>
          ${f.chart && html`<${EvidenceChart} f=${f} />`}
          <${Evidence} f=${f} />
        </div>
        <div>
          <section class="panel fix" aria-label="fix"><header><h2>What to change</h2><${CopyButton} text=${f.fix} label="Copy" /></header>
            ${f.fix.includes('\n') ? html`<pre data-fix tabindex="0">${f.fix}</pre>` : html`<p data-fix>${prose(f.fix)}</p>`}</section>
          <${Text} title="Why it matters" text=${f.why} /><${Text} title="Look at" text=${f.look_at} /><${Text} title="Silent when"
            text=${f.silent_when} /><${Text} title="Source" text=${f.source} isSmall />
        </div>
      </div>
      <${AllTiers} f=${f} />
    </article>`;
}

const VERDICTS = [['real', 'Real'], ['not_actionable', 'Not actionable'], ['wrong', 'Wrong']];

/** Was it real? What people say here decides whether the rule may page. */
function Judge({ f }) {
  const [said, setSaid] = useState(/** @type {any} */ (null));
  const [action, setAction] = useState('');
  const verdict = said?.verdict ?? f.judgement?.verdict;
  const judge = async verdict => {
    try {
      setSaid(await judgeFinding(f.finding_id, { verdict, ...(action.trim() && { action }) }));
    } catch (error) {
      setSaid({ error: error.message });
    }
  };
  return html`
    <div class="judge" role="group" aria-label="Was it real?"><span>Was it real?</span>
      ${VERDICTS.map(([name, label]) => html`<button key=${name} type="button" aria-pressed=${verdict === name}
        onClick=${() => judge(name)}>${label}</button>`)}
      <input aria-label="what was done" placeholder="action taken, in a few words" maxlength="500" value=${action}
        onInput=${e => setAction(e.currentTarget.value)} />
      <span class="aside" role="status">${said?.error ? said.error : said
        ? `kept; ${said.real} of the rule's last ${said.judged} judged findings were real${said.may_page ? '' : ': it no longer pages'}`
          : f.judgement?.user_name ? `by ${f.judgement.user_name}, ${ago(f.judgement.ts)}` : ''}</span>
    </div>`;
}

const History = ({ history }) => html`
  <ol class="history" aria-label="states">${history.map((h, i) => html`
    <li key=${`${h.ts} ${h.state}`} class=${`is-${h.state}${i === history.length - 1 ? ' is-now' : ''}`}><b>${h.state}</b><time
      datetime=${h.ts} title=${h.ts}>${time(h.ts, { digits: 0 })}</time></li>`)}</ol>`;

function EvidenceChart({ f }) {
  const loaded = useSql(f.chart.sql, { every: f.state === 'resolved' ? 0 : 5_000, limit: 5000 });
  const tried = useSql(trials(f), { limit: 100 });
  const marks = (f.history ?? []).filter((h, i, all) => h.state !== all[i - 1]?.state).map(h => ({ ts: h.ts,
    label: h.state })).concat(objects(tried.data));
  return html`
    <${Panel} title=${f.chart.title || 'Evidence over time'} sql=${f.chart.sql} isChart>
      <${States} loaded=${loaded} isEmpty=${d => !d.rows.length || !canChart(d)}
        empty="No rows for the chart in its time range; the rows below are stored with the finding.">
        ${answer => html`<${Chart} answer=${answer} unit=${unitName(f.chart.unit)} marks=${marks} />`}
      <//>
    <//>`;
}

// Trials on the finding's host (`weir tune --try`) are marked in its chart: when they were set, and their outcome.
const trials = f => {
  const rows = `from setting_trial where host = '${f.host.replaceAll("'", "''")}' and ts > timestamp '${f.started_ts}' - interval '15 days'`;
  return `select distinct began_ts as ts, concat(name, ' = ', value) as label ${rows} union all select distinct ended_ts as ts, concat(name, ' ', state) as label ${rows} and ended_ts is not null order by 1`;
};

// The rule's unit holds for all its series when it is one that can be printed; else each column's own.
const unitName = unit => (['s', 'B', 'ratio', '/s', 'B/s', 'count'].includes(unit) ? unit : undefined);

/** The rows that the rule saw, kept with the finding. */
function Evidence({ f }) {
  const rows = Array.isArray(f.evidence) ? f.evidence : [];
  const shown = [f.fix, f.summary, f.subject, f.tier, f.class]; // what the page says anyway is not repeated
  const names = [...new Set(rows.flatMap(row => Object.keys(row)))].filter(name => rows.length > 1 || !shown.includes(rows[0][name]));
  const kind = name => {
    const sample = rows.map(row => row[name]).find(v => v !== null && v !== undefined);
    return typeof sample === 'number' ? 'float' : typeof sample === 'boolean' ? 'boolean' : 'text';
  };
  const answer = { columns: names.map(name => ({ name, kind: kind(name), unit: '' })),
    rows: rows.map(row => names.map(name => row[name] ?? null)), row_count: rows.length, is_truncated: false, elapsed_seconds: 0 };
  const first = rows.length === 1;
  return html`
    <section class="panel" aria-label="evidence" data-evidence>
      <header><h2>Evidence</h2><span class="aside">the rule's last result, stored with the finding</span>
        ${f.sql && html`<${OpenSql} sql=${f.sql} />`}</header>
      ${!rows.length ? html`<${Empty}>This finding has no evidence rows.<//>` : first ? html`<dl class="evidence">
        ${names.map((name, i) => html`<div key=${name}><dt>${name}</dt><dd title=${exact(answer.rows[0][i], answer.columns[i])}>
          ${value(answer.rows[0][i], answer.columns[i])}</dd></div>`)}</dl>`
        : html`<${Grid} answer=${answer} label="evidence rows" />`}
    </section>`;
}

const Text = ({ title, text, isSmall }) => (text ? html`<section class=${`panel text${isSmall ? ' is-small' : ''}`} aria-label=${title}>
  <header><h2>${title}</h2></header>${paragraphs(text)}</section>` : null);

const paragraphs = text => text.trim().split(/\n\s*\n/).map((part, i) => html`<p key=${i}>${prose(part)}</p>`);
