"use strict";
// Small charts in SVG: panels with axes, marks in them, and what a mark says when pointed at.
const charts = (() => {
  const NS = "http://www.w3.org/2000/svg";
  // Variables of the page's style: light and dark have their own.
  const INK = "var(--ink)", GRID = "var(--grid)", PAPER = "var(--paper)";
  const TOP = 26, BOTTOM = 44, RIGHT = 14, LETTER = 6.3;
  const count = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

  function make(parent, name, attributes, text) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null) element.setAttribute(key, value);
    }
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  // --- axes --------------------------------------------------------------------------------

  // Multiples of 1, 2 or 5 times a power of ten.
  function ticks(low, high, most, whole) {
    const rough = (high - low) / Math.max(1, most) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = power * ([1, 2, 5].find((one) => one * power >= rough) ?? 10);
    if (whole) step = Math.max(1, step);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function logTicks(low, high, most) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    for (const digits of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let k = from; k <= to; k++) for (const digit of digits) found.push(Number((digit * 10 ** k).toPrecision(6)));
      const inside = found.filter((one) => one >= low && one <= high);
      if (inside.length <= Math.max(2, most)) return inside;
    }
    return [low, high];
  }

  // axis: low, high, title, and log, whole or names (one row each, the first on top).
  function scale(axis, from, to, most) {
    if (axis.names) {
      const step = (to - from) / axis.names.length;
      const at = (name) => from + (axis.names.indexOf(name) + 0.5) * step;
      return { at, back: () => null, marks: axis.names.map((name) => [at(name), name]) };
    }
    const bend = axis.log ? Math.log : (value) => value;
    const [low, high] = [bend(axis.low), bend(axis.high)];
    const at = (value) => from + ((bend(value) - low) / (high - low || 1)) * (to - from);
    const back = (place) => {
      const value = low + ((place - from) / (to - from)) * (high - low);
      return axis.log ? Math.exp(value) : value;
    };
    const found = axis.log ? logTicks(axis.low, axis.high, most) : ticks(axis.low, axis.high, most, axis.whole);
    return { at, back, marks: found.map((value) => [at(value), count.format(value)]) };
  }

  function axes(svg, panel, box, x, y) {
    const group = make(svg, "g", { class: "axes", fill: INK, "font-size": 12 });
    const line = (x1, y1, x2, y2, stroke) => make(group, "line", { x1, y1, x2, y2, stroke });
    const [bottom, right] = [box.top + box.height, box.left + box.width];
    for (const [place, label] of x.marks) {
      if (panel.x.grid) line(place, box.top, place, bottom, GRID);
      line(place, bottom, place, bottom + 4, INK);
      make(group, "text", { x: place, y: bottom + 17, "text-anchor": "middle" }, label);
    }
    const room = Math.floor((box.left - box.outer - 12) / LETTER);
    for (const [place, label] of y.marks) {
      if (panel.y.grid) line(box.left, place, right, place, GRID);
      if (!panel.y.names) line(box.left - 4, place, box.left, place, INK);
      const short = label.length > room ? `${label.slice(0, room - 1)}…` : label;
      const text = make(group, "text", { x: box.left - 7, y: place + 4, "text-anchor": "end", "font-size": panel.y.names ? 11 : 12 }, short);
      if (short !== label) make(text, "title", {}, label);
    }
    line(box.left, bottom, right, bottom, INK);
    line(box.left, box.top, box.left, bottom, INK);
    make(group, "text", { x: box.left + box.width / 2, y: bottom + 35, "text-anchor": "middle" }, panel.x.title);
    if (panel.y.title) {
      const middle = box.top + box.height / 2;
      make(group, "text", { x: box.outer + 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${box.outer + 12} ${middle})` }, panel.y.title);
    }
    if (panel.title) {
      const most = Math.floor(box.width / 7.2);
      const short = panel.title.length > most ? `${panel.title.slice(0, most - 1)}…` : panel.title;
      make(group, "text", { class: "title", x: box.left, y: box.top - 9, "font-size": 14 }, short);
    }
  }

  // --- marks -------------------------------------------------------------------------------

  const path = (points, x, y) => points.map(([a, b], k) => `${k ? "L" : "M"}${x.at(a).toFixed(2)},${y.at(b).toFixed(2)}`).join("");

  const DRAW = {
    polygon: (into, mark, x, y) => make(into, "path", { d: `${path(mark.points, x, y)}Z`, fill: mark.fill, stroke: mark.stroke, "stroke-width": mark.width }),
    line: (into, mark, x, y) => make(into, "path", { d: path(mark.points, x, y), fill: "none", stroke: mark.colour, "stroke-width": mark.width ?? 1.5, "stroke-dasharray": mark.dash }),
    area: (into, mark, x, y) => make(into, "path", {
      d: `${path([...mark.points.map(([a, low]) => [a, low]), ...mark.points.map(([a, , high]) => [a, high]).reverse()], x, y)}Z`, fill: mark.colour,
    }),
    // The whole height, from one x to another.
    band: (into, mark, x, y, box) => make(into, "rect", {
      x: x.at(mark.x[0]), width: Math.max(1, x.at(mark.x[1]) - x.at(mark.x[0])), y: box.top, height: box.height, fill: mark.colour,
    }),
    rule: (into, mark, x, y, box) => make(into, "line", { x1: x.at(mark.x), x2: x.at(mark.x), y1: box.top, y2: box.top + box.height, stroke: mark.colour, "stroke-width": 1.5, "stroke-dasharray": mark.dash }),
    level: (into, mark, x, y, box) => {
      make(into, "text", { x: box.left + 3, y: y.at(mark.y) - 4, fill: mark.colour, "font-size": 12 }, mark.label);
      return make(into, "line", { x1: box.left, x2: box.left + box.width, y1: y.at(mark.y), y2: y.at(mark.y), stroke: mark.colour, "stroke-width": 1.5 });
    },
    // Words that end at a point.
    words: (into, mark, x, y) => make(into, "text", { x: x.at(mark.x) - 12, y: y.at(mark.y) + (mark.dy ?? 0), "text-anchor": "end", "font-size": 11, fill: mark.colour }, mark.words),
    segment: (into, mark, x, y) => make(into, "line", {
      x1: x.at(mark.x[0]), x2: Math.max(x.at(mark.x[1]), x.at(mark.x[0]) + 1), y1: y.at(mark.y) + (mark.dy ?? 0), y2: y.at(mark.y) + (mark.dy ?? 0),
      stroke: mark.colour, "stroke-width": mark.width ?? 2, "stroke-opacity": mark.opacity,
    }),
    point: (into, mark, x, y) => {
      const [cx, cy, r] = [x.at(mark.x), y.at(mark.y) + (mark.dy ?? 0), mark.radius ?? 4];
      const style = { fill: mark.open ? PAPER : mark.colour, stroke: mark.colour, "stroke-width": mark.open ? 2 : 0, "fill-opacity": mark.opacity };
      // Its tip is at the end of the axis: the value lies beyond.
      if (mark.shape === "beyond") return make(into, "path", { d: `M${cx},${cy}L${cx - 2 * r},${cy - r}L${cx - 2 * r},${cy + r}Z`, ...style });
      if (mark.shape !== "diamond") return make(into, "circle", { cx, cy, r, ...style });
      return make(into, "path", { d: `M${cx - r},${cy}L${cx},${cy - r}L${cx + r},${cy}L${cx},${cy + r}Z`, ...style });
    },
  };

  function tip(place) {
    const box = document.createElement("div");
    box.className = "tip";
    box.hidden = true;
    place.append(box);
    return {
      show(lines, event) {
        box.replaceChildren(...lines.map((line, k) => {
          const row = document.createElement(k ? "div" : "strong");
          row.textContent = line;
          return row;
        }));
        box.hidden = false;
        const frame = place.getBoundingClientRect();
        const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
        const left = x + 14 + box.offsetWidth > frame.width ? x - box.offsetWidth - 10 : x + 14;
        box.style.left = `${Math.max(0, Math.min(left, frame.width - box.offsetWidth))}px`;
        box.style.top = `${Math.max(0, Math.min(y + 12, frame.height - box.offsetHeight))}px`;
      },
      hide() { box.hidden = true; },
    };
  }

  // Dragging across a panel shows that part of its x axis; a double click shows all again.
  function zooming(svg, boxes, onZoom) {
    let from = null, rubber = null;
    const place = (event) => event.clientX - svg.getBoundingClientRect().left;
    const inside = (event) => {
      const y = event.clientY - svg.getBoundingClientRect().top;
      return boxes.find(({ box }) => place(event) >= box.left && place(event) <= box.left + box.width && y >= box.top && y <= box.top + box.height);
    };
    svg.addEventListener("pointerdown", (event) => {
      const found = event.pointerType === "mouse" ? inside(event) : undefined;
      if (!found) return;
      from = { ...found, start: place(event) };
      rubber = make(svg, "rect", { y: from.box.top, height: from.box.height, fill: "var(--blue)", "fill-opacity": 0.15, "pointer-events": "none" });
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const ends = [from.start, place(event)].sort((a, b) => a - b);
      rubber.setAttribute("x", ends[0]);
      rubber.setAttribute("width", ends[1] - ends[0]);
    });
    for (const name of ["pointerup", "pointerleave"]) svg.addEventListener(name, (event) => {
      if (!from) return;
      const ends = [from.start, place(event)].map((one) => Math.max(from.box.left, Math.min(from.box.left + from.box.width, one))).sort((a, b) => a - b);
      const range = ends.map(from.x.back);
      rubber.remove();
      from = null;
      if (ends[1] - ends[0] > 8) onZoom(range);
    });
    svg.addEventListener("dblclick", () => onZoom(null));
  }

  // --- a chart -----------------------------------------------------------------------------

  // spec: panels, columns, height (of a panel), legend ([{ name, colour, kind }]), colours ({ shades,
  // low, high, title }), onZoom. A panel: title, x, y, marks. A mark: kind, what it needs, and text
  // (lines told when pointed at), key (marks with one key are outlined together), onPick.
  function draw(place, spec) {
    place.replaceChildren();
    const width = place.clientWidth;
    // A window not yet laid out: the resize event that follows draws.
    if (!width) return;
    const columns = spec.columns ?? 1;
    const rows = Math.ceil(spec.panels.length / columns);
    const top = spec.panels.some((panel) => panel.title) ? TOP : 10;
    const step = top + spec.height + BOTTOM;
    const head = legendHeight(spec.legend ?? [], width);
    const foot = spec.colours ? 46 : 0;
    const svg = make(place, "svg", { width, height: head + rows * step + foot, role: "img", "aria-label": place.dataset.label, "font-family": "inherit" });
    const told = tip(place);
    const keyed = new Map();
    const boxes = spec.panels.map((panel, k) => {
      const outer = (k % columns) * (width / columns);
      const names = panel.y.names ?? [];
      const longest = Math.max(0, ...names.map((name) => name.length));
      const left = outer + (names.length ? Math.min(14 + LETTER * longest, 0.42 * width) : 62);
      const box = { outer, left, top: head + Math.floor(k / columns) * step + top, width: outer + width / columns - RIGHT - left, height: spec.height };
      const x = scale(panel.x, box.left, box.left + box.width, box.width / 70);
      const y = panel.y.names ? scale(panel.y, box.top, box.top + box.height) : scale(panel.y, box.top + box.height, box.top, box.height / 45);
      const clip = `${place.id}-${k}`;
      make(make(svg, "clipPath", { id: clip }), "rect", { x: box.left, y: box.top - 14, width: box.width + 1, height: box.height + 14 });
      const back = make(svg, "g", {});
      const into = make(svg, "g", { class: "marks", "clip-path": `url(#${clip})` });
      for (const mark of panel.marks) {
        const drawn = DRAW[mark.kind](into, mark, x, y, box);
        drawn.classList.add(mark.class ?? mark.kind);
        if (mark.key !== undefined) keyed.set(mark.key, [...(keyed.get(mark.key) ?? []), drawn]);
        if (mark.onPick) { drawn.style.cursor = "pointer"; drawn.addEventListener("click", mark.onPick); }
        if (!mark.text) continue;
        const same = () => (mark.key === undefined ? [drawn] : keyed.get(mark.key));
        drawn.addEventListener("pointermove", (event) => {
          for (const one of same()) { one.classList.add("pointed"); if (mark.key !== undefined) one.parentNode.append(one); }
          told.show(mark.text(), event);
        });
        drawn.addEventListener("pointerleave", () => {
          for (const one of same()) one.classList.remove("pointed");
          told.hide();
        });
      }
      axes(back, panel, box, x, y);
      return { box, x };
    });
    legend(svg, spec.legend ?? [], width);
    if (spec.colours) colourBar(svg, spec.colours, width, head + rows * step);
    if (spec.onZoom) zooming(svg, boxes, spec.onZoom);
  }

  const entryWidth = (entry) => 34 + 6.8 * entry.name.length;

  function places(entries, width) {
    let x = 0, y = 0;
    return entries.map((entry) => {
      if (x && x + entryWidth(entry) > width) { x = 0; y += 18; }
      const found = [x, y];
      x += entryWidth(entry);
      return found;
    });
  }

  const legendHeight = (entries, width) => (entries.length ? places(entries, width).at(-1)[1] + 18 : 0);

  function legend(svg, entries, width) {
    places(entries, width).forEach(([x, y], k) => {
      const entry = entries[k];
      const group = make(svg, "g", { class: "legend", "font-size": 12, fill: INK });
      if (entry.kind === "area") make(group, "rect", { x, y: y + 3, width: 18, height: 10, fill: entry.colour });
      else if (entry.kind === "beyond") make(group, "path", { d: `M${x + 16},${y + 8}l-10,-5v10Z`, fill: entry.colour });
      else if (entry.kind === "point") make(group, "circle", { cx: x + 9, cy: y + 8, r: entry.open ? 4 : 5, fill: entry.open ? PAPER : entry.colour, stroke: entry.colour, "stroke-width": 2 });
      else make(group, "line", { x1: x, x2: x + 18, y1: y + 8, y2: y + 8, stroke: entry.colour, "stroke-width": entry.width ?? 2, "stroke-dasharray": entry.dash });
      make(group, "text", { x: x + 23, y: y + 12 }, entry.name);
    });
  }

  function colourBar(svg, { shades, low, high, title }, width, top) {
    const [bar, left] = [Math.min(360, 0.8 * width), (width - Math.min(360, 0.8 * width)) / 2];
    const gradient = make(svg, "linearGradient", { id: "shades" });
    shades.forEach((shade, k) => make(gradient, "stop", { offset: k / (shades.length - 1), "stop-color": shade }));
    make(svg, "rect", { x: left, y: top, width: bar, height: 10, fill: "url(#shades)" });
    const group = make(svg, "g", { fill: INK, "font-size": 12, "text-anchor": "middle" });
    for (const value of ticks(low, high, 6, true)) {
      make(group, "text", { x: left + ((value - low) / (high - low)) * bar, y: top + 23 }, count.format(value));
    }
    make(group, "text", { x: width / 2, y: top + 40 }, title);
  }

  return { draw };
})();
