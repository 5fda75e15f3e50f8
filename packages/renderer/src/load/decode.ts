import { type Problem, refusal } from '@sluice/netfilter';

/**
 * Decodes a file: UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it (YAML 1.2.2, 5.2 requires both). The mark is
 * removed.
 */
export function decode(file: string, bytes: Uint8Array): { text: string } | Problem {
  const encoding = encodingOf(bytes);
  const text = decodeAs(encoding, bytes);
  return text === undefined ? notText(file, encoding, bytes) : { text };
}

type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be';

function encodingOf(bytes: Uint8Array): Encoding {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return 'utf-8';
}

function decodeAs(encoding: Encoding, bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function notText(file: string, encoding: Encoding, bytes: Uint8Array): Problem {
  const line = encoding === 'utf-8' ? firstBadLine(bytes) : 1;
  return refusal(
    'YAML_SYNTAX',
    `Cannot read the line: its bytes are not ${encoding.toUpperCase()}`,
    'Save the file as UTF-8',
    { at: { file, line, column: 1 } },
  );
}

/** A newline byte never occurs inside a UTF-8 sequence, so lines can be decoded separately. */
function firstBadLine(bytes: Uint8Array): number {
  const newline = 0x0a;
  let line = 1;
  for (let from = 0; from < bytes.length; line++) {
    const found = bytes.indexOf(newline, from);
    const end = found < 0 ? bytes.length : found;
    if (decodeAs('utf-8', bytes.subarray(from, end)) === undefined) return line;
    from = end + 1;
  }
  return 1;
}
