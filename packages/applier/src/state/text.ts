import { limits, pauseAfter, paces } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import { publishDirectory, replaceFile } from './files.ts';
import type { GenerationRecord } from './record.ts';
import { activeGenerationFile, lastActive } from './remains.ts';
import { printSysctl } from '@sluice/netfilter';
import { nativeFilesOf } from '../apply/planes/planes.ts';
import { printStaged } from '../apply/plan/stages.ts';
import { familiesOf, type NodeState } from '../ports/node-state.ts';

/**
 * The directory `current`: which generation is active, for recovery from a lost journal, and its native text, for operators who load it by
 * hand; while changes follow each other this one may be as old as the pause of `paces.nativeText`. A failed write does not fail the change.
 */
export class CurrentText {
  readonly #directory: string;
  readonly #nowMs: () => number;
  #written: Generation | undefined;
  #manifest: string;
  #writtenMs = -Infinity;
  #pauseMs = 0;
  /** Of the last generation that was active. */
  #number = 0;

  constructor(directory: string, nowMs: () => number) {
    this.#directory = directory;
    this.#nowMs = nowMs;
    this.#manifest = lastActive(directory)?.manifest ?? '';
  }

  /** The digest of its generation's manifest; empty where that is not known. */
  get manifest(): string {
    return this.#manifest;
  }

  /**
   * A generation is active. Where the text was written lately, it is only named now, and its text follows (`catchUp`); not after a rollback,
   * as an operator may need it now. The name does not wait for the disk, as it counts only where the journal is lost, too.
   * @param manifest the digest of its manifest in the store
   */
  activate(generation: Generation, manifest: string): void {
    const isEarlier = generation.number < this.#number;
    this.#number = generation.number;
    if (isEarlier || this.#isDue()) return this.write(generation, manifest);
    try {
      for (const [name, text] of Object.entries(activeGenerationFile(generation, manifest)))
        replaceFile(`${this.#directory}/${name}`, text, false);
      this.#manifest = manifest;
    } catch {
      this.#writtenMs = -Infinity;
    }
  }

  /** @param manifest as of `activate` */
  write(generation: Generation, manifest: string): void {
    this.#written = generation;
    this.#writtenMs = this.#nowMs();
    const startMs = performance.now();
    try {
      publishDirectory(this.#directory, {
        ...nativeFiles(generation.state),
        ...activeGenerationFile(generation, manifest),
      });
      this.#manifest = manifest;
    } catch {
      // The next one is written again.
      this.#writtenMs = -Infinity;
    }
    this.#pauseMs = pauseAfter(performance.now() - startMs, paces.nativeText);
  }

  /** The last active generation that was written, as the journal names it; undefined where the directory does not say. */
  get last(): GenerationRecord | undefined {
    return lastActive(this.#directory);
  }

  /** Writes the text when the active generation has changed, but not often: at 10,000 Services it is 25 MB. */
  catchUp(generation: Generation, manifest: string): void {
    if (generation !== this.#written && this.#isDue()) this.write(generation, manifest);
  }

  /** The clock may have been set back. */
  #isDue(): boolean {
    const sinceMs = this.#nowMs() - this.#writtenMs;
    return sinceMs < 0 || sinceMs >= this.#pauseMs;
  }
}

const fileOf = { ipv4: 'iptables.rules', ipv6: 'ip6tables.rules' } as const;

/**
 * The rules of a node as native text, by file name, which an operator can load by hand in an emergency: `iptables-restore --noflush <
 * iptables.rules`, `sysctl -p sysctl.conf`; in mode ipvs first `ipset restore < ipset.rules`, then `ipvsadm -R < ipvs.rules` and `ip -batch
 * addresses.batch`; in mode nftables `nft -f table.nft`.
 */
function nativeFiles(state: NodeState): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of familiesOf(state)) {
    const rules = state.families[name];
    if (rules) files[fileOf[name]] = printStaged(rules, limits.chainsPerPayloadMax);
  }
  Object.assign(files, nativeFilesOf(state));
  files['sysctl.conf'] = [...state.sysctls].map(([key, value]) => `${printSysctl({ key, value })}\n`).join('');
  return files;
}
