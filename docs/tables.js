// The name of its column at every cell of a table, for small screens, which show a row in lines (style.css).
function named() {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = [...table.querySelectorAll("thead th")].map((each) => each.textContent);
    for (const row of table.querySelectorAll("tbody tr")) [...row.children].forEach((cell, at) => { cell.dataset.name = names[at] ?? ""; });
  }
}
if (window.document$) window.document$.subscribe(named); else named();
