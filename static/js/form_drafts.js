// What people type outlives the end of their session: it is kept in this tab until the form has been sent, and put back
// when a login, a refusal or a form that had expired came in between. Somebody else's log-in throws it away, and so does logging out.

const STORE = "nous-drafts";
const { person, interrupted } = document.body.dataset;
const TEXT = "textarea, input:not([type]), input[type=text], input[type=url], input[type=email], input[type=number], input[type=search]";
// What the form was made of: else what others stored in between would look as seen.
const SHOWN = "input[type=hidden][name=shown]";

function read() {
  try { return JSON.parse(sessionStorage.getItem(STORE)) ?? {}; } catch { return {}; }
}
function write(drafts) {
  try {
    if (Object.keys(drafts.pages ?? {}).length) sessionStorage.setItem(STORE, JSON.stringify(drafts));
    else sessionStorage.removeItem(STORE);
  } catch { /* private mode: nothing is kept */ }
}

// Whoever logs out leaves nothing behind in this tab, what the palette remembers included.
function forget() {
  try { sessionStorage.clear(); } catch { /* private mode: nothing was kept */ }
}

// A refusal that leads back to the page of the form.
const refused = () => document.querySelector("#messages .notice-error");
const keeps = (form) => form?.getAttribute("method")?.toLowerCase() === "post" && Boolean(person);
// A page may have a form more than once for different rows: each goes to an address or button of its own.
// form.action and form.method may be buttons of these names.
const goesTo = (form) => new URL(form.getAttribute("action") || "", location).pathname;
const nameOf = (form) => `${goesTo(form)}#${form.getAttribute("id") || [...document.forms].indexOf(form)}`;
const fieldsOf = (form) => [...form.elements].filter((field) => field.matches(`${TEXT}, ${SHOWN}`) && field.name && !field.readOnly);

document.addEventListener("input", (event) => {
  const { form } = event.target;
  if (!keeps(form) || !event.target.matches(TEXT)) return;
  const drafts = read();
  const pages = { ...drafts.pages };
  const typed = fieldsOf(form).filter((field) => field.value !== field.defaultValue || field.matches(SHOWN));
  const page = { ...pages[location.pathname], [nameOf(form)]: Object.fromEntries(typed.map((field) => [field.name, field.value])) };
  pages[location.pathname] = page;
  write({ person, pages, back: location.pathname + location.search });
});

document.addEventListener("submit", (event) => {
  if (goesTo(event.target) === document.body.dataset.logoutUrl) forget();
});
// What went through without leaving the page is kept no longer.
document.addEventListener("htmx:afterRequest", (event) => {
  const form = event.detail.elt;
  if (!event.detail.successful || !form.matches("form")) return;
  const drafts = read();
  if (drafts.pages && refused()) restore(drafts);
  else {
    delete drafts.pages?.[location.pathname]?.[nameOf(form)];
    write(drafts);
  }
});
document.addEventListener("nous:sent", (event) => {
  const drafts = read();
  delete drafts.pages?.[event.detail.path];
  write(drafts);
});

function restore(drafts) {
  let restored = 0;
  for (const form of document.forms) {
    // The same form may stand at another address of its page.
    const kept = [drafts.pages[location.pathname], ...Object.values(drafts.pages)].find((page) => page?.[nameOf(form)])?.[nameOf(form)];
    if (!kept || !keeps(form)) continue;
    for (const field of fieldsOf(form).sort((one) => (one.matches(SHOWN) ? -1 : 0))) {
      if (!(field.name in kept) || field.value === kept[field.name]) continue;
      field.value = kept[field.name];
      for (let folded = field.closest("details:not([open])"); folded; folded = folded.parentElement.closest("details:not([open])")) folded.open = true;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      restored += 1;
    }
  }
  if (restored) document.getElementById("main").prepend(document.getElementById("draft-restored").content.cloneNode(true));
  return restored;
}

const drafts = read();
if (interrupted !== undefined) {
  if (drafts.pages) {
    write({ ...drafts, interrupted: true });
    for (const notice of document.querySelectorAll("[data-draft-kept]")) notice.hidden = false;
    for (const link of document.querySelectorAll("a[data-draft-back]")) link.href = drafts.back;
  }
} else if (drafts.person !== person) {
  write({});
} else if (drafts.interrupted || (drafts.pages && refused())) {
  if (restore(drafts)) write({ ...read(), interrupted: false });
} else {
  write({});
}
