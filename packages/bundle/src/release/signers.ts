import { type Place, type Problem, refusal } from '@sluice/netfilter';
import { isInstant } from '../checks.ts';
import { releaseLimits } from '../names.ts';
import { WireReader } from './wire.ts';

/** One line of `allowed_signers`. */
export interface Signer {
  readonly principal: string;
  readonly namespaces: readonly string[];
  readonly keyType: string;
  /** In base64. */
  readonly key: string;
  /** The line without its comment; `ssh-keygen` gets this line only. */
  readonly line: string;
}

const keyTypes: ReadonlySet<string> = new Set([
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
  'ssh-rsa',
]);
const rsaBitsMin = 2048;

/**
 * Reads `allowed_signers` more strictly than OpenSSH does: README.md, "Releases". One invalid line refuses the file, because OpenSSH
 * would silently ignore it.
 * @param file named in problems
 * @param bytesMax of the file
 * @returns the signers, or every problem in it (`SIGNERS_INVALID`)
 */
export function readSigners(
  file: string,
  text: string,
  bytesMax: number = releaseLimits.signersBytesMax,
): readonly Signer[] | { readonly problems: readonly Problem[] } {
  if (text.length > bytesMax)
    return { problems: [invalid({ file, line: 1, column: 1 }, `it is larger than ${bytesMax} bytes`)] };
  const signers: Signer[] = [];
  const problems: Problem[] = [];
  const known = new Map<string, number>();
  for (const [index, line] of text.split('\n').entries()) {
    if (line === '' || line.startsWith('#')) continue;
    const at = { file, line: index + 1, column: 1 };
    const signer = readSigner(line);
    if (typeof signer === 'string') problems.push(invalid(at, signer));
    else if (known.has(signer.key)) problems.push(invalid(at, `it repeats the key of line ${known.get(signer.key)}`));
    else {
      known.set(signer.key, index + 1);
      signers.push(signer);
    }
  }
  return problems.length > 0 ? { problems } : signers;
}

function readSigner(line: string): Signer | string {
  if (!/^[\x20-\x7e]*$/.test(line)) return 'it contains a character that is not printable ASCII';
  const [principal, options, keyType, key] = line.split(' ', 4) as [string, ...(string | undefined)[]];
  if (!/^[A-Za-z0-9][-A-Za-z0-9._@+]*$/.test(principal))
    return `${JSON.stringify(principal)} is not one principal: lists, wildcards and negations are not allowed`;
  const read = readOptions(options ?? '');
  if (typeof read === 'string') return read;
  const bad = key === undefined || keyType === undefined ? 'it has no key' : keyMisfit(keyType, key);
  if (bad !== undefined) return bad;
  return {
    principal,
    namespaces: read,
    keyType: keyType as string,
    key: key as string,
    line: `${principal} ${options} ${keyType} ${key}\n`,
  };
}

/** Returns the namespaces, or the error in words. */
function readOptions(text: string): readonly string[] | string {
  if (!/^[a-z]+(-[a-z]+)*=/.test(text))
    return keyTypes.has(text) ? noNamespaces : `${JSON.stringify(text)} is not allowed as an option`;
  const form = /([a-z-]+)="([^"]*)"(?:,|$)/y;
  const options = new Map<string, string>();
  while (form.lastIndex < text.length) {
    const [, name, value] = form.exec(text) ?? [];
    if (name === undefined || value === undefined) return 'its options are not of the form name="value",…';
    if (options.has(name)) return `it has ${name} twice`;
    if (!['namespaces', 'valid-after', 'valid-before'].includes(name)) return `${name} is not allowed as an option`;
    if (name !== 'namespaces' && !isTime(value))
      return `${name} is not a time in UTC, such as 20300131Z or 20300131120000Z`;
    options.set(name, value);
  }
  if (text.endsWith(',')) return 'its options end in a comma';
  const namespaces = options.get('namespaces')?.split(',');
  if (namespaces === undefined) return noNamespaces;
  const odd = namespaces.find((name) => !/^[a-z0-9][-a-z0-9.@]*$/.test(name));
  return odd === undefined
    ? namespaces
    : `${JSON.stringify(odd)} is not a namespace: wildcards and negations are not allowed`;
}

const noNamespaces = 'it has no namespaces="…": without them the key could sign for any purpose';

/** `ssh-keygen(1)` reads a time without `Z` as local time, and accepts days like 31 February. */
function isTime(text: string): boolean {
  const [, year, month, day, hour = '00', minute = '00', second = '00'] =
    /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?Z$/.exec(text) ?? [];
  return year !== undefined && isInstant(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
}

function keyMisfit(keyType: string, key: string): string | undefined {
  if (!keyTypes.has(keyType)) return `${JSON.stringify(keyType)} is not a key type that may sign releases`;
  const blob = Buffer.from(key, 'base64');
  if (key === '' || blob.toString('base64') !== key) return 'its key is not canonical base64';
  const reader = new WireReader(blob);
  if (reader.text()?.toString('latin1') !== keyType) return `its key is not of type ${keyType}`;
  const parts: Buffer[] = [];
  for (let part = reader.text(); part !== undefined; part = reader.text()) parts.push(part);
  if (parts.length === 0 || !reader.atEnd) return 'its key is truncated or has trailing data';
  if (keyType === 'ssh-rsa' && bitsOf(parts[1]) < rsaBitsMin) return `its RSA key has fewer than ${rsaBitsMin} bits`;
  return undefined;
}

/** Of a positive `mpint`. */
function bitsOf(number: Buffer | undefined): number {
  const first = number?.findIndex((byte) => byte !== 0) ?? -1;
  if (number === undefined || first < 0) return 0;
  return (number.length - first) * 8 - (Math.clz32(number[first] as number) - 24);
}

const invalid = (at: Place, why: string): Problem =>
  refusal(
    'SIGNERS_INVALID',
    `Cannot use the line of allowed_signers: ${why}`,
    'A line is: alice@example.com namespaces="sluice-release" ssh-ed25519 AAAA… comment',
    { at },
  );
