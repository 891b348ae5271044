// The epsilon that meets all margins, for the plan as it is now.

import { at, put, tell } from "./elements.js";
import { ask, state } from "./page_state.js";

// All that it depends on: the plan and what was changed on the page, but for epsilon itself.
function present() {
  return JSON.stringify([state.plan, { ...state.changes, epsilon: undefined }]);
}

// Take away what was found for another plan.
export function forgetSolution() {
  if (state.solved === present()) return;
  state.solved = state.solution = null;
  put(at("solution"), null, "");
  at("use-solution").hidden = true;
}

export async function solve() {
  forgetSolution();
  const own = present();
  if (state.solved === own || state.fault) return;
  state.solved = own;
  tell("solution", "Solving.");
  try {
    const found = await ask("solve");
    if (own !== present()) return; // the plan has changed since, and is solved anew
    state.solution = found.epsilon;
    put(at("solution"), found.epsilon, found.words);
    at("use-solution").textContent = `Take epsilon ${found.epsilon}`;
    at("use-solution").hidden = false;
  } catch (error) {
    if (own === present()) tell("solution", error.message.startsWith("query: no question has a margin") ? "" : error.message, true);
  }
}
