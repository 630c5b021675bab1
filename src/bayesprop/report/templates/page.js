"use strict";
// What the page does beyond standing there: themes, tables that sort and filter, values under the
// pointer. Without it everything can still be read.
(() => {
  const root = document.documentElement, themes = ["auto", "light", "dark"], key = "bayesprop-theme";
  const make = (tag, attributes, text = "") => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };

  const stored = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = theme => { try { localStorage.setItem(key, theme); } catch { /* not allowed */ } };
  const button = make("button", {type: "button", class: "theme"});
  const show = theme => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  show(themes.includes(stored()) ? stored() : "auto");
  button.addEventListener("click", () => {
    show(themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length]);
    store(root.dataset.theme);
  });
  document.querySelector("header").append(button);

  // "−1,234.5", "< 1 %" and "3 to 4" are ordered by the number that they begin with.
  const number = text => {
    const plain = text.replace(/,(?=\d{3})/g, "").replace(/\u2212/g, "-");
    const digits = plain.match(/^[<>\s]*(-?\d+(\.\d+)?)/);
    return digits ? parseFloat(digits[1]) : NaN;
  };
  const valueOf = (row, at) => row.cells[at].textContent.trim();
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!isNaN(x) && !isNaN(y)) return x - y;
    return isNaN(x) - isNaN(y) || a.localeCompare(b);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, at) => {
      const sorter = make("button", {type: "button", class: "sort"}, head.textContent);
      head.replaceChildren(sorter);
      sorter.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows];
        rows.sort((a, b) => (up ? 1 : -1) * compare(valueOf(a, at), valueOf(b, at)));
        body.append(...rows);
      });
    });
    if (body.rows.length < 5) continue;
    const name = table.parentElement.getAttribute("aria-label");
    const field = make("input", {type: "search", placeholder: "Filter rows", "aria-label": `Filter: ${name}`});
    const count = make("span", {"aria-live": "polite"});
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = words.length ? `${shown} of ${body.rows.length} rows` : "";
    });
    const bar = make("div", {class: "filter"});
    bar.append(field, count);
    table.parentElement.before(bar);
  }

  const tip = make("div", {class: "tip", role: "status", hidden: ""});
  document.body.append(tip);
  const texts = new Map();
  for (const title of document.querySelectorAll("svg use > title, svg path > title")) {
    texts.set(title.parentNode, title.textContent);
    title.remove();
  }
  document.addEventListener("pointerover", event => {
    const text = texts.get(event.target);
    tip.hidden = text === undefined;
    if (tip.hidden) return;
    tip.textContent = text;
    const box = event.target.getBoundingClientRect(), width = root.clientWidth;
    const left = Math.min(box.left + box.width / 2 + 8, width - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${Math.max(box.top - tip.offsetHeight - 8, 8)}px`;
  });
  addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
})();
