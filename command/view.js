// SPDX-License-Identifier: Apache-2.0
// The picture of "tarn view". Changes are columns of numbers, in the order of time: a redraw walks those
// that are in view, from the last of the sums that are kept for each STEP changes.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const STEP = 4096, GROUPS = 12, UNIT = 512;
const PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f",
  "#ff9da7", "#86bc86", "#6b8fd4", "#a0a7b0"];
const $ = (id) => document.getElementById(id);

function column(name, Kind) {
  const text = atob(data.columns[name]), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  data.columns[name] = null;
  return new Kind(bytes.buffer);
}

const time = column("time", Float64Array), units = column("units", Int32Array);
const stack = column("stack", Uint32Array), pool = column("pool", Uint32Array);
const block = column("block", Float64Array), address = column("address", Float64Array);
const captured = column("captured", Uint16Array); // a place in the captures, from 1
const other = column("other", Uint32Array); // of an allocation: its free's place, or one behind the last
const count = time.length, notes = data.notes;

// What is drawn now.
const state = { by: "stacks", from: 0, to: 1, cursor: 0, group: -1, sought: -1 };
const first = 0;
const last = Math.max(count > 0 ? time[count - 1] : 0, notes.length > 0 ? notes[notes.length - 1].time : 0, 1);
let grouping = null;

function bytesText(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0, value = bytes;
  while (Math.abs(value) >= 1024 && at + 1 < names.length) { value /= 1024; at++; }
  return (at === 0 ? value.toFixed(0) : value.toFixed(1)) + " " + names[at];
}

function timeText(nanoseconds) {
  const value = Math.abs(nanoseconds);
  if (value >= 1e9) return (nanoseconds / 1e9).toFixed(3) + " s";
  if (value >= 1e6) return (nanoseconds / 1e6).toFixed(3) + " ms";
  return (nanoseconds / 1e3).toFixed(1) + " us";
}

const hex = (value) => "0x" + value.toString(16);

// The first change behind a time.
function after(when) {
  let begin = 0, end = count;
  while (begin < end) {
    const middle = (begin + end) >>> 1;
    if (time[middle] <= when) begin = middle + 1; else end = middle;
  }
  return begin;
}

// In how many stacks each frame is: a stack's name is the innermost of its rarest frames.
const stacksOf = new Map();
for (const one of data.stacks)
  for (const frame of new Set(one.frames)) stacksOf.set(frame, (stacksOf.get(frame) || 0) + 1);

function stackName(index) {
  const lines = data.stacks[index].frames.filter((line) => !line.startsWith("label: "));
  let best = null;
  for (const line of lines)
    if (best === null || stacksOf.get(line) < stacksOf.get(best)) best = line;
  return (best || "no stack").replace(/ in \S+\+0x[0-9a-f]+$/, "").replace(/ at \S*\/([^/]+:\d+)/, " at $1");
}

// A number of each change's group; those with the highest peaks, and the others.
function group(by) {
  const names = by === "stacks" ? data.stacks.map((_, i) => stackName(i))
    : by === "pools" ? data.pools.map((p) => p === 0 ? "pool not known" : "pool " + p) : data.labels;
  const keys = by === "stacks" ? stack : by === "pools" ? pool
    : stack.map((index) => data.stacks[index].label);
  const live = new Float64Array(names.length), peaks = new Float64Array(names.length);
  for (let i = 0; i < count; i++) {
    const now = live[keys[i]] += units[i];
    if (now > peaks[keys[i]]) peaks[keys[i]] = now;
  }
  const order = Array.from(names.keys()).sort((a, b) => peaks[b] - peaks[a] || a - b);
  const shown = order.slice(0, order.length > GROUPS ? GROUPS - 1 : GROUPS);
  const place = new Uint8Array(names.length).fill(shown.length);
  shown.forEach((key, at) => { place[key] = at; });
  const of = new Uint8Array(count);
  for (let i = 0; i < count; i++) of[i] = place[keys[i]];
  const groups = shown.map((key) => ({ key, name: names[key] }));
  if (order.length > shown.length) groups.push({ key: -1, name: (order.length - shown.length) + " others" });
  // The sums before each STEP changes.
  const width = groups.length, sums = new Float64Array((Math.floor(count / STEP) + 1) * width);
  const now = new Float64Array(width);
  let total = 0, peak = 0, peakAt = 0;
  for (let i = 0; i < count; i++) {
    if (i % STEP === 0) sums.set(now, i / STEP * width);
    now[of[i]] += units[i];
    total += units[i];
    if (total > peak) { peak = total; peakAt = i; }
  }
  if (count % STEP === 0) sums.set(now, count / STEP * width);
  return { by, groups, of, sums, width, peak, peakAt };
}

// The sums before a change.
function sumsAt(index) {
  const step = Math.floor(index / STEP), width = grouping.width;
  const now = grouping.sums.slice(step * width, (step + 1) * width);
  for (let i = step * STEP; i < index; i++) now[grouping.of[i]] += units[i];
  return now;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function prepare(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
  const height = Number(canvas.getAttribute("data-height") || canvas.getAttribute("height"));
  canvas.setAttribute("data-height", height);
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

const margin = { left: 66, right: 8, top: 10, bottom: 20 };
// For each column of pixels the sums at its end, or at its highest moment within.
function columnsOf(width) {
  const span = state.to - state.from, size = grouping.width;
  const heights = new Float64Array(width * size), totals = new Float64Array(width);
  let at = after(state.from);
  const now = sumsAt(at);
  let total = 0, highest = 0;
  for (let g = 0; g < size; g++) total += now[g];
  for (let x = 0; x < width; x++) {
    const end = state.from + span * (x + 1) / width;
    let peak = total;
    heights.set(now, x * size);
    while (at < count && time[at] <= end) {
      now[grouping.of[at]] += units[at];
      total += units[at];
      at++;
      if (total > peak) { peak = total; heights.set(now, x * size); }
    }
    totals[x] = peak;
    if (peak > highest) highest = peak;
  }
  return { heights, totals, highest };
}

function drawTime() {
  const { context, width, height } = prepare($("time"));
  const inner = Math.max(1, Math.floor(width - margin.left - margin.right));
  const tall = height - margin.top - margin.bottom, size = grouping.width;
  const { heights, highest } = columnsOf(inner);
  const scale = tall / Math.max(1, highest), fore = style("--fore"), line = style("--line");
  const base = new Float64Array(inner);
  for (let g = 0; g < size; g++) {
    context.fillStyle = PALETTE[g % PALETTE.length];
    context.globalAlpha = state.group >= 0 && state.group !== g ? 0.25 : 1;
    for (let x = 0; x < inner; x++) {
      const tallness = heights[x * size + g] * scale;
      if (tallness <= 0) continue;
      context.fillRect(margin.left + x, margin.top + tall - base[x] - tallness, 1.05, tallness);
      base[x] += tallness;
    }
  }
  context.globalAlpha = 1;
  context.strokeStyle = line;
  context.fillStyle = fore;
  for (let i = 0; i <= 4; i++) {
    const y = margin.top + tall - tall * i / 4;
    context.globalAlpha = 0.35;
    context.beginPath();
    context.moveTo(margin.left, y);
    context.lineTo(width - margin.right, y);
    context.stroke();
    context.globalAlpha = 1;
    context.textAlign = "right";
    context.fillText(bytesText(highest * UNIT * i / 4), margin.left - 6, y + 4);
  }
  for (let i = 0; i <= 5; i++) {
    const x = margin.left + inner * i / 5;
    context.textAlign = i === 0 ? "left" : i === 5 ? "right" : "center";
    context.fillText(timeText(state.from + (state.to - state.from) * i / 5 - first), x, height - 5);
  }
  const x = xOf(state.cursor, inner);
  if (x >= margin.left && x <= margin.left + inner) {
    context.strokeStyle = style("--mark");
    context.beginPath();
    context.moveTo(x + 0.5, margin.top);
    context.lineTo(x + 0.5, margin.top + tall);
    context.stroke();
  }
}

function xOf(when, inner) {
  return margin.left + inner * (when - state.from) / (state.to - state.from);
}

function plotWidth() {
  return Math.max(1, $("time").clientWidth - margin.left - margin.right);
}

function timeOf(x) {
  return state.from + (state.to - state.from) * (x - margin.left) / plotWidth();
}

// The memory at the cursor: segments, what is mapped in them, and live blocks.
function memoryAt(when) {
  const segments = new Map(), mapped = new Map(), live = [];
  for (const note of notes) {
    if (note.time > when) break;
    if (note.kind === "segment reserved") segments.set(note.address, { pool: note.pool, bytes: note.bytes });
    if (note.kind === "segment given back") segments.delete(note.address);
    if (note.kind === "memory mapped") mapped.set(note.address, note.bytes);
    if (note.kind === "memory moved") mapped.set(note.to, note.bytes);
    if (note.kind === "memory unmapped") mapped.delete(note.address);
  }
  for (let i = 0, end = after(when); i < end; i++) {
    if (units[i] > 0 && other[i] >= end && block[i] !== 0) live.push(i);
  }
  return { segments, mapped, live };
}

let boxes = [];

function drawMap() {
  const { segments, mapped, live } = memoryAt(state.cursor);
  const rows = Array.from(segments, ([begin, segment]) => ({ begin, ...segment, mapped: [], blocks: [] }))
    .sort((a, b) => a.begin - b.begin);
  const rowOf = (where) => {
    let begin = 0, end = rows.length;
    while (begin < end) {
      const middle = (begin + end) >>> 1;
      if (rows[middle].begin <= where) begin = middle + 1; else end = middle;
    }
    return begin > 0 && where < rows[begin - 1].begin + rows[begin - 1].bytes ? rows[begin - 1] : null;
  };
  for (const [where, bytes] of mapped) rowOf(where)?.mapped.push([where, bytes]);
  for (const index of live) rowOf(address[index])?.blocks.push(index);
  const used = rows.filter((row) => row.mapped.length > 0);
  const tall = Math.max(6, Math.min(26, Math.floor(400 / Math.max(1, used.length))));
  $("map").setAttribute("data-height", Math.max(40, Math.min(1200, used.length * (tall + 16) + 8)));
  const { context, width } = prepare($("map"));
  boxes = [];
  used.forEach((row, at) => {
    const y = 4 + at * (tall + 16), begin = Math.min(...row.mapped.map(([where]) => where));
    const end = Math.max(...row.mapped.map(([where, bytes]) => where + bytes));
    const x = (where) => (where - begin) / (end - begin) * (width - 2) + 1;
    context.fillStyle = style("--dim");
    context.textAlign = "left";
    context.fillText(hex(row.begin) + ", pool " + row.pool + ", " + bytesText(end - begin), 2, y + 9);
    context.fillStyle = style("--mapped");
    for (const [where, bytes] of row.mapped)
      context.fillRect(x(where), y + 12, Math.max(1, x(where + bytes) - x(where)), tall);
    for (const index of row.blocks) {
      const left = x(address[index]), wide = Math.max(0.7, x(address[index] + units[index] * UNIT) - left);
      context.fillStyle = PALETTE[grouping.of[index] % PALETTE.length];
      context.globalAlpha = state.group >= 0 && state.group !== grouping.of[index] ? 0.25 : 1;
      context.fillRect(left, y + 12, wide > 3 ? wide - 0.7 : wide, tall);
      context.globalAlpha = 1;
      if (captured[index]) {
        context.fillStyle = style("--fore");
        context.fillRect(left, y + 12 + tall - 3, wide, 3);
      }
      if (block[index] === state.sought) {
        context.strokeStyle = style("--mark");
        context.lineWidth = 2;
        context.strokeRect(left, y + 12, Math.max(3, wide), tall);
        context.lineWidth = 1;
      }
      boxes.push({ left, right: left + Math.max(2, wide), top: y + 12, bottom: y + 12 + tall, index });
    }
  });
  $("moment").textContent = "Memory at " + timeText(state.cursor - first) + ": " + live.length + " live blocks";
  $("maplegend").textContent = segments.size + " segments, " + (segments.size - used.length)
    + " without memory. Grey: mapped and free. Colours: groups. A line below: allocated in a capture.";
}

function describe(index) {
  const lines = ["block " + block[index] + ", " + bytesText(Math.abs(units[index]) * UNIT) + ", "
    + hex(address[index]) + ", pool " + data.pools[pool[index]] + (captured[index] ? ", in a capture" : ""),
    "allocated at " + timeText(time[index] - first)];
  return lines.concat(data.stacks[stack[index]].frames.map((frame) => "  " + frame)).join("\n");
}

function cell(row, text, kind) {
  const made = row.insertCell();
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function writeGroups() {
  const now = sumsAt(after(state.cursor)), table = $("groups");
  $("grouptitle").textContent = "Groups at the moment, " + bytesText(now.reduce((a, b) => a + b, 0) * UNIT);
  table.replaceChildren();
  grouping.groups.forEach((one, at) => {
    const row = table.insertRow();
    row.className = "choice" + (state.group === at ? " chosen" : "");
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = PALETTE[at % PALETTE.length];
    cell(row, "").append(swatch);
    cell(row, bytesText(now[at] * UNIT), "number");
    cell(row, one.name);
    row.addEventListener("click", () => chooseGroup(at));
  });
}

function chooseGroup(at) {
  state.group = state.group === at ? -1 : at;
  const one = grouping.groups[at];
  if (state.group >= 0)
    $("chosen").textContent = grouping.by === "stacks" && one.key >= 0
      ? data.stacks[one.key].frames.join("\n") || "no stack was taken" : one.name;
  redraw();
}

function writeNotes() {
  const table = $("notes"), shown = notes.filter((note) => note.time <= state.cursor).slice(-14).reverse();
  table.replaceChildren();
  for (const note of shown) {
    const row = table.insertRow();
    cell(row, timeText(note.time - first), "number");
    cell(row, note.kind + (note.pool ? ", pool " + note.pool : ""));
    cell(row, note.text + (note.replays ? ", the last of " + note.replays : ""), "dim");
  }
}

// What was allocated in each capture.
const captureUnits = new Float64Array(data.captures.length + 1);
for (let i = 0; i < count; i++) if (units[i] > 0) captureUnits[captured[i]] += units[i];

function writeGraphs() {
  const table = $("graphs"), graphs = new Map();
  for (const note of notes) {
    if (note.time > state.cursor) break;
    if (note.kind === "graph made") graphs.set(note.graph, { pool: note.pool, capture: note.capture, replays: 0 });
    if (note.kind === "graph replayed" && graphs.has(note.graph)) graphs.get(note.graph).replays += note.replays ?? 1;
    if (note.kind === "graph destroyed") graphs.delete(note.graph);
  }
  table.replaceChildren();
  if (graphs.size > 0) {
    const row = table.insertRow();
    for (const name of ["graph", "pool", "replays", "bytes of its capture"]) {
      const head = document.createElement("th");
      head.textContent = name;
      row.append(head);
    }
  }
  for (const [graph, one] of Array.from(graphs).slice(-20)) {
    const row = table.insertRow();
    const bytes = captureUnits[data.captures.indexOf(one.capture) + 1] * UNIT;
    for (const text of [graph, one.pool, one.replays, bytesText(bytes)]) cell(row, String(text));
  }
  if (graphs.size === 0) cell(table.insertRow(), "none at the moment", "dim");
}

function redraw() {
  drawTime();
  drawMap();
  writeGroups();
  writeNotes();
  writeGraphs();
}

let waiting = false;

function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawTime(); });
}

function zoom(factor, around) {
  const least = 100, span = Math.min(Math.max((state.to - state.from) * factor, least), last - first);
  const share = (around - state.from) / (state.to - state.from);
  move(around - span * share, span);
}

function move(from, span) {
  state.from = Math.min(Math.max(from, first), last - span);
  state.to = state.from + span;
  soon();
}

function showAll() {
  state.from = first;
  state.to = last;
  soon();
}

function setCursor(when) {
  state.cursor = Math.min(Math.max(when, first), last);
  if (state.cursor < state.from || state.cursor > state.to) {
    const span = state.to - state.from;
    move(state.cursor - span / 2, span);
  }
  redraw();
}

function setBy(by) {
  state.by = by;
  state.group = -1;
  grouping = group(by);
  document.querySelectorAll("[data-by]").forEach((button) =>
    button.setAttribute("aria-pressed", String(button.dataset.by === by)));
  redraw();
}

// A block by its number, or the newest that has or had the address.
function find(text) {
  const number = Number(text), byAddress = /^0x/i.test(text);
  let found = -1;
  for (let i = 0; i < count; i++) {
    if (units[i] <= 0 || block[i] === 0) continue;
    if (byAddress ? number >= address[i] && number < address[i] + units[i] * UNIT : block[i] === number) found = i;
  }
  $("found").textContent = found < 0 ? "not found" : "block " + block[found];
  if (found < 0) return;
  state.sought = block[found];
  $("chosen").textContent = describe(found);
  setCursor(time[found]);
}

function hint(event, text) {
  const box = $("hint");
  box.style.display = text ? "block" : "none";
  box.textContent = text;
  box.style.left = Math.min(event.clientX + 14, window.innerWidth - 470) + "px";
  box.style.top = event.clientY + 14 + "px";
}

function listenTime() {
  const canvas = $("time");
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), timeOf(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, from: state.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.offsetX - drag.x) > 3) drag.moved = true;
    if (drag?.moved) {
      const span = state.to - state.from;
      move(drag.from - span * (event.offsetX - drag.x) / plotWidth(), span);
      return;
    }
    const when = timeOf(event.offsetX), now = sumsAt(after(when));
    const lines = grouping.groups.map((one, at) => [now[at], one.name]).filter(([units]) => units > 0)
      .sort((a, b) => b[0] - a[0]).map(([units, name]) => bytesText(units * UNIT) + "  " + name);
    hint(event, [timeText(when - first) + ", " + bytesText(now.reduce((a, b) => a + b, 0) * UNIT)]
      .concat(lines.slice(0, 8)).join("\n"));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) setCursor(timeOf(event.offsetX));
    drag = null;
  });
  canvas.addEventListener("pointerleave", (event) => hint(event, ""));
}

function boxAt(event) {
  for (let i = boxes.length - 1; i >= 0; i--) {
    const box = boxes[i];
    if (event.offsetX >= box.left && event.offsetX <= box.right && event.offsetY >= box.top
      && event.offsetY <= box.bottom) return box;
  }
  return null;
}

function listenMap() {
  const canvas = $("map");
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    hint(event, box ? describe(box.index) : "");
  });
  canvas.addEventListener("pointerleave", (event) => hint(event, ""));
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (!box) return;
    state.sought = block[box.index];
    $("chosen").textContent = describe(box.index);
    drawMap();
  });
}

function setDark(dark) {
  document.documentElement.classList.toggle("dark", dark);
  if (grouping) redraw();
}

function listenKeys() {
  const step = (by) => setCursor(time[Math.min(Math.max(after(state.cursor) - 1 + by, 0), count - 1)] ?? first);
  const keys = {
    "+": () => zoom(0.5, state.cursor), "=": () => zoom(0.5, state.cursor), "-": () => zoom(2, state.cursor),
    ArrowLeft: () => move(state.from - (state.to - state.from) / 10, state.to - state.from),
    ArrowRight: () => move(state.from + (state.to - state.from) / 10, state.to - state.from),
    Home: showAll, ",": () => step(-1), ".": () => step(1), k: () => setCursor(time[grouping.peakAt] ?? first),
    s: () => setBy("stacks"), p: () => setBy("pools"), l: () => setBy("labels"),
    d: () => setDark(!document.documentElement.classList.contains("dark")),
    "/": () => $("find").focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function writeHead() {
  const about = data.about;
  document.title = (about.program || "process " + about.process) + ": Tarn";
  $("title").textContent = (about.program || "program not known") + ", process " + about.process;
  $("about").textContent = "begun " + new Date(about.begun_ms).toISOString() + ", " + count + " changes of blocks, "
    + notes.length + " other events"
    + (about.notes_left_out > 0 ? "; " + about.notes_left_out + " older ones and replays are left out" : "") + (about.lost_pages > 0 ? "; " + about.lost_pages + " older pages were overwritten" : "")
    + (about.left_out > 0 ? "; " + about.left_out + " changes of short-lived blocks are left out" : "")
    + (about.merged > 0 ? "; of blocks that are gone at the end there are sums alone" : "");
  const rows = [["peak", bytesText(grouping.peak * UNIT) + " at " + timeText((time[grouping.peakAt] ?? first) - first)],
    ["live at the end", bytesText(sumsAt(count).reduce((a, b) => a + b, 0) * UNIT)],
    ["time", timeText(last - first)], ["pools", String(data.pools.length)],
    ["stacks", String(data.stacks.length)]];
  for (const [name, text] of rows) {
    const row = $("statistics").insertRow();
    cell(row, name, "dim");
    cell(row, text);
  }
}

function begin() {
  setDark(window.matchMedia("(prefers-color-scheme: dark)").matches);
  state.from = first;
  state.to = last;
  state.cursor = last;
  setBy(data.labels.length > 1 && data.stacks.length < 2 ? "labels" : data.stacks.length > 1 ? "stacks" : "pools");
  writeHead();
  listenTime();
  listenMap();
  listenKeys();
  document.querySelectorAll("[data-by]").forEach((button) =>
    button.addEventListener("click", () => setBy(button.dataset.by)));
  $("all").addEventListener("click", showAll);
  $("peak").addEventListener("click", () => setCursor(time[grouping.peakAt] ?? first));
  $("theme").addEventListener("click", () => setDark(!document.documentElement.classList.contains("dark")));
  $("find").addEventListener("change", () => find($("find").value.trim()));
  window.addEventListener("resize", redraw);
  window.tarn = { state, find, setBy, setCursor, zoom, data, drawTime, sumsAt, boxes: () => boxes,
    grouping: () => grouping };
}

begin();
