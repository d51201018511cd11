// Works an inbox off: the next items are fetched while one reads, and the next one stands there as soon as a key or a click
// has decided this one; the decisions are sent meanwhile, one after the other. What a decision may touch is shown as its
// answer has it, but for another proposal of the same section, which the server shows in advance as it is once this one is
// approved.
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

// The item that follows the shown one: its page once it is there, and that page as it is once the shown one is approved.
let ahead = null;
let last = Promise.resolve();
let number = 0;
let typed = false;
// The decisions that are not answered yet, and the paths of all that were decided from this page.
const open = new Set();
const decided = new Set();
// The pages that were read ahead, by their addresses, and how many behind the next one are.
const pages = new Map();
const BEHIND = 2;
// The decision that the shown item takes for approved.
let assumed = null;
let address = here();
const failed = new Set();

async function read(url, options) {
  const response = await fetch(url, { credentials: "same-origin", ...options });
  return { response, page: new DOMParser().parseFromString(await response.text(), "text/html") };
}

// The page of an item, read now or before; `before` are the decisions that it may be older than.
function pageAt(url) {
  const isAt = pages.get(url);
  if (isAt) return isAt;
  const itemAt = async () => {
    const { response, page } = await read(url);
    return response.ok && !response.redirected && formOf(page) ? page : null;
  };
  const found = { page: itemAt().catch(() => null), before: new Set(open) };
  pages.set(url, found);
  return found;
}

const isDecided = (url) => decided.has(new URL(url, location).pathname);

// The item that comes after this one in the part of the inbox that is worked off.
function fetchNext() {
  const form = formOf(document);
  ahead = { url: form?.dataset.following, page: null, approved: null, isRead: false };
  ahead.ready = fetchAhead(ahead, form);
  const wanted = ahead;
  wanted.ready.then(() => fetchBehind(wanted));
}

// Who decides faster than the server answers needs those behind the next one, too.
async function fetchBehind(wanted) {
  let { page } = wanted;
  for (let left = BEHIND; page && left && ahead === wanted; left -= 1) {
    const { following } = formOf(page).dataset;
    page = following && !isDecided(following) && following !== here() ? await pageAt(following).page : null;
  }
}

async function fetchAhead(wanted, form) {
  const { url } = wanted;
  // Behind the last one stands the first, which may be what is being decided.
  const found = url && !isDecided(url) ? pageAt(url) : null;
  const page = await found?.page;
  const stale = [...found?.before ?? []].filter((one) => page && touched(one.form, page));
  if (stale.length || !page) pages.delete(url);
  if (stale.length) {
    // It was read before a decision that may change it: it is read again after the answer.
    if (ahead === wanted && !stale.some((one) => open.has(one))) fetchNext();
  } else if (page && form.dataset.proposal && touched(form, page)) {
    const approved = `${url}${url.includes("?") ? "&" : "?"}approved=${form.dataset.proposal}`;
    wanted.approved = await pageAt(approved).page;
    pages.delete(approved);
    wanted.page = page;
  } else wanted.page = page;
  wanted.isRead = true;
}

// Reads the item ahead again where an answer has another one, or has made it readable.
function fetchChanged() {
  if (ahead.url !== formOf(document)?.dataset.following || (ahead.isRead && !ahead.page)) fetchNext();
}

// The page that can be shown before the decision is answered; none where the answer alone knows it.
function known(form, value, { page, approved }) {
  if (!page || !touched(form, page)) return page;
  if (value === "reject") return page;
  return value === "approve" || value === "approve_merged" ? approved : null;
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
  fetchNext();
  return {
    title,
    back() {
      document.title = title;
      PARTS.forEach((part, place) => document.querySelector(part).replaceChildren(...nodes[place]));
      at(before, false);
      settle();
      fetchNext();
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

function fail(decision) {
  open.delete(decision);
  decided.delete(new URL(decision.item).pathname);
  failed.add(decision.number);
  if (decision.number === number) assumed = null;
}

function answered({ response, page }, decision) {
  const { item, shown } = decision;
  open.delete(decision);
  if (!response.ok) fail(decision);
  if (login && new URL(response.url).pathname === login) {
    location.assign(item);
  } else if (response.ok) {
    say("nous:sent", { path: new URL(item).pathname });
    if (decision.number !== number) {
      fetchChanged();
      return;
    }
    for (const part of FRAME) {
      document.querySelector(part)?.replaceChildren(...(page.querySelector(part)?.childNodes ?? []));
    }
    if (shown) {
      refresh(page, response.url);
      fetchChanged();
    } else if (formOf(page)) show(page, response.url, true);
    else location.assign(response.url);
  } else if (shown && (typed || decision.number !== number)) {
    const words = page.querySelector("#main [role=alert] .grow")?.textContent.replace(/\s+/g, " ").trim();
    say("nous:refused", { word: shown.title, text: words ?? "It was not decided. Open it again." });
  } else if (page.querySelector("#main .decide")) {
    show(page, item, false);
  } else if (response.status === 403) {
    shown?.back();
    sendPlain(decision.form, decision.pressed);
  } else {
    location.assign(item);
  }
}

// A browser keeps no longer request alive when its page is left.
const MAX_KEPT = 60_000;
const request = (body) => ({ method: "POST", body, keepalive: String(body).length < MAX_KEPT });

async function send(decision) {
  const { form, body } = decision;
  // What was shown as it is after a decision that was refused is shown as it is.
  if (failed.has(decision.after)) {
    fail(decision);
    location.assign(decision.item);
    return;
  }
  try {
    answered(await read(form.getAttribute("action"), request(body)), decision);
  } catch {
    fail(decision);
    if (decision.number === number) decision.shown?.back();
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
  const pressed = event.submitter ?? {};
  const decision = { number, item: addressOf(form), form, body, pressed, shown: null, after: assumed, sent: null };
  const coming = ahead;
  assumed = null;
  pages.delete(coming.url);
  for (const page of pages.values()) page.before.add(decision);
  open.add(decision);
  decided.add(new URL(decision.item).pathname);
  // The item ahead is shown as soon as it is there, and if that is after the answer, the answer is.
  const goOn = () => {
    const next = open.has(decision) && !decision.shown && known(form, pressed.value, coming);
    if (!next || decision.number !== number) return;
    assumed = next === coming.approved ? number : null;
    working.classList.remove("htmx-request");
    decision.shown = show(next, coming.url, true);
  };
  goOn();
  if (!decision.shown) {
    working.classList.add("htmx-request");
    coming.ready.then(goOn);
  }
  last = last.then(() => decision.sent ??= send(decision));
});
// Who leaves the page leaves no decision behind that only waits its turn. One that takes another for approved waits for
// that answer, since nobody would see its refusal: who leaves then is asked.
function waits({ after }) {
  return failed.has(after) || [...open].some((decision) => decision.number === after);
}

window.addEventListener("pagehide", () => {
  for (const decision of open) if (!waits(decision)) decision.sent ??= send(decision);
});
window.addEventListener("beforeunload", (event) => {
  if ([...open].some(waits)) event.preventDefault();
});
document.addEventListener("input", (event) => {
  if (event.target.form?.matches("form[data-decide]")) typed = true;
});
window.addEventListener("popstate", () => { if (here() !== address) location.reload(); });
fetchNext();
