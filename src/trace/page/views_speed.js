// How fast the steps of a run are: times of the runs in the trace, operations and bytes as counted from the loops.
"use strict";

const numberText = (n) => {
  if (n === undefined || n === null) return "";
  for (const unit of ["", " k", " M", " G", " T"]) {
    if (Math.abs(n) < 999.5 || unit === " T") return (unit === "" ? Math.round(n) : n.toPrecision(3)) + unit;
    n /= 1000;
  }
};

const flopsText = (n, what = "FLOPs") => numberText(n) + (n < 999.5 ? " " : "") + what;

// Runs of the package that this compile made: their steps are its kernels.
function runsOf(one) {
  if (!one) return [];
  const names = new Set(one.kernels.map((k) => k.name));
  return data.runs.filter((r) => r.steps && r.steps.length && r.steps.filter((s) => names.has(s.name)).length * 2 > r.steps.length);
}

// One row per step of a run: {kernel, calls, seconds} of one run on average; without a traced run no times.
function stepSpeeds(one) {
  const runs = runsOf(one), calls = runs.reduce((n, r) => n + r.calls, 0);
  const times = new Map();
  for (const run of runs)
    for (const s of run.steps) {
      const sum = times.get(s.name) || {calls: 0, seconds: 0};
      sum.calls += s.calls, sum.seconds += s.seconds;
      times.set(s.name, sum);
    }
  return one.kernels.filter((k) => !k.init && (k.kind === "kernel" || times.has(k.name))).map((k) => {
    const sum = times.get(k.name), launches = sum && calls ? sum.calls / calls : calls ? 0 : 1;
    return {kernel: k, timed: Boolean(sum), launches, seconds: sum && calls ? sum.seconds / calls : 0,
            flops: k.flops === undefined ? undefined : k.flops * launches, bytes: k.bytes === undefined ? undefined : k.bytes * launches};
  });
}

const moduleOf = (k) => (k.origins.find((o) => o.module) || {}).module || "(none)";
const groupings = {
  step: {text: "step", key: (s) => s.kernel.name},
  function: {text: "function", key: (s) => s.kernel.symbol || s.kernel.name},
  module: {text: "module", key: (s) => moduleOf(s.kernel)},
  outer: {text: "outer module", key: (s) => moduleOf(s.kernel).split(".").slice(0, 2).join(".")},
};

function speedTable(one, grouping, options = {}) {
  const groups = new Map();
  for (const s of stepSpeeds(one)) {
    const key = groupings[grouping].key(s);
    const g = groups.get(key) || {key, steps: 0, launches: 0, seconds: 0, flops: 0, bytes: 0, timed: false, first: s.kernel};
    g.steps += 1, g.launches += s.launches, g.seconds += s.seconds, g.timed = g.timed || s.timed;
    g.flops = g.flops === undefined || s.flops === undefined ? undefined : g.flops + s.flops;
    g.bytes = g.bytes === undefined || s.bytes === undefined ? undefined : g.bytes + s.bytes;
    groups.set(key, g);
  }
  const rows = [...groups.values()], total = rows.reduce((sum, g) => sum + g.seconds, 0), timed = total > 0;
  const by = options.rows ? (g) => timed ? g.seconds : g.flops || 0 : null;
  if (by) rows.sort((a, b) => by(b) - by(a));
  const shown = options.rows ? rows.slice(0, options.rows) : rows;
  const rate = (v, g) => timed && g.seconds > 0 && v !== undefined ? v / g.seconds : undefined;
  const cell = (key, show) => ({key: key === undefined ? -1 : key, show: show === undefined ? "" : show});
  const named = (g) => grouping === "step" || grouping === "function" ? kernelLink(g.key) : el("span", {class: "mono"}, g.key);
  const share = (g) => {
    const bar = el("div", {class: "bar schedule"});
    bar.style.width = 100 * g.seconds / total + "%";
    return el("div", {class: "share"}, el("span", {}, (100 * g.seconds / total).toFixed(1) + " %"), el("div", {class: "track"}, bar));
  };
  const columns = [
    [{text: groupings[grouping].text, mono: true, sort: "text"}, (g) => cell(g.key, el("span", {}, named(g), g.steps > 1 && el("span", {class: "soft"}, "  × " + g.steps)))],
    timed && [{text: "time", num: true, sort: "number"}, (g) => cell(g.seconds, msText(g.seconds * 1000))],
    timed && [{text: "share", sort: "number"}, (g) => cell(g.seconds, share(g))],
    timed && [{text: "calls", num: true, sort: "number"}, (g) => cell(g.launches, Number(g.launches.toFixed(1)).toString())],
    [{text: "FLOPs", num: true, sort: "number"}, (g) => cell(g.flops, numberText(g.flops))],
    [{text: "bytes", num: true, sort: "number"}, (g) => cell(g.bytes, g.bytes === undefined ? "" : byteText(g.bytes))],
    timed && [{text: "FLOP/s", num: true, sort: "number"}, (g) => cell(rate(g.flops, g), rate(g.flops, g) === undefined ? "" : numberText(rate(g.flops, g)))],
    timed && [{text: "B/s", num: true, sort: "number"}, (g) => cell(rate(g.bytes, g), rate(g.bytes, g) === undefined ? "" : byteText(rate(g.bytes, g)) + "/s")],
    [{text: "your line"}, (g) => { const o = g.first.origins.find((x) => x.line); return el("span", {class: "soft line"}, o ? o.line : ""); }],
  ].filter(Boolean);
  return table(columns.map((c) => c[0]), shown.map((g) => columns.map((c) => c[1](g))), {step: 60, sorted: 1});
}

// Chips choose the grouping; the table's headings sort.
function speedPanel(one) {
  const holder = el("div"), chips = el("div", {class: "chips"});
  let grouping = "function";
  const timed = runsOf(one).length > 0;
  function draw() {
    chips.replaceChildren(...Object.entries(groupings).map(([name, g]) =>
      el("button", {class: "chip", "aria-pressed": String(name === grouping), onclick: () => { grouping = name; draw(); }}, "by " + g.text)));
    holder.replaceChildren(speedTable(one, grouping));
  }
  draw();
  return panel("Kernels of a run", el("p", {class: "lead"}, (timed ? "Times of one run, on average over the traced ones. " : "No run was traced, so there are no times. ") +
    "Operations and bytes are counted from the loops, for the sizes of the sample."), el("div", {class: "tools"}, chips), holder);
}

// The first screen of a trace that has runs: how long one takes, and what takes it.
function latencyPanels(one) {
  const runs = runsOf(one);
  if (!runs.length) return [];
  const calls = runs.reduce((n, r) => n + r.calls, 0), seconds = runs.reduce((n, r) => n + r.seconds, 0) / Math.max(1, calls);
  const speeds = stepSpeeds(one), flops = speeds.reduce((n, s) => n + (s.flops || 0), 0), bytes = speeds.reduce((n, s) => n + (s.bytes || 0), 0);
  const slowest = [...speeds].sort((a, b) => b.seconds - a.seconds)[0];
  const card = (value, label) => el("div", {class: "card"}, el("b", {}, value), el("span", {}, label));
  return [
    el("div", {class: "cards"}, card(msText(seconds * 1000), "a run, all steps together"), card(String(calls), calls === 1 ? "traced run" : "traced runs"),
      card(flopsText(flops / seconds, "FLOP/s"), flopsText(flops) + " a run"), card(byteText(bytes / seconds) + "/s", byteText(bytes) + " reached a run"),
      slowest && card((100 * slowest.seconds / Math.max(seconds, 1e-12)).toFixed(0) + " %", "in the slowest step")),
    panel("Slowest functions", speedTable(one, "function", {rows: 8}), el("p", {style: "margin-top:.6rem"}, el("a", {href: "#runs"}, "all of them, by step, function or module"))),
  ];
}
