// @ts-check
// What a rule would have done: its threshold by the fleet's own past, with a person's yes, and a replay of the rule.
import { html, useState } from '../vendor/preact-htm.js';
import { acceptThreshold, replayRule } from '../api.js';
import { useApi } from '../hooks.js';
import { duration, number, time } from '../format.js';
import { States } from '../parts/panel.js';

const EVENTS_AT_MOST = 8;
const SPANS = [[3_600, '1 hour'], [86_400, '1 day'], [7 * 86_400, '7 days'], [30 * 86_400, '30 days']];

/** The proposal for a rule's threshold: what it would have passed, and missed. @param {{id: string}} props */
export function Threshold({ id }) {
  const loaded = useApi(`/api/thresholds?rule=${encodeURIComponent(id)}`);
  return html`
    <section class="past" aria-label="threshold"><h3>Threshold</h3>
      <${States} loaded=${loaded}>${data => html`<${Proposal} report=${data.thresholds[0]} />`}<//></section>`;
}

const shown = (value, unit) => number(value, unit === 'ratio' || unit === 's' || unit === 'B' ? unit : '');

function Proposal({ report }) {
  const { unit, value, proposed } = report;
  const known = `${report.known_days.toFixed(1)} days of ${report.subject_count} subjects known; budget: ${report.asked_per_week} false findings a week.`;
  if (report.subjects) return html`<p>Each subject is compared with its own week, mined every night: nothing to accept. ${known}</p>`;
  return html`
    <p>${known} <b>${shown(value, unit)}</b> in force: would have fired ${report.event_count} times.</p>
    ${proposed === null ? html`<p data-unknown>No proposal: ${report.unknown}</p>` : html`
      <p data-proposed><b>${shown(proposed, unit)}</b> proposed: would have fired ${report.event_count_proposed} times.</p>
      <${Events} title="no longer found" events=${report.no_longer_seen} unit=${unit} /><${Events} title="newly found"
        events=${report.newly_seen} unit=${unit} />
      ${proposed !== value && html`<${Accept} report=${report} />`}`}`;
}

function Events({ title, events, unit }) {
  if (!events?.length) return html`<p>Nothing is ${title}.</p>`;
  return html`
    <p>${events.length} ${events.length === 1 ? 'event is' : 'events are'} ${title}:</p>
    <ul aria-label=${title}>${events.slice(0, EVENTS_AT_MOST).map(e => html`<li key=${`${e.from_ts} ${e.subject}`}><time
      datetime=${e.from_ts}>${time(e.from_ts, { digits: 0, isLong: true })}</time> ${e.subject}, up to ${shown(e.worst, unit)}</li>`)}
      ${events.length > EVENTS_AT_MOST && html`<li>and ${events.length - EVENTS_AT_MOST} more</li>`}</ul>`;
}

/** Two steps, since what pages people changes. */
function Accept({ report }) {
  const [state, setState] = useState(/** @type {any} */ ({}));
  const accept = async () => {
    try {
      setState({ file: (await acceptThreshold(report.rule, { value: report.value, proposed: report.proposed })).file });
    } catch (error) {
      setState({ error });
    }
  };
  if (state.file) return html`<p role="status">Written to <code>${state.file}</code>; start weir again to use it.</p>`;
  return html`
    <p class="accept">${state.isAsked
      ? html`<span>Write a copy of the rule with ${report.proposed}?</span> <button type="button"
        onClick=${accept}>Yes, write it</button> <button type="button" onClick=${() => setState({})}>No</button>`
      : html`<button type="button" onClick=${() => setState({ isAsked: true })}>Accept ${shown(report.proposed, report.unit)}</button>`}</p>
    ${state.error && html`<p class="row-error" role="alert">${state.error.message}${state.error.hint
      && html`<br />hint: ${state.error.hint}`}</p>`}`;
}

/** When the rule would have fired on the rows that are kept. @param {{id: string}} props */
export function Replay({ id }) {
  const [state, setState] = useState(/** @type {any} */ ({}));
  const replay = async seconds => {
    setState({ isRunning: true });
    try {
      setState({ report: await replayRule(id, seconds) });
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <section class="past" aria-label="replay"><h3>Replay</h3>
      <p>When would it have fired in the last ${SPANS.map(([seconds, label]) => html`<button key=${label} type="button"
        disabled=${state.isRunning} onClick=${() => replay(seconds)}>${label}</button> `)}</p>
      ${state.isRunning && html`<p role="status">replaying the stored rows …</p>`}
      ${state.error && html`<p class="row-error" role="alert">
        ${state.error.message}${state.error.hint && html`<br />hint: ${state.error.hint}`}</p>`}
      ${state.report && html`<${Fired} report=${state.report} />`}
    </section>`;
}

function Fired({ report }) {
  const { findings } = report;
  const counts = ['page', 'mail', 'note'].map(name => `${findings.filter(f => f.class === name).length} as ${name}`).join(', ');
  return html`
    <p role="status" data-fired>It would have fired ${findings.length} times since ${time(report.from_ts,
      { digits: 0, isLong: true })}: ${counts}. ${report.looked_seconds === 0 ? 'There were no rows at which it could fire'
        : `Looked every ${duration(report.step_seconds)} of the ${duration(report.looked_seconds)} in which it could`}${report.is_whole
          ? '' : ', and stopped before the end'}.</p>
    <ul aria-label="fired">${findings.slice(-EVENTS_AT_MOST).reverse().map(f => html`<li key=${`${f.fired_ts} ${JSON.stringify(f.key)}`}>
      <time datetime=${f.fired_ts}>${time(f.fired_ts, { digits: 0, isLong: true })}</time> ${f.class}: ${f.summary}</li>`)}</ul>`;
}
