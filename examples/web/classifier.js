/** A .tflite file in LiteRT.js: checked when it is opened, so that pictures cannot fail later. */

import {getWebGpuDevice, loadAndCompile, loadLiteRt, Tensor} from "@litertjs/core";

import {readLabels} from "./labels.js";

// Beside the page: nothing comes from another server.
const WASM = new URL("./node_modules/@litertjs/core/wasm/", import.meta.url).href;

let runtime = null;

/** Loads the runtime once. Resolves to whether WebGPU can be chosen. */
export async function start() {
  runtime ??= loadLiteRt(WASM);
  try {
    await runtime;
  } catch (cause) {
    throw new Error("LiteRT.js did not load; run `npm install` in the page's folder.", {cause});
  }
  return getWebGpuDevice() !== null;
}

/** A model that takes one picture and gives one row of scores. */
export class Classifier {
  /**
   * Opens a model.
   *
   * @param {Uint8Array} bytes the file.
   * @param {string} name what errors call it.
   * @param {"wasm" | "webgpu"} accelerator where it runs.
   * @returns {Promise<Classifier>}
   */
  static async open(bytes, name, accelerator = "wasm") {
    if (!isModel(bytes)) throw new Error(`${name} is not a TFLite file.`);
    const labels = await readLabels(bytes);
    await start();
    let model;
    try {
      model = await loadAndCompile(bytes, {accelerator});
    } catch (cause) {
      const advice = accelerator === "webgpu" ? "with WebGPU; choose CPU, or a file exported with the preset fp32" : "";
      throw new Error(`${name} does not run ${advice || `in LiteRT.js (${firstLine(cause)})`}.`, {cause});
    }
    try {
      const classifier = new Classifier(model, labels, name);
      await classifier.scores(new Float32Array(3 * classifier.height * classifier.width)); // the first run is slower
      return classifier;
    } catch (error) {
      model.delete();
      throw error;
    }
  }

  constructor(model, labels, name) {
    const inputs = model.getInputDetails();
    const outputs = model.getOutputDetails();
    const shape = Array.from(inputs[0]?.shape ?? []);
    if (inputs.length !== 1 || inputs[0].dtype !== "float32" || shape.length !== 4 || shape[0] !== 1 || shape[3] !== 3) {
      const received = inputs.map((input) => `${input.name}: ${input.dtype} (${Array.from(input.shape).join(", ")})`);
      throw new Error(
        `${name} must take one float32 picture (1, height, width, 3), it takes ${received.join("; ") || "nothing"}.`,
      );
    }
    const classes = outputs[0]?.shape.at(-1);
    if (outputs.length !== 1 || outputs[0].shape.length !== 2 || !["logits", "probabilities"].includes(outputs[0].name)) {
      const received = outputs.map((output) => `${output.name} (${Array.from(output.shape).join(", ")})`);
      throw new Error(`${name} must give logits or probabilities (1, classes), it gives ${received.join("; ")}.`);
    }
    if (labels !== null && labels.length !== classes) {
      throw new Error(`${name} must hold one name a class, it holds ${labels.length} names for ${classes} classes.`);
    }
    this.model = model;
    this.name = name;
    // LiteRT.js falls back to the CPU as a whole where WebGPU lacks an operator.
    this.asked = model.options.accelerator;
    this.accelerator = model.isFullyAccelerated ? this.asked : "wasm";
    [, this.height, this.width] = shape;
    this.labels = labels ?? Array.from({length: classes}, (_, k) => `class ${k}`);
    this.isLogits = outputs[0].name === "logits";
  }

  /**
   * Probabilities of every class.
   *
   * @param {Float32Array} pixels 3 H W values 0...255, from `resize`.
   * @returns {Promise<{probabilities: number[], milliseconds: number}>}
   */
  async scores(pixels) {
    const start = performance.now();
    const input = new Tensor(pixels, [1, this.height, this.width, 3]);
    const [output] = await this.model.run(input);
    const values = Array.from(await output.data());
    const milliseconds = performance.now() - start;
    input.delete();
    output.delete();
    return {probabilities: this.isLogits ? softmax(values) : values, milliseconds};
  }

  /** Frees the model's memory in the runtime. */
  close() {
    this.model.delete();
  }
}

/** Whether a file starts as TFLite files do. */
export function isModel(bytes) {
  return bytes.length > 8 && String.fromCharCode(...bytes.subarray(4, 8)) === "TFL3";
}

/** The `count` highest classes, best first. */
export function best(probabilities, labels, count = 5) {
  return probabilities
    .map((probability, index) => ({index, label: labels[index], probability}))
    .sort((a, b) => b.probability - a.probability || a.index - b.index)
    .slice(0, count);
}

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((value) => Math.exp(value - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

function firstLine(error) {
  return String(error?.message ?? error).trim().split("\n")[0].replace(/\.$/, "");
}
