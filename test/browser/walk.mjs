// Walks the pages of a gallery, or of a server, with a real browser. One function per
// promise; each says what it looks for. A failed promise does not stop the others.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const need = createRequire(join(process.env.FAIRLEAD_MODULES, "x.js"));
const { chromium } = need("playwright-core");
const axeSource = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");
const start = new URL(process.argv[2]);
const shots = process.env.FAIRLEAD_SHOTS;
const only = process.env.FAIRLEAD_ONLY;

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.FAIRLEAD_CHROMIUM, headless: true, args: flags });
let failed = 0;
let done = 0;

async function promise(says, act, options = {}) {
  if (only && !new RegExp(only).test(says)) return;
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce",
    ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (problem) => complaints.push(String(problem)));
  try {
    if (start.pathname !== "/gallery") await page.goto(start.href); // signs in
    await act(page, context);
    const serious = complaints.filter((text) => !/status of 4\d\d|net::ERR_/.test(text));
    assert.deepEqual(serious, [], "the browser complains");
    done++;
    console.log(`ok    ${says}`);
  } catch (problem) {
    failed++;
    console.log(`FAIL  ${says}\n      ${String(problem.message || problem).split("\n").slice(0, 14).join("\n      ")}`);
    await page.screenshot({ path: join(shots, `failed-${failed}.png`) }).catch(() => {});
  } finally {
    await context.close();
  }
}

const at = (path) => new URL(path, start.origin).href;

// addresses are the pages of the gallery by name, or what a server links to from its lists.
async function addresses() {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(start.href);
  let found;
  if (start.pathname === "/gallery") {
    found = await page.$$eval("li a", (links) => links.map((link) => [link.id, link.getAttribute("href")]));
  } else {
    await page.goto(at("/"));
    const runs = await page.$$eval(".run .title", (links) => links.slice(0, 3).map((a) => a.getAttribute("href")));
    found = [["runs", "/"], ["runners", "/runners"], ["repositories", "/repositories"]];
    runs.forEach((href, n) => found.push([`run-${n}`, href]));
    if (runs.length > 0) {
      await page.goto(at(runs[0]));
      const logs = await page.$$eval(".attempt-head a",
        (links) => links.slice(0, 2).map((a) => a.getAttribute("href")));
      logs.forEach((href, n) => found.push([`log-${n}`, href]));
    }
  }
  await context.close();
  return new Map(found);
}

const pages = await addresses();
const gallery = start.pathname === "/gallery";
const wider = (name) => (page) => page.evaluate((it) => {
  const box = it ? document.querySelector(it) : document.documentElement;
  return box.scrollWidth - box.clientWidth;
}, name);
const looks = [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["narrow", { colorScheme: "light", viewport: { width: 360, height: 780 } }],
];

async function shoot(page, name, full) {
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage: full, animations: "disabled" });
}

async function settled(page) {
  await page.evaluate(() => document.fonts.ready);
  await page.waitForFunction(() => !document.querySelector(".log.virtual .ln.waiting"), null, { timeout: 10000 });
}

for (const [look, options] of looks) {
  await promise(`every page in ${look}: accessible, and nothing wider than the screen`, async (page) => {
    const broken = [];
    for (const [name, path] of pages) {
      if (name.startsWith("run-") && look !== "light" && /timed|cancelled|skipped|soft|queued/.test(name)) continue;
      await page.goto(at(path), { waitUntil: "load" });
      await settled(page);
      await shoot(page, `${name}-${look}`, !name.startsWith("log-"));
      await page.evaluate(() => document.querySelectorAll("details.jobblock").forEach((one) => (one.open = true)));
      const rules = look === "light" ? { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
        "best-practice"] } : { type: "rule", values: look === "dark" ? ["color-contrast"] : ["target-size"] };
      await page.evaluate(axeSource);
      const report = await page.evaluate((only) => window.axe.run(document, {
        resultTypes: ["violations"], runOnly: only }), rules);
      for (const rule of report.violations) {
        if (rule.impact === "minor") continue;
        broken.push(`${name}: ${rule.id} (${rule.impact}): ${rule.nodes[0].html.slice(0, 160)} ${
          rule.nodes[0].any[0]?.message || rule.nodes[0].all[0]?.message || ""}`);
      }
      const wide = await wider("")(page);
      if (wide > 0) broken.push(`${name}: ${wide} pixels wider than the screen`);
    }
    assert.deepEqual(broken, []);
  }, options);
}

if (gallery) {
  const path = (name) => at(pages.get(name));

  await promise("the filter is in the address and the count is said", async (page) => {
    await page.goto(at("/"));
    await page.keyboard.press("/");
    await page.keyboard.type("outcome:failure");
    await page.keyboard.press("Enter");
    await page.waitForURL(/q=outcome/);
    const count = await page.textContent("#count");
    const rows = await page.locator(".run").count();
    assert.equal(count.trim(), `${rows} runs`);
    assert.equal(await page.locator(".run .badge.tone-bad").count(), rows);
  });

  await promise("the keyboard alone goes from the list to a run, a log, and back", async (page) => {
    await page.goto(at("/"));
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    const title = await page.evaluate(() => document.activeElement.textContent);
    await page.keyboard.press("Enter");
    await page.waitForURL(/runs\/run_/);
    assert.equal(await page.textContent("h1"), title);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/jobs\/job_/);
    await page.keyboard.press("u");
    await page.waitForURL(/runs\/run_[a-z0-9]+$/);
    await page.keyboard.press("u");
    await page.waitForURL(start.origin + "/");
    await page.keyboard.press("Tab"); // the skip link comes first
    await page.evaluate(() => document.querySelector(".skip").focus());
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  });

  await promise("a double click on an action is one action, and the page shows it", async (page) => {
    await page.goto(path("run-failure"));
    await page.click("summary:has-text('Rerun all')");
    await page.waitForSelector("form[action$='/rounds'] >> visible=true");
    await page.locator(".actions details[open] button").dblclick({ noWaitAfter: true });
    await page.waitForSelector(".rounds");
    await page.reload();
    assert.equal(await page.locator(".rounds li").count(), 2);
  });

  await promise("cancel is asked for and shown as asked for, not as done", async (page) => {
    await page.goto(path("run-running"));
    await page.click("summary.danger");
    await page.fill("input[name=reason]", "wrong branch");
    await page.click(".actions details[open] button.danger");
    await page.waitForSelector(".head .fact.tone-doubt >> text=cancel");
    const facts = await page.locator(".head .facts .word").allTextContents();
    assert.equal(facts[0], "cancel");
    assert.match(facts[1], /running/);
    assert.equal(facts[2], "nothing yet");
  });

  await promise("a live page changes under the reader's eyes and keeps what they opened", async (page) => {
    await page.goto(path("run-live"));
    await page.click("summary.danger");
    await page.fill("input[name=reason]", "half a sentence");
    await page.waitForFunction(() => document.querySelector("#link-state").textContent === "live");
    const before = await page.evaluate(() => {
      window.mark = document.querySelector("h1");
      window.seen = 0;
      document.addEventListener("refreshed", () => window.seen++);
      return document.querySelector("input[name=key]").value;
    });
    await page.waitForFunction(() => window.seen >= 2);
    const after = await page.evaluate(() => ({ same: window.mark === document.querySelector("h1"),
      key: document.querySelector("input[name=key]").value, reason: document.querySelector("input[name=reason]").value,
      open: document.querySelector("details.action").open, focus: document.activeElement.name }));
    assert.deepEqual(after, { same: true, key: before, reason: "half a sentence", open: true, focus: "reason" });
  });

  await promise("a lost connection is shown and heals", async (page) => {
    await page.goto(path("run-live"));
    await page.waitForFunction(() => document.querySelector("#link-state").textContent === "live");
    await page.route("**/api/v1/**", (route) => route.abort());
    await page.route("**/runs/**", (route) => route.abort());
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await page.waitForSelector(".link-state.lost");
    await page.unroute("**/api/v1/**");
    await page.unroute("**/runs/**");
    await page.waitForFunction(() => document.querySelector("#link-state").textContent === "live", null,
      { timeout: 30000 });
    assert.equal(await page.locator(".link-state.lost").count(), 0);
  });

  await promise("a log follows its end while it grows, from the first byte", async (page) => {
    await page.goto(path("log-live"));
    await page.waitForSelector("#log-follow[aria-pressed=true]");
    const end = ".loglines .ln:last-child .no";
    const before = await page.evaluate((it) => Number(document.querySelector(it).dataset.n), end);
    await page.waitForFunction(([it, n]) => Number(document.querySelector(it).dataset.n) > n, [end, before]);
    await page.keyboard.press("f");
    await page.evaluate(() => (document.querySelector("#log").scrollTop = 0));
    await page.waitForSelector("#L1 .tx:not(:empty)");
  });

  await promise("a million lines scroll, jump and never hold more than a few hundred rows", async (page) => {
    await page.goto(path("log-million"));
    await settled(page);
    const rows = () => page.evaluate(() => document.querySelectorAll(".loglines .ln").length);
    const seen = () => page.evaluate(() => {
      const box = document.querySelector("#log").getBoundingClientRect();
      const row = document.elementFromPoint(box.left + 300, box.top + 30).closest(".ln");
      return { n: Number(row.id.slice(1)), text: row.querySelector(".tx").textContent };
    });
    assert.ok((await rows()) < 400);
    for (const part of [0.5, 0.9, 0.25, 1]) {
      await page.evaluate((share) => {
        const box = document.querySelector("#log");
        box.scrollTop = share * (box.scrollHeight - box.clientHeight);
      }, part);
      await page.waitForTimeout(50);
      await settled(page);
      const now = await seen();
      assert.ok(Math.abs(now.n - part * 1e6) < 100, `at ${part} line ${now.n} is shown`);
      assert.ok((await rows()) < 400);
    }
    assert.equal(await page.getAttribute(".loglines .ln:last-child .no", "data-n"), "1000000");
    const before = (await seen()).n;
    await page.mouse.move(700, 600);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction((n) => {
      const box = document.querySelector("#log").getBoundingClientRect();
      return Number(document.elementFromPoint(box.left + 300, box.top + 30).closest(".ln").id.slice(1)) === n;
    }, before - 20);
    await page.keyboard.press("e");
    await page.waitForSelector("#L777777.pick.k-error");
    await shoot(page, "log-million-error", false);
  });

  await promise("search counts, jumps, and goes on where it stopped", async (page) => {
    await page.goto(path("log-million"));
    await settled(page);
    await page.keyboard.press("/");
    await page.keyboard.type("five hundred lines from");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^1 of 1000/.test(document.querySelector("#log-matches").textContent));
    await page.waitForSelector("#L501.hit-now");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("n");
    await page.waitForSelector("#L1501.hit-now");
    await page.keyboard.press("p");
    await page.keyboard.press("p");
    await page.waitForSelector("#L999501.hit-now");
  });

  await promise("a link to lines stays valid, a range is picked with shift", async (page) => {
    await page.goto(path("log-million"));
    await settled(page);
    await page.click("#L5 .no");
    await page.click("#L9 .no", { modifiers: ["Shift"] });
    assert.match(page.url(), /attempts\/att_[a-z0-9_]+\?line=5#L5-L9$/);
    await page.goto("about:blank");
    await page.goto(path("log-million") + "?line=654321#L654321-L654325");
    await page.waitForSelector("#L654325.pick");
    assert.equal(await page.locator(".ln.pick").count(), 5);
  });

  await promise("groups fold and unfold, and lines after them keep their numbers", async (page) => {
    await page.goto(path("log-million") + "?line=501#L501");
    await settled(page);
    await page.click("#L501 .tx");
    await page.waitForSelector("#L501.folded");
    await page.waitForSelector("#L1001");
    assert.equal(await page.locator("#L502").count(), 0);
    await page.click("#L501 .tx");
    await page.waitForSelector("#L502");
  });

  await promise("long lines wrap and scrolling stays in place", async (page) => {
    await page.goto(path("log-hostile"));
    await settled(page);
    await page.keyboard.press("w");
    await page.waitForSelector(".log.wrap");
    await page.keyboard.press("t");
    await shoot(page, "log-hostile-wrapped", false);
    const wide = await wider("#log")(page);
    assert.ok(wide <= 1, `${wide} pixels wider than the log`);
  });

  await promise("without scripts: lists, runs, logs by parts, search and actions all work", async (page) => {
    await page.goto(at("/?q=outcome:failure"));
    assert.ok((await page.locator(".run").count()) > 0);
    await page.goto(path("log-million"));
    assert.equal(await page.locator(".ln").count(), 500);
    await shoot(page, "log-million-noscript", false);
    await page.click("text=Later lines >> nth=0");
    assert.equal(await page.locator("#L501").count(), 1);
    await page.fill("#log-q", "needle");
    await page.click("#log-search button[type=submit]");
    await page.click(".matches a");
    assert.match(await page.textContent("#L777777"), /needle/);
    await page.goto(path("log-failure"));
    await page.click("text=First error");
    assert.match(page.url(), /#L54$/);
    await page.goto(path("run-soft-failure"));
    await page.click("summary:has-text('Rerun all')");
    await page.click(".actions details[open] button");
    await page.waitForSelector(".rounds");
    await page.goto(path("run-uncertain-effectful"));
    await page.click(".attention summary");
    await page.check(".attention input[value=confirmed]");
    await page.check(".attention input[value=success]");
    await page.click(".attention button");
    await page.waitForSelector("text=AttemptSettled");
  }, { javaScriptEnabled: false });
}

await browser.close();
console.log(`${done} promises kept, ${failed} broken; screenshots in ${shots}`);
process.exit(failed ? 1 : 0);
