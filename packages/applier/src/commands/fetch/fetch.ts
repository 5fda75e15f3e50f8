import { randomUUID } from 'node:crypto';
import { mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { printProblem, type Problem } from '@sluice/netfilter';
import { stateError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { Follower } from '../../fetch/follow.ts';
import { attemptAndTell, fetchLoop, type LoopParts } from '../../fetch/loop.ts';
import { fetchLimits } from '../../fetch/limits.ts';
import { FetchMemory } from '../../fetch/memory.ts';
import { eventsOf, receiptStoreOf, serversOf, sourceOf } from '../../fetch/open.ts';
import { PlacedRelease } from '../../fetch/placed.ts';
import { type ReceiptLoopParts, receiptLoop, remember, sendAndTell, sentBefore } from '../../fetch/receipts/loop.ts';
import type { SendOutcome } from '../../fetch/receipts/send.ts';
import { readSourceStatus, type SourceStatus, tellReceipts } from '../../fetch/status-file.ts';
import { trustOf } from '../../inbox/trust.ts';
import { runChildren } from '../../kernel/run.ts';
import { limits } from '../../limits.ts';
import { smallHeap } from '../../memory.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { takeLock } from '../../state/lock.ts';
import { StateError } from '../../state/state-error.ts';
import { makeReleaseGate } from '../session/gate.ts';
import { answer, type CommonOptions, loadConfig, logSettings, type Terminal } from '../terminal/terminal.ts';

type SourceConfig = NonNullable<SluicedConfig['source']>;

interface FetchOptions extends CommonOptions {
  readonly once?: boolean;
  readonly now?: boolean;
  /** In seconds. */
  readonly timeout?: number;
}

/** Where operators ask the running process for an attempt: only root writes there. */
const requestFile = '/run/sluice/fetch-request';

/** `sluiced fetch`: fetches releases from the source of the config until it is stopped, or once. */
export async function fetchCommand(
  options: FetchOptions,
  terminal: Terminal,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  const config = loadConfig(options);
  const { source } = config;
  if (source === undefined) {
    if (options.once || options.now)
      throw stateError('Cannot fetch: the config has no source', 'Set `source` in sluiced.yaml');
    terminal.err('nothing to fetch: the config has no source\n');
    return exitCodes.done;
  }
  if (options.now)
    return tell(await requested(source, options.timeout ?? limits.waitSecondsDefault), options, terminal);
  const lock = open(source);
  try {
    const parts = await partsOf(config, source, options, terminal, environment);
    const receipts = receiptsOf(config, parts, environment);
    if (options.once) {
      const { status } = await attemptAndTell(parts);
      if (receipts) printReceipts(await sendAndTell(receipts, sentBefore(source.directory)), terminal);
      return tell(status, options, terminal);
    }
    if (!receipts) remember(parts.log, () => tellReceipts(source.directory, undefined));
    // The first process of a container ignores it without a listener. What is half placed is finished by the next one.
    process.once('SIGTERM', () => process.exit(exitCodes.done));
    const heap = smallHeap();
    heap.settle();
    const { signal } = new AbortController();
    await Promise.all([
      fetchLoop(parts, signal, () => heap.collect()),
      parts.follower?.run(signal),
      ...(receipts ? [receiptLoop(receipts, signal)] : []),
    ]);
    return exitCodes.done;
  } finally {
    lock[Symbol.dispose]();
  }
}

/** One process at a time, as the owner of the directory: files of another user could not be replaced later. */
function open({ directory }: SourceConfig): Disposable {
  const owner = statSync(directory, { throwIfNoEntry: false })?.uid;
  if (owner !== undefined && owner !== process.geteuid?.())
    throw stateError(
      `Cannot fetch into ${directory}: it belongs to user ${owner}`,
      'Use `sluiced fetch --now`, or run it as that user',
      exitCodes.refused,
    );
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  try {
    return takeLock(directory);
  } catch (error) {
    if (!(error instanceof StateError) || error.code !== 'NODE_LOCKED') throw error;
    throw stateError(
      `Cannot fetch into ${directory}: another process fetches there`,
      'Use `sluiced fetch --now`',
      exitCodes.refused,
    );
  }
}

async function partsOf(
  config: SluicedConfig,
  source: SourceConfig,
  { once }: FetchOptions,
  terminal: Terminal,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<LoopParts> {
  const { directory, intervalSeconds } = source;
  const run = runChildren();
  const gate = makeReleaseGate({ ...config, state: directory }, () => true);
  if (gate === undefined)
    throw stateError('Cannot fetch: signatures are not required', 'Set `signatures: {policy: required}`');
  const silent = { info: () => undefined, warn: () => undefined };
  const log = once ? silent : ((await terminal.openLog?.(logSettings(config))) ?? silent);
  const servers = serversOf(source);
  const events = (url: string, signal: AbortSignal): AsyncIterable<string> =>
    eventsOf(source, { environment, run }, url, signal);
  return {
    node: {
      name: config.node,
      gate,
      placed: new PlacedRelease(directory, run),
      memory: new FetchMemory(directory, () => performance.now(), fetchLimits.pauseMsMax),
      nowMs: Date.now,
    },
    directory,
    open: sourceOf(source, config.node, { environment, run }, servers),
    follower: source.https?.events === true ? new Follower({ node: config.node, servers, events, log }) : undefined,
    intervalMs: intervalSeconds * 1000,
    requestFile,
    log,
  };
}

/** Undefined where the config names no store of receipts. */
function receiptsOf(
  { node, state, receipts: { push, directory = `${state}/receipts` } }: SluicedConfig,
  { directory: own, log }: LoopParts,
  environment: Readonly<Record<string, string | undefined>>,
): ReceiptLoopParts | undefined {
  if (push === undefined) return undefined;
  const storeOf = () => receiptStoreOf(push, { environment, run: runChildren() });
  return { receipts: { node, directory, open: storeOf, intervalMs: push.intervalSeconds * 1000 }, directory: own, log };
}

/** A failure to send receipts does not change the exit code: the release is what was asked for. */
function printReceipts({ outcome }: { readonly outcome: SendOutcome }, terminal: Terminal): void {
  if (outcome.kind !== 'failed') return;
  terminal.problems?.push(outcome.problem);
  terminal.err(printProblem(outcome.problem));
}

/**
 * Lets the running process fetch, and waits for its answer.
 * @throws CommandError when none comes in time
 */
async function requested({ directory }: SourceConfig, seconds: number): Promise<SourceStatus> {
  const request = randomUUID();
  const temporary = `${requestFile}.tmp`;
  mkdirSync(dirname(requestFile), { recursive: true, mode: 0o755 });
  writeFileSync(temporary, `${request}\n`, { mode: 0o644 });
  renameSync(temporary, requestFile);
  for (const endMs = performance.now() + seconds * 1000; performance.now() < endMs; await sleep(limits.waitPollMs)) {
    const status = readSourceStatus(directory, trustOf(undefined, directory));
    if (status?.request === request) return status;
  }
  const hint = 'Look at it: `systemctl status sluiced-fetch.service`, `journalctl -u sluiced-fetch`';
  throw stateError(`Cannot fetch now: the fetch process gave no answer within ${seconds} s`, hint);
}

function tell(status: SourceStatus, options: FetchOptions, terminal: Terminal): number {
  const { outcome, problem, serial, revision, source } = status;
  const told = problem && ({ ...problem, level: 'error' } as Problem);
  if (told) {
    terminal.problems?.push(told);
    terminal.err(printProblem(told));
  }
  const { schema: _schema, request: _request, ...fields } = status;
  const release =
    serial === null ? 'no release' : `release ${serial}${revision === null ? '' : `, revision ${revision}`}`;
  answer(options, terminal, { kind: 'Fetch', fields, text: `${source}: ${outcome}; ${release} is in place\n` });
  return { same: exitCodes.done, placed: exitCodes.done, refused: exitCodes.refused, failed: exitCodes.problem }[
    outcome
  ];
}
