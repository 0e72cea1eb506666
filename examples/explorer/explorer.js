"use strict";

const values = JSON.parse(document.getElementById("values").textContent);
const at = (id) => document.getElementById(id);
const PARTS = {patch: "patch embedding", linear: "linear layers", attention: "attention products"};

const grouped = (number, digits = 0) =>
  number.toLocaleString("en-GB", {minimumFractionDigits: digits, maximumFractionDigits: digits});
const percent = (share, digits = 1) => `${grouped(100 * share, digits)} %`;
const size = (bytes) => (bytes < 1e9 ? `${grouped(bytes / 1e6, 1)} MB` : `${grouped(bytes / 1e9, 2)} GB`);
const giga = (flops) => `${grouped(flops / 1e9, 2)} GFLOP`;

/** An element with text, classes and children. */
function element(tag, {text, ...attributes} = {}, children = []) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** What a slider says, to the eye and to a screen reader. */
function say(slider, text) {
  at(`${slider}-value`).textContent = text;
  at(slider).setAttribute("aria-valuetext", text);
}

/** A figure with a smaller line below. */
function figure(id, text, below) {
  at(id).replaceChildren(text, ...(below ? [element("small", {text: below})] : []));
}

function showCosts() {
  const [model, image, patch] = ["model", "image", "patch"].map((id) => Number(at(id).value));
  const cost = values.costs[model][image][patch];
  const side = values.patches[patch];
  const asked = values.images[image];
  say("model", values.models[model]);
  say("patch", `${side} pixels`);
  say("image", `${asked} pixels`);
  const rows = cost.side / side;
  const total = Object.values(cost.flops).reduce((sum, flops) => sum + flops);
  figure("tokens", grouped(cost.tokens), `${rows} × ${rows} patches`);
  figure("parameters", grouped(cost.parameters));
  figure("flops", giga(total));
  figure("share", percent(cost.flops.attention / total), "of the computation");
  figure("int8", size(cost.int8));
  figure("fp32", size(cost.fp32));
  figure("activations", size(cost.activations), "of one image");
  at("grid").style.backgroundSize = `${100 / rows}% ${100 / rows}%`;
  at("grid").setAttribute("aria-label", `An image of ${cost.side} pixels cut into ${rows} × ${rows} patches`);
  at("stack").replaceChildren(
    ...Object.keys(PARTS).map((part) => element("span", {class: part, style: `flex: ${cost.flops[part] / total}`})),
  );
  at("parts").replaceChildren(
    ...Object.entries(PARTS).map(([part, name]) =>
      element("li", {id: `part-${part}`}, [
        element("span", {class: `swatch ${part}`}),
        `${name} ${giga(cost.flops[part])}, ${percent(cost.flops[part] / total)}`,
      ]),
    ),
  );
  const crossing = `Attention costs as much as a block’s linear layers at ${grouped(values.crossings[model])} tokens.`;
  const resized = `${asked} is no multiple of ${side}: images are resized to ${cost.side} pixels. `;
  at("size-note").textContent = (cost.side === asked ? "" : resized) + crossing;
}

function showSet() {
  const set = values.sets[Number(at("set").value)];
  say("set", `${set.name}, ${grouped(set.images / 1e6, 1).replace(/\.0$/, "")} million images`);
  const gap = set.top1["ViT-L/16"] - set.top1["ViT-B/16"];
  const better = gap > 0 ? "the larger model is better" : "the larger model is worse";
  figure("gap", `${gap > 0 ? "+" : "−"}${Math.abs(gap).toFixed(2)} points`, better);
  const names = Object.keys(values.sets.at(-1).top1);
  at("accuracies").replaceChildren(
    ...names.map((name) => {
      const top1 = set.top1[name];
      const place = top1 === undefined ? [] : [element("i", {style: `left: ${((top1 - 70) / 20) * 100}%`})];
      return element("li", {class: /[BL].16/.test(name) ? "key" : ""}, [
        element("span", {text: name}),
        element("span", {class: "track"}, place),
        element("span", {class: "value", text: top1 === undefined ? "not trained" : `${top1.toFixed(2)} %`}),
      ]);
    }),
  );
}

const described = (run) => `${run.top1.toFixed(2)} % for ${grouped(run.exaflops)} exaFLOPs`;
const named = (run) => `${run.name}, ${run.epochs} epochs`;

/** The most accurate run of a family within the budget. */
function best(family, budget) {
  const within = values.runs.filter((run) => run.family === family && run.exaflops <= budget);
  return within.reduce((first, run) => (first && first.top1 >= run.top1 ? first : run), null);
}

/** The cheapest ResNet that is at least as accurate as a run. */
function matching(run) {
  const able = values.runs.filter((other) => other.family === "resnet" && other.top1 >= run.top1);
  return able.reduce((first, other) => (first && first.exaflops <= other.exaflops ? first : other), null);
}

function showBudget() {
  const budget = 10 ** Number(at("budget").value);
  say("budget", `${grouped(budget)} exaFLOPs`);
  const chosen = {};
  for (const family of ["vit", "hybrid", "resnet"]) {
    const run = (chosen[family] = best(family, budget));
    if (run) figure(`best-${family}`, named(run), described(run));
    else figure(`best-${family}`, "none this cheap");
  }
  const match = chosen.vit && matching(chosen.vit);
  if (!chosen.vit) figure("match", "no ViT to match");
  else if (!match) figure("match", "none", `no ResNet of the table reaches ${chosen.vit.top1.toFixed(2)} %`);
  else figure("match", named(match), `${described(match)}, ${(match.exaflops / chosen.vit.exaflops).toFixed(1)} times`);
  draw(budget, Object.values(chosen));
}

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** The marks differ in shape, not in colour alone. */
function mark(family, x, y, attributes) {
  if (family === "vit") return shape("circle", {cx: x, cy: y, r: 6, ...attributes});
  const turned = family === "hybrid" ? {transform: `rotate(45 ${x} ${y})`} : {};
  return shape("rect", {x: x - 5.5, y: y - 5.5, width: 11, height: 11, ...turned, ...attributes});
}

/** Drawn for the width that there is, so that a phone's marks and letters are as large as a desk's. */
function draw(budget, chosen) {
  const width = Math.max(at("chart").clientWidth, 240);
  at("chart").setAttribute("viewBox", `0 0 ${width} 320`);
  const x = (exaflops) => 44 + ((Math.log10(exaflops) - 1.6) / 2.1) * (width - 50);
  const y = (top1) => 270 - ((top1 - 76) / 14) * 260;
  const shapes = [];
  for (const top1 of [76, 80, 84, 88]) {
    shapes.push(shape("line", {class: "axis", x1: 44, x2: width, y1: y(top1), y2: y(top1)}));
    shapes.push(shape("text", {x: 38, y: y(top1) + 4, "text-anchor": "end"}, `${top1} %`));
  }
  for (const exaflops of [50, 100, 300, 1000, 3000])
    shapes.push(shape("text", {x: x(exaflops), y: 291, "text-anchor": "middle"}, grouped(exaflops)));
  shapes.push(shape("text", {x: width, y: 314, "text-anchor": "end"}, "exaFLOPs of pre-training"));
  shapes.push(shape("line", {class: "budget", x1: x(budget), x2: x(budget), y1: 8, y2: 270}));
  for (const run of values.runs) {
    const state = run.exaflops > budget ? " over" : chosen.includes(run) ? " best" : "";
    const drawn = mark(run.family, x(run.exaflops), y(run.top1), {class: run.family + state});
    drawn.append(shape("title", {}, `${named(run)}: ${described(run)}`));
    shapes.push(drawn);
  }
  at("chart").replaceChildren(...shapes);
}

function start(slider, count, first, show) {
  if (count) at(slider).max = count - 1;
  at(slider).value = first;
  at(slider).addEventListener("input", show);
}

start("model", values.models.length, values.models.indexOf("ViT-B"), showCosts);
start("patch", values.patches.length, values.patches.indexOf(16), showCosts);
start("image", values.images.length, 0, showCosts);
start("set", values.sets.length, 0, showSet);
start("budget", null, 2.9, showBudget);
at("runs").replaceChildren(
  ...values.runs.map((run) =>
    element(
      "tr",
      {},
      [run.name, run.epochs, grouped(run.exaflops), grouped(run.calculated, 1), `${run.top1.toFixed(2)} %`].map((text) =>
        element("td", {text}),
      ),
    ),
  ),
);
addEventListener("resize", showBudget);
showCosts();
showSet();
showBudget();
