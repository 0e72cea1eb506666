/**
 * A JPEG without its Exif segments, for a browser that would turn the picture by them: the library's decoders do not,
 * and `createImageBitmap` has no option against it.
 *
 * @param {Uint8Array} bytes any file.
 * @returns {Uint8Array} the same bytes, or for a JPEG those outside its Exif segments.
 */
export function withoutExif(bytes) {
  if (bytes[0] !== 0xff || bytes[1] !== 0xd8) return bytes;
  const kept = [bytes.subarray(0, 2)];
  let at = 2;
  // Segments are a marker of two bytes, a length that counts itself, and content; pixels begin behind marker 0xda.
  while (at + 4 <= bytes.length && bytes[at] === 0xff && bytes[at + 1] !== 0xda) {
    const end = at + 2 + bytes[at + 2] * 256 + bytes[at + 3];
    if (!isExif(bytes, at)) kept.push(bytes.subarray(at, end));
    at = end;
  }
  kept.push(bytes.subarray(at));
  const out = new Uint8Array(kept.reduce((sum, part) => sum + part.length, 0));
  let to = 0;
  for (const part of kept) {
    out.set(part, to);
    to += part.length;
  }
  return out;
}

function isExif(bytes, at) {
  return bytes[at + 1] === 0xe1 && String.fromCharCode(...bytes.subarray(at + 4, at + 8)) === "Exif";
}
