import type { SluiceConfig, Profile } from './config.ts';
import type { Model } from './model.ts';

/** The profiles of the known nodes, in their order; all of them without nodes. */
export function profilesInUse(model: Pick<Model, 'nodes'>, config: SluiceConfig): readonly Profile[] {
  const used = new Set(model.nodes.map((node) => node.profile));
  return used.size === 0 ? config.profiles : config.profiles.filter((profile) => used.has(profile.name));
}
