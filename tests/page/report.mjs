// Looks at a report of `pagewell bench --html` as people do.
//
// usage: node report.mjs FILE [FOLDER-FOR-PICTURES]; PAGEWELL_PACKAGES has the packages
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [file, pictures] = process.argv.slice(2);
const require = createRequire(`${process.env.PAGEWELL_PACKAGES}/package.json`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
assert(executablePath, "Chromium is not installed");
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const LAST_RESORT = 60_000;
const SIZE_MAX = 300_000;

const browser = await chromium.launch({ executablePath, headless: true, args });
let checks = 0;
const check = (name, holds, detail = "") => {
  assert(holds, `${name}: ${typeof detail === "string" ? detail : JSON.stringify(detail, null, 2)}`);
  checks += 1;
};

const address = pathToFileURL(resolve(file)).href;
const open = async (options) => {
  const context = await browser.newContext({ deviceScaleFactor: 1, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LAST_RESORT);
  const faults = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => request.url() !== address && !request.url().startsWith("data:") && faults.push(`asks ${request.url()}`));
  await page.goto(address);
  await page.waitForFunction(() => document.documentElement.dataset.drawn);
  return { page, context, faults };
};

const accessible = async (page, name) => {
  // The policy of the page lets in no program but by the browser itself.
  await page.evaluate(`if (!window.axe) { ${axe} }`);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const violations = found.violations.map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => `${node.html}: ${node.failureSummary}`) }));
  check(`axe-core finds nothing (${name})`, violations.length === 0, violations);
};

const fits = async (page, name) => {
  const [inside, outside] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  check(`nothing sticks out (${name})`, inside <= outside, `${inside} of ${outside} px`);
};

const picture = async (page, name) => {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/report-${name}.png`, fullPage: true });
};

// Each picture is drawn, says what it is, and has a table with numbers below it.
const pictured = async (page) => {
  const figures = await page.evaluate(() => [...document.querySelectorAll("figure")].map((figure) => {
    const colors = (canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
      return seen.size;
    };
    return {
      title: figure.querySelector("h3").textContent,
      drawn: [...figure.querySelectorAll("canvas")].map(colors),
      plots: figure.querySelectorAll('.plot[role="img"][aria-label]').length,
      numbers: [...figure.querySelectorAll("tbody td")].filter((cell) => cell.textContent !== "").length,
      folded: !figure.querySelector("details").open,
      marks: figure.querySelectorAll(".legend li").length,
    };
  }));
  for (const { title, drawn, plots, numbers, folded, marks } of figures) {
    check(`${title}: is drawn`, plots > 0 && drawn.length === plots && drawn.every((count) => count >= 3), drawn);
    check(`${title}: has its numbers, folded, and its marks`, numbers > 0 && folded && marks > 0);
  }
  const experiments = await page.locator("main > section").count();
  check("each experiment has a picture", experiments > 0 && await page.locator("main > section").filter({ has: page.locator("figure") }).count() === experiments);
  check("titles are all different", new Set(await page.locator("h2, h3").allTextContents()).size === figures.length + experiments, figures.map(({ title }) => title));
};

// Tab reaches the tables, and Enter opens them.
const walk = async (page) => {
  const summary = page.locator("figure summary").first();
  for (let step = 0; step < 40 && !await summary.evaluate((element) => element === document.activeElement); step += 1) await page.keyboard.press("Tab");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check("the focus is at the first table and can be seen", await summary.evaluate((element) => element === document.activeElement) && outline !== "none");
  await page.keyboard.press("Enter");
  check("the table opens", await page.locator("figure table").first().isVisible());
  await page.keyboard.press("Tab");
  check("the table can be scrolled by keys", await page.evaluate(() => document.activeElement.className === "scroll"));
};

try {
  const text = readFileSync(file, "utf8");
  check("the report is small", text.length < SIZE_MAX, `${text.length} bytes`);
  for (const path of ["/home/", "/root/", "/tmp/", "/work/", "/usr/", "/var/"]) check(`no path ${path}`, !text.includes(path));

  const wide = await open({ viewport: { width: 1920, height: 1080 }, colorScheme: "light" });
  const { page } = wide;
  const first = await page.locator("h1, p").first().evaluate((element) => element.nextElementSibling ?? element.parentElement.nextElementSibling);
  check("it begins with the verdict", first !== null && (await page.locator(".verdict").boundingBox()).y < 200);
  await pictured(page);
  await fits(page, "1920 px");
  await accessible(page, "light");
  await picture(page, "wide");
  const ground = (where) => where.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground(page);
  await walk(page);
  check("no error and no request", wide.faults.length === 0, wide.faults);
  await wide.context.close();

  const phone = await open({ viewport: { width: 360, height: 780 }, colorScheme: "dark", deviceScaleFactor: 2 });
  check("it is dark where the system is", light !== await ground(phone.page));
  await fits(phone.page, "360 px");
  await accessible(phone.page, "dark, 360 px");
  await picture(phone.page, "phone-dark");
  await phone.page.emulateMedia({ media: "print" });
  await phone.page.waitForFunction(() => document.documentElement.dataset.theme === "light");
  check("paper is white", await ground(phone.page) === "rgb(255, 255, 255)", await ground(phone.page));
  await picture(phone.page, "print");
  check("no error on a phone", phone.faults.length === 0, phone.faults);
  await phone.context.close();
  console.log(`report: ${checks} passed, 0 failed`);
} finally {
  await browser.close();
}
