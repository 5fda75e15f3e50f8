import type { TableName } from '../family.ts';
import { targetOf } from '../rules/words.ts';
import { isServiceChain } from './chains.ts';
import type { TableProgram } from './program.ts';

/** The part of a table that belongs to one Service. */
export interface ServicePart {
  /** Rules in common chains that jump to the Service's own, or reject or drop packets to its frontends. */
  readonly dispatchRules: readonly string[];
  /** The Service's own chains with their rules, each after a chain that jumps to it. */
  readonly chains: TableProgram['chains'];
}

const keyForm = / --comment "?([a-z0-9-]+\/[a-z0-9-]+(?::[a-z0-9-]+)?)(?=[ "]|$)/;

/**
 * The key of the Service port with which the comment of a rule begins: `shop/web:http` of `"shop/web:http cluster IP"`. In either layout
 * every rule that jumps to a Service's chains, or rejects or drops its packets, has such a comment (`pkg/proxy/iptables/proxier.go`,
 * `svcPortNameString`).
 */
export function serviceKeyOf(rule: string): string | undefined {
  return keyForm.exec(rule)?.[1];
}

/** `shop/web` of `shop/web:http`. */
export function serviceOfKey(key: string): string {
  const colon = key.indexOf(':');
  return colon < 0 ? key : key.slice(0, colon);
}

/** Whether a chain belongs to one Service port, in either layout. */
export const isOwnChain = (name: string): boolean => name.startsWith('SLU-') || isServiceChain(name);

const treeForm = /^SLU-((?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16})\.[0-9a-z]{2}$/;

/** The name in layout `flat`, and in bundles, of the chain of one Service port or endpoint: `KUBE-SVC-…` of `SLU-SVC-….1c`. */
export function flatName(chain: string): string {
  const own = treeForm.exec(chain)?.[1];
  return own === undefined ? chain : `KUBE-${own}`;
}

/**
 * Finds the part of a table that belongs to one Service, in either layout: rules by their comments, chains by the jumps to them.
 * @param table as it was linked, or as a kernel holds it
 * @param service `shop/web`
 */
export function partOfService({ chains }: Pick<TableProgram, 'chains'>, service: string): ServicePart {
  const dispatchRules: string[] = [];
  for (const [name, rules] of chains) {
    if (isOwnChain(name)) continue;
    for (const rule of rules) if (rule.includes(service) && namesService(rule, service)) dispatchRules.push(rule);
  }
  const own = new Map<string, readonly string[]>();
  const follow = (rules: readonly string[]): void => {
    const targets = rules.flatMap((rule) => targetOf(rule) ?? []).filter((name) => isOwnChain(name) && !own.has(name));
    for (const name of targets) own.set(name, chains.get(name) ?? []);
    for (const name of new Set(targets)) follow(chains.get(name) ?? []);
  };
  follow(dispatchRules);
  return { dispatchRules, chains: own };
}

function namesService(rule: string, service: string): boolean {
  const key = serviceKeyOf(rule);
  return key !== undefined && serviceOfKey(key) === service;
}

/** Prints a part in the form of iptables-save, jumps to the Service first. Empty for an empty part. */
export function printPart(table: TableName, { dispatchRules, chains }: ServicePart): string {
  if (dispatchRules.length === 0) return '';
  const lines = [
    ...[...chains.keys()].map((name) => `:${name} - [0:0]`),
    ...dispatchRules,
    ...[...chains.values()].flat(),
  ];
  return `*${table}\n${lines.map((line) => `${line}\n`).join('')}COMMIT\n`;
}
