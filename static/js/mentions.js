// Completes @names in a field with data-mentions, whose value is the names that may be mentioned, apart by spaces.

const MOST = 6;
let menu = null;
let chosen = 0;

function close() {
  menu?.remove();
  menu = null;
}

function wordOf(field) {
  const before = field.value.slice(0, field.selectionStart);
  const found = /(?:^|[^\w@.+-])@([\w.@+-]*)$/.exec(before);
  return found ? { typed: found[1], start: before.length - found[1].length } : null;
}

function take(field, name) {
  const word = wordOf(field);
  if (!word) return close();
  field.setRangeText(`${name} `, word.start, field.selectionStart, "end");
  close();
  field.focus();
}

function mark() {
  [...menu.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === chosen)));
}

function offer(field) {
  const word = wordOf(field);
  const names = (field.dataset.mentions ?? "").split(" ").filter(Boolean);
  const fitting = word ? names.filter((name) => name.toLowerCase().startsWith(word.typed.toLowerCase())).slice(0, MOST) : [];
  if (!fitting.length) return close();
  close();
  menu = document.createElement("ul");
  menu.className = "mention-list";
  menu.setAttribute("role", "listbox");
  menu.setAttribute("aria-label", "People to mention");
  chosen = 0;
  for (const name of fitting) {
    const item = document.createElement("li");
    item.setAttribute("role", "option");
    item.textContent = name;
    // Before the field loses the focus, with which the list would close.
    item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(field, name); });
    menu.append(item);
  }
  mark();
  field.after(menu);
}

document.addEventListener("input", (event) => { if (event.target.matches?.("[data-mentions]")) offer(event.target); });
document.addEventListener("focusout", (event) => { if (event.target.matches?.("[data-mentions]")) close(); });
document.addEventListener("keydown", (event) => {
  if (!menu || !event.target.matches?.("[data-mentions]")) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    chosen = (chosen + step + menu.children.length) % menu.children.length;
    mark();
  } else if (event.key === "Enter" || event.key === "Tab") take(event.target, menu.children[chosen].textContent);
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
});
