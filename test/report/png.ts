import { crc32, deflateSync, inflateSync } from 'node:zlib';

/** A picture: red, green and blue of each pixel in rows, 0 to 255. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}

/** Reads a PNG of 8 bits a channel without interlacing, as Chromium writes it (PNG, third edition, section 9.2: filters). */
export function readPng(png: Buffer): Picture {
  const [width, height, channels] = [png.readUInt32BE(16), png.readUInt32BE(20), channelsOf[png[25]!] ?? 3];
  const data: Buffer[] = [];
  let palette: Buffer | undefined;
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) {
    const [kind, body] = [png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, at + 8 + png.readUInt32BE(at))];
    if (kind === 'IDAT') data.push(body);
    if (kind === 'PLTE') palette = body;
  }
  const raw = inflateSync(Buffer.concat(data));
  const stride = width * channels;
  const pixels = new Uint8Array(width * height * 3);
  let above: Buffer = Buffer.alloc(stride);
  let out = 0;
  for (let row = 0; row < height; row++) {
    const filter = raw[row * (stride + 1)];
    const line = Buffer.from(raw.subarray(row * (stride + 1) + 1, (row + 1) * (stride + 1)));
    for (let n = 0; n < stride; n++) {
      const [left, up, corner] = [line[n - channels] ?? 0, above[n]!, above[n - channels] ?? 0];
      line[n] = (line[n]! + predicted(filter, left, up, corner)) & 255;
      if (palette) {
        palette.copy(pixels, out, line[n]! * 3, line[n]! * 3 + 3);
        out += 3;
      } else if (n % channels < 3) pixels[out++] = line[n]!;
    }
    above = line;
  }
  return { width, height, pixels };
}

/** By the colour type: colours, a palette, colours with alpha. */
const channelsOf: Readonly<Record<number, number>> = { 2: 3, 3: 1, 6: 4 };

/** Writes a picture with its 256 most frequent colours, others by the nearest: a third of the size, and hardly to be told apart. */
export function smallPng({ width, height, pixels }: Picture): Buffer {
  const colourAt = (at: number): number => (pixels[at]! << 16) | (pixels[at + 1]! << 8) | pixels[at + 2]!;
  const counts = new Map<number, number>();
  for (let at = 0; at < pixels.length; at += 3) counts.set(colourAt(at), (counts.get(colourAt(at)) ?? 0) + 1);
  const colours = [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, 256)
    .map(([colour]) => colour);
  const indexes = new Map(colours.map((colour, index) => [colour, index]));
  const far = (a: number, b: number): number =>
    Math.abs((a >> 16) - (b >> 16)) + Math.abs(((a >> 8) & 255) - ((b >> 8) & 255)) + Math.abs((a & 255) - (b & 255));
  const indexOf = (colour: number): number => {
    const known = indexes.get(colour);
    if (known !== undefined) return known;
    const near = colours.reduce(
      (best, one, index) => (far(one, colour) < far(colours[best]!, colour) ? index : best),
      0,
    );
    indexes.set(colour, near);
    return near;
  };
  const rows = Buffer.alloc(height * (width + 1));
  for (let at = 0, out = 0; at < width * height; at++) {
    if (at % width === 0) out++;
    rows[out++] = indexOf(colourAt(at * 3));
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);
  const palette = Buffer.from(colours.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const signature = Buffer.from('89504e470d0a1a0a', 'hex');
  return Buffer.concat([
    signature,
    chunk('IHDR', head),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(kind: string, body: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(kind, 'latin1'), body]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length);
  sum.writeUInt32BE(crc32(typed));
  return Buffer.concat([length, typed, sum]);
}

function predicted(filter: number | undefined, left: number, up: number, corner: number): number {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter !== 4) return 0;
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** The mean brightness, 0 to 1. */
export function brightness({ pixels }: Picture): number {
  return pixels.reduce((sum, value) => sum + value, 0) / (pixels.length * 255);
}

/** The mean brightness of each field of a grid, in rows, 0 to 1. */
function fields({ width, height, pixels }: Picture, columns: number, rows: number): readonly number[] {
  const sums = new Float64Array(columns * rows);
  const counts = new Uint32Array(columns * rows);
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y * rows) / height) * columns;
    for (let x = 0; x < width; x++) {
      const [field, at] = [row + Math.floor((x * columns) / width), (y * width + x) * 3];
      sums[field]! += pixels[at]! + pixels[at + 1]! + pixels[at + 2]!;
      counts[field]! += 3 * 255;
    }
  }
  return [...sums].map((sum, at) => sum / counts[at]!);
}

/**
 * How much two pictures differ, 0 to 1: the mean difference of the fields of a grid. Other fonts move letters within a field; a part that is
 * missing, or elsewhere, changes whole fields.
 */
export function difference(a: Picture, b: Picture): number {
  const [one, two] = [fields(a, 24, 18), fields(b, 24, 18)];
  return one.reduce((sum, value, at) => sum + Math.abs(value - two[at]!), 0) / one.length;
}
