/**
 * Drives the page of examples/web in Chromium: a list of steps as JSON on stdin, what each left on the page on stdout.
 *
 *     node page_driver.mjs FOLDER_WITH_PLAYWRIGHT CHROMIUM < steps.json
 */

import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {basename, join} from "node:path";

const [packages, executablePath] = process.argv.slice(2);
const {chromium} = createRequire(join(packages, "package.json"))("playwright-core");
const TYPES = {png: "image/png", jpg: "image/jpeg", tflite: "application/octet-stream", txt: "text/plain"};

/** What a person sees. */
function read(page) {
  return page.evaluate(() => {
    const shown = (id) => (document.getElementById(id).hidden ? null : document.getElementById(id).textContent);
    return {
      model: document.getElementById("model-state").textContent,
      error: shown("error"),
      latency: shown("latency"),
      scores: [...document.querySelectorAll("#scores li")].map((item) => ({
        index: Number(item.dataset.index),
        probability: Number(item.dataset.probability),
        label: item.querySelector(".name").textContent,
        percent: item.querySelector(".percent").textContent,
      })),
      wider: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    };
  });
}

async function settle(page) {
  await page.waitForFunction(() => !document.body.hasAttribute("aria-busy"), undefined, {timeout: 60000});
  return read(page);
}

/** A drop or paste event with one file, as the browser makes it. */
function give(page, kind, path) {
  const name = basename(path);
  const file = {name, type: TYPES[name.split(".").at(-1)] ?? "", data: readFileSync(path).toString("base64")};
  return page.evaluate(
    ([kind, {name, type, data}]) => {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], name, {type}));
      const options = {bubbles: true, cancelable: true};
      document.getElementById("drop").dispatchEvent(
        kind === "drop"
          ? new DragEvent("drop", {...options, dataTransfer: transfer})
          : new ClipboardEvent("paste", {...options, clipboardData: transfer}),
      );
    },
    [kind, file],
  );
}

const steps = {
  async open(page, {url, width = 1100, height = 800, scheme = "light"}) {
    await page.setViewportSize({width, height});
    await page.emulateMedia({colorScheme: scheme});
    await page.goto(url);
    return settle(page);
  },
  async choose(page, {input, path}) {
    await page.setInputFiles(`#${input}`, path);
    return settle(page);
  },
  async drop(page, {path}) {
    await give(page, "drop", path);
    return settle(page);
  },
  async paste(page, {path}) {
    await give(page, "paste", path);
    return settle(page);
  },
  async select(page, {value}) {
    await page.selectOption("#accelerator", value);
    return settle(page);
  },
  async tab(page, {times}) {
    const reached = [];
    for (let i = 0; i < times; i++) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(() => document.activeElement.id));
    }
    return reached;
  },
  async shot(page, {path}) {
    await page.screenshot({path, fullPage: true});
    return null;
  },
  /** The network's input, as the page's own module makes it. */
  async pixels(page, {path, height, width}) {
    const data = readFileSync(path).toString("base64");
    return page.evaluate(
      async ([data, height, width]) => {
        const {decode, resize} = await import("./pixels.js");
        const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
        return Array.from(resize(await decode(new Blob([bytes])), height, width));
      },
      [data, height, width],
    );
  },
};

// WebGPU on the processor, where there is no graphics card.
const webgpu = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"];
const browser = await chromium.launch({executablePath, args: ["--no-sandbox", "--ignore-gpu-blocklist", ...webgpu]});
try {
  const page = await browser.newPage();
  const requests = [];
  const faults = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => faults.push(String(error)));
  const results = [];
  for (const {do: name, ...step} of JSON.parse(readFileSync(0, "utf-8"))) results.push(await steps[name](page, step));
  process.stdout.write(JSON.stringify({results, requests, faults}));
} finally {
  await browser.close();
}
