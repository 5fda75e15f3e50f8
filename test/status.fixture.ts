import { Status } from '../packages/applier/src/observe/status/status.ts';

/** The status of a node that nothing has happened to yet, with every metric that `sluiced` exports. */
export function freshStatus(): Status {
  const status = new Status('node-1', () => 0, 1);
  status.remembers(
    {
      quarantined: () => 0,
      quarantinedServices: () => 0,
      notBeforeMs: () => 0,
      activeSinceMs: () => undefined,
      conntrack: () => undefined,
    },
    () => 0,
  );
  return status;
}
