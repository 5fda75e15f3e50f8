import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One block of commands of a runbook. */
export interface Block {
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly text: string;
  /** Commands that only a real host has; each has a stand-in. */
  readonly needs: readonly string[];
  /** Its output, where the runbook shows it: lines in which `…` is any text, and alone any lines. */
  readonly prints: readonly string[] | undefined;
}

export interface Runbook {
  /** The runbook whose machine this one starts with. */
  readonly after: string | undefined;
  /** The earlier events on the machine: a shell script of this name has them. */
  readonly scene: string | undefined;
  readonly blocks: readonly Block[];
}

/** The commands with a stand-in in this folder. */
export const standIns: readonly string[] = readdirSync(join(import.meta.dirname, 'stand-ins')).toSorted();

/**
 * Reads a runbook. Blocks of kind `sh` are commands; a block of kind `text` directly after one is its output; any other kind is an
 * error, so that no command escapes the test.
 */
export function readRunbook(markdown: string): Runbook {
  const blocks: Block[] = [];
  const lines = markdown.split('\n');
  let open: { line: number; info: string; text: string[] } | undefined;
  for (const [index, line] of lines.entries()) {
    const fence = /^```(.*)$/.exec(line);
    if (!fence) open?.text.push(line);
    else if (open) {
      close(blocks, open);
      open = undefined;
    } else open = { line: index + 1, info: fence[1] ?? '', text: [] };
  }
  if (open) throw new Error(`line ${open.line}: the block has no end`);
  const [, after] = /^<!-- after: (\S+) -->$/m.exec(markdown) ?? [];
  const [, scene] = /^<!-- scene: (\S+) -->$/m.exec(markdown) ?? [];
  return { after, scene, blocks };
}

function close(blocks: Block[], { line, info, text }: { line: number; info: string; text: readonly string[] }): void {
  const last = blocks.at(-1);
  const [kind, ...more] = info.split(' ');
  if (kind === 'text' && last && last.prints === undefined) blocks[blocks.length - 1] = { ...last, prints: text };
  else if (kind === 'sh') blocks.push({ line, text: text.join('\n'), needs: needsOf(more, line), prints: undefined });
  else throw new Error(`line ${line}: a block is \`sh\`, or \`text\` after one, not ${JSON.stringify(info)}`);
}

function needsOf(words: readonly string[], line: number): readonly string[] {
  if (words.length === 0) return [];
  const [, names] = /^needs=([a-z,-]+)$/.exec(words.join(' ')) ?? [];
  if (names === undefined) throw new Error(`line ${line}: after \`sh\` only needs=NAME,… is possible`);
  return names.split(',');
}

/** The stand-ins that a text calls. */
function calledIn(text: string): readonly string[] {
  return standIns.filter((name) =>
    new RegExp(`(^|[|&;({]\\s*|\\$\\(|\\b(?:if|then|do|until|while|sudo) )\\s*${name} `, 'm').test(text),
  );
}

/**
 * How many blocks of a page call each stand-in.
 * @throws where a block does not name those that it calls
 */
export function standInsOf({ blocks }: Runbook): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { line, text, needs } of blocks) {
    const called = calledIn(text);
    if (called.join() !== needs.join())
      throw new Error(`line ${line} calls ${called.join()} and names ${needs.join()}`);
    for (const name of called) counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/**
 * One script of many blocks: each is announced before it runs, and the first that fails ends the script. The output goes into a file
 * per block.
 * @param folder of the outputs
 */
export function scriptOf(blocks: readonly Block[], folder: string): string {
  const steps = blocks.map(
    ({ line, text }, index) =>
      `echo "block ${index} of line ${line}" >>${folder}/steps\n{\n${text}\n} >${folder}/${index}.out 2>&1\n`,
  );
  return `set -euo pipefail\nmkdir -p ${folder}\n${steps.join('')}echo done >>${folder}/steps\n`;
}

export const runbooksFolder = join(import.meta.dirname, '..', '..', 'docs', 'runbooks');
export const runbookNames = readdirSync(runbooksFolder)
  .filter((name) => name.endsWith('.md') && name !== 'README.md')
  .toSorted();
export const runbookOf = (name: string): Runbook => readRunbook(readFileSync(join(runbooksFolder, name), 'utf8'));
