import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey, publicKeyOf, signBy } from '@sluice/testing';
import { type BundleFiles, makeRelease, printRelease, type Release, type ReleaseTerms, sumsOf } from '@sluice/bundle';
import { type Arrival, Inbox } from '../inbox/inbox.ts';
import { type GateRules, ReleaseGate } from '../inbox/release-gate.ts';
import { trustOf } from '../inbox/trust.ts';
import { runChildren } from '../kernel/run.ts';
import { sampleBundle, sampleNode, writeBundle } from './bundle.fixture.ts';

/** A published release, where it differs from release 5 of the sample bundle. */
export interface Made extends Partial<ReleaseTerms> {
  readonly files?: BundleFiles;
  readonly change?: (release: Release) => Release;
  readonly by?: readonly string[];
}

export const noon = Date.parse('2026-12-01T12:00:00Z');

/** `ends` has the role for endpoints. */
const spaceOf = (name: string): string => (name === 'ends' ? 'sluice-endpoints' : 'sluice-release');

/** For tests only: a node that requires signatures, keys, and the directory where releases are published for it. */
export class GateScene {
  readonly scratch = mkdtempSync(join(tmpdir(), 'sluiced-gate-'));
  readonly directory = join(this.scratch, 'release');
  readonly state = join(this.scratch, 'state');
  readonly signersFile = join(this.scratch, 'allowed_signers');
  readonly at = (path: string): string => join(this.directory, path);
  readonly lineOf = (name: string, options = 'namespaces="sluice-release"'): string =>
    `${name} ${options} ${publicKeyOf(join(this.scratch, name))}\n`;
  readonly allow = (...lines: readonly string[]): void =>
    writeFileSync(this.signersFile, lines.join(''), { mode: 0o644 });
  readonly signatureOf = (name: string, sums: string, space = spaceOf(name)): string =>
    signBy(join(this.scratch, name), space, sums);

  /** Publishes a release where the node looks for it, signed by alice unless told otherwise. */
  readonly publish = ({
    serial = 5,
    revision,
    expires,
    files = sampleBundle(),
    change = (one) => one,
    by = ['alice'],
  }: Made = {}): void => {
    const made = makeRelease(files, {
      serial,
      source: 'c'.repeat(40),
      ...(revision === undefined ? {} : { revision }),
      ...(expires ? { expires } : {}),
    });
    if (!('serial' in made)) throw new Error(JSON.stringify(made));
    const text = printRelease(change(made));
    const sums = sumsOf(files, text);
    rmSync(this.directory, { recursive: true, force: true });
    writeBundle(this.directory, files);
    rmSync(this.at('.sluice-complete'));
    writeFileSync(this.at('release.yaml'), text);
    writeFileSync(this.at('SHA256SUMS'), sums);
    for (const [index, name] of by.entries())
      writeFileSync(this.at(index === 0 ? 'SHA256SUMS.sig' : `SHA256SUMS.${name}.sig`), this.signatureOf(name, sums));
  };

  /** Reads the directory as a new process, which knows only what is on the disk. */
  readonly look = (rules: Partial<GateRules> = {}, nowMs = noon, remember = true): Promise<Arrival> => {
    const all = {
      node: sampleNode,
      state: this.state,
      allowedSigners: this.signersFile,
      threshold: 1,
      floor: 0,
      ...rules,
    };
    const gate = new ReleaseGate(all, {
      run: runChildren(),
      nowMs: () => nowMs,
      trust: trustOf(undefined),
      remember: () => remember,
    });
    return new Inbox(this.directory, () => nowMs, undefined, gate).look();
  };
  /** The result of `look` in one line. */
  readonly said = async (...how: Parameters<GateScene['look']>): Promise<string> => {
    const arrival = await this.look(...how);
    if (arrival.kind === 'absent') return 'absent';
    if (arrival.kind === 'refused')
      return `refused ${arrival.problems.map(({ code, message }) => `${code} ${message}`).join()}`;
    const alarms = (arrival.alarms ?? []).map(({ code }) => ` ${code}`).join('');
    const { serial, revision = 0, signers = [], onlyEndpoints } = arrival.release ?? {};
    const what = `serial ${serial}${revision > 0 ? `.${revision}` : ''} by ${signers.join()}`;
    return `${what}${onlyEndpoints ? ', endpoints only' : ''}${alarms}`;
  };

  constructor() {
    for (const name of ['alice', 'bob', 'mallory', 'ends']) makeKey(join(this.scratch, name));
  }

  /** A new node, with an empty directory, that trusts alice and bob. */
  readonly reset = (): void => {
    rmSync(this.state, { recursive: true, force: true });
    rmSync(this.directory, { recursive: true, force: true });
    this.allow(this.lineOf('alice'), this.lineOf('bob'));
  };

  /** Accepts serial 5, signed by alice: the state before each attack. */
  readonly acceptFive = async (): Promise<void> => {
    this.publish({ serial: 5 });
    await this.look();
  };

  readonly end = (): void => rmSync(this.scratch, { recursive: true, force: true });
}
