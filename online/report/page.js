"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("trials").textContent);
  const count = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 3 });
  const short = (value, high) => (high < 1e4 ? count : compact).format(value);
  // Nine shades of viridis without its pale end, dark to light.
  const SHADES = ["#471365", "#46327e", "#3b528b", "#2f6c8e", "#25848e", "#1f9d8a", "#38b977", "#7ad151", "#cde11d"];
  const HEIGHT = 300;
  const lines = [...find("trials-table").tBodies[0].rows];
  let chosen = 0;
  let zoomed = null;

  // --- tables ------------------------------------------------------------------------------

  // Intervals go by their upper end: what is not known to be small comes with the large ones.
  function key(cell) {
    if (cell.classList.contains("text")) return cell.textContent || null;
    const text = cell.firstChild?.textContent;
    if (!text) return null;
    const end = Number.parseFloat(text.split(", ").at(-1).replace(/[,[(]/g, ""));
    return Number.isNaN(end) ? Infinity : end;
  }

  function sort(head) {
    const [row, body] = [head.parentElement, head.closest("table").tBodies[0]];
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const keyed = [...body.rows].map((line) => [key(line.cells[head.cellIndex]), line]);
    // An empty cell comes last either way.
    keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null)
      : a === b ? 0 : sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a < b ? -1 : 1)));
    for (const cell of row.cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...keyed.map(([, line]) => line));
  }

  function showRequests(trial, instance) {
    const side = (starts, k) => {
      const stretches = starts === null ? null : stretchesOf(instance, starts[k], k);
      return stretches === null ? ["", "", ""]
        : [stretches[0].begin, stretches.at(-1).end, stretches.at(-1).end - instance.arrival_times[k]];
    };
    find("requests").tBodies[0].replaceChildren(...instance.ids.map((id, k) => {
      const line = document.createElement("tr");
      line.insertCell().textContent = id;
      line.cells[0].className = "text";
      const own = [instance.prompt_lengths[k], instance.output_lengths[k], instance.arrival_times[k]];
      for (const value of [...own, ...side(trial.start_times, k), ...side(data.optima[trial.optimum] ?? null, k)]) {
        line.insertCell().textContent = value === "" ? "" : count.format(value);
      }
      return line;
    }));
  }

  // --- bands -------------------------------------------------------------------------------

  // A start, or where the request was preempted and kept its tokens, first and last rounds.
  function stretchesOf(instance, own, request) {
    const rounds = Array.isArray(own) ? own : [[own + 1, own + instance.output_lengths[request]]];
    let kept = 0;
    return rounds.map(([first, last]) => {
      const stretch = { request, begin: first - 1, end: last, kept, lost: false };
      kept += last - first + 1;
      return { ...stretch, paused: kept < instance.output_lengths[request] };
    });
  }

  // As instances/stacking.py: earlier starts lie lower, then later ends. Round r is [r - 1, r].
  function bandsOf(instance, starts, lost = [], served = []) {
    const end = (request, begin) => begin + instance.output_lengths[request];
    const stays = starts === null
      ? served.map(([request, begin]) => ({ request, begin, end: end(request, begin), kept: 0, lost: false }))
      : starts.flatMap((own, request) => stretchesOf(instance, own, request));
    for (const [request, begin, end] of lost) stays.push({ request, begin, end, kept: 0, lost: true });
    stays.sort((a, b) => a.begin - b.begin || b.end - a.end || a.request - b.request);
    const height = new Map();
    return stays.map((stay) => {
      const bottom = [], top = [];
      for (let round = stay.begin + 1; round <= stay.end; round++) {
        const below = height.get(round) ?? 0;
        const above = below + instance.prompt_lengths[stay.request] + stay.kept + round - stay.begin;
        height.set(round, above);
        bottom.push(below);
        top.push(above);
      }
      return { ...stay, bottom, top };
    });
  }

  function bandText(instance, band) {
    const k = band.request;
    const told = [
      `request ${instance.ids[k]}`,
      `prompt length ${instance.prompt_lengths[k]}`,
      `output length ${instance.output_lengths[k]}`,
      `arrival ${instance.arrival_times[k]}`,
      `start ${band.begin}`,
    ];
    if (band.lost) told.push(`evicted ${band.end}: tokens lost`);
    else if (band.paused) told.push(`preempted ${band.end}: tokens kept`);
    else told.push(`completion ${band.end}`, `latency ${band.end - instance.arrival_times[k]}`);
    return told;
  }

  function shade(value, low, high) {
    const place = high > low ? ((value - low) / (high - low)) * (SHADES.length - 1) : 0;
    const k = Math.min(Math.floor(place), SHADES.length - 2);
    return `color-mix(in srgb, ${SHADES[k + 1]} ${100 * (place - k)}%, ${SHADES[k]})`;
  }

  function outline(band) {
    const up = band.top.map((value, k) => `V${-value}H${band.begin + k + 1}`);
    const down = band.bottom.map((value, k) => `V${-value}H${band.begin + k}`).reverse();
    return `M${band.begin} ${-band.bottom[0]}${up.join("")}${down.join("")}z`;
  }

  // Multiples of 1, 2 or 5 times a power of ten, whole numbers.
  function ticks(low, high, most) {
    const rough = Math.max(1, (high - low) / most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, k) => (first + k) * step);
  }

  // One schedule: axes in per cent across and pixels down, and bands in rounds and tokens.
  function panel(title, instance, bands, [low, high], lengths) {
    const figure = document.createElement("figure");
    const most = 1.1 * instance.memory_limit;
    const across = (round) => `${(100 * (round - low)) / (high - low)}%`;
    const down = (tokens) => HEIGHT * (1 - tokens / most);
    const rounds = ticks(low, high, find("picture").clientWidth < 820 ? 4 : 8).map((at) =>
      `<line x1="${across(at)}" x2="${across(at)}" y1="${HEIGHT}" y2="${HEIGHT + 4}" stroke="currentColor"/><text x="${across(at)}" y="${HEIGHT + 17}" text-anchor="middle">${short(at, high)}</text>`);
    const tokens = ticks(0, most, 6).map((at) =>
      `<path d="M0 ${down(at)}h-4" stroke="currentColor"/><text x="-7" y="${down(at) + 4}" text-anchor="end">${short(at, most)}</text>`);
    const width = bands.length > 60 ? 0.3 : 0.8;
    const paths = bands.map((band, k) =>
      `<path class="band" data-band="${k}" data-request="${band.request}" d="${outline(band)}" vector-effect="non-scaling-stroke" stroke-width="${width}"
        fill="${band.lost ? "var(--lost)" : shade(instance.output_lengths[band.request], ...lengths)}" stroke="${band.lost ? "#8a8a8a" : "var(--paper)"}"/>`);
    figure.innerHTML = `<figcaption></figcaption>
      <svg role="img" width="100%" height="${HEIGHT}" overflow="visible" fill="currentColor" font-size="12">
      ${rounds.join("")}${tokens.join("")}
      <text x="50%" y="${HEIGHT + 35}" text-anchor="middle">time (rounds)</text>
      <text transform="translate(-50 ${HEIGHT / 2}) rotate(-90)" text-anchor="middle">KV cache (tokens)</text>
      <svg class="marks" width="100%" height="${HEIGHT}" viewBox="${low} ${-most} ${high - low} ${most}" preserveAspectRatio="none">
      <rect x="${low}" y="${-most}" width="${high - low}" height="${most}" fill="transparent"/>${paths.join("")}</svg>
      <line x1="0" x2="100%" y1="${down(instance.memory_limit)}" y2="${down(instance.memory_limit)}" stroke="var(--red)" stroke-width="1.5"/>
      <text x="3" y="${down(instance.memory_limit) - 4}" fill="var(--red)">M = ${count.format(instance.memory_limit)}</text>
      <path d="M0 0V${HEIGHT}" stroke="currentColor"/><line x2="100%" y1="${HEIGHT}" y2="${HEIGHT}" stroke="currentColor"/></svg>`;
    figure.firstChild.textContent = title;
    figure.querySelector("svg").setAttribute("aria-label", `KV cache over time: ${title}`);
    zooming(figure.querySelector(".marks"), low, high);
    figure.addEventListener("pointermove", (event) => {
      const band = event.target.dataset.band;
      if (band !== undefined) point(`[data-request="${bands[band].request}"]`, bandText(instance, bands[band]), event);
    });
    return figure;
  }

  function draw() {
    const trial = data.trials[chosen];
    const instance = data.instances[trial.instance];
    find("schedules").hidden = instance === undefined;
    point(null);
    find("picture").replaceChildren();
    if (instance === undefined) return;
    const sides = [
      bandsOf(instance, trial.start_times, trial.lost_attempts, trial.served),
      bandsOf(instance, data.optima[trial.optimum] ?? null),
    ];
    const lengths = [Math.min(...instance.output_lengths), Math.max(...instance.output_lengths)];
    const last = 1.02 * Math.max(1, ...sides.flat().map((band) => band.end));
    find("picture").append(...sides.map((bands, k) => panel(trial.titles[k], instance, bands, zoomed ?? [0, last], lengths)));
    const [least, bar, most] = find("colours").children;
    find("colours").hidden = lengths[0] === lengths[1];
    bar.style.background = `linear-gradient(to right, ${SHADES.join(",")})`;
    [least.textContent, most.textContent] = lengths.map((value) => count.format(value));
  }

  // Dragging across a schedule shows that part of its rounds; a double click shows all again.
  function zooming(marks, low, high) {
    let from = null;
    const rubber = marks.appendChild(document.createElementNS(marks.namespaceURI, "rect"));
    const place = (event) => {
      const box = marks.parentElement.getBoundingClientRect();
      return low + (high - low) * Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    };
    const ends = (event) => [from, place(event)].sort((a, b) => a - b);
    marks.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") from = place(event); });
    marks.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const [first, last] = ends(event);
      for (const [name, value] of Object.entries({ x: first, width: last - first, y: "-200%", height: "300%", fill: "var(--blue)", "fill-opacity": 0.15 })) rubber.setAttribute(name, value);
    });
    for (const name of ["pointerup", "pointerleave"]) marks.addEventListener(name, (event) => {
      if (from === null) return;
      const wanted = ends(event);
      from = null;
      rubber.removeAttribute("width");
      if (wanted[1] - wanted[0] > 0.015 * (high - low)) { zoomed = wanted; draw(); }
    });
    marks.addEventListener("dblclick", () => { zoomed = null; draw(); });
  }

  // --- what is pointed at ------------------------------------------------------------------

  // Outlines the marks and tells of them beside the pointer; null puts both away.
  function point(marks, told, event) {
    const tip = find("tip");
    for (const one of document.querySelectorAll(".pointed")) one.classList.remove("pointed");
    tip.hidden = marks === null;
    if (tip.hidden) return;
    for (const one of document.querySelectorAll(`.picture ${marks}`)) {
      one.classList.add("pointed");
      // Above its neighbours, which would cover its outline.
      if (one.dataset.band) one.parentNode.append(one);
    }
    tip.replaceChildren(...told.map((line, k) => {
      const row = document.createElement(k ? "div" : "strong");
      row.textContent = line;
      return row;
    }));
    const [x, y] = [event.clientX + 14, event.clientY + 12];
    tip.style.left = `${x + tip.offsetWidth > innerWidth ? Math.max(0, x - tip.offsetWidth - 24) : x}px`;
    tip.style.top = `${Math.min(y, innerHeight - tip.offsetHeight)}px`;
  }

  document.addEventListener("pointermove", (event) => {
    const { trial, band } = event.target.dataset ?? {};
    if (trial !== undefined) point(`[data-trial="${trial}"]`, [data.trials[trial].heading, ...data.trials[trial].verdict.split("; ")], event);
    else if (band === undefined && !find("tip").hidden) point(null);
  });

  // --- the trial picked --------------------------------------------------------------------

  function choose(index) {
    chosen = Number(index);
    zoomed = null;
    const trial = data.trials[chosen];
    lines.forEach((line, k) => line.setAttribute("aria-selected", String(k === chosen)));
    find("trial-heading").textContent = trial.heading;
    find("verdict").textContent = trial.verdict;
    draw();
    if (trial.instance !== null) showRequests(trial, data.instances[trial.instance]);
    history.replaceState(null, "", `#trial=${chosen}`);
  }

  function step(by) {
    const order = [...find("trials-table").tBodies[0].rows].filter((line) => !line.hidden);
    if (!order.length) return;
    const next = order[(order.indexOf(lines[chosen]) + by + order.length) % order.length] ?? order[0];
    choose(next.dataset.index);
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head?.querySelector("button")) sort(head);
    const line = event.target.closest("tr.pick");
    if (line) choose(line.dataset.index);
    const mark = event.target.closest("[data-trial]");
    if (mark) { choose(mark.dataset.trial); find("trial-heading").scrollIntoView({ block: "nearest" }); }
  });
  find("trials-table").addEventListener("keydown", (event) => {
    const line = event.target.closest("tr.pick");
    if (line && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); choose(line.dataset.index); }
  });
  find("previous").addEventListener("click", () => step(-1));
  find("next").addEventListener("click", () => step(1));
  find("group").addEventListener("change", () => [...find("ratios-picture").children].forEach((picture, k) => { picture.hidden = k !== find("group").selectedIndex; }));
  const searched = lines.map((line, k) => `${line.textContent} ${data.trials[k].group} ${data.trials[k].verdict}`.toLowerCase());
  find("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    lines.forEach((line, k) => { line.hidden = !wanted.every((word) => searched[k].includes(word)); });
    find("shown").textContent = wanted.length ? `${count.format(lines.filter((line) => !line.hidden).length)} shown` : "";
  });

  const asked = /^#trial=(\d+)$/.exec(location.hash);
  choose(asked && Number(asked[1]) < lines.length ? Number(asked[1]) : 0);
  // The window stays where it is: only the table scrolls to the trial asked for.
  find("trials-table").parentElement.scrollTop = lines[chosen].offsetTop - find("trials-table").tHead.offsetHeight;
  window.addEventListener("resize", draw);
  // What the tests compare with the package's own bands.
  window.report = { bandsOf, data };
})();
