"use strict";
// Asks Locust once a second for what is new, and draws it. The server keeps the history, thinned to a bounded number of
// samples, so that a page loaded later shows the whole run, and this page's memory stays bounded too.

const ASK_EVERY_MS = 1000;
const MARKED_EVENTS = 40; // as in the report
const FAULTS_EVERY = 5; // questions
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200];

const get = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

let series = {}; // field -> its values, as the server sent them
let generation = "";
let events = [];

// What is derived from the samples

const level = (name, factor = 1) => () => series[name].map((value) => (value === null ? null : value * factor));

/** Of what a server says itself, which comes late when it is busy. */
const said = (name, factor = 1) => () => held(level(name, factor)(), series.t_s);

const rate = (name, times) => () => growth(series[name], series[times], series.t_s);

const CHARTS = [
  { title: "Delivered a second", lines: [["delivered", "blue", rate("delivered", "reported_s")]] },
  {
    title: "Outstanding futures",
    lines: [
      ["outstanding", "blue", level("outstanding")],
      ["in the engine's queue", "orange", said("waiting")],
      ["in its slots", "green", said("running")],
    ],
  },
  {
    title: "Memory of the server",
    axis: sizes,
    value: size,
    lines: [
      ["RSS", "blue", level("rss_bytes")],
      ["at rest + predicted retention", "red", level("expected_bytes")],
    ],
  },
  {
    title: "CPU (cores)",
    digits: 2,
    lines: [
      ["server", "blue", rate("target_cpu_s", "seen_s")],
      ["engine", "green", rate("engine_cpu_s", "seen_s")],
      ["load", "orange", rate("load_cpu_s", "reported_s")],
    ],
  },
  {
    title: "Loop lag (ms)",
    digits: 1,
    lines: [
      ["server, worst of 5 s", "blue", said("target_lag_s", 1000)],
      ["load, worst of 1 s", "orange", level("load_lag_s", 1000)],
    ],
  },
  {
    title: "Latency of the last 10 s (s)",
    digits: 3,
    lines: [
      ["median", "blue", level("p50_s")],
      ["90 %", "orange", level("p90_s")],
      ["99 %", "red", level("p99_s")],
    ],
  },
  {
    title: "Failed and lost",
    lines: [
      ["failed", "red", level("failed")],
      ["lost", "orange", level("lost")],
    ],
  },
  { title: "Open files of the server", lines: [["open files", "blue", level("fds")]] },
];

// Charts

function drawEvents(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("purple");
  ctx.lineWidth = devicePixelRatio;
  ctx.textAlign = "left";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  events.slice(0, MARKED_EVENTS).forEach((event, at) => {
    const x = chart.valToPos(event.t_s, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(String(at + 1), x + 3 * devicePixelRatio, bbox.top + 11 * devicePixelRatio);
  });
  ctx.restore();
}

function makeChart({ title, lines, digits, axis: axisTexts = numbers, value = (one) => number(one, digits) }) {
  const figure = document.createElement("figure");
  const heading = document.createElement("h3");
  heading.textContent = title;
  const place = document.createElement("div");
  figure.append(heading, place);
  get("charts").append(figure);
  const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("grid") }, ticks: { stroke: () => colour("grid") } };
  const chart = new uPlot(
    {
      width: place.clientWidth || 300,
      height: 200,
      cursor: { sync: { key: "soak" } },
      scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [
        { ...axis, incrs: TICKS_S, values: (_, ticks) => ticks.map(clock) },
        { ...axis, size: 62, values: (_, ticks, __, ___, step) => axisTexts(ticks, step) },
      ],
      series: [
        { label: "time", value: (_, at) => (at === null ? "–" : clock(at)) },
        ...lines.map(([label, name]) => ({
          label,
          stroke: () => colour(name),
          width: 1.5,
          spanGaps: false,
          points: { show: false },
          value: (_, one) => value(one),
        })),
      ],
      hooks: { draw: [drawEvents] },
    },
    [[], ...lines.map(() => [])],
    place,
  );
  new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: 200 })).observe(place);
  return () => {
    chart.setData([series.t_s, ...lines.map(([, , values]) => values())]);
    if (chart.cursor.idx === null || chart.cursor.idx === undefined) chart.setLegend({ idx: series.t_s.length - 1 });
  };
}

let redraws = [];

function draw() {
  if (!series.t_s) return;
  if (!redraws.length) {
    get("none").hidden = true;
    redraws = CHARTS.map(makeChart);
  }
  redraws.forEach((redraw) => redraw());
}

// A theme that changes changes the legend's colours too, which a chart takes once.
dark.addEventListener("change", () => {
  get("charts").querySelectorAll("figure").forEach((figure) => figure.remove());
  redraws = [];
  draw();
});

// Text

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function link(text, href) {
  const made = element("a", text);
  made.href = href;
  return made;
}

/** Fill an element anew, but only when its content is another: what a reader has selected stays so. */
const shown = new Map();
function fill(id, content, make) {
  const key = JSON.stringify(content);
  if (shown.get(id) === key) return;
  shown.set(id, key);
  get(id).replaceChildren(...make(content));
}

function showFigures(figures) {
  fill("figures", figures.slice(1), (some) =>
    some.map(({ figure, value, remark }) => {
      const card = document.createElement("div");
      card.append(element("dt", figure), element("dd", value));
      if (remark) card.append(element("dd", remark, "remark"));
      return card;
    }),
  );
}

function showEvents() {
  get("events").hidden = !events.length;
  fill("event-list", events, (some) =>
    some.map((event) => {
      const item = document.createElement("li");
      item.append(element("time", clock(event.t_s)), event.text);
      return item;
    }),
  );
}

function showRuns(runs) {
  const latest = runs.at(-1);
  get("name").textContent = latest.name;
  document.title = `${latest.state}: ${latest.name}`;
  const bad = latest.over ? 0 : (series.failed.at(-1) || 0) + (series.lost.at(-1) || 0);
  get("state").textContent = bad ? `${latest.state}, ${number(bad)} failed or lost` : latest.state;
  get("state").className = `state ${latest.state}${bad ? " bad" : ""}`;
  get("reasons").textContent = latest.reasons;
  get("reasons").hidden = !latest.reasons;
  get("abandon").hidden = latest.state !== "draining";
  get("report").hidden = !latest.files.includes("report.html");
  get("runs").hidden = false;
  fill("run-list", [...runs].reverse(), (some) =>
    some.map((run) => {
      const block = element("div", "");
      block.append(element("h3", `${run.name}: ${run.state}`));
      block.append(...run.files.map((name) => link(name, `runs/${run.number}/${name.split("/").map(encodeURIComponent).join("/")}`)));
      return block;
    }),
  );
}

// A second stop ends what the first one waits for; Locust's own button is out of reach by then.
get("abandon").addEventListener("click", () => fetch("../stop", { method: "POST" }).catch(() => {}));

// Faults

let faults = null; // what the engine last said

function showFaults() {
  const select = get("fault-kind");
  if (!select.options.length) select.append(...Object.keys(faults.kinds).map((kind) => element("option", kind)));
  get("fault-effect").textContent = faults.kinds[select.value].replaceAll("`", "");
  get("faults-on").replaceChildren(
    ...faults.faults.map(({ kind }, at) => {
      const item = element("li", "");
      const off = element("button", "Off");
      off.setAttribute("aria-label", `Switch off ${kind}`);
      off.addEventListener("click", () => switchFaults(faults.faults.filter((_, other) => other !== at)));
      item.append(off, `${faults.words[at]}: injected ${number(faults.injected[kind] || 0)} times`);
      return item;
    }),
  );
}

async function askFaults(rules) {
  const response = await fetch("faults", rules ? { method: "POST", body: JSON.stringify(rules) } : {});
  const answer = await response.json();
  if (!response.ok) return answer.error;
  faults = answer;
  showFaults();
  return "";
}

async function switchFaults(rules) {
  get("fault-error").textContent = await askFaults(rules).catch((error) => `Locust could not be asked: ${error}`);
}

get("fault-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!faults) return;
  const rule = { kind: get("fault-kind").value, probability: get("fault-probability").valueAsNumber };
  for (const word of get("fault-more").value.split(/\s+/).filter(Boolean)) {
    const [name, ...value] = word.split("=");
    rule[name] = value.join("="); // the engine reads text, and says what is wrong with it
  }
  switchFaults([...faults.faults.filter((one) => one.kind !== rule.kind), rule]);
});
get("faults-off").addEventListener("click", () => switchFaults([]));
get("fault-kind").addEventListener("change", () => faults && showFaults());

// The clock of the page

function take(answer) {
  if (!answer.series) return;
  if (answer.start === 0) series = {};
  for (const [name, values] of Object.entries(answer.series)) {
    series[name] = [...(series[name] || []).slice(0, answer.start), ...values];
  }
  generation = answer.generation;
  events = [...events.slice(0, answer.events_start), ...answer.events];
  showRuns(answer.runs);
  showFigures(answer.figures);
  showEvents();
  get("faults").hidden = !answer.engine;
  draw();
  if (answer.engine && (!faults || asked % FAULTS_EVERY === 0)) askFaults().catch(() => {});
  if (!answer.engine) faults = null; // the next run's engine is another
}

let asked = 0;

async function ask() {
  asked += 1;
  const length = series.t_s ? series.t_s.length : 0;
  try {
    const response = await fetch(`data?generation=${generation}&length=${length}&events=${events.length}`);
    if (response.redirected) return location.reload(); // to the login
    take(await response.json());
    get("silent").hidden = true;
  } catch {
    get("silent").hidden = false;
  }
  setTimeout(ask, ASK_EVERY_MS);
}

ask();
