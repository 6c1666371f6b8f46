// Overview, timeline, guards, memory.
"use strict";

function errorBox(error) {
  const where = error.where || {};
  const place = where.file ? where.file + ":" + where.line + (where.function ? " in " + where.function : "") : "";
  return el("section", {class: "error", role: "alert"},
            el("h2", {}, (error.code ? error.code + "  " : "") + (error.message || "").split("\n")[0]),
            place && el("p", {class: "mono"}, place + (where.text ? ":  " + where.text : "")),
            el("p", {class: "soft"}, [where.module && "module " + where.module, where.op && "operator " + where.op,
                                     where.node && "node " + where.node, where.pass && "pass " + where.pass,
                                     error.kernel && "kernel " + error.kernel].filter(Boolean).join(" · ")),
            (error.message || "").includes("\n") && el("pre", {}, error.message.split("\n").slice(1).join("\n")));
}

views.overview = {
  title: "Overview",
  show(main) {
    for (const error of data.errors) main.append(errorBox(error));
    for (const problem of data.problems) main.append(el("p", {class: "hint"}, problem));
    if (!compile) {
      if (!data.runs.length) main.append(empty("The trace holds no compile and no run."));
      else main.append(panel("Runs", el("p", {}, plural(data.runs.length, "record") + " of runs: ", el("a", {href: "#runs"}, "see runs"))));
      return;
    }
    main.append(...latencyPanels(compile));
    const end = compile.end;
    const card = (value, label) => el("div", {class: "card"}, el("b", {}, value), el("span", {}, label));
    const kernels = compile.kernels.filter((k) => k.kind === "kernel" && !k.init).length;
    main.append(el("div", {class: "cards"},
      card(end ? msText(end.seconds * 1000) : compile.recorded ? "not recorded" : "failed", "compile time"),
      card(String(compile.nodes), "nodes of the graph"),
      card(String(kernels), "kernels in a run"),
      card(end ? String(end.kernels_compiled) : "?", "distinct functions"),
      card(byteText(compile.weight_bytes), plural(compile.weights, "weight")),
      card(end ? byteText(end.package_bytes) : compile.recorded ? "as it was" : "none", "package")));
    const left = panel("Where the time went", stageBars());
    const taken = compile.fusion.filter((d) => d.taken && d.verdict !== "name").length;
    const refused = compile.fusion.filter((d) => !d.taken).length;
    const facts = el("dl", {class: "kv"});
    const fact = (key, value) => value && facts.append(el("dt", {}, key), el("dd", {}, value));
    fact("model", compile.model_path || compile.model);
    fact("package", compile.package_path);
    fact("device", compile.device + " " + compile.targets.join(", "));
    fact("exported by", "torch " + compile.torch_version);
    fact(languageName(compile), end && (end.from_cache ? "from the kernel cache" : plural(compile.jobs.length, "compiler run")));
    fact("fusion", el("a", {href: "#fusion"}, taken + " taken, " + refused + " refused"));
    fact("inputs", compile.guards && compile.guards.inputs.map((i) => i.name + ": " + i.type).join(", "));
    fact("outputs", compile.guards && compile.guards.outputs.map((i) => i.name + ": " + i.type).join(", "));
    main.append(el("div", {class: "grid"}, left, panel("Facts", facts)));
    const hints = compile.kernels.filter((k) => k.hints.length);
    if (hints.length)
      main.append(panel("Could be faster", el("p", {class: "lead"}, "What the scheduler could not do for these kernels."),
        table([{text: "kernel", mono: true}, {text: "hint"}], hints.map((k) => [kernelLink(k.name), k.hints.join("; ")]), {step: 12})));
    const largest = compile.kernels.filter((k) => k.kind === "kernel" && !k.init).sort((a, b) => b.origins.length - a.origins.length).slice(0, 8);
    if (largest.length)
      main.append(panel("Kernels that fuse most", table([{text: "kernel", mono: true}, {text: "operators", num: true}, {text: "what"}],
        largest.map((k) => [kernelLink(k.name), String(k.origins.length), el("span", {class: "soft"}, k.origins.map((o) => o.node).join(", ").slice(0, 160))]))));
  },
};

function bars(rows, total) {
  const box = el("div", {class: "bars"});
  for (const row of rows) {
    const bar = el("div", {class: "bar " + row.kind, title: row.label + ": " + msText(row.ms)});
    bar.style.left = Math.min(99.5, 100 * row.start / total) + "%";
    bar.style.width = Math.min(100 - 100 * row.start / total, 100 * row.ms / total) + "%";
    box.append(el("div", {class: "label" + (row.dim ? " dim" : ""), title: row.label}, row.label),
               el("div", {class: "track"}, bar), el("div", {class: "value"}, msText(row.ms)));
  }
  return box;
}

function stageBars() {
  const rows = [];
  let at = 0;
  for (const stage of ["graph", "lower", "loops", "schedule"]) {
    const passes = compile.passes.filter((p) => p.stage === stage);
    const ms = passes.reduce((sum, p) => sum + p.run_ms, 0);
    if (passes.length) rows.push({label: stage === "lower" ? "lower" : stage + " passes", kind: stage, start: at, ms});
    at += ms;
  }
  if (compile.recorded) return empty("This is what the package recorded when it was compiled; times are not among it.");
  const end = compile.end;
  if (end) {
    rows.push({label: compilerName(compile), kind: "job", start: at, ms: end.toolchain_seconds * 1000});
    rows.push({label: "package", kind: "other", start: at + end.toolchain_seconds * 1000, ms: end.package_seconds * 1000});
    at += (end.toolchain_seconds + end.package_seconds) * 1000;
  }
  return bars(rows, Math.max(at, 1e-6));
}

views.timeline = {
  title: "Timeline",
  show(main) {
    const legend = el("div", {class: "legend"}, ["graph", "lower", "loops", "schedule", "job"].map((kind) =>
      el("span", {}, el("i", {class: "bar " + kind}), kind === "job" ? compilerName(compile) : kind)));
    if (compile.recorded) {
      const names = shownPasses(compile).map((p) => p.name + (p.changed ? "" : " (changed nothing)")).join(", ");
      main.append(panel("Passes", el("p", {class: "lead"}, "In order, as the package recorded them; times are not among it."), el("p", {}, names)));
      return;
    }
    const passes = shownPasses(compile).map((p) => ({label: p.name, kind: p.stage, start: p.start_ms, ms: p.run_ms, dim: !p.changed}));
    const last = Math.max(...passes.map((p) => p.start + p.ms), 1e-6);
    main.append(panel("Passes", el("p", {class: "lead"}, "In order, since the first pass began. Grey names changed nothing."), legend, passes.length ? bars(passes, last) : empty("No pass ran.")));
    const jobs = compile.jobs.map((j) => ({label: (compile.targets.length > 1 ? j.target + " " : "") + j.name, kind: "job", start: j.start_ms, ms: j.run_ms}));
    const all = Math.max(last, ...jobs.map((j) => j.start + j.ms));
    const whole = [{label: "passes", kind: "schedule", start: 0, ms: last}, ...jobs];
    main.append(panel("Compile jobs", el("p", {class: "lead"}, "Runs of " + theCompiler(compile) + ", since the compile began."), jobs.length ? bars(whole, all) : empty(compile.end && compile.end.from_cache ? "The kernels came from the cache." : "Nothing was compiled.")));
  },
};

views.guards = {
  title: "Guards",
  count: () => compile && compile.guards ? compile.guards.guards.length : 0,
  show(main) {
    const g = compile.guards;
    if (!g) return main.append(empty("The compile did not get as far as a plan."));
    main.append(panel("What inputs must satisfy", g.guards.length
      ? table([{text: "condition", mono: true}, {text: "because"}], g.guards.map((x) => [x.text, x.reason]))
      : empty("No guards: every size is fixed and checked.")));
    main.append(panel("Symbols", g.symbols.length
      ? table([{text: "symbol", mono: true}, {text: "range"}, {text: "comes from", mono: true}], g.symbols.map((s) =>
          [s.name, (s.low === undefined ? "−∞" : s.low) + " … " + (s.high === undefined ? "∞" : s.high), s.source]))
      : empty("None.")));
    main.append(el("div", {class: "grid"},
      panel("Inputs", table([{text: "name", mono: true}, {text: "type", mono: true}, {text: ""}], g.inputs.map((i) => [i.name, i.type, i.mutated ? el("span", {class: "tag no"}, "written") : ""]))),
      panel("Outputs", table([{text: "name", mono: true}, {text: "type", mono: true}, {text: "value", mono: true}], g.outputs.map((i) => [i.name, i.type, i.value || i.name])))));
  },
};

// Buffers as rectangles: steps from left to right, bytes upwards, each in the lowest place that is free all its life.
function place(buffers) {
  const placed = [];
  for (const b of [...buffers].sort((x, y) => y.bytes - x.bytes || x.first - y.first)) {
    const taken = placed.filter((p) => p.first <= b.last && b.first <= p.last).sort((x, y) => x.at - y.at);
    let at = 0;
    for (const p of taken) {
      if (at + b.bytes <= p.at) break;
      at = Math.max(at, p.at + p.bytes);
    }
    placed.push({...b, at});
  }
  return placed;
}

// What holds an output is known to the user by the output's name.
const bufferName = (b) => b.output && b.output !== b.name ? b.output + " (" + b.name + ")" : b.name;

function memoryDrawing(memory) {
  const own = memory.buffers.filter((b) => (b.role === "temp" || b.role === "output") && b.bytes > 0);
  if (!own.length) return empty("No memory beside inputs and weights.");
  const boxes = place(own);
  const steps = Math.max(memory.steps.length, 1), top = Math.max(...boxes.map((b) => b.at + b.bytes));
  const W = 1000, H = 340, L = 64, B = 26, T = 14;
  const x = (s) => L + (W - L - 8) * s / steps, y = (v) => H - B - (H - B - T) * v / top;
  let svg = "", shade = 0;
  for (let i = 0; i <= 4; i++)
    svg += `<line class="axis" x1="${L}" x2="${W - 8}" y1="${y(top * i / 4)}" y2="${y(top * i / 4)}"/><text x="${L - 6}" y="${y(top * i / 4) + 4}" text-anchor="end">${byteText(Math.round(top * i / 4))}</text>`;
  for (const b of boxes)
    svg += `<rect class="b ${b.role} s${shade++ % 3}" x="${x(b.first).toFixed(1)}" y="${y(b.at + b.bytes).toFixed(1)}" width="${Math.max(1.5, x(b.last + 1) - x(b.first)).toFixed(1)}" height="${Math.max(1, y(b.at) - y(b.at + b.bytes)).toFixed(1)}" rx="1.5"><title>${escapeHtml(bufferName(b) + "  " + b.type + "  " + byteText(b.bytes) + "\nsteps " + b.first + " to " + b.last + ": " + memory.steps[b.first] + " … " + memory.steps[b.last])}</title></rect>`;
  const live = new Array(steps).fill(0);
  for (const b of own) for (let s = b.first; s <= b.last; s++) live[s] += b.bytes;
  svg += `<path class="live" d="${live.map((v, s) => `${s ? "L" : "M"}${x(s).toFixed(1)} ${y(v).toFixed(1)}L${x(s + 1).toFixed(1)} ${y(v).toFixed(1)}`).join("")}"/>`;
  for (let i = 0; i <= 5; i++) {
    const s = Math.round(steps * i / 5);
    svg += `<text x="${x(s)}" y="${H - 8}" text-anchor="middle">${s}</text>`;
  }
  const peak = Math.max(...live);
  return el("div", {},
    el("div", {class: "legend"}, el("span", {}, el("i", {class: "bar loops"}), "temporary"), el("span", {}, el("i", {class: "bar schedule"}), "output"),
       el("span", {}, "line: bytes alive; peak " + byteText(peak) + " at step " + live.indexOf(peak))),
    el("div", {class: "scroll", html: `<svg class="mem" viewBox="0 0 ${W} ${H}" role="img" aria-label="memory over the steps of a run">${svg}</svg>`}));
}

views.memory = {
  title: "Memory",
  show(main) {
    const m = compile.memory;
    if (!m) return main.append(empty("The compile did not get as far as a plan."));
    const sample = Object.entries(m.sample).map(([k, v]) => k + " = " + v).join(", ");
    const sum = (role) => m.buffers.filter((b) => b.role === role).reduce((s, b) => s + (b.bytes || 0), 0);
    const card = (v, l) => el("div", {class: "card"}, el("b", {}, v), el("span", {}, l));
    main.append(el("div", {class: "cards"}, card(byteText(sum("temp")), "temporaries, if none shared"), card(byteText(sum("output")), "outputs"),
      card(byteText(sum("input")), "inputs"), card(byteText(sum("constant") + sum("derived")), "weights and what is made of them")));
    main.append(panel("Over the steps of a run", el("p", {class: "lead"}, "Sizes of the sample" + (sample ? " (" + sample + ")" : "") + ". Who is alive when comes from the plan; the runtime chooses addresses when it knows the sizes."), memoryDrawing(m)));
    const rows = [...m.buffers].sort((a, b) => (b.bytes || 0) - (a.bytes || 0));
    main.append(panel("Buffers", table([{text: "buffer", mono: true}, {text: "role"}, {text: "type", mono: true}, {text: "bytes", num: true}, {text: "steps", num: true}],
      rows.map((b) => [bufferName(b), el("span", {class: "tag" + (b.role === "output" ? " hot" : b.role === "temp" ? " blue" : "")}, b.role), b.type, byteText(b.bytes), b.first + " … " + b.last]), {step: 40})));
  },
};
