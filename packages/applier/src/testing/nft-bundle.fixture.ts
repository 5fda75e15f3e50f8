import { printNftTable } from '@sluice/netfilter';

const element = (set: string, ...elements: readonly string[]): string =>
  `add element inet sluice ${set} { ${elements.join(', ')} }\n`;

/** A Service of a sample bundle in one family. */
interface SampleFrontend {
  readonly vip: string;
  readonly endpoints: readonly string[];
}

/** For tests only: the files of sample Services in mode nftables, below the profile. */
export function nftFiles(
  services: ReadonlyMap<string, readonly SampleFrontend[]>,
  extraBase: readonly string[] = [],
): readonly (readonly [path: string, text: string])[] {
  return [
    ['base/first.nft', printNftTable({ detector: 'address', masqueradeAll: false })],
    ['base/last.nft', [element('node4', '192.0.2.11'), ...extraBase.map((line) => `${line}\n`)].join('')],
    ...[...services].map(
      ([name, frontends]) => [`services/${name}.nft`, frontends.map(frontendText).join('')] as const,
    ),
  ];
}

function frontendText({ vip, endpoints }: SampleFrontend): string {
  const n = vip.includes(':') ? '6' : '4';
  const key = `${vip} . tcp . 80`;
  const head = element(`cluster${n}`, vip);
  if (endpoints.length === 0) return head + element(`none${n}`, `${key} : goto refuse`);
  const list = endpoints.map((one) => element(`tcp${n}`, `${vip} . 80 . \${slot} : ${one} . 8080`));
  const here = endpoints.map((one) => element(`loop${n}`, `${one} . ${one}`));
  return [head, element(`svc${n}`, `${key} : goto n\${count}`), ...list, ...here].join('');
}
