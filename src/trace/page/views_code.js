// Graph stages, fusion decisions, kernels.
"use strict";

const stageLines = (stage) => stage.lines.map((i) => data.lines[i]);

views.graph = {
  title: "Graph",
  count: () => compile ? compile.stages.length : 0,
  show(main, rest) {
    if (!rest[0] || rest[0] === "kernels" || rest[0] === "operators") return showDrawing(main, rest[0] || "kernels");
    if (!compile.stages.length) return main.append(empty(data.redacted ? "Left out: the report was made with --redact." : "No stage was recorded."));
    const wanted = Math.max(0, compile.stages.findIndex((s) => s.name === rest[0]));
    const stage = compile.stages[wanted];
    const before = wanted ? new Set(compile.stages[wanted - 1].lines) : null;
    const list = el("div", {class: "list", role: "listbox"});
    compile.stages.forEach((s, i) => list.append(el("button", {"aria-current": String(i === wanted), onclick: () => { location.hash = "graph/" + s.name; }},
      el("span", {class: "k"}, (i ? "after " : "") + s.name), el("span", {class: "d"}, s.stage + " · " + plural(s.lines.length, "line")))));
    const search = el("input", {type: "search", placeholder: "search this stage (/)", "aria-label": "search this stage", value: rest[1] || ""});
    const count = el("span", {class: "count"});
    const changed = el("button", {class: "chip", "aria-pressed": "false"}, "only new lines");
    const holder = el("div");
    const text = stageLines(stage);
    const fresh = (i) => before !== null && !before.has(stage.lines[i]) && text[i].trim() !== "";
    const paint = painter(text.some((l) => l.startsWith("class ")) ? "python" : "loops");
    let matches = [], current = -1;
    function draw() {
      const only = changed.getAttribute("aria-pressed") === "true";
      const keep = text.map((_, i) => i).filter((i) => !only || fresh(i));
      holder.replaceChildren(codeView(keep.map((i) => text[i]), {tall: true, paint, fresh: (i) => fresh(keep[i]), numbers: keep.map((i) => i + 1)}));
      find();
    }
    function find() {
      const word = search.value.trim().toLowerCase();
      holder.querySelectorAll(".now").forEach((n) => n.classList.remove("now"));
      matches = [];
      current = -1;
      if (word) holder.querySelectorAll(".ln").forEach((n) => { if (n.textContent.toLowerCase().includes(word)) matches.push(n); });
      const news = text.filter((_, i) => fresh(i)).length;
      count.textContent = word ? plural(matches.length, "line") + " found" + (matches.length ? " (Enter: next)" : "") : before ? plural(news, "new line") : "";
      if (matches.length) go(1);
    }
    function go(direction) {
      if (!matches.length) {
        const next = wanted + direction;
        if (compile.stages[next]) location.hash = "graph/" + compile.stages[next].name;
        return;
      }
      if (current >= 0) matches[current].classList.remove("now");
      current = (current + direction + matches.length) % matches.length;
      matches[current].classList.add("now");
      matches[current].scrollIntoView({block: "center"});
    }
    stepper = go;
    search.addEventListener("input", find);
    changed.addEventListener("click", () => { changed.setAttribute("aria-pressed", String(changed.getAttribute("aria-pressed") !== "true")); draw(); });
    main.append(el("div", {class: "tools"}, el("div", {class: "chips"}, el("button", {class: "chip", "aria-pressed": "false", onclick: () => { location.hash = "graph"; }}, "as a drawing"))));
    main.append(el("div", {class: "split"}, el("section", {class: "panel side"}, list),
      el("section", {class: "panel"}, el("h2", {}, wanted ? "After " + stage.name : "As exported"), el("div", {class: "tools"}, search, before && changed, count), holder)));
    draw();
    const now = list.querySelector("[aria-current=true]");
    if (now) now.scrollIntoView({block: "nearest"});
  },
};

views.fusion = {
  title: "Fusion",
  count: () => compile ? compile.fusion.filter((d) => d.verdict !== "name").length : 0,
  show(main, rest) {
    const all = compile.fusion.filter((d) => d.verdict !== "name");
    if (!all.length && !compile.notes.length) return main.append(empty("No decision was recorded."));
    const search = el("input", {type: "search", placeholder: "search decisions (/)", "aria-label": "search decisions", value: rest[0] || ""});
    const count = el("span", {class: "count"});
    const passes = [...new Set(all.map((d) => d.pass))];
    const state = {taken: null, pass: null};
    const chips = el("div", {class: "chips"});
    const holder = el("div");
    function named(name) {
      const final = finalName(name);
      return final ? el("a", {href: "#kernels/" + encodeURIComponent(final), class: "mono", title: final}, name) : el("span", {class: "mono"}, name);
    }
    function draw() {
      const word = search.value.trim().toLowerCase();
      const rows = all.filter((d) => (state.taken === null || d.taken === state.taken) && (!state.pass || d.pass === state.pass) &&
        (!word || (d.verdict + " " + d.subject + " " + (d.other || "") + " " + d.reason + " " + (finalName(d.subject) || "") + " " + (d.other && finalName(d.other) || "")).toLowerCase().includes(word)));
      count.textContent = plural(rows.length, "decision");
      holder.replaceChildren(rows.length ? table([{text: ""}, {text: "what"}, {text: "why"}, {text: "pass", mono: true}], rows.map((d) => [
        el("span", {class: "tag " + (d.taken ? "ok" : "no")}, d.taken ? "taken" : "refused"),
        el("span", {}, d.verdict + " ", named(d.subject), d.other ? " " + d.link + " " : "", d.other ? named(d.other) : ""),
        d.reason, d.pass])) : empty("None of them."));
    }
    function chip(text, pressed, press) {
      chips.append(el("button", {class: "chip", "aria-pressed": String(pressed()), onclick: () => { press(); redraw(); }}, text));
    }
    function redraw() {
      chips.replaceChildren();
      chip("taken", () => state.taken === true, () => { state.taken = state.taken === true ? null : true; });
      chip("refused", () => state.taken === false, () => { state.taken = state.taken === false ? null : false; });
      for (const pass of passes) chip(pass, () => state.pass === pass, () => { state.pass = state.pass === pass ? null : pass; });
      draw();
    }
    search.addEventListener("input", draw);
    main.append(el("section", {class: "panel"}, el("h2", {}, "Decisions"), el("div", {class: "tools"}, search, count), el("div", {class: "tools"}, chips), holder));
    if (compile.notes.length)
      main.append(panel("Graph passes", table([{text: "pass", mono: true}, {text: "note"}], compile.notes.map((n) => [n.pass, n.text]))));
    redraw();
  },
};

// The function's arguments b0, b1, … are the step's buffers in order.
function bufferNames(kernel) {
  const inner = kernel.call.slice(kernel.call.indexOf("(") + 1);
  return [...inner.matchAll(/([\w.]+): (?:read and write|read|write)/g)].map((m) => m[1]);
}

// "model.py:42 in forward:  y = f(x)"
function sourceLine(line) {
  if (!line) return [];
  const at = line.indexOf(":  ");
  return at < 0 ? [el("span", {class: "src"}, line)] : [el("span", {class: "src"}, line.slice(0, at)), el("span", {class: "text"}, line.slice(at + 3))];
}

function kernelDetail(kernel) {
  const body = kernel.source !== undefined ? kernel : compile.kernels.find((k) => k.name === kernel.symbol) || kernel;
  const names = bufferNames(kernel);
  const loopNames = new Map(names.map((n) => [n, n])), sourceNames = new Map(names.map((n, i) => ["b" + i, n]));
  const facts = el("dl", {class: "kv"}, el("dt", {}, "step"), el("dd", {}, kernel.step + (kernel.init ? " (when weights are loaded)" : "")),
    el("dt", {}, "call"), el("dd", {class: "mono"}, kernel.call));
  if (kernel.symbol && kernel.symbol !== kernel.name) facts.append(el("dt", {}, "same body as"), el("dd", {}, kernelLink(kernel.symbol)));
  if (kernel.schedule) facts.append(el("dt", {}, "schedule"), el("dd", {class: "mono"}, el("span", {style: "white-space:pre-wrap"}, kernel.schedule.trimEnd())));
  const timing = data.runs.flatMap((r) => r.steps || []).find((s) => s.name === kernel.name);
  if (kernel.flops !== undefined) facts.append(el("dt", {}, "work"), el("dd", {}, flopsText(kernel.flops) + ", " + byteText(kernel.bytes) + " (sizes of the sample)"));
  if (timing) facts.append(el("dt", {}, "run"), el("dd", {}, plural(timing.calls, "call") + ", " + msText(1000 * timing.seconds / Math.max(1, timing.calls)) + " each"));
  const head = panel(null, el("h2", {class: "mono"}, kernel.name), el("div", {style: "height:.6rem"}), facts, kernel.hints.map((h) => el("p", {class: "hint"}, h)),
    el("p", {style: "margin-top:.6rem"}, el("a", {href: "#fusion/" + encodeURIComponent(kernel.name)}, "decisions that made it")));
  const ops = el("ul", {class: "ops"}, kernel.origins.map((o) => el("li", {}, el("span", {class: "op"}, o.op), " ",
    compile.stages.length ? el("a", {href: "#graph/read/" + encodeURIComponent(o.node), class: "mono"}, o.node) : el("span", {class: "mono"}, o.node),
    o.module && el("span", {class: "in"}, " in " + o.module), sourceLine(o.line))));
  const left = data.redacted ? "Left out: the report was made with --redact." : "None: this step runs no generated code.";
  const code = (text, language, map) => text ? codeView(text.replace(/\n+$/, "").split("\n"), {paint: painter(language, map)}) : empty(left);
  const legend = names.length && body.source ? el("p", {class: "soft", style: "font-size:.8rem;margin-bottom:.4rem"}, names.map((n, i) => "b" + i + " = " + n).join(", ")) : null;
  const panes = el("div", {class: "panes"}, panel("Loops", code(kernel.loops, "loops", loopNames)), panel(languageName(compile), legend, code(body.source, "cpp", sourceNames)));
  const lines = panel("Operators and your lines", kernel.origins.length ? ops : empty("No operator of yours: made by the compiler."));
  panes.addEventListener("mouseover", (event) => {
    const name = event.target.dataset && event.target.dataset.b;
    panes.querySelectorAll(".lit").forEach((n) => n.classList.remove("lit"));
    if (name) panes.querySelectorAll(`[data-b="${CSS.escape(name)}"]`).forEach((n) => n.classList.add("lit"));
  });
  return [el("div", {class: "heads"}, head, lines), panes];
}

views.kernels = {
  title: "Kernels",
  count: () => compile ? compile.kernels.length : 0,
  show(main, rest) {
    if (!compile.kernels.length) return main.append(empty("The compile did not get as far as kernels."));
    const search = el("input", {type: "search", placeholder: "name, operator, module, line (/)", "aria-label": "search kernels"});
    const list = el("div", {class: "list"});
    const detail = el("div");
    const texts = compile.kernels.map((k) => (k.name + " " + k.origins.map((o) => o.op + " " + o.node + " " + o.module + " " + o.line).join(" ")).toLowerCase());
    let shown = [], now = null;
    const entry = (k) => {
      const b = el("button", {"data-name": k.name, style: k.depth ? `padding-left:${.55 + k.depth * .8}rem` : null, onclick: () => choose(k)},
        el("span", {class: "k"}, k.name), el("span", {class: "d"}, (k.init ? "at loading · " : "") + (k.kind === "kernel" ? plural(k.origins.length, "operator") : k.kind) +
          (k.origins[0] && k.origins[0].module ? " · " + k.origins[0].module : "")));
      return b;
    };
    const entries = compile.kernels.map(entry);
    function mark() {
      entries.forEach((b, i) => b.setAttribute("aria-current", String(compile.kernels[i] === now)));
    }
    function choose(k) {
      now = k;
      history.replaceState(null, "", "#kernels/" + encodeURIComponent(k.name));
      mark();
      detail.replaceChildren(...kernelDetail(k));
    }
    function draw() {
      const word = search.value.trim().toLowerCase();
      shown = compile.kernels.filter((_, i) => !word || texts[i].includes(word));
      entries.forEach((b, i) => { b.hidden = !(!word || texts[i].includes(word)); });
    }
    stepper = (direction) => {
      const at = shown.indexOf(now) + direction;
      if (!shown[at]) return;
      choose(shown[at]);
      entries[compile.kernels.indexOf(shown[at])].scrollIntoView({block: "nearest"});
    };
    search.addEventListener("input", draw);
    list.append(...entries);
    const split = el("div", {class: "split"}, el("section", {class: "panel side"}, search, list), detail);
    const fold = el("button", {class: "chip", "aria-pressed": "false", onclick: () => { fold.setAttribute("aria-pressed", String(split.classList.toggle("folded"))); }}, "hide the list");
    main.append(el("div", {class: "tools foldable"}, fold), split);
    draw();
    choose(compile.kernels.find((k) => k.name === rest[0]) || compile.kernels.find((k) => k.kind === "kernel" && !k.init) || compile.kernels[0]);
    const at = compile.kernels.indexOf(now);
    if (rest[0] && entries[at]) entries[at].scrollIntoView({block: "nearest"});
  },
};
