// Loaded in <head> without defer, so that the class is there before the first paint.
document.documentElement.classList.add("js");

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-toggle]")) return;
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `theme=${root.dataset.theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
});

// How differences are laid out stays as it was chosen last.
document.addEventListener("click", (event) => {
  const choice = event.target.closest?.("a[data-layout]");
  if (!choice) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `layout=${choice.dataset.layout}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
});
