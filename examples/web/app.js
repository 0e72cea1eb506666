/** The page: takes a model and pictures, shows the five best answers. */

import {best, Classifier, isModel, start} from "./classifier.js";
import {decode, resize} from "./pixels.js";

const element = (id) => document.getElementById(id);
const NAMES = {wasm: "CPU", webgpu: "WebGPU"};
const percent = new Intl.NumberFormat("en", {style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1});

let classifier = null;
let modelFile = null; // opened again when the accelerator changes
let lastPicture = null; // answered again by a new model

// One thing at a time, in the order in which the user asked.
let queue = Promise.resolve();
function enqueue(work) {
  queue = queue.then(async () => {
    document.body.setAttribute("aria-busy", "true");
    try {
      await work();
      showError(null);
    } catch (error) {
      console.debug(error);
      showError(error.message);
    } finally {
      document.body.removeAttribute("aria-busy");
    }
  });
  return queue;
}

function showError(message) {
  element("error").textContent = message ?? "";
  element("error").hidden = message === null;
}

async function openModel(bytes, name) {
  element("model-state").textContent = `Opening ${name} …`;
  try {
    const opened = await Classifier.open(bytes, name, element("accelerator").value);
    classifier?.close();
    classifier = opened;
    modelFile = {bytes, name};
  } finally {
    showModel();
  }
  if (lastPicture) await answer(lastPicture);
}

function showModel() {
  if (!classifier) {
    element("model-state").textContent = "No model yet: choose a .tflite file that vitkeras exported.";
    return;
  }
  const {name, labels, width, height, accelerator, asked} = classifier;
  const refused = accelerator === asked ? "" : " (WebGPU does not take all of it)";
  element("model-state").textContent =
    `${name}: ${labels.length} classes, ${width} × ${height} pixels, ${NAMES[accelerator]}${refused}`;
  element("accelerator").value = accelerator;
}

async function openPicture(file) {
  if (!classifier) throw new Error("A picture needs a model first; choose a .tflite file.");
  let picture;
  try {
    picture = await decode(file);
  } catch (cause) {
    throw new Error(`${file.name || "This"} is not a picture that this browser reads.`, {cause});
  }
  await answer(picture);
  lastPicture = picture;
}

async function answer(picture) {
  const pixels = resize(picture, classifier.height, classifier.width);
  const {probabilities, milliseconds} = await classifier.scores(pixels);
  showPicture(picture);
  showScores(best(probabilities, classifier.labels), milliseconds);
}

function showPicture(picture) {
  const canvas = element("picture");
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.style.imageRendering = picture.width < 100 ? "pixelated" : "auto";
  canvas.getContext("2d").putImageData(picture, 0, 0);
  canvas.hidden = false;
}

function showScores(answers, milliseconds) {
  element("scores").replaceChildren(...answers.map(scoreLine));
  element("latency").textContent = `${milliseconds.toFixed(1)} ms`;
  element("waiting").hidden = true;
  element("scores").hidden = false;
  element("latency").hidden = false;
}

function scoreLine({index, label, probability}) {
  const line = part("div", "line");
  line.append(part("span", "name", label), part("span", "percent", percent.format(probability)));
  const fill = part("div", "fill");
  fill.style.width = `${100 * probability}%`;
  const track = part("div", "track");
  track.setAttribute("aria-hidden", "true"); // the number beside it says the same
  track.append(fill);
  const item = part("li", "");
  item.dataset.index = index;
  item.dataset.probability = probability;
  item.append(line, track);
  return item;
}

function part(tag, className, text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/** A file of either kind, told apart by its content. */
async function openFile(file) {
  const head = new Uint8Array(await file.slice(0, 16).arrayBuffer());
  if (isModel(head) || file.name.endsWith(".tflite")) {
    await openModel(new Uint8Array(await file.arrayBuffer()), file.name);
  } else {
    await openPicture(file);
  }
}

function takeFiles(files) {
  for (const file of files) enqueue(() => openFile(file));
}

for (const id of ["model-file", "picture-file"]) {
  element(id).addEventListener("change", ({target}) => {
    const files = [...target.files];
    target.value = ""; // so that the same file can be chosen again
    if (id === "picture-file") takeFiles(files);
    else for (const file of files) enqueue(async () => openModel(new Uint8Array(await file.arrayBuffer()), file.name));
  });
}

element("accelerator").addEventListener("change", () => {
  if (modelFile) enqueue(() => openModel(modelFile.bytes, modelFile.name));
});

document.addEventListener("paste", ({clipboardData}) => {
  if (clipboardData.files.length) takeFiles([...clipboardData.files]);
  else showError("The clipboard holds no picture.");
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  element("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) element("drop").classList.remove("over");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  element("drop").classList.remove("over");
  if (event.dataTransfer.files.length) takeFiles([...event.dataTransfer.files]);
  else showError("What was dropped is no file.");
});

enqueue(async () => {
  const webgpu = await start();
  element("accelerator").querySelector("[value=webgpu]").disabled = !webgpu;
  const url = new URLSearchParams(location.search).get("model") ?? "model.tflite";
  const response = await fetch(url);
  showModel();
  if (response.ok) await openModel(new Uint8Array(await response.arrayBuffer()), url.split("/").at(-1));
  else if (response.status !== 404 || location.search) throw new Error(`${url} is not on this server.`);
});
