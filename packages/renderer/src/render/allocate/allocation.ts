/** Addresses and ports that Sluice allocated for one Service: `allocations/<namespace>/<name>.yaml`, beside the config. */
export interface Allocation {
  readonly namespace: string;
  readonly name: string;
  /** The file that it was read from; absent for a new one. */
  readonly file?: string;
  readonly clusterIPs: readonly string[];
  /** By port key as in `http/TCP`, `/TCP` for a port without a name. */
  readonly nodePorts: Readonly<Record<string, number>>;
  readonly healthCheckNodePort?: number;
}
