import { join } from 'node:path';
import type { ProxySetting } from './settings.ts';

/** What the real kube-proxy in mode ipvs left in the emulated guest: `record.ts` writes it, `recorded.test.ts` compares it anywhere. */

export const ipvsSetting: ProxySetting = { title: 'mode ipvs', config: { mode: 'ipvs', ipvs: { scheduler: 'rr' } } };

/** Of the cluster: enough for most types of Services and policies. */
export const recordedServices = 8;

/** The variable with the folder in the guest that `vm/inside/observed.test.ts` writes files to. */
export const recordFolder = 'SLUICE_RECORD';

export const recordedFolder = join(import.meta.dirname, 'recorded');
