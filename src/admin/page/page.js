"use strict";
// Everything that comes from /status is put in as text: names are what somebody wrote, or what DNS says.
(() => {
  const POLL = 2000, PATIENCE = 5000, ROWS = 100, ARCS = 120, MINUTE = 60;
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const draw = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes ?? {})) {
      if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }
  const show = (id, visible) => { $(id).hidden = !visible; };

  // ---- words and figures ----

  const percent = (part) => {
    if (part === null || part === undefined) return "–";
    const hundred = part * 100;
    if (hundred > 0 && hundred < 0.05) return "<0.1 %";
    return (hundred >= 99.95 || hundred === 0 ? hundred.toFixed(0) : hundred.toFixed(1)) + " %";
  };
  const rate = (n) => n === null || n === undefined ? "–" : n === 0 ? "0" : n < 0.05 ? "<0.1" : n < 100 ? n.toFixed(1) : Math.round(n).toLocaleString("en");
  const whole = (n) => n.toLocaleString("en");
  const time = (seconds) => {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds >= 10) return seconds.toFixed(0) + " s";
    if (seconds >= 1) return seconds.toFixed(1) + " s";
    const ms = seconds * 1000;
    return (ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2)) + " ms";
  };
  const span = (seconds) => {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
  };
  const clock = (date) => date.toLocaleTimeString("sv");
  const weight = (n) => Number.isInteger(n) ? String(n) : n.toFixed(2);
  const some = (n, one, many) => whole(n) + " " + (n === 1 ? one : many);
  const sum = (list) => list.reduce((a, b) => a + b, 0);

  // How grave each state is (2: out, 1: to be looked at, 0: on its way), and its sign.
  const STATES = {
    up: [-1, "✓"], joining: [0, "…"], ramping: [0, "↗"], draining: [0, "↘"], leaving: [0, "⇢"], parked: [0, "‖"],
    overloaded: [1, "▼"], kept: [1, "!"], down: [2, "✕"],
  };
  const level = (origin) => (STATES[origin.state] ?? [1, "?"])[0];
  const sign = (origin) => (STATES[origin.state] ?? [1, "?"])[1];
  const MARKS = ["i", "!", "✕"];
  const serves = (origin) => ["up", "ramping", "overloaded", "kept", "leaving"].includes(origin.state);
  // Who is parked is no part of the pool any more.
  const belongs = (origin) => origin.state !== "parked";
  const originsOf = (pool) => Object.entries(pool.origins).map(([name, o], number) => ({ name, number: number + 1, ...o }));

  // ---- what is wrong ----

  // The last minute of a series of steps: how many requests, and which part of them were errors.
  function lastMinute(recent, step) {
    const count = Math.max(1, Math.round(MINUTE / step));
    const of = (list) => sum((list ?? []).slice(-count));
    return { requests: of(recent.requests), errors: of(recent.errors), suppressed: of(recent.suppressed) };
  }

  // Marks whose share was the same for as long as what it served is counted.
  function markSteady(pools) {
    const before = view.shares, now = Date.now();
    view.shares = new Map();
    for (const [name, pool] of Object.entries(pools)) {
      for (const [own, origin] of Object.entries(pool.origins)) {
        const key = JSON.stringify([name, own]), kept = before.get(key);
        const same = kept !== undefined && Math.abs(kept.share - origin.share) < 0.02;
        view.shares.set(key, same ? kept : { share: origin.share, since: now });
        origin.steady = same && now - kept.since > MINUTE * 1000;
      }
    }
  }

  // Is what it serves ten points off what the ring says, with enough requests on enough keys to tell?
  function isOff(pool, origin) {
    const count = Object.keys(pool.origins).length;
    return origin.steady && pool.key !== null && pool.rate * MINUTE >= 300 && pool.keys.distinct >= 100 * count
      && origin.served !== null && Math.abs(origin.served - origin.share) >= 0.1;
  }

  function troubleOf(name, pool, step) {
    const found = [], say = (level, text) => found.push({ level, text, pool: name });
    const origins = originsOf(pool).filter(belongs);
    const usable = origins.filter(serves).length;
    if (origins.length > 0 && usable === 0) say(2, "no origin is in service");
    else if (pool.short) say(2, "short: more origins are out than it allows, or some serve that should not");
    for (const grave of [2, 1]) {
      const out = origins.filter((o) => level(o) === grave);
      if (out.length === 0) continue;
      const words = out.slice(0, 3).map((o) => `${o.name} is ${o.state} (${o.why})`);
      const more = out.length > 3 ? `, and ${whole(out.length - 3)} more` : "";
      say(usable > 0 ? 1 : 2, `${whole(out.length)} of ${some(origins.length, "origin", "origins")}: ` + words.join(", ") + more);
    }
    const minute = lastMinute(pool.recent, step);
    const errors = minute.requests > 0 ? minute.errors / minute.requests : 0;
    if (minute.errors >= 3 && errors >= 0.01) {
      say(errors >= 0.05 ? 2 : 1, `${percent(errors)} of the answers of the last minute are 5xx`);
    }
    if (minute.suppressed > 0) say(1, `${some(minute.suppressed, "failed try was", "failed tries were")} not repeated in the last minute: a budget or another rule forbade it`);
    for (const o of origins.filter((o) => isOff(pool, o)).slice(0, 3)) {
      say(1, `${o.name} serves ${percent(o.served)}, and its share is ${percent(o.share)}`);
    }
    for (const o of origins.filter((o) => serves(o) && o.error_ratio >= 0.05 && o.rate * MINUTE >= 20).slice(0, 3)) {
      say(1, `${o.name} fails ${percent(o.error_ratio)} of its tries`);
    }
    if (pool.discovery?.failure) say(1, `names: ${pool.discovery.failure}`);
    if (pool.keys.warning) say(0, pool.keys.warning);
    const held = origins.filter((o) => o.state === "ramping" && o.why.startsWith("held"));
    for (const o of held.slice(0, 3)) say(1, `${o.name} does not grow: ${o.why}`);
    for (const o of origins.filter((o) => o.state === "joining" && o.last_probe?.result === "bad").slice(0, 3)) {
      say(1, `${o.name} wants to join, and its probe fails: ${o.last_probe.fault}`);
    }
    const way = origins.filter((o) => level(o) === 0).length;
    if (way > 0) say(0, `${some(way, "origin is", "origins are")} on the way`);
    return found;
  }

  function troubles(status) {
    const found = [], say = (level, text) => found.push({ level, text, pool: null });
    const { config } = status;
    if (config.confirm) {
      const { left, waits_for } = config.confirm;
      say(1, "a configuration waits to be confirmed" + (left === null ? `, once ${waits_for.join(", ") || "newcomers"} came` : `: it goes back in ${time(left)}`));
    }
    if (config.drift) say(1, "the file says something else than what is in force");
    if (status.probes_stretched) say(1, "more probes are due than may run: they come less often than configured");
    for (const one of status.certificates) if (one.warning) say(1, `certificate for ${one.names.join(", ")}: ${one.warning}`);
    const upgrade = status.upgrade;
    if (upgrade?.file && !["applied", "unchanged"].includes(upgrade.file.result)) say(1, `after the upgrade the file was ${upgrade.file.result}`);
    if (upgrade && !upgrade.over) say(0, `the process before (${upgrade.pid}) still ends its requests`);
    for (const [name, pool] of Object.entries(status.pools)) found.push(...troubleOf(name, pool, status.recent.step));
    return found.sort((a, b) => b.level - a.level);
  }

  function showVerdict(found) {
    const worst = Math.max(-1, ...found.map((one) => one.level));
    const grave = found.filter((one) => one.level === worst).length;
    const [kind, glyph, head] = worst === 2 ? ["bad", "✕", `Trouble: ${some(grave, "thing needs", "things need")} you now`]
      : worst === 1 ? ["warn", "!", `${some(grave, "thing", "things")} to look at`] : ["ok", "✓", "All is well"];
    sayVerdict(kind, glyph, head);
    const shown = found.slice(0, 8);
    const key = JSON.stringify(shown);
    if (view.problems === key) return;
    view.problems = key;
    const items = shown.map((one) => {
      const item = make("li", { class: "level" + one.level });
      item.append(make("span", { class: "mark", "aria-hidden": "true" }, MARKS[one.level]));
      if (one.pool !== null) {
        const button = make("button", { type: "button" }, one.pool);
        button.addEventListener("click", () => choose(one.pool));
        item.append(button, " ");
      }
      item.append(one.text);
      return item;
    });
    if (found.length > shown.length) items.push(make("li", { class: "muted" }, `and ${found.length - shown.length} more`));
    const kept = document.activeElement?.closest?.("#problems") ? document.activeElement.textContent : null;
    $("problems").replaceChildren(...items);
    if (kept !== null) [...$("problems").querySelectorAll("button")].find((b) => b.textContent === kept)?.focus();
  }

  function sayVerdict(kind, glyph, head) {
    $("verdict").className = "verdict " + kind;
    put($("glyph"), glyph);
    put($("headline"), head);
    document.title = `${glyph} ${head} · Moorgate`;
  }

  // ---- charts ----

  function chart(id, label, unit) {
    const value = make("b", {}), extra = make("span", { class: "extra" }), foot = make("span", {}), svg = draw("svg", { viewBox: "0 0 120 48", preserveAspectRatio: "none", role: "img" });
    const node = make("figure", { class: "chart", id },
      make("figcaption", { class: "label" }, make("span", {}, label), extra, value), svg,
      make("div", { class: "foot" }, make("span", {}, "10 min ago"), foot, make("span", {}, "now")));
    return { node, value, extra, foot, svg, label, unit };
  }

  function showChart(chart, series, step, { text, extra, hurts, second }) {
    const values = series.map((n) => n / step), most = Math.max(0, ...values, ...(second ?? []).map((n) => n / step));
    put(chart.value, text);
    put(chart.extra, extra ?? "");
    put(chart.foot, values.length === 0 ? "no step of 5 s has ended yet" : `most ${rate(most)}${chart.unit}`);
    chart.node.classList.toggle("hurts", hurts);
    const key = JSON.stringify([series, second]);
    if (chart.key === key) return;
    chart.key = key;
    const y = (n) => 46 - (most > 0 ? n / most : 0) * 42;
    const x = (at, list) => 120 - list.length + 1 + at;
    const line = (list) => list.map((n, at) => `${at === 0 ? "M" : "L"}${x(at, list)} ${y(n).toFixed(2)}`).join("");
    const parts = [draw("path", { class: "base", d: "M0 46.5H120" })];
    if (values.length > 0) {
      const path = line(values);
      parts.push(draw("path", { class: "area", d: `${path}L120 46L${x(0, values)} 46Z` }), draw("path", { class: "line", d: path }));
    }
    if (second && sum(second) > 0) parts.push(draw("path", { class: "second", d: line(second.map((n) => n / step)) }));
    chart.svg.replaceChildren(...parts);
    const said = `${chart.label}: now ${text}${extra ? `, ${extra}` : ""}, at most ${rate(most)}${chart.unit} in the last ${span(values.length * step)}`;
    chart.svg.setAttribute("aria-label", said);
  }

  function makeCharts(prefix, into) {
    const all = [chart(prefix + "-requests", "Requests", "/s"), chart(prefix + "-errors", "Errors (5xx)", "/s"), chart(prefix + "-retries", "Retries", "/s")];
    $(into).replaceChildren(...all.map((one) => one.node));
    return all;
  }

  function showCharts([requests, errors, retries], recent, step) {
    const last = (list) => list.length === 0 ? null : list[list.length - 1] / step;
    const minute = lastMinute(recent, step);
    const ratio = minute.requests > 0 ? minute.errors / minute.requests : 0;
    showChart(requests, recent.requests, step, { text: rate(last(recent.requests)) + "/s", hurts: false });
    showChart(errors, recent.errors, step, { text: rate(last(recent.errors)) + "/s", extra: percent(ratio), hurts: minute.errors > 0 && ratio >= 0.01 });
    const held = minute.suppressed > 0 ? `${whole(minute.suppressed)} not made` : "";
    showChart(retries, recent.retries, step, { text: rate(last(recent.retries)) + "/s", extra: held, hurts: minute.suppressed > 0, second: recent.suppressed });
  }

  // ---- the ring ----

  const polar = (r, turn) => {
    const a = (turn - 0.25) * 2 * Math.PI;
    return `${(170 + r * Math.cos(a)).toFixed(2)} ${(170 + r * Math.sin(a)).toFixed(2)}`;
  };
  function sector(inner, outer, from, to) {
    const end = Math.min(to, from + 0.9999), large = end - from > 0.5 ? 1 : 0;
    return `M${polar(outer, from)}A${outer} ${outer} 0 ${large} 1 ${polar(outer, end)}L${polar(inner, end)}A${inner} ${inner} 0 ${large} 0 ${polar(inner, from)}Z`;
  }

  // One slot for each origin; of very many, neighbours that are well share one.
  function slots(origins) {
    const shown = origins.filter((o) => o.share > 0);
    const least = shown.length > ARCS ? 1 / ARCS : 0;
    const apart = shown.filter((o) => level(o) > 0).length <= 40;
    const found = [];
    let open = null;
    for (const origin of shown) {
      const alone = least === 0 || (apart && level(origin) > 0);
      if (!alone && open !== null && open.share < least) {
        open.members.push(origin);
        open.share += origin.share;
        continue;
      }
      const slot = { members: [origin], share: origin.share };
      found.push(slot);
      open = alone ? null : slot;
    }
    return found;
  }

  function slotText({ members, share }, served) {
    const [first] = members, last = members[members.length - 1];
    const who = members.length === 1 ? `${first.number} ${first.name}, ${first.state}` : `${members.length} origins, ${first.number} to ${last.number}`;
    return `${who}: takes ${percent(share)}, served ${percent(served)} of the last minute`;
  }

  function drawSlot(slot, from, at, changed) {
    const to = from + slot.share, [first] = slot.members;
    const grave = Math.max(...slot.members.map(level));
    const served = slot.members.every((o) => o.served === null) ? null : sum(slot.members.map((o) => o.served ?? 0));
    const node = draw("g", { class: "slot", "data-slot": at }, draw("title", {}, slotText(slot, served)));
    if (served !== null) {
      const ratio = served / slot.share, r = 62 + 38 * Math.min(ratio, 1.7);
      const hot = slot.members.some((o) => isOff(view.pool, o));
      node.append(draw("path", { class: "petal" + (hot ? " hot" : ""), d: sector(62, Math.max(r, 62.5), from, to) }));
    }
    const tone = grave >= 2 ? "hatch-bad" : grave === 1 ? "hatch-warn" : "tone" + (at % 3);
    node.append(draw("path", { class: "band " + tone, d: sector(130, 148, from, to) }));
    const middle = polar(139, from + slot.share / 2).split(" ");
    if (slot.share > 0.026) {
      const mark = grave >= 0 ? STATES[slot.members.find((o) => level(o) === grave).state]?.[1] ?? "?" : "";
      node.append(draw("text", { class: "number", x: middle[0], y: middle[1] }, slot.members.length > 1 ? "·" : first.number + mark));
    }
    const by = sum(slot.members.map((o) => changed.get(o.name) ?? 0));
    if (Math.abs(by) >= 0.002) {
      const length = Math.min(Math.abs(by), slot.share);
      node.append(draw("path", { class: by > 0 ? "gain" : "loss", d: sector(152, 157, from, from + length) }));
      const [x, y] = polar(164, from + length / 2).split(" ");
      node.append(draw("text", { class: "sign", x, y }, by > 0 ? "+" : "−"));
    }
    const members = slot.members;
    node.addEventListener("click", () => goTo(members.length === 1 ? first.name : null, members));
    return node;
  }

  const hatch = (kind) => draw("pattern", { id: "hatch-" + kind, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("rect", { class: `hatch-${kind}-bg`, width: 6, height: 6 }), draw("path", { class: "hatch-line", d: "M0 0V6" }));

  function showRing(name, pool, origins) {
    const key = JSON.stringify([name, pool.ring, origins.map((o) => [o.name, o.state, o.share.toFixed(4), o.served?.toFixed(3)]), rate(pool.rate)]);
    if (view.ring === key) return;
    view.ring = key;
    const changed = new Map(pool.ring.changed.map((one) => [one.origin, one.after - one.before]));
    const svg = draw("svg", { viewBox: "0 0 340 340", role: "img" }, draw("defs", {}, hatch("warn"), hatch("bad")));
    const all = slots(origins);
    view.slots = new Map();
    let from = 0;
    all.forEach((slot, at) => {
      slot.members.forEach((o) => view.slots.set(o.name, at));
      svg.append(drawSlot(slot, from, at, changed));
      from += slot.share;
    });
    if (all.length === 0) svg.append(draw("circle", { class: "loss", cx: 170, cy: 170, r: 139 }));
    svg.append(draw("circle", { class: "even", cx: 170, cy: 170, r: 100 }));
    const usable = origins.filter(serves).length, count = origins.filter(belongs).length;
    svg.append(draw("text", { class: usable > 99 ? "big long" : "big", x: 170, y: 158 }, `${usable}/${count}`),
      draw("text", { class: "small", x: 170, y: 178 }, "in service"), draw("text", { class: "small", x: 170, y: 194 }, rate(pool.rate) + " tries/s"));
    const said = origins.slice(0, 12).map((o) => `${o.name} takes ${percent(o.share)} and served ${percent(o.served)}`).join("; ");
    svg.setAttribute("aria-label", `Ring of ${name}: ${usable} of ${count} origins in service. ${said}${origins.length > 12 ? "; the table has all" : ""}`);
    $("ring").replaceChildren(svg);
    light(view.lit);
  }

  function light(name) {
    view.lit = name;
    const at = name === null ? undefined : view.slots?.get(name);
    for (const slot of $("ring").querySelectorAll(".slot")) slot.classList.toggle("lit", slot.dataset.slot === String(at));
    for (const [own, row] of view.rows) row.node.classList.toggle("lit", own === name);
  }

  // ---- the pool ----

  function pairs(id, entries) {
    const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
    const list = $(id), key = shown.map(([label]) => label).join("|");
    if (list.dataset.key !== key) {
      list.dataset.key = key;
      list.replaceChildren(...shown.map(([label]) => make("div", {}, make("dt", {}, label), make("dd", {}))));
    }
    shown.forEach(([, value], at) => put(list.children[at].lastChild, value));
  }

  function showFacts(pool) {
    const away = Object.entries(pool.keys.displaced ?? {}).filter(([, part]) => part > 0).map(([why, part]) => `${percent(part)} ${why}`);
    const hits = pool.cache && percent(pool.cache.hit_ratio) + (pool.cache.hit_ratio_before === null ? "" : ` (before the last change ${percent(pool.cache.hit_ratio_before)})`);
    const names = pool.discovery && `${pool.discovery.dns}, ` + (pool.discovery.answered === null ? "never answered" : `answered ${span(pool.discovery.answered)} ago`);
    pairs("pool-facts", [
      ["Tries a second", rate(pool.rate)], ["Failed tries", percent(pool.error_ratio)],
      ["p50 / p99", `${time(pool.p50)} / ${time(pool.p99)}`], ["Placed by", pool.algorithm], ["Key", pool.key],
      ["Ring", pool.ring.fingerprint], ["Moved by the last change", percent(pool.ring.moved_ratio)],
      ["… of the keys seen", pool.keys.moved_ratio === null ? null : percent(pool.keys.moved_ratio)],
      ["Keys lately", whole(pool.keys.distinct)], ["Keys away from their owner", away.join(", ") || null],
      ["Hits at origins", hits], ["Origins from", names], ["When all are out", pool.panic === "fail" ? "fail" : "keep serving"],
    ]);
  }

  function showMovers(origins) {
    const way = origins.filter((o) => !["up", "down", "kept", "parked"].includes(o.state) || o.moving_to !== null);
    show("moving", way.length > 0);
    const items = way.slice(0, 12).map((o) => {
      const item = make("li", {}, make("span", {}, make("b", {}, o.name), ` ${sign(o)} ${o.state}: ${o.why}`));
      if (o.progress !== null) item.append(meter(o));
      if (o.moving_to !== null) item.append(make("span", { class: "sub" }, `moves to ${o.moving_to.address ?? "a name that is not resolved"}: ${o.moving_to.why}`));
      return item;
    });
    if (way.length > 12) items.push(make("li", { class: "muted" }, `and ${way.length - 12} more`));
    $("movers").replaceChildren(...items);
  }

  function meter(origin) {
    const bar = make("i", {}), now = Math.round(origin.progress * 100);
    bar.style.width = now + "%";
    return make("div", { class: "meter", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": now, "aria-label": `${origin.name}: how far it came` }, bar);
  }

  function showChanges(pool) {
    const all = pool.ring.changed;
    show("changed", all.length > 0);
    const row = (one) => make("li", {}, make("span", {}, one.origin),
      make("span", {}, `${percent(one.before)} → ${percent(one.after)}` + (one.before === 0 ? " (new)" : one.after === 0 ? " (gone)" : "")));
    const more = all.length > 8 ? [make("li", { class: "muted" }, `and ${all.length - 8} smaller`)] : [];
    $("changes").replaceChildren(...all.slice(0, 8).map(row), ...more);
    show("hot", pool.keys.top.length > 0);
    // where there is room
    const home = all.length > 0 && !$("moving").hidden ? "side" : "stack";
    if ($("hot").parentNode.id !== home) $(home).append($("hot"));
    const key = (one) => make("li", {}, make("span", {}, one.key), make("span", { class: "muted" }, `${percent(one.share)}, ${one.owner ?? "no owner"}`));
    $("keys").replaceChildren(...pool.keys.top.slice(0, 5).map(key));
  }

  // ---- the table ----

  const grave = (o) => (belongs(o) ? -level(o) : 2) * 1e6 + o.number;
  const COLUMNS = [
    ["number", "#", "its number in the ring", grave], ["name", "Origin", "", (o) => o.name], ["state", "State", "", grave],
    ["weight", "Weight", "effective of configured", (o) => o.weight.effective], ["share", "Share", "what it takes now", (o) => o.share],
    ["served", "Served", "its part of the last minute", (o) => o.served ?? -1], ["in_flight", "In flight", "", (o) => o.in_flight],
    ["rate", "Req/s", "tries a second in the last minute", (o) => o.rate], ["errors", "Errors", "failed tries of the last minute", (o) => o.error_ratio ?? -1],
    ["p50", "p50", "to the header of an answer", (o) => o.p50 ?? -1], ["p99", "p99", "to the header of an answer", (o) => o.p99 ?? -1],
    ["probe", "Last probe", "", (o) => o.last_probe?.age ?? Infinity],
  ];
  const TEXTUAL = ["number", "name", "state", "probe"];

  function makeHeads() {
    for (const [key, label, title] of COLUMNS) {
      const button = make("button", { type: "button", title: title || null }, label);
      button.addEventListener("click", () => {
        const same = view.sort === key;
        view.down = same ? !view.down : !TEXTUAL.includes(key);
        view.sort = key;
        if (view.status) showTable();
      });
      $("heads").append(make("th", { scope: "col", class: TEXTUAL.includes(key) ? null : "num", "data-column": key }, button));
    }
  }

  function makeRow(name) {
    const node = make("tr", { tabindex: -1 }), cells = {};
    for (const [key, label] of COLUMNS) {
      const whole = key === "name" || key === "state";
      cells[key] = make("td", { class: whole ? "whole" : TEXTUAL.includes(key) ? null : "num", "data-label": label, "data-column": key });
      node.append(cells[key]);
    }
    node.addEventListener("focus", () => { rove(node); light(name); });
    node.addEventListener("mouseenter", () => light(name));
    cells.number.classList.add("order");
    const address = make("div", { class: "sub" }), backup = make("span", { class: "tag" }, "backup"), word = make("div", { class: "state" }), bar = make("div", {}), why = make("div", { class: "sub" });
    cells.name.append(make("span", { class: "name" }, name), " ", backup, address);
    cells.state.append(word, bar, why);
    return { node, cells, address, backup, word, bar, why };
  }

  function showRow(row, o) {
    const { cells } = row;
    const text = (key, value, kind) => { put(cells[key], value); cells[key].classList.toggle("off", kind === 1); cells[key].classList.toggle("wrong", kind === 2); };
    put(row.address, o.address === null ? "not resolved" : o.address === o.name ? "" : o.address);
    row.backup.hidden = !o.backup;
    row.word.className = `state level${level(o)} ${o.state}`;
    put(row.word, `${sign(o)} ${o.state}`);
    put(row.why, o.state === "up" && o.why === "probes pass" ? "" : o.why);
    const progress = o.progress === null ? "" : String(Math.round(o.progress * 100));
    if (row.bar.dataset.now !== progress) {
      row.bar.dataset.now = progress;
      row.bar.replaceChildren(...(progress === "" ? [] : [meter(o)]));
    }
    text("number", String(o.number));
    cells.name.dataset.number = o.number;
    text("weight", o.weight.effective === o.weight.configured ? String(o.weight.configured) : `${weight(o.weight.effective)} of ${o.weight.configured}`);
    text("share", percent(o.share));
    const off = isOff(view.pool, o);
    text("served", percent(o.served) + (off ? " !" : ""), off ? 1 : 0);
    text("in_flight", whole(o.in_flight));
    text("rate", rate(o.rate));
    text("errors", percent(o.error_ratio), o.error_ratio >= 0.05 ? 2 : o.error_ratio >= 0.01 ? 1 : 0);
    text("p50", time(o.p50));
    text("p99", time(o.p99));
    const probe = o.last_probe;
    text("probe", probe === null ? "–" : `${probe.result === "good" ? "✓" : "✕"} ${probe.fault ?? probe.result}, ${span(probe.age)} ago`, probe === null || probe.result === "good" ? 0 : 2);
  }

  function wanted(origins) {
    const words = $("filter").value.trim().toLowerCase(), only = $("only").checked;
    const fits = (o) => (!only || o.state !== "up") && (words === "" || [o.name, o.state, o.why, o.address ?? ""].some((text) => text.toLowerCase().includes(words)));
    const [, , , by] = COLUMNS.find(([key]) => key === view.sort);
    const order = view.down ? -1 : 1;
    return origins.filter(fits).sort((a, b) => {
      const [x, y] = [by(a), by(b)];
      return (x < y ? -1 : x > y ? 1 : a.number - b.number) * (x === y ? 1 : order);
    });
  }

  function showTable() {
    const all = originsOf(view.pool), fit = wanted(all), shown = view.everything ? fit : fit.slice(0, ROWS);
    for (const head of $("heads").children) {
      if (head.dataset.column === view.sort) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const names = new Set(shown.map((o) => o.name)), focused = document.activeElement;
    for (const [name, row] of view.rows) if (!names.has(name)) { row.node.remove(); view.rows.delete(name); }
    shown.forEach((o, at) => {
      if (!view.rows.has(o.name)) view.rows.set(o.name, makeRow(o.name));
      const row = view.rows.get(o.name), there = $("rows").children[at] ?? null;
      showRow(row, o);
      if (there !== row.node) $("rows").insertBefore(row.node, there);
    });
    // a row that moved lost the focus
    if (focused?.isConnected && focused !== document.activeElement && $("rows").contains(focused)) focused.focus({ preventScroll: true });
    if (!$("rows").querySelector('[tabindex="0"]')) $("rows").firstElementChild?.setAttribute("tabindex", "0");
    put($("count"), fit.length === all.length ? some(all.length, "origin", "origins") : `${whole(fit.length)} of ${whole(all.length)} origins`);
    $("more").hidden = fit.length <= ROWS;
    put($("more"), view.everything ? `Show ${ROWS} only` : `Show all ${whole(fit.length)}`);
  }

  function rove(node) {
    for (const row of $("rows").querySelectorAll('[tabindex="0"]')) row.setAttribute("tabindex", "-1");
    node.setAttribute("tabindex", "0");
  }

  function goTo(name, members) {
    if (name === null) {
      $("filter").value = "";
      view.sort = "number";
      view.everything = true;
      showTable();
      name = members[0].name;
    }
    if (!view.rows.has(name)) { $("filter").value = ""; $("only").checked = false; view.everything = true; showTable(); }
    view.rows.get(name)?.node.focus();
  }

  // ---- tabs, history, everything ----

  function choose(name) {
    if (view.name !== name) {
      view.name = name;
      view.rows.clear();
      $("rows").replaceChildren();
      view.everything = false;
      view.lit = null;
      history.replaceState(null, "", "#" + encodeURIComponent(name));
    }
    if (view.status) render();
  }

  function showTabs(status, found) {
    const names = Object.keys(status.pools), key = JSON.stringify(names);
    if (view.tabs !== key) {
      view.tabs = key;
      const tab = (name) => {
        const button = make("button", { type: "button", role: "tab", "aria-controls": "pool" }, make("span", { class: "mark", "aria-hidden": "true" }), make("span", {}, name));
        button.addEventListener("click", () => choose(name));
        return button;
      };
      $("tabs").replaceChildren(...names.map(tab));
    }
    names.forEach((name, at) => {
      const worst = Math.max(-1, ...found.filter((one) => one.pool === name).map((one) => one.level)), tab = $("tabs").children[at];
      put(tab.firstChild, worst > 0 ? MARKS[worst] : "✓");
      tab.className = "level" + worst;
      tab.setAttribute("aria-label", `${name}: ${["well", "well", "to look at", "in trouble"][worst + 1]}`);
      tab.setAttribute("aria-selected", String(name === view.name));
      tab.tabIndex = name === view.name ? 0 : -1;
    });
    show("tabs", names.length > 0);
  }

  const ENDS = { replaced: "replaced", rolled_back: "rolled back", reverted: "went back by itself" };
  function showHistory(config) {
    const key = JSON.stringify(config.history);
    show("history", true);
    if (view.history === key) return;
    view.history = key;
    $("texts").replaceChildren(...config.history.map((text) => {
      const moved = Object.entries(text.moved_ratio).map(([pool, part]) => `${pool} ${percent(part)}`).join(", ");
      const end = text.ended === null ? "in force" : (ENDS[text.ended] ?? text.ended) + (text.why === null ? "" : ": " + text.why);
      const cell = (label, text, title) => make("td", { "data-label": label, title }, text);
      const since = new Date(text.since);
      return make("tr", {}, cell("Version", String(text.version)), cell("In force since", since.toLocaleString("sv"), text.since),
        cell("Moved", moved || "nothing"), cell("Then", end), cell("Digest", text.digest.slice(0, 12), text.digest));
    }));
  }

  function render() {
    const { status } = view, step = status.recent.step;
    const names = Object.keys(status.pools);
    if (!(view.name in status.pools)) {
      view.name = names[0] ?? null;
      view.rows.clear();
      $("rows").replaceChildren();
    }
    markSteady(status.pools);
    const found = troubles(status);
    showVerdict(found);
    const generation = status.generation > 1 ? `, process ${status.generation} of a line` : "";
    put($("facts"), `${status.program}, up ${span(status.uptime)}${generation}, configuration ${status.config.version}`);
    show("all", true);
    showCharts(view.charts, status.recent, step);
    showTabs(status, found);
    showHistory(status.config);
    show("pool", names.length > 0);
    if (view.name === null) return;
    view.pool = status.pools[view.name];
    $("pool").setAttribute("aria-label", "Pool " + view.name);
    const origins = originsOf(view.pool);
    show("pool-charts", names.length > 1);
    showCharts(view.poolCharts, view.pool.recent, step);
    showRing(view.name, view.pool, origins);
    showFacts(view.pool);
    showMovers(origins);
    showChanges(view.pool);
    showTable();
  }

  // ---- asking ----

  const view = { status: null, pool: null, shares: new Map(), name: decodeURIComponent(location.hash.slice(1)) || null, rows: new Map(), sort: "number", down: false, everything: false, lit: null, at: null, lost: null, paused: false };
  let timer = null, asking = false;

  const asks = () => !view.paused && !document.hidden;
  function goOn() {
    clearTimeout(timer);
    if (asks()) ask();
  }

  async function ask() {
    clearTimeout(timer);
    if (asking) return;
    asking = true;
    const patience = new AbortController(), end = setTimeout(() => patience.abort(), PATIENCE);
    try {
      const answer = await fetch("status", { cache: "no-store", signal: patience.signal });
      if (!answer.ok) throw new Error("it answered " + answer.status);
      view.status = await answer.json();
      [view.at, view.lost] = [new Date(), null];
      document.body.classList.remove("gone");
      render();
    } catch (error) {
      lose(error);
    } finally {
      clearTimeout(end);
      asking = false;
      tell();
      if (asks()) timer = setTimeout(ask, POLL);
    }
  }

  function lose(error) {
    view.lost ??= new Date();
    document.body.classList.add("gone");
    sayVerdict("bad", "✕", "The gateway does not answer");
    view.problems = null;
    const why = error.name === "AbortError" ? `no answer within ${PATIENCE / 1000} s` : error.message;
    const old = view.at === null ? "nothing is known yet" : `what follows is of ${clock(view.at)}, and may be wrong by now`;
    $("problems").replaceChildren(make("li", {}, `since ${clock(view.lost)} (${why}); ${old}`), make("li", {}, "this page goes on asking"));
  }

  function tell() {
    document.body.classList.toggle("paused", view.paused);
    const when = view.at === null ? "not answered yet" : "as of " + clock(view.at);
    put($("updated"), (view.paused ? "paused, " : "") + when);
  }

  const step = (key, length, at) => ({ ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: length - 1 })[key];

  function listen() {
    $("pause").addEventListener("click", () => {
      view.paused = !view.paused;
      $("pause").setAttribute("aria-pressed", String(view.paused));
      put($("pause"), view.paused ? "Go on" : "Pause");
      tell();
      goOn();
    });
    document.addEventListener("visibilitychange", goOn);
    $("tabs").addEventListener("keydown", (event) => {
      const tabs = [...$("tabs").children], next = tabs.at((step(event.key, tabs.length, tabs.indexOf(document.activeElement)) ?? NaN) % tabs.length);
      if (step(event.key, 1, 0) === undefined || !next) return;
      event.preventDefault();
      next.focus();
      next.click();
    });
    $("rows").addEventListener("keydown", (event) => {
      const rows = [...$("rows").children], at = step(event.key, rows.length, rows.indexOf(document.activeElement));
      if (at === undefined || ["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      rows[Math.min(Math.max(at, 0), rows.length - 1)]?.focus();
    });
    $("rows").addEventListener("mouseleave", () => light(null));
    $("filter").addEventListener("input", () => { if (view.pool) showTable(); });
    $("only").addEventListener("change", () => { if (view.pool) showTable(); });
    $("more").addEventListener("click", () => { view.everything = !view.everything; showTable(); });
  }

  makeHeads();
  view.charts = makeCharts("all", "all");
  view.poolCharts = makeCharts("pool", "pool-charts");
  listen();
  ask();
})();
