"use strict";
(() => {
  const data = JSON.parse(document.getElementById("trials").textContent);
  const find = (id) => document.getElementById(id);
  const count = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
  const STACKED_BELOW = 820;
  // Nine shades of viridis without its pale end, dark to light.
  const SHADES = ["#471365", "#46327e", "#3b528b", "#2f6c8e", "#25848e", "#1f9d8a", "#38b977", "#7ad151", "#cde11d"];
  const LIMIT = "var(--red)";
  const DOT = "var(--blue)";
  const PALE = "var(--pale-red)";
  // Times the median policy's distance from the least ratio, beyond which a policy is off the axis.
  const FAR = 2;
  let chosen = 0;
  let zoomed = null;

  // --- tables ------------------------------------------------------------------------------

  // A column: label, text(row), below(row) in small letters, key(row) to sort by (null sorts last
  // either way), left.
  function sortable(table, columns, rows, onPick) {
    let order = rows.map((_, index) => index);
    let sorted = { column: null, descending: false };
    let visible = () => true;
    const head = table.createTHead().insertRow();
    const body = table.createTBody();
    const lines = rows.map((row, index) => {
      const line = document.createElement("tr");
      for (const column of columns) {
        const cell = line.insertCell();
        cell.textContent = column.text(row);
        if (column.below?.(row)) {
          const below = document.createElement("div");
          below.className = "small";
          below.textContent = column.below(row);
          cell.append(below);
        }
        if (column.left) cell.className = column.long ? "text long" : "text";
      }
      if (onPick) {
        line.className = "pick";
        line.tabIndex = 0;
        line.dataset.index = index;
        line.addEventListener("click", () => onPick(index));
        line.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onPick(index); }
        });
      }
      return line;
    });
    const show = () => body.replaceChildren(...order.filter(visible).map((index) => lines[index]));
    columns.forEach((column, place) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      if (column.left) cell.className = "text";
      const button = document.createElement("button");
      button.type = "button";
      // Long names may break behind an underscore.
      button.append(...column.label.split(/(?<=_)/).flatMap((part) => [part, document.createElement("wbr")]));
      button.addEventListener("click", () => {
        sorted = { column: place, descending: sorted.column === place && !sorted.descending };
        const sign = sorted.descending ? -1 : 1;
        const keys = rows.map(column.key);
        order = rows.map((_, index) => index).sort((a, b) => {
          const [x, y] = [keys[a], keys[b]];
          if (x === null || y === null) return (x === null) - (y === null) || a - b;
          return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) || a - b;
        });
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
        show();
      });
      cell.append(button);
      head.append(cell);
    });
    show();
    return {
      lines,
      filter(test) { visible = test; show(); return order.filter(test).length; },
      get order() { return order.filter(visible); },
    };
  }

  const number = (value) => (value === null ? "" : count.format(value));
  const column = (label, value) => ({ label, text: (row) => number(value(row)), key: value });
  const words = (label, value) => ({ label, text: value, key: value, left: true });
  const interval = (label, value) => ({
    label,
    text: (row) => (value(row) === null ? "" : value(row).text),
    // By the upper end: what is not known to be small comes with the large ones.
    key: (row) => (value(row) === null ? null : value(row).upper ?? Infinity),
  });
  const instanceOf = (trial) => (trial.instance === null ? null : data.instances[trial.instance]);
  const optimumOf = (trial) => (trial.optimum === null ? null : data.optima[trial.optimum]);
  const of = (field) => (trial) => trial.instance === null ? null : field(instanceOf(trial));

  function boundsText([lower, upper]) {
    if (lower === upper) return number(upper);
    const end = (value) => (value === null ? "?" : number(value));
    return `[${end(lower)}, ${end(upper)}]`;
  }
  const optimumText = (trial) => boundsText([trial.optimum_lower, trial.optimum_upper]);

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

  // As online/simulation/occupancy.py: earlier starts lie lower, then later ends. Round r is [r - 1, r].
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

  function outline(band) {
    const points = band.top.flatMap((value, k) => [[band.begin + k, value], [band.begin + k + 1, value]]);
    for (let k = band.bottom.length - 1; k >= 0; k--) {
      points.push([band.begin + k + 1, band.bottom[k]], [band.begin + k, band.bottom[k]]);
    }
    return points;
  }

  function shade(value, low, high) {
    const place = high > low ? ((value - low) / (high - low)) * (SHADES.length - 1) : 0;
    const k = Math.min(Math.floor(place), SHADES.length - 2);
    const part = (index, at) => parseInt(SHADES[index].slice(1 + 2 * at, 3 + 2 * at), 16);
    const mixed = [0, 1, 2].map((at) => Math.round(part(k, at) + (place - k) * (part(k + 1, at) - part(k, at))));
    return `rgb(${mixed.join(",")})`;
  }

  function bandText(instance, band) {
    const k = band.request;
    const lines = [
      `request ${instance.ids[k]}`,
      `prompt_length ${instance.prompt_lengths[k]}`,
      `output_length ${instance.output_lengths[k]}`,
      `arrival ${instance.arrival_times[k]}`,
      `start ${band.begin}`,
    ];
    if (band.lost) lines.push(`evicted ${band.end}: tokens lost`);
    else if (band.paused) lines.push(`preempted ${band.end}: tokens kept`);
    else lines.push(`completion ${band.end}`, `latency ${band.end - instance.arrival_times[k]}`);
    return lines;
  }

  // --- the picture -------------------------------------------------------------------------

  function bandMarks(instance, bands, range) {
    const width = bands.length > 60 ? 0.3 : 0.8;
    return bands.map((band) => ({
      kind: "polygon", class: "band", key: band.request, points: outline(band), width,
      fill: band.lost ? "var(--lost)" : shade(instance.output_lengths[band.request], ...range),
      stroke: band.lost ? "#8a8a8a" : "var(--paper)", text: () => bandText(instance, band),
    }));
  }

  const hindsight = (trial) => trial.compared_with === "optimum" ? "hindsight optimum" : trial.compared_with;

  function headings(trial) {
    const known = trial.proved ? hindsight(trial) : "best schedule known";
    const policy = trial.total_latency === null
      ? `${trial.policy}: ${trial.status}`
      : `${trial.policy}: total latency ${number(trial.total_latency)}`;
    const optimum = trial.optimum_upper === null
      ? "no schedule of the optimum" : `${known}: total latency ${number(trial.optimum_upper)}`;
    return [policy, optimum];
  }

  function draw() {
    const trial = data.trials[chosen];
    const instance = instanceOf(trial);
    const place = find("picture");
    find("bands-note").hidden = instance === null || !instance.ids.length;
    if (find("bands-note").hidden) { place.replaceChildren(); return; }
    const lengths = instance.output_lengths;
    const range = [Math.min(...lengths), Math.max(...lengths)];
    const sides = [
      bandsOf(instance, trial.start_times, trial.lost_attempts, trial.served),
      bandsOf(instance, optimumOf(trial)),
    ];
    const last = Math.max(1, ...sides.flat().map((band) => band.end));
    const [low, high] = zoomed ?? [0, last * 1.02];
    const memory = instance.memory_limit;
    const limit = { kind: "level", y: memory, colour: LIMIT, label: `M = ${number(memory)}` };
    charts.draw(place, {
      columns: place.clientWidth < STACKED_BELOW ? 1 : 2,
      height: place.clientWidth < STACKED_BELOW ? 240 : 300,
      colours: range[1] > range[0] ? { shades: SHADES, low: range[0], high: range[1], title: "output length (tokens)" } : null,
      onZoom(wanted) { zoomed = wanted; draw(); },
      panels: headings(trial).map((title, k) => ({
        title,
        x: { low, high, title: "time (rounds)", whole: true },
        y: { low: 0, high: memory * 1.1, title: "KV cache (tokens)", whole: true },
        marks: [...bandMarks(instance, sides[k], range), limit],
      })),
    });
  }

  // Where the axis ends, given the largest ratio of each policy: one that is far beyond most of the
  // others would press them together.
  function bulk(least, largest) {
    const ordered = [...largest].sort((a, b) => a - b);
    const median = ordered[Math.floor((ordered.length - 1) / 2)];
    const near = ordered.filter((one) => one - least <= FAR * (median - least));
    return Math.max(1.01, near.length && ordered.length > 2 ? near.at(-1) : ordered.at(-1));
  }

  // Every ratio of a policy in a row: a point where the optimum is proved, else from end to end.
  function drawRatios() {
    const chosenGroup = find("group").value;
    const rows = data.policies.filter((row) => row.group === chosenGroup && row.mean_ratio.lower !== null);
    const several = new Set(rows.map((row) => row.compared_with)).size > 1;
    const nameOf = (row) => (several ? `${row.policy}, to the ${row.compared_with}` : row.policy);
    const place = find("ratios-picture");
    const of = rows.map((row) => data.trials.map((trial, index) => ({ trial, index })).filter(({ trial }) =>
      trial.ratio !== null && trial.group === row.group && trial.policy === row.policy && trial.compared_with === row.compared_with));
    const ends = of.flat().flatMap(({ trial }) => [trial.ratio.lower, trial.ratio.upper]).filter((end) => end !== null);
    find("ratios").hidden = !ends.length;
    if (!ends.length) return;
    const least = Math.min(1, ...ends);
    const most = bulk(least, of.map((own) => Math.max(least, ...own.flatMap(({ trial }) => [trial.ratio.lower, trial.ratio.upper]))));
    const log = most > 10 * least;
    const pad = log ? 0 : 0.03 * (most - least);
    const x = { low: least - (least < 1 ? pad : 0), high: log ? most * 1.05 : most + pad, log, grid: true, title: `total latency / ${several ? "optimum" : hindsight(rows[0])}` };
    const rowHeight = 46;
    const places = place.clientWidth / 16;
    const marks = rows.flatMap((row, k) => {
      const filled = new Map();
      const own = of[k].map(({ trial, index }) => {
        const [low, high] = [trial.ratio.lower ?? x.low, trial.ratio.upper ?? x.high];
        const bin = Math.floor(((low - x.low) / (x.high - x.low)) * places);
        const height = filled.get(bin) ?? 0;
        filled.set(bin, height + 1);
        const dy = 4 - 3.2 * (height % 8);
        const at = low > x.high ? { x: x.high, shape: "beyond", radius: 4 } : { x: low, radius: 3 };
        const shared = {
          y: nameOf(row), dy, colour: DOT, onPick: () => { choose(index); find("trial-heading").scrollIntoView({ block: "nearest" }); },
          text: () => [`${trial.policy}: ${trial.ratio.text}`, trial.instance === null ? "" : instanceOf(trial).name, `seed ${trial.seed}`],
        };
        return low === high || low > x.high ? { kind: "point", class: "ratio", ...at, opacity: 0.55, ...shared } : { kind: "segment", class: "ratio", x: [low, high], width: 2.5, opacity: 0.55, ...shared };
      });
      const mean = row.mean_ratio, between = row.mean_confidence;
      const told = () => [`${row.policy}: mean ratio ${mean.text}`, between ? `${data.confidence} confidence ${between.text}` : "one instance: no confidence interval"];
      const summary = [{ kind: "segment", class: "mean", x: [mean.lower, mean.upper ?? x.high], y: nameOf(row), dy: 14, colour: LIMIT, width: 7, text: told }];
      if (between) summary.unshift({ kind: "segment", class: "confidence", x: [between.lower ?? x.low, between.upper ?? x.high], y: nameOf(row), dy: 14, colour: PALE, width: 4, text: told });
      if (mean.lower === mean.upper) summary[summary.length - 1] = { kind: "point", class: "mean", shape: "diamond", x: mean.lower, y: nameOf(row), dy: 14, radius: 5, colour: LIMIT, text: told };
      const largest = Math.max(...of[k].flatMap(({ trial }) => [trial.ratio.lower, trial.ratio.upper ?? trial.ratio.lower]));
      if (largest > x.high) {
        if (mean.lower > x.high) summary.length = 0;
        summary.push({ kind: "point", class: "beyond", shape: "beyond", x: x.high, y: nameOf(row), dy: 14, radius: 5, colour: LIMIT, text: told });
        summary.push({ kind: "words", class: "beyond", x: x.high, y: nameOf(row), dy: 18, colour: LIMIT, words: `mean ${mean.text}${place.clientWidth < STACKED_BELOW ? "" : `, largest ${row.max_ratio.text}`}` });
      }
      return [...own, ...summary];
    });
    const proved = of.flat().some(({ trial }) => trial.proved), open = of.flat().some(({ trial }) => !trial.proved);
    charts.draw(place, {
      height: rowHeight * rows.length,
      legend: [
        ...(proved ? [{ name: "a trial", colour: DOT, kind: "point" }] : []),
        ...(open ? [{ name: "a trial, optimum not proved", colour: DOT }] : []),
        ...(ends.some((end) => end > x.high) ? [{ name: "beyond the axis", colour: LIMIT, kind: "beyond" }] : []),
        { name: "mean", colour: LIMIT, width: 7 }, { name: `its ${data.confidence} confidence interval`, colour: PALE, width: 4 },
      ],
      panels: [{ x, y: { names: rows.map(nameOf) }, marks }],
    });
  }

  function showRequests(trial, instance) {
    const table = find("requests");
    table.replaceChildren();
    find("requests-of-trial").hidden = instance === null || !instance.ids.length;
    if (instance === null) return;
    const from = (starts, field) => (k) => {
      if (starts === null) return null;
      const stretches = stretchesOf(instance, starts[k], k);
      const end = stretches.at(-1).end;
      return { start: stretches[0].begin, completion: end, latency: end - instance.arrival_times[k] }[field];
    };
    const columns = [
      words("request", (k) => String(instance.ids[k])),
      column("prompt_length", (k) => instance.prompt_lengths[k]),
      column("output_length", (k) => instance.output_lengths[k]),
      column("arrival", (k) => instance.arrival_times[k]),
    ];
    for (const [side, starts] of [["policy", trial.start_times], ["optimum", optimumOf(trial)]]) {
      for (const field of ["start", "completion", "latency"]) {
        columns.push(column(`${side} ${field}`, from(starts, field)));
      }
    }
    sortable(table, columns, instance.ids.map((_, k) => k), null);
  }

  function choose(index) {
    chosen = index;
    zoomed = null;
    const trial = data.trials[index];
    const instance = instanceOf(trial);
    trials.lines.forEach((line, k) => line.setAttribute("aria-selected", String(k === index)));
    find("trial-heading").textContent = `${trial.policy} on ${instance === null ? "no instance" : instance.name}`;
    const parts = [];
    if (trial.ratio !== null) parts.push(`Ratio ${trial.ratio.text}`);
    if (trial.waiting_ratio !== null) parts.push(`of waitings ${trial.waiting_ratio.text}`);
    parts.push(trial.status === "completed" ? `seed ${trial.seed}` : `ended as ${trial.status}, seed ${trial.seed}`);
    if (optimumText(trial)) parts.push(`${trial.compared_with} ${optimumText(trial)}${trial.proved ? ", proved" : ", not proved"}`);
    if (trial.lost_attempts.length) parts.push(`${number(trial.lost_attempts.length)} evictions`);
    if (trial.note) parts.push(trial.note);
    find("verdict").textContent = parts.join("; ");
    showRequests(trial, instance);
    find("picture").dataset.label = `KV cache over time: ${headings(trial).join("; ")}`;
    draw();
    history.replaceState(null, "", `#trial=${index}`);
  }

  function step(by) {
    const order = trials.order;
    if (!order.length) return;
    const place = order.indexOf(chosen);
    const next = order[(place + by + order.length) % order.length] ?? order[0];
    choose(next);
    trials.lines[next].scrollIntoView({ block: "nearest" });
  }

  // --- the page ----------------------------------------------------------------------------

  const policies = data.policies;
  const completed = data.trials.filter((trial) => trial.total_latency !== null);
  const proved = completed.filter((trial) => trial.proved).length;
  const named = (k, one, many) => `${number(k)} ${k === 1 ? one : many}`;
  find("facts").textContent = [
    named(data.trials.length, "trial", "trials"), named(new Set(policies.map((row) => row.policy)).size, "policy", "policies"),
    named(data.instances.length, "instance", "instances"),
    `optimum proved in ${number(proved)} of ${named(completed.length, "completed trial", "completed trials")}`,
    `${number(data.trials.length - completed.length)} failed`,
  ].join(" · ");

  // One column: what comes first stays in sight where the table is wider than the window.
  const policy = { ...words("policy", (row) => row.policy), below: (row) => row.group };
  const mixed = data.trials.some((trial) => trial.compared_with !== "optimum");
  const inRounds = data.units.includes("rounds");
  const comparedWith = mixed ? [words("compared with", (row) => row.compared_with)] : [];
  sortable(find("policies"), [
    policy,
    ...comparedWith,
    interval("mean_ratio", (row) => row.mean_ratio),
    interval(`mean_ratio ${data.confidence}`, (row) => row.mean_confidence),
    interval("max_ratio", (row) => row.max_ratio),
    interval("ratio_of_totals", (row) => row.ratio_of_totals),
    interval(`ratio_of_totals ${data.confidence}`, (row) => row.totals_confidence),
    ...(inRounds ? [interval("ratio_of_waitings", (row) => row.ratio_of_waitings)] : []),
    column("trials", (row) => row.trials),
    { label: "proved", text: (row) => `${row.proved}/${row.trials - row.failed}`, key: (row) => row.proved },
    column("failed", (row) => row.failed),
  ], policies, null);

  const trials = sortable(find("trials-table"), [
    words("policy", (trial) => trial.policy),
    interval("ratio", (trial) => trial.ratio),
    column(data.units.length > 1 ? "total_latency" : `total_latency, ${data.units[0]}`, (trial) => trial.total_latency),
    { label: "optimum", text: optimumText, key: (trial) => trial.optimum_upper },
    ...(data.units.length > 1 ? [words("unit", (trial) => trial.unit)] : []),
    ...(inRounds ? [
      interval("waiting ratio", (trial) => trial.waiting_ratio),
      column("waiting", (trial) => trial.waiting),
      { label: "optimum waiting", text: (trial) => boundsText(trial.optimum_waiting), key: (trial) => trial.optimum_waiting[1] },
    ] : []),
    ...comparedWith,
    { ...words("instance", (trial) => (trial.instance === null ? "" : instanceOf(trial).name)), long: true },
    column("n", of((instance) => instance.requests ?? instance.ids.length)),
    column("M", of((instance) => instance.memory_limit)),
    column("seed", (trial) => trial.seed),
    words("status", (trial) => trial.status),
  ], data.trials, choose);

  find("notes").append(...data.notes.map((note) => {
    const line = document.createElement("li");
    line.textContent = note;
    return line;
  }));
  find("reasons").hidden = !data.reasons.length;
  sortable(find("reasons-table"), [
    policy, column("trials", (row) => row.count), words("status", (row) => row.status),
    { ...words("reason", (row) => row.reason), long: true },
  ], data.reasons, null);
  const groups = [...new Set(policies.map((row) => row.group))];
  find("group").append(...groups.map((name) => new Option(name)));
  find("group").parentElement.hidden = groups.length === 1;
  find("group").addEventListener("change", drawRatios);

  const searched = data.trials.map((trial) =>
    `${trial.policy} ${trial.group} ${trial.instance === null ? "" : instanceOf(trial).name} ${trial.status} ${trial.note}`.toLowerCase());
  find("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = trials.filter((index) => wanted.every((word) => searched[index].includes(word)));
    find("shown").textContent = wanted.length ? `${number(left)} shown` : "";
  });
  find("previous").addEventListener("click", () => step(-1));
  find("next").addEventListener("click", () => step(1));
  const asked = /^#trial=(\d+)$/.exec(location.hash);
  const first = asked && Number(asked[1]) < data.trials.length ? Number(asked[1]) : 0;
  choose(first);
  drawRatios();
  // The window stays where it is: only the table scrolls to the trial asked for.
  find("trials-table").parentElement.scrollTop = trials.lines[first].offsetTop - find("trials-table").tHead.offsetHeight;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; draw(); drawRatios(); }
  });
  // What the tests compare with the package's own bands.
  window.report = { bandsOf, data };
})();
