// @ts-check
// Parse: what lines become, how far a pattern or a pipeline fits them, and a pattern to start from. Stores nothing.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { parseLines } from '../api.js';
import { count, duration } from '../format.js';
import { useQuestion } from '../hooks.js';
import { setParams, useRoute } from '../router.js';
import { Icon } from '../parts/icon.js';
import { CopyButton, Empty, Problem, Skeleton } from '../parts/panel.js';

const SAMPLE = `203.0.113.9 - - [20/Nov/2026:12:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl/8.5"`;
const LEFT_OUT = ['host', 'tier', 'observed_ts', 'source', 'source_offset', 'raw'];
const AROUND = 60;

export function Parse() {
  const { params } = useRoute();
  const [lines, setLines] = useState(params.lines ?? SAMPLE);
  const [rule, setRule] = useState(params.rule ?? '');
  const { result, isRunning, run } = useQuestion(([text, how], signal) => parseLines(questionOf(text, how), signal));
  useEffect(() => {
    if (params.lines === undefined) return;
    setLines(params.lines);
    setRule(params.rule ?? '');
    run([params.lines, params.rule ?? '']);
  }, [params.lines, params.rule]);
  const submit = () => { if (lines === params.lines && rule === (params.rule ?? '')) run([lines, rule]); else setParams({ lines, rule }); };
  const take = pattern => { setRule(pattern); setParams({ lines, rule: pattern }); };
  const keys = event => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); } };
  return html`
    <div class="parse">
      <section class="panel editor" aria-label="lines and pattern">
        <label class="parse-field">Log lines, unchanged
          <textarea data-search spellcheck=${false} aria-label="lines" rows="6" value=${lines}
            onInput=${e => setLines(e.currentTarget.value)} onKeyDown=${keys} /></label>
        <label class="parse-field">A grok pattern, a pipeline (TOML), or nothing: then the format is detected
          <textarea spellcheck=${false} aria-label="pattern or pipeline" rows=${Math.min(16, Math.max(2, rule.split('\n').length))}
            placeholder="%{IPORHOST:client_address} %{WORD:verb} %{NOTSPACE:path}" value=${rule}
              onInput=${e => setRule(e.currentTarget.value)} onKeyDown=${keys} /></label>
        <footer><button type="button" class="primary" onClick=${submit} disabled=${isRunning}><${Icon}
          name="play" />Parse <kbd>Ctrl Enter</kbd></button></footer>
      </section>
      <${Result} result=${result} isRunning=${isRunning} onTake=${take} />
    </div>`;
}

/** A text with a section is a pipeline, any other a pattern. */
function questionOf(lines, rule) {
  if (!rule.trim()) return { lines };
  return /^\s*\[+(parse|match|step|patterns)\]/m.test(rule) ? { lines, pipeline: rule } : { lines, pattern: rule.trim() };
}

function Result({ result, isRunning, onTake }) {
  if (!result) return isRunning ? html`<section class="panel"><${Skeleton} lines=${6} /></section>` : html`<section class="panel">
    <${Empty}>Paste some lines and press Parse. Nothing is stored.<//></section>`;
  if (result.error) return html`<section class="panel"><${Problem} error=${result.error} title="cannot parse" /></section>`;
  const { lines, suggestion } = result.answer;
  const isUnclear = lines.some(line => line.table === 'reject' || line.format === 'text');
  return html`
    ${suggestion && isUnclear && html`<section class="panel parse-suggestion" aria-label="suggestion"><header><h2>Suggested pattern</h2>
      <span class="aside">matches ${count(suggestion.matched)} of ${count(suggestion.lines)} lines</span></header>
      <pre><code>${suggestion.pattern}</code></pre><p><button type="button"
        onClick=${() => onTake(suggestion.pattern)}>Try it</button> <${CopyButton} text=${suggestion.pattern} label="Copy" /></p>
          </section>`}
    ${lines.length ? lines.map((line, i) => html`<${Line} key=${i} line=${line} />`) : html`<section class="panel"><${Empty}>No lines.<//>
      </section>`}`;
}

function Line({ line }) {
  const fields = [...line.columns.filter(c => !LEFT_OUT.includes(c.name)),
    ...Object.entries(line.attrs).map(([name, value]) => ({ name: `attrs.${name}`, kind: 'text', value }))];
  const isReject = line.table === 'reject';
  return html`
    <section class=${`panel parse-line${isReject ? ' is-reject' : ''}`} aria-label="line">
      <header><h2>${isReject && html`<${Icon} name="page" label="unparsed" />`}${line.table}</h2>
        <span class="aside">${line.format}${line.pipeline ? `, pipeline ${line.pipeline}` : ''}, ${duration(line.cost_seconds)}</span>
          </header>
      <pre class="parse-text">${line.line}</pre>
      <dl>${fields.map(field => html`<div key=${field.name}><dt>${field.name}</dt><dd>${field.value}<small> ${field.kind}</small></dd>
        </div>`)}</dl>
      ${line.progress.filter(p => !p.is_match).map((p, i) => html`<${Stopped} key=${i} line=${line.line} progress=${p} title="Pattern" />`)}
      ${line.near.map((p, i) => html`<${Stopped} key=${i} line=${line.line} progress=${p} title=${p.is_match ? 'Fits' : 'Nearly'} />`)}
    </section>`;
}

/** Where a pattern stopped: byte offsets, so the line is cut as bytes. */
function Stopped({ line, progress, title }) {
  const bytes = new TextEncoder().encode(line);
  const text = (from, to) => new TextDecoder().decode(bytes.slice(Math.max(0, from), to));
  const at = progress.stopped_at;
  return html`<div class="parse-stopped"><h3>${title} <code>${progress.pattern}</code></h3>
    ${progress.is_too_costly ? html`<p>exceeds the step limit on this line</p>` : progress.is_match ? '' : html`
      <p>${progress.pieces_matched} of ${progress.pieces} pieces fit: <code>${progress.matched}</code></p>
      <pre>${text(at - AROUND, at)}<mark>${text(at, at + AROUND) || ' '}</mark></pre>
      <p>expected at byte ${at}: <code>${progress.expected}</code></p>`}</div>`;
}
