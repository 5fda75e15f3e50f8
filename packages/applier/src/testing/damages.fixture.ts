/** What a bad disk does to a file; undefined: it is gone. */
export const damages: Readonly<Record<string, (bytes: Buffer, random: () => number) => Buffer | undefined>> = {
  'one byte changed': (bytes, random) => {
    // A byte that has a meaning: most of the journal is zeros.
    const places = [...bytes.keys()].filter((at) => bytes[at] !== 0);
    const at = places[Math.floor(random() * places.length)];
    if (at !== undefined) bytes.writeUInt8((bytes.readUInt8(at) ^ (1 + Math.floor(random() * 255))) & 0xff, at);
    return bytes;
  },
  half: (bytes) => bytes.subarray(0, bytes.length / 2),
  empty: () => Buffer.alloc(0),
  missing: () => undefined,
};
