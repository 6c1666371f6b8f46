// The page: data, small tools for building elements, views by address (#kernels/cpp_fused_add_0), keys, light and dark.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const views = {};  // name -> {title, count(compile), show(main, rest)}
let compile = data.compiles[data.compiles.length - 1] || null;
let stepper = null;  // what j and k do in this view

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "html") node.innerHTML = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat())
    if (child !== undefined && child !== null && child !== false && child !== "") node.append(child);
  return node;
}
const escapeHtml = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
const byteText = (n) => {
  if (n === undefined || n === null) return "?";
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (Math.abs(n) < 999.5 || unit === "TB") return (unit === "B" ? n : n.toPrecision(3)) + " " + unit;
    n /= 1000;
  }
};
function msText(ms) {
  if (ms >= 1) return ms >= 1000 ? (ms / 1000).toFixed(2) + " s" : ms.toFixed(1) + " ms";
  return ms >= .001 ? (ms * 1000).toFixed(ms < .01 ? 1 : 0) + " µs" : (ms * 1e6).toFixed(0) + " ns";
}
// Exports call every model "model": the file's name says more.
const modelName = (c) => (c.model_path || "").split("/").pop().replace(/\.pt2$/, "") || c.model;
// What compiles the kernels, and the language it reads.
const compilerName = (c) => c.device === "cuda" ? "NVRTC" : "C++ compiler";
const theCompiler = (c) => c.device === "cuda" ? "NVRTC" : "the C++ compiler";
const languageName = (c) => c.device === "cuda" ? "CUDA C++" : "C++";
const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");
const panel = (title, ...children) => el("section", {class: "panel"}, title && el("h2", {}, title), ...children);
const empty = (text) => el("p", {class: "empty"}, text);

// A heading with `sort` ("number", "text") sorts the rows, whose cells are then {key, show}; `sorted`: the column at first.
function table(headers, rows, options = {}) {
  const heads = headers.map((h, i) => el("th", {class: h.num ? "num" : ""}, h.sort ? el("button", {class: "sort", onclick: () => sortBy(i, !(by === i && down))}, h.text) : h.text));
  const head = el("tr", {}, heads);
  const row = (cells) => el("tr", {}, cells.map((cell, i) => {
    const h = headers[i];
    return el("td", {class: [h.num && "num", h.mono && "name"].filter(Boolean).join(" "), "data-h": h.text}, cell && cell.show !== undefined ? cell.show : cell);
  }));
  const body = el("tbody");
  // Where rows are stacked, on a narrow screen, there are no headings to press.
  const sorter = headers.some((h) => h.sort) ? el("label", {class: "sorter"}, "sort by ", el("select", {onchange: (event) => sortBy(Number(event.target.value), true)},
    headers.map((h, i) => h.sort && el("option", {value: i, selected: i === options.sorted}, h.text)))) : null;
  const box = el("div", {class: "scroll"}, sorter, el("table", {class: options.stack === false ? "" : "stack"}, el("thead", {}, head), body));
  let by = -1, down = true;
  function sortBy(column, downwards) {
    by = column, down = downwards;
    const sign = down ? -1 : 1, text = headers[column].sort === "text";
    rows = [...rows].sort((a, b) => sign * (text ? String(b[column].key).localeCompare(String(a[column].key)) : a[column].key - b[column].key));
    heads.forEach((h, i) => i === by ? h.setAttribute("aria-sort", down !== text ? "descending" : "ascending") : h.removeAttribute("aria-sort"));
    body.replaceChildren();
    shown = 0;
    grow();
  }
  const step = options.step || 300;
  let shown = 0;
  const more = el("button", {class: "more", onclick: () => grow()});
  function grow() {
    body.append(...rows.slice(shown, shown + step).map(row));
    shown = Math.min(rows.length, shown + step);
    more.textContent = "show " + Math.min(step, rows.length - shown) + " more of " + rows.length;
    more.hidden = shown >= rows.length;
  }
  if (options.sorted !== undefined) sortBy(options.sorted, true);
  else grow();
  box.append(more);
  return box;
}

function kernelLink(name) {
  return el("a", {href: "#kernels/" + encodeURIComponent(name), class: "mono"}, name);
}

// The kernel that something went into, by its name while the passes ran: fusions are followed to the end.
function finalName(name) {
  if (!compile.became) {
    compile.became = new Map();
    compile.renamed = new Map();
    for (const d of compile.fusion) {
      if (d.verdict === "name") compile.renamed.set(d.subject, d.other);
      else if (d.taken && (d.verdict === "inline" || d.verdict === "merge") && d.link === "into") compile.became.set(d.subject, d.other);
    }
  }
  for (let i = 0; i < 1000 && name !== undefined; i++) {
    if (compile.renamed.has(name)) return compile.renamed.get(name);
    name = compile.became.get(name);
  }
  return undefined;
}

// ---- text with numbers of lines, in chunks that the browser lays out only when they come into sight
function codeView(lines, options = {}) {
  const box = el("pre", {class: "code" + (options.tall ? " tall" : ""), tabindex: 0});
  const size = 150;
  for (let at = 0; at < lines.length; at += size) {
    const part = lines.slice(at, at + size);
    const html = part.map((line, i) => {
      const classes = "ln" + (options.fresh && options.fresh(at + i) ? " new" : "");
      const number = options.numbers ? options.numbers[at + i] : at + i + 1;
      return `<span class="${classes}" data-n="${number}">${options.paint ? options.paint(line) : escapeHtml(line)}</span>`;
    }).join("");
    const chunk = el("span", {class: "chunk", html});
    chunk.style.containIntrinsicSize = "auto " + part.length * 1.23 + "rem";
    box.append(chunk);
  }
  return box;
}

const words = {
  cpp: /\b(for|if|else|return|const|static|inline|struct|template|typedef|void|while|break|continue|extern|auto|int|bool|char|unsigned|long|float|double)\b/,
  loops: /\b(kernel|for|in|parallel|reduce|scan|load|store|yield|ops|input|output|temp|constant|derived|buffer|call|while|if|else|init|block)\b/,
  python: /\b(def|class|return|import|from|for|in|if|else|None|True|False|self)\b/,
};
function painter(language, buffers) {
  const comment = language === "python" ? "#.*$" : "\\/\\/.*$";
  const types = "\\b(?:[fiu](?:8|16|32|64)(?:x\\d+)?|bf16|bool8|vmask|v[fi]\\d+)\\b";
  const all = new RegExp(`(${comment})|("(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*')|(${words[language].source})|(${types})|(\\b\\d[\\w.]*\\b)|([A-Za-z_][\\w.]*)`, "g");
  return (line) => {
    let out = "", last = 0;
    for (const m of line.matchAll(all)) {
      out += escapeHtml(line.slice(last, m.index));
      last = m.index + m[0].length;
      const text = escapeHtml(m[0]);
      if (m[1]) out += `<span class="cm">${text}</span>`;
      else if (m[2]) out += `<span class="st">${text}</span>`;
      else if (m[3]) out += `<span class="kw">${text}</span>`;
      else if (m[5]) out += `<span class="ty">${text}</span>`;
      else if (m[6]) out += `<span class="nu">${text}</span>`;
      else if (buffers && buffers.has(m[0])) out += `<span class="bf" data-b="${escapeHtml(buffers.get(m[0]))}" title="${escapeHtml(buffers.get(m[0]))}">${text}</span>`;
      else out += text;
    }
    return out + escapeHtml(line.slice(last));
  };
}

// ---- views
const order = ["overview", "timeline", "graph", "fusion", "kernels", "guards", "memory", "runs"];
function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const view = views[name] ? name : "overview";
  stepper = null;
  document.querySelectorAll("#nav a").forEach((a) => {
    if (a.dataset.view === view) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  });
  const main = document.getElementById("main");
  main.replaceChildren();
  if (!compile && view !== "overview" && view !== "runs") main.append(empty("There is no compile in this trace."));
  else views[view].show(main, rest.map(decodeURIComponent));
  const current = document.querySelector("#nav a[aria-current]");
  if (current && current.scrollIntoView) current.scrollIntoView({block: "nearest", inline: "center"});
}

// Passes that exist to test Kiln itself are shown where they did something.
const shownPasses = (one) => one.passes.filter((p) => p.changed || !/^inject_/.test(p.name));

// A line of views that goes on beyond the edge of a narrow screen fades out there.
function markOverflow() {
  const nav = document.getElementById("nav"), current = nav.querySelector("[aria-current]");
  if (current && current.offsetLeft + current.offsetWidth > nav.scrollLeft + nav.clientWidth) nav.scrollLeft = current.offsetLeft;
  markEdges();
}
function markEdges() {
  const nav = document.getElementById("nav");
  nav.classList.toggle("more-left", nav.scrollLeft > 4);
  nav.classList.toggle("more-right", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 4);
}

function drawNav() {
  document.getElementById("nav").replaceChildren(...order.map((name, i) => {
    const count = views[name].count ? views[name].count() : "";
    const bad = name === "overview" && data.errors.length > 0;
    return el("a", {href: "#" + name, "data-view": name, title: "key " + (i + 1)}, views[name].title,
              (count || bad) && el("span", {class: "n" + (bad ? " bad" : "")}, String(bad ? data.errors.length : count)));
  }));
}

function drawHeading() {
  const name = compile ? modelName(compile) : "";
  document.title = "Kiln report" + (name ? " · " + name : "");
  document.getElementById("title").textContent = name || "Kiln report";
  const parts = [];
  if (compile) parts.push(compile.device + (compile.targets.length ? " " + compile.targets.join(", ") : ""), compile.torch_version && "torch " + compile.torch_version);
  parts.push("Kiln " + data.kiln_version);
  if (data.redacted) parts.push("source and constants left out");
  document.getElementById("subtitle").textContent = parts.filter(Boolean).join(" · ");
  const pick = document.getElementById("pick");
  document.getElementById("pick-label").hidden = data.compiles.length < 2;
  pick.replaceChildren(...data.compiles.map((c, i) => el("option", {value: i, selected: c === compile}, (i + 1) + ": " + modelName(c))));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}
// The reader's own choice is kept; without one the page follows the system, also when that changes.
function chooseTheme(theme) {
  setTheme(theme);
  try { localStorage.setItem("kiln-theme", theme); } catch (e) { /* a page of a file may not store */ }
}

function start() {
  let theme = null;
  try { theme = localStorage.getItem("kiln-theme"); } catch (e) { /* as above */ }
  const dark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)");
  const follow = () => setTheme(theme || (dark && dark.matches ? "dark" : "light"));
  follow();
  if (dark && dark.addEventListener) dark.addEventListener("change", follow);
  const flip = () => chooseTheme(theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  document.getElementById("theme").addEventListener("click", flip);
  const keys = document.getElementById("keys");
  document.getElementById("help").addEventListener("click", () => keys.showModal());
  document.getElementById("pick").addEventListener("change", (event) => {
    compile = data.compiles[event.target.value];
    drawHeading(), drawNav(), route();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (typing && event.key === "Escape") return event.target.blur();
    if (typing && event.key === "Enter" && stepper) return stepper(event.shiftKey ? -1 : 1);
    if (typing) return;
    const search = document.querySelector("main input[type=search]");
    if (event.key === "/" && search) search.focus(), search.select(), event.preventDefault();
    else if (event.key === "?") keys.showModal();
    else if (event.key === "t") flip();
    else if ((event.key === "j" || event.key === "k") && stepper) stepper(event.key === "j" ? 1 : -1);
    else if (event.key >= "1" && event.key <= String(order.length)) location.hash = order[event.key - 1];
  });
  window.addEventListener("hashchange", route);
  window.addEventListener("resize", markOverflow);
  document.getElementById("nav").addEventListener("scroll", markEdges);
  drawHeading(), drawNav(), route(), markOverflow();
  // How long the page took from its first byte to here; tests/report_page_test.sh holds it to its limit.
  document.documentElement.dataset.readyMs = Math.round(performance.now());
}
