// The program as a drawing: kernels, or operators, in layers; what is clicked is explained beside it.
"use strict";

const mostDrawn = 1500;

// {id, label, below, share, kernel?, value?} and pairs of indices; what is used comes first.
function kernelNodes(one) {
  const speeds = new Map(stepSpeeds(one).map((s) => [s.kernel.name, s])), total = [...speeds.values()].reduce((n, s) => n + s.seconds, 0);
  const nodes = [], edges = [], writer = new Map();
  const roles = new Map((one.memory ? one.memory.buffers : []).map((b) => [b.name, b]));
  for (const k of one.kernels.filter((x) => !x.init && !x.depth)) {
    const s = speeds.get(k.name), at = nodes.length;
    for (const name of k.reads) {
      const b = roles.get(name);
      if (!writer.has(name) && b && b.role === "input") {
        writer.set(name, nodes.length);
        nodes.push({id: name, label: name, below: b.type, kind: "input", share: 0});
      }
    }
    const me = nodes.length;
    nodes.push({id: k.name, label: k.name.replace(/^(cpp|cuda)_(fused_|mm_)?/, ""), below: s && s.timed ? msText(s.seconds * 1000) + (total ? " · " + (100 * s.seconds / total).toFixed(1) + " %" : "") : moduleOf(k),
                kind: k.kind === "kernel" ? "kernel" : "other", share: s && total ? s.seconds / total : 0, kernel: k});
    for (const name of k.reads) if (writer.has(name)) edges.push([writer.get(name), me]);
    for (const name of k.writes) writer.set(name, me);
    if (at > mostDrawn) break;
  }
  return {nodes, edges};
}

function operatorNodes(one) {
  const nodes = [], edges = [], maker = new Map();
  const inputs = new Map((one.guards ? one.guards.inputs : []).map((i) => [i.name, i]));
  for (const v of (one.values || []).slice(0, mostDrawn)) {
    for (const name of v.uses || [])
      if (!maker.has(name) && inputs.has(name)) {
        maker.set(name, nodes.length);
        nodes.push({id: name, label: name, below: inputs.get(name).type, kind: "input", share: 0});
      }
    const me = nodes.length;
    nodes.push({id: v.value, label: v.op.replace(/^aten\./, "").replace(/\.default$/, ""), below: v.value + (v.module ? " · " + v.module : ""), kind: "operator", share: 0, value: v});
    for (const name of v.uses || []) if (maker.has(name)) edges.push([maker.get(name), me]);
    maker.set(v.value, me);
  }
  return {nodes, edges};
}

// Layers by the longest way from an input; inside a layer whoever is fed from the left stands on the left.
function layered({nodes, edges}) {
  const W = 250, H = 44, X = 26, Y = 40;
  const into = nodes.map(() => []);
  for (const [a, b] of edges) into[b].push(a);
  nodes.forEach((n, i) => { n.layer = into[i].length ? 1 + Math.max(...into[i].map((a) => nodes[a].layer)) : 0; });
  // An input stands right above the first that reads it.
  for (const [a, b] of [...edges].reverse()) if (nodes[a].kind === "input") nodes[a].layer = Math.max(0, nodes[b].layer - 1);
  const layers = [];
  nodes.forEach((n, i) => { (layers[n.layer] = layers[n.layer] || []).push(i); });
  for (let sweep = 0; sweep < 3; sweep++)
    for (const layer of layers) {
      if (!layer) continue;
      const at = (i) => into[i].length ? into[i].reduce((s, a) => s + (nodes[a].x || 0), 0) / into[i].length : nodes[i].x || 0;
      layer.sort((a, b) => at(a) - at(b) || a - b);
      layer.forEach((i, p) => { nodes[i].x = (p - (layer.length - 1) / 2) * (W + X); });
    }
  nodes.forEach((n) => { n.y = n.layer * (H + Y); });
  const widest = Math.max(1, ...layers.map((l) => (l || []).length));
  return {W, H, width: widest * (W + X) + 240, height: layers.length * (H + Y) + 20, layers};
}

function drawingSvg(graph, size) {
  const {nodes, edges} = graph, {W, H} = size;
  const cut = (text, most) => escapeHtml(text.length > most ? text.slice(0, most - 1) + "…" : text);
  let svg = "";
  for (const [a, b] of edges) {
    const from = nodes[a], to = nodes[b], span = to.layer - from.layer;
    const x1 = from.x, y1 = from.y + H, x2 = to.x, y2 = to.y;
    if (span <= 1) {
      svg += `<path class="edge" data-a="${a}" data-b="${b}" d="M${x1} ${y1}C${x1} ${y1 + 22} ${x2} ${y2 - 22} ${x2} ${y2}"/>`;
    } else {  // past the layers between: around their right side
      let right = Math.max(x1, x2);
      for (let l = from.layer + 1; l < to.layer; l++) for (const i of size.layers[l] || []) right = Math.max(right, nodes[i].x);
      const side = right + W / 2 + Math.min(18 + 10 * span, 110);
      svg += `<path class="edge" data-a="${a}" data-b="${b}" d="M${x1 + W / 2 - 12} ${y1}C${side} ${y1 + 30} ${side} ${y2 - 30} ${x2 + W / 2 - 12} ${y2}"/>`;
    }
  }
  nodes.forEach((n, i) => {
    const heat = n.share > 0 ? ` style="--heat:${Math.min(85, 12 + 300 * n.share).toFixed(0)}%"` : "";
    svg += `<g class="node ${n.kind}${n.share > 0 ? " hot" : ""}" data-i="${i}" tabindex="0" role="button" aria-label="${escapeHtml(n.id)}" transform="translate(${(n.x - W / 2).toFixed(1)} ${n.y})"${heat}>` +
      `<rect width="${W}" height="${H}" rx="8"/><text x="12" y="18">${cut(n.label, 28)}</text><text class="sub" x="12" y="34">${cut(n.below, 36)}</text><title>${escapeHtml(n.id)}</title></g>`;
  });
  return svg;
}

function nodeDetail(n) {
  const parts = [el("h3", {class: "mono", style: "overflow-wrap:anywhere"}, n.id)];
  const facts = el("dl", {class: "kv"}), fact = (key, value) => value && facts.append(el("dt", {}, key), el("dd", {}, value));
  const lines = new Set();
  let buffers = [];
  if (n.kernel) {
    const k = n.kernel, s = stepSpeeds(compile).find((x) => x.kernel === k);
    fact("kernel", kernelLink(k.name));
    fact("module", [...new Set(k.origins.map((o) => o.module).filter(Boolean))].slice(0, 6).join(", "));
    if (s && s.timed) fact("time", msText(s.seconds * 1000) + " a run, " + plural(Number(s.launches.toFixed(1)), "call"));
    fact("work", k.flops !== undefined && flopsText(k.flops) + ", " + byteText(k.bytes));
    fact("operators", k.origins.map((o) => o.op.replace(/^aten\./, "")).join(", "));
    k.origins.forEach((o) => o.line && lines.add(o.line));
    buffers = k.writes;
  } else if (n.value) {
    const v = n.value, near = v.kernel || (compile.kernels.find((k) => k.origins.some((o) => o.node === v.node)) || {}).name;
    fact("operator", el("span", {class: "mono"}, v.op));
    fact("kernel", near && kernelLink(near));
    fact("module", v.module);
    fact("uses", el("span", {class: "mono"}, (v.uses || []).join(", ")));
    fact("value", v.buffer ? el("span", {class: "mono"}, "in buffer " + v.buffer) : "only inside the kernel");
    if (v.line) lines.add(v.line);
    if (v.buffer) buffers = [v.buffer];
  } else {
    fact("input", n.below);
  }
  parts.push(facts);
  if (lines.size) parts.push(el("h3", {}, "Your lines"), el("ul", {class: "ops"}, [...lines].slice(0, 12).map((l) => el("li", {}, sourceLine(l)))));
  const types = new Map((compile.memory ? compile.memory.buffers : []).map((b) => [b.name, b]));
  const seen = data.numerics.flatMap((r) => r.values || []);
  const number = (v) => typeof v === "number" ? Number(v.toPrecision(4)).toString() : v === undefined ? "" : String(v);
  if (buffers.length)
    parts.push(el("h3", {}, "Values it writes"), ...buffers.map((name) => {
      const v = seen.find((x) => x.buffer === name), b = types.get(name);
      const text = v ? `min ${number(v.min)}, max ${number(v.max)}, mean ${number(v.mean)}` + ((v.nan || 0) + (v.inf || 0) ? `, ${v.nan || 0} NaN, ${v.inf || 0} Inf` : "") : "not looked at: run with nan_asserts=1 and TORCH_TRACE";
      return el("p", {class: "written"}, el("span", {class: "mono"}, name + (b ? ": " + b.type : "")), el("br"), el("span", {class: v && (v.nan || v.inf) ? "tag bad" : "soft"}, text));
    }));
  return parts;
}

function showDrawing(main, kind) {
  const graph = kind === "operators" ? operatorNodes(compile) : kernelNodes(compile);
  const count = kind === "operators" ? (compile.values || []).length : compile.kernels.filter((k) => !k.init && !k.depth).length;
  const go = (name) => () => { location.hash = "graph/" + name; };
  const chips = el("div", {class: "chips"}, el("button", {class: "chip", "aria-pressed": String(kind === "kernels"), onclick: go("kernels")}, "kernels"),
    (compile.values || []).length ? el("button", {class: "chip", "aria-pressed": String(kind === "operators"), onclick: go("operators")}, "operators") : null,
    compile.stages.length ? el("button", {class: "chip", "aria-pressed": "false", onclick: go(compile.stages[0].name)}, "as text, stage by stage") : null);
  if (!graph.nodes.length) return main.append(el("div", {class: "tools"}, chips), empty("Nothing to draw: the compile did not get that far."));
  const size = layered(graph);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "drawing");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "xMidYMin");
  svg.setAttribute("aria-label", "the " + kind + " of a run, in layers");
  svg.innerHTML = drawingSvg(graph, size);
  const detail = el("section", {class: "panel detail"}, el("p", {class: "soft"}, "Click a box: its lines in your program, its kernel, what it wrote."));
  const holder = el("div", {class: "canvas"}, svg);
  let view = null;
  function show() { svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`); }
  function home() {  // the beginning, at the size of text
    const box = holder.getBoundingClientRect(), w = Math.max(320, box.width || 900), h = Math.max(300, box.height || 600);
    view = {x: -w / 2, y: -16, w, h};
    show();
  }
  function whole() {
    const box = holder.getBoundingClientRect(), ratio = (box.height || 600) / (box.width || 900);
    const w = Math.max(size.width, size.height / ratio);
    view = {x: -w / 2, y: -16, w, h: w * ratio};
    show();
  }
  function zoom(factor, cx, cy) {
    const w = Math.min(Math.max(view.w * factor, 200), 200000), f = w / view.w;
    cx = cx === undefined ? view.x + view.w / 2 : cx, cy = cy === undefined ? view.y + view.h / 2 : cy;
    view = {x: cx - (cx - view.x) * f, y: cy - (cy - view.y) * f, w, h: view.h * f};
    show();
  }
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return [view.x + (event.clientX - box.left) / box.width * view.w, view.y + (event.clientY - box.top) / box.height * view.h];
  };
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) return zoom(Math.exp(event.deltaY * .004), ...place(event));
    view.x += event.deltaX * view.w / svg.clientWidth, view.y += event.deltaY * view.h / svg.clientHeight;
    show();
  }, {passive: false});
  let held = null, moved = false;
  svg.addEventListener("pointerdown", (event) => { held = {x: event.clientX, y: event.clientY, view: {...view}}; moved = false; });
  svg.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    const dx = event.clientX - held.x, dy = event.clientY - held.y;
    moved = moved || Math.abs(dx) + Math.abs(dy) > 4;
    view = {...held.view, x: held.view.x - dx * view.w / svg.clientWidth, y: held.view.y - dy * view.h / svg.clientHeight};
    show();
  });
  svg.addEventListener("pointerup", () => { held = null; });
  let chosen = -1;
  function choose(i, bring) {
    chosen = i;
    svg.querySelectorAll(".on").forEach((x) => x.classList.remove("on"));
    svg.querySelector(`.node[data-i="${i}"]`).classList.add("on");
    svg.querySelectorAll(`.edge[data-a="${i}"], .edge[data-b="${i}"]`).forEach((x) => x.classList.add("on"));
    detail.replaceChildren(...nodeDetail(graph.nodes[i]));
    if (bring) view = {...view, x: graph.nodes[i].x - view.w / 2, y: graph.nodes[i].y - view.h / 3}, show();
  }
  const nodeOf = (event) => { const g = event.target.closest && event.target.closest(".node"); return g ? Number(g.dataset.i) : -1; };
  svg.addEventListener("click", (event) => { const i = nodeOf(event); if (i >= 0 && !moved) choose(i); });
  svg.addEventListener("keydown", (event) => { const i = nodeOf(event); if (i >= 0 && (event.key === "Enter" || event.key === " ")) choose(i), event.preventDefault(); });
  stepper = (direction) => { const i = chosen + direction; if (graph.nodes[i]) choose(i, true); };
  const search = el("input", {type: "search", placeholder: "find (/)", "aria-label": "find a box"});
  search.addEventListener("input", () => {
    const word = search.value.trim().toLowerCase();
    const i = word ? graph.nodes.findIndex((n) => (n.id + " " + n.label + " " + n.below).toLowerCase().includes(word)) : -1;
    if (i >= 0) choose(i, true);
  });
  const button = (text, title, f) => el("button", {class: "chip", title, onclick: f}, text);
  main.append(el("div", {class: "tools"}, chips, search, button("+", "larger", () => zoom(.7)), button("−", "smaller", () => zoom(1.4)), button("1:1", "the beginning", home), button("whole", "all of it", whole),
    el("span", {class: "count"}, plural(count, kind === "operators" ? "operator" : "step") + (count > mostDrawn ? ", the first " + mostDrawn + " drawn" : "") + " · drag to move, Ctrl and wheel to zoom")),
    el("div", {class: "drawn"}, holder, detail));
  home();
  const slow = graph.nodes.reduce((best, n, i) => n.share > (best < 0 ? 0 : graph.nodes[best].share) ? i : best, -1);
  if (slow >= 0) choose(slow);
}
