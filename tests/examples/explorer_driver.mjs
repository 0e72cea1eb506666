/**
 * Drives the explorer page, or any other file, in Chromium: a list of steps as JSON on stdin, what each left on the page on stdout.
 *
 *     node explorer_driver.mjs FOLDER_WITH_PLAYWRIGHT CHROMIUM < steps.json
 */

import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {join} from "node:path";

const [packages, executablePath] = process.argv.slice(2);
const {chromium} = createRequire(join(packages, "package.json"))("playwright-core");

/** What a person sees and a screen reader hears. */
function read(page) {
  return page.evaluate(() => {
    const texts = [...document.querySelectorAll("dd, output, #size-note, #parts li")];
    const sliders = [...document.querySelectorAll("input")];
    return {
      ...Object.fromEntries(texts.map((shown) => [shown.id, shown.innerText.trim()])),
      spoken: Object.fromEntries(sliders.map((slider) => [slider.id, slider.getAttribute("aria-valuetext")])),
      bars: [...document.querySelectorAll("#stack span")].map((bar) => bar.getBoundingClientRect().width),
      accuracies: [...document.querySelectorAll("#accuracies li")].map((line) => line.innerText.split(/\s*\n\s*/)),
      over: document.querySelectorAll("#chart .over").length,
      best: document.querySelectorAll("#chart .best").length,
      wider: document.documentElement.scrollWidth > document.documentElement.clientWidth,
      small: sliders.filter((slider) => slider.getBoundingClientRect().height < 44).map((slider) => slider.id),
    };
  });
}

const steps = {
  async open(page, {url, width = 1100, height = 800, scheme = "light"}) {
    await page.setViewportSize({width, height});
    await page.emulateMedia({colorScheme: scheme});
    await page.goto(url);
    return read(page);
  },
  /** Moves a slider as a mouse or finger does: to a value, with the events of the browser. */
  async set(page, {slider, value}) {
    await page.locator(`#${slider}`).fill(String(value));
    return read(page);
  },
  async press(page, {keys}) {
    for (const key of keys) await page.keyboard.press(key);
    return {...(await read(page)), focus: await page.evaluate(() => document.activeElement.id)};
  },
  async runs(page) {
    return page.evaluate(() => [...document.querySelectorAll("#runs tr")].map((row) => row.textContent));
  },
  async evaluate(page, {expression}) {
    return page.evaluate(expression);
  },
  async shot(page, {path}) {
    await page.screenshot({path, fullPage: true});
    return null;
  },
};

const browser = await chromium.launch({executablePath, args: ["--no-sandbox"]});
try {
  const page = await browser.newPage();
  const requests = [];
  const faults = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  const results = [];
  for (const {do: name, ...step} of JSON.parse(readFileSync(0, "utf-8"))) results.push(await steps[name](page, step));
  process.stdout.write(JSON.stringify({results, requests, faults}));
} finally {
  await browser.close();
}
