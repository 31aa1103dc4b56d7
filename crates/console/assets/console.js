// The script of all pages. Every page works without it, except uploads and charts.

import "./upload.js";

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

// Parts of pages that are fetched again and again. The server escapes what it sends.
const LIVE_MS = 3000;
for (const part of document.querySelectorAll("[data-live]")) {
  let asks = false;
  const renew = async () => {
    if (asks || document.hidden || part.contains(document.activeElement)) return;
    asks = true;
    const answer = await fetch(part.dataset.live).catch(() => null);
    asks = false;
    if (answer?.redirected) return location.reload();
    if (!answer?.ok) return;
    const text = await answer.text();
    if (part.contains(document.activeElement)) return;
    const open = new Set([...part.querySelectorAll("details[open]")].map((d) => d.id));
    part.innerHTML = text;
    for (const details of part.querySelectorAll("details")) details.open = open.has(details.id);
  };
  if (part.querySelector("[data-soon]")) renew();
  setInterval(renew, LIVE_MS);
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
    // As the server shows sizes: in powers of 1024, with one decimal.
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (value >= 1023.95 && at < units.length - 1) {
      value /= 1024;
      at += 1;
    }
    return `${value.toFixed(at ? 1 : 0)} ${units[at]}`;
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
