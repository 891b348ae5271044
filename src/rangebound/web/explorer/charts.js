// Small charts in SVG. Each takes numbers that the server has computed, and places them; nothing is computed here
// but positions on the paper.

const SPACE = "http://www.w3.org/2000/svg";

export function short(x) {
  if (x === null || x === undefined) return "";
  if (typeof x === "string") return x.replace("inf", "∞");
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return Number(x.toPrecision(3)).toExponential().replace("e+", "e");
  return String(Number(x.toPrecision(4)));
}

export const percent = (part) => `${Number((100 * part).toFixed(1))} %`;

function node(name, attributes, parent, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function steps(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

// The law of one cell: a curve or bars, spikes with their probability, the band of 95 of 100, truth and mean. All
// heights are probabilities on one scale; those of a curve are of a strip as wide as a spike is drawn.
export function lawChart(cell, words) {
  const width = 340, height = 190, left = 12, right = 12, top = 22, bottom = 26;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  let [low, high] = cell.window;
  low = Math.min(low, cell.answer); high = Math.max(high, cell.answer);
  if (high <= low) { low -= 1; high += 1; }
  const pad = 0.04 * (high - low);
  const x = (value) => left + ((value - low + pad) / (high - low + 2 * pad)) * (width - left - right);
  const floor = height - bottom;
  const y = (mass) => floor - (mass / cell.tallest) * (floor - top);
  const strip = Math.max(x(low + cell.strip) - x(low), 1);
  node("rect", { class: "band", x: x(cell.common[0]) - 2, width: Math.max(x(cell.common[1]) - x(cell.common[0]), 0) + 4, y: top, height: floor - top }, svg);
  const gap = cell.bars.length > 1 ? x(cell.bars[1][0]) - x(cell.bars[0][0]) : 20;
  const thick = cell.curve.length > 1 ? strip : Math.max(Math.min(gap * 0.8, 30), 1);
  if (cell.bars.length) {
    for (const [place, mass] of cell.bars) node("rect", { class: "bar", x: x(place) - thick / 2, width: thick, y: y(mass), height: floor - y(mass), "data-mass": mass }, svg);
  } else if (cell.curve.length > 1) {
    const line = cell.curve.map(([place, density]) => `${x(place).toFixed(1)},${y(density * cell.strip).toFixed(1)}`);
    node("polygon", { class: "area", points: [`${x(cell.curve[0][0])},${floor}`, ...line, `${x(cell.curve.at(-1)[0])},${floor}`].join(" ") }, svg);
    node("polyline", { class: "curve", points: line.join(" ") }, svg);
  }
  for (const [place, mass] of cell.spikes) {
    if (mass < 0.0005) continue;
    node("rect", { class: "spike", x: x(place) - thick / 2, width: thick, y: y(mass), height: floor - y(mass), "data-mass": mass }, svg);
    const anchor = x(place) < width / 2 ? "start" : "end";
    node("text", { class: "spike-words", x: x(place), y: 14, "text-anchor": anchor }, svg, `${short(100 * mass)} % at ${short(place)}`);
  }
  node("line", { class: "truth", x1: x(cell.answer), x2: x(cell.answer), y1: top, y2: floor }, svg);
  const mean = x(cell.mean);
  node("polygon", { class: "mean", points: `${mean},${floor - 1} ${mean - 5},${floor + 8} ${mean + 5},${floor + 8}` }, svg);
  node("line", { class: "axis", x1: left, x2: width - right, y1: floor, y2: floor }, svg);
  for (const each of steps(low, high, 4)) node("text", { x: x(each), y: height - 5, "text-anchor": "middle" }, svg, short(each));
  return svg;
}

// The trade-off curve: false alarms across, misses up; the diagonal is a coin.
export function tradeoffChart(points, words) {
  const width = 400, height = 300, left = 60, right = 24, top = 12, bottom = 44;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  const x = (value) => left + value * (width - left - right);
  const y = (value) => height - bottom - value * (height - top - bottom);
  for (const each of [0, 0.25, 0.5, 0.75, 1]) {
    node("line", { class: "grid", x1: x(0), x2: x(1), y1: y(each), y2: y(each) }, svg);
    node("text", { x: left - 6, y: y(each) + 4, "text-anchor": "end" }, svg, `${100 * each} %`);
    node("text", { x: x(each), y: height - bottom + 16, "text-anchor": "middle" }, svg, `${100 * each} %`);
  }
  node("line", { class: "chance", x1: x(0), x2: x(1), y1: y(1), y2: y(0) }, svg);
  node("text", { x: x(0.63), y: y(0.44), "text-anchor": "start" }, svg, "guessing by a coin");
  node("polyline", { class: "curve", points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }, svg);
  node("text", { x: x(0.5), y: height - 8, "text-anchor": "middle" }, svg, "false alarms");
  node("text", { x: 12, y: y(0.5), "text-anchor": "middle", transform: `rotate(-90 12 ${y(0.5)})` }, svg, "misses, at least");
  return svg;
}

// The budget as one bar, a part for each question.
export function shareBar(parts, words) {
  const width = 1000, height = 40;
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  const total = Math.max(parts.reduce((sum, each) => sum + each.share, 0), 1);
  let at = 0;
  parts.forEach((each, index) => {
    const wide = (each.share / total) * width;
    node("rect", { class: `part p${index % 6}`, x: at, y: 4, width: wide, height: 30 }, svg);
    node("title", {}, svg.lastChild, `${each.query}: ${percent(each.share)}`);
    if (wide > 7 * each.query.length + 16) node("text", { class: "part-words", x: at + 8, y: 24 }, svg, each.query);
    at += wide;
  });
  return svg;
}

// Published epsilons on a logarithmic line, and the one of this plan.
export function epsilonChart(deployments, epsilon, words) {
  const width = 1000, height = 120, left = 20, right = 20, low = Math.log10(0.01), high = Math.log10(100);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  const x = (value) => left + ((Math.log10(value) - low) / (high - low)) * (width - left - right);
  const floor = height - 24;
  node("line", { class: "axis", x1: left, x2: width - right, y1: floor, y2: floor }, svg);
  for (const each of [0.01, 0.1, 1, 10, 100]) {
    node("line", { class: "axis", x1: x(each), x2: x(each), y1: floor, y2: floor + 5 }, svg);
    node("text", { x: x(each), y: floor + 18, "text-anchor": "middle" }, svg, short(each));
  }
  deployments.forEach((each, index) => {
    const spot = x(each.epsilon), up = floor - 12 - 16 * (index % 4);
    node("line", { class: "grid", x1: spot, x2: spot, y1: up, y2: floor }, svg);
    node("circle", { class: "dot", cx: spot, cy: up, r: 4 }, svg);
    node("text", { x: spot + 7, y: up + 4 }, svg, each.who);
  });
  const own = x(Math.min(Math.max(epsilon, 0.01), 100));
  node("line", { class: "ours", x1: own, x2: own, y1: 16, y2: floor }, svg);
  const anchor = own > width - 120 ? "end" : "start";
  node("text", { class: "ours-words", x: own + (anchor === "end" ? -6 : 6), y: 14, "text-anchor": anchor }, svg, `this plan: ${short(epsilon)}`);
  return svg;
}
