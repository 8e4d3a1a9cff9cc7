// Two conveniences; without them the page says the same: tables sort by a click on a heading, and what a
// plot says of a point appears at once instead of as the browser's own slow title.
"use strict";

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") !== "descending";
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const of = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const numbers = heading.dataset.kind === "number";
    const order = (a, b) => (numbers ? of(a) - of(b) : of(a).localeCompare(of(b)));
    body.append(...[...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
  });
}

const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
for (const title of document.querySelectorAll("g.at > title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
for (const title of document.querySelectorAll("svg > title")) title.remove(); // aria-label has it
const show = (event) => {
  const said = event.target.closest?.("g.at")?.dataset.tip;
  tip.hidden = !said;
  if (!said) return;
  tip.textContent = said;
  const left = event.clientX + 14;
  const over = left + tip.offsetWidth > innerWidth - 8;
  tip.style.left = Math.max(8, over ? event.clientX - 14 - tip.offsetWidth : left) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
