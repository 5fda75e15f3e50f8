import type { BundleFiles } from '@sluice/bundle';

/**
 * For tests only: a bundle of `sampleBundle` with session affinity for one Service, as the renderer writes it: rules for known clients
 * come before the random choice; in mode nftables, another kind of list.
 * @param service `namespace/name`
 */
export function withAffinity(files: BundleFiles, service: string, seconds: number): Map<string, string> {
  const changed = [...files].flatMap(([path, text]) => {
    if (path.includes(`/services/${service}.ip`)) return [[path, remembering(text, seconds)] as const];
    const isTable = path.endsWith(`/services/${service}.nft`);
    return isTable ? [[path, text.replaceAll('goto n${count}', `goto s\${count}t${seconds}`)] as const] : [];
  });
  return new Map([...files, ...changed]);
}

function remembering(text: string, seconds: number): string {
  const lines = text.split('\n');
  const choices = lines.filter((line) => line.startsWith('-A KUBE-SVC-'));
  const affinityRules = choices.map((line) => {
    const endpoint = / -j (\S+)$/.exec(line)?.[1] ?? '';
    const recent = `-m recent --name ${endpoint} --rcheck --seconds ${seconds} --reap -j ${endpoint}`;
    return line.replace(/(?<="[^"]*") .*$/, ` ${recent}`);
  });
  const remember = (line: string): string =>
    line.replace(/^-A (KUBE-SEP-\S+) (.*?") /, '-A $1 $2 -m recent --name $1 --set ');
  const first = lines.findIndex((line) => line.startsWith('-A KUBE-SVC-'));
  return [...lines.slice(0, first), ...affinityRules, ...lines.slice(first)].map(remember).join('\n');
}
