"use strict";
// What a step holds: a band for each of the largest tensors, over what is resident.

function drawMemory(section, { views }, table) {
  let view = views[0];

  /** Bytes of each band, and of the rest, at each point of the curve. */
  function stacked() {
    const { points, bands, resident } = view;
    const layers = bands.map((band) => points.map(([at]) => (at >= band.begin && at < band.end ? band.bytes : 0)));
    const rest = points.map(([, held], i) => Math.max(0, held - resident - layers.reduce((sum, layer) => sum + layer[i], 0)));
    return [
      { name: "resident", values: points.map(() => resident) },
      { name: "smaller tensors", values: rest },
      ...bands.map((band, i) => ({ name: band.name, values: layers[i], band })).reverse(),
    ];
  }

  function option() {
    const { points, unit, limit, marks } = view;
    const layers = stacked();
    const series = layers.map(({ name, values, band }, i) => ({
      type: "line", step: "end", stack: "held", name, symbol: "none", silent: true, lineStyle: { width: band ? 0.5 : 0 },
      color: band ? `hsl(${(i * 47) % 360}, 55%, ${dark.matches ? 55 : 60}%)` : colour(name === "resident" ? "plain" : "idle"),
      areaStyle: { opacity: 0.9 },
      data: points.map(([at], p) => [at, values[p] / 1048576]),
    }));
    const shown = Math.max(...points.map(([, held]) => held), limit ?? 0) / 1048576;
    series.push({
      type: "line", step: "end", name: "held", symbol: "none", silent: true, color: colour("text"), lineStyle: { width: 1 },
      data: points.map(([at, held]) => [at, held / 1048576]),
      markLine: limit === null ? undefined : {
        symbol: "none", silent: true, lineStyle: { color: colour("bad"), width: 2 },
        label: { formatter: `limit ${sizeText(limit)}`, position: "insideStartTop", color: colour("bad") }, data: [{ yAxis: limit / 1048576 }],
      },
      markArea: {
        silent: true, itemStyle: { opacity: 0.1, borderWidth: 1, borderColor: colour("soft") },
        label: { show: marks.length < 6, color: colour("soft") },
        data: marks.map(({ name, begin, end }) => [{ name, xAxis: begin }, { xAxis: end }]),
      },
    });
    return {
      grid: { left: 62, right: 16, top: 26, bottom: 66 },
      tooltip: { trigger: "axis", confine: true, formatter: held },
      xAxis: { type: "value", min: points[0][0], max: points[points.length - 1][0], name: unit, nameLocation: "middle", nameGap: 22, axisLabel: { hideOverlap: true, showMaxLabel: false } },
      yAxis: { type: "value", name: "MiB", max: shown * 1.05, axisLabel: { showMaxLabel: false } },
      dataZoom: zoomOption().map((zoom) => ({ ...zoom, filterMode: "none" })),
      series,
    };
  }

  function held(found) {
    const at = found[0].value[0];
    const there = view.bands.filter((band) => at >= band.begin && at < band.end);
    const [, bytes] = view.points[found[0].dataIndex];
    const marked = view.marks.filter(({ begin, end }) => at >= begin && at < end).slice(0, 3).map(({ name }) => ["in", name]);
    return tip([[view.unit, at], ...marked, ["held", sizeText(bytes)], ...there.slice(0, 6).map((band) => [sizeText(band.bytes), band.name])]);
  }

  function tell(band) {
    told.textContent = `${band.name}: ${sizeText(band.bytes)}, from ${band.begin.toFixed(2)} to ${band.end.toFixed(2)} ${view.unit}; made by ${band.made_by}; last read by ${band.read_by}.`;
  }

  /** The band under a click. */
  function clicked(chart, { offsetX, offsetY }) {
    const [at, mebibytes] = chart.convertFromPixel({ gridIndex: 0 }, [offsetX, offsetY]);
    const point = view.points.findLastIndex(([begin]) => begin <= at);
    if (point < 0) return;
    let below = 0;
    for (const { name, values, band } of stacked()) {
      below += values[point] / 1048576;
      if (mebibytes <= below) {
        if (band) tell(band);
        else told.textContent = `${name}: ${sizeText(values[point])} at that time.`;
        return;
      }
    }
  }

  const names = views.map(({ title }) => title);
  section.append(element("div", { class: "tools" }, selection("View", names, (i) => { view = views[i]; chart.zoomTo(0, 100); chart.show(); })));
  const events = (chart) => chart.getZr().on("click", (event) => clicked(chart, event));
  const chart = new Chart(section, option, { height: () => 420, zooms: true, events });
  const told = element("div", { class: "told", role: "status" }, "Click a band, or a tensor of the table, to see its op and life.");
  section.append(told);
  const all = views.flatMap((of) => of.bands.map((band) => [of, band]));
  addTable(section, table.columns, () => table.rows, (number) => {
    view = all[number][0];
    section.querySelector("select").value = views.indexOf(view);
    chart.show();
    tell(all[number][1]);
  });
}
