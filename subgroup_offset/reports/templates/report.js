"use strict";
(() => {
  const PAGE = 20;
  const data = JSON.parse(document.getElementById("browser-data").textContent);
  const $ = (id) => document.getElementById(id);
  const runs = data.runs;
  let shown = PAGE;

  // Everything becomes text nodes: what a model wrote is never read as HTML.
  const make = (tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const option = (select, value, text) => {
    const node = make("option", text);
    node.value = value;
    select.append(node);
  };
  const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const whole = (parts) => parts[0] + parts[2];

  const cutText = (parts) => {
    const pre = make("pre", parts[0]);
    if (parts[1]) {
      pre.append(make("span", ` … ${parts[1].toLocaleString("en")} characters left out … `, "cut"), parts[2]);
    }
    return pre;
  };

  const previewCell = (slot) => {
    const cell = make("td", null, "preview");
    cell.append(make("pre", slot.idea));
    if (slot.preview !== null && slot.preview.trim() !== slot.idea) {
      const more = make("details");
      more.append(make("summary", "whole preview"), make("pre", slot.preview));
      cell.append(more);
    }
    return cell;
  };

  const rolloutsOf = (slot) => {
    const box = make("details");
    box.append(make("summary", `Slot ${slot.slot}: ${slot.texts.length} rollouts`));
    // Filled when opened: a step may have megabytes of them.
    box.addEventListener("toggle", () => {
      if (!box.open || box.childElementCount > 1) return;
      for (const rollout of slot.texts) {
        const part = make("div", null, "rollout");
        const output = rollout.part ? `, output ${rollout.part}` : "";
        part.append(make("strong", `Rollout ${rollout.session}${output}, score ${number(rollout.score, 2)}`));
        part.append(cutText(rollout.text));
        box.append(part);
      }
    });
    return box;
  };

  const tableOf = (prompt) => {
    const table = make("table");
    table.append(make("caption", "Subgroups, the most successful first"));
    const head = make("tr");
    for (const title of ["Slot", "Key idea of the preview", "Successes", "Mean reward"]) {
      const cell = make("th", title);
      cell.scope = "col";
      head.append(cell);
    }
    table.append(make("thead"), make("tbody"));
    table.tHead.append(head);
    for (const slot of prompt.slots) {
      const row = make("tr");
      const first = make("th", slot.name);
      first.scope = "row";
      row.append(first, previewCell(slot), make("td", slot.success), make("td", slot.reward));
      table.tBodies[0].append(row);
    }
    const scroll = make("div", null, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", `Subgroups of prompt ${prompt.uid}`);
    scroll.append(table);
    return scroll;
  };

  const cardOf = ({ step, prompt }) => {
    const card = make("article", null, "prompt");
    const seconds = prompt.seconds === null ? "" : ` · ${prompt.seconds.toFixed(1)} s`;
    card.append(make("h3", `Step ${step.step} · prompt ${prompt.uid.slice(0, 8)} · span ${number(prompt.span, 2)}`));
    card.append(make("p", `${prompt.status}${seconds}`, "dim"));
    const problem = cutText(prompt.problem);
    problem.classList.add("problem");
    problem.tabIndex = 0;
    card.append(problem, tableOf(prompt));
    const texts = prompt.slots.filter((slot) => slot.texts.length);
    if (texts.length) card.append(...texts.map(rolloutsOf));
    else card.append(make("p", step.note || "No rollouts of this prompt in the dump.", "dim"));
    return card;
  };

  const holds = (prompt, text) =>
    [prompt.uid, whole(prompt.problem)].some((part) => part.toLowerCase().includes(text)) ||
    prompt.slots.some(
      (slot) =>
        (slot.preview || "").toLowerCase().includes(text) ||
        slot.texts.some((rollout) => whole(rollout.text).toLowerCase().includes(text)),
    );

  const orders = {
    span: (a, b) => (b.prompt.span ?? -1) - (a.prompt.span ?? -1),
    "-span": (a, b) => (a.prompt.span ?? 2) - (b.prompt.span ?? 2),
    success: (a, b) => b.prompt.successes - a.prompt.successes,
    "-success": (a, b) => a.prompt.successes - b.prompt.successes,
  };

  const render = () => {
    const run = runs[Number($("run").value)];
    const wanted = $("step").value;
    const text = $("filter").value.trim().toLowerCase();
    const steps = run.steps.filter((step) => wanted === "all" || String(step.step) === wanted);
    const all = steps.flatMap((step) => step.prompts.map((prompt) => ({ step, prompt })));
    const found = all.filter(({ prompt }) => !text || holds(prompt, text)).sort(orders[$("order").value]);
    const total = steps.reduce((sum, step) => sum + step.total, 0);
    $("count").textContent =
      `${Math.min(shown, found.length)} of ${found.length} matching prompts shown; ` +
      `${all.length} of the ${total} prompts of the chosen steps are in this page.`;
    $("prompts").replaceChildren(...found.slice(0, shown).map(cardOf));
    $("more").hidden = found.length <= shown;
  };

  const restart = () => {
    shown = PAGE;
    render();
  };
  const fillSteps = () => {
    const steps = runs[Number($("run").value)].steps;
    $("step").replaceChildren();
    option($("step"), "all", `all ${steps.length} steps`);
    for (const step of steps) option($("step"), String(step.step), `${step.step}`);
    $("step").value = String(steps[steps.length - 1].step);
  };

  runs.forEach((run, i) => option($("run"), String(i), run.title));
  fillSteps();
  $("run").addEventListener("change", () => { fillSteps(); restart(); });
  for (const id of ["step", "order"]) $(id).addEventListener("change", restart);
  $("filter").addEventListener("input", restart);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => { shown += PAGE; render(); });
  render();
})();
