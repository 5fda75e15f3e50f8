/** The order of releases and their endpoint updates. */
export interface Ordinal {
  readonly serial: number;
  readonly revision?: number;
}

/** `release 7` or `update 3 of release 7`. */
export const nameOf = ({ serial, revision }: Ordinal): string =>
  revision === undefined ? `release ${serial}` : `update ${revision} of release ${serial}`;
