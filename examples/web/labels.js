/**
 * The class names that the library's export appends to a .tflite file: `labels.txt` in a zip archive behind the
 * flatbuffer. An archive is read from its end, so nothing needs to be known of the model before it.
 */

const END = 0x06054b50; // end of central directory
const ENTRY = 0x02014b50; // central directory entry
const END_BYTES = 22;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const LONGEST_COMMENT = 65535;

/**
 * Reads the class names of a .tflite file.
 *
 * @param {Uint8Array} bytes the whole file.
 * @returns {Promise<string[] | null>} one name an output; null if the file holds none.
 */
export async function readLabels(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = findEnd(view);
  if (end === null) return null;
  const count = view.getUint16(end + 10, true);
  const directorySize = view.getUint32(end + 12, true);
  const directory = end - directorySize;
  // Places are counted from the archive's first byte, which may lie behind the model.
  const start = directory - view.getUint32(end + 16, true);
  let at = directory;
  for (let i = 0; i < count; i++) {
    if (at < 0 || at + ENTRY_BYTES > end || view.getUint32(at, true) !== ENTRY) throw damaged();
    const nameLength = view.getUint16(at + 28, true);
    const name = text(bytes.subarray(at + ENTRY_BYTES, at + ENTRY_BYTES + nameLength));
    if (name === "labels.txt") return lines(text(await unpack(bytes, view, at, start)));
    at += ENTRY_BYTES + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return null;
}

function findEnd(view) {
  const least = Math.max(0, view.byteLength - END_BYTES - LONGEST_COMMENT);
  for (let at = view.byteLength - END_BYTES; at >= least; at--) {
    // The comment must end where the file ends: four bytes alone may occur by chance.
    if (view.getUint32(at, true) === END && at + END_BYTES + view.getUint16(at + 20, true) === view.byteLength) {
      return at;
    }
  }
  return null;
}

async function unpack(bytes, view, entry, start) {
  const method = view.getUint16(entry + 10, true);
  const size = view.getUint32(entry + 20, true);
  const local = start + view.getUint32(entry + 42, true);
  if (local < 0 || local + LOCAL_BYTES > bytes.length) throw damaged();
  const from = local + LOCAL_BYTES + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
  const packed = bytes.subarray(from, from + size);
  if (packed.length !== size) throw damaged();
  if (method === 0) return packed;
  if (method !== 8) throw new Error(`labels.txt in the model file is packed by method ${method}; 0 and 8 are read.`);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (error) {
    throw damaged(error);
  }
}

function damaged(cause) {
  return new Error("The class names in the model file are damaged.", {cause});
}

function text(bytes) {
  return new TextDecoder("utf-8").decode(bytes);
}

function lines(all) {
  const parts = all.split(/\r?\n/);
  if (parts.at(-1) === "") parts.pop();
  return parts;
}
