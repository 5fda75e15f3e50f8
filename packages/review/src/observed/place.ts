/** Where a rule is in the observed file, such as `observed.json:1204`; undefined: there is no such line. */
export type PlaceOf = (rule: string) => string | undefined;
