import { type ExecFileException, execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type GitCall, readBatch, type RemoteAccess, remoteGit, writingGit } from '@sluice/cli';
import { RegistryFailure } from '../http/failure.ts';
import { placeOf } from './archive.ts';
import { receiptTransportLimits } from './limits.ts';
import type { ReceiptStore } from './store.ts';

const git = '/usr/bin/git';
/** Git has no limit for what it fetches; a limit of its process bounds each file that it writes. */
const prlimit = '/usr/bin/prlimit';
const archiveFile = 'receipts.tar.zst';
const { archiveBytesMax, gitFileBytesMax, gitOutputBytesMax, gitTimeoutMs } = receiptTransportLimits;

/** How git reaches the remote: as this says, or by the config, helpers and keys of the user. */
export type GitAccess = 'user' | (() => Promise<RemoteAccess>);

/**
 * A Git repository: the ref of a node is a commit without a parent, so that nodes never conflict and nothing grows but what is collected.
 * @param url as git takes it
 */
export function gitReceipts(url: string, access: GitAccess): ReceiptStore {
  const run: Run = async (directory, args, input = '') => {
    const call =
      access === 'user' ? writingGit(directory, args, process.env) : remoteGit(directory, args, await access());
    return start(url, call, input);
  };
  return {
    name: url,
    read: (nodes) => inRepository(run, (scratch) => fetchArchives(url, nodes, (...asked) => run(scratch, ...asked))),
    write: (node, archive) =>
      inRepository(run, (scratch) => pushArchive(url, node, archive, (...asked) => run(scratch, ...asked))),
  };
}

type Ask = (args: readonly string[], input?: string | Uint8Array) => Promise<Buffer>;
type Run = (directory: string, ...asked: Parameters<Ask>) => Promise<Buffer>;

/** Runs a function with an empty bare repository. */
async function inRepository<T>(run: Run, work: (directory: string) => Promise<T>): Promise<T> {
  const scratch = await mkdtemp(join(tmpdir(), 'sluice-receipts-'));
  try {
    await run(scratch, ['init', '--quiet', '--bare', '.']);
    return await work(scratch);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

function refOf(node: string): string {
  const { folder, name } = placeOf(node);
  return `refs/sluice/receipts/${folder}/${name}`;
}

/** Fetches once, the folders of all nodes: git ends with an error if it is asked for a ref that is missing, and does not say for which. */
async function fetchArchives(
  url: string,
  nodes: readonly string[],
  ask: Ask,
): Promise<ReadonlyMap<string, Uint8Array | string>> {
  const folders = [...new Set(nodes.map((node) => placeOf(node).folder))].toSorted();
  const refs = folders.map((folder) => `+refs/sluice/receipts/${folder}/*:refs/sluice/receipts/${folder}/*`);
  const options = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-auto-maintenance', '--stdin'];
  await ask(['--git-dir=.', 'fetch', ...options, url], refs.map((ref) => `${ref}\n`).join(''));
  const sizes = await ask(
    ['--git-dir=.', 'cat-file', '--batch-check'],
    nodes.map((node) => `${refOf(node)}:${archiveFile}\n`).join(''),
  );
  const found = new Map<string, string>();
  const ids = new Map<string, string>();
  for (const [index, line] of sizes.toString('latin1').trimEnd().split('\n').entries()) {
    const node = nodes[index];
    const [, id, kind, size] = /^([0-9a-f]+) (\S+) (\d+)$/.exec(line) ?? [];
    if (node === undefined || id === undefined) continue;
    if (kind !== 'blob') found.set(node, `${refOf(node)}:${archiveFile} is not a file`);
    else if (Number(size) > archiveBytesMax) found.set(node, `${refOf(node)} is larger than ${archiveBytesMax} bytes`);
    else ids.set(node, id);
  }
  return new Map<string, Uint8Array | string>([...found, ...(await blobsOf(ids, ask))]);
}

/** @param ids node → blob of at most `archiveBytesMax` bytes */
async function blobsOf(ids: ReadonlyMap<string, string>, ask: Ask): Promise<ReadonlyMap<string, Buffer>> {
  const blobs = new Map<string, Buffer>();
  const wanted = [...new Set(ids.values())];
  const atOnce = Math.floor(gitOutputBytesMax / (archiveBytesMax + 128));
  for (let at = 0; at < wanted.length; at += atOnce) {
    const input = wanted.slice(at, at + atOnce).map((id) => `${id}\n`);
    const output = await ask(['--git-dir=.', 'cat-file', '--batch'], input.join(''));
    for (const { id, kind, bytes } of readBatch(output)) if (kind === 'blob') blobs.set(id, bytes);
  }
  return new Map([...ids].flatMap(([node, id]) => (blobs.has(id) ? [[node, blobs.get(id) as Buffer] as const] : [])));
}

async function pushArchive(url: string, node: string, archive: Uint8Array, ask: Ask): Promise<void> {
  const idOf = async (args: readonly string[], input: string | Uint8Array): Promise<string> =>
    (await ask(['--git-dir=.', ...args], input)).toString('latin1').trim();
  const blob = await idOf(['hash-object', '-w', '--stdin'], archive);
  const tree = await idOf(['mktree'], `100644 blob ${blob}\t${archiveFile}\n`);
  // Without a clock: the same receipts are the same commit, and pushing them again changes nothing.
  const person = 'sluiced <sluiced@localhost> 0 +0000';
  const commit = await idOf(
    ['hash-object', '-t', 'commit', '-w', '--stdin'],
    `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\nReceipts of ${node}\n`,
  );
  await ask(['--git-dir=.', 'push', '--quiet', '--force', '--no-verify', url, `${commit}:${refOf(node)}`]);
}

function start(url: string, { args, env, extendEnv }: GitCall, input: string | Uint8Array): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = execFile(
    prlimit,
    [`--fsize=${gitFileBytesMax}`, '--', git, ...args],
    {
      env: extendEnv ? { ...process.env, ...env } : env,
      encoding: 'buffer',
      maxBuffer: gitOutputBytesMax,
      timeout: gitTimeoutMs,
      killSignal: 'SIGKILL',
    },
    (error, stdout, stderr) => (error === null ? resolve(stdout) : reject(failure(url, error, stderr))),
  );
  // Git may end before it has read all.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(input);
  return promise;
}

function failure(url: string, { killed, signal, message }: ExecFileException, stderr: Buffer): RegistryFailure {
  const said = stderr
    .toString('utf8')
    .trim()
    .split('\n')
    .at(0)
    ?.replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, 300);
  const why = killed
    ? `no result after ${gitTimeoutMs / 1000} s`
    : signal === 'SIGXFSZ'
      ? 'it sends too much'
      : said || message;
  const hint = 'Check the URL, the network, and the credentials that git uses for it';
  return new RegistryFailure('REGISTRY_UNREACHABLE', `Cannot exchange receipts with ${url}: ${why}`, hint);
}
