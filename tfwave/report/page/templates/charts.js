"use strict";
// The charts of orders, step times, efficiency, and what workers do.

function drawOrder(section, { channels, tensors, steps }, table) {
  let channel = 0, number = null;
  const own = () => steps.filter((step) => step.channel === channel);
  const numbers = () => [...new Set(own().map((step) => step.number))].sort((a, b) => a - b);
  const modes = [...new Set(steps.map((step) => step.mode))];

  function told({ seriesName, value }) {
    const [place, rank] = value;
    return tip([["step of", seriesName], ["tensor", tensors[channel][rank] ?? "unknown"], ["hand-off", place + 1], ["planned rank", rank]]);
  }

  function option() {
    const all = numbers();
    if (!all.includes(number)) number = all[0];
    const now = own().filter((step) => step.number === number);
    const most = Math.max(1, ...now.flatMap((step) => step.ranks), ...now.map((step) => step.ranks.length - 1));
    const words = own().some((step) => step.inversions === null) ? "out of turn" : "inversions";
    const scatter = modes.map((mode) => ({
      type: "scatter", name: mode, symbolSize: 5, itemStyle: { color: modeColour(mode) },
      data: now.filter((step) => step.mode === mode).flatMap((step) => step.ranks.map((rank, i) => [i, rank])),
    }));
    const bars = modes.map((mode) => ({
      type: "bar", name: mode, xAxisIndex: 1, yAxisIndex: 1, itemStyle: { color: modeColour(mode) },
      data: all.map((n) => {
        const step = own().find((s) => s.mode === mode && s.number === n);
        return step ? step.inversions ?? step.broken : null;
      }),
      tooltip: { formatter: ({ name, value }) => tip([["step", name], [words, value]]) },
    }));
    return {
      legend: { top: 0, data: modes },
      tooltip: { confine: true, formatter: told },
      grid: [{ left: 60, right: 16, top: 44, height: 250 }, { left: 60, right: 16, top: 368, height: 90 }],
      xAxis: [
        { type: "value", min: 0, max: most, name: "hand-off", nameLocation: "middle", nameGap: 24 },
        { type: "category", gridIndex: 1, data: all.map(String), name: "step", nameLocation: "middle", nameGap: 24 },
      ],
      yAxis: [
        { type: "value", min: 0, max: most, name: "planned rank" },
        { type: "value", gridIndex: 1, name: words, splitNumber: 2 },
      ],
      series: [
        ...scatter, ...bars,
        { type: "line", silent: true, symbol: "none", lineStyle: { color: colour("soft"), type: "dashed", width: 1 }, data: [[0, 0], [most, most]] },
      ],
    };
  }

  const events = (chart) => chart.on("click", { seriesType: "bar" }, ({ name }) => { number = Number(name); chosen(); });
  const pick = element("span", {});
  const fillSteps = () => pick.replaceChildren(
    selection("Step", numbers().map(String), (i) => { number = numbers()[i]; chart.show(); })
  );
  const chosen = () => { pick.querySelector("select").value = numbers().indexOf(number); chart.show(); };
  const places = selection("Channel", channels, (i) => { channel = i; number = null; fillSteps(); chart.show(); });
  section.append(element("div", { class: "tools" }, places, pick));
  fillSteps();
  const chart = new Chart(section, option, { height: () => 510, events });
  addTable(section, table.columns, () => table.rows);
}

function drawTimes(section, { modes }, table) {
  const option = () => ({
    legend: { top: 0, type: "scroll" },
    grid: { left: 56, right: 20, top: 40, bottom: 46 },
    tooltip: {
      confine: true,
      formatter: ({ seriesName, value }) => tip([["steps", seriesName], ["at most", `${value[0]} ms`], ["share", `${(value[1] * 100).toFixed(0)} %`]]),
    },
    xAxis: { type: "value", scale: true, name: "step time, ms", nameLocation: "middle", nameGap: 26, axisLabel: { hideOverlap: true } },
    yAxis: { type: "value", min: 0, max: 1, axisLabel: { formatter: (share) => `${Math.round(share * 100)} %` } },
    series: modes.map(({ mode, ms }) => ({
      type: "line", step: "end", name: mode, symbolSize: 6, color: mode in MODE_COLOURS ? modeColour(mode) : undefined,
      lineStyle: { width: 2, type: mode === "unordered" ? "dashed" : "solid" },
      data: [[ms[0], 0], ...ms.map((value, i) => [value, (i + 1) / ms.length])],
    })),
  });
  new Chart(section, option, { height: () => 320 });
  addTable(section, table.columns, () => table.rows);
}

function drawEfficiency(section, { modes, line }, table) {
  const option = () => ({
    legend: { top: 0, data: modes.map(({ mode }) => mode) },
    grid: { left: 64, right: 20, top: 40, bottom: 46 },
    tooltip: { confine: true, formatter: ({ seriesName, value }) => tip([["step of", seriesName], ["E", value[0]], ["time", `${value[1]} ms`]]) },
    xAxis: { type: "value", scale: true, name: "efficiency E", nameLocation: "middle", nameGap: 26 },
    yAxis: { type: "value", scale: true, name: "step time, ms", axisLine: { onZero: false } },
    series: [
      ...modes.map(({ mode, points }) => ({
        type: "scatter", name: mode, data: points, symbol: mode === "ordered" ? "circle" : "triangle", symbolSize: 10, itemStyle: { color: modeColour(mode) },
      })),
      { type: "line", silent: true, symbol: "none", data: line, lineStyle: { color: colour("soft"), type: "dashed" } },
    ],
  });
  new Chart(section, option, { height: () => 320 });
  addTable(section, table.columns, () => table.rows);
}

function drawSplit(section, { rows, parts, overlap }, table) {
  const colours = { compute: "op", both: "after", transfer: "before", idle: "idle" };
  const words = { compute: "compute only", both: "both", transfer: "transfer only", idle: "idle" };
  const narrow = () => section.clientWidth < 640;
  const option = () => ({
    legend: { top: 0 },
    grid: { left: narrow() ? 12 : 232, right: 20, top: 44, bottom: 46 },
    tooltip: {
      confine: true,
      formatter: ({ seriesName, name, value, dataIndex }) =>
        tip([["worker", name], [seriesName, `${value} ms`], ["overlap", `${(overlap[dataIndex] * 100).toFixed(1)} %`]]),
    },
    xAxis: { type: "value", name: "ms", nameLocation: "middle", nameGap: 26 },
    yAxis: {
      type: "category", inverse: true, z: 5,
      data: rows.map((row, i) => `${row}${narrow() ? ": " : "\n"}overlap ${(overlap[i] * 100).toFixed(0)} %`),
      axisLabel: narrow()
        ? { inside: true, verticalAlign: "bottom", padding: [0, 0, 12, 0], color: colour("text") }
        : { width: 218, lineHeight: 15, overflow: "truncate", color: colour("text") },
    },
    series: Object.keys(words).map((part) => ({
      type: "bar", stack: "all", name: words[part], data: parts[part], barMaxWidth: 22, itemStyle: { color: colour(colours[part]) },
    })),
  });
  new Chart(section, option, { height: () => rows.length * 52 + 110 });
  addTable(section, table.columns, () => table.rows);
}
