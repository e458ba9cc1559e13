// Live pages: the main part is fetched again when something has changed that it shows, and changed in place.
"use strict";
(function () {
  const $ = (id) => document.getElementById(id);
  document.documentElement.classList.add("js");
  const signedIn = document.querySelector(".pages") !== null;

  // ---- times ----
  const zone = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const tickOf = { day: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }), time: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }) };
  if ($("zone")) $("zone").textContent = "Times: " + zone.resolvedOptions().timeZone;
  function showTimes(root) {
    const today = new Date().toDateString();
    for (const t of root.querySelectorAll("time[datetime]")) {
      const d = new Date(t.dateTime);
      if (!isNaN(d)) set(t, (d.toDateString() === today ? clock : "short" in t.dataset ? tickOf.day : zone).format(d));
    }
    for (const t of root.querySelectorAll("[data-time]")) set(t, ("days" in t.dataset ? tickOf.day : tickOf.time).format(new Date(t.dataset.time)));
  }
  function span(ms) {
    const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60);
    return s < 60 ? s + " s" : m < 60 ? m + " min " + (s % 60) + " s" : h < 48 ? h + " h " + (m % 60) + " min" : Math.floor(h / 24) + " d " + (h % 24) + " h";
  }
  function set(node, text) { if (node.textContent !== text) node.textContent = text; }
  function tick() { const now = Date.now(); for (const e of document.querySelectorAll("[data-since]")) set(e, span(now - Number(e.dataset.since)));
    for (const e of document.querySelectorAll("[data-until]")) { const left = Number(e.dataset.until) - now; set(e, left < 1000 ? "" : span(left) + " left"); } }

  // ---- fields for a time ----
  // What is typed is in the zone of the browser. The form sends the instant, and shows it with its offset.
  const pad = (n) => String(n).padStart(2, "0");
  const offsetOf = (d) => { const m = -d.getTimezoneOffset(), a = Math.abs(m); return (m < 0 ? "-" : "+") + pad(Math.floor(a / 60)) + ":" + pad(a % 60); };
  function readTime(field) {
    const d = new Date(field.value), known = field.value !== "" && !isNaN(d);
    field.form.querySelector("[name=at]").value = known ? d.toISOString() : "";
    set(field.form.querySelector("[data-offset]"), known ? zone.format(d) + " " + offsetOf(d) : "in your zone, " + zone.resolvedOptions().timeZone + " " + offsetOf(new Date()));
  }
  function prepareTimes() {
    for (const field of document.querySelectorAll("[data-when]:not([data-ready])")) {
      const d = new Date(field.dataset.when);
      if (!isNaN(d)) field.value = d.getFullYear() + "-" + pad(d.getMonth() + 1) + "-" + pad(d.getDate()) + "T" + pad(d.getHours()) + ":" + pad(d.getMinutes()) + ":" + pad(d.getSeconds());
      field.dataset.ready = "";
      readTime(field);
    }
  }
  document.addEventListener("input", (e) => { if (e.target.matches("[data-when]")) readTime(e.target); });

  // ---- change in place ----
  // morph makes from equal to to. Elements with an id keep their identity, so that focus, selection and what was typed stay.
  // A form with a field of the name id hides its own property.
  const idOf = (e) => e.nodeType === 1 ? e.getAttribute("id") : null;
  function morph(from, to) {
    for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && !(a.name === "open" && from.tagName === "DETAILS") && a.name !== "class") from.removeAttribute(a.name);
    for (const a of to.attributes) {
      if (a.name === "class" && from.classList.contains("at")) continue;
      if (from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
    }
    if (from.tagName === "PROGRESS") from.value = to.value;
    const ids = new Map(), wanted = new Set();
    for (const c of from.children) if (idOf(c)) ids.set(idOf(c), c);
    for (const c of to.children) if (idOf(c)) wanted.add(idOf(c));
    let at = from.firstChild;
    for (const want of [...to.childNodes]) {
      let have = null;
      if (idOf(want)) have = ids.get(idOf(want)) || null;
      else if (want.nodeType === 1) { have = at; while (have && !(have.nodeName === want.nodeName && !idOf(have))) have = have.nextSibling; }
      else if (at && at.nodeType === want.nodeType) have = at;
      if (have && have.nodeName !== want.nodeName) have = null;
      if (!have) { from.insertBefore(want, at); continue; }
      if (have !== at) {
        // What is between is gone, or comes later. Remove what is gone, so that what stays is not moved: a moved element loses focus.
        while (at && at !== have && !wanted.has(idOf(at))) { const next = at.nextSibling; at.remove(); at = next; }
        if (at !== have) from.insertBefore(have, at);
      }
      if (have.nodeType === 3) { if (have.data !== want.data) have.data = want.data; }
      else if (have.nodeType === 1 && !have.hasAttribute("data-keep")) morph(have, want);
      at = have.nextSibling;
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  }

  const live = document.body.dataset.live;
  let dirty = false, busy = false, last = 0, timer = 0, took = 0;
  function concerns(c) {
    if (c.fresh) return true;
    if (live === "any") return true;
    if (live === "locks") return c.locks || c.all || (c.jobs || []).length > 0;
    if (live === "filters") return c.filters || c.all || (c.jobs || []).length > 0;
    // Rules decide why jobs wait.
    if (live === "jobs") return c.all || c.filters || (c.jobs || []).length > 0;
    if (live === "rows") return c.all || c.filters || (c.jobs || []).some((id) => $("job-" + id));
    if (live.startsWith("job:")) { const id = Number(live.slice(4)); return c.all || c.locks || c.filters || (c.jobs || []).includes(id); }
    return false;
  }
  function changed() { dirty = true; plan(); }
  function plan() {
    if (busy || timer || !dirty) return;
    timer = setTimeout(refresh, Math.max(0, Math.max(document.hidden ? 2000 : 250, 8 * took) - (Date.now() - last)));
  }
  const pause = () => new Promise((go) => setTimeout(go)); // a large page is read, prepared and changed in tasks of its own
  async function refresh() {
    timer = 0; dirty = false; busy = true;
    const begin = performance.now();
    try {
      const url = new URL(location.href);
      url.searchParams.delete("done");
      const answer = await fetch(url, { headers: { "X-Lockstep-Live": "1" }, cache: "no-store", redirect: "error" });
      if (answer.status === 401) state.out = true;
      else if (answer.ok) {
        const text = await answer.text();
        const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
        await pause();
        if (next) {
          const notice = $("notice");
          if (notice) next.prepend(document.importNode(notice, true));
          showTimes(next);
          await pause();
          const focus = document.activeElement && document.activeElement.id;
          morph($("main"), next);
          if (focus && document.activeElement === document.body && $(focus)) $(focus).focus({ preventScroll: true });
          prepareTimes(); tick(); mark(); count();
        }
        state.failed = false;
      } else state.failed = answer.status === 502 || answer.status === 503 || answer.status === 504;
    } catch (e) { /* the stream says whether the server is away */ }
    busy = false; last = Date.now(); took = performance.now() - begin;
    banner();
    if (state.failed) setTimeout(changed, 1000);
    plan();
  }

  // ---- banner ----
  const state = { lost: false, down: "", out: false, failed: false };
  let lostSince = 0, bannerTimer = 0;
  function banner() {
    const b = $("banner"), dot = $("live");
    if (!b) return;
    clearTimeout(bannerTimer);
    if (dot) { dot.hidden = false; dot.classList.toggle("off", state.lost || state.out || !!state.down); set(dot, state.lost || state.out ? "not live" : state.down ? "waiting" : "live"); }
    if (!state.lost) lostSince = 0;
    let parts = null;
    if (state.out) parts = ["Your session has ended. ", ["Log in again", "/ui/login?next=" + encodeURIComponent(location.pathname + location.search)]];
    else if (state.lost) {
      lostSince = lostSince || Date.now();
      if (Date.now() - lostSince < 1500) { bannerTimer = setTimeout(banner, 1600); return; }
      parts = ["This node does not answer. The page shows what it knew last."];
      for (const other of others()) parts.push(" ", ["The same page on " + other.name, other.url + location.pathname.replace(/^\/ui\/?/, "") + location.search]);
    } else if (state.down || state.failed) parts = [state.down || "The queue does not answer.", " The page goes on by itself when there is a master."];
    if (!parts) { b.hidden = true; return; }
    const line = document.createElement("span");
    for (const p of parts) {
      if (typeof p === "string") line.append(p);
      else { const a = document.createElement("a"); a.textContent = p[0]; a.href = p[1]; line.append(a); }
    }
    if (b.textContent !== line.textContent || b.hidden) b.replaceChildren(line);
    b.hidden = false;
  }
  // The consoles of the other nodes, as this browser knew them last.
  function others() { try { return (JSON.parse(localStorage.getItem("lockstep-nodes-" + location.host)) || []).filter((n) => new URL(n.url).host !== location.host); } catch (e) { return []; } }
  async function learn() {
    try {
      const r = await fetch("/ui/consoles", { cache: "no-store" });
      if (r.ok) localStorage.setItem("lockstep-nodes-" + location.host, JSON.stringify(await r.json()));
    } catch (e) { /* next time */ }
  }

  // ---- log ----
  const log = $("log");
  const logMax = 20000;
  let after = log ? Number(log.dataset.after) : 0;
  const open = {}, runs = {}; // by stream: the line that goes on, and output that is not text
  if (log) for (const line of log.querySelectorAll("[data-stream]")) runs[line.dataset.stream] = line.dataset.bytes ? { line, bytes: Number(line.dataset.bytes), entries: Number(line.dataset.run) } : null;
  function bytesText(n) {
    let unit = "";
    let size = n;
    for (const next of ["kB", "MB", "GB", "TB"]) if (size >= 1000) { size /= 1000; unit = next; }
    return n === 1 ? "1 byte" : unit === "" ? n + " bytes" : size.toFixed(1) + " " + unit;
  }
  // binary shows an entry that is not text, and short texts between such entries, as one line. It returns the line if it is new.
  function binary(e) {
    const run = runs[e.s], fresh = !run;
    if (!e.b && (fresh || run.entries < 3 || !e.f)) { runs[e.s] = null; return undefined; }
    const r = runs[e.s] = run || { line: document.createElement("div"), bytes: 0, entries: 0 };
    r.bytes += e.b || e.f; r.entries++;
    open[e.s] = null;
    if (fresh) {
      const a = document.createElement("a");
      a.href = "/ui/jobs/" + log.dataset.job + "/log?stream=" + e.s; a.textContent = "download";
      r.line.className = "l binary " + e.s; r.line.append("", a);
    }
    r.line.firstChild.data = bytesText(r.bytes) + " that are not text: ";
    return fresh ? r.line : null;
  }
  function addEntries(entries) {
    const follow = $("follow").checked;
    const fragment = document.createDocumentFragment();
    const search = $("log-search").value.toLowerCase();
    for (const e of entries) {
      if (e.n <= after) continue;
      after = e.n;
      const bytes = binary(e);
      if (bytes !== undefined) { if (bytes) fragment.append(bytes); continue; }
      let line = open[e.s];
      if (!line) { line = document.createElement("div"); line.className = "l " + e.s; line.dataset.n = e.n; fragment.append(line); }
      for (const p of e.p || []) {
        if (!p.c) { line.append(p.x); continue; }
        const s = document.createElement("span"); s.className = p.c; s.textContent = p.x; line.append(s);
      }
      open[e.s] = e.o && line.textContent.length < 20000 ? line : null;
      if (search) line.classList.toggle("hit", line.textContent.toLowerCase().includes(search));
    }
    log.append(fragment);
    while (log.childElementCount > logMax) log.firstElementChild.remove();
    if (follow) log.scrollTop = log.scrollHeight;
  }
  let searchTimer = 0;
  function search() {
    const text = $("log-search").value.toLowerCase();
    let first = null, found = 0;
    for (const line of log.children) {
      const hit = text !== "" && line.textContent.toLowerCase().includes(text);
      line.classList.toggle("hit", hit);
      if (hit) { found++; first = first || line; }
    }
    set($("log-found"), text === "" ? "" : found + (found === 1 ? " line" : " lines"));
    if (first) { $("follow").checked = false; first.scrollIntoView({ block: "nearest" }); }
  }
  if (log) {
    log.scrollTop = log.scrollHeight;
    $("log-search").addEventListener("input", () => { clearTimeout(searchTimer); searchTimer = setTimeout(search, 150); });
    log.addEventListener("scroll", () => { const end = log.scrollHeight - log.scrollTop - log.clientHeight < 40; if (!end && $("follow").checked) $("follow").checked = false; });
    $("follow").addEventListener("change", () => { if ($("follow").checked) log.scrollTop = log.scrollHeight; });
  }

  // ---- stream ----
  if (signedIn) {
    const send = window.lockstepStream("/ui/assets/" + document.body.dataset.stream.split("/").pop(), (m) => {
      if (m.kind === "state") { Object.assign(state, m.data); banner(); }
      else if (m.kind === "change") {
        if (!live || !concerns(m.data)) return;
        changed();
        if (m.data.filters) setTimeout(changed, 1000); // a changed rule decides about the jobs of a large queue a little later
      }
      else if (m.kind === "log" && log && m.data.job === Number(log.dataset.job)) addEntries(m.data.entries);
      else if (m.kind === "logend" && log && m.data.job === Number(log.dataset.job)) changed();
    });
    const want = () => send({ kind: "want", logs: log ? [[Number(log.dataset.job), after]] : [] });
    want();
    setInterval(() => send({ kind: "alive" }), 30000);
    addEventListener("pagehide", () => send({ kind: "bye" }));
    addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { send({ kind: "alive" }); clearTimeout(timer); timer = 0; plan(); } });
    learn(); setInterval(learn, 60000);
    banner();
  }

  // ---- narrow windows ----
  const menu = $("menu");
  if (menu) menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(document.querySelector(".top").classList.toggle("open"))));
  const chart = document.querySelector(".gantt");
  if (chart) chart.parentElement.scrollLeft = chart.parentElement.scrollWidth; // the newest end

  // ---- preview of a rule ----
  const rule = $("rule-form");
  let previewTimer = 0, previewNumber = 0;
  async function preview() {
    const number = ++previewNumber;
    try {
      const r = await fetch("/ui/filters/preview?part=1", { method: "POST", body: new URLSearchParams(new FormData(rule)) });
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      if (r.ok && number === previewNumber) $("preview").replaceChildren(...[...doc.body.childNodes].map((n) => document.importNode(n, true)));
    } catch (e) { /* the button shows it, too */ }
  }
  if (rule) rule.addEventListener("input", () => { clearTimeout(previewTimer); previewTimer = setTimeout(preview, 300); });

  // ---- selection and keys ----
  function count() {
    const picked = $("picked");
    if (!picked) return;
    const boxes = picks().length, n = picks(":checked").length;
    set(picked, n + (n === 1 ? " job selected" : " jobs selected"));
    $("pick-all").checked = n > 0 && n === boxes; $("pick-all").indeterminate = n > 0 && n < boxes;
  }
  const picks = (state) => document.querySelectorAll("#list tbody input" + (state || ""));
  function pickAll(on) { for (const box of picks()) box.checked = on; count(); }
  document.addEventListener("change", (e) => { if (e.target.id === "pick-all") pickAll(e.target.checked); else if (e.target.closest("#list")) count(); });
  let current = "";
  function mark() { for (const r of document.querySelectorAll("#list tbody tr")) r.classList.toggle("at", r.id === current); }
  function move(step) {
    const rows = [...document.querySelectorAll("#list tbody tr")];
    if (rows.length === 0) return;
    let i = rows.findIndex((r) => r.id === current) + step;
    if (current === "") i = 0;
    const row = rows[Math.max(0, Math.min(rows.length - 1, i))];
    current = row.id; mark();
    row.querySelector("a").focus(); row.scrollIntoView({ block: "nearest" });
  }
  const places = { o: "/ui/", j: "/ui/jobs", t: "/ui/timeline", l: "/ui/locks", f: "/ui/filters", n: "/ui/nodes", s: "/ui/opcodes", r: "/ui/order", c: "/ui/schedules", a: "/ui/audit", e: "/ui/settings" };
  let chord = 0;
  document.addEventListener("keydown", (e) => {
    if (!signedIn || e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) && e.target.type !== "checkbox") return;
    if (Date.now() - chord < 1000 && places[e.key]) { location.href = places[e.key]; return; }
    chord = 0;
    const search = document.querySelector("[data-search]");
    if (e.key === "g") chord = Date.now();
    else if (e.key === "j") move(1);
    else if (e.key === "k") move(-1);
    else if (e.key === "?") location.href = "/ui/help";
    else if (e.key === "/" && (search || $("log-search"))) { e.preventDefault(); (search || $("log-search")).focus(); }
    else if (e.key === "[" || e.key === "]") { const to = document.querySelector(e.key === "]" ? "#pager [rel=next]" : "#pager [rel=first]"); if (to) location.href = to.href; }
    else if (e.key === "X" && $("pick-all")) $("pick-all").click();
    else if (e.key === "Escape" && $("bulk")) pickAll(false);
    else if (e.key === "a" && $("bulk") && picks(":checked").length > 0) { e.preventDefault(); $("bulk").querySelector("select").focus(); }
    else if (e.key === "x" && current) { const box = $("pick-" + current.slice(4)); if (box) { box.click(); } }
  });

  showTimes(document); prepareTimes(); tick(); count();
  setInterval(tick, 1000);
})();
