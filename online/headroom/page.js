"use strict";
(() => {
  const data = JSON.parse(document.getElementById("headroom").textContent);
  const COLOURS = ["#c1121f", "#0072b2", "#00704f", "#8a5a00"];
  const INK = "#222222", BAND = "#dbeaf6", QUIET = "#5c5c5c";
  const NARROW = 600;
  const axis = { showgrid: true, gridcolor: "#eeeeee", zeroline: false, linecolor: INK, ticks: "outside", ticklen: 4, automargin: true };

  function layout(more) {
    const narrow = window.innerWidth < NARROW;
    return {
      margin: { l: 56, r: 14, t: 30, b: 46 }, hovermode: "closest", dragmode: narrow ? false : "zoom",
      paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff",
      font: { family: "system-ui, sans-serif", size: 12, color: INK },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" }, ...more,
    };
  }

  function draw(id, traces, more) {
    const place = document.getElementById(id);
    if (place === null) return;
    Plotly.react(place, traces, layout(more), { responsive: true, displaylogo: false, displayModeBar: false });
  }

  // The band in which the best possible lies, as far as it is known.
  function policies() {
    const { runs, best, today } = data.policies;
    const told = [...new Set(runs.map((run) => run.told))];
    const names = [...new Set(runs.map((run) => run.policy))].reverse();
    const traces = told.map((lengths, k) => {
      const own = runs.filter((run) => run.told === lengths);
      return {
        type: "scatter", mode: "markers", name: `output lengths ${lengths}`, x: own.map((run) => run.mean), y: own.map((run) => run.policy),
        marker: { color: COLOURS[k + 1], size: 10, symbol: k ? "diamond-open" : "circle", line: { width: 2 } },
        hovertemplate: "%{y}: %{x:.3f} s<extra></extra>",
      };
    });
    const shapes = [];
    if (best !== null) shapes.push({
      type: "rect", xref: "x", yref: "paper", x0: best[0], x1: best[1], y0: 0, y1: 1, fillcolor: BAND, line: { width: 0 }, layer: "below",
    });
    for (const one of today) shapes.push({
      type: "line", xref: "x", yref: "paper", x0: one, x1: one, y0: 0, y1: 1, line: { color: COLOURS[0], width: 1.5, dash: "dot" },
    });
    const means = [...runs.map((run) => run.mean), ...today, ...(best ?? [])].filter((one) => one > 0);
    // Every figure is in the picture: a shape alone would not widen the axis.
    const [least, most] = [Math.min(...means), Math.max(...means)];
    const wide = most > 30 * least;
    const range = wide ? [Math.log10(least) - 0.1, Math.log10(most) + 0.1] : [0, 1.05 * most];
    const digits = window.innerWidth < NARROW ? [1] : [1, 2, 5];
    const tickvals = Array.from({ length: 20 }, (_, k) => digits.map((digit) => digit * 10 ** (k - 10))).flat();
    draw("policies-picture", traces, {
      height: 120 + 20 * names.length, shapes,
      xaxis: { ...axis, type: wide ? "log" : "linear", ...(wide ? { tickvals } : {}), range, title: { text: "mean latency, s" } },
      yaxis: { ...axis, categoryorder: "array", categoryarray: names, showgrid: false, tickfont: { size: 11 } },
    });
  }

  function overTime() {
    const width = data.over_time.seconds;
    const steps = (values) => ({ x: [...values, null].map((_, k) => k * width), y: [...values, values[values.length - 1]] });
    const traces = data.over_time.runs.flatMap((run, k) => [
      { ...steps(run.queue), yaxis: "y", name: run.policy, showlegend: true, unit: "requests" },
      { ...steps(run.memory), yaxis: "y2", name: run.policy, showlegend: false, unit: "% of M" },
    ].map(({ unit, ...trace }) => ({
      ...trace, type: "scatter", mode: "lines", line: { shape: "hv", color: COLOURS[k], width: 1.5 }, legendgroup: run.policy,
      hovertemplate: `${run.policy}: %{y:.1f} ${unit} from %{x} s<extra></extra>`,
    })));
    draw("over-time-picture", traces, {
      height: 420,
      xaxis: { ...axis, title: { text: "seconds since the first arrival" }, anchor: "y2", rangemode: "tozero" },
      yaxis: { ...axis, domain: [0.55, 1], title: { text: "requests waiting" }, rangemode: "tozero" },
      yaxis2: { ...axis, domain: [0, 0.44], title: { text: "memory held, % of M" }, range: [0, 105] },
    });
  }

  function curve(id, points, along, title) {
    if (!points.length) return;
    const known = points.filter((point) => point.best !== null);
    const x = (rows) => rows.map((point) => point[along]);
    const band = [
      { x: x(known), y: known.map((point) => point.best[0]), line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
      { x: x(known), y: known.map((point) => point.best[1]), line: { width: 0 }, fill: "tonexty", fillcolor: BAND, name: "best possible lies here", hoverinfo: "skip" },
    ];
    const lines = points[0].runs.map(({ policy }, k) => {
      const rows = points.filter((point) => point.runs.some((run) => run.policy === policy && run.mean !== null));
      return {
        x: x(rows), y: rows.map((point) => point.runs.find((run) => run.policy === policy).mean), name: policy, mode: "lines+markers",
        line: { color: COLOURS[k], width: 1.5 }, hovertemplate: `${policy}: %{y:.3f} s at %{x}<extra></extra>`,
      };
    });
    draw(id, [...band.map((one) => ({ mode: "lines", ...one })), ...lines].map((one) => ({ type: "scatter", ...one })), {
      height: 330, xaxis: { ...axis, title: { text: title } }, yaxis: { ...axis, title: { text: "mean latency, s" }, rangemode: "tozero" },
      margin: { l: 56, r: 14, t: 54, b: 46 },
    });
  }

  function all() {
    if (data.policies) policies();
    if (data.over_time) overTime();
    curve("memory-picture", data.memory, "memory_limit", "M, tokens");
    curve("load-picture", data.load, "load", "machine seconds asked for in a second");
  }

  all();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; all(); }
  });
})();
