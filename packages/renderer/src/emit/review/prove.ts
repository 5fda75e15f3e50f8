import { plural } from '@sluice/netfilter';
import { type JunitCase, junitDocument } from '../junit-document.ts';
import { profileNames } from './settings.ts';
import { outcomeText, destinationText, nodesText, sourceText } from '../../review/report/words.ts';
import type { HeaderSpace } from '../../review/prove/header-space.ts';
import {
  type CounterExample,
  isProved,
  type ProfileFault,
  type Proof,
  type Unjudged,
} from '../../review/prove/prove.ts';

/** The maximum number of counter-examples in the text; it counts the rest, and JSON has all. */
const shownMax = 100;

/** Prints a proof; the last line is the verdict. */
export function printProof(proof: Proof, format: 'text' | 'json' | 'junit'): string {
  if (format === 'junit') return junitOf(proof);
  if (format === 'json') {
    const document = { apiVersion: 'sluice.dev/v1alpha1', kind: 'Proof', proved: isProved(proof) };
    return `${JSON.stringify({ ...document, ...proof }, null, 2)}\n`;
  }
  const shown = proof.counterExamples.slice(0, shownMax).map(printCounterExample);
  const more = proof.counterExamples.length - shown.length;
  return [
    ...proof.faults.map(printFault),
    ...shown,
    more > 0 ? `… and ${more} more; -o json has all\n` : '',
    ...proof.profiles.map(printExtent),
    ...proof.unjudged.map(printUnjudged),
    lastLine(proof),
  ].join('');
}

/** A test for each family of a profile, one for each flow and base rule that is wrong, and a skipped one for what was not judged. */
function junitOf(proof: Proof): string {
  const failed = (classname: string, name: string, type: string, text: string): JunitCase => {
    const [message = ''] = text.split('\n');
    return { classname, name, ended: { kind: 'failure', type, message, text } };
  };
  return junitDocument('sluice prove', [
    ...proof.faults.map((fault) =>
      failed(fault.profile, `${fault.family}: ${fault.what}`, 'base-rules', printFault(fault)),
    ),
    ...proof.counterExamples.map((example) => {
      const { destination, source, nodes } = example;
      const name = `${destinationText(destination)} from ${sourceText(source)}, on ${nodesText(nodes)}`;
      return failed(destination.services.join(', ') || 'other traffic', name, 'flow', printCounterExample(example));
    }),
    ...proof.profiles.map((one): JunitCase => {
      const ended = { kind: 'output', text: printExtent(one) } as const;
      return { classname: one.profile, name: `${one.family}: flows traced`, ended };
    }),
    ...proof.unjudged.map((one): JunitCase => {
      const ended = { kind: 'skipped', message: printUnjudged(one).trimEnd() } as const;
      return { classname: one.profile, name: `${one.family}: not judged: ${one.what}`, ended };
    }),
  ]);
}

const printExtent = ({ profile, family, services, flows, headerSpace }: Proof['profiles'][number]): string =>
  `profile ${profile}, ${family}: ${plural(services, 'Service')}, ${plural(flows, 'flow')} traced${spaceText(headerSpace)}\n`;

/** Of the keys and intervals that were not judged the text names as many. */
const unjudgedMax = 3;

function spaceText(space: HeaderSpace | undefined): string {
  if (!space) return '';
  const { keys, intervals, unjudged } = space;
  const some = unjudged.slice(0, unjudgedMax).join(', ');
  const rest = unjudged.length > unjudgedMax ? ', …' : '';
  const judged = unjudged.length === 0 ? 'all judged' : `${unjudged.length} not judged: ${some}${rest}`;
  return `; ${plural(keys, 'key')} and ${plural(intervals, 'interval')} divide all packets, ${judged}`;
}

const unjudgedNames = {
  'node-ports': 'node ports',
  'packets-of-the-node': 'packets of the node itself',
} as const;

function printUnjudged({ profile, family, what, nodes }: Unjudged): string {
  const where = `profile ${profile}, ${family}: not judged:`;
  if (what === 'all') return `${where} all of it: no node has the profile\n`;
  return `${where} ${unjudgedNames[what]} on ${nodesText({ profile, nodes })}: node.yaml has no address of the family\n`;
}

function lastLine(proof: Proof): string {
  if (isProved(proof))
    return `The rules implement all Services as declared${isWhole(proof) ? '' : ', except for what was not judged'}\n`;
  const { length } = proof.counterExamples;
  const flows = length > 0 ? [`${plural(length, 'flow')} ${length === 1 ? 'is' : 'are'} not as declared`] : [];
  const profiles = new Set(proof.faults.map(({ profile }) => profile)).size;
  return `${[...flows, ...(profiles > 0 ? [`the base rules of ${plural(profiles, 'profile')} differ from kube-proxy's`] : [])].join(', ')}\n`;
}

const isWhole = ({ profiles, unjudged }: Proof): boolean =>
  unjudged.length === 0 && profiles.every(({ headerSpace }) => (headerSpace?.unjudged ?? []).length === 0);

function printFault({ profile, family, what, expected, found }: ProfileFault): string {
  return `profile ${profile}, ${family}: ${profileNames[what]} ${found}, expected ${expected}\n`;
}

function printCounterExample(example: CounterExample): string {
  const { destination, source, nodes, found, packet } = example;
  const to = packet.destination.includes(':') ? `[${packet.destination}]` : packet.destination;
  return [
    `${destination.services.join(', ') || 'other traffic'} ${destinationText(destination)} from ${sourceText(source)}, on ${nodesText(nodes)}\n`,
    `    declared: ${expectedText(example)}\n`,
    `    rules:    ${outcomeText(found)}\n`,
    `    packet: sluice trace --node ${nodes.nodes[0]} --from ${packet.source} --to ${to}:${packet.port}/${packet.protocol}\n`,
  ].join('');
}

const words = {
  accept: 'accepted',
  pass: 'no Service matches',
  reject: 'REJECT',
  drop: 'DROP',
  unclaimed: 'no Service declares this address and port',
} as const;

function expectedText({ expected }: CounterExample): string {
  if (expected.kind === 'endpoints') return outcomeText(expected);
  const isMasked = 'masquerade' in expected && expected.masquerade;
  return `${words[expected.kind]}${isMasked ? ', masqueraded' : ''}`;
}
