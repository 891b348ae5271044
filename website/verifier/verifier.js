const at = (id) => document.getElementById(id);
const LARGEST = 64_000_000; // bytes that are read
const LONGEST = 2_000_000; // bytes of a certificate: the kinds that are proved here have at most half as many
const PATIENCE = 120_000; // milliseconds that a proof may take
let worker, script, parts, timer;
let attached = null; // a published file that is more than a number

const decoded = (text) => Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

async function unpacked(name) {
  const packed = new Blob([decoded(at(name).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  at(name).remove();
  return new Response(packed).arrayBuffer();
}

function say(words, state) {
  at("status").textContent = words;
  if (state) document.body.dataset.state = state;
  at("verify").disabled = document.body.dataset.state !== "ready";
}

function begin() {
  worker = new Worker(script);
  worker.onerror = (event) => say(`Python cannot be started here: ${event.message ?? "the browser is too old"}`, "broken");
  worker.onmessage = ({ data }) => {
    clearTimeout(timer);
    if (data.ready) say("Ready. Nothing that you give leaves this page.", "ready");
    else if (data.fault) {
      if (document.body.dataset.state === "loading") return say(`Python cannot be started here: ${data.fault}`, "broken");
      again(`Something failed that should not: ${data.fault}.`);
    } else show(data.answer);
  };
  worker.postMessage({ parts });
}

async function load() {
  script = URL.createObjectURL(new Blob([await unpacked("worker.js")], { type: "text/javascript" }));
  parts = {};
  for (const name of ["pyodide.asm.wasm", "python_stdlib.zip", "packages.zip"]) parts[name] = await unpacked(name);
  begin();
}

function verify() {
  const typed = at("published").value.trim();
  const published = typed ? new TextEncoder().encode(typed) : attached;
  say("Proving it again.", "working");
  at("result").hidden = true;
  timer = setTimeout(() => again(`Given up after ${PATIENCE / 1000} seconds.`), PATIENCE);
  worker.postMessage({ certificate: at("certificate").value, published });
}

function again(why) {
  worker.terminate();
  show({ verdict: "open", title: "Not checked", words: [`${why} Nothing was proved or refuted.`] });
  say("Loading Python again.", "loading");
  begin();
}

function show({ verdict, title, words, facts = [], picture, seconds }) {
  at("title").textContent = title;
  at("words").replaceChildren(...words.map((text) => element("p", text)));
  at("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  at("figure").hidden = !picture;
  if (picture) draw(picture);
  at("result").dataset.verdict = verdict;
  at("result").hidden = false;
  say(seconds === undefined ? "Ready." : `Checked in ${seconds.toFixed(2)} seconds.`, "ready");
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const short = (x) => String(Number(x.toPrecision(5)));

function ticks(start, end) {
  const rough = (end - start) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let k = Math.ceil(start / step); k * step <= end; k++) found.push(k * step);
  return found;
}

function draw({ start, end, laws, published }) {
  const wide = Math.min(at("giving").clientWidth, 820) < 500 ? 400 : 720, high = 260, foot = 28, top = 30, side = 14;
  const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img" });
  const x = (value) => side + ((value - start) / (end - start)) * (wide - 2 * side);
  const heights = laws.flatMap((law) => [...law.curves.flat(), ...(law.bars ?? [])].map((point) => point[1]));
  const most = Math.max(...heights, 1e-300), floor = high - foot;
  const y = (value) => floor - (value / most) * (floor - top);
  svg.append(drawn("line", { class: "axis", x1: side, x2: wide - side, y1: floor, y2: floor }));
  for (const tick of ticks(start, end)) svg.append(drawn("text", { x: x(tick), y: high - 9, "text-anchor": "middle" }, short(tick)));
  const spoken = [];
  laws.forEach((law, i) => {
    const kind = i ? "second" : "first";
    const line = (points) => svg.append(drawn("path", { class: `law ${kind}`, d: `M${points.map(([a, b]) => `${x(a).toFixed(2)} ${y(b).toFixed(2)}`).join("L")}` }));
    law.curves.forEach(line);
    for (const [place, mass] of law.bars ?? []) line([[place, 0], [place, mass]]);
    for (const [place, mass] of law.spikes ?? []) {
      const aside = (i * 5 * (end - start)) / wide; // so that none hides the other
      line([[place, 0], [place, mass * most]].map(([a, b]) => [a + (place > start ? -aside : aside), b]));
      spoken.push(`${Number((100 * mass).toPrecision(3))} % fall exactly on ${short(place)} if the true answer is ${short(law.answer)}`);
    }
    svg.append(drawn("text", { class: kind, x: wide - side, y: 12 + 15 * i, "text-anchor": "end" }, `${i ? "- - -" : "——"} true answer ${short(law.answer)}`));
  });
  if (published !== null) {
    svg.append(drawn("line", { class: "published", x1: x(published), x2: x(published), y1: top, y2: floor }));
    svg.append(drawn("text", { class: "published", x: x(published), y: top - 4, "text-anchor": "middle" }, "published"));
  }
  const what = `How likely each number is to be published, if the true answer is ${short(laws[0].answer)} and if it is ${short(laws[1].answer)}`;
  svg.setAttribute("aria-label", what);
  at("picture").replaceChildren(svg);
  at("caption").textContent = `${what}. The claim bounds how far the two can differ.${spoken.length ? ` ${spoken.join("; ")}.` : ""}`;
}

async function take(files) {
  const read = await Promise.all(
    [...files].map(async (file) => (file.size > LARGEST ? { file } : { file, bytes: new Uint8Array(await file.arrayBuffer()) })),
  );
  attached = null;
  at("published").value = "";
  for (const { file, bytes } of read) {
    if (!bytes) return show({ verdict: "refused", title: "Refused", words: [`${file.name}: is larger than ${LARGEST / 1e6} MB, and is not checked.`] });
    const text = new TextDecoder().decode(bytes);
    const stated = /"format"\s*:\s*"rangebound [^"]*(certificate|limit)/.test(text);
    if ((stated || read.length === 1) && bytes.length > LONGEST)
      return show({ verdict: "open", title: "Not checked here", words: [`${file.name}: is a certificate of more than ${LONGEST / 1e6} MB. Nothing was proved or refuted.`] });
    if (stated) at("certificate").value = text;
    else if (text.trim().length <= 40) at("published").value = text.trim();
    else if (read.length === 1) at("certificate").value = text;
    else attached = bytes;
    if (attached === bytes) at("attached").textContent = `Published file: ${file.name}`;
  }
  at("attached").hidden = attached === null;
  if (document.body.dataset.state === "ready" && at("certificate").value) verify();
}

at("verify").onclick = verify;
at("files").onchange = (event) => take(event.target.files);
for (const each of document.querySelectorAll("[data-sample]"))
  each.onclick = () => {
    at("certificate").value = at(each.dataset.sample).textContent;
    at("published").value = "";
    attached = null;
    at("attached").hidden = true;
    if (document.body.dataset.state === "ready") verify();
  };
addEventListener("dragover", (event) => {
  event.preventDefault();
  at("drop").classList.add("over");
});
addEventListener("dragleave", () => at("drop").classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").classList.remove("over");
  take(event.dataTransfer.files);
});
load().catch((error) => say(`Python cannot be started here: ${error.message}`, "broken"));
