// The epsilons that meet all margins, for the plan as it is now: a small one, and one that leaves more for the others.

import { at, button, make, put, tell } from "./elements.js";
import { ask, state } from "./page_state.js";

// All that it depends on: the plan and what was changed on the page, but for epsilon itself.
function present() {
  return JSON.stringify([state.plan, { ...state.changes, epsilon: undefined }, state.rows]);
}

// Take away what was found for another plan.
export function forgetSolution() {
  if (state.solved === present()) return;
  state.solved = null;
  tell("solution", "");
  at("offers").replaceChildren();
}

let take = () => {};

// What is done with an epsilon that is taken.
export function onTake(act) {
  take = act;
}

function offer({ epsilon, words }) {
  const own = button(`Take epsilon ${epsilon}`, () => take(epsilon));
  own.dataset.epsilon = epsilon;
  return make("p", { class: "buttons" }, own, make("span", {}, words));
}

export async function solve() {
  forgetSolution();
  const own = present();
  if (state.solved === own || state.fault) return;
  state.solved = own;
  tell("solution", "Solving.");
  try {
    const found = await ask("solve", { rows: state.rows });
    if (own !== present()) return; // the plan has changed since, and is solved anew
    put(at("solution"), found.margins_alone, found.words);
    at("offers").replaceChildren(...found.offered.map(offer));
  } catch (error) {
    if (own === present()) tell("solution", error.message.startsWith("query: no question has a margin") ? "" : error.message, true);
  }
}
