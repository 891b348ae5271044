// The account, made-up rows, the real ones.

import { ask, at, button, save, state } from "./elements.js";
import { showTable } from "./view.js";

export async function account() {
  const found = await ask("account").catch((error) => ({ reason: error.message }));
  at("ask-publish").hidden = Boolean(found.reason);
  at("no-account").textContent = found.reason ?? `Account ${found.account} has ${found.left} left. Publishing the real table would read ${found.source} and spend ${found.cost}.`;
  return found;
}

// Made-up rows are of the plan for which they were made; those of another one are taken away.
export function forgetTrial() {
  if (!state.trial) return;
  state.trial = false;
  at("trial-table").replaceChildren();
  at("trial-words").textContent = "The plan has changed since rows were made up; publish made-up rows again to see it.";
}

export async function trial() {
  const own = JSON.stringify([state.plan, state.changes]);
  at("trial-words").textContent = "Making rows up.";
  try {
    const found = await ask("trial");
    state.trial = true;
    if (own !== JSON.stringify([state.plan, state.changes])) return forgetTrial();
    showTable(found);
    at("trial-words").textContent = "Made-up rows: noise, intervals and cost are as they would be; the answers are not. Nothing was charged.";
  } catch (error) {
    at("trial-words").textContent = error.message;
  }
}

export async function askPublish() {
  const found = await account();
  if (found.reason) return;
  at("publish-words").textContent = `This reads ${found.source} and charges account ${found.account}, which has ${found.left} left. The charge is ${found.cost}, and cannot be taken back.`;
  at("confirm-publish").dataset.cost = found.cost;
  at("publish").showModal();
}

export async function publish() {
  const request = at("publish-request").value.trim();
  if (!request) return at("publish-request").focus();
  at("publish").close();
  at("trial-words").textContent = "Charging, reading, drawing.";
  try {
    const found = await ask("publish", { request, confirmed: at("confirm-publish").dataset.cost });
    state.trial = false;
    showTable(found);
    at("trial-words").textContent = `The real table, charged to the ledger as ${request}; the account has ${found.left} left. Keep its files: `;
    for (const [name, text] of Object.entries(found.files)) at("trial-words").append(button(name, () => save(name, text)), " ");
    account();
  } catch (error) {
    at("trial-words").textContent = `Not published: ${error.message}`;
  }
}
