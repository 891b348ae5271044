// The page: its controls, and how it opens.

import { at, button, decimal, say, tell } from "./elements.js";
import { showOthers } from "./law_view.js";
import { state } from "./page_state.js";
import { add, checkText, columns, exported, newAnswers, newBounds, newNumber, newUnit, showAddFields } from "./plan_edits.js";
import { certify, changed, unproved } from "./proof.js";
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
  at("use-solution").addEventListener("click", () => takeEpsilon(state.solution));
  at("even-shares").addEventListener("click", () => { state.changes.weights = undefined; state.changes.selection = undefined; changed(); });
  at("law-question").addEventListener("change", () => { state.question = at("law-question").value; state.answers = null; certify(); });
  for (const index of [0, 1, 2]) at(`answer-${index}`).addEventListener("change", newAnswers);
  for (const name of ["kind", "lower", "upper", "rows"]) at(`number-${name}`).addEventListener("change", newNumber);
  for (const name of ["rows", "groups"]) at(`unit-${name}`).addEventListener("change", newBounds);
  at("unit-column").addEventListener("change", newUnit);
  at("add-kind").addEventListener("change", showAddFields);
  at("add-question").addEventListener("click", add);
  at("apply-plan").addEventListener("click", checkText);
  at("make-trial").addEventListener("click", trial);
  at("ask-publish").addEventListener("click", askPublish);
  at("confirm-publish").addEventListener("click", publish);
  at("cancel-publish").addEventListener("click", () => at("publish").close());
}

async function open() {
  state.begin = await (await fetch("start")).json();
  state.epsilons = state.begin.epsilons;
  state.deltas = state.begin.deltas;
  at("epsilon").max = state.epsilons.length - 1;
  at("delta").max = state.deltas.length - 1;
  at("version").textContent = state.begin.version;
  at("number").hidden = !state.begin.one_number;
  at("exports").replaceChildren(...state.begin.exports.map((name) => button(`Save ${name}`, () => exported(name))));
  state.plan = at("plan-text").value = state.begin.plan;
  showOthers();
  showAddFields();
  listen();
  if (await certify()) account();
  columns();
}

open().catch((error) => say("error", error.message));
