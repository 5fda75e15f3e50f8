import { type BundleTool, type Family, familyOf, type Tool } from '@sluice/netfilter';
import { readPath } from '@sluice/bundle';

/** The rule tools, each with its family. */
export const tools = Object.entries(familyOf) as readonly (readonly [Tool, Family])[];

/** The tool and kind of a file. @param path of a Service's file or a base file */
export function toolAt(path: string): {
  readonly tool: BundleTool;
  readonly kind: 'base' | 'service';
} {
  const what = readPath(path);
  if (what?.kind === 'base' || what?.kind === 'service') return { tool: what.tool, kind: what.kind };
  throw new TypeError(`Cannot find the tool of ${path}: it is neither a Service's file nor a base file`);
}
