import { parseAddress, parseCidr } from '@sluice/netfilter';
import { isKubeProxyVersion, kubeProxyVersions } from '../../render/model/version.ts';
import { parseGoDuration } from './duration.ts';

interface FormatError {
  readonly kind: 'value' | 'address' | 'unsupported';
  /** A clause that follows the value. */
  readonly why: string;
  readonly hint: string;
}

type FormatCheck = (text: string) => FormatError | undefined;

const value = (why: string, hint: string): FormatError => ({ kind: 'value', why, hint });
/** The words that `nodePortAddresses` accepts besides CIDRs (`validateKubeProxyNodePortAddress`). */
export const nodePortWords: readonly string[] = ['primary', 'localhost', 'all'];

const address = (why: string, hint: string): FormatError => ({ kind: 'address', why, hint });

/** The formats of strings; each check returns what is wrong, or undefined. */
const formats = {
  'ip-address': (text: string) => checkAddress(text),
  'bind-ip': (text: string) => (text === '' ? undefined : checkAddress(text)),
  cidr: (text: string) => checkCidr(text),
  'cidr-pair': (text: string) => checkPair(text),
  'node-port-address': (text: string) => (nodePortWords.includes(text) ? undefined : checkNodePortAddress(text)),
  'go-duration': (text: string) => checkDuration(text),
  'bind-address': (text: string) => checkBindAddress(text),
  mode: (text: string) => unsupportedMode(text),
  'kube-proxy-version': (text: string) => checkVersion(text),
  'port-range': (text: string) => checkPortRange(text),
  date: (text: string) => (isDate(text) ? undefined : value('is not a valid date', 'Write it like 2026-12-31')),
  'dns-subdomain': (text: string) =>
    text.length <= 253 && subdomain.test(text)
      ? undefined
      : value(
          'is not a valid DNS subdomain (RFC 1123)',
          'Use lower-case letters, digits, "-" and ".", at most 253 characters',
        ),
  'cluster-name': (text: string) =>
    /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/.test(text)
      ? undefined
      : value('is not a valid cluster name', 'Use letters, digits, "-", "_" and ".", at most 253 characters'),
  'label-key': (text: string) =>
    isLabelKey(text) ? undefined : value('is not a valid label key', 'Write it like topology.kubernetes.io/zone'),
  'label-value': (text: string) =>
    labelValue.test(text)
      ? undefined
      : value('is not a valid label value', 'Use at most 63 letters, digits, "-", "_" and "."'),
  interface: (text: string) =>
    /^[A-Za-z0-9._-]{0,15}$/.test(text)
      ? undefined
      : value('is not a valid interface name', 'Use at most 15 letters, digits, ".", "_" and "-"'),
  'interface-prefix': (text: string) =>
    /^[A-Za-z0-9._-]{0,14}$/.test(text)
      ? undefined
      : value(
          'is not a valid prefix of an interface name',
          'Use at most 14 letters, digits, ".", "_" and "-", without "+" at the end',
        ),
} as const satisfies Record<string, FormatCheck>;

const checkVersion = (text: string): FormatError | undefined => {
  if (isKubeProxyVersion(text)) return undefined;
  const [first, last] = [kubeProxyVersions[0], kubeProxyVersions.at(-1)];
  return value(
    `is not a version of kube-proxy from ${first} to ${last}`,
    `Write major and minor in quotes, such as "${last}"; without quotes YAML reads 1.30 as 1.3`,
  );
};

/** The names of the formats. */
export type FormatName = keyof typeof formats;

/** Checks `text`; returns what is wrong, or undefined. */
export function checkFormat(format: FormatName, text: string): FormatError | undefined {
  return formats[format](text);
}

/** RFC 1123: the form of names of nodes and profiles. */
const subdomain = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;
const labelValue = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** Whether a text is a valid date in the form of RFC 3339. */
export function isDate(text: string): boolean {
  const [, year = '', month = '', day = ''] = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/.exec(text) ?? [];
  const days = [31, isLeap(Number(year)) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][Number(month) - 1];
  return days !== undefined && Number(day) >= 1 && Number(day) <= days;
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;

function isLabelKey(text: string): boolean {
  const slash = text.indexOf('/');
  const [prefix, name] = slash < 0 ? [undefined, text] : [text.slice(0, slash), text.slice(slash + 1)];
  return (
    name !== '' && labelValue.test(name) && (prefix === undefined || (prefix.length <= 253 && subdomain.test(prefix)))
  );
}

function checkAddress(text: string): FormatError | undefined {
  return parseAddress(text) ? undefined : address('is not a valid IP address', 'Write it like 192.0.2.10 or fd00::10');
}

function checkCidr(text: string): FormatError | undefined {
  if (parseCidr(text)) return undefined;
  const hint = parseAddress(text)
    ? `Add the prefix length: ${text}/${text.includes(':') ? 128 : 32}`
    : 'Write it like 10.96.0.0/12';
  return address('is not a valid CIDR', hint);
}

/** `clusterCIDR`: one CIDR, or one of each family separated by a comma. Empty: none. */
function checkPair(text: string): FormatError | undefined {
  if (text === '') return undefined;
  const parts = text.split(',');
  for (const part of parts) {
    const wrong = checkCidr(part);
    if (wrong) return wrong;
  }
  const families = new Set(parts.map((part) => parseCidr(part)?.family));
  if (families.size === parts.length) return undefined;
  return address(
    'has two CIDRs of the same family',
    'Use one CIDR, or one of IPv4 and one of IPv6 like 10.244.0.0/16,fd00:10:244::/56',
  );
}

function checkNodePortAddress(text: string): FormatError | undefined {
  const wrong = checkCidr(text);
  return wrong && { ...wrong, why: `is neither a CIDR nor one of ${nodePortWords.join(', ')}` };
}

function checkDuration(text: string): FormatError | undefined {
  const seconds = parseGoDuration(text);
  const hint = 'Write it like 24h0m0s, 90s or 0s';
  if (seconds === undefined) return value('is not a valid duration', hint);
  return seconds < 0 ? value('is a negative duration', hint) : undefined;
}

/** `IP:port` as in `net.SplitHostPort` and kube-proxy's `validateHostPort`, or an IP, which gets the default port (`AppendPortIfNeeded`). */
function checkBindAddress(text: string): FormatError | undefined {
  if (text === '' || parseAddress(text)) return undefined;
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*)):([0-9]{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  const hint = 'Write it like 0.0.0.0:10256 or [::]:10256';
  if (!match || host === undefined) return address('is not a valid IP:port', hint);
  if (!parseAddress(host)) return address('does not start with an IP address', hint);
  return port >= 1 && port <= 65535 ? undefined : value('has an invalid port (1–65535)', hint);
}

function checkPortRange(text: string): FormatError | undefined {
  const range = parsePortRange(text);
  const hint = 'Write it like 30000-32767';
  if (!range) return value('is not a valid port range', hint);
  if (range.from > range.to) return value('ends before it starts', hint);
  return range.from >= 1 && range.to <= 65535 ? undefined : value('is outside of 1–65535', hint);
}

/** `30000-32767` as two numbers; undefined when the text is not of that form. */
export function parsePortRange(text: string): { from: number; to: number } | undefined {
  const match = /^([0-9]{1,5})-([0-9]{1,5})$/.exec(text);
  return match ? { from: Number(match[1]), to: Number(match[2]) } : undefined;
}

const otherModes: Readonly<Record<string, string>> = {
  userspace:
    'was removed from kube-proxy in Kubernetes 1.26: it copied every byte through a process instead of writing rules',
  kernelspace: 'is a mode for Windows nodes; sluice supports only Linux',
};

/** Why a current or former mode of kube-proxy is not supported; undefined for any other text. */
export function unsupportedMode(text: string): FormatError | undefined {
  if (!Object.hasOwn(otherModes, text)) return undefined;
  const hint = 'Use mode: iptables, ipvs or nftables; Services need no change';
  return { kind: 'unsupported', why: otherModes[text] ?? '', hint };
}
