// SPDX-License-Identifier: Apache-2.0 OR MIT
'use strict';
const R = JSON.parse(document.getElementById('results').textContent);
// Twins: each side is a scheme of its own here.
for (const x of [...R.flows, ...R.series, ...R.summary.groups, ...(R.summary.overall || [])]) if (x.side) x.scheme += ' ' + x.side;
const $ = id => document.getElementById(id);
const links = [...new Set(R.flows.map(f => f.link))];
const schemes = [...new Set(R.flows.map(f => f.scheme))];
// The palette is the picture's, too.
const looks = JSON.parse($('looks').textContent);
const colour = {}, dash = {};
for (const s of schemes) {
  // Of twins both sides have the scheme's colour, and the simulated one is dotted.
  const look = looks[s] || looks[s.replace(/ [^ ]+$/, '')] || { colour: '#666666', dash: '' };
  colour[s] = look.colour;
  dash[s] = !looks[s] && / sim[a-z]*$/.test(s) ? 'dot' : look.dash ? look.dash.replace(/(\d+)/g, '$1px') : 'solid';
}
const tint = (s, a) => colour[s] + Math.round(a * 255).toString(16).padStart(2, '0');
const isNumber = v => v !== null && v !== undefined;
const show = (v, digits) => isNumber(v) ? v.toFixed(digits) : '–';
// Milliseconds: as many digits as help.
const ms = v => !isNumber(v) ? '–' : v >= 100 ? v.toFixed(0) : v.toFixed(1);
const escape = t => String(t).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
let link = links[0], scale = 'log';
const hidden = new Set();

const font = { family: 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif', size: 12.5, color: '#5d6b78' };
const grid = '#eef1f4';
const config = { responsive: true, displaylogo: false, displayModeBar: 'hover', showSendToCloud: false, modeBarButtonsToRemove: ['lasso2d', 'select2d'] };
const hover = { bgcolor: '#fff', bordercolor: '#e3e8ed', font: { ...font, color: '#17212b' } };
function layout(more) {
  return { font, margin: { l: 58, r: 16, t: 8, b: 42 }, paper_bgcolor: '#fff', plot_bgcolor: '#fff', hoverlabel: hover,
    showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, xanchor: 'left', font: { ...font, color: '#17212b' } }, ...more };
}
const axis = (title, more) => ({ title: { text: title, standoff: 8 }, gridcolor: grid, zeroline: false, linecolor: '#c9d1d9', ticks: 'outside', tickcolor: '#c9d1d9', ...more });
const logDelay = (title, more) => axis(title, { type: 'log', tickvals: [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000], ticktext: ['5 ms', '10 ms', '20 ms', '50 ms', '100 ms', '200 ms', '0.5 s', '1 s', '2 s', '5 s', '10 s', '20 s'], ...more });

// The series of a link: of the first repetition, which is the one that the time plots show.
const shown = () => { const all = R.series.filter(s => s.link === link); const first = Math.min(...all.map(s => s.run)); return all.filter(s => s.run === first); };
const times = s => s.throughput_mbps.map((_, i) => +((i + 0.5) * s.bin_s).toFixed(3));
const rows = (l, s) => R.flows.filter(f => f.link === l && f.scheme === s);
const group = (l, s) => R.summary.groups.find(g => g.link === l && g.scheme === s) || { fields: {}, runs: 0 };
const median = (l, s, field) => { const f = group(l, s).fields[field]; return f ? f.median : null; };
const visible = s => hidden.has(s) ? 'legendonly' : true;
// Averages neighbours, so that the eye sees the course and not the grain of single packets.
function smooth(values, n) {
  return values.map((_, i) => { const w = values.slice(Math.max(0, i - n), i + n + 1).filter(isNumber); return w.length ? w.reduce((a, b) => a + b, 0) / w.length : null; });
}
const quantileLevels = (() => { const q = []; for (let i = 0; i <= 99; i++) q.push(i / 100); for (let i = 1; i < 10; i++) q.push(0.99 + i / 1000); q.push(1); return q; })();

function header() {
  document.title = 'alcc · ' + R.about.link;
  $('title').textContent = R.about.link;
  $('sentence').textContent = R.summary.sentence;
  if (links.length > 1) {
    $('links').hidden = false;
    $('links').innerHTML = links.map(l => `<button data-link="${escape(l)}">${escape(l)}</button>`).join('');
    $('links').onclick = e => { if (e.target.dataset.link) { link = e.target.dataset.link; draw(); } };
  }
  document.querySelector('.switch').onclick = e => { if (e.target.dataset.scale) { scale = e.target.dataset.scale; delay(); } };
  const a = R.about, late = Math.max(...R.flows.map(f => f.lateness_p99_ms || 0));
  const machine = a.date ? ` · ${escape(a.date)} · kernel ${escape(a.kernel)}, ${a.cpus} processors · emulator late by at most ${late.toFixed(2)} ms in 99 % of its timers` : '';
  $('about').innerHTML = `${escape(a.mode || '')} · <code>${escape(a.command)}</code> · ${escape(a.program)} · seed ${a.seed}${machine} · * on the Pareto front: no other has at least its throughput at no more mean delay, one of the two better`;
  $('notes').innerHTML = R.notes.map(n => `<li>${escape(n)}</li>`).join('');
}
function cards() {
  // The figures of the sentence: of several links the means, as in the last lines of the table.
  const all = R.summary.overall || [], mean = s => all.find(o => o.scheme === s) || { fields: {} };
  const figure = (s, field) => all.length ? mean(s).fields[field] : median(link, s, field);
  const worst = Math.max(...schemes.map(s => figure(s, 'delay_mean_ms') || 0));
  const where = all.length ? `means of ${all[0].links} links · ` : '';
  $('cards').innerHTML = schemes.filter(s => rows(link, s).length).map(s => {
    const r = rows(link, s)[0], d = figure(s, 'delay_mean_ms');
    const how = r.error ? escape(r.error) : r.feedback === 'kernel' ? 'plain kernel TCP' : r.feedback === 'sim' ? 'simulated, alone' : `${r.algorithm}${r.options ? ':' + r.options : ''} · ${r.feedback} · ${r.enforcement}${r.under ? ' · over ' + r.under : ''}`;
    return `<div class="card" style="--c:${colour[s]}"><div class="name">${escape(s)}</div><div class="how">${escape(where + how)}</div>
      <div class="big"><div><b>${ms(d)}</b><span>ms mean delay</span></div><div><b>${show(figure(s, 'throughput_mbps'), 1)}</b><span>Mbit/s</span></div></div>
      <div class="bar" title="mean delay"><i style="width:${worst ? Math.max(1.2, 100 * (d || 0) / worst) : 0}%"></i></div></div>`;
  }).join('');
}
function throughput() {
  const all = shown(), traces = [];
  if (all.length) {
    // One area for all: the schemes see the same trace from the same moment.
    const c = all[0];
    traces.push({ x: times(c), y: smooth(c.capacity_mbps, 1), name: 'link capacity', type: 'scatter', mode: 'lines', fill: 'tozeroy', fillcolor: '#e4e9ee', line: { color: '#c3ccd5', width: 1, shape: 'spline', smoothing: .4 }, hovertemplate: '%{y:.1f} Mbit/s' });
  }
  for (const s of all) traces.push({ x: times(s), y: smooth(s.throughput_mbps, 1), name: s.scheme, legendgroup: s.scheme, visible: visible(s.scheme), type: 'scatter', mode: 'lines', line: { color: colour[s.scheme], dash: dash[s.scheme], width: 2 }, hovertemplate: '%{y:.1f} Mbit/s' });
  Plotly.react('throughput', traces, layout({ hovermode: 'x unified', xaxis: axis('', { ticksuffix: ' s', range: span(all) }), yaxis: axis('Mbit/s', { rangemode: 'tozero' }) }), config);
}
const span = all => all.length ? [0, all[0].bin_s * all[0].throughput_mbps.length] : [0, 1];
function delay() {
  document.querySelectorAll('.switch button').forEach(b => b.classList.toggle('on', b.dataset.scale === scale));
  const all = shown();
  const traces = all.map(s => ({ x: times(s), y: s.delay_ms, name: s.scheme, visible: visible(s.scheme), type: 'scatter', mode: 'lines', connectgaps: true, line: { color: colour[s.scheme], dash: dash[s.scheme], width: 2 }, hovertemplate: '%{y:.0f} ms' }));
  const min = R.flows.find(f => f.link === link && isNumber(f.min_rtt_ms));
  const shapes = min ? [{ type: 'line', xref: 'paper', x0: 0, x1: 1, y0: min.min_rtt_ms / 2, y1: min.min_rtt_ms / 2, line: { color: '#9aa6b2', width: 1, dash: 'dot' } }] : [];
  const notes = min ? [{ xref: 'paper', x: 0.004, xanchor: 'left', y: scale === 'log' ? Math.log10(min.min_rtt_ms / 2) : min.min_rtt_ms / 2, yanchor: 'top', text: 'propagation alone', showarrow: false, font: { ...font, size: 11 } }] : [];
  const y = scale === 'log' ? logDelay('', min ? { range: [Math.log10(min.min_rtt_ms / 2 * 0.6), Math.log10(Math.max(min.min_rtt_ms, ...all.flatMap(s => s.delay_ms.filter(isNumber))) * 1.3)] } : {}) : axis('ms', { rangemode: 'tozero' });
  Plotly.react('delay', traces, layout({ hovermode: 'x unified', xaxis: axis('', { ticksuffix: ' s', range: span(all) }), yaxis: y, shapes, annotations: notes }), config);
}
function cdf() {
  const traces = shown().map(s => ({ x: s.delay_quantiles_ms, y: quantileLevels.map(q => 100 * q), name: s.scheme, visible: visible(s.scheme), type: 'scatter', mode: 'lines', line: { color: colour[s.scheme], dash: dash[s.scheme], width: 2.5 }, hovertemplate: '%{y} % of packets within %{x:.0f} ms' }));
  Plotly.react('cdf', traces, layout({ hovermode: 'closest', xaxis: logDelay('one-way delay'), yaxis: axis('share of packets', { range: [0, 103], ticksuffix: ' %' }) }), config);
}
// A name beside its mark must not be cut: it stands on the side where there is room, and a long one is shortened (the
// legend and the pointer show all of it).
const short = s => s.length > 22 ? s.slice(0, 21) + '…' : s;
const inside = (x, values) => { const all = values.filter(v => v > 0); return Math.log10(x) > (Math.log10(Math.min(...all)) + Math.log10(Math.max(...all))) / 2; };
// Delay is log10 on the plots, and its axis goes down to the right: up and right is better.
const reversed = (title, values) => {
  const all = values.filter(v => v > 0), lo = Math.log10(Math.min(...all)), hi = Math.log10(Math.max(...all)), room = Math.max(0.1, 0.08 * (hi - lo));
  return logDelay(title, all.length ? { autorange: false, range: [hi + room, lo - Math.max(room, 0.22 * (hi - lo))] } : { autorange: 'reversed' });
};
// One standard deviation around points, as a closed line; x is taken as a logarithm.
function ellipse(points) {
  const n = points.length, xs = points.map(p => Math.log10(p[0])), ys = points.map(p => p[1]);
  if (n < 3) return null;
  const mean = v => v.reduce((a, b) => a + b, 0) / n, mx = mean(xs), my = mean(ys);
  const m = (a, am, b, bm) => a.reduce((t, v, i) => t + (v - am) * (b[i] - bm), 0) / (n - 1);
  const xx = m(xs, mx, xs, mx), yy = m(ys, my, ys, my), xy = m(xs, mx, ys, my), sx = Math.sqrt(xx), k = sx > 0 ? xy / sx : 0, rest = Math.sqrt(Math.max(0, yy - k * k));
  if (!(sx > 0 || rest > 0)) return null;
  // A circle through the Cholesky factor of the covariance.
  const turn = [...Array(61).keys()].map(i => i * Math.PI / 30);
  return { x: turn.map(t => 10 ** (mx + sx * Math.cos(t))), y: turn.map(t => my + k * Math.cos(t) + rest * Math.sin(t)) };
}
const along = points => { // the Pareto front
  const on = points.filter(p => p.front).sort((a, b) => a.x - b.x);
  return { x: on.map(p => p.x), y: on.map(p => p.y), type: 'scatter', mode: 'lines', showlegend: false, hoverinfo: 'skip', line: { color: '#9aa6b2', width: 1.5, dash: 'dash' } };
};
function plane() {
  const traces = [], annotations = [], labels = [], points = [];
  let seen = [];
  for (const s of schemes) {
    const runs = rows(link, s).filter(r => isNumber(r.delay_mean_ms) && isNumber(r.throughput_mbps)), g = group(link, s);
    if (!runs.length) continue;
    const x = median(link, s, 'delay_mean_ms'), y = median(link, s, 'throughput_mbps');
    points.push({ x, y, front: g.front });
    seen = seen.concat(runs.map(r => r.delay_mean_ms));
    const round = ellipse(runs.map(r => [r.delay_mean_ms, r.throughput_mbps]));
    if (round) traces.push({ ...round, name: s, visible: visible(s), type: 'scatter', mode: 'lines', fill: 'toself', fillcolor: tint(s, .16), hoverinfo: 'skip', line: { color: tint(s, .5), width: 1 } });
    if (runs.length > 1) traces.push({ x: runs.map(r => r.delay_mean_ms), y: runs.map(r => r.throughput_mbps), name: s, visible: visible(s), type: 'scatter', mode: 'markers', marker: { color: tint(s, .45), size: 6 }, hovertemplate: `${escape(s)}, a run: %{y:.2f} Mbit/s, %{x:.0f} ms<extra></extra>` });
    traces.push({ x: [x], y: [y], name: s, visible: visible(s), type: 'scatter', mode: 'markers', marker: { color: colour[s], size: 15, line: { color: '#fff', width: 2 } }, hovertemplate: `${escape(s)}: %{y:.2f} Mbit/s, mean %{x:.0f} ms<extra></extra>` });
    labels.push({ x: Math.log10(x), y, text: `<b>${escape(short(s))}</b>`, showarrow: false, yanchor: 'bottom', yshift: 5, font: { ...font, color: colour[s] } });
  }
  // The axis goes down to the right: the larger delays have room at their right.
  for (const l of labels) { const left = inside(10 ** l.x, seen); annotations.push({ ...l, xanchor: left ? 'left' : 'right', xshift: left ? 9 : -9 }); }
  annotations.push(better);
  const repeated = points.length && schemes.some(s => rows(link, s).length > 1);
  $('plane-note').textContent = (repeated ? 'large: median of the runs, ellipse: one standard deviation, ' : '') + 'dashed: Pareto front; less delay is to the right: up and right is better';
  Plotly.react('plane', [along(points), ...traces], layout({ showlegend: false, hovermode: 'closest', annotations, xaxis: reversed('mean one-way delay', seen), yaxis: axis('Mbit/s', { rangemode: 'tozero' }) }), config);
}
const better = { xref: 'paper', yref: 'paper', x: 0.02, y: 0.02, xanchor: 'left', yanchor: 'bottom', showarrow: false, text: 'better ↗', font: { ...font, size: 13 } };
function overview() {
  if (links.length < 2) return;
  $('overview-panel').hidden = false;
  const traces = [], points = [];
  let seen = [];
  const known = R.flows.some(f => isNumber(f.utilization)), field = known ? 'utilization' : 'throughput_mbps', factor = known ? 100 : 1, unit = known ? '%' : 'Mbit/s';
  for (const s of schemes) {
    const have = links.filter(l => isNumber(median(l, s, 'delay_mean_ms')) && isNumber(median(l, s, field)));
    if (!have.length) continue;
    const x = have.map(l => median(l, s, 'delay_mean_ms')), y = have.map(l => factor * median(l, s, field));
    seen = seen.concat(x);
    traces.push({ x, y, text: have, name: s, legendgroup: s, visible: visible(s), type: 'scatter', mode: 'markers', marker: { color: tint(s, .4), size: 7 }, hovertemplate: `${escape(s)} on %{text}: %{y:.1f} ${unit}, %{x:.0f} ms<extra></extra>` });
    const all = (R.summary.overall || []).find(o => o.scheme === s);
    if (!all || !isNumber(all.fields.delay_mean_ms) || !isNumber(all.fields[field])) continue;
    points.push({ x: all.fields.delay_mean_ms, y: factor * all.fields[field], front: all.front });
    traces.push({ x: [all.fields.delay_mean_ms], y: [factor * all.fields[field]], name: s, legendgroup: s, showlegend: false, visible: visible(s), type: 'scatter', mode: 'markers+text', text: [`<b>${escape(short(s))}</b>`], textposition: 'top right', textfont: { color: colour[s] }, marker: { color: colour[s], size: 18, line: { color: '#fff', width: 2 } }, hovertemplate: `${escape(s)}, mean of ${all.links} links: %{y:.1f} ${unit}, %{x:.0f} ms<extra></extra>` });
  }
  // As on the plane of one link.
  for (const t of traces) if (t.textposition) t.textposition = inside(t.x[0], seen) ? 'top right' : 'top left';
  Plotly.react('overview', [along(points), ...traces], layout({ hovermode: 'closest', annotations: [better], xaxis: reversed('mean one-way delay', seen), yaxis: axis(known ? 'utilization' : '', { ticksuffix: ' ' + unit }) }), config);
}
function table() {
  const percent = v => 100 * v;
  const columns = [['throughput_mbps', 'Throughput<br>Mbit/s', v => show(v, 2)], ['utilization', 'Utilization<br>%', v => show(percent(v), 1)],
    ['delay_mean_ms', 'Delay mean<br>ms', ms], ['delay_median_ms', 'median<br>ms', ms], ['delay_p95_ms', '95 %<br>ms', ms],
    ['app_delay_median_ms', 'App to app<br>median ms', ms], ['app_delay_p95_ms', 'App to app<br>95 % ms', ms], ['rtt_mean_ms', 'RTT mean<br>ms', ms],
    ['power', 'Power<br>Mbit/s per s', v => show(v, 0)], ['loss', 'Loss<br>%', v => show(percent(v), 2)], ['retransmits', 'Retransmits', v => show(v, 0)], ['timeouts', 'Timeouts', v => show(v, 0)], ['cpu_s_per_gbit', 'CPU<br>s/Gbit', v => show(v, 3)]]
    .filter(c => R.summary.groups.some(g => g.fields[c[0]]));
  const many = R.summary.groups.some(g => g.runs > 1);
  $('spread-note').textContent = many ? 'median of the repetitions, small: smallest to largest' : 'one run: no spread is known';
  let html = `<tr><th class="text">Scheme</th>${columns.map(c => `<th>${c[1]}</th>`).join('')}</tr>`;
  for (const l of links) {
    if (links.length > 1) html += `<tr class="link"><td colspan="${columns.length + 1}">${escape(l)}</td></tr>`;
    for (const s of schemes) {
      const g = group(l, s);
      if (!g.runs && !g.failed) continue;
      html += `<tr style="--c:${colour[s]}"><td class="text"><span class="dot"></span>${escape(s)}${g.front ? ' <b title="on the Pareto front">*</b>' : ''}${g.failed ? ` (${g.failed} failed)` : ''}</td>` + columns.map(([field, , format]) => {
        const f = g.fields[field];
        if (!f) return '<td>–</td>';
        return `<td>${format(f.median)}${g.runs > 1 ? `<small>${format(f.min)} – ${format(f.max)}</small>` : ''}</td>`;
      }).join('') + '</tr>';
    }
  }
  const overall = R.summary.overall || [];
  if (overall.length) html += `<tr class="link"><td colspan="${columns.length + 1}">all: means of ${overall[0].links} links</td></tr>` + overall.map(o =>
    `<tr style="--c:${colour[o.scheme]}"><td class="text"><span class="dot"></span>${escape(o.scheme)}${o.front ? ' <b title="on the Pareto front">*</b>' : ''}</td>` +
    columns.map(([field, , format]) => `<td>${isNumber(o.fields[field]) ? format(o.fields[field]) : '–'}</td>`).join('') + '</tr>').join('');
  $('table').innerHTML = html;
}
// Native forms and what was measured beside them: the distributions of all runs, as density and cumulated.
const pairs = R.summary.pairs || [];
let native = null;
const pooled = s => R.series.filter(x => x.link === link && x.scheme === s);
// Equally likely values of a run's packets: the hundredths.
const packets = s => pooled(s).flatMap(x => quantileLevels.map((q, i) => [q, x.delay_quantiles_ms[i]]).filter(p => Math.abs(100 * p[0] - Math.round(100 * p[0])) < 1e-9 && isNumber(p[1])).map(p => p[1]));
const seconds = s => pooled(s).flatMap(x => {
  const n = Math.max(1, Math.round(1 / x.bin_s)), all = [];
  for (let i = 0; i + n <= x.throughput_mbps.length; i += n) all.push(x.throughput_mbps.slice(i, i + n).reduce((a, b) => a + b, 0) / n);
  return all;
});
// Gaussian kernels of Scott's width.
function density(values, from, to) {
  const n = values.length, mean = values.reduce((a, b) => a + b, 0) / n, sd = Math.sqrt(values.reduce((a, v) => a + (v - mean) ** 2, 0) / Math.max(1, n - 1));
  const h = Math.max(1.06 * sd * n ** -0.2, (to - from) / 500), x = [...Array(161).keys()].map(i => from + i * (to - from) / 160);
  return { x, y: x.map(at => values.reduce((a, v) => a + Math.exp(-(((at - v) / h) ** 2) / 2), 0) / (n * h * Math.sqrt(2 * Math.PI))) };
}
function kin() {
  const here = pairs.filter(p => p.link === link), natives = [...new Set(here.map(p => p.native))];
  $('kin-panel').hidden = !here.length;
  if (!here.length) return;
  if (!natives.includes(native)) native = natives[0];
  $('kin').innerHTML = natives.map(n => `<button data-native="${escape(n)}" class="${n === native ? 'on' : ''}">${escape(n)}</button>`).join('');
  $('kin').onclick = e => { if (e.target.dataset.native) { native = e.target.dataset.native; kin(); } };
  const mine = here.filter(p => p.native === native), names = [native, ...mine.map(p => p.scheme)];
  const style = s => ({ color: colour[s], width: s === native ? 3 : 2, dash: s === native ? 'dot' : 'solid' });
  for (const [id, of, unit, fit] of [['kin-delay', packets, 'ms', v => v[Math.floor(0.99 * (v.length - 1))]], ['kin-throughput', seconds, 'Mbit/s', v => v[v.length - 1]]]) {
    const sorted = names.map(s => of(s).sort((a, b) => a - b)).map((v, i) => [names[i], v]).filter(p => p[1].length);
    const to = 1.05 * Math.max(...sorted.map(p => fit(p[1])));
    const line = (s, xy, hover) => ({ ...xy, name: s, legendgroup: s, type: 'scatter', mode: 'lines', line: style(s), hovertemplate: hover });
    Plotly.react(id, sorted.map(([s, v]) => line(s, density(v, 0, to), `%{x:.1f} ${unit}`)), layout({ hovermode: 'closest', xaxis: axis(unit, { range: [0, to] }), yaxis: axis('density', { rangemode: 'tozero', showticklabels: false }) }), config);
    Plotly.react(id + '-cdf', sorted.map(([s, v]) => line(s, { x: v, y: v.map((_, i) => 100 * (i + 1) / v.length) }, `%{y:.0f} % within %{x:.1f} ${unit}`)), layout({ showlegend: false, hovermode: 'closest', xaxis: axis(unit, { range: [0, to] }), yaxis: axis('', { range: [0, 101], ticksuffix: ' %' }) }), config);
  }
  const signed = (v, d) => (v > 0 ? '+' : '') + v.toFixed(d), spread = (s, d) => `${signed(s.median, d)}<small>${signed(s.min, d)} – ${signed(s.max, d)}</small>`;
  const missed = w => Object.keys(w).filter(k => !w[k]);
  $('kin-table').innerHTML = `<tr><th class="text">Beside ${escape(native)}</th><th>Median Mbit/s<br>native, its</th><th>Difference<br>%</th><th>Median queueing ms<br>native, its</th><th>Difference<br>ms</th><th>Runs</th><th class="text">Near enough</th></tr>` + mine.map(p =>
    `<tr style="--c:${colour[p.scheme]}"><td class="text"><span class="dot"></span>${escape(p.scheme)}</td><td>${p.throughput_mbps.map(v => v.toFixed(2)).join(', ')}</td><td>${spread(p.throughput_difference, 1)}</td><td>${p.queue_delay_ms.map(v => v.toFixed(1)).join(', ')}</td><td>${spread(p.queue_delay_difference_ms, 1)}</td><td>${p.runs}</td><td class="text">${missed(p.within).length ? 'no: ' + missed(p.within).join(', ') : 'yes'}</td></tr>`).join('');
}
let linking = false;
function draw() {
  document.querySelectorAll('#links button').forEach(b => b.classList.toggle('on', b.dataset.link === link));
  cards(); throughput(); delay(); cdf(); plane(); overview(); kin();
}
header(); table(); draw();
// Zooming one time plot zooms the other; switching a scheme off in one plot switches it off in all.
for (const [one, other] of [['throughput', 'delay'], ['delay', 'throughput']]) {
  $(one).on('plotly_relayout', e => {
    if (linking) return;
    const range = e['xaxis.range[0]'] !== undefined ? { 'xaxis.range': [e['xaxis.range[0]'], e['xaxis.range[1]']] } : e['xaxis.autorange'] ? { 'xaxis.autorange': true } : null;
    if (range) { linking = true; Plotly.relayout(other, range).then(() => { linking = false; }); }
  });
}
for (const id of ['throughput', 'delay']) {
  $(id).on('plotly_legendclick', e => {
    const name = e.data[e.curveNumber].name;
    if (!schemes.includes(name)) return true;
    if (!hidden.delete(name)) hidden.add(name);
    draw();
    return false;
  });
}
