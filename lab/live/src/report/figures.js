// SPDX-License-Identifier: Apache-2.0 OR MIT
'use strict';
// What every page of charts does: shows and hides schemes, and says the values under the pointer. Without this script
// the charts are there all the same.
(() => {
  const main = document.querySelector('main');
  const legend = document.getElementById('legend');
  legend.onclick = e => {
    const button = e.target.closest('button');
    if (!button) return;
    const hidden = main.classList.toggle('no-' + button.dataset.class);
    button.setAttribute('aria-pressed', String(!hidden));
  };
  const names = [...legend.querySelectorAll('button')].map(b => ({ name: b.textContent.trim(), class: b.dataset.class }));
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.setAttribute('role', 'status');
  tip.hidden = true;
  document.body.append(tip);

  const axis = text => { const [from, to, kind] = text.split(' '); return { from: +from, to: +to, log: kind === 'log' }; };
  const value = (a, part) => a.log ? a.from * (a.to / a.from) ** part : a.from + part * (a.to - a.from);
  const short = v => Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toPrecision(2);
  // The curves' places, read once from the drawing itself.
  const known = new WeakMap();
  function curves(svg) {
    if (!known.has(svg)) {
      known.set(svg, names.map(n => ({ ...n, points: [...svg.querySelectorAll('polyline.' + n.class)].flatMap(line =>
        line.getAttribute('points').trim().split(' ').map(p => p.split(',').map(Number))) })));
    }
    return known.get(svg);
  }
  // The cursor of a chart stands at a part of its width.
  function show(plot, part) {
    const svg = plot.querySelector('svg[data-inside]');
    const [left, right, top, bottom] = svg.dataset.inside.split(' ').map(Number);
    const [x, y] = [axis(svg.dataset.x), axis(svg.dataset.y)], [xUnit, yUnit] = svg.dataset.units.split('|');
    const at = left + part * (right - left);
    for (const other of document.querySelectorAll(plot.classList.contains('time') ? '.plot.time svg' : 'none')) cursor(other, part);
    cursor(svg, part);
    const lines = [];
    for (const c of curves(svg)) {
      if (main.classList.contains('no-' + c.class) || !c.points.length) continue;
      const near = c.points.reduce((best, p) => Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best);
      if (Math.abs(near[0] - at) > (right - left) / 20) continue;
      lines.push(`${c.name}: ${short(value(y, (bottom - near[1]) / (bottom - top)))} ${yUnit}`);
    }
    tip.textContent = [`${short(value(x, part))} ${xUnit}`, ...lines].join('\n');
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), wide = box.width * at / svg.viewBox.baseVal.width;
    const from = box.left + wide + (part < 0.5 ? 14 : -14 - tip.offsetWidth);
    tip.style.left = scrollX + Math.max(4, Math.min(from, innerWidth - tip.offsetWidth - 4)) + 'px';
    tip.style.top = scrollY + box.top + 12 + 'px';
    plot.dataset.part = part;
  }
  function cursor(svg, part) {
    let line = svg.querySelector('.cursor');
    if (!line) {
      line = document.createElementNS(svg.namespaceURI, 'line');
      line.setAttribute('class', 'cursor');
      svg.append(line);
    }
    const [left, right, top, bottom] = svg.dataset.inside.split(' ').map(Number), x = left + part * (right - left);
    for (const [name, at] of [['x1', x], ['x2', x], ['y1', top], ['y2', bottom]]) line.setAttribute(name, at);
  }
  function hide() {
    tip.hidden = true;
    for (const line of document.querySelectorAll('.cursor')) line.remove();
  }
  for (const plot of document.querySelectorAll('.plot')) {
    const svg = plot.querySelector('svg[data-inside]');
    if (!svg) continue;
    const follow = e => {
      const [left, right] = svg.dataset.inside.split(' ').map(Number), box = svg.getBoundingClientRect();
      const part = ((e.clientX - box.left) / box.width * svg.viewBox.baseVal.width - left) / (right - left);
      if (part >= 0 && part <= 1) show(plot, part); else hide();
    };
    plot.onpointermove = plot.onpointerdown = follow;
    plot.onpointerleave = plot.onblur = hide;
    plot.onkeydown = e => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1, Home: -1, End: 1 }[e.key];
      if (e.key === 'Escape') hide();
      if (!step) return;
      e.preventDefault();
      show(plot, Math.min(1, Math.max(0, (plot.dataset.part ? +plot.dataset.part : 0.5) + step)));
    };
  }
})();
