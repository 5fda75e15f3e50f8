import { canonicalAddress, cidrContains, type Diagnosis, printDiagnosis } from '@sluice/netfilter';
import type { Facts } from './facts.ts';

/**
 * Networks whose addresses say nothing about where a cluster is: private, shared, loopback, link-local, documentation. They stay, because a
 * path cannot be understood without them.
 */
const plainNetworks = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '192.0.2.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
  'fc00::/7',
  'fe80::/10',
  '2001:db8::/32',
] as const;

const isPlain = (address: string): boolean =>
  ['0.0.0.0', '255.255.255.255', '::', '::1'].includes(address) ||
  plainNetworks.some((network) => network.includes(':') === address.includes(':') && cidrContains(network, address));

/** Candidates for an address within other text: IPv4, with a port or not, also within IPv6; and IPv6, which no port follows. */
const addressForm =
  /(?:(?<![\w.:])|(?<=::ffff:))\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)|(?<![\w.:])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:.])/g;

/** A Service as comments of rules and messages name it, with its port: `shop/web:http`. */
const serviceForm = /(?<![\w./-])[a-z0-9](?:[-a-z0-9.]{0,252}[a-z0-9])?\/[a-z][-a-z0-9]{0,62}:[a-z0-9][-a-z0-9]*/g;
/** The same without a port, where a rule's comment begins with it. */
const commentForm = /--comment \\*"?([a-z0-9][-a-z0-9.]*\/[a-z][-a-z0-9]{0,62})/g;

/** The same in the name of a chain of kube-proxy in mode nftables: `service-ULMVA6XW-shop/web/tcp/http`. */
const chainStart = '(?:service|endpoint|external|firewall)-[A-Z0-9]{8}-';
const chainForm = new RegExp(String.raw`\b${chainStart}([a-z0-9][-a-z0-9.]*\/[a-z][-a-z0-9]{0,62})\/`, 'g');

/** Replaces names of the node, of namespaces and Services, and public addresses, each by the same pseudonym everywhere. */
export class Redaction {
  readonly #addresses = new Map<string, string>();
  readonly #names = new Map<string, string>();
  readonly #form: RegExp | undefined;

  /** @param node its name; @param services `shop/web:http`, with or without a port */
  constructor(node: string, services: Iterable<string>) {
    this.#names.set(node, 'node-1');
    let namespaces = 0;
    let number = 0;
    const prefixes = new Map<string, string>();
    for (const service of new Set([...services].map((one) => one.split(':')[0] ?? ''))) {
      const [namespace = '', name = ''] = service.split('/');
      if (name === '') continue;
      const prefix = prefixes.get(namespace) ?? `namespace-${++namespaces}`;
      prefixes.set(namespace, prefix);
      this.#names.set(service, `${prefix}/service-${++number}`);
      this.#names.set(`-n ${namespace}`, `-n ${prefix}`);
      this.#names.set(`kubernetes.io/service-name=${name}`, `kubernetes.io/service-name=service-${number}`);
      this.#names.set(`service ${name}`, `service service-${number}`);
    }
    const known = [...this.#names.keys()].filter((name) => name !== '').toSorted((a, b) => b.length - a.length);
    const escaped = known.map((name) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
    this.#form =
      known.length === 0
        ? undefined
        : new RegExp(`(?:(?<![-\\w/.])|(?<=\\b${chainStart}))(?:${escaped.join('|')})(?![-\\w])`, 'g');
  }

  apply(text: string): string {
    const named = this.#form ? text.replaceAll(this.#form, (name) => this.#names.get(name) ?? name) : text;
    return named.replaceAll(addressForm, (found) => {
      const address = canonicalAddress(found);
      if (address === undefined || isPlain(address)) return found;
      const pseudonym = this.#addresses.get(address) ?? `address-${this.#addresses.size + 1}`;
      this.#addresses.set(address, pseudonym);
      return pseudonym;
    });
  }
}

/** Services that texts of rules and messages name, also those that this node does not serve. */
function namedIn(text: string): readonly string[] {
  return [...text.matchAll(serviceForm)]
    .map(([name]) => name)
    .concat([commentForm, chainForm].flatMap((form) => [...text.matchAll(form)].map(([, name = '']) => name)));
}

/** The files of a redacted archive: the diagnosis and the facts that it rests on. Chains of single Services and keys are never in it. */
export function archiveFiles(diagnosis: Diagnosis, facts: Facts): ReadonlyMap<string, string> {
  const { desired, ...others } = facts;
  const plain = desired && {
    mode: desired.mode,
    store: desired.store,
    frontends: desired.frontends,
    nodeAddresses: desired.nodeAddresses,
  };
  const files = {
    'diagnosis.txt': printDiagnosis(diagnosis),
    'diagnosis.json': `${JSON.stringify(diagnosis, undefined, 2)}\n`,
    'facts.json': `${JSON.stringify({ ...others, desired: plain }, archived, 2)}\n`,
  };
  const redaction = new Redaction(facts.node, [
    ...(desired?.frontends ?? []).flatMap(({ service }) => service ?? []),
    ...(facts.sluiced?.quarantinedServices ?? []).map(({ service }) => service),
    ...(facts.sluiced?.leftOut ?? new Map<string, unknown>()).keys(),
    ...Object.values(files).flatMap(namedIn),
    diagnosis.subject,
  ]);
  return new Map(Object.entries(files).map(([path, text]) => [`doctor/${path}`, redaction.apply(text)]));
}

/** Maps as objects. Comments of nftables are free text, and not judged. */
function archived(key: string, value: unknown): unknown {
  if (key === 'comment') return undefined;
  return value instanceof Map ? Object.fromEntries(value as ReadonlyMap<string, unknown>) : value;
}
