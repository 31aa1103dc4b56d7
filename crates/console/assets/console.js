// The script of all pages. Every page works without it, except uploads and charts.

// A login link holds its token behind "#", which browsers do not send to servers.
const login = document.querySelector("[data-login]");
const follow = () => {
  if (location.hash.length < 2) return;
  login.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  login.action = "/login/link";
  login.submit();
};
if (login) {
  addEventListener("hashchange", follow);
  follow();
}

// Parts of pages that are fetched again and again. What the server sends is escaped.
const LIVE_MS = 3000;
for (const part of document.querySelectorAll("[data-live]")) {
  setInterval(async () => {
    if (document.hidden || part.contains(document.activeElement)) return;
    const answer = await fetch(part.dataset.live).catch(() => null);
    if (!answer) return;
    if (answer.redirected) return location.reload();
    if (!answer.ok) return;
    const open = new Set([...part.querySelectorAll("details[open]")].map((d) => d.id));
    part.innerHTML = await answer.text();
    for (const details of part.querySelectorAll("details")) details.open = open.has(details.id);
  }, LIVE_MS);
}

// Changes that cannot be undone ask first.
document.addEventListener("submit", (event) => {
  const text = event.target.dataset.confirm;
  if (text && !confirm(text)) event.preventDefault();
});

// Links and secrets: one press copies them.
for (const text of document.querySelectorAll("[data-copy]")) {
  text.addEventListener("focus", () => text.select());
  if (!navigator.clipboard) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text.value);
    button.textContent = "Copied";
  });
  text.after(button);
}

// Uploads: files go one after the other, through the console, as the bodies of requests.
const zone = document.querySelector("[data-upload]");
if (zone) {
  const list = zone.querySelector("ul");
  const queue = [];
  let busy = false;
  let failed = false;

  const send = (path, file, line) =>
    new Promise((done) => {
      const bar = line.querySelector("progress");
      const state = line.querySelector("span:last-child");
      const name = encodeURIComponent(zone.dataset.prefix + path);
      const to = zone.dataset.upload;
      const request = new XMLHttpRequest();
      request.open("PUT", `${to}${to.includes("?") ? "&" : "?"}o=${name}`);
      request.setRequestHeader("x-console-csrf", document.body.dataset.csrf);
      if (file.type) request.setRequestHeader("content-type", file.type);
      request.upload.addEventListener("progress", (event) => {
        if (event.lengthComputable && event.total) bar.value = event.loaded / event.total;
      });
      request.addEventListener("loadend", () => {
        const fine = request.status >= 200 && request.status < 300 && !request.responseURL.includes("/login");
        bar.value = fine ? 1 : bar.value;
        state.textContent = fine ? "stored" : request.responseText || "the connection broke";
        failed ||= !fine;
        done();
      });
      request.send(file);
    });

  const work = async () => {
    if (busy) return;
    busy = true;
    for (let next = queue.shift(); next; next = queue.shift()) await send(...next);
    busy = false;
    if (!failed) location.reload();
  };

  const add = (path, file) => {
    const line = document.createElement("li");
    const name = document.createElement("span");
    name.textContent = path;
    const bar = document.createElement("progress");
    bar.value = 0;
    bar.setAttribute("aria-label", path);
    const state = document.createElement("span");
    state.textContent = "waits";
    line.append(name, bar, state);
    list.append(line);
    queue.push([path, file, line]);
  };

  // A folder gives its entries in portions, until one is empty.
  const walk = async (entry) => {
    if (entry.isFile) {
      const file = await new Promise((ok, no) => entry.file(ok, no));
      return add(entry.fullPath.slice(1), file);
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (!some.length) return;
      for (const one of some) await walk(one);
    }
  };

  for (const input of zone.querySelectorAll("input[type=file]")) {
    input.addEventListener("change", () => {
      for (const file of input.files) add(file.webkitRelativePath || file.name, file);
      input.value = "";
      work();
    });
  }
  for (const name of ["dragover", "dragenter"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    for (const entry of entries) await walk(entry);
    work();
  });
}

// Charts: counters are polled, and each interval gives one point.
const charts = document.querySelector("[data-charts]");
if (charts) {
  const POINTS = 120;
  const POLL_MS = 2000;
  const trouble = document.getElementById("charts-trouble");
  const rates = new Map();
  let last = null;

  const text = (value, unit) => {
    if (unit === "ms") return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
    if (unit !== "B") return value.toFixed(value < 10 ? 1 : 0);
    const units = ["B", "kB", "MB", "GB"];
    let at = 0;
    while (value >= 999.5 && at < units.length - 1) {
      value /= 1000;
      at += 1;
    }
    return `${value.toFixed(at && value < 100 ? 1 : 0)} ${units[at]}`;
  };

  const draw = (chart, value) => {
    const points = rates.get(chart) ?? [];
    points.push(value);
    if (points.length > POINTS) points.shift();
    rates.set(chart, points);
    const most = Math.max(...points, 1e-9);
    const from = POINTS - points.length + 1;
    const line = points.map((v, i) => `${from + i},${(38 - (36 * v) / most).toFixed(2)}`);
    chart.querySelector("polyline").setAttribute("points", line.join(" "));
    chart.querySelector(".value").textContent = text(value, chart.dataset.unit);
  };

  const poll = async () => {
    const answer = await fetch(charts.dataset.charts).catch(() => null);
    if (answer?.redirected) return location.reload();
    trouble.hidden = Boolean(answer?.ok);
    if (!answer?.ok) {
      trouble.textContent =
        answer?.status === 403 ? "The charts need the scope metrics:read." : "The node does not answer.";
      last = null;
      return;
    }
    const now = { at: performance.now(), counters: await answer.json() };
    if (last) {
      for (const chart of charts.querySelectorAll("[data-rate]")) {
        const { rate, per } = chart.dataset;
        const grown = now.counters[rate] - last.counters[rate];
        const seconds = (now.at - last.at) / 1000;
        const events = per ? now.counters[per] - last.counters[per] : 0;
        const value = per ? (events > 0 ? (1000 * grown) / events : 0) : grown / seconds;
        draw(chart, Math.max(value, 0));
      }
    }
    last = now;
  };
  poll();
  setInterval(poll, POLL_MS);
}
