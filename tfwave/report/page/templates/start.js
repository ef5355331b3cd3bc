"use strict";
// Draws each section that the page has.

const DRAW = {
  timeline: drawTimeline,
  order: drawOrder,
  times: drawTimes,
  efficiency: drawEfficiency,
  split: drawSplit,
  memory: drawMemory,
  plan: (section, _, table) => { addTable(section, table.columns, () => table.rows).open = true; },
};

for (const [name, { chart, table }] of Object.entries(facts)) DRAW[name](document.getElementById(name), chart, table);
dark.addEventListener("change", () => drawn.forEach((chart) => chart.restart()));
