// Loaded in <head> without defer, so that the class is there before the first paint.
document.documentElement.classList.add("js");

function keep(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

// The rail leads to the pages of the agent that was looked at last.
const agent = location.pathname.match(/\/agents\/([a-z0-9-]+)\//)?.[1];
if (agent && agent !== "new") keep("agent", agent);

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-toggle]")) return;
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  keep("theme", root.dataset.theme);
});

// How differences are laid out stays as it was chosen last.
document.addEventListener("click", (event) => {
  const choice = event.target.closest?.("a[data-layout]");
  if (choice) keep("layout", choice.dataset.layout);
});
