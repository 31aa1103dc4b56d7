// Uploads: small files go as one request each, large ones in parts. A request that fails because of a broken
// connection or an overloaded server is sent again; parts that are stored are not. An upload that is begun is noted
// in the browser, so that it goes on after a reload once the same file is chosen.

const PARTS_FROM_BYTES = 16 * 1024 * 1024;
const FILES_AT_ONCE = 4;
const PARTS_AT_ONCE = 3;
const ATTEMPTS = 10;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30000;
const SHOWN_DONE = 20;
const NOTE = "archipel-upload:";
const DONE = "archipel-uploaded";

const zone = document.querySelector("[data-upload]");

class Refused extends Error {}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const below = (path, query) => `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams(query)}`;

// One request. Its answer, or an error: a Refused if it makes no sense to repeat it.
const once = (method, url, body, type, progress) =>
  new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.setRequestHeader("x-console-csrf", document.body.dataset.csrf);
    if (type) request.setRequestHeader("content-type", type);
    request.upload.addEventListener("progress", (event) => progress?.(event.loaded));
    request.addEventListener("loadend", () => {
      const { status } = request;
      if (request.responseURL.endsWith("/login")) return fail(new Refused("log in again"));
      if (status >= 200 && status < 300) return done(request.responseText);
      const again = status === 0 || status === 408 || status === 429 || status >= 500;
      const why = request.responseText || "the connection broke";
      const error = again ? new Error(why) : new Refused(why);
      error.status = status;
      fail(error);
    });
    request.send(body);
  });

// A request that is repeated after growing pauses.
const ask = async (method, url, { body = null, type = "", progress, state } = {}) => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once(method, url, body, type, progress);
    } catch (error) {
      if (error instanceof Refused || attempt === ATTEMPTS) throw error;
      progress?.(0);
      state?.("tries again");
      await pause(Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS));
      state?.("");
    }
  }
};

// Calls a function for each item, for so many at once. The first error ends it.
const forEach = async (items, atOnce, work) => {
  const left = items[Symbol.iterator]();
  let broken = false;
  const run = async () => {
    for (let next = left.next(); !next.done && !broken; next = left.next()) {
      try {
        await work(next.value);
      } catch (error) {
        broken = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
};

// Notes about uploads that are not complete. Browsers may keep none.
const notes = {
  name: (key, file) => `${NOTE}${zone.dataset.bucket}:${file.size}:${file.lastModified}:${key}`,
  get: (name) => {
    try {
      return JSON.parse(localStorage.getItem(name));
    } catch {
      return null;
    }
  },
  set: (name, value) => {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      // Then an upload begins again after a reload.
    }
  },
  remove: (name) => {
    try {
      localStorage.removeItem(name);
    } catch {
      // There is none.
    }
  },
  all: () => {
    try {
      const of = `${NOTE}${zone.dataset.bucket}:`;
      return Object.keys(localStorage).filter((name) => name.startsWith(of));
    } catch {
      return [];
    }
  },
};

// The text about files that were stored before the page was loaded again. It is shown once.
const done = {
  keep: (text) => {
    try {
      sessionStorage.setItem(DONE, text);
    } catch {
      // Then the list of objects tells it alone.
    }
  },
  take: () => {
    try {
      const text = sessionStorage.getItem(DONE);
      sessionStorage.removeItem(DONE);
      return text ?? "";
    } catch {
      return "";
    }
  },
};

// Returns the upload of a file and the tags of its parts that are stored, by number.
const resume = async (key, file, note) => {
  const known = notes.get(note);
  if (known) {
    try {
      const url = below(zone.dataset.parts, { o: key, u: known.id });
      const { parts } = JSON.parse(await ask("GET", url));
      return { ...known, stored: new Map(parts.map((part) => [part.number, part.etag])) };
    } catch (error) {
      if (error.status !== 404) throw error;
      // The upload was given up, or it expired.
      notes.remove(note);
    }
  }
  const url = below(zone.dataset.parts, { o: key, bytes: file.size });
  const begun = JSON.parse(await ask("POST", url, { type: file.type }));
  notes.set(note, { ...begun, key });
  return { ...begun, stored: new Map() };
};

const sendParts = async (key, file, line) => {
  const note = notes.name(key, file);
  const { id, part_bytes: size, stored } = await resume(key, file, note);
  const numbers = Array.from({ length: Math.ceil(file.size / size) }, (_, at) => at + 1);
  const tags = new Map(stored);
  const sent = new Map(numbers.filter((n) => stored.has(n)).map((n) => [n, size]));
  const show = () => line.progress(Math.min(1, [...sent.values()].reduce((a, b) => a + b, 0) / file.size));
  show();
  const missing = numbers.filter((n) => !stored.has(n));
  await forEach(missing, PARTS_AT_ONCE, async (n) => {
    const body = file.slice((n - 1) * size, n * size);
    const progress = (bytes) => {
      sent.set(n, bytes);
      show();
    };
    const url = below(zone.dataset.parts, { o: key, u: id, n });
    const { etag } = JSON.parse(await ask("PUT", url, { body, progress, state: line.state }));
    tags.set(n, etag);
  });
  const complete = zone.dataset.parts.replace(/\/parts(?=\?|$)/, "/parts/complete");
  // With the tags the server knows a completion again whose answer got lost.
  const body = JSON.stringify(numbers.map((number) => ({ number, etag: tags.get(number) })));
  try {
    const url = below(complete, { o: key, u: id, bytes: file.size });
    await ask("POST", url, { body, type: "application/json", state: line.state });
    notes.remove(note);
  } catch (error) {
    // An upload that cannot be completed is none to go on with.
    if (error.status === 400 || error.status === 404) notes.remove(note);
    throw error;
  }
};

const sendWhole = (key, file, line) =>
  ask("PUT", below(zone.dataset.upload, { o: key }), {
    body: file,
    type: file.type,
    progress: (bytes) => line.progress(file.size ? bytes / file.size : 1),
    state: line.state,
  });

if (zone) {
  const list = zone.querySelector("ul");
  const summary = zone.querySelector("[role=status]");
  summary.textContent = done.take();
  const queue = [];
  const all = { files: 0, stored: 0, failed: 0, running: 0 };

  const tell = () => {
    const failed = all.failed ? `, ${all.failed} failed` : "";
    summary.textContent = all.files ? `${all.stored} of ${all.files} files stored${failed}` : "";
  };

  const lineOf = (path) => {
    const item = document.createElement("li");
    const name = document.createElement("span");
    name.textContent = path;
    const bar = document.createElement("progress");
    bar.value = 0;
    bar.setAttribute("aria-label", path);
    const state = document.createElement("span");
    item.append(name, bar, state);
    list.append(item);
    return {
      progress: (part) => {
        bar.value = part;
      },
      state: (text) => {
        state.textContent = text;
      },
      remove: () => item.remove(),
    };
  };

  const send = async ([path, file]) => {
    const line = lineOf(path);
    try {
      // It is encoded: a page has other line ends than a key.
      const key = decodeURIComponent(zone.dataset.prefix) + path;
      await (file.size >= PARTS_FROM_BYTES ? sendParts : sendWhole)(key, file, line);
      all.stored += 1;
      line.progress(1);
      line.state("stored");
      if (all.files > SHOWN_DONE) line.remove();
    } catch (error) {
      all.failed += 1;
      line.state(error.message);
    }
    tell();
  };

  const run = async () => {
    all.running += 1;
    for (let next = queue.shift(); next; next = queue.shift()) await send(next);
    all.running -= 1;
    if (all.running || !all.files || all.failed) return;
    done.keep(summary.textContent);
    location.reload();
  };

  const work = () => {
    tell();
    for (let free = FILES_AT_ONCE - all.running; free > 0; free -= 1) run();
  };

  addEventListener("beforeunload", (event) => {
    if (all.running && all.stored + all.failed < all.files) event.preventDefault();
  });

  const add = (path, file) => {
    all.files += 1;
    queue.push([path, file]);
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

  // The notes that an earlier visit left.
  for (const note of notes.all()) {
    const known = notes.get(note);
    if (!known) continue;
    const item = document.createElement("li");
    const text = document.createElement("span");
    text.textContent = `${known.key} is not complete. Choose the same file again in its folder, and the upload goes on.`;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Give it up";
    button.setAttribute("aria-label", `Give it up: ${known.key}`);
    button.addEventListener("click", async () => {
      const url = below(zone.dataset.parts, { o: known.key, u: known.id });
      const gone = await ask("DELETE", url).then(
        () => true,
        (error) => error.status === 404 || ((text.textContent = error.message), false),
      );
      if (gone) {
        notes.remove(note);
        item.remove();
      }
    });
    item.append(text, button);
    list.append(item);
  }
}
