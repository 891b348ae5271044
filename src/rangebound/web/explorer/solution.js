// The epsilons that meet all margins, for the plan as it is now: a small one, and one that leaves more for the others.

import { at, make, put, tell } from "./elements.js";
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

function offer({ epsilon, words }) {
  const take = make("button", { type: "button", "data-epsilon": epsilon }, `Take epsilon ${epsilon}`);
  return make("p", { class: "buttons" }, take, make("span", {}, words));
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
