import { compareText } from '@sluice/netfilter';
import { observedDigest } from './digest.ts';
import { type Observation, observationFormat } from './observation.ts';

/**
 * Prints the file in parts, JSON with one line for each rule, entry, server and object, so that two files can be compared line by line.
 * Keys have one order, so that equal observations are equal bytes.
 */
export function* printObservation(seen: Observation): Generator<string> {
  const { node, bootId, tools, missing, host } = seen;
  yield `{\n"apiVersion": "sluice.dev/v1alpha1",\n"kind": "Observation",\n"format": ${observationFormat},\n`;
  yield field('node', node);
  if (bootId !== undefined) yield field('bootId', bootId);
  yield field('digest', observedDigest(seen));
  yield field('tools', sorted(tools));
  yield field('missing', missing);
  if (host) yield field('host', host);
  yield field('sysctls', sorted(seen.sysctls));
  yield field('serverAddresses', seen.serverAddresses);
  yield* list('interfaces', seen.interfaces);
  yield* list('routes', seen.routes);
  yield* list('sets', seen.sets);
  yield* list('servers', seen.servers);
  if (seen.connections) {
    yield `"connections": {"left": ${seen.connections.left}, "pairs": `;
    yield* items(seen.connections.pairs);
    yield '},\n';
  }
  yield '"nftTables": [\n';
  for (const [at, { family, name, objects }] of seen.nftTables.entries()) {
    yield `${at === 0 ? '' : ',\n'}{"family": ${JSON.stringify(family)}, "name": ${JSON.stringify(name)}, "objects": `;
    yield* items(objects);
    yield '}';
  }
  yield '\n],\n"rules": [\n';
  for (const [at, { store, family, lines }] of seen.rules.entries()) {
    yield `${at === 0 ? '' : ',\n'}{"store": ${JSON.stringify(store)}, "family": ${JSON.stringify(family)}, "lines": `;
    yield* items(lines);
    yield '}';
  }
  yield '\n]\n}\n';
}

const field = (name: string, value: unknown): string => `${JSON.stringify(name)}: ${JSON.stringify(value)},\n`;

const sorted = (values: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values).toSorted(([a], [b]) => compareText(a, b)));

function* list(name: string, values: readonly unknown[]): Generator<string> {
  yield `${JSON.stringify(name)}: `;
  yield* items(values);
  yield ',\n';
}

/** In parts of a thousand lines. */
function* items(values: readonly unknown[]): Generator<string> {
  if (values.length === 0) {
    yield '[]';
    return;
  }
  yield '[\n';
  const partLength = 1_000;
  for (let at = 0; at < values.length; at += partLength) {
    const part = values.slice(at, at + partLength).map((value) => JSON.stringify(value));
    yield `${at === 0 ? '' : ',\n'}${part.join(',\n')}`;
  }
  yield '\n]';
}
