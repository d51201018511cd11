// Decisions are about what was seen. A decision key acts on an item whose text was in the window of a visible page for half
// a second and, at high risk (data-read="high"), was scrolled to its end; otherwise a message says why nothing happened.
// The text of an item is the element with data-read: of the page, or of the selected row.
// What was typed beside a decision, and would be lost with it, is asked about once.

const SEEN_MS = 500;
// Of a text that is higher, so many pixels have to be in the window.
const ENOUGH = 48;
const SENDS_TEXT = ["approve_edited", "merge"];
const { keys } = JSON.parse(document.body.dataset.shortcuts);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const tell = (text) => document.dispatchEvent(new CustomEvent("nous:told", { detail: { word: "Not decided.", text } }));

// Since when each text of the page is in the window, and whether its end has been there. One that is taken away, and
// brought back because its decision failed, begins again.
let looks = new Map();

function look() {
  const known = looks;
  looks = new Map();
  const top = document.querySelector("[data-page-head]").getBoundingClientRect().bottom;
  const panel = document.querySelector(".decide-bar")?.getBoundingClientRect().top ?? Infinity;
  const bottom = Math.min(window.innerHeight, panel);
  for (const text of $$("[data-read]")) {
    const box = text.getBoundingClientRect();
    const height = Math.min(box.bottom, bottom) - Math.max(box.top, top);
    // What is folded has a box in some browsers.
    const shown = document.visibilityState === "visible" && text.checkVisibility();
    const inWindow = shown && box.height > 0 && height >= Math.min(ENOUGH, box.height);
    const before = known.get(text);
    if (!inWindow) {
      looks.set(text, { since: null, end: before?.end ?? false });
      continue;
    }
    const since = before?.since ?? performance.now();
    looks.set(text, { since, end: before?.end || box.bottom <= bottom + 2 });
    if (performance.now() - since >= SEEN_MS && !text.hasAttribute("data-seen")) seen(text);
  }
}

// A row is let pass only after its text was seen: the field that says so counts from then on.
function seen(text) {
  text.setAttribute("data-seen", "");
  for (const field of $$("input[name=shown]", text)) field.disabled = false;
  text.closest("[data-keyitem]")?.classList.add("is-shown");
}

// A resolution whose key came too early stays chosen.
function choose(button) {
  const choice = button?.name === "answer" && [...button.form.elements].find((one) => one.name === "choice" && one.value === button.value);
  if (!choice) return false;
  if (!choice.checked) choice.click();
  return true;
}

// What is applied is what was chosen, by its name.
function offerApply() {
  const button = document.querySelector("button[data-apply]");
  if (!button) return;
  const chosen = button.form.querySelector("[name=choice]:checked")?.closest(".choice").querySelector("button");
  button.disabled = !chosen;
  button.querySelector("span").textContent = chosen ? `Apply: ${chosen.getAttribute("aria-label")}` : "Choose a resolution";
}
document.addEventListener("change", offerApply);
document.addEventListener("htmx:load", offerApply);

// What is ticked is decided together, and the server asks for the texts that were shown.
const textOf = (button) => button.closest("[data-bulkbar]") ? null : (button.closest("[data-keyitem], .compare-column") ?? document).querySelector("[data-read]");
const isEarly = ({ since }) => since === null || performance.now() - since < SEEN_MS;

// Why this text may not be decided by a key yet; "" if it may.
function refusal(text, key) {
  look();
  const at = looks.get(text);
  const again = `then press ${key} again.`;
  if (at.since === null) return `The text of this item is not in view. Scroll to it, ${again}`;
  if (isEarly(at)) return `This item has been in view for less than half a second. Read it, ${again}`;
  if (text.dataset.read === "high" && !at.end) return `This item is of high risk. Scroll to the end of its text, ${again}`;
  return "";
}

// A decision key for which there is no button, here or in the selected row.
function missing(key) {
  const row = document.querySelector("[data-keyitem].is-selected");
  const text = row?.querySelector("[data-read]");
  if (row) return `This item cannot be decided in the list. Open it with ${keys.open}, and read it there.`;
  if (document.querySelector("[data-keylist]")) return `No item is selected. Select one with ${keys.next}.`;
  const valid = $$("[data-decide] button[data-key]").map(({ dataset }) => `${dataset.key}${dataset.keyLabel ? ` for “${dataset.keyLabel}”` : ""}`);
  return `Here ${key} decides nothing. ${valid.length ? `Press ${valid.join(", ")}.` : "It is decided already, or is not yours to decide."}`;
}

document.addEventListener("nous:key", (event) => {
  const { button, key } = event.detail;
  if (!button && key !== keys.approve && key !== keys.reject) return;
  const text = button?.matches("[type=submit]") && button.form?.matches("[data-decide], [data-decides]") && textOf(button);
  const why = button ? text && refusal(text, key) : missing(key);
  if (!why) return;
  event.preventDefault();
  tell(choose(button) ? `${why} “${button.getAttribute("aria-label")}” stays chosen: ${keys.open} applies it as well.` : why);
});

// The second click of a double click falls on the item that took the place of the first one.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[type=submit]");
  if (event.detail < 2 || !button?.form?.matches("[data-decide]") || !textOf(button)) return;
  look();
  if (isEarly(looks.get(textOf(button)))) event.preventDefault();
}, true);

// A row that is to be approved before its text was seen shows it first, also one of those that are ticked.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".needs-text, [data-bulkbar] [value=approve]");
  const chosen = button?.closest("[data-keyitem]") ? [button.closest("[data-keyitem]")] : button ? $$("[data-keyitem]:has(:checked)") : [];
  const rows = chosen.filter((row) => !row.matches(".is-shown"));
  if (!rows.length) return;
  event.preventDefault();
  for (const row of rows) row.querySelector("details[data-unfold]").open = true;
  tell(`Read ${rows.length > 1 ? "the changes" : "the change"}, then press “${button.firstChild.textContent.trim()}” again.`);
}, true);

// One button approves, and says what: the text as it was proposed, or as it was edited.
function editOf(form) {
  const field = form?.elements.content;
  return field?.dataset.draft !== undefined && field.value.trim() !== field.dataset.draft.trim() ? field : null;
}
function showEdit(form) {
  const button = [...(form?.elements ?? [])].find((element) => element.matches("button[data-edit]"));
  if (!button) return;
  const edited = Boolean(editOf(form));
  button.value = edited ? "approve_edited" : button.dataset.edit;
  button.firstChild.textContent = `${edited ? "Approve my edit" : button.dataset.label} `;
}
document.addEventListener("input", (event) => {
  asked = null;
  if (event.target.id === "edit-content") showEdit(event.target.form);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-edit-reset]")) return;
  const field = document.getElementById("edit-content");
  field.value = field.dataset.draft;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
});

// The decision that was asked about.
let asked = null;
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-decide]")) return;
  const { value } = event.submitter ?? {};
  const edit = SENDS_TEXT.includes(value) ? null : editOf(form);
  const question = new CustomEvent("nous:leaving", { detail: { form, lost: edit ? ["your edit"] : [] } });
  document.dispatchEvent(question);
  const { lost } = question.detail;
  if (lost.length && asked !== value) {
    asked = value;
    event.preventDefault();
    event.stopImmediatePropagation();
    tell(`It would lose ${lost.join(" and ")}, which has not been sent. Decide once more to lose it.`);
    return;
  }
  asked = null;
  if (edit) edit.value = edit.dataset.draft;
}, true);

for (const name of ["htmx:load", "scroll", "resize", "toggle", "visibilitychange"]) {
  document.addEventListener(name, look, { capture: true, passive: true });
}
document.addEventListener("htmx:load", () => showEdit(document.querySelector("form[data-decide]")));
setInterval(look, 100);
look();
