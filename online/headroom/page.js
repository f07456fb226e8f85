"use strict";
(() => {
  const data = JSON.parse(document.getElementById("headroom").textContent);
  const COLOURS = ["var(--red)", "var(--blue)", "var(--green)", "var(--brown)"];
  const BAND = "var(--chosen)";
  const DASHES = ["2 3", "7 3"];
  // The largest of all points beside the least, from where on a linear axis would merge the small ones.
  const WIDE = 4;
  const axis = (title, low, high, more) => ({ title, low, high, grid: true, ...more });
  const shown = (value) => value.toFixed(3);

  function draw(id, spec) {
    const place = document.getElementById(id);
    if (place !== null) charts.draw(place, spec);
  }

  // The band in which the best possible lies, as far as it is known.
  function policies() {
    const { runs, best, today } = data.policies;
    // Exact lengths first.
    const told = [...new Set(runs.map((run) => run.told))].sort();
    const names = [...new Set(runs.map((run) => run.policy))];
    const means = [...runs.map((run) => run.mean), ...today.map((one) => one.mean), ...(best ?? [])].filter((one) => one > 0);
    // Every figure is in the picture: a band alone would not widen the axis.
    const [least, most] = [Math.min(...means), Math.max(...means)];
    const log = most > WIDE * least;
    const style = (k) => ({ colour: COLOURS[k + 1], open: k > 0, shape: k ? "diamond" : "circle" });
    draw("policies-picture", {
      height: 20 * names.length + 10,
      legend: [
        ...told.map((lengths, k) => ({ name: `output lengths ${lengths}`, kind: "point", ...style(k) })),
        ...(best === null ? [] : [{ name: "best possible", kind: "area", colour: BAND }]),
        ...today.map((one, k) => ({ name: one.name, colour: COLOURS[0], dash: DASHES[k] })),
      ],
      panels: [{
        x: axis("mean latency, s", log ? least / 1.25 : 0, log ? most * 1.25 : 1.05 * most, { log }),
        y: { names },
        marks: [
          ...(best === null ? [] : [{ kind: "band", x: best, colour: BAND }]),
          ...today.map((one, k) => ({ kind: "rule", x: one.mean, colour: COLOURS[0], dash: DASHES[k] })),
          ...runs.map((run) => ({
            kind: "point", x: run.mean, y: run.policy, radius: 5, ...style(told.indexOf(run.told)),
            text: () => [run.policy, `output lengths ${run.told}`, `mean latency ${shown(run.mean)} s`],
          })),
        ],
      }],
    });
  }

  function overTime() {
    const width = data.over_time.seconds;
    const runs = data.over_time.runs;
    const stairs = (values) => values.flatMap((value, k) => [[k * width, value], [(k + 1) * width, value]]);
    const last = Math.max(...runs.map((run) => run.queue.length)) * width;
    const panel = (field, y) => ({
      x: axis("seconds since the first arrival", 0, last),
      y,
      marks: runs.map((run, k) => ({ kind: "line", points: stairs(run[field]), colour: COLOURS[k] })),
    });
    const most = Math.max(1, ...runs.flatMap((run) => run.queue));
    draw("over-time-picture", {
      height: 150,
      legend: runs.map((run, k) => ({ name: run.policy, colour: COLOURS[k] })),
      panels: [panel("queue", axis("requests waiting", 0, 1.05 * most)), panel("memory", axis("memory held, % of M", 0, 105))],
    });
  }

  function curve(id, points, along, title) {
    if (!points.length) return;
    const known = points.filter((point) => point.best !== null);
    const lines = points[0].runs.map(({ policy }, k) => ({
      policy, colour: COLOURS[k],
      points: points.flatMap((point) => point.runs.filter((run) => run.policy === policy && run.mean !== null).map((run) => [point[along], run.mean])),
    }));
    const ends = points.map((point) => point[along]);
    const high = Math.max(...lines.flatMap((line) => line.points.map(([, mean]) => mean)), ...known.flatMap((point) => point.best), 0);
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    const pad = 0.04 * (last - first || last || 1);
    draw(id, {
      height: 240,
      legend: [
        ...(known.length ? [{ name: "best possible lies here", kind: "area", colour: BAND }] : []),
        ...lines.map((line) => ({ name: line.policy, colour: line.colour })),
      ],
      panels: [{
        x: axis(title, first - pad, last + pad), y: axis("mean latency, s", 0, 1.05 * high || 1),
        marks: [
          ...(known.length ? [{ kind: "area", points: known.map((point) => [point[along], ...point.best]), colour: BAND }] : []),
          ...lines.map((line) => ({ kind: "line", points: line.points, colour: line.colour })),
          ...lines.flatMap((line) => line.points.map(([x, y]) => ({
            kind: "point", x, y, colour: line.colour, text: () => [line.policy, `mean latency ${shown(y)} s`, `${title}: ${x}`],
          }))),
        ],
      }],
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
