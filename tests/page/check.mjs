// Looks at the page of a server, and of a mount, as people do.
//
// usage: node check.mjs URL [URL-OF-A-MOUNT] [FOLDER-FOR-PICTURES]; PAGEWELL_PACKAGES has the packages
import assert from "node:assert/strict";
import { existsSync, readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";

const [url, mountUrl, pictures] = process.argv.slice(2);
const require = createRequire(`${process.env.PAGEWELL_PACKAGES}/package.json`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
assert(executablePath, "Chromium is not installed");
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const LAST_RESORT = 60_000;

const browser = await chromium.launch({ executablePath, headless: true, args });
let checks = 0;
const check = (name, holds, detail = "") => {
  assert(holds, `${name}: ${typeof detail === "string" ? detail : JSON.stringify(detail, null, 2)}`);
  checks += 1;
};

// A page that has shown numbers, and what it did that it must not do.
const open = async (address, options = {}, change = null) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, deviceScaleFactor: 1, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LAST_RESORT);
  const faults = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== "data:" && origin !== new URL(address).origin) faults.push(`asks ${request.url()}`);
  });
  if (change) {
    // One that is under way when the page is closed fails, which is no fault of the page: those are looked at before.
    await page.route("**/stat.json", async (route) => {
      try {
        const answer = await route.fetch();
        await route.fulfill({ json: change(await answer.json()) });
      } catch (error) {
        faults.push(String(error));
      }
    });
  }
  const began = performance.now();
  await page.goto(address);
  await page.waitForFunction(() => document.documentElement.dataset.uptime && document.querySelector("#plots canvas"));
  const milliseconds = Math.round(performance.now() - began);
  return { page, context, faults, milliseconds };
};

const accessible = async (page, name) => {
  await page.evaluate(`if (!window.axe) { ${axe} }`);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const violations = found.violations.map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => `${node.html}: ${node.failureSummary}`) }));
  check(`axe-core finds nothing (${name})`, violations.length === 0, violations);
};

// The numbers on the page are those of the document that it got: at the same moment, so by its own
// answer, and never further from the next answer than the server went on meanwhile.
const equal = async (page) => {
  await page.locator("#counters summary").click();
  await page.locator("#zeros").check();
  const seen = new Map();
  page.on("response", async (answer) => {
    if (!answer.url().endsWith("/stat.json")) return;
    const stat = await answer.json().catch(() => null);
    if (stat) seen.set(String(stat.uptime_seconds), stat);
  });
  const shown = async () => page.evaluate(() => {
    const rows = (selector) => [...document.querySelectorAll(`${selector} tbody tr`)];
    return {
      uptime: document.documentElement.dataset.uptime,
      counters: rows("#counters").map((row) => [row.children[0].textContent, Number(row.children[1].dataset.value)]),
      calls: rows("#calls").map((row) => [row.children[0].textContent, ...[1, 2, 3, 4].map((cell) => Number(row.children[cell].dataset.value))]),
      exports: rows("#exports").map((row) => [...row.children].map((cell) => cell.textContent)),
      clients: rows("#clients").map((row) => [row.children[0].textContent, row.children[1].textContent, Number(row.children[5].dataset.value)]),
      resident: Number(document.querySelector('[data-tile="memory"] dd').dataset.value),
      version: document.querySelector("#about").textContent.split(" ")[0],
    };
  });
  const deadline = Date.now() + LAST_RESORT;
  let now, stat;
  do {
    await page.waitForTimeout(200);
    now = await shown();
    stat = seen.get(now.uptime);
  } while (!stat && Date.now() < deadline);
  check("the page shows a document that it got", Boolean(stat));
  const all = { ...stat.counters, ...stat.gauges };
  check("all counters are shown", now.counters.length === Object.keys(all).length, `${now.counters.length}`);
  for (const [name, value] of now.counters) check(`value of ${name}`, all[name] === value, `${all[name]} ${value}`);
  const called = stat.procedures.concat(stat.client_procedures).filter((one) => one.calls > 0);
  check("all calls are shown", now.calls.length === called.length && called.length > 0);
  for (const [name, calls, errors, received, sent] of now.calls) {
    const one = called.find((each) => name === `${each.program ? each.program.toUpperCase() : "to other servers"} ${each.procedure}`);
    check(`calls of ${name}`, one.calls === calls && (one.errors ?? 0) === errors, `${calls} ${errors}`);
    if (one.program) check(`bytes of ${name}`, one.received_bytes === received && one.sent_bytes === sent);
  }
  const uses = stat.clients.flatMap((client) => client.exports.map((use) => [client.address, use.export || "–", use.calls]));
  const sorted = (rows) => rows.map(String).sort();
  check("clients by export", uses.length > 0 && String(sorted(uses)) === String(sorted(now.clients)), [uses, now.clients]);
  check("memory", stat.resident_bytes === now.resident);
  check("version", stat.version === now.version);
  check("exports", stat.exports.length === now.exports.length && stat.exports.every((one, at) => now.exports[at][0] === one.name && now.exports[at][1] === one.source), now.exports);
  // A later answer of the server has grown from what is shown.
  const later = await (await fetch(new URL("/stat.json", page.url()))).json();
  for (const [name, value] of Object.entries(stat.counters)) check(`${name} does not shrink`, later.counters[name] >= value);
  await page.locator("#counters summary").click();
};

const picture = async (page, name, options = {}) => {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.evaluate(() => {
    document.activeElement?.blur();
    scrollTo(0, 0);
  });
  await page.mouse.move(1, 1);
  await page.screenshot({ path: `${pictures}/${name}.png`, ...options });
};

const fits = async (page, name) => {
  const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(`nothing sticks out (${name})`, inside <= outside, `${inside} of ${outside} px`);
};

// Tab reaches all that can be used, in order, and what has the focus can be seen.
const walk = async (page) => {
  await page.evaluate(() => {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
  });
  const visited = [];
  for (let step = 0; step < 80; step += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const style = getComputedStyle(element.matches("fieldset input") ? element.nextElementSibling : element);
      return { name: element.id || element.className || element.textContent, seen: style.outlineStyle !== "none", tag: element.tagName };
    });
    if (!at) break;
    check(`the focus can be seen at ${at.tag} ${at.name}`, at.seen);
    visited.push(at.name);
  }
  for (const wanted of ["skip", "pause", "theme", "plot", "choice-latency"]) check(`Tab reaches ${wanted}`, visited.includes(wanted), visited);
  check("each plot is reached", visited.filter((name) => name === "plot").length === await page.locator(".plot").count());
  // Along a plot by its keys.
  await page.locator(".plot").first().focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const spoken = await page.locator("#spoken").textContent();
  check("a plot is read out", /^\d\d:\d\d:\d\d: Sent to clients .*\/s/.test(spoken), spoken);
  // Its table by Enter.
  await page.locator("figure button").first().focus();
  await page.keyboard.press("Enter");
  check("a table opens", await page.locator("#table-throughput tbody tr").count() > 3);
  await page.keyboard.press("Enter");
  // Spans by arrows, pausing by the space bar.
  await page.locator("input[value=minute]").focus();
  await page.keyboard.press("ArrowRight");
  check("an hour is chosen", await page.locator("input[value=hour]").isChecked());
  await page.keyboard.press("ArrowLeft");
  await page.locator("#pause").focus();
  await page.keyboard.press("Space");
  const before = await page.evaluate(() => document.documentElement.dataset.uptime);
  await page.waitForTimeout(2500);
  check("it pauses", before === await page.evaluate(() => document.documentElement.dataset.uptime));
  await page.keyboard.press("Space");
  await page.waitForFunction((then) => document.documentElement.dataset.uptime !== then, before);
};

const enough = (page, count) => page.waitForFunction((wanted) => Number(document.documentElement.dataset.points) >= wanted, count);

try {
  const { page, context, faults, milliseconds } = await open(url);
  console.log(`page: numbers after ${milliseconds} ms`);
  await equal(page);
  await walk(page);
  await enough(page, pictures ? 60 : 10);
  await accessible(page, "light");
  await fits(page, "1280 px");
  await picture(page, "page-light", { fullPage: true });
  await page.setViewportSize({ width: 1920, height: 1080 });
  await page.waitForTimeout(1200);
  await fits(page, "1920 px");
  await picture(page, "page-wide");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.locator("#theme").selectOption("dark");
  check("the switch makes it dark", light !== await ground());
  await accessible(page, "dark by the switch");
  check("stores that were not asked are not shown", await page.locator("#stores").isHidden());
  check("no error and no foreign request", faults.length === 0, faults);
  await context.close();

  const stores = await open(url, {}, (stat) => {
    const set = { object_get_requests: 1000, object_put_requests: 200, object_received_bytes: 1e9, object_answers: 1200,
      object_answer_nanoseconds: 24e8, tier_hits: 3, tier_misses: 1 };
    for (const [name, value] of Object.entries(set)) stat.counters[`pagewell_${name}_total`] = value;
    Object.assign(stat.gauges, { pagewell_staging_kept_files: 2, pagewell_object_unguarded: 1 });
    return stat;
  });
  const rows = await stores.page.locator("#stores tbody tr").evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  const row = (title) => rows.find(([first]) => first === title)?.slice(1);
  check("requests of stores", row("GET")?.[1] === "1,000" && row("PUT")?.[1] === "200" && !row("HEAD"), rows);
  check("times of stores", row("Mean time until an answer")?.[1] === "2.00 ms", rows);
  check("the disk tier", row("Found in the disk tier")?.[1] === "75.0 %", rows);
  check("what people have to look at has a mark", row("Files kept for people")?.[0] === "⚠ 2" && row("Written buckets, unguarded")?.[0] === "⚠ 1", rows);
  check("and a colour", await stores.page.locator("#stores td.bad").count() === 2);
  check("and stands with the rest", (await stores.page.locator("#warnings").textContent()).includes("Changed files kept"));
  const cost = await stores.page.locator("#stores ul").textContent();
  check("costs of stores", cost.includes("about 0.0914 USD since the start, 0.0000 USD an hour"), cost);
  await accessible(stores.page, "stores");
  await fits(stores.page, "stores");
  await picture(stores.page, "page-stores");
  check("no error with stores", stores.faults.length === 0, stores.faults);
  await stores.context.close();

  const dark = await open(url, { colorScheme: "dark" });
  await enough(dark.page, 5);
  check("it is dark where the system is", light !== await dark.page.evaluate(() => getComputedStyle(document.body).backgroundColor));
  await picture(dark.page, "page-dark");
  check("no error when dark", dark.faults.length === 0, dark.faults);
  await dark.context.close();

  const phone = await open(url, { viewport: { width: 360, height: 780 }, deviceScaleFactor: 2 });
  await fits(phone.page, "360 px");
  await accessible(phone.page, "360 px");
  await picture(phone.page, "page-phone");
  for (const range of ["hour", "day"]) {
    await phone.page.locator(`input[value=${range}]`).check();
    await phone.page.waitForTimeout(1500);
  }
  check("no error on a phone", phone.faults.length === 0, phone.faults);
  await phone.context.close();

  if (mountUrl) {
    const mount = await open(mountUrl);
    check("a mount says what it is", (await mount.page.locator("#about").textContent()).includes("mount"));
    check("a mount shows its reads", (await mount.page.locator(".legend").first().textContent()).includes("Read by programs"));
    await accessible(mount.page, "mount");
    await picture(mount.page, "page-mount");
    check("no error at a mount", mount.faults.length === 0, mount.faults);
    await mount.context.close();
  }
  console.log(`page: ${checks} passed, 0 failed`);
} finally {
  await browser.close();
}
