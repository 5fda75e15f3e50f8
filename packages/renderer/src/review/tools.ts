import { type Family, familyOf, readPath, type Tool, type VirtualTool } from '@sluice/bundle';

/** The tools of rules, each with the family of its rules. */
export const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The tool of a family's rules. */
export const toolOf = { ipv4: 'iptables', ipv6: 'ip6tables' } as const satisfies Record<Family, Tool>;

/** What mode ipvs has besides rules, in the order of loading. */
export const virtualTools = ['ipset', 'ipvs'] as const satisfies readonly VirtualTool[];

/** Which tool a file is for, and whose it is. The path must be that of a Service's file or a base file. */
export function toolAt(path: string): {
  readonly tool: Tool | VirtualTool;
  readonly kind: 'base' | 'service';
} {
  const what = readPath(path);
  if (what?.kind === 'base' || what?.kind === 'service') return { tool: what.tool, kind: what.kind };
  throw new TypeError(`Cannot tell the tool of ${path}: it is no file of a Service or a base`);
}
