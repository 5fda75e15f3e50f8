import { need } from '../../deploy/programs.ts';
import type { Block } from '../../runbooks/runbook.ts';
import { controlAddresses, podCIDRs } from '../addresses.ts';
import { commit, type Mode, type System, type SystemPlace } from '../systems.ts';
import { nodeImage, placeImage } from './node-image.ts';
import { installing, runBlocks, type Site } from './page.ts';

/** Sluice as docs/in-place-of-kube-proxy.md installs it. */
export interface Installed extends System {
  /** Runs further commands of the page. @returns what each printed */
  readonly run: (place: SystemPlace, chosen: readonly Block[]) => Promise<readonly string[]>;
}

const siteOf = (image: string): Site => ({
  API: controlAddresses[0],
  PORT: '6443',
  IMAGE: image,
  PODS: podCIDRs.join(','),
});

/** The chart's DaemonSet with the image of a node, in a cluster that never had a kube-proxy. @param mode in the page's values */
export function installedSystem(mode: Mode = 'nftables'): Installed {
  const withMode = installing.map((block) => ({
    ...block,
    text: block.text.replace('mode: nftables', `mode: ${mode}`),
  }));
  let [helm, archive, site] = ['', '', siteOf('')];
  return {
    title: `Sluice, mode ${mode}, as installed`,
    mode,
    version: commit,
    prepare: async (context) => {
      const image = await nodeImage();
      if ('lack' in image) return context.skip(image.lack);
      [helm, archive] = [await need(context, 'helm'), image.archive];
    },
    start: async (place) => {
      site = siteOf(await placeImage(place, archive));
      try {
        await runBlocks(place, withMode, site, helm);
      } catch (error) {
        throw new Error(`${String(error)}\n${await podsOf(place)}`, { cause: error });
      }
      return new Map();
    },
    run: (place, chosen) => runBlocks(place, chosen, site, helm),
  };
}

/** What the pods of Sluice are and say. */
async function podsOf({ plane: { kubectl } }: SystemPlace): Promise<string> {
  const all = ['--all-containers', '--prefix', '--ignore-errors', '--tail=40'];
  return [
    await kubectl(['-n', 'sluice-nodes', 'describe', 'pods', '-l', 'app=sluiced']),
    await kubectl(['-n', 'sluice-nodes', 'logs', '-l', 'app=sluiced', ...all]),
  ].join('\n');
}
