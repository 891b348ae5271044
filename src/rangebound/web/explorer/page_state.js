// What the page knows, and how it asks the server.

export const state = {
  plan: "", changes: {}, question: null, answers: null, view: null, trial: false,
  solved: null, // the plan for which an epsilon that meets the margins was found
  rows: null, // about how many the table has, as somebody says
  shownText: "", edited: false, opened: "", // the plan's text with all changes, whether it is being edited, and what its file says
  begin: null, epsilons: [], deltas: [], // what the server says at the start
  waiting: null, asking: false, timer: null, // a change that is still to be sent, a quick answer on its way, the wait for a proof
  number: 0, shown: 0, // of the last change or proof that was asked for, and of the last proof that is shown
  wrong: "", // the field of the plan at fault, where the last proof was refused
  typed: false, fault: "", // whether an epsilon is being typed, and what is wrong with the one that was
};

export async function ask(task, more = {}) {
  if (state.fault) throw new Error(state.fault);
  const body = { plan: state.plan, changes: state.changes, ...more };
  const answer = await fetch(`api/${task}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error || `error ${answer.status}`), { field: found.field });
  return found;
}
