"use strict";
(() => {
  const data = JSON.parse(document.getElementById("trials").textContent);
  const find = (id) => document.getElementById(id);
  const count = new Intl.NumberFormat("en");
  const STACKED_BELOW = 820;
  // Nine shades of viridis without its pale end, dark to light.
  const SHADES = ["#471365", "#46327e", "#3b528b", "#2f6c8e", "#25848e", "#1f9d8a", "#38b977", "#7ad151", "#cde11d"];
  const LIMIT = "#c1121f";
  const INK = "#222222";
  let chosen = 0;
  let sides = [];

  // --- tables ------------------------------------------------------------------------------

  // A column: label, text(row), key(row) to sort by (null sorts last either way), left.
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
      button.textContent = column.label;
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
    const x = [], y = [];
    band.top.forEach((value, k) => { x.push(band.begin + k, band.begin + k + 1); y.push(value, value); });
    for (let k = band.bottom.length - 1; k >= 0; k--) {
      x.push(band.begin + k + 1, band.begin + k);
      y.push(band.bottom[k], band.bottom[k]);
    }
    x.push(x[0]);
    y.push(y[0]);
    return { x, y };
  }

  const escaped = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function shade(value, low, high) {
    const place = high > low ? ((value - low) / (high - low)) * (SHADES.length - 1) : 0;
    const k = Math.min(Math.floor(place), SHADES.length - 2);
    const part = (index, at) => parseInt(SHADES[index].slice(1 + 2 * at, 3 + 2 * at), 16);
    const mixed = [0, 1, 2].map((at) => Math.round(part(k, at) + (place - k) * (part(k + 1, at) - part(k, at))));
    return `rgb(${mixed.join(",")})`;
  }

  function hoverText(instance, band) {
    const k = band.request;
    const lines = [
      `<b>request ${escaped(instance.ids[k])}</b>`,
      `prompt_length ${instance.prompt_lengths[k]}`,
      `output_length ${instance.output_lengths[k]}`,
      `arrival ${instance.arrival_times[k]}`,
      `start ${band.begin}`,
    ];
    if (band.lost) lines.push(`evicted ${band.end}: tokens lost`);
    else if (band.paused) lines.push(`preempted ${band.end}: tokens kept`);
    else lines.push(`completion ${band.end}`, `latency ${band.end - instance.arrival_times[k]}`);
    return lines.join("<br>");
  }

  // --- the picture -------------------------------------------------------------------------

  function panel(instance, bands, axes, range) {
    const narrow = bands.length > 60 ? 0.3 : 0.8;
    return bands.map((band) => ({
      ...outline(band), ...axes,
      type: "scatter", mode: "lines", fill: "toself", hoveron: "fills", hoverinfo: "text",
      text: hoverText(instance, band), name: String(instance.ids[band.request]),
      fillcolor: band.lost ? "#e4e4e4" : shade(instance.output_lengths[band.request], ...range),
      line: { width: narrow, color: band.lost ? "#8a8a8a" : "#ffffff" }, meta: band.request,
      hoverlabel: { bgcolor: "#ffffff", bordercolor: INK, font: { color: INK, size: 13 }, align: "left" },
      showlegend: false,
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

  // Ticks at whole numbers: left alone, plotly puts halves on a short axis and rounds their labels.
  const whole = (longest) => ({ tickformat: ",d", ...(longest <= 10 ? { dtick: 1 } : {}) });

  // The request under the pointer, outlined in both panels by their last two traces.
  function emphasise(request) {
    const place = find("picture");
    const outlines = sides.map((bands) => {
      const joined = { x: [], y: [] };
      for (const band of bands.filter((each) => each.request === request)) {
        const { x, y } = outline(band);
        joined.x.push(...x, null);
        joined.y.push(...y, null);
      }
      return joined;
    });
    const first = place.data.length - 2;
    Plotly.restyle(place, { x: outlines.map(({ x }) => x), y: outlines.map(({ y }) => y) }, [first, first + 1]);
  }

  function draw() {
    const trial = data.trials[chosen];
    const instance = instanceOf(trial);
    const place = find("picture");
    if (instance === null) { Plotly.purge(place); place.replaceChildren(); return; }
    const stacked = place.clientWidth < STACKED_BELOW;
    const lengths = instance.output_lengths;
    const range = [Math.min(...lengths), Math.max(...lengths)];
    sides = [
      bandsOf(instance, trial.start_times, trial.lost_attempts, trial.served),
      bandsOf(instance, trial.optimum_start_times),
    ];
    const last = Math.max(1, ...sides.flat().map((band) => band.end));
    const domains = stacked
      ? [{ x: [0, 1], y: [0.6, 1] }, { x: [0, 1], y: [0, 0.4] }]
      : [{ x: [0, 0.48], y: [0, 1] }, { x: [0.52, 1], y: [0, 1] }];
    const axesOf = [{ xaxis: "x", yaxis: "y" }, { xaxis: "x2", yaxis: "y2" }];
    const traces = sides.flatMap((bands, k) =>
      panel(instance, bands, axesOf[k], range));
    if (range[1] > range[0]) {
      const distinct = [...new Set(lengths)].sort((a, b) => a - b);
      const apart = distinct.every((value, k) => !k || value - distinct[k - 1] >= (range[1] - range[0]) / 8);
      const ticks = apart ? { tickvals: distinct } : { nticks: 6 };
      const scale = SHADES.map((colour, k) => [k / (SHADES.length - 1), colour]);
      traces.push({
        type: "scatter", mode: "markers", x: [null], y: [null], hoverinfo: "skip", showlegend: false,
        marker: {
          color: [range[0]], cmin: range[0], cmax: range[1], colorscale: scale, showscale: true,
          colorbar: {
            orientation: "h", thickness: 10, len: stacked ? 0.9 : 0.4, x: 0.5, xanchor: "center",
            y: 0, yref: "container", yanchor: "bottom", outlinewidth: 0, ...ticks, tickangle: 0, tickformat: ",d",
            title: { text: "output length (tokens)", side: "bottom", font: { size: 12 } },
          },
        },
      });
    }
    for (const axes of axesOf) {
      traces.push({
        type: "scatter", mode: "lines", x: [], y: [], ...axes, hoverinfo: "skip", showlegend: false,
        line: { color: "#000000", width: 2 },
      });
    }
    const shapes = [], annotations = [];
    headings(trial).forEach((text, k) => {
      const on = { xref: k ? "x2 domain" : "x domain", yref: k ? "y2" : "y" };
      shapes.push({
        type: "line", ...on, x0: 0, x1: 1, y0: instance.memory_limit, y1: instance.memory_limit,
        line: { color: LIMIT, width: 1.5 },
      });
      annotations.push({
        ...on, x: 0, y: instance.memory_limit, xanchor: "left", yanchor: "bottom", showarrow: false,
        text: `M = ${number(instance.memory_limit)}`, font: { color: LIMIT, size: 12 },
      }, {
        xref: on.xref, yref: `${on.yref} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom",
        showarrow: false, text: escaped(text), font: { size: 14, color: INK }, yshift: 4,
      });
    });
    const axis = { showgrid: false, zeroline: false, linecolor: INK, ticks: "outside", ticklen: 4 };
    const time = { ...axis, range: [0, last * 1.02], title: { text: "time (rounds)", standoff: 6 }, ...whole(last) };
    const tokens = { ...axis, range: [0, instance.memory_limit * 1.1], title: { text: "KV cache (tokens)", standoff: 6 }, ...whole(instance.memory_limit) };
    const layout = {
      height: stacked ? 640 : 430, margin: { l: 58, r: 12, t: 34, b: 110 }, hovermode: "closest",
      dragmode: stacked ? false : "zoom", paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff",
      font: { family: "system-ui, sans-serif", size: 12, color: INK }, shapes, annotations,
      xaxis: { ...time, domain: domains[0].x, anchor: "y" },
      yaxis: { ...tokens, domain: domains[0].y, anchor: "x" },
      xaxis2: { ...time, domain: domains[1].x, anchor: "y2", matches: "x" },
      yaxis2: { ...tokens, domain: domains[1].y, anchor: "x2", matches: "y" },
    };
    Plotly.react(place, traces, layout, {
      responsive: true, displaylogo: false, displayModeBar: stacked ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    });
    place.removeAllListeners("plotly_hover");
    place.removeAllListeners("plotly_unhover");
    place.on("plotly_hover", (event) => emphasise(event.points[0].data.meta));
    place.on("plotly_unhover", () => emphasise(null));
  }

  function showRequests(trial, instance) {
    const table = find("requests");
    table.replaceChildren();
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
    for (const [side, starts] of [["policy", trial.start_times], ["optimum", trial.optimum_start_times]]) {
      for (const field of ["start", "completion", "latency"]) {
        columns.push(column(`${side} ${field}`, from(starts, field)));
      }
    }
    sortable(table, columns, instance.ids.map((_, k) => k), null);
  }

  function choose(index) {
    chosen = index;
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

  const group = data.policies.some((row) => row.group) ? [{ ...words("group", (row) => row.group), long: true }] : [];
  const mixed = data.trials.some((trial) => trial.compared_with !== "optimum");
  const comparedWith = mixed ? [words("compared with", (row) => row.compared_with)] : [];
  sortable(find("policies"), [
    words("policy", (row) => row.policy),
    ...comparedWith,
    interval("mean_ratio", (row) => row.mean_ratio),
    interval("max_ratio", (row) => row.max_ratio),
    interval("ratio_of_totals", (row) => row.ratio_of_totals),
    interval("ratio_of_waitings", (row) => row.ratio_of_waitings),
    column("trials", (row) => row.trials),
    { label: "proved", text: (row) => `${row.proved}/${row.trials - row.failed}`, key: (row) => row.proved },
    column("failed", (row) => row.failed),
    ...group,
  ], policies, null);

  const trials = sortable(find("trials-table"), [
    words("policy", (trial) => trial.policy),
    interval("ratio", (trial) => trial.ratio),
    column("total_latency", (trial) => trial.total_latency),
    { label: "optimum", text: optimumText, key: (trial) => trial.optimum_upper },
    interval("waiting ratio", (trial) => trial.waiting_ratio),
    column("waiting", (trial) => trial.waiting),
    { label: "optimum waiting", text: (trial) => boundsText(trial.optimum_waiting), key: (trial) => trial.optimum_waiting[1] },
    ...comparedWith,
    { ...words("instance", (trial) => (trial.instance === null ? "" : instanceOf(trial).name)), long: true },
    column("n", of((instance) => instance.ids.length)),
    column("M", of((instance) => instance.memory_limit)),
    column("seed", (trial) => trial.seed),
    words("status", (trial) => trial.status),
  ], data.trials, choose);

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
  // The window stays where it is: only the table scrolls to the trial asked for.
  find("trials-table").parentElement.scrollTop = trials.lines[first].offsetTop - 60;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; draw(); }
  });
  // What the tests compare with the package's own bands.
  window.report = { bandsOf, data };
})();
