/** Limits of one Service. Beyond them is INPUT_TOO_LARGE for this Service alone, before anything is made of it. */
export const serviceLimits = {
  /** Ports, as in one EndpointSlice (`maxPorts` in `pkg/apis/discovery/validation`). */
  portsMax: 20_000,
  /**
   * Endpoints, each counted for every port that its slice has. Nodes take files of 8 MiB, which 100,000 exceed in every mode; each needs
   * some 4 kB while it is rendered.
   */
  portEndpointsMax: 100_000,
} as const;
