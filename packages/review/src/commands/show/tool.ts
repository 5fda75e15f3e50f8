import type { ResolvedNode } from '@sluice/bundle';
import type { BundleTool } from '@sluice/netfilter';
import type { Layout } from '../../flows/layout.ts';
import type { ShownHost } from './host.ts';

/** The tools whose text can be printed alone. */
export type ShowTool = BundleTool | 'sysctl';

/** What of a node is shown. */
export interface Shown {
  /** `flat`, the default: kube-proxy's chain names; `tree`: the program that a node switches to. */
  readonly layout?: Layout;
  /** `shop/web`; left out: all of the node */
  readonly service?: string;
}

/** How the text for one tool is made. */
export interface ShownTool {
  /** The command that loads the text. */
  readonly loader: string;
  /** The text, `''` if the node has none. @throws Stopped with the problems for which the node would refuse it */
  text(node: ResolvedNode, shown: Shown, host: ShownHost): string;
  /** The lines of the bundle that are shown, as far as they depend on the machine. */
  lines(node: ResolvedNode): readonly string[];
}
