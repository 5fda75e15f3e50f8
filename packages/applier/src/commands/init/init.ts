import { existsSync, linkSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { readSigners, releaseLimits, releaseNamespace } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { refusal } from '@sluice/netfilter';
import { CommandError, commandError } from '../../command-error.ts';
import { nodeMisfit, readConfig } from '../../config.ts';
import { linksMax, readTrusted } from '../../inbox/descend.ts';
import type { Run } from '../../kernel/command.ts';
import { programsNamed } from '../../kernel/facts.ts';
import { runChildren } from '../../kernel/run.ts';
import { detectTools, findTool } from '../../kernel/tools.ts';
import { kubeProxyOf } from '../../move/kube-proxy/kube-proxy.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { isThere, readIfThere, syncPath } from '../../state/files.ts';
import { answer, configError, type Terminal } from '../terminal/terminal.ts';
import { readSourceUrl } from './source.ts';
import { configText, type InitSource, type NodeFindings } from './text.ts';

interface InitOptions {
  readonly node?: string;
  readonly force?: boolean;
  readonly output?: string;
  /** URLs. */
  readonly source?: string;
  readonly receipts?: string;
  /** Paths. */
  readonly keys?: string;
  readonly ca?: string;
  readonly credentials?: string;
}

/** What a command finds around itself; tests have a machine of their own. */
export interface InitMachine {
  readonly run: Run;
  /** The folder of the running program. */
  readonly bin: string;
  readonly root: string;
}

const thisMachine = (): InitMachine => ({ run: runChildren(), bin: dirname(process.execPath), root: '/' });

/**
 * `sluiced init [FILE]`: writes a config of what is found on this node; with a source also allowed_signers beside it and the units that
 * the machine lacks. Everything is checked before anything is written; the config comes last. `-` prints it.
 */
export async function init(
  file: string,
  options: InitOptions,
  terminal: Terminal,
  machine: InitMachine = thisMachine(),
): Promise<number> {
  const node = options.node ?? kubeletName() ?? hostname().toLowerCase();
  const misfit = nodeMisfit(node);
  if (misfit !== undefined) {
    const message = `Cannot use the node name ${JSON.stringify(node)}: ${misfit}`;
    throw configError(message, 'Pass the name that `kubectl get nodes` prints with --node');
  }
  const { source, receipts } = connectionsOf(options);
  const keys = options.keys === undefined ? undefined : readKeys(resolve(options.keys));
  const signers = join(
    keys && file !== '-' ? dirname(resolve(file)) : join(machine.root, 'etc/sluice'),
    'allowed_signers',
  );
  if (source && !keys && file !== '-' && !existsSync(signers))
    throw configError(`Cannot use a source without keys: ${signers} is missing`, keysHint);
  const found = await findingsOf(node, signers, machine.run);
  const text = configText(found, source, receipts);
  const config = readConfig(file, text);
  if ('problems' in config) throw new CommandError(config.problems);
  const units = source ? missingUnits(machine.bin, machine.root) : new Map<string, string>();
  const wanted = new Map([...(keys ? [[signers, keys.text] as const] : []), ...units, [resolve(file), text] as const]);
  const written = file === '-' ? [] : writeFiles(wanted, options.force === true);
  const fields = { file: file === '-' ? null : resolve(file), written, ...found, config: text };
  const lines = [...written.map((path) => `Wrote ${path}\n`), ...nextSteps(source, keys)];
  answer(options, terminal, { kind: 'InitResult', fields, text: file === '-' ? text : lines.join('') });
  return exitCodes.done;
}

const keysHint =
  'Pass --keys with the file that lists who may sign releases, such as allowed_signers of `sluice verify`';

/** What URLs name, with the files that both use to reach their servers. */
function connectionsOf({ source, receipts, ca, credentials }: InitOptions): {
  readonly source?: InitSource;
  readonly receipts?: InitSource;
} {
  const files = {
    ...(ca !== undefined && { caFile: resolve(ca) }),
    ...(credentials !== undefined && { credentials: resolve(credentials) }),
  };
  if (source === undefined && (receipts !== undefined || Object.keys(files).length > 0)) {
    const why = 'Cannot use --receipts, --ca or --credentials without --source';
    throw configError(why, 'Pass --source URL, too: the process that fetches sends receipts');
  }
  return {
    ...(source !== undefined && { source: { ...readSourceUrl(source), ...files } }),
    ...(receipts !== undefined && { receipts: { ...readSourceUrl(receipts), ...files } }),
  };
}

function nextSteps(source: InitSource | undefined, keys: SignerKeys | undefined): readonly string[] {
  const signers = keys ? [`Releases are accepted from: ${keys.principals.join(', ')}\n`] : [];
  if (!source) return [...signers, 'Review and edit it, then run sluiced preflight\n'];
  return [
    ...signers,
    'Review it, then fetch the first release: systemctl enable --now sluiced-fetch && sluiced fetch --now\n',
    'Then check this node and start: sluiced preflight && systemctl enable --now sluiced-boot sluiced\n',
  ];
}

/** The tools beside iptables. */
const tools = ['ipset', 'conntrack', 'nft', 'ipvsadm', 'git', 'ssh-keygen'] as const;

/** Where releases and bundles are, as documentation and manifests place them; the default first. */
const bundles = ['/etc/sluice/rendered', '/var/lib/sluice-watch/rendered', '/var/lib/sluice-releases/work'] as const;

async function findingsOf(node: string, signers: string, run: Run): Promise<NodeFindings> {
  const { backend, families } = await detectTools('auto', run);
  const bundle = bundles.find((path) => ownerOf(path) !== undefined) ?? bundles[0];
  return {
    node,
    backend,
    iptables: families.ipv4?.version ?? families.ipv6?.version ?? null,
    tools: tools.filter((name) => findTool(name) !== undefined),
    missing: tools.filter((name) => findTool(name) === undefined),
    kubeProxy: kubeProxyOf(run).running(),
    bundle,
    bundleOwner: ownerOf(bundle) ?? null,
    signers,
    hasSigners: ownerOf(signers) !== undefined,
  };
}

/** The name that the kubelet of this machine was told, else undefined. */
function kubeletName(): string | undefined {
  const words = programsNamed('kubelet').flatMap((program) => program.words);
  const at = words.findIndex((word) => /^--?hostname-override(?:=|$)/.test(word));
  return at < 0 ? undefined : (words[at]?.split('=', 2)[1] ?? words[at + 1]);
}

/** The user who owns a file or directory; undefined where it is not there. */
const ownerOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.uid;

/** Where systemd finds units, below `/`: systemd.unit(5). The first one is the administrator's. */
const unitFolders = ['etc', 'run', 'usr/local/lib', 'usr/lib', 'lib'].map((folder) => `${folder}/systemd/system`);

/**
 * The units that this machine lacks: a package installs them, an archive that was unpacked elsewhere has them beside its programs.
 * @param bin the folder of the running program; units name it in the place of /usr/bin
 * @param root of the machine
 * @returns path → text; empty where systemd does not run, and where no unit is beside the program
 */
function missingUnits(bin: string, root = '/'): ReadonlyMap<string, string> {
  const shipped = join(bin, '../lib/systemd/system');
  const isUsable = existsSync(join(root, 'run/systemd/system')) && existsSync(shipped) && /^[\w./+-]+$/.test(bin);
  const names = isUsable
    ? readdirSync(shipped)
        .filter((name) => name.startsWith('sluiced'))
        .toSorted()
    : [];
  const missing = names.filter((name) => !unitFolders.some((folder) => existsSync(join(root, folder, name))));
  return new Map(
    missing.map((name) => [
      join(root, unitFolders[0] ?? '', name),
      readFileSync(join(shipped, name), 'utf8').replaceAll('/usr/bin/sluiced', join(bin, 'sluiced')),
    ]),
  );
}

/** The public keys of those who sign releases. */
interface SignerKeys {
  /** For allowed_signers, byte for byte the file that was given. */
  readonly text: string;
  /** Of keys that may sign releases, each once. */
  readonly principals: readonly string[];
}

/**
 * Reads and checks a file of public keys before it becomes allowed_signers.
 * @throws CommandError with every problem of it (`SIGNERS_INVALID`); no line of a private key is printed
 */
function readKeys(path: string): SignerKeys {
  const text = readText(path);
  if (/PRIVATE KEY/.test(text))
    throw refused(
      path,
      'it has a private key',
      'A node needs public keys alone: the `.pub` files, in lines of allowed_signers',
    );
  const signers = readSigners(path, text);
  if ('problems' in signers) throw new CommandError(signers.problems);
  const principals = signers.filter(({ namespaces }) => namespaces.includes(releaseNamespace));
  if (principals.length === 0)
    throw refused(
      path,
      `none of its ${signers.length} keys may sign releases`,
      `Give a key namespaces="${releaseNamespace}"`,
    );
  return { text, principals: [...new Set(principals.map(({ principal }) => principal))] };
}

function readText(path: string): string {
  try {
    return readTrusted(path, undefined, releaseLimits.signersBytesMax, linksMax).toString('latin1');
  } catch (error) {
    throw refused(path, reasonOf(error), 'Pass --keys with the file that lists who may sign releases');
  }
}

const refused = (path: string, why: string, hint: string): CommandError =>
  commandError('SIGNERS_INVALID', `Cannot use the keys in ${path}: ${why}`, hint);

/**
 * Writes files in order, each whole or not at all. Nothing is written where one of them is there with another text.
 * @param files path → text; they name no secret, so all users may read them, and only root can write them afterwards
 * @param force overwrites them
 * @returns the paths that were written; a file that has its text already is left alone
 * @throws CommandError (`OUTPUT_UNWRITABLE`)
 */
function writeFiles(files: ReadonlyMap<string, string>, force: boolean): readonly string[] {
  const changed = [...files].filter(([path, text]) => readIfThere(path) !== text);
  const existing = force ? [] : changed.filter(([path]) => isThere(path));
  if (existing.length > 0) throw new CommandError(existing.map(([path]) => unwritable(path, alreadyThere)));
  for (const [path, text] of changed) writeWhole(path, text, force);
  return changed.map(([path]) => path);
}

function writeWhole(path: string, text: string, force: boolean): void {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(temporary, text, { flag: 'wx', mode: 0o644, flush: true });
    // A link, other than a rename, fails where the file is there.
    if (force) renameSync(temporary, path);
    else linkSync(temporary, path);
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const why = isTaken ? alreadyThere : reasonOf(Object.assign(error as Error, { path }));
    throw new CommandError([unwritable(path, why)]);
  } finally {
    rmSync(temporary, { force: true });
  }
  syncPath(dirname(path));
}

const alreadyThere = 'it already exists';

const unwritable = (path: string, why: string) =>
  refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot write ${path}: ${why}`,
    why === alreadyThere
      ? 'Print a new one with `sluiced init -`, or overwrite this one with --force'
      : `Make ${dirname(path)} as root, or pass another file`,
  );
