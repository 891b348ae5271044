// The page: its controls, and how it opens.

import { at, button, decimal, say, tell } from "./elements.js";
import { showOthers } from "./law_view.js";
import { state } from "./page_state.js";
import { add, columns, newAnswers, newBounds, newNumber, newRows, newUnit, showAddFields, showKeys } from "./plan_edits.js";
import { checkText, editText, exported, savePlan } from "./plan_file.js";
import { certify, changed, unproved } from "./proof.js";
import { onTake } from "./solution.js";
import { account, askPublish, publish, trial } from "./trial.js";

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
  onTake(takeEpsilon);
  at("even-shares").addEventListener("click", () => { state.changes.weights = undefined; state.changes.selection = undefined; changed(); });
  at("law-question").addEventListener("change", () => { state.question = at("law-question").value; state.answers = null; certify(); });
  for (const index of [0, 1, 2]) at(`answer-${index}`).addEventListener("change", newAnswers);
  for (const name of ["kind", "lower", "upper", "rows"]) at(`number-${name}`).addEventListener("change", newNumber);
  for (const name of ["rows", "groups"]) at(`unit-${name}`).addEventListener("change", newBounds);
  at("unit-column").addEventListener("change", () => newUnit(at("unit-column").value));
  at("unit-none").addEventListener("click", () => newUnit(""));
  at("about-rows").addEventListener("change", newRows);
  at("add-kind").addEventListener("change", showAddFields);
  at("add-by").addEventListener("change", showKeys);
  at("add-question").addEventListener("click", add);
  at("plan-text").addEventListener("input", editText);
  at("apply-plan").addEventListener("click", checkText);
  at("save-plan").addEventListener("click", savePlan);
  at("make-trial").addEventListener("click", trial);
  at("ask-publish").addEventListener("click", askPublish);
  at("confirm-publish").addEventListener("click", publish);
  at("cancel-publish").addEventListener("click", () => at("publish").close());
}

async function open() {
  state.begin = await (await fetch("start")).json();
  if (state.begin.error) throw new Error(state.begin.error);
  state.epsilons = state.begin.epsilons;
  state.deltas = state.begin.deltas;
  at("epsilon").max = state.epsilons.length - 1;
  at("delta").max = state.deltas.length - 1;
  at("version").textContent = state.begin.version;
  const { file } = state.begin;
  at("number").hidden = file !== null;
  at("saving").hidden = at("steps").hidden = file === null;
  at("save-plan").textContent = `Save to ${file}`;
  at("exports").replaceChildren(...state.begin.exports.map((name) => button(file && name === "plan.toml" ? "Save a copy" : `Save ${name}`, () => exported(name))));
  state.plan = state.shownText = state.opened = at("plan-text").value = state.begin.plan;
  showOthers();
  showAddFields();
  listen();
  if (await certify()) account();
  at("add").open = file !== null && state.view?.questions.length === 1; // a first plan
  columns();
}

open().catch((error) => say("error", error.message));
