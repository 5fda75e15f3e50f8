import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import type { BundleFiles } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { admit, AdmitMemory, isRefusal } from '../../packages/applier/src/apply/admission/admit.ts';
import type { ChainLayout } from '../../packages/applier/src/apply/admission/linking.ts';
import type { NodeState } from '../../packages/applier/src/ports/node-state.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { listExamples } from '../../tools/examples.ts';
import { sampleFacts } from '../../packages/applier/src/testing/node-facts.fixture.ts';

const facts = { ...sampleFacts, addresses: { ipv4: ['192.0.2.11'], ipv6: ['2001:db8::11'] } };

/** What the nodes of each example run. */
export function exampleStates(layout: ChainLayout): readonly (readonly [example: string, state: NodeState])[] {
  return listExamples().flatMap(({ name, output }) => {
    const files = readTree(output);
    if (!(files instanceof Map)) throw new Error(`${name} is not a bundle`);
    const nodes = [...files.keys()].flatMap((path) => /^nodes\/([^/]+)\/node\.yaml$/.exec(path)?.[1] ?? []);
    return nodes.toSorted(compareText).map((node) => [name, stateOf(files, node, layout)] as const);
  });
}

/** What a node of a bundle runs. */
export function stateOf(files: BundleFiles, node: string, layout: ChainLayout): NodeState {
  const bundle = admit(files, { node, allowPartial: true, layout }, facts, new AdmitMemory());
  if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
  return bundle.state;
}

/** A substitute for sluiced-rehearse.socket: each connection is the standard input of a process with a network and a /run of its own. */
export class RehearsalUnit {
  readonly folder: string;
  readonly path: string;
  /** The output of the instances, one after the other. */
  log = '';
  /** The process of the newest connection. */
  pid: number | undefined;
  readonly #server: Server;

  private constructor(place: readonly string[], folder: string) {
    this.folder = folder;
    this.path = `${folder}/rehearse.sock`;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (connection) => {
      const args = [...place, process.execPath, programPath('sluiced'), 'rehearse', '--stdin'];
      const child = spawn('env', args, { stdio: [connection, 'pipe', 'pipe'], env: {} });
      this.pid = child.pid;
      // The child has it now; while this process held it too, the other end would not see it close.
      connection.destroy();
      for (const stream of [child.stdout, child.stderr]) stream?.on('data', (part) => (this.log += String(part)));
    });
  }

  /**
   * @param place the command that starts a process where it is to rehearse
   * @param folder of the socket `rehearse.sock`; it is removed at the end
   */
  static async listen(place = scratch, folder = mkdtempSync(`${tmpdir()}/slt-unit-`)): Promise<RehearsalUnit> {
    const unit = new RehearsalUnit(place, folder);
    await new Promise<void>((done) => void unit.#server.listen(unit.path, done));
    return unit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((done) => this.#server.close(done));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** As PrivateNetwork=yes and TemporaryFileSystem=/run do. */
const scratch: readonly string[] = [
  'unshare',
  '--net',
  '--mount',
  'sh',
  '-c',
  'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"',
  'sh',
];
