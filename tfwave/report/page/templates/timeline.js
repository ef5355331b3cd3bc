"use strict";
// One step before and after on one axis of time: lanes of servers, links and workers.

function drawTimeline(section, { modes, lanes, names, bars }) {
  const [LANE, ROW, BEGIN, LENGTH, NAME, BYTES, RANK, WAIT] = [0, 1, 2, 3, 4, 5, 6, 7];
  const highest = lanes.map(() => 0);
  for (const bar of bars) if (bar[RANK] !== null) highest[bar[LANE]] = Math.max(highest[bar[LANE]], bar[RANK]);
  const end = Math.max(...bars.map((bar) => bar[BEGIN] + bar[LENGTH]));
  let mode = "both", query = "";

  const seen = () => lanes.map((lane, i) => i).filter((i) => mode === "both" || lanes[i].mode === mode);

  function fill(bar) {
    if (lanes[bar[LANE]].kind !== "link") return colour("op");
    if (bar[RANK] === null) return colour("plain");
    const share = bar[RANK] / Math.max(1, highest[bar[LANE]]);
    return `hsl(${214 + 40 * share}, 75%, ${76 - 42 * share}%)`;
  }

  function told(bar) {
    const lane = lanes[bar[LANE]];
    const pairs = [[lane.kind === "link" ? "tensor" : "op", names[bar[NAME]]], ["lane", `${lane.mode}, ${lane.name}`]];
    pairs.push(["from", msText(bar[BEGIN])], ["for", msText(bar[LENGTH])]);
    if (lane.kind === "link") {
      pairs.push(["bytes", sizeText(bar[BYTES])], ["rank", bar[RANK] ?? "not ordered"]);
      pairs.push(["waited", bar[WAIT] === null ? "not traced" : msText(bar[WAIT])]);
    }
    return tip(pairs);
  }

  function option() {
    const shown = seen();
    const place = new Map(shown.map((lane, i) => [lane, i]));
    const own = bars.filter((bar) => place.has(bar[LANE]));
    const narrow = section.clientWidth < 640;
    const fills = own.map(fill);
    const found = own.map((bar) => !query || names[bar[NAME]].toLowerCase().includes(query));
    return {
      grid: { left: narrow ? 8 : 232, right: 14, top: 8, bottom: 66 },
      tooltip: { confine: true, formatter: ({ dataIndex }) => told(own[dataIndex]) },
      xAxis: {
        type: "value", min: 0, max: end, name: "ms", nameLocation: "middle", nameGap: 22,
        axisLabel: { formatter: (micros) => (micros / 1000).toFixed(end < 1e4 ? 2 : end < 1e6 ? 1 : 0), hideOverlap: true },
      },
      yAxis: {
        type: "category", inverse: true, data: shown.map((i) => `${lanes[i].mode}${narrow ? ": " : "\n"}${lanes[i].name}`),
        axisLabel: narrow
          ? { inside: true, verticalAlign: "bottom", padding: [0, 0, 8, 0], color: colour("text") }
          : { width: 218, lineHeight: 15, overflow: "truncate", color: colour("text") },
        axisTick: { show: false }, splitLine: { show: true }, z: narrow ? 5 : 0,
      },
      dataZoom: zoomOption(),
      series: [{
        type: "custom", clip: true, progressive: 0,
        encode: { x: [0, 1], y: 2 },
        data: own.map((bar) => [bar[BEGIN], bar[BEGIN] + bar[LENGTH], place.get(bar[LANE])]),
        renderItem: (params, api) => {
          const bar = own[params.dataIndex], rows = Math.min(lanes[bar[LANE]].rows, 8);
          const [x, middle] = api.coord([api.value(0), api.value(2)]);
          const [right] = api.coord([api.value(1), api.value(2)]);
          const lane = api.size([0, 1])[1], high = lane * (narrow ? 0.56 : 0.84), each = high / rows;
          const top = middle + (narrow ? lane / 2 - high - 3 : -high / 2) + (bar[ROW] % rows) * each;
          const area = params.coordSys;
          const shape = echarts.graphic.clipRectByRect(
            { x, y: top, width: Math.max(right - x, 0.7), height: Math.max(each - 0.5, 1) }, area
          );
          const style = { fill: fills[params.dataIndex], opacity: found[params.dataIndex] ? 1 : 0.12 };
          return shape && { type: "rect", shape, style };
        },
      }],
    };
  }

  const buttons = modes.length > 1
    ? [choice("which step", ["both", ...modes], "both", (name) => { mode = name; chart.show(); })]
    : [];
  const search = element("input", { type: "search", placeholder: "part of a name" });
  const count = element("span", { class: "count", role: "status" });
  search.addEventListener("input", () => {
    query = search.value.toLowerCase();
    const found = bars.filter((bar) => names[bar[NAME]].toLowerCase().includes(query)).length;
    count.textContent = query ? `${found} bars` : "";
    chart.show();
  });
  section.append(element("div", { class: "tools" }, ...buttons, element("label", {}, "Find", search), count));
  const height = () => seen().length * (section.clientWidth < 640 ? 52 : 42) + 90;
  const chart = new Chart(section, option, { height, zooms: true });
  if (lanes.some((lane) => lane.kind === "link")) section.append(timelineKey());
  const columns = ["step", "name", "lane", "from, ms", "for, ms", "bytes", "rank", "waited, ms"];
  addTable(section, columns, () => bars.map((bar) => [
    lanes[bar[LANE]].mode, names[bar[NAME]], lanes[bar[LANE]].name, bar[BEGIN] / 1000, bar[LENGTH] / 1000,
    bar[BYTES], bar[RANK], bar[WAIT] === null ? null : bar[WAIT] / 1000,
  ]));
}

function timelineKey() {
  const key = (style, words) => element("span", {}, element("i", { class: "key", style }), words);
  return element(
    "div", { class: "tools hint" },
    key("background: var(--op)", "op"),
    key("background: linear-gradient(90deg, hsl(214,75%,76%), hsl(254,75%,34%))", "transfer, first to last rank"),
    key("background: var(--plain)", "transfer without a rank")
  );
}
