import { parseAddress, parseCidr, isInterface, type Family } from '@sluice/netfilter';
import { isMap } from './checks.ts';

/** A check of a value in `node.yaml` or `profile.yaml`. */
type Form = (value: unknown, family: Family) => boolean;

const whole =
  (max: number): Form =>
  (value) =>
    Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max;
const address: Form = (value, family) => typeof value === 'string' && parseAddress(value)?.family === family;
const network: Form = (value, family) => typeof value === 'string' && parseCidr(value)?.family === family;
const interfaceName: Form = (value) => typeof value === 'string' && isInterface(value);
const interfacePrefix: Form = (value) => typeof value === 'string' && isInterface(`${value}+`);

/** `net.netfilter.nf_conntrack_max` is an int of the kernel. */
const conntrackMax = 0x7fffffff;

/** Common values, and values per family. README.md, "Variables": the list is closed. */
const forms = {
  node: {
    common: { cores: whole(1 << 16), conntrackMax: whole(conntrackMax), conntrackHashSize: whole(conntrackMax / 4) },
    perFamily: { address, podCIDR: network },
  },
  profile: {
    common: { bridgeInterface: interfaceName, interfaceNamePrefix: interfacePrefix },
    perFamily: { clusterCIDR: network },
  },
} as const satisfies Record<string, Record<'common' | 'perFamily', Readonly<Record<string, Form>>>>;

/** Variables that are filled in on the machine. */
const hostNames: ReadonlySet<string> = new Set(['nodePortAddresses']);

type Owner = keyof typeof forms;

/** Whether `values` of `node.yaml` or `profile.yaml` has only known variables with valid values. */
export function areValues(owner: Owner, values: unknown): boolean {
  if (!isMap(values)) return false;
  const { common, perFamily } = forms[owner];
  return Object.entries(values).every(([key, value]) =>
    key === 'ipv4' || key === 'ipv6' ? areOf(perFamily, value, key) : isOf(common, key, value, 'ipv4'),
  );
}

function areOf(known: Readonly<Record<string, Form>>, values: unknown, family: Family): boolean {
  return isMap(values) && Object.entries(values).every(([key, value]) => isOf(known, key, value, family));
}

function isOf(known: Readonly<Record<string, Form>>, key: string, value: unknown, family: Family): boolean {
  return Object.hasOwn(known, key) && known[key]!(value, family);
}

const opening = /\$\{/g;
const variable = /\$\{(node|profile|host)\.([A-Za-z]+)\}/y;

/**
 * The first unknown variable of a line. Such a line would silently be left out on every node, because a missing value leaves its line
 * out.
 */
export function unknownVariable(text: string): string | undefined {
  if (!text.includes('${')) return undefined;
  for (const { index } of text.matchAll(opening)) {
    variable.lastIndex = index;
    const match = variable.exec(text);
    if (!match || !isVariable(match[1] as Owner | 'host', match[2] as string))
      return text.slice(index).split('}', 1)[0];
  }
  return undefined;
}

function isVariable(owner: Owner | 'host', name: string): boolean {
  if (owner === 'host') return hostNames.has(name);
  return Object.hasOwn(forms[owner].common, name) || Object.hasOwn(forms[owner].perFamily, name);
}
