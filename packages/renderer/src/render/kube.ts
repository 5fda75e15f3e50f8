import type { Place } from '@sluice/bundle';

/** A way into an object: `['spec', 'ports', 0, 'port']`. */
export type Path = readonly (string | number)[];

/** Where an object was read from. Looked up only when there is a problem to report. */
export interface Origin {
  /** The place of the value at `path`, or of its nearest ancestor that is there. */
  place(path: Path): Place;
}

/** JSON as it was read. Objects have no prototype surprises: `__proto__` is a key like any other. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** The kinds that Sluice reads; `load` counts the others and passes them over. */
export type KubeKind = 'Service' | 'Endpoints' | 'EndpointSlice' | 'Node' | 'ServiceCIDR';

/** An object of a known kind whose fields nobody has looked at yet. */
export interface KubeObject {
  readonly kind: KubeKind;
  readonly apiVersion: string;
  readonly value: JsonObject;
  readonly origin: Origin;
}
