"use strict";
// Draws each section that the page has.

const drawTable = (section, _, table) => { addTable(section, table.columns, () => table.rows).open = true; };

const DRAW = {
  timeline: drawTimeline,
  order: drawOrder,
  times: drawTimes,
  efficiency: drawEfficiency,
  split: drawSplit,
  memory: drawMemory,
  plan: drawTable,
  reduces: drawTable,
  ticks: drawTable,
};

for (const [name, { chart, table }] of Object.entries(facts)) DRAW[name](document.getElementById(name), chart, table);
dark.addEventListener("change", () => drawn.forEach((chart) => chart.restart()));
