// SPDX-License-Identifier: Apache-2.0 OR MIT
'use strict';
const R = JSON.parse(document.getElementById('results').textContent);
// Twins: each side is a scheme of its own here.
for (const x of [...R.flows, ...R.summary.groups, ...(R.summary.overall || [])]) if (x.side) x.scheme += ' ' + x.side;
const $ = id => document.getElementById(id);
const links = [...new Set(R.flows.map(f => f.link))];
const schemes = [...new Set(R.flows.map(f => f.scheme))];
// The legend has the colours of the palette, and names a profile behind the scheme: 'copa (tuned)'.
const colour = {};
for (const b of document.querySelectorAll('#legend button')) colour[b.textContent.trim().replace(/ \(.*\)$/, '')] = getComputedStyle(b.querySelector('.swatch')).getPropertyValue('--c');
const isNumber = v => v !== null && v !== undefined;
const show = (v, digits) => isNumber(v) ? v.toFixed(digits) : '–';
// Milliseconds: as many digits as help.
const ms = v => !isNumber(v) ? '–' : v >= 100 ? v.toFixed(0) : v.toFixed(1);
const escape = t => String(t).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
let link = links[0];

const rows = (l, s) => R.flows.filter(f => f.link === l && f.scheme === s);
const group = (l, s) => R.summary.groups.find(g => g.link === l && g.scheme === s) || { fields: {}, runs: 0 };
const median = (l, s, field) => { const f = group(l, s).fields[field]; return f ? f.median : null; };

function header() {
  document.title = 'alcc · ' + R.about.link;
  $('title').textContent = R.about.link;
  $('sentence').textContent = R.summary.sentence;
  if (links.length > 1) {
    $('links').hidden = false;
    $('links').innerHTML = links.map(l => `<button data-link="${escape(l)}">${escape(l)}</button>`).join('');
    $('links').onclick = e => { if (e.target.dataset.link) { link = e.target.dataset.link; draw(); } };
  }
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
    const how = r.error ? escape(r.error) : r.feedback === 'kernel' ? (r.scheme.startsWith('alcc_') ? 'algorithm in the kernel' : 'plain kernel TCP') : r.feedback === 'sim' ? 'simulated, alone' : `${r.algorithm}${r.options ? ':' + r.options : ''} · ${r.feedback} · ${r.enforcement}${r.under ? ' · over ' + r.under : ''}`;
    return `<div class="card" style="--c:${colour[s]}"><div class="name">${escape(s)}</div><div class="how">${escape(where + how)}</div>
      <div class="big"><div><b>${ms(d)}</b><span>ms mean delay</span></div><div><b>${show(figure(s, 'throughput_mbps'), 1)}</b><span>Mbit/s</span></div></div>
      <div class="bar" title="mean delay"><i style="width:${worst ? Math.max(1.2, 100 * (d || 0) / worst) : 0}%"></i></div></div>`;
  }).join('');
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
// Native forms and what was measured beside them.
const pairs = R.summary.pairs || [];
let native = null;
function kin() {
  const here = pairs.filter(p => p.link === link), natives = [...new Set(here.map(p => p.native))];
  $('kin-panel').hidden = !here.length;
  if (!here.length) return;
  if (!natives.includes(native)) native = natives[0];
  $('kin').innerHTML = natives.map(n => `<button data-native="${escape(n)}" class="${n === native ? 'on' : ''}">${escape(n)}</button>`).join('');
  $('kin').onclick = e => { if (e.target.dataset.native) { native = e.target.dataset.native; kin(); } };
  const mine = here.filter(p => p.native === native);
  for (const charts of document.querySelectorAll('.of-kin')) charts.hidden = charts.dataset.link !== link || charts.dataset.native !== native;
  const signed = (v, d) => (v > 0 ? '+' : '') + v.toFixed(d), spread = (s, d) => `${signed(s.median, d)}<small>${signed(s.min, d)} – ${signed(s.max, d)}</small>`;
  const missed = w => Object.keys(w).filter(k => !w[k]);
  $('kin-table').innerHTML = `<tr><th class="text">Beside ${escape(native)}</th><th>Median Mbit/s<br>native, its</th><th>Difference<br>%</th><th>Median queueing ms<br>native, its</th><th>Difference<br>ms</th><th>Runs</th><th class="text">Near enough</th></tr>` + mine.map(p =>
    `<tr style="--c:${colour[p.scheme]}"><td class="text"><span class="dot"></span>${escape(p.scheme)}</td><td>${p.throughput_mbps.map(v => v.toFixed(2)).join(', ')}</td><td>${spread(p.throughput_difference, 1)}</td><td>${p.queue_delay_ms.map(v => v.toFixed(1)).join(', ')}</td><td>${spread(p.queue_delay_difference_ms, 1)}</td><td>${p.runs}</td><td class="text">${missed(p.within).length ? 'no: ' + missed(p.within).join(', ') : 'yes'}</td></tr>`).join('');
}
function draw() {
  document.querySelectorAll('#links button').forEach(b => b.classList.toggle('on', b.dataset.link === link));
  document.querySelectorAll('.of-link').forEach(charts => { charts.hidden = charts.dataset.link !== link; });
  cards(); kin();
}
// One switch of the scale is in each link's panel.
document.getElementById('charts').onclick = e => {
  const scale = e.target.dataset.scale;
  if (!scale) return;
  for (const b of document.querySelectorAll('[data-scale]')) b.setAttribute('aria-pressed', String(b.dataset.scale === scale));
  for (const one of ['log', 'linear']) document.querySelectorAll('.scale-' + one).forEach(chart => { chart.hidden = one !== scale; });
};
$('overview-panel').hidden = links.length < 2;
header(); table(); draw();
