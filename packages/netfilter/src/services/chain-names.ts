/** The parts of the names of chains that are made for Services, in both layouts. */
type ChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'SEP' | 'GRP';

function kindOf(name: string): string {
  const start = name.startsWith('SLU-') ? 4 : name.startsWith('KUBE-') ? 5 : 0;
  const dash = name.indexOf('-', start);
  return start === 0 || dash < 0 ? '' : name.slice(start, dash);
}

const among = (...kinds: readonly ChainKind[]): ((name: string) => boolean) => {
  const all: ReadonlySet<string> = new Set(kinds);
  return (name) => all.has(kindOf(name));
};

/** Whether a chain chooses an endpoint of a Service: of all endpoints, or of those on this node. */
export const choosesEndpoint = among('SVC', 'SVL');
/** Whether a chain is that of an endpoint, or of a group of endpoints. */
export const isOfEndpoint = among('SEP', 'GRP');
/** Whether a chain is one to which frontends lead. */
export const isOfFrontend = among('SVC', 'SVL', 'EXT', 'FW');
export const isGroup = (name: string): boolean => name.startsWith('SLU-GRP-');
/** Whether a chain chooses among the endpoints of this node. */
export const isLocal = among('SVL');
export const isOutside = among('EXT', 'FW');
/** Whether a chain tells sources by their networks. */
export const isRestricting = among('FW');

/** Whether a name ends in a tag, which identifies the content of its chain: such a chain is added and removed, never changed. */
const isTagged = (name: string): boolean => name.at(-3) === '.' && name.startsWith('SLU');

/** The name of a chain without its tag. */
export const withoutTag = (name: string): string => (isTagged(name) ? name.slice(0, -3) : name);

/** With the dash: `SLUICE-R` alone is the name of no chain of a tree. */
const dispatch = ['SLUICE-R-', 'SLUICE-T-'] as const;

/** The name of a chain without its tag; all chains of dispatch trees have one name. */
export const plainName = (name: string): string =>
  (isTagged(name) ? dispatch.find((stem) => name.startsWith(stem)) : undefined) ?? withoutTag(name);

/** Whether a chain belongs to a dispatch tree, where the order of rules does not matter: it follows from the set of all rules. */
export const isDispatch = (plain: string): boolean => dispatch.some((stem) => stem === plain);

/** The name with another kind: of the chain with the endpoints of this node, `SLU-EXT-…` is that of its external traffic. */
export const ofKind = (name: string, kind: ChainKind): string => name.replace(`-${kindOf(name)}-`, `-${kind}-`);

/** The other chain of a Service: that of the endpoints of this node for that of all endpoints, and the reverse. */
export const siblingOf = (name: string): string => ofKind(name, isLocal(name) ? 'SVC' : 'SVL');

/** The name of an endpoint's list of clients: that of its chain in layout `flat`. */
export const listOf = (chain: string): string => {
  const name = withoutTag(chain);
  return name.startsWith('SLU-') ? `KUBE-${name.slice(4)}` : name;
};
