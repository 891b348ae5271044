// The plan of the page: its text, another one in its place, its file, and copies of it.

import { at, make, save, tell } from "./elements.js";
import { ask, state } from "./page_state.js";
import { provedAnew, unproved } from "./proof.js";
import { account } from "./trial.js";

// Show another plan; what is wrong with it is said at `place`, beside what was pressed.
export async function newPlan(text, place) {
  state.plan = state.shownText = at("plan-text").value = text;
  state.edited = false;
  state.answers = state.question = null;
  const wrong = await provedAnew();
  if (wrong) {
    tell(place, wrong, true);
    account();
  }
  columns();
}

export async function columns() {
  const found = await ask("columns").catch(() => ({ columns: [] }));
  at("column-names").replaceChildren(...found.columns.map((each) => make("option", { value: each })));
}

export function editText() {
  state.edited = at("plan-text").value !== state.shownText;
  tell("plan-words", state.edited ? "Edited: press Check and show." : "");
}

// Take the text as it was edited: where it differs from what was shown, it wins; what was moved since is kept.
export async function checkText() {
  try {
    const found = await ask("kept", { before: state.shownText, plan: at("plan-text").value });
    state.changes = found.changes;
    tell("plan-words", found.words);
    await newPlan(found.plan, "plan-words");
    return true;
  } catch (error) {
    tell("plan-words", error.message, true);
    unproved("error", error.message, "not proved");
    return false;
  }
}

// Before the plan is changed or saved elsewhere, an edited text is checked, so that nothing of it is lost.
export async function settleText() {
  if (state.edited && !(await checkText())) throw new Error("The text of the plan was edited and is not valid; mend it first.");
}

export async function savePlan() {
  try {
    await settleText();
    tell("save-words", "Saving.");
    const found = await ask("save", { opened: state.opened });
    state.opened = found.text;
    tell("save-words", `Saved to ${state.begin.file}. ${found.words}`, !found.ready);
  } catch (error) {
    tell("save-words", `Not saved: ${error.message}`, true);
  }
}

export async function exported(name) {
  try {
    await settleText();
    const found = await ask("export", { name });
    save(found.name, found.text);
    tell("plan-words", `${found.name} is where your browser puts downloads.`);
  } catch (error) {
    tell("plan-words", error.message, true);
  }
}
