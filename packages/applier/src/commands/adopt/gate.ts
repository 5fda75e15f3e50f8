import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import type { Run } from '../../kernel/command.ts';
import { runChildren } from '../../kernel/run.ts';
import { otherBackend, type RuleStore, readStoreUse } from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';
import { readSmallFile } from '../../move/parity/read-file.ts';
import { reportGate } from '../../move/parity/report-gate.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { ParityGate } from '../../ports/parity.ts';
import { observeBefore } from '../session/parity.ts';

export interface ParityOptions {
  /** The result of `sluice parity -o json`. */
  readonly report?: string;
  readonly accept?: readonly string[];
  readonly withoutParity?: boolean;
}

/** What a gate needs to know of the machine. */
interface GateFacts {
  readonly backend: RuleStore;
  readonly knowsBpf: boolean;
}

/**
 * What says that the bundle serves the node as before: with `requireParity` the certificate alone; else a report, or the program that makes
 * one; or nothing, where the operator says so.
 * @returns undefined: the session's own gate, if it has one
 * @throws CommandError
 */
export async function gateFor(
  config: SluicedConfig,
  { report, accept = [], withoutParity = false }: ParityOptions,
  { backend, knowsBpf }: GateFacts,
): Promise<ParityGate | undefined> {
  if (config.requireParity) {
    if (withoutParity || report !== undefined || accept.length > 0)
      throw commandError(
        'NODE_PARITY_MISSING',
        'Cannot move this node without its certificate: requireParity is set in sluiced.yaml',
        'Make one (`sluice certify`) and put it at parityCertificate; --report, --accept and --without-parity are for nodes without requireParity',
        exitCodes.refused,
      );
    return undefined;
  }
  if (withoutParity) return undefined;
  const run = runChildren();
  return reportGate({
    node: config.node,
    accepted: accept,
    observe: () => observeBefore(config.node, knowsBpf, run),
    compare: (observed) => (report === undefined ? runParity(observed, config, run) : readReport(report)),
    servesElsewhere: async () => (await readStoreUse(otherBackend(backend), run)).hasKubeProxy,
    nowMs: Date.now,
  });
}

async function readReport(path: string): Promise<string> {
  const text = readSmallFile(path, limits.parityReportBytesMax);
  if (text === undefined) throw new Error(`${path} is missing, or no regular file`);
  return text;
}

/** Runs `sluice parity` of this node: by its absolute path, in the environment of every tool. */
async function runParity(observed: string, { parityProgram, bundle, node }: SluicedConfig, run: Run): Promise<string> {
  const scratch = mkdtempSync(join(tmpdir(), 'sluiced-parity-'));
  try {
    const file = join(scratch, 'observed.json');
    writeFileSync(file, observed, { mode: 0o600 });
    const { stdout, why } = await run({
      file: parityProgram,
      args: ['parity', file, bundle, '--node', node, '-o', 'json'],
      timeoutMs: limits.parityMs,
      outputBytesMax: limits.parityReportBytesMax,
    });
    // Exit codes 1 and 2 have a report, too.
    if (!stdout.startsWith('{')) throw new Error(`${parityProgram} gave no report: ${why}`);
    return stdout;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
