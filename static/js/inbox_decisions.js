// Works an inbox off: the next item is fetched while one reads, and stands there as soon as a key or a click has decided
// this one; the decision is sent meanwhile. What the decision may touch is shown as its answer has it, but for another
// proposal of the same section, which the server shows in advance as it is once this one is approved.
// Without this script a decision is sent as any other form, and its answer is the next page.

const PARTS = ["[data-page-head]", "#main"];
const FRAME = [".rail-scroll", ".bell", "#demo-tour"];
const login = document.body.dataset.loginUrl;
const working = document.getElementById("working");
const formOf = (root) => root.querySelector("form[data-decide]");
const about = (form) => form.dataset.about.split(" ");
const touched = (form, page) => about(formOf(page)).some((one) => about(form).includes(one));
const addressOf = (form) => new URL(form.getAttribute("action"), location).href;
const here = () => location.pathname + location.search;
const say = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

let ahead = null;
let last = Promise.resolve();
let number = 0;
let typed = false;
// The decision that the shown item takes for approved.
let assumed = null;
let address = here();
const failed = new Set();

async function read(url, options) {
  const response = await fetch(url, { credentials: "same-origin", ...options });
  return { response, page: new DOMParser().parseFromString(await response.text(), "text/html") };
}

// The item that comes after this one in the part of the inbox that is worked off.
async function fetchNext() {
  const form = formOf(document);
  const url = form?.dataset.following;
  const wanted = url ? { url, page: null, approved: null } : null;
  ahead = wanted;
  if (!wanted) return;
  const itemAt = async (place) => {
    const { response, page } = await read(place);
    return response.ok && !response.redirected && formOf(page) ? page : null;
  };
  try {
    wanted.page = await itemAt(url);
    if (!wanted.page || !form.dataset.proposal || !touched(form, wanted.page)) return;
    wanted.approved = await itemAt(`${url}${url.includes("?") ? "&" : "?"}approved=${form.dataset.proposal}`);
  } catch { /* the answer to the decision shows it */ }
}

// The page that can be shown before the decision is answered; none where the answer alone knows it.
function known(form, value) {
  if (!ahead?.page || !touched(form, ahead.page)) return ahead?.page;
  if (value === "reject") return ahead.page;
  return value === "approve" || value === "approve_merged" ? ahead.approved : null;
}

function at(url, push) {
  history[push ? "pushState" : "replaceState"](null, "", url);
  address = here();
  mark();
}

function mark() {
  for (const link of document.querySelectorAll("#inbox-beside li a")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

document.addEventListener("htmx:afterSettle", ({ target }) => {
  if (target.id !== "inbox-beside") return;
  // The list may have been asked for beside the item before this one.
  mark();
  target.querySelector("li [aria-current]")?.scrollIntoView({ block: "nearest" });
});

// What was decided leaves the list beside the item, and a list that comes to its end is read again.
const FEW = 8;
document.addEventListener("nous:sent", ({ detail }) => {
  const beside = document.getElementById("inbox-beside");
  if (!beside) return;
  const links = [...beside.querySelectorAll("li a")];
  const decided = links.filter((link) => link.pathname === detail.path);
  for (const link of decided) link.closest("li").remove();
  for (const part of beside.querySelectorAll("[data-scope]")) {
    const { scope } = part.dataset;
    // All has those of each part, and none that are apart from it, as applied changes are.
    const gone = decided.filter(({ dataset: { part: own } }) => !scope || (own && [own, "All"].includes(scope))).length;
    const number = part.querySelector(".count");
    number.textContent = (number.textContent.replace(/\D/g, "") - gone).toLocaleString("en");
  }
  if (!links.length || links.length > FEW) return;
  const key = location.pathname.split("/").at(-2);
  const url = beside.getAttribute("hx-get").replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, key);
  window.htmx.ajax("GET", url, { target: beside, swap: "innerHTML" });
});

function settle() {
  const main = document.getElementById("main");
  typed = false;
  window.htmx.process(main);
  say("htmx:load", { elt: main });
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

// Puts a page in the place of this one, and returns what brings this one back.
function show(page, url, push) {
  const [title, before] = [document.title, location.href];
  // What this page still asks for, nobody reads any more.
  for (const part of document.querySelectorAll("#main .htmx-request")) window.htmx.trigger(part, "htmx:abort");
  const nodes = PARTS.map((part) => [...document.querySelector(part).childNodes]);
  document.title = page.title;
  // Who goes through the items by key asks for no impact of each.
  for (const part of page.querySelectorAll("[hx-trigger^='load delay']")) part.setAttribute("hx-trigger", "load delay:1500ms");
  for (const part of PARTS) document.querySelector(part).replaceChildren(...page.querySelector(part).childNodes);
  at(url, push);
  settle();
  return {
    title,
    back() {
      document.title = title;
      PARTS.forEach((part, place) => document.querySelector(part).replaceChildren(...nodes[place]));
      at(before, false);
      settle();
    },
  };
}

// Parts of a response beside the item that is shown already: the undo offer, and the pending items.
function refresh(page, url) {
  const [shown, found] = [formOf(document), formOf(page)];
  if (shown && found && shown.getAttribute("action") === found.getAttribute("action")) {
    at(url, false);
    shown.dataset.following = found.dataset.following;
    document.querySelector(PARTS[0]).replaceChildren(...page.querySelector(PARTS[0]).childNodes);
  }
  document.querySelector(".review-undo")?.remove();
  const undo = page.querySelector(".review-undo");
  if (undo) document.getElementById("main").prepend(undo);
}

// Sends a form as it would go without this script, so that its answer is a page: of a form that has expired, say.
function sendPlain(form, { name, value }) {
  const field = Object.assign(document.createElement("input"), { type: "hidden", name, value });
  form.append(field);
  HTMLFormElement.prototype.submit.call(form);
}

function answered({ response, page }, decision) {
  const { item, shown } = decision;
  if (!response.ok) {
    failed.add(decision.number);
    if (decision.number === number) assumed = null;
  }
  if (login && new URL(response.url).pathname === login) {
    location.assign(item);
  } else if (response.ok) {
    say("nous:sent", { path: new URL(item).pathname });
    if (decision.number !== number) return;
    for (const part of FRAME) {
      document.querySelector(part)?.replaceChildren(...(page.querySelector(part)?.childNodes ?? []));
    }
    if (shown) refresh(page, response.url);
    else if (formOf(page)) show(page, response.url, true);
    else location.assign(response.url);
    fetchNext();
  } else if (shown && (typed || decision.number !== number)) {
    const words = page.querySelector("#main [role=alert] .grow")?.textContent.replace(/\s+/g, " ").trim();
    say("nous:refused", { word: shown.title, text: words ?? "It was not decided. Open it again." });
  } else if (page.querySelector("#main .decide")) {
    show(page, item, false);
    fetchNext();
  } else if (response.status === 403) {
    shown?.back();
    sendPlain(decision.form, decision.pressed);
  } else {
    location.assign(item);
  }
}

async function send(form, body, decision) {
  // What was shown as it is after a decision that was refused is shown as it is.
  if (failed.has(decision.after)) {
    failed.add(decision.number);
    location.assign(decision.item);
    return;
  }
  try {
    answered(await read(form.getAttribute("action"), { method: "POST", body, keepalive: true }), decision);
  } catch {
    failed.add(decision.number);
    if (decision.number === number) {
      assumed = null;
      decision.shown?.back();
    }
    say("nous:refused", { word: "No connection.", text: "The server could not be reached. Nothing was saved." });
  } finally {
    form.removeAttribute("aria-busy");
    working.classList.remove("htmx-request");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-decide]") || event.defaultPrevented) return;
  event.preventDefault();
  if (form.hasAttribute("aria-busy")) return;
  number += 1;
  form.setAttribute("aria-busy", "true");
  const body = new URLSearchParams(new FormData(form, event.submitter));
  const next = known(form, event.submitter?.value);
  const decision = { number, item: addressOf(form), form, pressed: event.submitter ?? {}, shown: null, after: assumed };
  assumed = next && next === ahead.approved ? number : null;
  if (next) {
    decision.shown = show(next, ahead.url, true);
  } else working.classList.add("htmx-request");
  ahead = null;
  last = last.then(() => send(form, body, decision));
});
document.addEventListener("input", (event) => {
  if (event.target.form?.matches("form[data-decide]")) typed = true;
});
window.addEventListener("popstate", () => { if (here() !== address) location.reload(); });
fetchNext();
