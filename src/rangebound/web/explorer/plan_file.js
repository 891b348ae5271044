// The text of the plan, its file, and copies of it.

import { at, save, tell } from "./elements.js";
import { ask, state } from "./page_state.js";
import { newPlan } from "./plan_edits.js";
import { unproved } from "./proof.js";

const UNSAVED = "Not saved yet.";

// Show the text with all changes, unless somebody is editing it; and whether its file says the same.
export function showText(text) {
  if (!state.edited) state.shownText = at("plan-text").value = text;
  if (text !== state.opened) tell("save-words", UNSAVED);
  else if (at("save-words").textContent === UNSAVED) tell("save-words", "");
}

// The same where the plan is refused as it is now.
export async function showNewText() {
  const found = await ask("export", { name: "plan.toml" }).catch(() => null);
  if (found) showText(found.text);
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
