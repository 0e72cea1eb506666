/**
 * From a picture file to the network's input, as the library's evaluation does it.
 *
 * Legend: h x w size of the picture, H x W size that leaves.
 */

import {withoutExif} from "./exif.js";

/**
 * Decodes a picture without turning it by its Exif tag and without applying its colour profile: the library's decoders
 * do neither.
 *
 * @param {Blob} file a format that the browser reads.
 * @returns {Promise<ImageData>} 4 h w bytes, red, green, blue, alpha.
 */
export async function decode(file) {
  const bytes = withoutExif(new Uint8Array(await file.arrayBuffer()));
  const bitmap = await createImageBitmap(new Blob([bytes]), {
    colorSpaceConversion: "none",
    premultiplyAlpha: "none",
  });
  try {
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d", {willReadFrequently: true});
    context.drawImage(bitmap, 0, 0);
    return context.getImageData(0, 0, bitmap.width, bitmap.height);
  } finally {
    bitmap.close();
  }
}

/**
 * Bilinear resize of the whole picture with pixel centres at halves and without antialiasing, the formula of
 * TensorFlow's `tf.image.resize`. Alpha is dropped.
 *
 * @param {{width: number, height: number, data: Uint8ClampedArray}} picture from `decode`.
 * @param {number} height H.
 * @param {number} width W.
 * @returns {Float32Array} 3 H W values 0...255, rows of red, green, blue.
 */
export function resize(picture, height, width) {
  const rows = places(picture.height, height);
  const columns = places(picture.width, width);
  const {data} = picture;
  const out = new Float32Array(height * width * 3);
  let at = 0;
  for (const y of rows) {
    const upper = y.low * picture.width;
    const lower = y.high * picture.width;
    for (const x of columns) {
      for (let c = 0; c < 3; c++) {
        const top = mix(data[4 * (upper + x.low) + c], data[4 * (upper + x.high) + c], x.part);
        const bottom = mix(data[4 * (lower + x.low) + c], data[4 * (lower + x.high) + c], x.part);
        out[at++] = mix(top, bottom, y.part);
      }
    }
  }
  return out;
}

function mix(a, b, part) {
  return a + (b - a) * part;
}

/** For each of `to` places the two neighbours among `from` and the share of the second. */
function places(from, to) {
  const scale = Math.fround(from / to);
  return Array.from({length: to}, (_, i) => {
    const place = Math.fround((i + 0.5) * scale - 0.5);
    const floor = Math.floor(place);
    return {low: Math.max(floor, 0), high: Math.min(Math.ceil(place), from - 1), part: place - floor};
  });
}
