// The page: its controls, and how it opens.

import { at, button, decimal, make, say, state, tell } from "./elements.js";
import * as edits from "./plan_edits.js";
import { certify, changed, unproved } from "./proof.js";
import { account, askPublish, publish, trial } from "./trial.js";
import { showOthers } from "./view.js";

function takeEpsilon(value) {
  state.typed = false;
  state.fault = "";
  tell("epsilon-words", "");
  at("epsilon-exact").removeAttribute("aria-invalid");
  state.changes.epsilon = value;
  changed();
}

function beginEpsilon() {
  state.typed = true;
  state.number++; // a proof that is on its way is of the epsilon before
  state.waiting = null;
  clearTimeout(state.timer);
  say("quick", "Press Enter to take the epsilon that you type.");
}

function endEpsilon() {
  if (!state.typed) return;
  let words = "Epsilon must be above 0 and at most 100.";
  try {
    const value = decimal(at("epsilon-exact"));
    if (value !== null && value > 0 && value <= 100) return takeEpsilon(value);
  } catch (error) {
    words = error.message;
  }
  state.fault = words;
  tell("epsilon-words", words, true);
  at("epsilon-exact").setAttribute("aria-invalid", "true");
  unproved("error", "Not certified: there is no valid epsilon.", "not proved");
}

function listen() {
  // The rows of the table of questions come and go, so the table listens for them.
  const onRow = (type, selector, act) => at("question-table").addEventListener(type, ({ target }) => {
    if (target.matches(selector)) act(target, target.closest("tr"));
  });
  onRow("input", "td.share input", (slider, row) => changed({ query: row.dataset.query, share: Number(slider.value) / 100 }));
  onRow("change", "td.margin input", (field, row) => edits.wanted(row.dataset.query, field));
  onRow("change", "[data-bound]", (_, row) => edits.ownBounds(row));
  onRow("click", "th button", (_, row) => edits.remove(row.dataset.query));
  at("epsilon").addEventListener("input", () => {
    at("epsilon-exact").value = state.epsilons[Number(at("epsilon").value)];
    takeEpsilon(state.epsilons[Number(at("epsilon").value)]);
  });
  at("epsilon-exact").addEventListener("input", beginEpsilon);
  for (const end of ["change", "blur"]) at("epsilon-exact").addEventListener(end, endEpsilon);
  at("delta").addEventListener("input", () => {
    state.changes.delta = state.deltas[Number(at("delta").value)];
    changed();
  });
  at("offers").addEventListener("click", (event) => { if (event.target.matches("button")) takeEpsilon(Number(event.target.dataset.epsilon)); });
  at("even-shares").addEventListener("click", () => { state.changes.weights = undefined; state.changes.selection = undefined; changed(); });
  at("law-question").addEventListener("change", () => { state.question = at("law-question").value; state.answers = null; certify(); });
  for (const index of [0, 1, 2]) at(`answer-${index}`).addEventListener("change", edits.newAnswers);
  for (const name of ["kind", "lower", "upper", "rows"]) at(`number-${name}`).addEventListener("change", edits.newNumber);
  for (const name of ["rows", "groups"]) at(`unit-${name}`).addEventListener("change", edits.newBounds);
  at("unit-column").addEventListener("change", () => edits.newUnit(at("unit-column").value));
  at("unit-none").addEventListener("click", () => edits.newUnit(""));
  at("about-rows").addEventListener("change", edits.newRows);
  at("add-kind").addEventListener("change", edits.showAddFields);
  at("add-by").addEventListener("input", edits.showKeys);
  at("add-question").addEventListener("click", edits.add);
  at("plan-text").addEventListener("input", edits.editText);
  at("apply-plan").addEventListener("click", edits.checkText);
  at("save-plan").addEventListener("click", edits.savePlan);
  at("make-trial").addEventListener("click", trial);
  at("ask-publish").addEventListener("click", askPublish);
  at("confirm-publish").addEventListener("click", publish);
  at("cancel-publish").addEventListener("click", () => at("publish").close());
}

async function open() {
  state.begin = await (await fetch("start")).json();
  if (state.begin.error) throw new Error(state.begin.error);
  Object.assign(state, { epsilons: state.begin.epsilons, deltas: state.begin.deltas });
  at("epsilon").max = state.epsilons.length - 1;
  at("delta").max = state.deltas.length - 1;
  at("version").textContent = state.begin.version;
  const { file } = state.begin;
  at("number").hidden = file !== null;
  at("saving").hidden = at("steps").hidden = file === null;
  at("save-plan").textContent = `Save to ${file}`;
  at("exports").replaceChildren(...state.begin.exports.map((name) => button(file && name === "plan.toml" ? "Save a copy" : `Save ${name}`, () => edits.exported(name))));
  state.plan = state.shownText = state.opened = at("plan-text").value = state.begin.plan;
  showOthers();
  const offered = [...at("add-kind").options].map((each) => each.value);
  at("add-kind").append(...Object.keys(state.begin.kinds).filter((each) => !offered.includes(each)).map((each) => make("option", { value: each }, each)));
  edits.showAddFields();
  listen();
  if (await certify()) account();
  at("add").open = file !== null && state.view?.questions.length === 1; // a first plan
  edits.columns();
}

open().catch((error) => say("error", error.message));
