// Profiles and numerics of runs, where the trace has them.
"use strict";

function profilePanel(run) {
  const total = run.steps.reduce((sum, s) => sum + s.seconds, 0) || 1e-12;
  const rows = [...run.steps].sort((a, b) => b.seconds - a.seconds).map((s) => {
    const bar = el("div", {class: "bar schedule"});
    bar.style.width = 100 * s.seconds / total + "%";
    const known = compile && compile.kernels.some((k) => k.name === s.name);
    return [known ? kernelLink(s.name) : s.name, String(s.calls), msText(s.seconds * 1000), msText(1000 * s.seconds / Math.max(1, s.calls)),
            (100 * s.seconds / total).toFixed(1) + " %", el("div", {class: "bars", style: "grid-template-columns:8rem"}, el("div", {class: "track"}, bar))];
  });
  return panel("Profile" + (run.model ? " of " + run.model : ""),
    el("p", {class: "lead"}, plural(run.calls, "run") + ", " + msText(run.seconds * 1000 / Math.max(1, run.calls)) + " each, " + plural(run.steps.length, "step")),
    table([{text: "step", mono: true}, {text: "calls", num: true}, {text: "time", num: true}, {text: "each", num: true}, {text: "share", num: true}, {text: ""}], rows, {step: 60}));
}

function numericsPanel(record) {
  const number = (v) => typeof v === "number" ? Number(v.toPrecision(6)).toString() : v === undefined ? "" : String(v);
  const rows = record.values.map((v) => {
    const bad = (v.nan || 0) + (v.inf || 0) > 0;
    return [el("span", {}, v.kernel), v.when || "", v.buffer, v.type || "", number(v.min), number(v.max), number(v.mean), number(v.std),
            el("span", {class: "tag" + (bad ? " bad" : "")}, (v.nan || 0) + " NaN, " + (v.inf || 0) + " Inf")];
  });
  return panel("Numerics", table([{text: "kernel", mono: true}, {text: ""}, {text: "buffer", mono: true}, {text: "type", mono: true}, {text: "min", num: true}, {text: "max", num: true}, {text: "mean", num: true}, {text: "std", num: true}, {text: ""}], rows, {step: 60}));
}

views.runs = {
  title: "Runs",
  count: () => data.runs.length + data.numerics.length,
  show(main) {
    if (compile && compile.kernels.length) main.append(speedPanel(compile));
    const here = runsOf(compile);
    for (const run of data.runs) if (run.steps && (data.runs.length > 1 || !here.includes(run))) main.append(profilePanel(run));
    for (const record of data.numerics) if (record.values) main.append(numericsPanel(record));
    if (!data.runs.length && !data.numerics.length)
      main.append(empty("No run wrote to this trace. Run the package with TORCH_TRACE set to the same directory."));
  },
};

start();
