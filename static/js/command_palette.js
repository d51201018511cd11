// The command palette: pages, what this page can do, where one was last, and what a search across agents finds.

const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const here = document.getElementById("palette-here");
const found = document.getElementById("palette-found");
const places = JSON.parse(document.getElementById("places")?.textContent ?? "[]");
const STORE = "nous-recent";
const RECENT = 8;
const SHOWN = 6;
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Where one was last, in this tab alone, and of this person alone.
function recent() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE));
    return kept?.person === document.body.dataset.person ? kept.pages : [];
  } catch { return []; }
}
function remember() {
  const address = location.pathname + location.search;
  const title = document.querySelector("h1")?.textContent.trim().replace(/\s+/g, " ");
  const agent = document.querySelector(".rail .switch-name")?.textContent.trim();
  const label = agent && location.pathname.startsWith("/agents/") ? `${title} · ${agent}` : title;
  const pages = [{ label, address }, ...recent().filter((page) => page.address !== address)].slice(0, RECENT);
  try { sessionStorage.setItem(STORE, JSON.stringify({ person: document.body.dataset.person, pages })); } catch { /* private mode */ }
}

function words(element) {
  const copy = element.cloneNode(true);
  for (const extra of $$("kbd, .count, .visually-hidden", copy)) extra.remove();
  return (element.dataset.keyLabel || copy.textContent).trim().replace(/\s+/g, " ");
}

// Everything that this page offers without asking the server.
function offers() {
  const pages = places.map(([label, detail, address, also]) => ({ group: "Pages", label, detail, address, also }));
  const agents = $$(".rail .switch-list a").map((link) => ({ group: link.matches("[data-agent]") ? "Agents" : "Pages", label: words(link), detail: "", address: link.href }));
  const actions = $$("main [data-key], .page-head [data-key]").filter((element) => element.getClientRects().length && !element.disabled && !element.closest("[data-keyitem]:not(.is-selected)"))
    .map((element) => ({ group: "On this page", label: words(element) || element.getAttribute("aria-label") || "", detail: element.dataset.key, press: element }));
  const last = recent().slice(1).map((page) => ({ group: "Where you were", label: page.label, detail: "", address: page.address }));
  // Never what decides something first: Enter by mistake must do nothing.
  return [...last, ...pages, ...actions.filter((action) => action.label), ...agents];
}

function fits(offer, asked) {
  const text = `${offer.label} ${offer.detail} ${offer.also ?? ""}`.toLowerCase();
  return asked.every((word) => text.includes(word));
}

function show() {
  const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!asked.length) found.replaceChildren();
  const groups = new Map();
  for (const offer of offers()) {
    // The search finds agents by itself once one types.
    if (!fits(offer, asked) || (asked.length && offer.group === "Agents")) continue;
    const group = groups.get(offer.group) ?? groups.set(offer.group, []).get(offer.group);
    if (group.length < SHOWN || offer.group === "Pages") group.push(offer);
  }
  here.replaceChildren(...[...groups].map(([name, group]) => {
    const section = document.createElement("section");
    section.className = "found";
    const head = document.createElement("h2");
    head.className = "found-head";
    head.textContent = name;
    const list = document.createElement("ul");
    for (const offer of group) {
      const item = document.createElement("li");
      const link = document.createElement(offer.press ? "button" : "a");
      if (offer.press) link.type = "button"; else link.href = offer.address;
      link.className = "found-link";
      link.dataset.paletteItem = "";
      const label = document.createElement("span");
      label.className = "truncate";
      label.textContent = offer.label;
      const detail = document.createElement("span");
      detail.className = "faint small";
      detail.textContent = offer.detail;
      link.append(label, detail);
      if (offer.press) {
        link.addEventListener("click", () => {
          dialog.close();
          if (offer.press.matches("input:not([type=checkbox], [type=radio], [type=submit]), textarea, select")) offer.press.focus();
          else if (document.dispatchEvent(new CustomEvent("nous:key", { cancelable: true, detail: { button: offer.press, key: offer.press.dataset.key } }))) offer.press.click();
        });
      }
      item.append(link);
      list.append(item);
    }
    section.append(head, list);
    return section;
  }));
  choose(0);
}

const items = () => $$("[data-palette-item]", dialog);
let chosen = 0;
function choose(index) {
  const all = items();
  chosen = Math.max(0, Math.min(index, all.length - 1));
  for (const [place, item] of all.entries()) item.classList.toggle("is-chosen", place === chosen);
  all[chosen]?.scrollIntoView({ block: "nearest" });
}

function open() {
  if (!dialog || dialog.open || document.querySelector("dialog[open]")) return;
  input.value = "";
  found.replaceChildren();
  dialog.showModal();
  show();
  input.focus();
}

if (dialog) {
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    // What is typed next is for the field, also in an open palette: never for the page below.
    if (dialog.open) input.focus(); else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette-open]")) open();
    else if (event.target === dialog) dialog.close();
  });
  input.addEventListener("input", show);
  found.addEventListener("htmx:afterSwap", () => {
    // Guesses are of no use where a page has what was typed.
    if (here.childElementCount && found.querySelector(".is-guess")) found.replaceChildren();
    choose(chosen);
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && event.target === input && items()[chosen]) items()[chosen].click();
    else return;
    event.preventDefault();
  });
  remember();
}
