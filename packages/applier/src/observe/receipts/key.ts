import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { receiptNamespace } from '@sluice/bundle';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';
import { discard, readIfThere, syncPath, replaceFile, writeSynced, writing } from '../../state/files.ts';
import { StateError } from '../../state/state-error.ts';

/** The key of a node is created there and never leaves it; only root can read the state directory. */
export const keyFile = (state: string): string => join(state, 'receipt_key');
const publicFile = (state: string): string => `${keyFile(state)}.pub`;

/** Whether the node has a key, so that it signs receipts. */
export function hasKey(state: string): boolean {
  return lstatSync(keyFile(state), { throwIfNoEntry: false }) !== undefined;
}

/**
 * Creates the key of this node, and repairs what a killed process left of it.
 * @param renew replaces an existing key; otherwise it is kept
 * @returns the line for `allowed_receipts`
 * @throws StateError when it cannot be created or written
 */
export async function makeKey(state: string, node: string, renew: boolean, run: Run): Promise<string> {
  const tool = sshKeygen();
  writing(state, () => mkdirSync(state, { recursive: true, mode: 0o700 }));
  removeLeft(state, Date.now());
  if (renew || !writing(keyFile(state), () => hasKey(state))) await generate(tool, state, node, run);
  checkKey(state);
  const half = await publicHalf(tool, state, run);
  writing(publicFile(state), () => {
    if (readIfThere(publicFile(state)) !== half) replaceFile(publicFile(state), half);
  });
  const [type, key] = half.trim().split(' ');
  return `${node} namespaces="${receiptNamespace}" ${type} ${key}`;
}

/** Removes what killed processes left. Young files may belong to a running process. */
function removeLeft(state: string, nowMs: number): void {
  const left = writing(state, () => readdirSync(state).filter((name) => name.startsWith(scratchName)));
  for (const path of left.map((name) => join(state, name))) {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats && nowMs - stats.mtimeMs > 2 * limits.verifyTimeoutMs) discard(path);
  }
}

const scratchName = '.keygen-';

/**
 * Generates the key elsewhere and moves it into place: a node never has half a key. The old one works until the new one is whole. The
 * caller writes its public half.
 */
async function generate(tool: string, state: string, node: string, run: Run): Promise<void> {
  const scratch = writing(state, () => mkdtempSync(join(state, scratchName)));
  try {
    const made = join(scratch, 'key');
    const args = ['-q', '-t', 'ed25519', '-N', '', '-C', node, '-f', made];
    const { exitCode, why } = await run({ file: tool, args, timeoutMs: limits.verifyTimeoutMs });
    if (exitCode !== 0) throw broken(`ssh-keygen could not create a key: ${why}`, 'Check the free disk space');
    writing(keyFile(state), () => {
      // ssh-keygen does not sync its files.
      writeSynced(made, readFileSync(made, 'latin1'));
      // In this order a public half always fits: next to a wrong one, ssh-keygen would not sign.
      rmSync(publicFile(state), { force: true });
      renameSync(made, keyFile(state));
      syncPath(state);
    });
  } finally {
    discard(scratch);
  }
}

/** The public half of the existing key. `-P`: never ask for a passphrase. */
async function publicHalf(tool: string, state: string, run: Run): Promise<string> {
  const args = ['-y', '-P', '', '-f', keyFile(state)];
  const { exitCode, stdout, why } = await run({ file: tool, args, timeoutMs: limits.verifyTimeoutMs });
  if (exitCode === 0 && /^\S+ \S+/.test(stdout)) return stdout;
  throw broken(`ssh-keygen cannot use receipt_key${why === '' ? '' : `: ${why}`}`, renewHint);
}

/**
 * Signs a receipt.
 * @returns the armoured signature
 * @throws StateError when the key cannot be used
 */
export async function signReceipt(state: string, text: string, run: Run): Promise<string> {
  checkKey(state);
  const args = ['-Y', 'sign', '-q', '-n', receiptNamespace, '-f', keyFile(state)];
  const { exitCode, stdout, why } = await run({
    file: sshKeygen(),
    args,
    input: text,
    timeoutMs: limits.verifyTimeoutMs,
    outputBytesMax: limits.probeOutputBytesMax,
  });
  if (exitCode !== 0) throw broken(`ssh-keygen did not sign: ${why}`, renewHint);
  return stdout;
}

/** A key that other users can read proves nothing. */
function checkKey(state: string): void {
  const stats = lstatSync(keyFile(state), { throwIfNoEntry: false });
  const owner = process.geteuid?.();
  if (stats?.isFile() && (stats.mode & 0o077) === 0 && stats.uid === owner) return;
  throw broken('receipt_key must be a regular file that only its owner can read', renewHint);
}

function sshKeygen(): string {
  const tool = findTool('ssh-keygen');
  if (tool === undefined)
    throw broken('ssh-keygen is not installed', 'Install the OpenSSH client (Debian: openssh-client)');
  return tool;
}

const renewHint = 'Create a new key with `sluiced keygen --renew`, and add its line to allowed_receipts';

function broken(why: string, hint: string): StateError {
  return new StateError('NODE_STATE_INVALID', why, hint);
}
