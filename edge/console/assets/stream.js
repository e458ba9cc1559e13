// One stream of events for all pages of this browser. It runs in a SharedWorker; where there is none, in each page.
"use strict";
(function () {
  // Source keeps one EventSource open for its listeners, which follow logs as well.
  class Source {
    constructor() {
      this.ports = new Map(); // listener -> {send, logs: Map job -> serial, seen}
      this.es = null; this.key = ""; this.timer = 0; this.state = {}; this.positions = new Map(); this.retry = 0;
    }
    join(port, send) { this.ports.set(port, { send, logs: new Map(), seen: Date.now() }); }
    leave(port) { this.ports.delete(port); this.plan(); }
    heard(port, m) {
      const p = this.ports.get(port);
      if (!p) return;
      p.seen = Date.now();
      if (m.kind === "bye") { this.leave(port); return; }
      if (m.kind === "want") {
        p.logs = new Map(m.logs);
        for (const [job, serial] of p.logs) this.positions.set(job, Math.min(serial, this.positions.has(job) ? this.positions.get(job) : serial));
        p.send({ kind: "state", data: this.state });
        this.plan(p.logs.size > 0);
      }
    }
    plan(again) {
      if (again) this.key = "";
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.connect(), 30);
    }
    connect() {
      const now = Date.now();
      for (const [port, p] of this.ports) if (now - p.seen > 300000) this.ports.delete(port);
      if (this.ports.size === 0) { this.close(); return; }
      const jobs = new Set();
      for (const p of this.ports.values()) for (const job of p.logs.keys()) jobs.add(job);
      const key = [...jobs].sort().join();
      if (this.es && key === this.key && this.es.readyState !== 2) return;
      this.close();
      this.key = key;
      const query = [...jobs].slice(0, 20).map((j) => "log=" + j + "." + (this.positions.get(j) || 0)).join("&");
      const es = new EventSource("/ui/events" + (query ? "?" + query : ""));
      this.es = es;
      es.addEventListener("open", () => { this.retry = 0; });
      es.addEventListener("open", (e) => { if (e.data !== undefined) { this.set({ lost: false, down: "" }); this.all({ kind: "change", data: { all: true, locks: true, filters: true, fresh: true } }); } });
      es.addEventListener("change", (e) => this.all({ kind: "change", data: JSON.parse(e.data) }));
      es.addEventListener("state", (e) => this.set({ down: JSON.parse(e.data).down }));
      es.addEventListener("logout", () => { this.set({ out: true }); this.close(); });
      es.addEventListener("log", (e) => {
        const d = JSON.parse(e.data);
        this.positions.set(d.job, d.entries[d.entries.length - 1].n);
        for (const p of this.ports.values()) if (p.logs.has(d.job)) p.send({ kind: "log", data: d });
      });
      es.addEventListener("logend", (e) => { const d = JSON.parse(e.data); for (const p of this.ports.values()) if (p.logs.has(d.job)) { p.logs.delete(d.job); p.send({ kind: "logend", data: d }); } });
      es.addEventListener("error", () => {
        if (this.es !== es) return;
        this.set({ lost: true });
        this.close(); // connect by ourselves: the address names the logs' positions of now
        this.retry = Math.min(this.retry + 1, 5);
        fetch("/ui/events", { method: "HEAD", cache: "no-store" }).then((r) => { if (r.status === 401) this.set({ out: true }); }, () => {});
        setTimeout(() => this.plan(), 300 * this.retry);
      });
    }
    close() { if (this.es) this.es.close(); this.es = null; this.key = ""; }
    set(s) { this.state = Object.assign({}, this.state, s); this.all({ kind: "state", data: this.state }); }
    all(m) { for (const p of this.ports.values()) p.send(m); }
  }
  if (typeof SharedWorkerGlobalScope !== "undefined") {
    const source = new Source();
    self.onconnect = (e) => {
      const port = e.ports[0];
      source.join(port, (m) => port.postMessage(m));
      port.onmessage = (m) => source.heard(port, m.data);
    };
  } else {
    // link connects a page: in(message) is called with what comes, and the result sends.
    window.lockstepStream = function (url, receive) {
      if (typeof SharedWorker !== "undefined") {
        const worker = new SharedWorker(url, "lockstep");
        worker.port.onmessage = (m) => receive(m.data);
        return (m) => worker.port.postMessage(m);
      }
      const source = new Source(), me = {};
      source.join(me, receive);
      return (m) => source.heard(me, m);
    };
  }
})();
