import { linkSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { reasonOf } from '@sluice/cli';
import { CommandError } from '../../command-error.ts';
import { nodeMisfit } from '../../config.ts';
import type { Run } from '../../kernel/command.ts';
import { programsNamed } from '../../kernel/facts.ts';
import { runChildren } from '../../kernel/run.ts';
import { detectTools, findTool } from '../../kernel/tools.ts';
import { kubeProxyOf } from '../../move/kube-proxy/kube-proxy.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { syncPath } from '../../state/files.ts';
import { answer, configProblem, type Terminal } from '../terminal/terminal.ts';
import { configText, type NodeFindings } from './text.ts';

interface InitOptions {
  readonly node?: string;
  readonly force?: boolean;
  readonly output?: string;
}

/** `sluiced init [FILE]`: writes a config of what is found on this node, whole or not at all; `-` prints it. */
export async function init(
  file: string,
  options: InitOptions,
  terminal: Terminal,
  run: Run = runChildren(),
): Promise<number> {
  const node = options.node ?? kubeletName() ?? hostname().toLowerCase();
  const misfit = nodeMisfit(node);
  if (misfit !== undefined) {
    const message = `Cannot use the node name ${JSON.stringify(node)}: ${misfit}`;
    throw new CommandError([configProblem(message, 'Pass the name that `kubectl get nodes` prints with --node')]);
  }
  const found = await findingsOf(node, run);
  const text = configText(found);
  if (file !== '-') writeConfig(resolve(file), text, options.force === true);
  const next = `Wrote ${file}: review and edit it, then run sluiced preflight\n`;
  const fields = { file: file === '-' ? null : resolve(file), ...found, config: text };
  answer(options, terminal, { kind: 'InitResult', fields, text: file === '-' ? text : next });
  return exitCodes.done;
}

/** The tools beside iptables. */
const tools = ['ipset', 'conntrack', 'nft', 'ipvsadm', 'git', 'ssh-keygen'] as const;

/** Where releases and bundles are, as documentation and manifests place them; the default first. */
const bundles = ['/etc/sluice/rendered', '/var/lib/sluice-watch/rendered', '/var/lib/sluice-releases/work'] as const;

async function findingsOf(node: string, run: Run): Promise<NodeFindings> {
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
    hasSigners: ownerOf('/etc/sluice/allowed_signers') !== undefined,
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

/** Only root can write it afterwards. It names no secret, so all users may read it. */
function writeConfig(path: string, text: string, force: boolean): void {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(temporary, text, { flag: 'wx', mode: 0o644, flush: true });
    // A link, other than a rename, fails where the file is there.
    if (force) renameSync(temporary, path);
    else linkSync(temporary, path);
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const why = isThere ? 'it already exists' : reasonOf(Object.assign(error as Error, { path }));
    const hint = isThere
      ? 'Print a new one with `sluiced init -`, or overwrite this one with --force'
      : `Make ${dirname(path)} as root, or pass another file`;
    throw new CommandError([
      { code: 'OUTPUT_UNWRITABLE', level: 'error', message: `Cannot write ${path}: ${why}`, hint },
    ]);
  } finally {
    rmSync(temporary, { force: true });
  }
  syncPath(dirname(path));
}
