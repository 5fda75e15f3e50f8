import { maglevSizeOf, maglevSizes, type Problem } from '@sluice/netfilter';
import { ipvsSchedulerOf, isCommon, looksAtWeights, nftSchedulerOf } from '../model/schedulers.ts';
import type { Profile } from '../model/config.ts';
import type { Path } from '../model/kube.ts';
import type { Service } from '../model/model.ts';
import { schedulerKey, tableSizeKey, weightsKey } from '../read/annotations.ts';
import type { ReadService } from '../read/read-service.ts';

/** What an annotation does not do on nodes of some profiles. */
type Finding = Pick<Problem, 'code' | 'level' | 'hint'> & {
  readonly key: string;
  readonly why: string;
  readonly profiles: readonly Profile[];
};

/** What the annotations of a Service about its choice of endpoints do not do on nodes of the profiles, each once. */
export function schedulerProblems(
  read: ReadService,
  service: Service,
  profiles: readonly Profile[],
): readonly Problem[] {
  if (service.scheduler === undefined && service.weights === undefined && service.maglevSize === undefined) return [];
  const of = (mode: Profile['mode']): readonly Profile[] => profiles.filter((profile) => profile.mode === mode);
  const found = [
    ...ofIptables(service, of('iptables')),
    ...ofNftables(service, of('nftables')),
    ...ofIpvs(service, of('ipvs')),
  ];
  return found
    .filter((one) => one.profiles.length > 0)
    .map(({ code, level, key, why, profiles: own, hint }) => ({
      code,
      level,
      ...subject(read, ['metadata', 'annotations', key]),
      message: `Cannot apply annotation ${key} (${named(own.map(({ name }) => name))}): ${why}`,
      hint,
    }));
}

const ignored = { code: 'ANNOTATION_IGNORED', level: 'note' } as const;

function ofIptables({ scheduler, weights }: Service, profiles: readonly Profile[]): readonly Finding[] {
  const equal = {
    ...ignored,
    why: 'mode iptables chooses all endpoints with equal probability',
    hint: 'No change is needed if the annotation is for nodes of other modes; otherwise set mode: nftables or ipvs in the profile',
    profiles,
  };
  const differs = { ...equal, code: 'DIFFERS_SCHEDULER', level: 'differs', key: schedulerKey } as const;
  return [
    ...(scheduler === undefined || scheduler === 'random'
      ? []
      : [isCommon(scheduler) ? differs : { ...equal, key: schedulerKey }]),
    ...(weights === undefined ? [] : [{ ...equal, key: weightsKey }]),
  ];
}

function ofNftables(service: Service, profiles: readonly Profile[]): readonly Finding[] {
  const { scheduler, maglevSize } = service;
  const own = nftSchedulerOf(service);
  return [
    ...when(scheduler !== undefined && !isCommon(scheduler), {
      ...ignored,
      key: schedulerKey,
      why: `mode nftables has no scheduler ${scheduler}, and chooses at random`,
      hint: 'No change is needed if the annotation is for nodes of mode ipvs; round-robin, source-hash and maglev are for both modes',
      profiles,
    }),
    ...when(own === undefined && isCommon(scheduler) && scheduler !== 'random', {
      code: 'SCHEDULER_IGNORED',
      level: 'warning',
      key: schedulerKey,
      why: 'with sessionAffinity ClientIP, mode nftables chooses an endpoint at random for a client that it does not know',
      hint: 'Remove sessionAffinity, or the annotation',
      profiles,
    }),
    ...when(maglevSize !== undefined && scheduler !== 'maglev', {
      ...ignored,
      key: tableSizeKey,
      why: 'the scheduler is not maglev',
      hint: `Set ${schedulerKey} to maglev, or remove the annotation`,
      profiles,
    }),
    ...smallTable(service, profiles),
  ];
}

const when = (isSo: boolean, finding: Finding): readonly Finding[] => (isSo ? [finding] : []);

/** With ten slots each, endpoints have shares that differ by up to a tenth. */
const slotsOfEach = 10;

function smallTable(service: Service, profiles: readonly Profile[]): readonly Finding[] {
  const size = maglevSizeOf(nftSchedulerOf(service));
  if (size === undefined) return [];
  const counts = service.ports.flatMap(({ families }) =>
    Object.values(families).map(({ endpoints }) => endpoints.length),
  );
  const most = Math.max(0, ...counts);
  if (most * slotsOfEach <= size) return [];
  const greater = maglevSizes.find((one) => most * slotsOfEach <= one) ?? maglevSizes.at(-1);
  const why = `${most} endpoints have only ${size} slots, so that their shares differ by more than a tenth`;
  return [
    {
      code: 'MAGLEV_TABLE_SMALL',
      level: greater === size ? 'note' : 'warning',
      key: schedulerKey,
      why: most > size ? `${most} endpoints have only ${size} slots, so that some get no connection` : why,
      hint: greater === size ? 'Choose another scheduler, or split the Service' : `Set ${tableSizeKey} to "${greater}"`,
      profiles,
    },
  ];
}

function ofIpvs(service: Service, profiles: readonly Profile[]): readonly Finding[] {
  const schedulerOf = (profile: Profile) => ipvsSchedulerOf(service, profile.ipvs?.scheduler ?? 'rr');
  const blind = profiles.filter((profile) => !looksAtWeights(schedulerOf(profile)));
  const schedulers = [...new Set(blind.map(schedulerOf))].join(', ');
  return [
    ...when(service.weights !== undefined, {
      code: 'WEIGHTS_IGNORED',
      level: 'warning',
      key: weightsKey,
      why: `scheduler ${schedulers} ignores weights`,
      hint: `Set ${schedulerKey} to a scheduler that uses weights, such as round-robin or wlc, or remove the weights`,
      profiles: blind,
    }),
    ...when(service.maglevSize !== undefined, {
      ...ignored,
      key: tableSizeKey,
      why: 'the kernel sets the size of the tables of mode ipvs',
      hint: 'No change is needed if the annotation is for nodes of mode nftables',
      profiles,
    }),
  ];
}

/** The place and the name of a Service, for problems of it. */
export function subject(
  read: ReadService,
  path: Path,
): Pick<Problem, 'at' | 'object'> & { at: NonNullable<Problem['at']> } {
  return { at: read.object.origin.place(path), object: `Service ${read.key}` };
}

/** `profiles default, edge` */
export function named(profiles: readonly string[]): string {
  return `profile${profiles.length === 1 ? '' : 's'} ${profiles.join(', ')}`;
}
