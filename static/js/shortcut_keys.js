// Single-key shortcuts. The registry of nousweb/console/common/shortcut_keys.py comes with the page; markup names what a
// key activates (data-key), and data-keylist stands on a list that one walks through by key.

const STORE = "nous-keys";
const { keys, meanings } = JSON.parse(document.body.dataset.shortcuts);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const dialog = document.getElementById("keyhelp");
const enabledBox = document.getElementById("keyhelp-enabled");

function enabled() {
  try { return localStorage.getItem(STORE) !== "off"; } catch { return true; }
}

const visible = (element) => element.checkVisibility({ visibilityProperty: true });

function typing(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.matches("textarea, select")) return true;
  return target.matches("input") && !target.matches("[type=checkbox], [type=radio], [type=button], [type=submit], [type=reset]");
}

// The selected row, and where it was: after a row has been decided and swapped away,
// the one that took its place is next.
let lastIndex = -1;
const list = () => document.querySelector("[data-keylist]");
function itemsOf(root) {
  if (!root) return [];
  const marked = $$("[data-keyitem]", root);
  return (marked.length ? marked : [...root.children]).filter(visible);
}
const selectedIn = (items) => items.findIndex((item) => item.classList.contains("is-selected"));
const openerOf = (item) => item?.querySelector("a[data-open]") ?? item?.querySelector("a[href]");

function select(items, index) {
  for (const item of items) {
    item.classList.remove("is-selected");
    item.removeAttribute("aria-current");
  }
  const item = items[index];
  item.classList.add("is-selected");
  item.setAttribute("aria-current", "true");
  lastIndex = index;
  const link = openerOf(item);
  if (!link) item.tabIndex = -1;
  unfold(item);
  (link ?? item).focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

// The selected row shows its text; what was unfolded by selecting folds again, what a person unfolded stays.
let unfolded = null;
function unfold(item) {
  const text = item.querySelector("details[data-unfold]");
  if (unfolded && unfolded !== text) unfolded.open = false;
  if (!text || text.open) return;
  text.open = true;
  unfolded = text;
}
// On a phone a text takes the window, so that a tick is no more than that; who approves is shown the texts then.
const narrow = window.matchMedia("(max-width: 720px)");
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-select-all]") || !event.target.checked || narrow.matches) return;
  for (const text of $$("details[data-unfold]")) text.open = true;
});

// What a request is about to replace, or an item whose decision is being sent, is not pressed by a key.
let requests = [];
document.addEventListener("htmx:beforeSend", ({ detail }) => { requests = [...requests.filter(isOnItsWay), detail]; });
const isOnItsWay = ({ xhr }) => xhr.readyState % XMLHttpRequest.DONE !== 0;
const leaves = (element) => document.querySelector("form[data-decide][aria-busy]")
  || requests.some((request) => isOnItsWay(request) && request.target.contains(element));

function move(step) {
  const items = itemsOf(list());
  if (!items.length) return false;
  const at = selectedIn(items);
  const next = at >= 0 ? at + step : lastIndex >= 0 ? lastIndex + Math.min(step, 0) : step > 0 ? 0 : items.length - 1;
  const index = Math.max(0, Math.min(next, items.length - 1));
  select(items, index);
  return true;
}

function selectedItem() {
  const items = itemsOf(list());
  return items[selectedIn(items)];
}

// What stands in a closed menu has its key too.
const reachable = (element) => visible(element) || visible(element.closest("details.menu") ?? element);
const usable = (element) => reachable(element) && !element.disabled && element.getAttribute("aria-disabled") !== "true";

// A key inside a row belongs to that row alone: it acts only while the row is selected. So does one of a decision that can be
// undone, while the focus is in their list: on the item below it may give an answer.
function targetOf(key) {
  const selector = `[data-key="${CSS.escape(key)}"]`;
  const own = document.activeElement?.closest(".undo-rest") ?? selectedItem();
  const inside = own && $$(selector, own).find(usable);
  if (inside) return inside;
  const items = [...itemsOf(list()), ...$$(".undo-rest li")];
  return $$(selector).find((element) => usable(element) && !items.some((item) => item.contains(element)));
}

// Whether nothing on this page (decision_guard.js) objects to what a key presses; `button` is none for a key without one.
function allowed(button, key) {
  return document.dispatchEvent(new CustomEvent("nous:key", { cancelable: true, detail: { button, key } }));
}

// Where the list of the latest decisions is not on the page, the link that offers to undo the last leads to it.
const latest = () => document.querySelector(`a[href*="undo="][data-key="${keys.undo}"]`);

function showHelp() {
  const rows = new Map();
  for (const element of $$("[data-key]")) {
    if (!reachable(element) || rows.has(element.dataset.key)) continue;
    const copy = element.cloneNode(true);
    for (const kbd of $$("kbd", copy)) kbd.remove();
    const label = element.dataset.keyLabel || element.getAttribute("aria-label") || copy.textContent.trim() || element.getAttribute("placeholder") || meanings[element.dataset.key];
    rows.set(element.dataset.key, element.closest("[data-keyitem]:not(.is-selected)") ? `${meanings[element.dataset.key]}, once a row is selected` : label);
  }
  if (itemsOf(list()).length) {
    for (const name of ["next", "previous", "open"]) rows.set(keys[name], meanings[keys[name]]);
    if (list().querySelector("input[type=checkbox]")) rows.set(keys.select, meanings[keys.select]);
  }
  if (latest()) rows.set(keys.decided, meanings[keys.decided]);
  for (const name of ["send", "leave", "palette", "help"]) rows.set(keys[name], meanings[keys[name]]);
  const entries = [...rows].flatMap(([key, label]) => {
    const term = document.createElement("dt");
    term.textContent = label;
    const value = document.createElement("dd");
    const kbd = document.createElement("kbd");
    kbd.textContent = key;
    value.append(kbd);
    return [term, value];
  });
  document.getElementById("keyhelp-list").replaceChildren(...entries);
  enabledBox.checked = enabled();
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-keyhelp-open]")) showHelp();
  // A click on the dialog itself, not on anything in it, is one on its backdrop.
  else if (event.target === dialog) dialog.close();
});
enabledBox?.addEventListener("change", () => {
  try { localStorage.setItem(STORE, enabledBox.checked ? "on" : "off"); } catch { /* private mode: the choice lasts as long as the page */ }
});

const tell = (word, text) => document.dispatchEvent(new CustomEvent("nous:told", { detail: { word, text } }));

// Sends the form of a field by the one button that does so; none is chosen among several decisions, and none that destroys.
function send({ form }) {
  const buttons = form ? [...form.elements].filter((element) => element.matches("[type=submit]") && usable(element)) : [];
  const button = buttons.length > 1 ? buttons.find((one) => one.matches(".btn-primary")) : buttons[0];
  if (form?.matches("[data-decide], [data-decides]") || !button || button.matches(".btn-danger")) {
    tell("Not sent.", `There is more than one way to send this. Leave the field with ${keys.leave}, then choose.`);
  } else button.click();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing || dialog?.open) return;
  if (typing(event.target) && !event.target.closest("dialog")) {
    if (event.key === keys.leave) (openerOf(event.target.closest("[data-keyitem]")) ?? document.getElementById("main")).focus({ preventScroll: true });
    else if (event.key === keys.open && (event.ctrlKey || event.metaKey)) send(event.target);
    else return;
    event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || typing(event.target) || !enabled()) return;
  const { key } = event;
  // A focused link or button is opened by itself.
  const opens = key === keys.open && document.activeElement?.matches("a, button, summary");
  const declared = opens ? null : targetOf(key);
  // A held key must not decide one row after another.
  if (declared && event.repeat) return;
  if (!allowed(declared, key)) {
    event.preventDefault();
    return;
  }
  if (declared) {
    if (declared.matches("input:not([type=checkbox], [type=radio], [type=submit], [type=button]), textarea, select")) declared.focus();
    else if (leaves(declared)) tell("Not done.", `This part of the page is still loading. Press ${key} again when it is there.`);
    else {
      remember(declared);
      const menu = declared.matches("summary") && declared.parentElement.parentElement.closest("details.menu");
      if (menu) menu.open = true;
      declared.click();
      // What a key unfolds is for typing, as a rule.
      const unfolded = declared.matches("summary") && declared.parentElement.open && declared.parentElement;
      if (unfolded) (unfolded.querySelector("[data-first]") ?? $$("input:not([type=hidden]), textarea, select", unfolded).find(visible))?.focus();
    }
  } else if (key === keys.decided && latest()) {
    location.assign(`${latest().href}#decided`);
  } else if (key === keys.help) {
    showHelp();
  } else if (key === keys.next || key === keys.previous) {
    if (!move(key === keys.next ? 1 : -1)) return;
  } else if (key === keys.select) {
    const box = selectedItem()?.querySelector("input[type=checkbox]");
    if (!box) return;
    box.click();
  } else if (key === keys.open && !event.repeat) {
    // A focused link or button already does this by itself.
    const item = selectedItem();
    if (!item || document.activeElement?.matches("a, button, summary, input")) return;
    openerOf(item)?.click();
  } else {
    return;
  }
  event.preventDefault();
});

// A row that a key decided about is followed by the one that takes its place, on the page that comes next.
const ROW = "nous-row";
function remember(pressed) {
  if (!pressed.closest("[data-keyitem]") || !pressed.matches("[type=submit]")) return;
  try { sessionStorage.setItem(ROW, JSON.stringify([location.pathname, lastIndex])); } catch { /* the first row it is */ }
}
try {
  const [path, index] = JSON.parse(sessionStorage.getItem(ROW) ?? "[]");
  sessionStorage.removeItem(ROW);
  const items = itemsOf(list());
  if (path === location.pathname && items.length) select(items, Math.min(index, items.length - 1));
} catch { /* private mode */ }
// A row that is back in the list is selected there already.
const back = itemsOf(list());
if (selectedIn(back) >= 0) select(back, selectedIn(back));

// A press of the mouse selects a row too. What it unfolds or folds moves the rows, so it waits for the click to be done:
// otherwise the button that was pressed is elsewhere when it is let go.
let pressed = false;
let unfoldsLater = null;
function released() {
  setTimeout(() => {
    pressed = false;
    if (unfoldsLater?.isConnected) unfold(unfoldsLater);
    unfoldsLater = null;
  });
}
document.addEventListener("pointerdown", () => { pressed = true; });
document.addEventListener("pointerup", released);
document.addEventListener("pointercancel", released);
// Focus moved by hand or by Tab takes the selection along.
document.addEventListener("focusin", (event) => {
  const items = itemsOf(list());
  const index = items.findIndex((item) => item.contains(event.target));
  if (index < 0 || items[index].classList.contains("is-selected")) return;
  for (const item of items) {
    item.classList.remove("is-selected");
    item.removeAttribute("aria-current");
  }
  items[index].classList.add("is-selected");
  items[index].setAttribute("aria-current", "true");
  lastIndex = index;
  // A press on what folds it does that itself.
  if (event.target.matches(narrow.matches ? "summary, [type=checkbox]" : "summary")) return;
  if (pressed) unfoldsLater = items[index];
  else unfold(items[index]);
});
