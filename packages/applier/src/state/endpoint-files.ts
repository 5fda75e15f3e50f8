import * as v from 'valibot';
import type { DeclinedEndpoints, ReleasedNetworks } from '../ports/endpoints.ts';
import { StateFile } from './state-file.ts';

const declined = v.strictObject({ schema: v.literal(1), declined: v.record(v.string(), v.string()) });
const networks = v.strictObject({ schema: v.literal(1), networks: v.array(v.string()) });

/** `declined.json` in the state directory: endpoints that failed a probe. Without it, they fail once more. */
export function declinedFile(state: string): DeclinedEndpoints {
  const file = new StateFile(`${state}/declined.json`, declined);
  const read = (): ReadonlyMap<string, string> => new Map(Object.entries(file.read()?.declined ?? {}));
  return {
    read,
    write: (all) => {
      if (all.size > 0 || read().size > 0) file.write({ schema: 1, declined: Object.fromEntries(all) });
    },
  };
}

/** `networks.json` in the state directory. Without it, endpoint keys can do less until the next release. */
export function networksFile(state: string): ReleasedNetworks {
  const file = new StateFile(`${state}/networks.json`, networks);
  return {
    read: () => file.read()?.networks ?? [],
    write: (all) => file.write({ schema: 1, networks: [...all] }),
  };
}
