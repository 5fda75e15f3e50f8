import { type Family, familyOf, type Tool } from '@sluice/bundle';

/** The tools of a bundle, each with the family of its rules. */
export const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The tool of a family. */
export const toolOf = { ipv4: 'iptables', ipv6: 'ip6tables' } as const satisfies Record<Family, Tool>;
