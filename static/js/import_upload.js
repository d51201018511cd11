// A file of any size goes up in parts, each small enough for one request; without this script the form sends it whole.

const form = document.querySelector("form[data-upload]");
const bar = document.querySelector("[data-upload-bar]");
const said = document.querySelector("[data-upload-said]");
const cancel = document.querySelector("[data-upload-cancel]");
const TRIES = 4;

function tell(text, isError = false) {
  said.textContent = text;
  said.classList.toggle("down", isError);
  said.hidden = false;
}

async function answerOf(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error((answer.errors ?? [`The server answered ${response.status}.`]).join(" ")), { final: true });
  return answer;
}

async function send(address, token, body, signal) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const headers = { "X-CSRFToken": token, "Content-Type": "application/octet-stream" };
      return await answerOf(await fetch(address, { method: "POST", headers, body, signal }));
    } catch (error) {
      if (error.final || signal.aborted || attempt === TRIES) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 1000 * attempt); });
    }
  }
}

async function upload(file, signal) {
  const fields = new FormData(form);
  const token = fields.get("csrfmiddlewaretoken");
  fields.delete("file");
  fields.set("name", file.name);
  fields.set("size", file.size);
  const made = await answerOf(await fetch(form.getAttribute("action") || location.href, { method: "POST", body: fields, signal }));
  for (let sent = 0; sent < file.size; sent += made.bytes) {
    await send(`${made.part}?offset=${sent}`, token, file.slice(sent, sent + made.bytes), signal);
    bar.value = Math.min(1, (sent + made.bytes) / file.size);
    tell(`${Math.round(bar.value * 100)} % uploaded`);
  }
  location.assign(made.page);
}

form?.addEventListener("submit", async (event) => {
  const file = form.elements.file.files[0];
  if (!file) return;
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  const stop = new AbortController();
  if (file.size > Number(form.dataset.maxBytes)) {
    tell(`This file is larger than ${Math.round(Number(form.dataset.maxBytes) / 2 ** 20)} MB.`, true);
    return;
  }
  button.disabled = true;
  bar.hidden = false;
  cancel.hidden = false;
  cancel.onclick = () => stop.abort();
  try {
    await upload(file, stop.signal);
  } catch (error) {
    tell(stop.signal.aborted ? "The upload was cancelled." : error.message, !stop.signal.aborted);
    bar.hidden = true;
  } finally {
    button.disabled = false;
    cancel.hidden = true;
  }
});
