// A change: a quick answer comes first and is marked; the certified one replaces it, with the epsilons that meet all
// margins: a small one, and one that leaves more for the others.

import { ask, at, make, put, say, state, tell } from "./elements.js";
import { account, forgetTrial } from "./trial.js";
import { dim, showCertified, showQuick, showText } from "./view.js";

const PAUSE = 150; // milliseconds without a change before a proof is asked for

export function changed(drag = null) {
  state.number++; // a proof that is on its way is of the state before
  forgetTrial();
  state.waiting = { drag, since: performance.now() };
  if (!state.fault) say("quick", "Being proved.");
  clearTimeout(state.timer);
  state.timer = setTimeout(proveSoon, PAUSE);
  if (!state.asking) quick();
}

function proveSoon() {
  if (state.asking) state.timer = setTimeout(proveSoon, 20); // a share that is dragged has its weights first
  else certify();
}

async function quick() {
  state.asking = true;
  while (state.waiting) {
    const { drag, since } = state.waiting, own = state.number;
    state.waiting = null;
    try {
      const found = await ask("quick", drag ? { drag } : {});
      if (drag) {
        state.changes.weights = found.changed.weights;
        state.changes.selection = found.changed.selection;
      }
      if (state.shown > own || state.fault || state.typed) continue;
      say("quick", "Quick estimate; the certified numbers follow.");
      showQuick(found);
      performance.measure("slider", { start: since, end: performance.now() });
    } catch (error) {
      unproved("error", error.message, "not proved");
    }
  }
  state.asking = false;
}

// The proof of the present state; what went wrong, if anything did.
export async function certify() {
  const own = ++state.number;
  clearTimeout(state.timer);
  forgetSolution();
  try {
    const found = await ask("certified", { question: state.question, answers: state.answers, rows: state.rows });
    if (own !== state.number) return "";
    if (found.superseded) return certify(); // two requests came in the other order, and this is the one that is wanted
    state.shown = own;
    state.view = found;
    if (found.law) state.question = found.law.query;
    showCertified(found);
    state.wrong = "";
    if (found.ready) say("certified", "Certified.");
    else say("unready", "Not ready: say below who is protected.");
    account(); // what a release would spend
    if (found.queries.some((each) => each.margin !== null)) solve();
  } catch (error) {
    if (own === state.number) {
      state.wrong = error.field ?? "";
      unproved("error", error.message, "not proved");
      solve(); // the margins may be what needs more
      ask("export", { name: "plan.toml" }).then((found) => showText(found.text), () => {}); // with all changes all the same
    }
    return error.message;
  }
  return "";
}

// The same after a change of the plan for which there is no quick answer.
export function provedAnew() {
  state.number++;
  forgetTrial();
  unproved("quick", "Being proved.", "being proved");
  return certify();
}

// Until there is a proof: all that is shown is grey, and no risk at all, which could be too small.
export function unproved(kind, words, instead) {
  say(kind, words);
  dim();
  put(at("odds"), null, "");
  put(at("advantage"), null, instead);
  tell("risk-words", "");
  at("tradeoff").replaceChildren();
  for (const each of document.querySelectorAll("#risk-numbers dd")) put(each, null, instead);
}

// All that an epsilon for the margins depends on: the plan and what was changed on the page, but for epsilon itself.
const present = () => JSON.stringify([state.plan, { ...state.changes, epsilon: undefined }, state.rows]);

// Take away what was found for another plan.
function forgetSolution() {
  if (state.solved === present()) return;
  state.solved = null;
  tell("solution", "");
  at("offers").replaceChildren();
}

async function solve() {
  forgetSolution();
  const own = present();
  if (state.solved === own || state.fault) return;
  state.solved = own;
  tell("solution", "Solving.");
  try {
    const found = await ask("solve", { rows: state.rows });
    if (own !== present()) return; // the plan has changed since, and is solved anew
    put(at("solution"), found.margins_alone, found.words);
    at("offers").replaceChildren(...found.offered.map(({ epsilon, words }) => make("p", { class: "buttons" },
      make("button", { type: "button", "data-epsilon": epsilon }, `Take epsilon ${epsilon}`), make("span", {}, words))));
  } catch (error) {
    if (own === present()) tell("solution", error.message.startsWith("query: no question has a margin") ? "" : error.message, true);
  }
}
