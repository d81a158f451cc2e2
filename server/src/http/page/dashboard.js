// The dashboard: asks for what was recorded, draws it, moves on each second while it is live.
"use strict";

const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["24 h", 86400]];
const byId = (id) => document.getElementById(id);
/** What is shown: a length in seconds that ends now, or from and to in seconds since 1970. */
const shown = { live: true, span: 900, from: 0, to: 0, thinned: [] };
const drawn = new Map();
let busy = false;
let again = false;

/** The token that `throng ctl dashboard` prints behind the address: kept for this tab, and taken out of the address. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname + location.search);
}

async function ask(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (answer.status === 401) {
    // Not for a request that was under way when the token was given.
    if (token === sessionStorage.getItem("token")) byId("token-form").hidden = false;
    throw new Error("a token is needed");
  }
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error || `the server answers ${answer.status}`);
  return told;
}

function range() {
  const to = shown.live ? Date.now() / 1000 : shown.to;
  return [shown.live ? to - shown.span : shown.from, to];
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Marks as lines from top to bottom. */
function drawMarks(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour("--accent");
  ctx.setLineDash([4, 4]);
  for (const mark of shown.marks || []) {
    const x = plot.valToPos(mark.at / 1000, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function article(plot) {
  const box = document.createElement("article");
  const title = document.createElement("h3");
  title.textContent = plot.title;
  const unit = document.createElement("p");
  const canvas = document.createElement("div");
  canvas.setAttribute("role", "img");
  const numbers = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = `Figures: ${plot.title}`;
  const table = document.createElement("table");
  numbers.append(summary, table);
  box.append(title, unit, canvas, numbers);
  byId("plots").append(box);
  return { box, unit, canvas, table, chart: null, labels: "" };
}

function options(plot, lines, width) {
  const palette = COLOURS[isDark() ? "dark" : "light"];
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  return {
    width, height: 190,
    cursor: { drag: { x: true, y: false, setScale: false }, sync: { key: "throng" } },
    scales: { x: { time: true }, y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.08 : 1] } },
    axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map(told) }],
    series: [{ value: (_, at) => (at === null ? "-" : new Date(at * 1000).toLocaleTimeString()) }].concat(lines.map((line, at) => ({
      label: line.label, stroke: palette[at % palette.length], width: 1.5, points: { show: false }, spanGaps: shown.thinned.includes(moduleOf(plot)), value: (_, value) => told(value),
    }))),
    hooks: {
      ready: [tellLast],
      draw: [drawMarks],
      setSelect: [(chart) => {
        if (chart.select.width < 4) return;
        const from = chart.posToVal(chart.select.left, "x");
        const to = chart.posToVal(chart.select.left + chart.select.width, "x");
        chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        zoom(from, to);
      }],
    },
  };
}

/** Where no pointer is over a plot, its legend has the last figures. */
function tellLast(chart) {
  if (!(chart.cursor.left >= 0) && chart.data[0].length > 0) chart.setLegend({ idx: chart.data[0].length - 1 });
}

function tell(plot, place, lines) {
  const rows = lines.map((line) => {
    const there = line.values.filter((value) => value !== null);
    const mean = there.reduce((sum, value) => sum + value, 0) / there.length;
    const figures = there.length ? [there[there.length - 1], Math.min(...there), mean, Math.max(...there)] : [null, null, null, null];
    return [line.label, ...figures.map(told)];
  });
  place.canvas.setAttribute("aria-label", `${plot.title}, ${plot.unit || "at once"}: ` + rows.map((row) => `${row[0]} ${row[1]}, at most ${row[4]}`).join("; "));
  place.table.replaceChildren(...[["", "now", "least", "mean", "most"], ...rows].map((row, at) => {
    const line = document.createElement("tr");
    row.forEach((text, column) => {
      const cell = document.createElement(at === 0 || column === 0 ? "th" : "td");
      if (cell.tagName === "TH") cell.scope = at === 0 ? "col" : "row";
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  }));
}

function draw(answer) {
  const times = answer.times.map((at) => at / 1000);
  const [from, to] = range();
  shown.thinned = answer.thinned;
  for (const plot of PLOTS) {
    const thinned = answer.thinned.includes(moduleOf(plot));
    const lines = linesOf(plot, answer.columns);
    if (!drawn.has(plot)) drawn.set(plot, article(plot));
    const place = drawn.get(plot);
    place.unit.textContent = (plot.unit || "at once") + (thinned && (plot.by || plot.rows) ? "; thinned: one value per ten seconds" : "");
    const labels = lines.map((line) => line.label).join() + isDark() + thinned;
    const width = Math.max(place.canvas.clientWidth, 200);
    const data = [times, ...lines.map((line) => line.values)];
    if (place.labels !== labels || !place.chart) {
      place.chart?.destroy();
      place.chart = new uPlot(options(plot, lines, width), data, place.canvas);
      place.labels = labels;
    } else {
      if (place.chart.width !== width) place.chart.setSize({ width, height: 190 });
      place.chart.setData(data, false);
    }
    place.chart.setScale("x", { min: from, max: to });
    tellLast(place.chart);
    tell(plot, place, lines);
  }
  byId("marks").replaceChildren(...answer.marks.slice(-50).reverse().map((mark) => {
    const entry = document.createElement("li");
    const time = document.createElement("time");
    time.dateTime = new Date(mark.at).toISOString();
    time.textContent = new Date(mark.at).toLocaleString();
    entry.append(time, `${mark.kind}: ${mark.text}`);
    return entry;
  }));
}

function tellNow({ status, wrong }) {
  byId("about").textContent = `${status.version}, ${status.domain}, ${status.driver}, ${status.shards} shards`;
  document.title = `${wrong.some((one) => one.weight === "bad") ? "(!) " : ""}Throng, ${status.domain}`;
  const figures = [["connections", status.connections], ["sessions", status.sessions], ["resumable", status.resumable], ["minutes up", Math.floor(status.uptime_s / 60)]];
  byId("figures").replaceChildren(...figures.map(([name, value]) => {
    const pair = document.createElement("div");
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value.toLocaleString("en");
    text.id = `figure-${name.replaceAll(" ", "-")}`;
    pair.append(term, text);
    return pair;
  }));
  const list = byId("wrong-list");
  const sentences = wrong.length ? wrong.map((one) => [one.weight, `${one.what} ${one.text}`]) : [["good", "No problems found."]];
  // A screen reader is told when something changes, not each second.
  if (list.dataset.told !== JSON.stringify(sentences)) {
    list.dataset.told = JSON.stringify(sentences);
    list.replaceChildren(...sentences.map(([weight, text]) => {
      const entry = document.createElement("li");
      entry.className = weight;
      entry.textContent = text;
      return entry;
    }));
  }
}

/** Asks and draws. What is asked for meanwhile is asked for afterwards, once. */
async function look() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  const [from, to] = range();
  try {
    const picks = PLOTS.map((plot) => plot.pick).join(" ");
    const slow = setTimeout(() => { byId("told").textContent = "reading the recording ..."; }, 500);
    const query = new URLSearchParams({ pick: picks, from: Math.floor(from * 1000), to: Math.ceil(to * 1000), points: 900 });
    const [answer, now] = await Promise.all([ask(`api/series?${query}`), ask("api/now")]);
    clearTimeout(slow);
    shown.marks = answer.marks;
    draw(answer);
    tellNow(now);
    const damaged = answer.damaged ? `, ${answer.damaged} damaged parts` : "";
    byId("told").textContent = `${new Date(from * 1000).toLocaleString()} to ${new Date(to * 1000).toLocaleTimeString()}, ${answer.times.length} points${damaged}`;
    document.body.dataset.points = answer.times.length;
    document.body.dataset.last = answer.times[answer.times.length - 1] ?? 0;
  } catch (error) {
    byId("told").textContent = `no answer: ${error.message}`;
  } finally {
    busy = false;
    if (again) {
      again = false;
      look();
    }
  }
}

function show(change) {
  Object.assign(shown, change);
  byId("live").setAttribute("aria-pressed", shown.live);
  for (const button of byId("spans").children) button.setAttribute("aria-pressed", shown.live && Number(button.dataset.span) === shown.span);
  const [from, to] = range();
  const local = (at) => new Date((Math.round(at) - new Date(at * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19);
  if (!shown.live) [byId("from").value, byId("to").value] = [local(from), local(to)];
  look();
}

function zoom(from, to) {
  // To the second: an interval is one, and a line needs two.
  const middle = (from + to) / 2;
  const half = Math.max((to - from) / 2, 2);
  const end = Math.min(middle + half, Date.now() / 1000);
  show({ live: false, from: Math.min(middle - half, end - 4), to: end });
}

function pan(part) {
  const [from, to] = range();
  zoom(from + (to - from) * part, to + (to - from) * part);
}

function scale(by) {
  const [from, to] = range();
  const half = ((to - from) / 2) * by;
  zoom((from + to) / 2 - half, (from + to) / 2 + half);
}

function dark() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
  look();
}

const KEYS = { ArrowLeft: () => pan(-0.5), ArrowRight: () => pan(0.5), "+": () => scale(0.5), "-": () => scale(2), l: () => show({ live: true }), d: dark };

function begin() {
  takeToken();
  addEventListener("hashchange", () => { takeToken(); byId("token-form").hidden = true; look(); });
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  for (const [name, span] of SPANS) {
    const button = document.createElement("button");
    button.textContent = name;
    button.dataset.span = span;
    button.onclick = () => show({ live: true, span });
    byId("spans").append(button);
  }
  for (const [id, act] of [["earlier", () => pan(-0.5)], ["later", () => pan(0.5)], ["nearer", () => scale(0.5)], ["wider", () => scale(2)], ["live", () => show({ live: true })], ["theme", dark]]) byId(id).onclick = act;
  for (const id of ["from", "to"]) byId(id).onchange = () => {
    const [from, to] = [Date.parse(byId("from").value) / 1000, Date.parse(byId("to").value) / 1000];
    if (from < to) show({ live: false, from, to });
  };
  byId("token-form").onsubmit = (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", byId("token").value);
    byId("token-form").hidden = true;
    look();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    const act = KEYS[event.key] || KEYS[event.key.toLowerCase()];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  addEventListener("resize", () => look());
  setInterval(() => { if (shown.live && !document.hidden) look(); }, 1000);
  show({});
}

begin();
