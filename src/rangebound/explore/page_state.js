// What the page knows, and how it asks the server.

export const state = {
  plan: "", changes: {}, question: null, answers: null, view: null, trial: false,
  solution: null, solved: null, // the epsilon that meets the margins, and the plan that it is for
  begin: null, epsilons: [], deltas: [], // what the server says at the start
  waiting: null, asking: false, timer: null, // a change that is still to be sent, a quick answer on its way, the wait for a proof
  number: 0, shown: 0, // of the last change or proof that was asked for, and of the last proof that is shown
  typed: false, fault: "", // whether an epsilon is being typed, and what is wrong with the one that was
};

export async function ask(task, more = {}) {
  if (state.fault) throw new Error(state.fault);
  const body = { plan: state.plan, changes: state.changes, ...more };
  const answer = await fetch(`api/${task}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || `error ${answer.status}`);
  return found;
}
