"use strict";
// What all charts share: the facts, elements, colours, and a chart that follows its width and the colour scheme.

const facts = JSON.parse(document.getElementById("facts").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = [];

/** An element; text goes in as text, never as markup. */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const MODE_COLOURS = { unordered: "before", ordered: "after", captured: "before" };

function modeColour(mode) {
  return colour(MODE_COLOURS[mode] || "third");
}

function sizeText(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`;
}

function msText(micros) {
  return `${(micros / 1000).toFixed(micros < 100 ? 4 : 2)} ms`;
}

/** The content of a tooltip: pairs of words and values. */
function tip(pairs) {
  const rows = pairs.map(([words, value]) => element("div", {}, element("b", {}, words), ` ${value}`));
  return element("div", { class: "tip" }, ...rows);
}

/** A chart in a section: `option()` says what it shows now. */
class Chart {
  constructor(section, option, { height, zooms = false, events = () => {} }) {
    this.option = option;
    this.height = height;
    this.events = events;
    const label = section.querySelector(".text").textContent;
    this.place = element("div", { class: "chart", tabindex: "0" });
    this.label = `${section.querySelector("h2").textContent}. ${label} The table below has the same.`;
    if (zooms) section.append(this.zoomTools());
    section.append(this.place);
    drawn.push(this);
    this.restart();
    new ResizeObserver(() => this.chart.resize()).observe(this.place);
  }

  /** Anew, as after a change of the colour scheme. */
  restart() {
    if (this.chart) this.chart.dispose();
    this.place.style.height = `${this.height()}px`;
    this.chart = echarts.init(this.place, dark.matches ? "dark" : null);
    this.events(this.chart);
    this.show();
  }

  show() {
    this.place.style.height = `${this.height()}px`;
    this.chart.resize();
    const shared = {
      animation: false,
      backgroundColor: "transparent",
      textStyle: { fontFamily: "system-ui, sans-serif" },
      aria: { enabled: true, label: { description: this.label } },
    };
    const kept = this.zoom;
    this.chart.setOption({ ...shared, ...this.option() }, { notMerge: true });
    if (kept) this.zoomTo(kept.start, kept.end);
  }

  get zoom() {
    const option = this.chart.getOption();
    const zoom = option && option.dataZoom && option.dataZoom[0];
    return zoom ? { start: zoom.start, end: zoom.end } : null;
  }

  zoomTo(start, end) {
    this.chart.dispatchAction({ type: "dataZoom", start: Math.max(0, start), end: Math.min(100, end) });
  }

  /** Nearer by a factor, and to the side by a share of what is seen. */
  look(factor, aside) {
    const { start, end } = this.zoom;
    const wide = Math.min(100, Math.max(0.05, (end - start) * factor));
    const middle = (start + end) / 2 + aside * (end - start);
    const from = Math.min(100 - wide, Math.max(0, middle - wide / 2));
    this.zoomTo(from, from + wide);
  }

  zoomTools() {
    const ways = [
      ["Nearer", "+", () => this.look(0.5, 0)],
      ["Wider", "-", () => this.look(2, 0)],
      ["Earlier", "ArrowLeft", () => this.look(1, -0.4)],
      ["Later", "ArrowRight", () => this.look(1, 0.4)],
      ["All", "0", () => this.zoomTo(0, 100)],
    ];
    this.place.addEventListener("keydown", (event) => {
      const way = ways.find(([, key]) => key === event.key);
      if (!way || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      way[2]();
    });
    const buttons = ways.map(([words, , act]) => element("button", { type: "button", onclick: act }, words));
    const hint = element("span", { class: "hint" }, "Ctrl + wheel zooms; on the chart, keys + - arrows 0.");
    return element("div", { class: "tools", role: "group", "aria-label": "zoom" }, ...buttons, hint);
  }
}

/** A zoom of the x axis by wheel, drag and slider. */
function zoomOption() {
  const shared = { xAxisIndex: 0, filterMode: "weakFilter", minSpan: 0.05 };
  return [
    { ...shared, type: "slider", bottom: 6, height: 20 },
    { ...shared, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
  ];
}

/** Buttons of which one is pressed. */
function choice(words, names, chosen, act) {
  const buttons = names.map((name) =>
    element("button", { type: "button", "aria-pressed": String(name === chosen) }, name)
  );
  buttons.forEach((button, i) =>
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      act(names[i]);
    })
  );
  return element("span", { role: "group", "aria-label": words }, ...buttons);
}

/** A list to choose from; gives the number of what is chosen. */
function selection(words, names, act) {
  const options = names.map((name, i) => element("option", { value: i }, name));
  const list = element("select", {}, ...options);
  list.addEventListener("change", () => act(Number(list.value)));
  return element("label", {}, words, list);
}
