// The elements of the page: find, make and fill them, read numbers, save files.

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

export function button(words, act) {
  const found = make("button", { type: "button" }, words);
  found.addEventListener("click", act);
  return found;
}

export function save(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
