import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import {
  fileDigest,
  isProblem,
  printArchive,
  readArchive,
  readCluster,
  readHostFacts,
  readNode,
  readPath,
  readProfile,
  resolveNode,
} from '@sluice/bundle';
import { printNft, printNftTable, readNft, readRule, readSysctlLine } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import { afterAll, expect, test } from 'vitest';
import { readConfig } from '../../packages/applier/src/config.ts';
import { declaredHealth } from '../../packages/applier/src/observe/health/declared.ts';
import { emptyRecord, readRecord } from '../../packages/applier/src/state/record.ts';
import { allocateSlots, readSlots, writeSlot } from '../../packages/applier/src/state/slots.ts';
import { readControlRequest } from '../../packages/applier/src/daemon/control/socket.ts';
import { readAnswer } from '../../packages/applier/src/kernel/scratch/answer.ts';
import { RequestError } from '../../packages/applier/src/kernel/scratch/lines.ts';
import { printRequest, readRequest } from '../../packages/applier/src/kernel/scratch/request.ts';
import { packReceipts, unpackReceipts } from '../../packages/transport/src/receipts/archive.ts';
import { readReceiptSpec } from '../../packages/transport/src/receipts/spec.ts';
import { readManifest, readReleaseIndex, referencesOf } from '../../packages/transport/src/registry/artifact.ts';
import { readChallenge } from '../../packages/transport/src/registry/authority.ts';
import { RegistryFailure } from '../../packages/transport/src/http/failure.ts';
import { readReference } from '../../packages/transport/src/registry/reference.ts';
import { StateError } from '../../packages/applier/src/state/state-error.ts';
import { printHostFacts } from '../../packages/bundle/src/host-facts.fixture.ts';
import { nftBundle, nftServices } from '../../packages/bundle/src/virtual/nft.fixture.ts';
import { sampleBundle, sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { mutated } from './mutated.ts';

/** Untrusted bytes: each parser accepts them or refuses them with a type of its own; none throws anything else. */

const scratch = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'));
let executions = 0;
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const files = sampleBundle({ sysctls: ['net.ipv4.vs.conn_reuse_mode = 0'] });
const text = (path: string): string => files.get(path) ?? '';
const service = 'profiles/default/services/shop/web.iptables';
const nftFiles = nftBundle();
const lastNft = 'profiles/default/base/last.nft';
const nftTable = printNftTable({ detector: 'address', masqueradeAll: false });
const ruleLines = [...files.values()].flatMap((one) => one.split('\n').filter((line) => line.startsWith('-A ')));
const config =
  'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\nprobes:\n- {name: x, dns: "10.0.0.1:53", query: a.b, failures: 2}\n';
const generation = { number: 1, revision: 0, version: 'v', manifest: '0' };
const open = {
  phase: 'open' as const,
  changeKind: 'release' as const,
  flip: 'switch' as const,
  version: 'v',
  from: { ...generation, number: 0 },
  to: generation,
  sysctls: {},
  flows: '0',
  at: '',
  recoveries: 0,
};
const state = JSON.stringify({ ...emptyRecord('node-a'), open, kept: [generation], quarantined: { a: 'b' } });
const requests = [
  '{"do":"decide","decision":{"kind":"extend","seconds":60},"token":"0123abcd"}',
  '{"do":"rollBack","from":2,"to":"1","generation":1,"cancels":null,"endpoints":"newest","removeAllServices":false}',
];

/** A journal with a record in both slots, one of which gets damaged. */
const journal = join(scratch, 'journal');
allocateSlots(journal);
for (const sequence of [1, 2]) writeSlot(journal, sequence, state);
const slots = readFileSync(journal, 'latin1');

const archive = Buffer.from(printArchive({ files, base: fileDigest('') }));
const receipts = Buffer.from(
  packReceipts('node-a', [{ number: 7, text: '{}', signature: 's' }])?.archive ?? [],
).toString('latin1');
const receiptStores = ['oci://registry.example.com/a', 'https://a.example.com/b', 'git+ssh://git@a.example.com/b.git'];
const tar = zstdDecompressSync(archive).toString('latin1');
const digest = `sha256:${fileDigest('')}`;
const manifest = JSON.stringify({
  artifactType: 'a',
  layers: [{ mediaType: 'x', digest, size: 1, annotations: { a: 'b' } }],
});
const releaseIndex = JSON.stringify({
  artifactType: 'application/vnd.sluice.release.v2',
  manifests: [{ mediaType: 'x', digest, size: 1, artifactType: 'application/vnd.sluice.shared.v2' }],
});
const challenge = 'Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull,push"';

const answer = '{"answer":"refused","part":"ipv4","why":"line 3"}\n';
const tableText = `*nat\n:KUBE-A - [0:0]\n${ruleLines.join('\n')}\n-I OUTPUT 1 -j KUBE-A\nCOMMIT\n`;
const requestOf = (rules: string): string => {
  const sets = 'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535\n';
  const servers = '-A -t 198.51.100.1:1 -s rr -p 360\n';
  const pieces = printRequest({ backend: 'nft', sets, servers, rules: new Map([['ipv4', [rules]]]), nft: '' });
  return Buffer.concat([...pieces]).toString('latin1');
};

const hostFacts = printHostFacts({
  node: sampleNode,
  kernelRelease: '6.1.0',
  addresses: { ipv4: ['192.0.2.11'], ipv6: ['fd00::11'] },
  tcpBeLiberal: false,
  knowsBpf: true,
  providesKubeChains: true,
});

/** Each with its number of runs, valid inputs, and a reader that throws on any result but a value or a typed refusal. */
const parsers: readonly (readonly [
  title: string,
  runs: number,
  good: readonly string[],
  read: (text: string) => void,
])[] = [
  ['sluiced.yaml', 8_000, [config], (input) => void readConfig('sluiced.yaml', input)],
  ['records of the journal', 28_000, [state], (input) => refusesTyped(() => readRecord(input, 'journal'))],
  ['slots of the journal', 2_000, [slots], readDamaged],
  ['requests of operators', 4_000, requests, (input) => refusesTyped(() => readControlRequest(input))],
  ['cluster.yaml', 6_000, [text('cluster.yaml')], (input) => void isProblem(readCluster('cluster.yaml', input))],
  ['profile.yaml', 6_000, [text('profiles/default/profile.yaml')], (input) => void isProblem(readProfile('p', input))],
  ['node.yaml', 6_000, [text(`nodes/${sampleNode}/node.yaml`)], (input) => void isProblem(readNode('n', input))],
  ['facts of a host', 6_000, [hostFacts], readsHostFacts],
  ['rule lines', 30_000, ruleLines, (input) => void readRule(input)],
  ['sysctl lines', 10_000, ['net.ipv4.vs.conn_reuse_mode = 0'], (input) => void readSysctlLine(input)],
  ['paths', 10_000, [...files.keys()], (input) => void readPath(input)],
  ['archives', 4_000, [tar], (input) => readsArchive(zstdCompressSync(Buffer.from(input, 'latin1')))],
  ['packed archives', 4_000, [archive.toString('latin1')], (input) => readsArchive(Buffer.from(input, 'latin1'))],
  [
    'archives of receipts',
    4_000,
    [receipts],
    (input) => void unpackReceipts('a', 'node-a', Buffer.from(input, 'latin1')),
  ],
  ['stores of receipts', 4_000, receiptStores, (input) => void readReceiptSpec(input)],
  ['answers of a rehearsal', 6_000, [answer], (input) => void readAnswer(input)],
  ['references', 6_000, [`registry.example.com:5000/a/b:1@${digest}`], (input) => void readReference(input)],
  ['challenges of registries', 4_000, [challenge], (input) => void readChallenge(input)],
  ['manifests of registries', 6_000, [manifest, releaseIndex], readsManifest],
  [
    'whole bundles',
    4_000,
    [text(service)],
    (input) => void resolveNode(new Map([...files, [service, input]]), sampleNode),
  ],
  ['bundles of mode nftables', 3_000, Object.values(nftServices), readsNft],
  ['base files of mode nftables', 1_000, [nftFiles.get(lastNft) ?? ''], (input) => readsNft(input, lastNft)],
  [
    'comment blocks',
    4_000,
    [
      '# externalTrafficPolicy Local\n# health-check node port 32000\n# endpoint a 10.0.0.1:80 node-a zone-a terminating\n',
    ],
    (input) => void declaredHealth(new Map([...files, [service, input]]), sampleNode),
  ],
];

/** The intact record is read whatever happened to the other one; without either the file counts as damaged, and nothing is invented. */
function readDamaged(input: string): void {
  writeFileSync(journal, input, 'latin1');
  const read = readSlots(journal);
  if (read.kind === 'record' && read.text !== state)
    throw new Error(`read a record that was never written: ${read.text}`);
}

/** An accepted archive is written again with the same bytes. */
function readsArchive(bytes: Uint8Array): void {
  const read = readArchive('a', bytes);
  if (!isProblem(read)) readArchive('a', printArchive(read));
}

/** Accepted facts can be printed, and are read back equal. */
function readsHostFacts(input: string): void {
  const read = readHostFacts('h', input);
  if (isProblem(read)) return;
  const again = readHostFacts('h', printHostFacts(read));
  if (JSON.stringify(again) !== JSON.stringify(read))
    throw new Error(`read back with a difference: ${JSON.stringify(again)}`);
}

/** Whatever files say, `nft` gets commands for elements and lists of the one table, and nothing that begins another command. */
function readsNft(input: string, path = 'profiles/default/services/shop/cart.nft'): void {
  const resolved = resolveNode(new Map([...nftFiles, [path, input]]), 'node-a');
  const read = 'version' in resolved && readNft(resolved.nft ?? []);
  if (!read || 'problems' in read) return;
  const commands = printNft(read).slice(nftTable.length);
  if (!nftCommands.test(commands)) throw new Error(`nft would get ${JSON.stringify(commands)}`);
}
const nftCommands =
  /^(?:add (?:chain inet sluice [a-z0-9-]+|rule inet sluice [a-z0-9-]+ [a-z0-9 @.:&{}-]+|element inet sluice [a-z]+[46] \{ [a-z0-9 .:,/-]+ \})\n)*$/;

function readsManifest(input: string): void {
  const bytes = Buffer.from(input);
  const reads = [
    () => readManifest('m', bytes, 'a'),
    () => readReleaseIndex('m', bytes),
    () => referencesOf('m', bytes),
  ];
  for (const read of reads)
    try {
      read();
    } catch (error) {
      if (!(error instanceof RegistryFailure)) throw error;
    }
}

/** For any request, a tool gets only lines that the grammar accepts. */
test('requests for a rehearsal: reads or refuses any input with a type', { timeout: 120_000 }, async () => {
  const before = executions;
  const takes = async (input: string): Promise<void> => {
    const pieces = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from(input, 'latin1');
    };
    try {
      for await (const { text: lines } of (await readRequest(pieces())).parts)
        for await (const piece of lines)
          if (!wellFormed.test(piece)) throw new Error(`a tool would get ${JSON.stringify(piece)}`);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
    }
  };
  const { numRuns } = runs(4_000);
  await fc.assert(
    fc.asyncProperty(mutated([requestOf(tableText), tableText]), async (input) => {
      executions++;
      await takes(input);
      // With corrected lengths.
      await takes(requestOf(input));
    }),
    { numRuns },
  );
  expect(executions - before).toBe(numRuns);
});
const wellFormed = /^(\*(nat|filter)\n|COMMIT\n|:[A-Z0-9][\w.-]* - \[0:0\]\n|(-A|-I|create) [\x20-\x7e]+\n)*$/;

function refusesTyped(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
  }
}

test.each(parsers)('%s: reads or refuses any input with a type', { timeout: 120_000 }, (_title, count, good, read) => {
  const { numRuns } = runs(count);
  const before = executions;
  fc.assert(
    fc.property(mutated(good), (input) => {
      executions++;
      read(input);
    }),
    { numRuns },
  );
  expect(executions - before).toBe(numRuns);
});
