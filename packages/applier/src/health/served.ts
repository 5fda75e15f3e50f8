import { type BundleFiles, serviceFile } from '@sluice/bundle';
import {
  type BundleTool,
  families,
  type ForwardingState,
  localChoicesIn,
  localChoicesOf,
  modeFacts,
} from '@sluice/netfilter';
import { type HealthService, profileOf } from './declared.ts';

/** The tools whose files may have endpoints, in any mode. */
const tools: readonly BundleTool[] = [
  ...new Set(Object.values(modeFacts).flatMap((mode) => families.map((family) => mode.serviceTool(family)))),
];

/**
 * Whether the active rules lead packets from outside to an endpoint on this node that a Service has in a newer bundle: a node must not ask
 * for packets that it drops. Early endpoint sync may reach some Services and not others, such as one whose port changes too.
 */
export function servedBy(
  rules: ForwardingState,
  files: BundleFiles,
  node: string,
): (service: Pick<HealthService, 'namespace' | 'name'>) => boolean {
  let profile: string | undefined;
  let active: ReadonlySet<string> | undefined;
  return ({ namespace, name }) => {
    // Only now: few Services are asked about, and reading YAML takes milliseconds.
    profile ??= profileOf(files, node) ?? '';
    active ??= localChoicesOf(rules);
    return tools.some((tool) => {
      const text = files.get(serviceFile(profile ?? '', namespace, name, tool)) ?? '';
      return [...localChoicesIn(tool, text, node)].some((choice) => active?.has(choice));
    });
  };
}
