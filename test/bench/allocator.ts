/** The environment of both daemons, as in packages/applier/systemd/sluiced.service and deploy/sluice-watch.service. The more memory a process has, the longer a fork takes. */
export const allocator = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '4096',
  MALLOC_MMAP_MAX_: '16384',
  MALLOC_TRIM_THRESHOLD_: '65536',
} as const;
