import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { receiptNamespace } from '@sluice/bundle';
import type { Run } from '../kernel/run.ts';
import { findTool } from '../kernel/tools.ts';
import { limits } from '../limits.ts';
import { discard, readIfThere, syncDirectory, writeDurably, writeSynced, writing } from '../store/files.ts';
import { StateError } from '../store/state-error.ts';

/** The key of a node is made there and never leaves it; the state directory is root's alone. */
export const keyFile = (state: string): string => join(state, 'receipt_key');
const publicFile = (state: string): string => `${keyFile(state)}.pub`;

/** Whether the node has a key, so that it signs receipts. */
export function hasKey(state: string): boolean {
  return lstatSync(keyFile(state), { throwIfNoEntry: false }) !== undefined;
}

/**
 * Makes the key of this node, and puts right what a process that was killed left of it.
 * @param renew replaces a key that is there; without it such a key stays
 * @returns the line for `allowed_receipts`
 * @throws StateError when it cannot be made or written
 */
export async function makeKey(state: string, node: string, renew: boolean, run: Run): Promise<string> {
  const tool = sshKeygen();
  writing(state, () => mkdirSync(state, { recursive: true, mode: 0o700 }));
  removeLeft(state, Date.now());
  if (renew || !writing(keyFile(state), () => hasKey(state))) await generate(tool, state, node, run);
  checkKey(state);
  const half = await publicHalf(tool, state, run);
  writing(publicFile(state), () => {
    if (readIfThere(publicFile(state)) !== half) writeDurably(publicFile(state), half);
  });
  const [type, key] = half.trim().split(' ');
  return `${node} namespaces="${receiptNamespace}" ${type} ${key}`;
}

/** Takes away what processes left that were killed. What is young may be another one's at work. */
function removeLeft(state: string, nowMs: number): void {
  const left = writing(state, () => readdirSync(state).filter((name) => name.startsWith(scratchName)));
  for (const path of left.map((name) => join(state, name))) {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats && nowMs - stats.mtimeMs > 2 * limits.verifyTimeoutMs) discard(path);
  }
}

const scratchName = '.keygen-';

/**
 * Written where nobody looks and moved into place: a node never has half a key. The old one works until the new one is whole. Whoever
 * calls this writes its public half anew.
 */
async function generate(tool: string, state: string, node: string, run: Run): Promise<void> {
  const scratch = writing(state, () => mkdtempSync(join(state, scratchName)));
  try {
    const made = join(scratch, 'key');
    const args = ['-q', '-t', 'ed25519', '-N', '', '-C', node, '-f', made];
    const { exitCode, why } = await run({ file: tool, args, timeoutMs: limits.verifyTimeoutMs });
    if (exitCode !== 0) throw broken(`ssh-keygen made no key: ${why}`, 'See that the disk has room');
    writing(keyFile(state), () => {
      // ssh-keygen does not wait for the disk.
      writeSynced(made, readFileSync(made, 'latin1'));
      // In this order there is never a public half that does not fit: beside one, ssh-keygen would not sign.
      rmSync(publicFile(state), { force: true });
      renameSync(made, keyFile(state));
      syncDirectory(state);
    });
  } finally {
    discard(scratch);
  }
}

/** The public half of the key that is there. `-P`: nobody is there who could be asked for a passphrase. */
async function publicHalf(tool: string, state: string, run: Run): Promise<string> {
  const args = ['-y', '-P', '', '-f', keyFile(state)];
  const { exitCode, stdout, why } = await run({ file: tool, args, timeoutMs: limits.verifyTimeoutMs });
  if (exitCode === 0 && /^\S+ \S+/.test(stdout)) return stdout;
  throw broken(`receipt_key is no key that ssh-keygen can use${why === '' ? '' : `: ${why}`}`, renewHint);
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

/** A key that others can read proves nothing. */
function checkKey(state: string): void {
  const stats = lstatSync(keyFile(state), { throwIfNoEntry: false });
  const owner = process.geteuid?.();
  if (stats?.isFile() && (stats.mode & 0o077) === 0 && stats.uid === owner) return;
  throw broken('receipt_key is not a file that only its owner can read', renewHint);
}

function sshKeygen(): string {
  const tool = findTool('ssh-keygen');
  if (tool === undefined)
    throw broken('ssh-keygen is not on the node', 'Install the OpenSSH client (Debian: openssh-client)');
  return tool;
}

const renewHint = 'Make a new key with `sluiced keygen --renew`, and put its line into allowed_receipts';

function broken(why: string, hint: string): StateError {
  return new StateError('NODE_STATE_INVALID', why, hint);
}
