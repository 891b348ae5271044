// What all scripts of the page share: its elements, what it knows, and how it asks the server.

export const at = (id) => document.getElementById(id);

export function say(kind, words) {
  document.body.dataset.state = kind;
  at("status").textContent = words;
}

export function tell(id, words, wrong = false) {
  at(id).textContent = words;
  at(id).classList.toggle("fault", wrong);
}

// A comma is refused: it is a point to some and nothing to others.
export function decimal(field) {
  const text = field.value.trim();
  if (text === "") return null;
  if (text.includes(",")) throw new Error(`“${text}” has a comma: write a point, as in 1.5, and no signs between thousands.`);
  if (!Number.isFinite(Number(text))) throw new Error(`“${text}” is not a number.`);
  return Number(text);
}

export function make(tag, attributes = {}, ...inside) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") found.className = value;
    else if (name.startsWith("data-") || name.startsWith("aria-") || name === "scope" || name === "colspan") found.setAttribute(name, value);
    else found[name] = value;
  }
  found.append(...inside);
  return found;
}

export function put(target, value, text) {
  if (value === null || value === undefined) delete target.dataset.value;
  else target.dataset.value = value;
  target.textContent = text;
}

export const button = (words, act) => make("button", { type: "button", onclick: act }, words);

export function save(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

export const state = {
  plan: "", changes: {}, question: null, answers: null, view: null, trial: false,
  solved: null, // the plan for which an epsilon that meets the margins was found
  rows: null, // about how many the table has, as somebody says
  shownText: "", edited: false, opened: "", // the plan's text with all changes, whether it is being edited, and what its file says
  begin: null, epsilons: [], deltas: [], // what the server says at the start
  waiting: null, asking: false, timer: null, // a change that is still to be sent, a quick answer on its way, the wait for a proof
  number: 0, shown: 0, // of the last change or proof that was asked for, and of the last proof that is shown
  wrong: "", // the field of the plan at fault, where the last proof was refused
  typed: false, fault: "", // whether an epsilon is being typed, and what is wrong with the one that was
};

export async function ask(task, more = {}) {
  if (state.fault) throw new Error(state.fault);
  const body = { plan: state.plan, changes: state.changes, ...more };
  const answer = await fetch(`api/${task}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error || `error ${answer.status}`), { field: found.field });
  return found;
}
