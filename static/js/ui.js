// Everything here improves pages that work without it.

const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// The sticky table heads stand below the sticky page head, whatever its height.
const head = document.querySelector("[data-page-head]");
if (head) {
  // The browser has gone to the place that an address names before that height was known.
  let named = performance.getEntriesByType("navigation")[0]?.type === "navigate" && location.hash;
  new ResizeObserver(() => {
    const stays = getComputedStyle(head).position === "sticky";
    document.documentElement.style.setProperty("--head-h", `${stays ? head.offsetHeight : 0}px`);
    if (named) document.getElementById(decodeURIComponent(named.slice(1)))?.scrollIntoView();
    named = "";
  }).observe(head);
}

// A form that a button opens is typed into at once.
addEventListener("hashchange", () => {
  document.querySelector(".is-opened:target :is(input:not([type=hidden]), select, textarea)")?.focus();
});

// What a mark of an answer shares with its memories is marked in their rows too, while the pointer or the focus is on it.
const found = (words, memory) => {
  const texts = document.createTreeWalker(memory, NodeFilter.SHOW_TEXT);
  const ranges = [];
  while (texts.nextNode()) {
    for (const { index, 0: text } of texts.currentNode.data.matchAll(words)) {
      const range = new Range();
      range.setStart(texts.currentNode, index);
      range.setEnd(texts.currentNode, index + text.length);
      ranges.push(range);
    }
  }
  return ranges;
};
for (const type of globalThis.Highlight ? ["pointerover", "focusin", "pointerout", "focusout"] : []) {
  addEventListener(type, (event) => {
    const mark = event.target.closest?.("[data-sources]");
    if (!mark) return;
    CSS.highlights.delete("cited");
    const said = [...mark.childNodes].filter((node) => !node.matches?.("a")).map((node) => node.textContent).join("");
    const words = said.match(/[\p{L}\p{N}]+/gu);
    if (!words || type.endsWith("out")) return;
    const rows = mark.dataset.sources.split(" ").map((number) => document.querySelector(`#use-${number} .use-text`));
    const [phrase, each] = [words.join("[^\\p{L}\\p{N}]+"), words.join("|")].map(
      (one) => new RegExp(`(?<![\\p{L}\\p{N}])(?:${one})(?![\\p{L}\\p{N}])`, "giu"));
    const shared = rows.filter(Boolean).flatMap((row) => {
      const whole = found(phrase, row);
      return whole.length ? whole : found(each, row);
    });
    CSS.highlights.set("cited", new Highlight(...shared));
  });
}

// A rail that is longer than the window shows the page one is on.
const here = document.querySelector(".rail-scroll [aria-current=page]");
if (here) {
  const rail = here.closest(".rail-scroll");
  const [place, frame] = [here.getBoundingClientRect(), rail.getBoundingClientRect()];
  if (place.bottom > frame.bottom || place.top < frame.top) rail.scrollTop += place.top - frame.top - frame.height / 2;
}

// So does a line of tabs, which begins with a whole word: with the tab before, behind the edge that fades.
const FADE = 24;
function showTab() {
  for (const chosen of $$(":is(.tabs, .views ul) [aria-current]")) {
    const frame = chosen.closest(".tabs, .views ul");
    const tabs = $$(".tab, .view", frame).filter((tab) => tab.checkVisibility());
    if (tabs.length === 0) continue;
    tabs.at(-1).style.marginInlineEnd = "";
    const most = frame.scrollWidth - frame.clientWidth;
    frame.scrollLeft = 0;
    const { left, right } = frame.getBoundingClientRect();
    if (most <= 0 || chosen.getBoundingClientRect().right <= right - FADE) continue;
    const starts = tabs.map((tab) => tab.getBoundingClientRect().left - left - FADE + 4);
    const start = starts.find((one, at) => one >= most || tabs[at + 1] === chosen) ?? 0;
    // Behind views a line has no room that would be seen.
    if (frame.matches(".tabs")) tabs.at(-1).style.marginInlineEnd = `${Math.max(0, start - most)}px`;
    frame.scrollLeft = start;
  }
}
showTab();
// The words of a font that comes late have other widths.
document.fonts.ready.then(showTab);
document.addEventListener("htmx:oobAfterSwap", showTab);

// The columns of a chart are pointed at by keys too.
document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !event.target.matches(".chart svg")) return;
  const columns = $$(".chart-col", event.target);
  const at = columns.findIndex((column) => column.classList.contains("is-at"));
  const next = at < 0 ? columns.length - 1 : Math.min(Math.max(at + step, 0), columns.length - 1);
  columns.forEach((column, place) => column.classList.toggle("is-at", place === next));
  event.preventDefault();
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches(".chart svg")) for (const column of $$(".is-at", target)) column.classList.remove("is-at");
});

// What is missing in a fold is shown there.
document.addEventListener("invalid", ({ target }) => {
  const fold = target.closest("details:not([open])");
  if (fold) fold.open = true;
}, true);

// Messages and popovers.
const EDGE = 8;
document.addEventListener("click", (event) => {
  const dismiss = event.target.closest("[data-dismiss]");
  if (dismiss) dismiss.closest(".notice").remove();
  for (const open of $$("details[data-popover][open]")) {
    if (!open.contains(event.target) || event.target.closest('a[href^="#"]')) open.open = false;
  }
});
// What opens over the page keeps within the window. A menu opens upward where there is no room below; a form in it is typed into
// at once.
document.addEventListener("toggle", ({ target }) => {
  if (!target.matches("details[data-popover][open]")) return;
  const over = [...target.children, target.nextElementSibling].find((part) => part && getComputedStyle(part).position === "absolute");
  if (over) {
    over.style.translate = "";
    const { left, right } = over.getBoundingClientRect();
    const beyond = Math.max(0, right + EDGE - document.documentElement.clientWidth) || Math.min(0, left - EDGE);
    if (beyond) over.style.translate = `${-beyond}px`;
  }
  if (!target.matches(".menu")) return;
  target.classList.remove("is-upward");
  const items = target.querySelector(":scope > :not(summary)");
  const { bottom, height } = items.getBoundingClientRect();
  if (bottom > document.documentElement.clientHeight) {
    const covered = head && getComputedStyle(head).position === "sticky" ? head.getBoundingClientRect().bottom : 0;
    if (target.getBoundingClientRect().top - height - 4 > covered) target.classList.add("is-upward");
    else items.scrollIntoView({ block: "nearest" });
  }
  target.querySelector(":scope > form :is(input:not([type=hidden]), textarea)")?.focus();
}, true);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of $$("details[data-popover][open]")) {
    open.open = false;
    if (open.contains(document.activeElement)) open.querySelector("summary").focus();
  }
});

function toast(word, text, place = "toasts") {
  const region = document.getElementById(place);
  if (!region) return;
  const notice = document.createElement("div");
  notice.className = place === "toasts" ? "notice notice-error" : "notice notice-warn";
  const body = document.createElement("div");
  body.className = "grow";
  const strong = document.createElement("span");
  strong.className = "notice-word";
  strong.textContent = word;
  body.append(strong, ` ${text}`);
  const close = document.createElement("button");
  close.type = "button";
  close.className = "btn btn-quiet btn-icon btn-sm";
  close.dataset.dismiss = "";
  close.setAttribute("aria-label", "Dismiss");
  close.textContent = "✕";
  notice.append(body, close);
  // The newest replaces the older ones: it is the one to act on.
  for (const older of $$(".toasts")) older.replaceChildren();
  region.replaceChildren(notice);
}

const REASONS = {
  400: "The server could not read what was sent.",
  401: "You are no longer logged in. Log in in another tab and try again.",
  403: "Your role does not allow this, or the form has expired. Reload the page and try again.",
  404: "It no longer exists.",
  429: "Too many requests. Wait a little and try again.",
};
document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  toast("Not done.", REASONS[status] ?? `The server failed (error ${status}). It has been logged.`);
});
// That a request is given up since nobody reads its answer any more is no error, as which htmx prints it.
document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => {
  const { onabort } = xhr;
  xhr.onabort = () => {
    const { error } = console;
    console.error = () => {};
    try { onabort(); } finally { console.error = error; }
  };
});
document.addEventListener("htmx:sendError", () => {
  toast("No connection.", "The server could not be reached. Nothing was saved.");
});
document.addEventListener("nous:refused", (event) => toast(event.detail.word, event.detail.text));
// It is about the item that was there.
document.addEventListener("htmx:load", (event) => { if (event.detail.elt.id === "main") document.getElementById("told")?.replaceChildren(); });
document.addEventListener("nous:told", (event) => toast(event.detail.word, event.detail.text, "told"));
document.addEventListener("htmx:timeout", () => {
  toast("No answer.", "The server took too long. Look whether it was saved before you try again.");
});

// A request that ended on the login page must not put that page into a fragment.
document.addEventListener("htmx:beforeSwap", (event) => {
  const login = document.body.dataset.loginUrl;
  const { responseURL } = event.detail.xhr;
  if (login && responseURL && new URL(responseURL).pathname === login) {
    event.detail.shouldSwap = false;
    location.reload();
  }
});

// A swap keeps the focus: on what stands for the element that had it, else on the fold or the part that it was in.
const FOCUSABLE = "a[href], button, summary, select, textarea, input:not([type=hidden])";
const labelOf = (element) => {
  const copy = element.cloneNode(true);
  for (const kbd of $$("kbd", copy)) kbd.remove();
  return [element.tagName, element.type, element.name, element.value, copy.textContent.trim()].join();
};
let focused = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const had = document.activeElement;
  if (had !== document.body) focused = { had, label: labelOf(had), part: event.detail.target.id };
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (!focused || focused.had.isConnected || document.activeElement !== document.body) return;
  const part = document.getElementById(focused.part) ?? event.detail.elt;
  const same = $$(FOCUSABLE, part).find((element) => labelOf(element) === focused.label);
  const fold = same?.closest("details:not([open])")?.querySelector("summary");
  const place = fold ?? same ?? part;
  if (place === part) place.tabIndex = -1;
  place.focus({ preventScroll: true });
});

// A form whose answer is shown live keeps each choice at once, so that the next request carries it although the answer to this
// one is still on its way.
document.addEventListener("click", (event) => {
  const button = event.target.closest("form[data-live] button[name]");
  if (!button) return;
  const kept = `input[type="hidden"][name="${CSS.escape(button.name)}"], select[name="${CSS.escape(button.name)}"]`;
  for (const field of $$(kept, button.form)) field.value = button.value;
});

// An answer that arrives between press and release would take away what is under the pointer, and the click with it: it is
// not shown, and asked for again unless the click asks for more.
let pressed = null;
let held = null;
document.addEventListener("pointerdown", (event) => {
  pressed = event.target;
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const form = event.detail.requestConfig.elt;
  if (!form.matches("form[data-live]") || !event.detail.target.contains(pressed)) return;
  event.detail.shouldSwap = false;
  held = form;
});
for (const end of ["pointerup", "pointercancel"]) {
  document.addEventListener(end, () => {
    const form = held;
    [pressed, held] = [null, null];
    if (form) setTimeout(() => { if (!form.matches(".htmx-request")) form.requestSubmit(); });
  });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-unfold]");
  if (!button) return;
  const parts = $$("details", button.closest("[data-copy]"));
  const folded = parts.some((part) => !part.open);
  for (const part of parts) part.open = folded;
  button.textContent = folded ? "Fold all" : "Unfold all";
});

// Copy buttons exist only where the clipboard does.
function addCopyButtons(root) {
  if (!navigator.clipboard) return;
  const hosts = $$("[data-copy]", root);
  if (root.matches?.("[data-copy]")) hosts.push(root);
  for (const host of hosts) {
    if (host.querySelector(".copy-btn")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn btn-sm copy-btn";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      // The sections of a prompt follow each other without anything between them.
      const parts = $$("pre", host);
      const field = host.querySelector("code, input, textarea");
      try {
        await navigator.clipboard.writeText(parts.map((part) => part.textContent).join("") || (field.value ?? field.textContent));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    host.append(button);
  }
}
addCopyButtons(document);
document.addEventListener("htmx:load", (event) => addCopyButtons(event.detail.elt));

// The moment of an agent's pages: one that was picked goes after a pause, one that is typed at Enter or when the field is left.
let typed = false;
let picking = 0;
const go = (field) => { if (field.value !== field.defaultValue) field.form.requestSubmit(); };
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".past")) return;
  event.preventDefault();
  const address = new URL(location);
  // Filters stay; a page of a list is another one at another moment.
  for (const name of ["page", "before", "after"]) address.searchParams.delete(name);
  address.searchParams.set("as_of", event.target.elements.as_of.value);
  location.assign(address);
});
document.addEventListener("keydown", ({ target, key }) => {
  if (target.id !== "as-of") return;
  if (key === "Escape") target.value = target.defaultValue;
  typed = key !== "Enter";
  if (!typed && target.reportValidity()) go(target);
  // Before what closes the popover, and so leaves the field.
}, true);
document.addEventListener("change", ({ target }) => {
  if (target.id !== "as-of" || typed) return;
  clearTimeout(picking);
  picking = setTimeout(go, 700, target);
});
document.addEventListener("focusout", ({ target }) => {
  if (target.id === "as-of" && typed && target.checkValidity()) go(target);
  typed = false;
});

// Select all, and the bar that acts on what is selected.
function boxesOf(name) {
  return $$(`input[type="checkbox"][name="${CSS.escape(name)}"]`).filter((box) => !box.disabled);
}
function showSelection() {
  for (const all of $$("[data-select-all]")) {
    const boxes = boxesOf(all.dataset.selectAll);
    const on = boxes.filter((box) => box.checked).length;
    all.checked = on > 0 && on === boxes.length;
    all.indeterminate = on > 0 && on < boxes.length;
  }
  for (const bar of $$("[data-bulkbar]")) {
    const ticked = boxesOf(bar.dataset.bulkbar).filter((box) => box.checked);
    const on = ticked.length;
    bar.hidden = on === 0;
    bar.toggleAttribute("data-open", on > 0);
    // A decision is offered where it can be made about all that is ticked.
    const possible = ticked.map((box) => box.dataset.answers?.split(" ") ?? []);
    for (const part of $$("[data-answer]", bar)) {
      const words = part.dataset.answer.trim().split(" ");
      part.hidden = !words.some((word) => possible.every((answers) => answers.includes(word)));
    }
    for (const label of $$("[data-bulk-count]", bar)) label.textContent = `${on} selected`;
  }
}
document.addEventListener("change", (event) => {
  const name = event.target.dataset?.selectAll;
  if (name) for (const box of boxesOf(name)) box.checked = event.target.checked;
  showSelection();
});
document.addEventListener("htmx:load", showSelection);
showSelection();

// What was typed or chosen in a form is not lost by a slip. What is sent as it changes, ticked in a list, or chosen in a menu
// is no loss.
const TYPED = "textarea, input:not([type]), input[type=text], input[type=url], input[type=email]";
const NO_LOSS = "[hx-post] *, [data-keyitem] [type=checkbox], [data-select-all], :is(.menu, .bulkbar) :is(select, [type=date])";
const guarded = (form) => form?.getAttribute("method") === "post" && !form.matches("[hx-post]");
// A form that came back, unfinished or refused, is as little saved as one that was changed here.
const dirty = new Set($$("form").filter((form) => guarded(form) && (form.matches("[data-changed]") || form.querySelector(".errorlist, .notice-error"))));
document.addEventListener("input", ({ target }) => {
  if (guarded(target.form) && !target.matches(NO_LOSS)) dirty.add(target.form);
});
// What a decision would lose, which takes the other forms of its page away.
document.addEventListener("nous:leaving", (event) => {
  const { form, lost } = event.detail;
  for (const other of dirty) {
    const typed = other !== form && other.isConnected && [...other.elements].find((field) => field.matches(TYPED) && field.value !== field.defaultValue);
    if (typed) lost.push(`“${typed.labels[0]?.textContent.trim() ?? typed.name}”`);
  }
});
document.addEventListener("reset", (event) => dirty.delete(event.target));
document.addEventListener("submit", (event) => dirty.delete(event.target));
document.addEventListener("htmx:responseError", (event) => {
  const form = event.target.closest?.("form");
  if (guarded(form) && [...form.elements].some(differs)) dirty.add(form);
});
window.addEventListener("beforeunload", (event) => {
  for (const form of dirty) if (!form.isConnected) dirty.delete(form);
  if (dirty.size) event.preventDefault();
});

// Settings: what saves them can once something differs from what is saved, and then stays in view, and a field that differs from its default,
// which its placeholder says, can go back to it.
const differs = (field) => {
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (field.matches("select")) return [...field.options].some((option) => option.selected !== option.defaultSelected);
  return field.matches("input, textarea") && field.value !== field.defaultValue;
};
// "Identity: 300 → 340"; of a budget also what it would have been too little for.
const change = (field) => {
  const chosen = (options) => (options.find((one) => one.defaultSelected) ?? options[0]).text;
  const [old, now] = field.matches("[type=checkbox]") ? (field.checked ? ["off", "on"] : ["on", "off"])
    : field.matches("select") ? [chosen([...field.options]), field.selectedOptions[0].text]
    : [field.defaultValue || field.placeholder, field.value || field.placeholder];
  const group = document.getElementById(field.closest("[role=group]")?.getAttribute("aria-labelledby"));
  const over = (field.closest("[data-uses]")?.dataset.uses.split(",") ?? []).map(Number).filter((size) => size > Number(now));
  const short = over.length ? ` (${over.length} of the last prompts had more, up to ${Math.max(...over).toLocaleString("en")} tokens)` : "";
  return `${[group, field.labels[0]].map((one) => one?.textContent.trim()).join(" ").trim()}: ${old} → ${now}${short}`;
};
for (const type of ["input", "change"]) {
  document.addEventListener(type, ({ target: { form } }) => {
    // One that came back with errors differs from what is saved, but not from what the page says.
    if (!form?.matches(SAVES) || form.dataset.changed) return;
    const changes = [...form.elements].filter((field) => field.name !== "reason" && differs(field));
    const number = changes.length;
    form.toggleAttribute("data-changed", number > 0);
    if (!number) dirty.delete(form);
    const sum = document.getElementById("budgets-sum");
    const budgets = [...form.elements].filter((field) => /^budget_(?!total)/.test(field.name));
    if (sum) sum.textContent = budgets.reduce((all, field) => all + Number(field.value || field.placeholder.replace(/\D/g, "")), 0).toLocaleString("en");
    if (settingsSaid) settingsSaid.textContent = changes.map(change).join("; ") || UNCHANGED;
    const save = saverOf(form);
    save.disabled = !number;
    save.textContent = number ? `Save ${number} change${number === 1 ? "" : "s"}` : "Save settings";
  });
}
const SAVES = "[data-settings], [data-saves]";
const settingsSaid = document.getElementById("settings-changes");
const UNCHANGED = settingsSaid?.textContent;
const saverOf = (form) => [...form.elements].find((field) => field.type === "submit");
for (const form of $$(SAVES)) if (!form.matches("[data-changed]")) saverOf(form).disabled = true;
for (const field of $$("[data-settings] :is([type=number], [type=text], select)")) {
  const back = document.createElement("span");
  const button = document.createElement("button");
  back.className = "set-back";
  back.append(`default: ${(field.placeholder ?? field.options[0].text).replace("Default: ", "")} `, button);
  button.type = "button";
  button.className = "btn btn-quiet btn-sm";
  button.textContent = "Reset";
  button.setAttribute("aria-label", `Reset: ${field.labels[0]?.textContent.trim()}`);
  button.addEventListener("click", () => {
    if (field.matches("select")) field.selectedIndex = 0;
    else field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  });
  field.after(back);
  // What one sees by the dot and the weight of the number, a screen reader says.
  const state = document.createElement("span");
  state.hidden = true;
  state.id = `${field.id}_state`;
  const say = () => { state.textContent = (field.matches("select") ? field.selectedIndex : field.value) ? "Set by a person." : "The default."; };
  for (const type of ["input", "change"]) field.addEventListener(type, say);
  say();
  field.setAttribute("aria-describedby", [state.id, field.getAttribute("aria-describedby")].filter(Boolean).join(" "));
  back.after(state);
}
// What is thrown away on purpose needs no warning.
document.addEventListener("click", ({ target }) => { if (target.closest?.(".save-bar a")) dirty.clear(); });

// A button that says which value it writes into a field.
document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-set]");
  if (!button) return;
  const field = document.getElementById(button.dataset.set);
  field.value = button.value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

// What was tried is no answer for other values.
document.addEventListener("input", ({ target }) => {
  if (target.name?.startsWith("budget_")) document.getElementById("budgets-impact")?.replaceChildren();
});

// The index of a long page marks the section that is read.
const index = $$(".page-index a");
const indexMark = () => {
  const begun = index.filter((link) => document.querySelector(link.hash).getBoundingClientRect().top < innerHeight / 3);
  const isAtEnd = scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
  const read = (isAtEnd ? index : begun).at(-1) ?? index[0];
  for (const link of index) link.setAttribute("aria-current", link === read);
};
if (index.length) {
  document.addEventListener("scroll", indexMark, { passive: true });
  indexMark();
}
