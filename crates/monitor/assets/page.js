// The page of a running Pagewell: asks each second for /stat.json (what is) and for what is new
// in /history.json (what was), and shows both. Reads only, from the place it came from.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const make = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const put = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  // Numbers as people read them.

  const digits = (value) =>
    value === 0 ? "0" : value < 9.95 ? value.toFixed(2) : value < 99.5 ? value.toFixed(1) : value.toFixed(0);
  const scaled = (value, step, units) => {
    let unit = 0;
    while (Math.abs(value) >= step * 0.9995 && unit < units.length - 1) {
      value /= step;
      unit += 1;
    }
    return [value, units[unit]];
  };
  const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const bytes = (value) => {
    const [number, unit] = scaled(value, 1024, BINARY);
    return `${unit === "B" ? Math.round(number) : digits(number)} ${unit}`;
  };
  const short = (value) => {
    const [number, unit] = scaled(value, 1000, ["", " k", " M", " G", " T"]);
    return (unit === "" && Number.isInteger(number) ? String(number) : digits(number)) + unit;
  };
  const time = (seconds) => {
    if (seconds === 0) return "0 s";
    const [number, unit] = scaled(seconds * 1e9, 1000, ["ns", "µs", "ms", "s"]);
    return `${digits(number)} ${unit}`;
  };
  const SHOW = {
    "bytes": bytes,
    "bytes/s": (value) => `${bytes(value)}/s`,
    "1/s": (value) => `${short(value)}/s`,
    "ratio": (value) => `${digits(value * 100)} %`,
    "seconds": time,
    "count": short,
  };
  const show = (unit, value) => (value === null || value === undefined ? "–" : SHOW[unit](value));
  const uptime = (seconds) => {
    const whole = Math.floor(seconds);
    const [days, hours, minutes] = [86400, 3600, 60].map((each) => Math.floor(whole / each));
    if (days) return `${days} d ${hours % 24} h`;
    if (hours) return `${hours} h ${minutes % 60} min`;
    if (minutes) return `${minutes} min ${whole % 60} s`;
    return `${whole} s`;
  };
  const two = (number) => String(number).padStart(2, "0");
  const clock = (seconds, withSeconds = true) => {
    const at = new Date(seconds * 1000);
    const text = `${two(at.getHours())}:${two(at.getMinutes())}`;
    return withSeconds ? `${text}:${two(at.getSeconds())}` : text;
  };
  const day = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  };
  const words = (name) => name.replace(/^pagewell_/, "").replace(/_total$/, "").replaceAll("_", " ");

  // What is kept of the history.

  const SPANS = {
    minute: { seconds: 60, ask: 1 },
    hour: { seconds: 3600, ask: 5 },
    day: { seconds: 86400, ask: 60 },
  };
  let span = "minute";
  let kept = { times: [], series: new Map(), step: 1 };
  // Series that had a value other than 0 once: others are not drawn unless the process is theirs.
  const alive = new Set();
  const values = (name) => kept.series.get(name) ?? [];
  const last = (name) => values(name).at(-1) ?? null;

  const take = (part) => {
    const fresh = part.times.findIndex((at) => at > (kept.times.at(-1) ?? 0));
    const from = fresh < 0 ? part.times.length : fresh;
    // One point more than is shown, so that lines come from the edge.
    const oldest = (part.times.at(-1) ?? kept.times.at(-1) ?? 0) - SPANS[span].seconds - 2 * part.interval_seconds;
    const drop = kept.times.findIndex((at) => at >= oldest);
    const cut = drop < 0 ? kept.times.length : drop;
    kept.step = part.interval_seconds;
    kept.times = kept.times.slice(cut).concat(part.times.slice(from));
    for (const { name, values: more } of part.series) {
      const all = (kept.series.get(name) ?? []).slice(cut).concat(more.slice(from));
      kept.series.set(name, all);
      if (all.some((value) => value)) alive.add(name);
    }
  };

  // The plots.

  const PLOTS = [
    { title: "Throughput", unit: "bytes/s", serve: [["server_sent", "Sent to clients"], ["server_received", "Received from clients"]],
      mount: [["mount_read", "Read by programs"], ["mount_written", "Written by programs"]],
      either: [["client_received", "Fetched from other servers"], ["client_sent", "Sent to other servers"]] },
    { title: "Calls", unit: "1/s", serve: [["server_reads", "Reads"], ["server_writes", "Writes"], ["server_others", "Others"], ["server_errors", "Errors"]],
      mount: [["mount_reads", "Reads"], ["mount_writes", "Writes"], ["mount_others", "Names and attributes"]],
      either: [["client_calls", "Calls to other servers"]] },
    { title: "Latency", unit: "seconds", logarithmic: true, choices: [
      ["Reads", "read"], ["Writes", "write"], ["Other calls", "other"], ["Calls to other servers", "client"]],
      of: (kind) => [[`${kind}_p50`, "Half of them within"], [`${kind}_p99`, "99 of 100 within"], [`${kind}_p999`, "999 of 1000 within"]] },
    { title: "Found in memory", unit: "ratio", either: [["cache_hit_ratio", "Pages of the cache"], ["file_handle_hit_ratio", "Open files of directories"]] },
    { title: "Storage", unit: "bytes/s", either: [["device_read", "Read from devices"], ["device_written", "Written to devices"]], always: ["device_read", "device_written"] },
    { title: "Queues", unit: "count", either: [["device_queue", "Requests to devices"], ["calls_waiting", "Calls that wait for storage"], ["client_in_flight", "Calls to other servers"]], always: ["device_queue", "calls_waiting"] },
    { title: "Read ahead", unit: "bytes/s", either: [["read_ahead_useful", "Useful"], ["read_ahead_wasted", "Wasted"]], always: ["read_ahead_useful", "read_ahead_wasted"] },
    { title: "Dirty memory", unit: "bytes", either: [["dirty", "Not on the device yet"], ["kept", "Written, waits for a flush"]], always: ["dirty", "kept"] },
    { title: "Memory of the process", unit: "bytes", either: [["resident", "Resident"]], always: ["resident"] },
  ];
  // Dashes tell lines apart where colours do not.
  const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const line = (number) => number % DASHES.length;

  const SVG = "http://www.w3.org/2000/svg";
  const sample = (number) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("width", 28);
    svg.setAttribute("height", 8);
    svg.setAttribute("aria-hidden", "true");
    const drawn = document.createElementNS(SVG, "line");
    for (const [key, value] of Object.entries({ x1: 0, x2: 28, y1: 4, y2: 4, "stroke-width": 2.5,
      stroke: color(`--series-${line(number)}`), "stroke-dasharray": DASHES[line(number)].join(" ") })) drawn.setAttribute(key, value);
    svg.append(drawn);
    return svg;
  };

  // Steps of axes that are whole in binary units, or in nanoseconds.
  const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
  const WHOLE_STEPS = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
  const powersOfTen = (_plot, _axis, low, high) => {
    const first = Math.round(Math.log10(low));
    const count = Math.round(Math.log10(high)) - first + 1;
    return Array.from({ length: count }, (_, power) => 10 ** (first + power));
  };
  const steps = (unit, logarithmic) => {
    if (logarithmic) return { splits: powersOfTen };
    if (unit.startsWith("bytes")) return { incrs: BINARY_STEPS };
    return unit === "count" ? { incrs: WHOLE_STEPS } : {};
  };
  const ticks = (plot, splits, found) => splits.map((at) => clock(at, found < 60));

  class Plot {
    constructor(kind, process) {
      this.kind = kind;
      this.choice = kind.choices?.[0][1];
      this.process = process;
      const id = kind.title.toLowerCase().replaceAll(" ", "-");
      this.title = make("h3", { id: `plot-${id}` }, kind.title);
      this.toggle = make("button", { type: "button", "aria-expanded": "false", "aria-controls": `table-${id}` }, "Table");
      this.toggle.append(make("span", { class: "unseen" }, ` of ${kind.title}`));
      this.empty = make("p", { class: "empty", hidden: "" }, "Nothing yet");
      this.area = make("div", { class: "plot", tabindex: "0", role: "group", "aria-roledescription": "plot",
        "aria-labelledby": `plot-${id}`, "aria-describedby": "plot-help" }, this.empty);
      this.legend = make("ul", { class: "legend" });
      this.table = make("table", {}, make("caption", { class: "unseen" }, kind.title), make("thead"), make("tbody"));
      this.box = make("div", { class: "scroll tall", id: `table-${id}`, tabindex: "0", role: "region", "aria-label": `Table of ${kind.title}`, hidden: "" }, this.table);
      const caption = make("figcaption", {}, this.title);
      if (kind.choices) caption.append(this.picker(id));
      caption.append(this.toggle);
      this.figure = make("figure", { class: "card" }, caption, this.area, this.legend, this.box);
      this.toggle.addEventListener("click", () => {
        this.box.hidden = !this.box.hidden;
        this.toggle.setAttribute("aria-expanded", String(!this.box.hidden));
        this.tabulate();
      });
      this.area.addEventListener("keydown", (event) => this.move(event));
    }

    picker(id) {
      const options = this.kind.choices.map(([text, value]) => make("option", { value }, text));
      const select = make("select", { "aria-label": "Latency of", id: `choice-${id}` }, ...options);
      select.addEventListener("change", () => {
        this.choice = select.value;
        this.update();
      });
      return select;
    }

    wanted() {
      const kind = this.kind;
      if (kind.of) return kind.of(this.choice);
      const own = kind[this.process] ?? [];
      const other = (kind.either ?? []).filter(([name]) => alive.has(name) || kind.always?.includes(name));
      return own.concat(other);
    }

    // Draws anew when lines or colours change.
    draw(lines) {
      this.lines = lines;
      this.drawn?.destroy();
      const { unit, logarithmic } = this.kind;
      const axis = { stroke: color("--quiet"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      const options = {
        width: this.area.clientWidth || 320,
        height: 190,
        padding: [8, 26, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, sync: { key: "pagewell" }, points: { size: 7 }, y: false },
        scales: {
          x: { time: true, range: () => this.window() },
          y: logarithmic
            ? { distr: 3, range: (_, low, high) => (low > 0 ? [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 1e-9)] : [1e-5, 1e-2]) }
            : { range: (_, low, high) => [0, unit === "ratio" ? 1 : high > 0 ? high * 1.08 : 1] },
        },
        axes: [
          { ...axis, space: 70, size: 26, values: (plot, splits, _axis, _space, found) => ticks(plot, splits, found) },
          { ...axis, size: 76, ...steps(unit, logarithmic),
            values: (_, splits) => splits.map((value) => (value === null ? null : tick(unit, value))) },
        ],
        series: [{}].concat(lines.map(([, label], number) => ({
          label, stroke: color(`--series-${line(number)}`), width: 2, dash: DASHES[line(number)],
          fill: number === 0 && lines.length < 3 && !logarithmic ? `${color("--series-0")}1f` : undefined,
        }))),
        hooks: { setCursor: [(plot) => this.point(plot.cursor.idx)] },
      };
      this.drawn = new uPlot(options, this.data(), this.area);
      this.legend.replaceChildren(...lines.map(([, label], number) => make("li", {}, sample(number), make("span", {}, label), make("b", {}, "–"))));
    }

    window() {
      const end = kept.times.at(-1) ?? Date.now() / 1000;
      return [end - SPANS[span].seconds, end];
    }

    data() {
      const none = kept.times.map(() => null);
      return [kept.times, ...this.lines.map(([name]) => kept.series.get(name) ?? none)];
    }

    update(again = false) {
      const lines = this.wanted();
      const same = this.lines?.length === lines.length && lines.every(([name], number) => name === this.lines[number][0]);
      if (!same || again) this.draw(lines);
      else this.drawn.setData(this.data());
      this.empty.hidden = lines.some(([name]) => values(name).some((value) => value !== null));
      this.point(this.drawn.cursor.idx);
      this.tabulate();
    }

    resize() {
      if (this.drawn && this.area.clientWidth) this.drawn.setSize({ width: this.area.clientWidth, height: 190 });
    }

    // Shows in the legend the values at the cursor, or the latest ones.
    point(index) {
      [...this.legend.children].forEach((item, number) => {
        const all = values(this.lines[number][0]);
        put(item.lastChild, show(this.kind.unit, all[index ?? all.length - 1]));
      });
    }

    move(event) {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
      const step = steps[event.key];
      if (step === undefined || !kept.times.length) return;
      event.preventDefault();
      const end = kept.times.length - 1;
      const index = Math.min(end, Math.max(0, (this.drawn.cursor.idx ?? end) + step));
      this.drawn.setCursor({ left: this.drawn.valToPos(kept.times[index], "x"), top: 10 });
      const spoken = this.lines.map(([name, label]) => `${label} ${show(this.kind.unit, values(name)[index])}`);
      put($("#spoken"), `${clock(kept.times[index])}: ${spoken.join(", ")}`);
    }

    tabulate() {
      if (this.box.hidden) return;
      const { unit } = this.kind;
      const head = make("tr", {}, make("th", { scope: "col" }, "Until"), ...this.lines.map(([, label]) => make("th", { scope: "col", class: "number" }, label)));
      const row = (title, cells) => make("tr", {}, make("th", { scope: "row" }, title), ...cells.map((cell) => make("td", { class: "number" }, cell)));
      const known = this.lines.map(([name]) => values(name).filter((value) => value !== null));
      const summary = (title, of) => row(title, known.map((all) => show(unit, all.length ? of(all) : null)));
      const rows = [
        summary("Highest", (all) => all.reduce((one, other) => Math.max(one, other))),
        summary("Lowest", (all) => all.reduce((one, other) => Math.min(one, other))),
      ];
      if (unit !== "seconds") rows.push(summary("Mean", (all) => all.reduce((one, other) => one + other) / all.length));
      // The newest first, 30 at most.
      const every = Math.max(1, Math.ceil(kept.times.length / 30));
      for (let at = kept.times.length - 1; at >= 0; at -= every) {
        rows.push(row(clock(kept.times[at]), this.lines.map(([name]) => show(unit, values(name)[at]))));
      }
      $("thead", this.table).replaceChildren(head);
      $("tbody", this.table).replaceChildren(...rows);
    }
  }

  const tick = (unit, value) => {
    if (unit === "ratio") return `${Math.round(value * 100)} %`;
    const [, text, rest] = /^([\d.–-]+)(.*)$/.exec(SHOW[unit](value)) ?? [null, String(value), ""];
    return text.includes(".") ? String(Number(text)) + rest : text + rest;
  };

  // Tables that change in place, so that what is selected or read out stays.

  const table = (element, columns, rows) => {
    const head = $("thead", element);
    if (head.dataset.columns !== columns.map(({ title }) => title).join()) {
      head.dataset.columns = columns.map(({ title }) => title).join();
      head.replaceChildren(make("tr", {}, ...columns.map(({ title, kind }) => make("th", { scope: "col", class: kind ?? "" }, title))));
      $("tbody", element).replaceChildren();
    }
    const body = $("tbody", element);
    while (body.children.length > rows.length) body.lastChild.remove();
    rows.forEach((row, number) => {
      let line = body.children[number];
      if (!line) {
        line = make("tr", {}, ...columns.map(({ kind }, column) => make(column ? "td" : "th", column ? { class: kind ?? "" } : { scope: "row", class: kind ?? "" })));
        body.append(line);
      }
      columns.forEach(({ of, raw, state }, column) => {
        const cell = line.children[column];
        put(cell, of(row));
        if (raw) cell.dataset.value = raw(row);
        if (state) cell.className = `text ${state(row)}`;
      });
    });
  };

  const NUMBER = "number";
  const CALLS = [
    { title: "Procedure", of: (one) => `${one.program ? one.program.toUpperCase() : "to other servers"} ${one.procedure}` },
    { title: "Calls", kind: NUMBER, of: (one) => one.calls.toLocaleString("en"), raw: (one) => one.calls },
    { title: "Errors", kind: NUMBER, of: (one) => (one.errors ?? 0).toLocaleString("en"), raw: (one) => one.errors ?? 0 },
    { title: "Received", kind: NUMBER, of: (one) => show("bytes", one.received_bytes), raw: (one) => one.received_bytes ?? "" },
    { title: "Sent", kind: NUMBER, of: (one) => show("bytes", one.sent_bytes), raw: (one) => one.sent_bytes ?? "" },
    { title: "Half within", kind: NUMBER, of: (one) => (one.latency_us ? time(one.latency_us.p50 / 1e6) : "–") },
    { title: "99 % within", kind: NUMBER, of: (one) => (one.latency_us ? time(one.latency_us.p99 / 1e6) : "–") },
    { title: "Longest", kind: NUMBER, of: (one) => (one.latency_us ? time(one.latency_us.max / 1e6) : "–") },
  ];

  const exportsOf = (stat) => {
    const word = stat.process === "mount" ? "Mounted" : "Serving";
    const wrong = (one) => one.warnings?.length > 0;
    put($("#exports-title"), stat.process === "mount" ? "Mount" : "Exports");
    table($("#exports"), [
      { title: stat.process === "mount" ? "Place" : "Name", of: (one) => one.name },
      { title: "Source", kind: "text", of: (one) => one.source },
      { title: "Access", of: (one) => (one.read_only ? "read-only" : "writable") },
      ...((stat.exports ?? []).some((one) => one.limits) ? [{ title: "Limits", kind: "text", of: (one) => one.limits || "–" }] : []),
      { title: "State", kind: "text", of: (one) => (wrong(one) ? `⚠ ${one.warnings.join("; ")}` : stat.ready ? `✔ ${word}` : "… Not ready"),
        state: (one) => (wrong(one) ? "bad" : stat.ready ? "good" : "") },
    ], stat.exports ?? []);
  };

  // Who loads the server: by client and export, with rates since the last look.
  let earlier = null;
  const CLIENTS_MAX = 200;
  const uses = (stat) => (stat?.clients ?? []).flatMap((client) => {
    const all = client.exports?.length ? client.exports : [{ export: "", calls: 0, received_bytes: 0, sent_bytes: 0 }];
    return all.map((use) => ({ client, key: `${client.address} ${use.export}`, ...use }));
  });
  const clientsOf = (stat) => {
    const refused = stat.refused_clients ?? [];
    const connections = stat.gauges.pagewell_connections ?? 0;
    const told = [`${connections} ${connections === 1 ? "connection" : "connections"} open.`];
    const limited = stat.gauges.pagewell_connections_limited ?? 0;
    if (stat.client_limits) told.push(`Each client may have ${stat.client_limits}.`);
    if (limited) told.push(`${limited} ${limited === 1 ? "waits" : "wait"} because of a limit.`);
    if (refused.length) {
      told.push(`Turned away: ${refused.map((one) => `${one.address} (${one.not_allowed} not allowed, ${one.no_place} without a place)`).join(", ")}.`);
    }
    put($("#clients .note"), told.join(" "));
    const all = uses(stat);
    $("#clients").hidden = stat.process === "mount" && !connections && !all.length;
    $("#clients .scroll").hidden = !all.length;
    const before = new Map(uses(earlier).map((one) => [one.key, one]));
    const seconds = stat.uptime_seconds - (earlier?.uptime_seconds ?? stat.uptime_seconds);
    const rate = (one, field) => {
      const then = before.get(one.key)?.[field];
      return seconds > 0 && then !== undefined ? Math.max(0, one[field] - then) / seconds : null;
    };
    const load = (one) => (rate(one, "received_bytes") ?? 0) + (rate(one, "sent_bytes") ?? 0);
    table($("#clients"), [
      { title: "Address", of: (one) => one.client.address },
      { title: "Export", of: (one) => one.export || "–" },
      { title: "Calls/s", kind: NUMBER, of: (one) => show("1/s", rate(one, "calls")) },
      { title: "To it", kind: NUMBER, of: (one) => show("bytes/s", rate(one, "sent_bytes")) },
      { title: "From it", kind: NUMBER, of: (one) => show("bytes/s", rate(one, "received_bytes")) },
      { title: "Calls", kind: NUMBER, of: (one) => one.calls.toLocaleString("en"), raw: (one) => one.calls },
      { title: "Last call", kind: NUMBER, of: (one) => `${uptime(one.client.idle_seconds ?? 0)} ago` },
      { title: "Locks", kind: NUMBER, of: (one) => String(one.client.locks ?? 0) },
      { title: "Limit waits", kind: NUMBER, of: (one) => (one.client.limit_waits ?? 0).toLocaleString("en"), raw: (one) => one.client.limit_waits ?? 0 },
    ], all.sort((one, other) => load(other) - load(one) || other.calls - one.calls).slice(0, CLIENTS_MAX));
  };

  // Object stores and web servers, the tiers before them, and what waits to be sent.
  const KINDS = [["get", "GET"], ["head", "HEAD"], ["list", "LIST"], ["put", "PUT"], ["delete", "DELETE"]];
  const money = (value) => value.toFixed(value < 0.1 ? 4 : value < 1 ? 3 : 2);
  const storesOf = (stat) => {
    const then = earlier?.start_time_seconds === stat.start_time_seconds ? earlier : stat;
    const seconds = stat.uptime_seconds - then.uptime_seconds;
    const total = (name, of = stat) => of.counters[`pagewell_${name}_total`] ?? 0;
    const gauge = (name) => stat.gauges[`pagewell_${name}`] ?? 0;
    const grown = (name) => Math.max(0, total(name) - total(name, then));
    const rate = (unit, name) => show(unit, seconds > 0 ? grown(name) / seconds : null);
    const share = (hits, misses) => (total(hits) + total(misses) ? show("ratio", total(hits) / (total(hits) + total(misses))) : "–");
    const requests = (of) => KINDS.reduce((sum, [kind]) => sum + total(`object_${kind}_requests`, of), 0);
    $("#stores").hidden = requests(stat) === 0;
    if ($("#stores").hidden) return;
    const number = (value) => value.toLocaleString("en");
    const mean = (sum, count) => show("seconds", count > 0 ? sum / count / 1e9 : null);
    const times = ["object_answer_nanoseconds", "object_answers"];
    const rows = KINDS.filter(([kind]) => total(`object_${kind}_requests`)).map(([kind, title]) =>
      [title, rate("1/s", `object_${kind}_requests`), number(total(`object_${kind}_requests`))]);
    rows.push(
      ["Received", rate("bytes/s", "object_received_bytes"), bytes(total("object_received_bytes"))],
      ["Sent", rate("bytes/s", "object_sent_bytes"), bytes(total("object_sent_bytes"))],
      ["Mean time until an answer", mean(...times.map(grown)), mean(...times.map((name) => total(name)))],
      ["Requests made again", rate("1/s", "object_retries"), number(total("object_retries"))],
      ["Answers 429 and 503", rate("1/s", "object_throttled"), number(total("object_throttled"))],
      ["Connections made", rate("1/s", "object_connections"), number(total("object_connections"))],
      ["Found in memory", "", share("cache_hits", "cache_misses")],
      ["Found in the disk tier", "", share("tier_hits", "tier_misses")],
      ["Changed files being sent", number(gauge("object_uploads")), ""],
      ["Changed bytes in staging folders", bytes(gauge("staging_bytes")), ""],
      ["Of these journaled alone", bytes(gauge("staging_journaled_bytes")), number(total("staging_journaled"))],
      ["Files kept for people", number(gauge("staging_kept_files")), number(total("staging_conflicts")), gauge("staging_kept_files") > 0],
      ["Written buckets, guarded", number(gauge("object_guarded")), ""],
      ["Written buckets, unguarded", number(gauge("object_unguarded")), "", gauge("object_unguarded") > 0],
    );
    table($("#stores"), [
      { title: "Of stores", of: ([title]) => title },
      { title: "Now", kind: NUMBER, of: ([, now, , bad]) => (bad ? `⚠ ${now}` : now) },
      { title: "Since the start", kind: NUMBER, of: ([, , whole]) => whole },
    ], rows);
    const body = $("tbody", $("#stores"));
    rows.forEach(([, , , bad], row) => body.children[row].children[1].classList.toggle("bad", Boolean(bad)));
    const prices = stat.object_prices;
    const cost = (count, received) => KINDS.reduce((sum, [kind]) => sum + (count(`object_${kind}_requests`) * prices[kind]) / 1e3, 0) + (received * prices.download) / 1e9;
    const lines = [];
    if (prices && requests(stat) > total("object_web_requests")) {
      const whole = `about ${money(cost(total, total("object_received_bytes")))} ${prices.currency} since the start`;
      const hourly = seconds > 0 ? (cost(grown, grown("object_received_bytes")) / seconds) * 3600 : 0;
      lines.push(`Requests and bytes received cost ${whole}, ${money(hourly)} ${prices.currency} an hour at this rate. Prices: ${prices.name}. Storage is not in it.`);
    }
    lined($("#stores ul"), lines);
  };

  const sandboxOf = (stat) => {
    const numbers = Object.entries({ ...stat.counters, ...stat.gauges }).filter(([name]) => name.startsWith("pagewell_sandbox_"));
    const said = Object.entries(stat.sandbox ?? {});
    $("#sandbox").hidden = numbers.length + said.length === 0;
    table($("#sandbox"), [
      { title: "Part", of: ([name]) => words(name).replace(/^sandbox /, "") },
      { title: "Value", kind: "text", of: ([, value]) => String(value) },
    ], said.concat(numbers));
  };

  // What an administrator acts upon, with what it means.
  const WARNINGS = {
    pagewell_panics_total: "calls ended in a defect of this program",
    pagewell_storage_errors_total: "calls failed because storage did",
    pagewell_cache_lost_bytes_total: "bytes that were written are lost",
    pagewell_cache_fetch_errors_total: "reads of devices or other servers failed",
    pagewell_cache_write_errors_total: "writes to devices or other servers failed",
    pagewell_cache_flush_errors_total: "flushes of devices failed",
    pagewell_cache_timeouts_total: "times storage did not answer in time",
    pagewell_device_read_errors_total: "reads of devices failed",
    pagewell_device_write_errors_total: "writes to devices failed",
    pagewell_device_flush_errors_total: "flushes of devices failed",
    pagewell_dir_sync_failures_total: "times files could not be made durable",
    pagewell_connections_refused_total: "connections had no place",
    pagewell_connections_not_allowed_total: "connections were from clients that no export allows",
    pagewell_accepts_failed_total: "connections could not be accepted",
    pagewell_client_connect_failures_total: "connections to other servers failed",
  };
  const NOW = {
    pagewell_staging_kept_files: "Changed files kept in staging folders, because others had changed them, too",
    pagewell_object_unguarded: "Written buckets in which changes may replace each other unseen",
  };
  const warningsOf = (stat) => {
    const counted = Object.entries(WARNINGS).map(([name, text]) => [stat.counters[name] ?? 0, text]);
    const lines = counted.filter(([count]) => count > 0).map(([count, text]) => `${count.toLocaleString("en")} ${text} since the start`);
    for (const [name, text] of Object.entries(NOW)) {
      const count = stat.gauges[name] ?? 0;
      if (count > 0) lines.push(`${text}: ${count.toLocaleString("en")}`);
    }
    $("#warnings").hidden = !lines.length;
    lined($("#warnings ul"), lines);
    lined($("#exports ul"), stat.notes ?? []);
  };
  const lined = (list, lines) => {
    while (list.children.length > lines.length) list.lastChild.remove();
    lines.forEach((text, number) => put(list.children[number] ?? list.appendChild(make("li")), text));
  };

  const countersOf = (stat) => {
    if (!$("#counters").open) return;
    const part = $("#filter").value.toLowerCase();
    const zeros = $("#zeros").checked;
    const all = Object.entries({ ...stat.counters, ...stat.gauges });
    const wanted = all.filter(([name, value]) => (zeros || value !== 0) && (name.includes(part) || words(name).includes(part)));
    table($("#counters"), [
      { title: "Name", of: ([name]) => name },
      { title: "Value", kind: NUMBER, of: ([, value]) => value.toLocaleString("en"), raw: ([, value]) => value },
    ], wanted);
  };

  // The tiles: name, text, what stands below it, and the number behind it if /stat.json has it.
  const tilesOf = (stat) => {
    const serve = stat.process !== "mount";
    const rate = (unit, ...names) => show(unit, kept.times.length ? names.reduce((sum, name) => sum + (last(name) ?? 0), 0) : null);
    const gauges = stat.gauges;
    const recent = (name) => values(name).filter((value) => value !== null).at(-1) ?? null;
    const busiest = ["read", "other", "write", "client"].find((kind) => recent(`${kind}_p99`) !== null) ?? "read";
    const about = { read: "reads", other: "other calls", write: "writes", client: "calls to other servers" }[busiest];
    const hits = stat.counters.pagewell_cache_hits_total ?? 0;
    const looks = hits + (stat.counters.pagewell_cache_misses_total ?? 0);
    const tiles = [
      serve ? ["sent", "Sent", rate("bytes/s", "server_sent"), "to clients"] : ["read", "Read", rate("bytes/s", "mount_read"), "by programs"],
      serve ? ["received", "Received", rate("bytes/s", "server_received"), "from clients"] : ["written", "Written", rate("bytes/s", "mount_written"), "by programs"],
      serve ? ["calls", "Calls", rate("1/s", "server_reads", "server_writes", "server_others"), `${rate("1/s", "server_errors")} with an error`]
        : ["calls", "Calls", rate("1/s", "mount_reads", "mount_writes", "mount_others"), "of the kernel"],
      ["latency", "Latency", show("seconds", recent(`${busiest}_p99`)), `99 % of ${about} within`],
      ["hits", "Cache hits", looks ? show("ratio", hits / looks) : "–", looks ? "since the start" : "no page cache used", looks ? hits / looks : ""],
      ["dirty", "Dirty", bytes(gauges.pagewell_cache_dirty_bytes), "not on the device yet", gauges.pagewell_cache_dirty_bytes],
      ["queue", "Device queue", short(gauges.pagewell_cache_requests_in_queue ?? 0), "requests", gauges.pagewell_cache_requests_in_queue],
      serve ? ["connections", "Connections", short(gauges.pagewell_connections), "open", gauges.pagewell_connections]
        : ["files", "Open files", short(gauges.pagewell_fuse_open_files), "in the mount", gauges.pagewell_fuse_open_files],
      ["memory", "Memory", bytes(stat.resident_bytes), "resident", stat.resident_bytes],
      ["uptime", "Uptime", uptime(stat.uptime_seconds), `since ${day(stat.start_time_seconds)} ${clock(stat.start_time_seconds, false)}`, stat.uptime_seconds],
    ];
    const list = $("#tiles");
    for (const [name, title, text, note, raw] of tiles) {
      let tile = $(`[data-tile="${name}"]`, list);
      if (!tile) {
        tile = make("div", { "data-tile": name }, make("dt", {}, title), make("dd"), make("dd", { class: "note" }));
        list.append(tile);
      }
      put(tile.children[1], text);
      put(tile.children[2], note);
      if (raw !== undefined) tile.children[1].dataset.value = raw;
    }
  };

  const state = (kind, mark, text) => {
    const element = $("#state");
    element.dataset.kind = kind;
    put($(".mark", element), mark);
    put($(".text", element), text);
  };

  let plots = [];
  const showStat = (stat) => {
    put($("#about"), `${stat.version} · ${stat.process === "mount" ? "mount" : "server"} · up ${uptime(stat.uptime_seconds)}`);
    document.title = `Pagewell: ${(stat.exports ?? []).map((one) => one.name).join(", ") || stat.process}`;
    if (stat.ready) state("good", "●", "Ready");
    else state("", "○", "Not ready");
    tilesOf(stat);
    warningsOf(stat);
    exportsOf(stat);
    storesOf(stat);
    clientsOf(stat);
    table($("#calls"), CALLS, stat.procedures.concat(stat.client_procedures ?? []).filter((one) => one.calls > 0).sort((one, other) => other.calls - one.calls));
    $("#calls").hidden = !$("#calls tbody").children.length;
    sandboxOf(stat);
    countersOf(stat);
    if (!plots.length) {
      plots = PLOTS.map((kind) => new Plot(kind, stat.process));
      $("#plots").append(...plots.map((plot) => plot.figure));
    }
    earlier = stat;
    // When the numbers on the page were true.
    document.documentElement.dataset.uptime = stat.uptime_seconds;
  };

  // Asking.

  const json = async (path) => {
    const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  };
  let paused = false;
  let asked = 0;
  let lostSince = null;
  const look = async () => {
    const stat = await json("/stat.json");
    if (paused) return;
    const again = earlier && earlier.start_time_seconds !== stat.start_time_seconds;
    if (again) forget();
    if (Date.now() - asked >= SPANS[span].ask * 1000 - 200) {
      const wanted = span;
      const part = await json(`/history.json?range=${wanted}&since=${kept.times.at(-1) ?? 0}`);
      if (wanted !== span || paused) return;
      asked = Date.now();
      take(part);
      showStat(stat);
      plots.forEach((plot) => plot.update());
      document.documentElement.dataset.points = kept.times.length;
    } else {
      showStat(stat);
    }
  };
  const forget = () => {
    kept = { times: [], series: new Map(), step: 1 };
    asked = 0;
  };
  let busy = false;
  const tickOnce = async () => {
    if (busy || paused || document.hidden) return;
    busy = true;
    try {
      await look();
      lostSince = null;
    } catch (error) {
      lostSince ??= Date.now() / 1000;
      state("bad", "⚠", `No answer since ${clock(lostSince)} (${error.message})`);
    }
    busy = false;
  };

  const redraw = () => plots.forEach((plot) => plot.update(true));
  $("#controls").addEventListener("submit", (event) => event.preventDefault());
  for (const radio of document.querySelectorAll("input[name=range]")) {
    radio.addEventListener("change", () => {
      span = radio.value;
      forget();
      tickOnce();
    });
  }
  $("#pause").addEventListener("click", () => {
    paused = !paused;
    $("#pause").setAttribute("aria-pressed", String(paused));
    if (paused) state("", "❚❚", "Paused");
    tickOnce();
  });
  const theme = $("#theme");
  const paint = () => {
    if (theme.value) document.documentElement.dataset.theme = theme.value;
    else delete document.documentElement.dataset.theme;
    redraw();
  };
  // A browser may forbid to remember.
  try {
    theme.value = localStorage.getItem("pagewell-colours") ?? "";
  } catch { /* then it is asked for each time */ }
  theme.addEventListener("change", () => {
    try {
      localStorage.setItem("pagewell-colours", theme.value);
    } catch { /* the same */ }
    paint();
  });
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => plots.forEach((plot) => plot.resize())).observe($("#plots"));
  for (const element of [$("#filter"), $("#zeros"), $("#counters")]) {
    element.addEventListener(element.id === "counters" ? "toggle" : "input", () => earlier && countersOf(earlier));
  }
  document.addEventListener("visibilitychange", tickOnce);
  setInterval(tickOnce, 1000);
  tickOnce();
})();
