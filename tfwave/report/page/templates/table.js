"use strict";
// A table that opens, filters and sorts; long ones show a part.

const SHOWN_ROWS = 100;

/** `rows()` is asked for when the table is opened first; `chosen(row number)` when a row is. */
function addTable(section, columns, rows, chosen) {
  const details = element("details", {}, element("summary", {}, "The same as a table"));
  let made = null;
  details.addEventListener("toggle", () => {
    if (details.open && !made) {
      made = new Table(columns, rows(), chosen);
      details.append(made.tools, made.place);
    }
  });
  section.append(details);
  return details;
}

class Table {
  constructor(columns, rows, chosen) {
    this.rows = rows.map((cells, number) => ({ cells, number, text: cells.join(" ").toLowerCase() }));
    this.chosen = chosen;
    this.query = "";
    this.sorted = null;
    this.most = SHOWN_ROWS;
    const search = element("input", { type: "search", placeholder: "any part of a row" });
    search.addEventListener("input", () => {
      this.query = search.value.toLowerCase();
      this.most = SHOWN_ROWS;
      this.fill();
    });
    this.count = element("span", { class: "count", role: "status" });
    this.more = element("button", { type: "button" }, "More rows");
    this.more.addEventListener("click", () => {
      this.most += SHOWN_ROWS * 5;
      this.fill();
    });
    this.tools = element("div", { class: "tools" }, element("label", {}, "Search", search), this.count, this.more);
    this.heads = columns.map((column, i) => {
      const sort = element("button", { type: "button", onclick: () => this.sort(i) }, column);
      return element("th", { scope: "col" }, sort);
    });
    this.body = element("tbody", {});
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    this.place = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "table" }, table);
    this.fill();
  }

  sort(column) {
    const down = this.sorted && this.sorted.column === column ? !this.sorted.down : false;
    this.sorted = { column, down };
    this.heads.forEach((head, i) => {
      head.removeAttribute("aria-sort");
      if (i === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
    const sign = down ? -1 : 1;
    this.rows.sort((a, b) => sign * compared(a.cells[column], b.cells[column]) || a.number - b.number);
    this.fill();
  }

  fill() {
    const found = this.query ? this.rows.filter((row) => row.text.includes(this.query)) : this.rows;
    const shown = found.slice(0, this.most);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    this.count.textContent = `${shown.length} of ${found.length} rows`;
    this.more.hidden = shown.length === found.length;
  }

  row({ cells, number }) {
    const made = cells.map((cell, i) => {
      const text = cell === null ? "" : String(cell);
      if (i === 1 && this.chosen) {
        const button = element("button", { type: "button", onclick: () => this.chosen(number) }, text);
        return element("td", {}, button);
      }
      return element("td", typeof cell === "number" ? { class: "number" } : {}, text);
    });
    return element("tr", {}, ...made);
  }
}

/** Numbers by value, also those before a unit; else as text. Sizes compare by their bytes. */
function compared(one, other) {
  const a = amount(one), b = amount(other);
  if (a !== null && b !== null) return a - b;
  return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
}

function amount(cell) {
  if (typeof cell === "number") return cell;
  const match = /^(-?[\d,]+(?:\.\d+)?) ?(bytes|KiB|MiB|ms|%|)$/.exec(cell ?? "");
  if (!match) return null;
  return Number(match[1].replaceAll(",", "")) * ({ KiB: 1024, MiB: 1048576 }[match[2]] || 1);
}
