"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);

  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Sorting: empty values last, equal ones keep their order.
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (kind) => (a, b) => (kind === "number" ? Number(a) - Number(b) : collator.compare(a, b));
  for (const button of all(".sort")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      const column = [...head.parentElement.children].indexOf(head);
      for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", direction);
      const body = head.closest("table").tBodies[0];
      const order = compare(button.dataset.kind);
      const sign = direction === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        return sign * order(x, y);
      });
      body.append(...rows);
    });
  }

  // Filtering: words and states; the heat map dims, the lists hide.
  const filter = byId("filter");
  if (filter) {
    const rows = all("#list tbody tr");
    const texts = new Map(rows.map((row) => [row.dataset.row, row.textContent.toLowerCase()]));
    const others = all(".cell[data-cell], .strips li").map((node) => [node, node.dataset.cell || node.dataset.row]);
    const chips = all(".chip");
    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const states = new Set(chips.filter((c) => c.getAttribute("aria-pressed") === "true").map((c) => c.dataset.state));
      const shown = new Set();
      for (const row of rows) {
        const text = texts.get(row.dataset.row);
        const fits = words.every((word) => text.includes(word)) && (!states.size || states.has(row.dataset.state));
        row.hidden = !fits;
        if (fits) shown.add(row.dataset.row);
      }
      for (const [node, id] of others) {
        if (node.tagName === "LI") node.hidden = !shown.has(id);
        else node.classList.toggle("dim", !shown.has(id));
      }
      byId("shown").textContent = `${shown.size} of ${rows.length} cells`;
    };
    filter.addEventListener("input", apply);
    for (const chip of chips) {
      chip.addEventListener("click", () => {
        chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
        apply();
      });
    }
  }

  // Evidence: the prepared nodes of a cell are cloned into the dialog.
  const dialog = byId("evidence");
  if (!dialog) return;
  const body = byId("evidence-body");
  let current = "";
  let opener = null;
  const open = (id) => {
    const template = byId(`cell-${id}`);
    if (!template) return;
    body.replaceChildren(template.content.cloneNode(true));
    current = id;
    history.replaceState(null, "", `#cell-${id}`);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  const visible = () => all("#list tbody tr").filter((row) => !row.hidden).map((row) => row.dataset.row);
  const move = (by) => {
    const ids = visible();
    const at = ids.indexOf(current);
    if (ids.length) open(ids[(at + by + ids.length) % ids.length]);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-cell]");
    if (!button) return;
    opener = button;
    open(button.dataset.cell);
  });
  byId("previous").addEventListener("click", () => move(-1));
  byId("next").addEventListener("click", () => move(1));
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    history.replaceState(null, "", location.pathname + location.search);
    if (opener) opener.focus();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });

  // Arrow keys walk the heat map.
  for (const table of all(".heat")) {
    table.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const place = event.target.closest("td");
      if (!step || !place) return;
      const row = table.rows[place.parentElement.rowIndex + step[0]];
      const target = row && row.cells[place.cellIndex + step[1]];
      const button = target && target.querySelector("button");
      if (button) { button.focus(); event.preventDefault(); }
    });
  }

  if (location.hash.startsWith("#cell-")) open(location.hash.slice(6));
})();
