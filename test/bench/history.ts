import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listTree } from '../../packages/renderer/src/load/tree.ts';

export interface HistoryShape {
  readonly commits: number;
  /** The commit, counted from 1, after which the first Service has no endpoints. */
  readonly planted: number;
  readonly services: number;
}

/**
 * Makes a Git history of a bundle: each commit gives another Service other endpoints, and the planted one takes those of the first.
 * @param bundle of `clusterList`
 * @param repository a new directory
 * @returns the planted commit
 */
export function makeHistory(bundle: string, repository: string, shape: HistoryShape): string {
  mkdirSync(repository);
  const git = (args: readonly string[], input = ''): string =>
    execFileSync('/usr/bin/git', ['-C', repository, ...args], { input, encoding: 'utf8', maxBuffer: 1 << 30 });
  git(['init', '-q', '-b', 'main']);
  const parts: string[] = [];
  const commit = (n: number, files: ReadonlyMap<string, string>): void => {
    const message = `change ${n}`;
    parts.push(
      `commit refs/heads/main\nmark :${n + 1}\ncommitter Bench <bench@example.org> ${1_760_000_000 + n * 60} +0000\n`,
      `data ${message.length}\n${message}\n`,
      ...[...files].map(
        ([path, text]) => `M 100644 inline rendered/${path}\ndata ${Buffer.byteLength(text)}\n${text}\n`,
      ),
    );
  };
  const paths = listTree(bundle).filter((path) => !path.startsWith('.'));
  commit(0, new Map(paths.map((path) => [path, readFileSync(join(bundle, path), 'utf8')])));
  const texts = new Map<string, string>();
  for (let n = 1; n < shape.commits; n++) {
    const path = pathOf(n === shape.planted ? 0 : 1 + (n % (shape.services - 1)));
    const text = texts.get(path) ?? readFileSync(join(bundle, path), 'utf8');
    const fresh =
      n === shape.planted ? withoutEndpoints(text) : text.replaceAll(/10\.1\d\d\./g, `10.${100 + (n % 99)}.`);
    texts.set(path, fresh);
    commit(n, new Map([[path, fresh]]));
  }
  const stream = join(repository, 'stream');
  writeFileSync(stream, parts.join(''));
  execFileSync('/bin/sh', ['-c', 'exec /usr/bin/git -C "$0" fast-import --quiet <"$1"', repository, stream]);
  git(['repack', '-adq']);
  git(['reset', '-q', '--hard', 'main']);
  return git(['rev-list', '--reverse', 'main']).split('\n')[shape.planted] ?? '';
}

const pathOf = (service: number): string => `profiles/default/services/ns-${service % 50}/svc-${service}.iptables`;

/** Rules that reject what the Service got, as the renderer writes them for one without endpoints. */
function withoutEndpoints(text: string): string {
  const header = text.split('\n').filter((line) => line.startsWith('#') && !line.startsWith('# endpoint'));
  const [, address = '', name = ''] = /^# (\S+): (\S+) 80\/TCP$/m.exec(text) ?? [];
  const service = header[0]!.split(' ')[1];
  const rule = `-A KUBE-SERVICES -m comment --comment "${service}:${name} has no endpoints" -m tcp -p tcp -d ${address} --dport 80 -j REJECT`;
  return `${header.join('\n')}\n*filter\n${rule}\nCOMMIT\n`;
}
